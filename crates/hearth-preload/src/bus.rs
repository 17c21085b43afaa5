//! Pages of mappings that the mount no longer has: mapped from the store when they are touched, which
//! else would end the program (`SIGBUS`).
//!
//! 1. Only where the operating system's default would have ended it: a handler of the program's own
//!    takes the place of this one, and what this one cannot mend ends the program as before.
//! 2. A page that the program has changed for itself (a private mapping) is never replaced: what is
//!    mapped was not there. Of a mapping that can be written, that is the page that was touched.
//! 3. Shared mappings that can be written are left alone: the store's bytes may be older.
//! 4. One thread at a time looks and maps, so none maps over what another has just been given.
//!
//! Runs in a signal handler: system calls and this thread's stack alone.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use crate::errno::keeping_errno;
use crate::{behind, sys};

/// The operating system's word for memory whose file does not have it.
const NOT_THERE: c_int = 2;
/// Longer lines of the list of mappings are passed over.
const LINE_MAX: usize = 4096;
/// Pages of a mapping that nobody writes which are mapped at once.
const RUN_PAGES: usize = 256;
const PAGE: usize = 4096;

/// Threads that may have touched one page before the first of them was helped.
const TOUCHES_MAX: usize = 1000;

static IS_BUSY: AtomicBool = AtomicBool::new(false);
/// The page that was touched last, and how often in a row: one past the file's end is never there.
static LAST: AtomicUsize = AtomicUsize::new(0);
static TOUCHES: AtomicUsize = AtomicUsize::new(0);

/// Takes the signal, if nobody else wants it.
pub(crate) fn start() {
    if !behind::is_on() {
        return;
    }
    // SAFETY: asks for and sets the action of a signal, with a function of this library, which is
    // never unloaded; all zeroes are a value of the type.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut now) != 0
            || now.sa_sigaction != libc::SIG_DFL
        {
            return;
        }
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = touched;
        now.sa_sigaction = handler as *const () as usize;
        now.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGBUS, &raw const now, ptr::null_mut());
    }
}

extern "C" fn touched(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the operating system gives a valid description, whose kind has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let is_mended = code == NOT_THERE && keeping_errno(|| alone(|| mend(address)).is_some());
    if is_mended {
        return;
    }
    // SAFETY: puts the default back, and has the signal come again where nothing is touched again.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if code != NOT_THERE {
            libc::raise(signal);
        }
    }
}

fn alone<T>(work: impl FnOnce() -> T) -> T {
    // The thread that has it is in such a handler as well, and waits for nobody.
    while IS_BUSY
        .compare_exchange_weak(false, true, Acquire, Relaxed)
        .is_err()
    {
        std::hint::spin_loop();
    }
    let done = work();
    IS_BUSY.store(false, Release);
    done
}

/// One line of the list of mappings.
#[derive(Clone, Copy)]
struct Mapping<'a> {
    start: usize,
    end: usize,
    access: &'a [u8],
    offset: u64,
    device: u64,
    number: u64,
    path: &'a CStr,
}

impl Mapping<'_> {
    fn has(&self, kind: u8) -> bool {
        self.access.contains(&kind)
    }

    fn protection(&self) -> c_int {
        let rows = [
            (b'r', libc::PROT_READ),
            (b'w', libc::PROT_WRITE),
            (b'x', libc::PROT_EXEC),
        ];
        let set = rows.iter().filter(|(kind, _)| self.has(*kind));
        set.fold(0, |all, (_, bit)| all | bit)
    }

    /// The pages to be mapped when `page` was touched.
    fn missing(&self, page: usize) -> Range<usize> {
        let one = page..page + PAGE;
        if self.has(b's') {
            return self.start..self.end;
        }
        if self.has(b'w') {
            return one;
        }
        let most = ((self.end - page) / PAGE).min(RUN_PAGES);
        let mut entries = [0_u64; RUN_PAGES];
        let Some(entries) = sys::page_entries(page / PAGE, &mut entries[..most]) else {
            return one;
        };
        // There, or kept on a disk: it may have been changed while it could be written.
        let is_there = |entry: &u64| entry >> 62 != 0;
        let count = entries.iter().position(is_there).unwrap_or(entries.len());
        page..page + count.max(1) * PAGE
    }
}

fn mend(address: usize) -> Option<()> {
    let mut line = [0; LINE_MAX];
    let mapping = find(address, &mut line)?;
    let page = address / PAGE * PAGE;
    if !behind::is_device(mapping.device) {
        // Somebody else has just mended it.
        let is_mended = behind::is_behind(mapping.device) && !is_touched_again(page);
        return is_mended.then_some(());
    }
    if !behind::is_gone() || is_touched_again(page) {
        return None;
    }
    if mapping.has(b's') && mapping.has(b'w') {
        return None;
    }
    let store = behind::open_mapped(mapping.path, mapping.number)?;
    let range = mapping.missing(page);
    let offset = mapping.offset + (range.start - mapping.start) as u64;
    let how = match mapping.has(b's') {
        true => libc::MAP_SHARED,
        false => libc::MAP_PRIVATE,
    };
    sys::map_over(&store, &range, (mapping.protection(), how), offset)
}

fn is_touched_again(page: usize) -> bool {
    if LAST.swap(page, Relaxed) != page {
        TOUCHES.store(0, Relaxed);
    }
    TOUCHES.fetch_add(1, Relaxed) > TOUCHES_MAX
}

/// The mapping that an address lies in.
fn find(address: usize, line: &mut [u8; LINE_MAX]) -> Option<Mapping<'_>> {
    let list = sys::list_of_mappings()?;
    let (mut filled, mut is_long) = (0, false);
    loop {
        let read = sys::read_more(&list, &mut line[filled..])?;
        filled += read;
        while let Some(end) = line[..filled].iter().position(|byte| *byte == b'\n') {
            let is_it = !is_long && range(&line[..end]).is_some_and(|it| it.contains(&address));
            if is_it {
                line[end] = 0;
                return parse(&line[..=end]);
            }
            is_long = false;
            line.copy_within(end + 1..filled, 0);
            filled -= end + 1;
        }
        if filled == LINE_MAX {
            (filled, is_long) = (0, true);
        }
        if read == 0 {
            return None;
        }
    }
}

fn range(line: &[u8]) -> Option<Range<usize>> {
    let (start, rest) = cut(line, b'-')?;
    let (end, _) = cut(rest, b' ')?;
    Some(number(start, 16)? as usize..number(end, 16)? as usize)
}

/// `start-end access offset major:minor number path`, and a zero.
fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let Range { start, end } = range(line)?;
    let (_, rest) = cut(line, b' ')?;
    let (access, rest) = cut(rest, b' ')?;
    let (offset, rest) = cut(rest, b' ')?;
    let (major, rest) = cut(rest, b':')?;
    let (minor, rest) = cut(rest, b' ')?;
    let (inode, rest) = cut(rest, b' ')?;
    let blanks = rest.iter().position(|byte| *byte != b' ')?;
    Some(Mapping {
        start,
        end,
        access,
        offset: number(offset, 16)?,
        device: sys::device(number(major, 16)? as u32, number(minor, 16)? as u32),
        number: number(inode, 10)?,
        path: CStr::from_bytes_with_nul(&rest[blanks..]).ok()?,
    })
}

fn cut(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|byte| *byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

fn number(text: &[u8], base: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_understood() {
        let line = b"7f00-9f00 r--s 00001000 fe:10 4711                  /mnt/a b\0";
        let mapping = parse(line).expect("it is well formed");
        assert_eq!((mapping.start, mapping.end), (0x7f00, 0x9f00));
        assert!(mapping.has(b's') && !mapping.has(b'w'));
        assert_eq!(mapping.device, sys::device(0xfe, 0x10));
        assert_eq!((mapping.offset, mapping.number), (0x1000, 4711));
        assert_eq!(mapping.path, c"/mnt/a b");
    }

    #[test]
    fn the_mapping_of_a_function_is_found() {
        let mut line = [0; LINE_MAX];
        let here = a_line_of_the_list_is_understood as *const () as usize;
        let found = find(here, &mut line).expect("code is mapped");
        assert!(found.has(b'x') && found.path.to_bytes().len() > 1);
        assert!(find(8, &mut line).is_none());
    }
}
