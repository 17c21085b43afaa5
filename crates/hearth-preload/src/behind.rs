//! The store behind the mount: where the files of the mount are to be had when the agent is gone.
//!
//! 1. A file of the store stands for one of the mount only if it has the same number on the store's own
//!    device: the agent shows the store's numbers.
//! 2. The store's file is opened with the program's own rights, for reading alone, below the store's
//!    root. Nothing of it is kept open unless it takes the place of the program's descriptor.
//! 3. A program that was not told where that is, or that must make few system calls, has none of this.

use std::ffi::{CStr, CString, c_int};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::names::At;
use crate::{cwd, fds, names, sys};

/// The path of the mount.
const MOUNT: &str = "HEARTH_MOUNT";
/// The path at which the store is seen without the mount.
const BEHIND: &str = "HEARTH_BEHIND";
/// Begins with the mount's device.
const POOL: &str = "HEARTH_LENDER";

/// Longer paths have no store behind them.
const PATH_MAX: usize = 4096;

/// The operating system's suffix to the name of a file that is gone.
const DELETED: &[u8] = b" (deleted)";

/// The places that the environment tells.
struct Place {
    device: u64,
    mount: CString,
    root: CString,
}

static PLACE: OnceLock<Place> = OnceLock::new();
/// Looked at before anything else, so that programs without a mount pay for one load.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// A mount that nobody serves stays so.
static WAS_GONE: AtomicBool = AtomicBool::new(false);

/// Takes the place from the environment, before the program begins.
pub(crate) fn start() {
    let value = |name| std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec);
    let (Some(mount), Some(root), Some(pool)) = (value(MOUNT), value(BEHIND), value(POOL)) else {
        return;
    };
    let device = pool.split(|byte| *byte == b':').next();
    let device = device.and_then(|part| std::str::from_utf8(part).ok()?.parse().ok());
    let (Some(device), Ok(mount), Ok(root)) = (device, CString::new(mount), CString::new(root))
    else {
        return;
    };
    let place = Place {
        device,
        mount,
        root,
    };
    IS_ON.store(PLACE.set(place).is_ok(), Relaxed);
}

/// From now on no system call is made here that the program did not ask for.
pub(crate) fn stop() {
    IS_ON.store(false, Relaxed);
}

#[inline(always)]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

fn place() -> Option<&'static Place> {
    PLACE.get().filter(|_| is_on())
}

/// A descriptor of a file of the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mounted(u64);

/// It is something else.
const OTHER: u64 = 1;
/// It was opened for reading alone, of whatever it is.
const OPENED: u64 = 2;
const FILE: u64 = 1 << 63;
const READS: u64 = 1 << 62;
const WRITES: u64 = 1 << 61;
/// The store's file has taken its place.
const FALLEN: u64 = 1 << 60;
const BITS: u64 = FILE | READS | WRITES | FALLEN;

impl Mounted {
    /// The file's number.
    pub(crate) fn number(self) -> u64 {
        self.0 & !BITS
    }

    pub(crate) fn reads(self) -> bool {
        self.0 & READS != 0
    }

    pub(crate) fn writes(self) -> bool {
        self.0 & WRITES != 0
    }

    /// Whether the store's file, for reading alone, has taken its place.
    pub(crate) fn has_fallen(self) -> bool {
        self.0 & FALLEN != 0
    }
}

/// The file of the mount that `fd` is open on, if it is one; learned at the first use.
#[inline(always)]
pub(crate) fn file(fd: c_int) -> Option<Mounted> {
    if !is_on() {
        return None;
    }
    match fds::mounted(fd) {
        0 | OPENED => learn(fd),
        known => (known & FILE != 0).then_some(Mounted(known)),
    }
}

/// The same without learning.
pub(crate) fn known(fd: c_int) -> Option<Mounted> {
    let known = fds::mounted(fd);
    (is_on() && known & FILE != 0).then_some(Mounted(known))
}

/// Whether `fd` is known to be open for reading alone.
pub(crate) fn only_reads(fd: c_int) -> bool {
    let known = fds::mounted(fd);
    known == OPENED || (known & FILE != 0 && known & WRITES == 0)
}

/// `fd` was just opened with `flags`.
pub(crate) fn opened(fd: c_int, flags: c_int) {
    if is_on() && fd >= 0 && flags & libc::O_ACCMODE == libc::O_RDONLY {
        fds::keep_mounted(fd, OPENED);
    }
}

#[cold]
#[inline(never)]
fn learn(fd: c_int) -> Option<Mounted> {
    let place = place()?;
    let word = match sys::file_kept(fd)? {
        (device, number) if device == place.device && number & BITS == 0 => {
            let flags = sys::open_flags(fd);
            match flags & libc::O_ACCMODE {
                _ if flags & libc::O_PATH != 0 => OTHER,
                libc::O_RDONLY => number | FILE | READS,
                libc::O_WRONLY => number | FILE | WRITES,
                _ => number | FILE | READS | WRITES,
            }
        }
        _ => OTHER,
    };
    fds::keep_mounted(fd, word);
    (word & FILE != 0).then_some(Mounted(word))
}

/// Whether nobody serves the mount any more.
pub(crate) fn is_gone() -> bool {
    place().is_some_and(|place| sys::is_cut_off(&place.mount))
}

/// Opens the store's file behind the file of the mount that is open as `fd`.
pub(crate) fn open(fd: c_int, file: Mounted) -> Option<OwnedFd> {
    let place = place()?;
    let mut path = [0; PATH_MAX];
    let len = sys::descriptor_path(fd, &mut path)?;
    let flags = sys::open_flags(fd) & (libc::O_DIRECT | libc::O_NOATIME | libc::O_NONBLOCK);
    place.open(path.get(..len)?, file.number(), flags)
}

/// Puts the store's file in the place of `fd`, at the same offset.
pub(crate) fn replace(fd: c_int, file: Mounted, store: OwnedFd) -> Option<()> {
    sys::take_place(store, fd)?;
    // Its reads are the store's from now on.
    fds::fallen(fd, file.0 | FALLEN);
    Some(())
}

/// Whether a device is the mount's.
pub(crate) fn is_device(device: u64) -> bool {
    place().is_some_and(|place| place.device == device)
}

/// Whether a device is the store's own.
pub(crate) fn is_behind(device: u64) -> bool {
    let root = place().and_then(|place| sys::open_below(&place.root, c".", 0).ok());
    root.is_some_and(|(root, _)| root == device)
}

/// Opens the store's file behind a path of the mount that has this number.
pub(crate) fn open_mapped(path: &CStr, number: u64) -> Option<OwnedFd> {
    place()?.open(path.to_bytes(), number, 0)
}

/// Opens for reading what a path of the mount names in the store; `None` if it is not one.
pub(crate) fn open_path(at: At, flags: c_int) -> Option<Result<OwnedFd, c_int>> {
    let place = place()?;
    let mut name = names::Name::empty();
    let given = at.given()?;
    if given.as_bytes().first() != Some(&b'/') {
        match at.dir {
            libc::AT_FDCWD => cwd::read(&mut name)?,
            dir => name.fill(|bytes| sys::descriptor_path(dir, bytes))?,
        }
        name.push(b"/");
    }
    name.push(given.as_bytes());
    name.push(b"\0");
    let below = place.below(CStr::from_bytes_until_nul(name.whole()?).ok()?)?;
    let opened = sys::open_below(&place.root, below, flags);
    Some(opened.map(|(_, store)| store))
}

impl Place {
    /// Opens the store's file of this number at a path of the mount, as the operating system tells it.
    fn open(&self, path: &[u8], number: u64, flags: c_int) -> Option<OwnedFd> {
        // So it calls what it could not find again, for want of an agent.
        let whole = path.strip_suffix(DELETED).into_iter().chain([path]);
        whole
            .filter_map(|path| {
                let mut copy = [0; PATH_MAX];
                copy.get_mut(..path.len())?.copy_from_slice(path);
                let below = self.below(CStr::from_bytes_until_nul(&copy).ok()?)?;
                let (root, store) = sys::open_below(&self.root, below, flags).ok()?;
                (sys::identity(&store)? == (root, number)).then_some(store)
            })
            .next()
    }

    /// The part of a path below the mount.
    fn below<'a>(&self, path: &'a CStr) -> Option<&'a CStr> {
        let path = path.to_bytes_with_nul();
        match path.strip_prefix(self.mount.as_bytes())? {
            b"\0" | b"/\0" => Some(c"."),
            rest => CStr::from_bytes_with_nul(rest.strip_prefix(b"/")?).ok(),
        }
    }
}

/// Whether an error may mean that nobody serves the mount any more.
#[inline(always)]
pub(crate) fn may_be_gone(errno: c_int) -> bool {
    is_on() && matches!(errno, libc::ENOTCONN | libc::ECONNABORTED | libc::EIO)
}

/// Whether it does, for a call on a file of the mount.
pub(crate) fn means_gone(errno: c_int, fd: c_int) -> bool {
    let gone = match errno {
        libc::ENOTCONN | libc::ECONNABORTED => true,
        libc::EIO => !sys::answers(fd),
        _ => false,
    };
    if gone {
        WAS_GONE.store(true, Relaxed);
    }
    gone
}

/// Whether that was seen already.
pub(crate) fn was_gone() -> bool {
    WAS_GONE.load(Relaxed)
}
