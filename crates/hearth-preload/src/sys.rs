//! Questions to the operating system that leave `errno` alone and pass no hook: rustix makes the
//! system calls itself.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::IoSliceMut;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicI32;

use crate::names::At;
use hearth_client::{MAPPED, OWNER, Owner};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Statx, StatxFlags,
    XattrFlags,
};
use rustix::io::{DupFlags, Errno, FdFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The kind of a descriptor in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file, a directory or a block device.
    Recorded,
    /// A socket, a pipe, a terminal.
    Other,
}

fn borrow<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    // SAFETY: it is asked for one system call at a time, which answers for a closed descriptor too;
    // only -1 is no value of the type.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The kind of `fd`; `None` if it is not open.
pub(crate) fn kind(fd: c_int) -> Option<Kind> {
    let stat = rustix::fs::fstat(borrow(fd)?).ok()?;
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::BlockDevice => Kind::Recorded,
        _ => Kind::Other,
    })
}

/// The flags that `fd` was opened with, as far as they last.
pub(crate) fn open_flags(fd: c_int) -> c_int {
    let flags = borrow(fd).and_then(|fd| rustix::fs::fcntl_getfl(fd).ok());
    flags.unwrap_or(OFlags::empty()).bits().cast_signed()
}

/// Whether files of this process may grow as they like.
pub(crate) fn files_are_unlimited() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    limit.current.is_none()
}

/// The offset of `fd`, if it has one.
pub(crate) fn tell(fd: c_int) -> Option<i64> {
    rustix::fs::tell(borrow(fd)?).ok()?.try_into().ok()
}

/// The number of the regular file that is open as `fd`, if it is one of this device.
pub(crate) fn file_on(fd: c_int, device: u64) -> Option<u64> {
    let stat = rustix::fs::fstat(borrow(fd)?).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    (is_file && stat.st_dev == device).then_some(stat.st_ino)
}

/// Device and number of the regular file that is open as `fd`, as the operating system keeps them:
/// nobody is asked.
pub(crate) fn file_kept(fd: c_int) -> Option<(u64, u64)> {
    let stat = stat_of(borrow(fd)?, AtFlags::STATX_DONT_SYNC).ok()?;
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    (kind == FileType::RegularFile).then_some((device_of(&stat), stat.stx_ino))
}

/// Device and number of an open file.
pub(crate) fn identity(file: &OwnedFd) -> Option<(u64, u64)> {
    let stat = stat_of(file.as_fd(), AtFlags::empty()).ok()?;
    Some((device_of(&stat), stat.stx_ino))
}

/// Whether whoever serves the file that is open as `fd` still answers.
pub(crate) fn answers(fd: c_int) -> bool {
    let asked = borrow(fd).map(|fd| stat_of(fd, AtFlags::STATX_FORCE_SYNC));
    !matches!(asked, Some(Err(Errno::NOTCONN | Errno::CONNABORTED)))
}

/// Whether nobody serves the file system of a path any more.
pub(crate) fn is_cut_off(path: &CStr) -> bool {
    let flags = AtFlags::STATX_FORCE_SYNC;
    let asked = rustix::fs::statx(CWD, path, flags, StatxFlags::INO);
    matches!(asked, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

fn stat_of(fd: BorrowedFd<'_>, flags: AtFlags) -> rustix::io::Result<Statx> {
    let wanted = StatxFlags::INO | StatxFlags::TYPE;
    rustix::fs::statx(fd, c"", flags | AtFlags::EMPTY_PATH, wanted)
}

fn device_of(stat: &Statx) -> u64 {
    rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

/// The file at a path, as `statx` of the C library would answer; a symbolic link is not followed.
pub(crate) fn seen_at<const BYTES: usize>(path: &CStr) -> Option<[u8; BYTES]> {
    const { assert!(BYTES == size_of::<Statx>(), "all of the answer") };
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let seen = rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS).ok()?;
    // SAFETY: both are as many bytes, of integers without a gap between them.
    Some(unsafe { std::mem::transmute_copy::<Statx, [u8; BYTES]>(&seen) })
}

/// Whether something may be done to an open file, as `faccessat` has it; an error is its number.
pub(crate) fn may(file: &OwnedFd, mode: c_int, flags: c_int) -> Result<(), c_int> {
    let mut path = [0; DESCRIPTOR_PATH_BYTES];
    let path = descriptor_name(file.as_raw_fd(), &mut path).ok_or(libc::EBADF)?;
    let mode = Access::from_bits_retain(mode.cast_unsigned());
    let flags = AtFlags::from_bits_retain(flags.cast_unsigned()) & AtFlags::EACCESS;
    rustix::fs::accessat(CWD, path, mode, flags).map_err(|error| error.raw_os_error())
}

/// Fills what `stat` wants to know of an open file; an error is its number.
///
/// # Safety
/// There is room for it at `buf`.
pub(crate) unsafe fn fill_stat(file: &OwnedFd, buf: *mut c_void) -> Result<(), c_int> {
    let stat = rustix::fs::fstat(file).map_err(|error| error.raw_os_error())?;
    const {
        assert!(
            size_of::<rustix::fs::Stat>() == size_of::<libc::stat>(),
            "one layout"
        )
    };
    // SAFETY: as the caller says; the C library hands on what the operating system fills.
    unsafe {
        ptr::copy_nonoverlapping(
            (&raw const stat).cast::<u8>(),
            buf.cast(),
            size_of_val(&stat),
        )
    };
    Ok(())
}

/// The same for `statx`.
///
/// # Safety
/// There is room for it at `buf`.
pub(crate) unsafe fn fill_statx(file: &OwnedFd, mask: u32, buf: *mut c_void) -> Result<(), c_int> {
    let mask = StatxFlags::from_bits_retain(mask);
    let statx = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, mask);
    let statx = statx.map_err(|error| error.raw_os_error())?;
    const { assert!(size_of::<Statx>() == size_of::<libc::statx>(), "one layout") };
    // SAFETY: as above.
    unsafe {
        ptr::copy_nonoverlapping(
            (&raw const statx).cast::<u8>(),
            buf.cast(),
            size_of_val(&statx),
        )
    };
    Ok(())
}

/// Ends a descriptor that was made here.
pub(crate) fn close(fd: c_int) {
    // SAFETY: nobody else knows of it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

/// Opens a file for reading whose path begins at a directory and does not leave it; the directory's
/// device, and the file. An error is its number.
pub(crate) fn open_below(root: &CStr, below: &CStr, flags: c_int) -> Result<(u64, OwnedFd), c_int> {
    let open = || {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, how, Mode::empty())?;
        let device = device_of(&stat_of(root.as_fd(), AtFlags::empty())?);
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        // With a path alone `openat2` takes no flag that is about an open file.
        let usual = match flags.contains(OFlags::PATH) {
            true => OFlags::CLOEXEC,
            false => OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY,
        };
        let how = usual | flags;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(&root, below, how, Mode::empty(), within)?;
        Ok((device, file))
    };
    open().map_err(|error: Errno| error.raw_os_error())
}

/// Hands a file to the program as `open` with such flags would have.
pub(crate) fn hand_out(file: OwnedFd, flags: c_int) -> c_int {
    if flags & libc::O_CLOEXEC == 0 {
        // A failure leaves it to an exec to close it.
        let _ = rustix::io::fcntl_setfd(&file, FdFlags::empty());
    }
    file.into_raw_fd()
}

/// Gives a file the number `fd`, whose offset and whether an exec ends it stay as they are.
pub(crate) fn take_place(file: OwnedFd, fd: c_int) -> Option<()> {
    let offset = tell(fd)?;
    let kept = rustix::io::fcntl_getfd(borrow(fd)?).ok()?;
    rustix::fs::seek(&file, SeekFrom::Start(offset.cast_unsigned())).ok()?;
    let mut flags = DupFlags::empty();
    flags.set(DupFlags::CLOEXEC, kept.contains(FdFlags::CLOEXEC));
    // SAFETY: the number is the program's, which goes on using it: it is never dropped here.
    let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) });
    rustix::io::dup3(&file, &mut place, flags).ok()
}

/// Reads at `offset` of a file into memory of the program, which the operating system checks; how
/// much, or the error's number.
pub(crate) fn read_for(
    file: &OwnedFd,
    (buf, count): (*mut c_void, usize),
    offset: u64,
) -> Result<usize, c_int> {
    let most = usize::try_from(isize::MAX).unwrap_or(0);
    // SAFETY: the slice is handed to the operating system alone, which answers with an error where the
    // program has no such memory.
    let into = unsafe {
        let buf = if buf.is_null() {
            ptr::dangling_mut()
        } else {
            buf.cast::<MaybeUninit<u8>>()
        };
        std::slice::from_raw_parts_mut(buf, count.min(most))
    };
    let read = rustix::io::pread(file, into, offset);
    let (filled, _) = read.map_err(|errno| errno.raw_os_error())?;
    Ok(filled.len())
}

/// The list of this process's mappings.
pub(crate) fn list_of_mappings() -> Option<OwnedFd> {
    rustix::fs::open(
        c"/proc/self/maps",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()
}

/// The operating system's status of this process.
pub(crate) fn own_status() -> Option<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc/self/status", how, Mode::empty()).ok()
}

/// Reads on; how much.
pub(crate) fn read_more(file: &OwnedFd, into: &mut [u8]) -> Option<usize> {
    rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *into)).ok()
}

/// A device's number of its two halves.
pub(crate) fn device(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor)
}

/// The operating system's entries for pages of this process from the page `first` on.
pub(crate) fn page_entries(first: usize, into: &mut [u64]) -> Option<&[u64]> {
    let how = OFlags::RDONLY | OFlags::CLOEXEC;
    let list = rustix::fs::open(c"/proc/self/pagemap", how, Mode::empty()).ok()?;
    // SAFETY: the same memory as bytes, any of which are a number's.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<u8>(), size_of_val(into))
    };
    let read = rustix::io::pread(&list, bytes, first as u64 * size_of::<u64>() as u64).ok()?;
    into.get(..read / size_of::<u64>())
}

/// Maps a file over addresses that this process has a mapping of another file at.
pub(crate) fn map_over(
    file: &OwnedFd,
    range: &Range<usize>,
    (access, how): (c_int, c_int),
    offset: u64,
) -> Option<()> {
    let flags = MapFlags::from_bits_retain(how.cast_unsigned()) | MapFlags::FIXED;
    let access = ProtFlags::from_bits_retain(access.cast_unsigned());
    let at = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the program reads these addresses as bytes of a file, and they are such afterwards; the
    // caller has seen that no page is among them that the program has changed.
    let mapped = unsafe { rustix::mm::mmap(at, range.len(), access, flags, file, offset) };
    mapped.ok().map(|_| ())
}

/// The identity of a descriptor: device and number of the file that is open as `fd`.
pub(crate) fn what_is(fd: c_int) -> Option<(u64, u64)> {
    let stat = stat_of(borrow(fd)?, AtFlags::STATX_DONT_SYNC).ok()?;
    Some((device_of(&stat), stat.stx_ino))
}

/// Writes words to `fd`, as far as that goes at once.
pub(crate) fn say(fd: c_int, words: &[u8]) {
    if let Some(fd) = borrow(fd) {
        // Nobody hears where that fails.
        let _ = rustix::io::write(fd, words);
    }
}

/// Moves the offset of `fd` by so much; where it is then.
pub(crate) fn move_on(fd: c_int, by: i64) -> Option<i64> {
    let moved = rustix::fs::seek(borrow(fd)?, rustix::fs::SeekFrom::Current(by));
    moved.ok()?.try_into().ok()
}

/// Has whoever serves the file that is open as `fd` tell the operating system how long it is; if it cannot,
/// what needs that fails by itself.
pub(crate) fn ask_size(fd: c_int) {
    if let Some(fd) = borrow(fd) {
        let _ = stat_of(fd, AtFlags::STATX_FORCE_SYNC);
    }
}

/// Tells whoever serves the file that is open as `fd` that it will be stored into by a mapping. Other file systems know
/// of no such attribute.
pub(crate) fn say_mapped(fd: c_int) {
    if let Some(fd) = borrow(fd) {
        let _ = rustix::fs::fgetxattr(fd, MAPPED, &mut [0_u8; 0]);
    }
}

/// Reads at `offset` of `fd`; how much, or the error's number.
pub(crate) fn read_at(
    fd: c_int,
    into: &mut [MaybeUninit<u8>],
    offset: i64,
) -> Result<usize, c_int> {
    let fd = borrow(fd).ok_or(libc::EBADF)?;
    let read = rustix::io::pread(fd, into, offset.cast_unsigned());
    let (filled, _) = read.map_err(|errno| errno.raw_os_error())?;
    Ok(filled.len())
}

/// Writes at `offset` of `fd`; how much, or the error's number.
pub(crate) fn write_at(fd: c_int, bytes: &[u8], offset: i64) -> Result<usize, c_int> {
    let fd = borrow(fd).ok_or(libc::EBADF)?;
    let written = rustix::io::pwrite(fd, bytes, offset.cast_unsigned());
    written.map_err(|errno| errno.raw_os_error())
}

/// Reads at `offset` of `fd` into several places; how much, or the error's number.
pub(crate) fn read_vector_at(
    fd: c_int,
    parts: &mut [IoSliceMut<'_>],
    offset: i64,
) -> Result<usize, c_int> {
    let fd = borrow(fd).ok_or(libc::EBADF)?;
    let read = rustix::io::preadv(fd, parts, offset.cast_unsigned());
    read.map_err(|errno| errno.raw_os_error())
}

/// Nanoseconds of the clock that nobody sets, as of its last tick; without a system call.
#[inline]
pub(crate) fn coarse_now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is there for the call, which only writes it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Whether a whole path names each directory that it passes, without a symbolic link or a dot.
pub(crate) fn is_plain_path(path: &[u8]) -> bool {
    let mut prefix = [0; PLAIN_MAX];
    if path.len() >= PLAIN_MAX || path.first() != Some(&b'/') {
        return false;
    }
    prefix[..path.len()].copy_from_slice(path);
    let mut parts = path[1..].split(|byte| *byte == b'/');
    if !parts.all(|part| !matches!(part, b"" | b"." | b"..")) {
        return false;
    }
    let ends = (1..path.len()).filter(|&at| path[at] == b'/');
    ends.chain([path.len()]).all(|end| {
        let kept = std::mem::replace(&mut prefix[end], 0);
        let name = CStr::from_bytes_until_nul(&prefix);
        let kind = name.ok().and_then(|name| {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::statat(rustix::fs::CWD, name, flags).ok()
        });
        prefix[end] = kept;
        kind.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Symlink)
    })
}

/// Longer paths are not taken for plain.
const PLAIN_MAX: usize = 256;

/// The size of what is open as `fd`.
pub(crate) fn size(fd: c_int) -> Option<i64> {
    Some(rustix::fs::fstat(borrow(fd)?).ok()?.st_size)
}

/// This process's number, asked anew: a child of `vfork` has its parent's memory.
pub(crate) fn process() -> c_int {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The path of what is open as `fd`, as far as it fits.
pub(crate) fn descriptor_path(fd: c_int, into: &mut [u8]) -> Option<usize> {
    let mut link = [0; DESCRIPTOR_PATH_BYTES];
    read_link(descriptor_name(fd, &mut link)?, into)
}

const DESCRIPTORS: &[u8] = b"/proc/self/fd/";
/// As many as the longest has, and a zero.
const DESCRIPTOR_PATH_BYTES: usize = DESCRIPTORS.len() + 11;

/// The name by which this process can reach what is open as `fd`.
fn descriptor_name(fd: c_int, link: &mut [u8; DESCRIPTOR_PATH_BYTES]) -> Option<&CStr> {
    let mut rest = u32::try_from(fd).ok()?;
    let digits = rest.checked_ilog10().unwrap_or(0) as usize + 1;
    let start = DESCRIPTORS.len();
    link[..start].copy_from_slice(DESCRIPTORS);
    for place in link[start..start + digits].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    link[start + digits] = 0;
    CStr::from_bytes_until_nul(link).ok()
}

/// The path of the working directory, as far as it fits.
pub(crate) fn working_directory(into: &mut [u8]) -> Option<usize> {
    read_link(c"/proc/self/cwd", into)
}

fn read_link(link: &CStr, into: &mut [u8]) -> Option<usize> {
    rustix::fs::readlinkat_raw(rustix::fs::CWD, link, into).ok()
}

/// Copies the C string at `from`, as far as it fits.
///
/// # Safety
/// There is a C string at `from`.
pub(crate) unsafe fn copy_string(from: *const c_char, into: &mut [u8]) -> usize {
    // SAFETY: the caller says that there is a C string; it is read up to its end at most.
    let bytes = unsafe {
        let len = libc::strnlen(from, into.len());
        std::slice::from_raw_parts(from.cast::<u8>(), len)
    };
    into[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

/// Length of a string that a call has just read or written; 0 for null.
pub(crate) fn string_length(text: *const c_char) -> usize {
    if text.is_null() {
        return 0;
    }
    // SAFETY: the hooks that ask pass what the real call has just gone through to its end.
    unsafe { libc::strlen(text) }
}

/// Copies what may or may not be a C string, through the operating system; `None` if it is none.
pub(crate) fn copy_foreign_string(from: *const c_char, into: &mut [u8]) -> Option<usize> {
    const PAGE: usize = 4096;
    let here = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // Cut at the page's end: what follows may not be there.
    let first = (PAGE - from.addr() % PAGE).min(into.len());
    let there = [
        libc::iovec {
            iov_base: from.cast_mut().cast(),
            iov_len: first,
        },
        libc::iovec {
            iov_base: from.cast_mut().wrapping_byte_add(first).cast(),
            iov_len: into.len() - first,
        },
    ];
    // SAFETY: the operating system writes to `into` alone, no more than its length, and answers
    // with an error where nothing can be read.
    let copied =
        unsafe { libc::process_vm_readv(process(), &raw const here, 1, there.as_ptr(), 2, 0) };
    let copied = into.get(..usize::try_from(copied).ok()?)?;
    copied
        .iter()
        .position(|byte| *byte == 0)
        .or((copied.len() == into.len()).then_some(into.len()))
}

/// Calls `work` with a path that a call got, from the working directory on, and whether a symbolic link
/// at its end is followed. `None` if it cannot be read.
pub(crate) fn with_path<R>(at: At, flags: c_int, work: impl FnOnce(&CStr, bool) -> R) -> Option<R> {
    const PATH_MAX: usize = 4096;
    let mut given = [0; PATH_MAX];
    let len = match at.path.is_null() {
        true => 0,
        false => copy_foreign_string(at.path, &mut given)?,
    };
    let given = given.get(..len)?;
    if len == 0 && flags & libc::AT_EMPTY_PATH == 0 {
        return None;
    }
    let mut whole = [0; DESCRIPTOR_PATH_BYTES + PATH_MAX + 1];
    let mut start = 0;
    if at.dir != libc::AT_FDCWD && given.first() != Some(&b'/') {
        let mut name = [0; DESCRIPTOR_PATH_BYTES];
        let name = descriptor_name(at.dir, &mut name)?.to_bytes();
        whole[..name.len()].copy_from_slice(name);
        start = name.len();
        if len > 0 {
            whole[start] = b'/';
            start += 1;
        }
    } else if len == 0 {
        whole[0] = b'.';
        start = 1;
    }
    whole.get_mut(start..start + len)?.copy_from_slice(given);
    let follow = len == 0 || flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    Some(work(CStr::from_bytes_until_nul(&whole).ok()?, follow))
}

/// The device of what is at a path.
pub(crate) fn device_at(path: &CStr, follow: bool) -> Option<u64> {
    let flags = match follow {
        true => AtFlags::empty(),
        false => AtFlags::SYMLINK_NOFOLLOW,
    };
    let stat = rustix::fs::statx(CWD, path, flags, StatxFlags::INO).ok()?;
    Some(device_of(&stat))
}

/// The true owner of what is at a path of the mount.
pub(crate) fn owner_at(path: &CStr, follow: bool) -> Option<Owner> {
    let mut bytes = [0; Owner::BYTES];
    let len = match follow {
        true => rustix::fs::getxattr(path, OWNER, &mut bytes),
        false => rustix::fs::lgetxattr(path, OWNER, &mut bytes),
    };
    Owner::from_bytes(bytes.get(..len.ok()?)?)
}

/// The true owner of what is open as `fd`, as the agent of a mount sees it.
pub(crate) fn owner_of(mount: &CStr, fd: c_int) -> Option<Owner> {
    let mut link = [0; DESCRIPTOR_PATH_BYTES];
    let number = descriptor_name(fd, &mut link)?
        .to_bytes()
        .get(DESCRIPTORS.len()..)?;
    let mut name = [0; OWNER.len() + 12];
    name[..OWNER.len()].copy_from_slice(OWNER.as_bytes());
    name[OWNER.len()] = b'.';
    name.get_mut(OWNER.len() + 1..)?
        .get_mut(..number.len())?
        .copy_from_slice(number);
    let mut bytes = [0; Owner::BYTES];
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    let len = rustix::fs::getxattr(mount, name, &mut bytes).ok()?;
    Owner::from_bytes(bytes.get(..len)?)
}

/// Gives what is at a path of the mount to somebody; an error is its number.
pub(crate) fn give(path: &CStr, follow: bool, owner: Owner) -> Result<(), c_int> {
    let (bytes, flags) = (owner.to_bytes(), XattrFlags::empty());
    let done = match follow {
        true => rustix::fs::setxattr(path, OWNER, &bytes, flags),
        false => rustix::fs::lsetxattr(path, OWNER, &bytes, flags),
    };
    done.map_err(|error| error.raw_os_error())
}

/// A descriptor that stands for what is at a path, and lets nobody read it.
pub(crate) fn open_path(path: &CStr, follow: bool) -> Option<OwnedFd> {
    let mut how = OFlags::PATH | OFlags::CLOEXEC;
    how.set(OFlags::NOFOLLOW, !follow);
    rustix::fs::openat(CWD, path, how, Mode::empty()).ok()
}

/// Seconds of the clock that files have their times of.
pub(crate) fn now_seconds() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse).tv_sec
}

/// Sum of the lengths of a vector's elements.
///
/// # Safety
/// There are `count` elements at `vector`.
pub(crate) unsafe fn vector_bytes(vector: *const libc::iovec, count: c_int) -> u64 {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 {
        return 0;
    }
    // SAFETY: the caller says that there are so many.
    let elements = unsafe { std::slice::from_raw_parts(vector, count) };
    elements.iter().map(|element| element.iov_len as u64).sum()
}

/// A word that is zero in a child made by fork; `None` if the operating system cannot do that.
pub(crate) fn word_wiped_on_fork() -> Option<&'static AtomicI32> {
    // A mapping takes whole pages, so one byte is as good as their size.
    let size = 1;
    let flags = MapFlags::PRIVATE;
    // SAFETY: a new mapping, at a place of the operating system's choice, that is never unmapped.
    let page = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            size,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    }
    .ok()?;
    // SAFETY: the mapping was just made, and is anonymous and private, as wiping wants it.
    unsafe { madvise(page, size, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: a page is large enough and aligned for the word, whose zeroes are a value of it.
    Some(unsafe { &*page.cast::<AtomicI32>() })
}

/// Zeroed memory from the operating system itself; given back when dropped.
pub(crate) struct Pages {
    start: *mut c_void,
    size: usize,
}

impl Pages {
    pub(crate) fn new(size: usize) -> Option<Pages> {
        let (flags, access) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at a place of the operating system's choice.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), size, access, flags) }.ok()?;
        Some(Pages { start, size })
    }

    pub(crate) fn start(&self) -> *mut c_void {
        self.start
    }

    /// An array of `places` pointers at the start, and the bytes after it.
    pub(crate) fn split(&mut self, places: usize) -> (&mut [*const c_char], &mut [u8]) {
        let array = places * size_of::<*const c_char>();
        assert!(
            array <= self.size,
            "an array fits into the pages that were made for it"
        );
        // SAFETY: the two parts lie in the mapping, which begins on a page, do not overlap, and are
        // lent for as long as `self` is; zeroes are values of both types.
        unsafe {
            (
                std::slice::from_raw_parts_mut(self.start.cast(), places),
                std::slice::from_raw_parts_mut(
                    self.start.cast::<u8>().add(array),
                    self.size - array,
                ),
            )
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nothing borrows it any more. A failure leaves it mapped.
        let _ = unsafe { munmap(self.start, self.size) };
    }
}
