//! Answers of `stat`, `access` and their kin that are given again, before the real call is made.
//!
//! The operating system keeps what it was told of a file for a time. A thread keeps its answers as well,
//! word for word. So nothing of them has to be understood here: whose file it is in this process's eyes,
//! or of which device. A kept answer is given again as long as
//!
//! 1. its attributes are those that the agent told last, and will be for the time that it told,
//! 2. nothing about the file, and no name on this mount, has changed since: the agent says so in shared
//!    memory before anybody hears of a change,
//! 3. the process has not changed who it is, or where its paths begin.
//!
//! By path that is done for whole paths of regular files without a symbolic link in them, if the agent will
//! hear of a change of any name on the way. Nothing here allocates, locks or waits. Answers are a thread's
//! own: no other thread writes one while it is read, and a signal handler that comes between is passed
//! through.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hearth_client::local::{Count, Local, NamesMark, ToldAttributes, VolatileAttributes};

use crate::errno::keeping_errno;
use crate::names::At;
use crate::{cache, sys, thread};

/// Answers of one form that a thread keeps by path, and as many by file.
const EACH: usize = 4;
/// Answers that it keeps in all.
const KEPT: usize = 5 * EACH;
/// Longer paths are not kept.
const PATH_MAX: usize = 120;
/// Bytes of the longest answer, that of `statx`.
const ANSWER_MAX: usize = size_of::<libc::statx>();

/// How often this process has changed who it is or where its paths begin.
static SELVES: AtomicU32 = AtomicU32::new(0);

/// The process is about to be somebody else, or elsewhere.
pub(crate) fn forget_all() {
    SELVES.fetch_add(1, Relaxed);
}

/// Which call is to be answered: answers of one do for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Stat,
    Statx {
        flags: c_int,
        mask: c_uint,
    },
    /// The call has succeeded: that is all it says.
    Access {
        mode: c_int,
        flags: c_int,
    },
}

impl Form {
    fn bytes(self) -> usize {
        match self {
            Form::Stat => size_of::<libc::stat>(),
            Form::Statx { .. } => ANSWER_MAX,
            Form::Access { .. } => 0,
        }
    }
}

/// The subject of a question.
#[derive(Clone, Copy)]
enum About<'a> {
    Path(&'a [u8]),
    File(u64),
}

#[derive(Clone, Copy)]
struct Answer {
    form: Form,
    /// Its number, if it was asked by descriptor; else 0.
    file: u64,
    path: [u8; PATH_MAX],
    len: usize,
    told: ToldAttributes,
    selves: u32,
    bytes: [u8; ANSWER_MAX],
}

/// A place that keeps one answer.
#[derive(Clone, Copy)]
struct Place {
    answer: Option<Answer>,
    was_given: bool,
    /// Answers in a row that were kept for nothing.
    wasted: u32,
    /// Answers that are not kept from now on.
    skip: u32,
}

thread_local! {
    static PLACES: RefCell<[Place; KEPT]> = const {
        RefCell::new([Place { answer: None, was_given: false, wasted: 0, skip: 0 }; KEPT])
    };
}

/// A call about a path.
///
/// # Safety
/// As the call: there is a C string at `path`, and room for an answer at `buf`.
#[inline]
pub(crate) unsafe fn by_path(
    form: Form,
    path: *const c_char,
    buf: *mut c_void,
    real: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: as the caller says.
    match unsafe { whole(path) } {
        // SAFETY: as the caller says.
        Some(path) => unsafe { answer(form, About::Path(path), buf, real) },
        None => real(),
    }
}

/// A path that an answer may be kept for.
///
/// # Safety
/// There is a C string at `path`, if it is not null.
#[inline]
unsafe fn whole<'a>(path: *const c_char) -> Option<&'a [u8]> {
    if !cache::is_configured() || path.is_null() {
        return None;
    }
    // SAFETY: as the caller says; no more is read than that many bytes, up to the string's end.
    let path =
        unsafe { slice::from_raw_parts(path.cast::<u8>(), libc::strnlen(path, PATH_MAX + 1)) };
    (path.first() == Some(&b'/') && path.len() <= PATH_MAX).then_some(path)
}

/// A call that asks whether something may be done to what a whole path leads to.
///
/// # Safety
/// As the call: there is a C string at `path`, if it is not null.
#[inline]
pub(crate) unsafe fn access(
    (mode, flags): (c_int, c_int),
    path: *const c_char,
    real: impl Fn() -> c_int,
) -> c_int {
    // SAFETY: as the caller says.
    let path = unsafe { whole(path) };
    let Some(path) = path.filter(|_| flags & !libc::AT_EACCESS == 0) else {
        return real();
    };
    let Some(local) = cache::mapped() else {
        return unmapped(real);
    };
    let (form, about) = (Form::Access { mode, flags }, About::Path(path));
    // SAFETY: nothing is written for an answer of this form.
    if unsafe { give(local, form, about, ptr::dangling_mut()) }.is_some() {
        local.count(thread::shard(local), Count::Stats, 1);
        return 0;
    }
    let names = local.names();
    let done = real();
    if done == 0 {
        // The basis of the first answer may have changed before the look: so the call is made again.
        let kept = || {
            keep(
                local,
                &names,
                (form, about),
                || seen_at(path),
                || real() == 0,
            )
        };
        let _ = keeping_errno(kept);
    }
    done
}

/// The answer of `statx` about a path, in its own form.
fn seen_at(path: &[u8]) -> Option<[u8; ANSWER_MAX]> {
    let mut name = [0; PATH_MAX + 1];
    name.get_mut(..path.len())?.copy_from_slice(path);
    sys::seen_at(CStr::from_bytes_until_nul(&name).ok()?)
}

/// A call that cannot be answered yet.
#[cold]
fn unmapped(real: impl FnOnce() -> c_int) -> c_int {
    let done = real();
    if done == 0 {
        cache::count_towards_mapping();
    }
    done
}

/// A call about a descriptor.
///
/// # Safety
/// As the call: there is room for an answer at `buf`.
#[inline]
pub(crate) unsafe fn by_descriptor(
    form: Form,
    fd: c_int,
    buf: *mut c_void,
    real: impl FnOnce() -> c_int,
) -> c_int {
    match cache::known_file(fd) {
        // SAFETY: as the caller says.
        Some(file) => unsafe { answer(form, About::File(file), buf, real) },
        None => real(),
    }
}

/// A call about a path, from a directory on: of those, what is asked by whole path or by descriptor.
///
/// # Safety
/// As the call: there is a C string at `path`, if it is not null, and room for an answer at `buf`.
#[inline]
pub(crate) unsafe fn by_place(
    form: Form,
    at: At,
    flags: c_int,
    buf: *mut c_void,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if !cache::is_configured() || at.path.is_null() || !is_usual(flags) {
        return real();
    }
    // SAFETY: as the caller says.
    let is_empty = unsafe { *at.path } == 0;
    match is_empty && flags & libc::AT_EMPTY_PATH != 0 {
        // SAFETY: as the caller says.
        true => unsafe { by_descriptor(form, at.dir, buf, real) },
        // SAFETY: as the caller says. A whole path leads to the same from any directory.
        false => unsafe { by_path(form, at.path, buf, real) },
    }
}

/// Flags that an answer does not depend on, for a file that no symbolic link leads to.
fn is_usual(flags: c_int) -> bool {
    flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT) == 0
}

/// # Safety
/// There is room for an answer at `buf`.
#[inline]
unsafe fn answer(
    form: Form,
    about: About<'_>,
    buf: *mut c_void,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let Some(local) = cache::mapped() else {
        return unmapped(real);
    };
    // SAFETY: as the caller says.
    if unsafe { give(local, form, about, buf) }.is_some() {
        local.count(thread::shard(local), Count::Stats, 1);
        return 0;
    }
    let names = local.names();
    let done = real();
    if done == 0 {
        // SAFETY: the real call has just filled it.
        let look = || Some(unsafe { copied(buf, form) });
        let _ = keeping_errno(|| keep(local, &names, (form, about), look, || true));
    }
    done
}

/// # Safety
/// There is room for an answer at `buf`.
#[inline]
unsafe fn give(local: &Local, form: Form, about: About<'_>, buf: *mut c_void) -> Option<()> {
    PLACES.with(|places| {
        let mut places = places.try_borrow_mut().ok()?;
        let place = &mut places[about.place(form)];
        let kept = place.answer.as_ref()?;
        let is_it =
            kept.form == form && kept.is_about(about) && kept.selves == SELVES.load(Relaxed);
        if !is_it || !local.is_good(&kept.told, sys::coarse_now_ns()) {
            return None;
        }
        // SAFETY: as the caller says, for an answer of this form.
        unsafe { ptr::copy_nonoverlapping(kept.bytes.as_ptr(), buf.cast(), form.bytes()) };
        place.was_given = true;
        Some(())
    })
}

/// # Safety
/// There is an answer at `buf`.
unsafe fn copied(buf: *const c_void, form: Form) -> [u8; ANSWER_MAX] {
    let mut bytes = [0; ANSWER_MAX];
    // SAFETY: as the caller says, and no answer is longer than the place.
    unsafe { ptr::copy_nonoverlapping(buf.cast(), bytes.as_mut_ptr(), form.bytes()) };
    bytes
}

/// Keeps what the real call has answered, if it may be given again. `names` is from before that call.
/// `look` says what the answer is about, and `is_so`, after that, whether it is still the answer.
#[cold]
#[inline(never)]
fn keep(
    local: &Local,
    names: &NamesMark,
    (form, about): (Form, About<'_>),
    look: impl FnOnce() -> Option<[u8; ANSWER_MAX]>,
    is_so: impl FnOnce() -> bool,
) -> Option<()> {
    let selves = SELVES.load(Relaxed);
    PLACES.with(|places| places.try_borrow_mut().ok()?[about.place(form)].is_worth_it())?;
    let bytes = look()?;
    let seen = Seen::of(form, &bytes)?;
    let told = local.told(seen.file)?;
    let is_same = told.digest == seen.attributes.digest() && told.is_of(names);
    if !is_same || !cache::is_of_mount(seen.device) {
        return None;
    }
    let mut answer = Answer {
        form,
        file: 0,
        path: [0; PATH_MAX],
        len: 0,
        told,
        selves,
        bytes,
    };
    match about {
        About::File(file) if file == seen.file => answer.file = file,
        About::File(_) => return None,
        About::Path(path) => {
            // Each directory on the way is looked up for that as well, so the count comes last.
            if !sys::is_plain_path(path) || !local.are_heard_since(names) {
                return None;
            }
            answer.path[..path.len()].copy_from_slice(path);
            answer.len = path.len();
        }
    }
    // Nothing has changed since before the real call, so the path leads here still.
    if !is_so() || !local.is_good(&told, sys::coarse_now_ns()) {
        return None;
    }
    PLACES.with(|places| {
        places.try_borrow_mut().ok()?[about.place(form)].put(answer);
        Some(())
    })
}

impl About<'_> {
    #[inline]
    fn place(&self, form: Form) -> usize {
        let form = match form {
            Form::Stat => 0,
            Form::Statx { .. } => EACH,
            Form::Access { .. } => 2 * EACH,
        };
        match self {
            About::File(file) => form + *file as usize % EACH,
            About::Path(path) => {
                let last = path.iter().rev().take(4);
                let sum = last.fold(path.len(), |sum, byte| sum * 31 + usize::from(*byte));
                2 * EACH + form + sum % EACH
            }
        }
    }
}

impl Answer {
    #[inline]
    fn is_about(&self, about: About<'_>) -> bool {
        match about {
            About::File(file) => self.len == 0 && self.file == file,
            About::Path(path) => path == &self.path[..self.len],
        }
    }
}

impl Place {
    /// If answers are seldom given again, few are kept: to keep one by path asks about each directory.
    fn is_worth_it(&mut self) -> Option<()> {
        self.skip = self.skip.saturating_sub(1);
        (self.skip == 0).then_some(())
    }

    fn put(&mut self, answer: Answer) {
        /// At most one of so many (a power of two) is kept.
        const WASTED_MAX: u32 = 6;
        self.wasted = match self.was_given || self.answer.is_none() {
            true => 0,
            false => (self.wasted + 1).min(WASTED_MAX),
        };
        self.skip = 1 << self.wasted;
        self.was_given = false;
        self.answer = Some(answer);
    }
}

/// The content of an answer.
struct Seen {
    device: u64,
    file: u64,
    attributes: VolatileAttributes,
}

impl Seen {
    /// `None` for what is no regular file, or is not said in full.
    fn of(form: Form, bytes: &[u8; ANSWER_MAX]) -> Option<Seen> {
        let bytes = bytes.as_ptr();
        match form {
            Form::Stat => {
                // SAFETY: integers alone, of which any bytes are values, and there are enough of them.
                let stat: libc::stat = unsafe { ptr::read_unaligned(bytes.cast()) };
                Seen::of_stat(&stat)
            }
            Form::Statx { .. } | Form::Access { .. } => {
                // SAFETY: as above.
                let statx: libc::statx = unsafe { ptr::read_unaligned(bytes.cast()) };
                Seen::of_statx(&statx)
            }
        }
    }

    #[allow(
        clippy::useless_conversion,
        reason = "on some machines the type is another"
    )]
    fn of_stat(stat: &libc::stat) -> Option<Seen> {
        let moment = |seconds: i64, nanos: i64| (seconds, nanos.cast_unsigned());
        (stat.st_mode & libc::S_IFMT == libc::S_IFREG).then(|| Seen {
            device: stat.st_dev,
            file: stat.st_ino,
            attributes: VolatileAttributes {
                size: stat.st_size.cast_unsigned(),
                blocks: stat.st_blocks.cast_unsigned(),
                mode: stat.st_mode & 0o7777,
                links: u64::from(stat.st_nlink),
                owner: (stat.st_uid, stat.st_gid),
                accessed: moment(stat.st_atime, stat.st_atime_nsec),
                modified: moment(stat.st_mtime, stat.st_mtime_nsec),
                changed: moment(stat.st_ctime, stat.st_ctime_nsec),
            },
        })
    }

    fn of_statx(statx: &libc::statx) -> Option<Seen> {
        let moment = |time: &libc::statx_timestamp| (time.tv_sec, u64::from(time.tv_nsec));
        let is_whole = statx.stx_mask & libc::STATX_BASIC_STATS == libc::STATX_BASIC_STATS;
        let mode = u32::from(statx.stx_mode);
        (is_whole && mode & libc::S_IFMT == libc::S_IFREG).then(|| Seen {
            device: libc::makedev(statx.stx_dev_major, statx.stx_dev_minor),
            file: statx.stx_ino,
            attributes: VolatileAttributes {
                size: statx.stx_size,
                blocks: statx.stx_blocks,
                mode: mode & 0o7777,
                links: u64::from(statx.stx_nlink),
                owner: (statx.stx_uid, statx.stx_gid),
                accessed: moment(&statx.stx_atime),
                modified: moment(&statx.stx_mtime),
                changed: moment(&statx.stx_ctime),
            },
        })
    }
}
