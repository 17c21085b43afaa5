//! The true owners of files, and the groups of a process, under `hearth run` of an ordinary user.
//!
//! There the operating system knows one user and one group, and shows files of the mount as theirs. The
//! agent is outside and tells the truth, also of other files that the operating system shows as nobody's.
//!
//! 1. A question is asked only of files whose owner the operating system cannot tell.
//! 2. An answer is used again for the same inode as long as its change time is the same, and was old when
//!    the answer came: a change of the owner changes it. Answers are a thread's own.
//! 3. A process that was not told of it, or that must make few system calls, has none of this.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hearth_client::Owner;
use libc::{gid_t, uid_t};

use crate::errno::{keeping_errno, set_errno};
use crate::kept::Form;
use crate::names::At;
use crate::{cache, sys};

/// The mount's device, the true groups with commas between, and the mount's path, with colons between.
const VARIABLE: &str = "HEARTH_OWNERS";

/// How the operating system shows users and groups that it cannot name here.
const NOBODY: u32 = 65_534;

/// Answers that a thread keeps (a power of two).
const KEPT: usize = 64;

/// A change time counts as old after so many seconds.
const OLD_SECONDS: i64 = 2;

struct Told {
    device: u64,
    groups: Vec<gid_t>,
    mount: CString,
}

static TOLD: OnceLock<Told> = OnceLock::new();
/// Looked at before anything else, so that most programs pay for one load.
static IS_ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ANSWERS: RefCell<[Option<(Inode, Owner)>; KEPT]> = const { RefCell::new([None; KEPT]) };
}

/// An inode since its last change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
    changed: i64,
    changed_ns: i64,
}

/// Takes what is told from the environment, before the program begins.
pub(crate) fn start() {
    let Some(line) = std::env::var_os(VARIABLE) else {
        return;
    };
    if let Some(told) = Told::of(&line.into_vec()) {
        IS_ON.store(TOLD.set(told).is_ok(), Relaxed);
    }
}

impl Told {
    fn of(line: &[u8]) -> Option<Told> {
        let mut parts = line.splitn(3, |byte| *byte == b':');
        let device = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let groups = std::str::from_utf8(parts.next()?).ok()?;
        let groups = groups.split(',').filter(|group| !group.is_empty());
        let groups: Result<Vec<gid_t>, _> = groups.map(str::parse).collect();
        Some(Told {
            device,
            groups: groups.ok()?,
            mount: CString::new(parts.next()?).ok()?,
        })
    }
}

fn told() -> Option<&'static Told> {
    if !IS_ON.load(Relaxed) || cache::is_jailed() {
        return None;
    }
    TOLD.get()
}

/// The file that is open as `fd`.
pub(crate) fn open(fd: c_int) -> At {
    At {
        dir: fd,
        path: c"".as_ptr(),
    }
}

/// Puts the true owner into an answer to a call of `stat` and its kin, if it has one.
///
/// # Safety
/// If `asked` is 0, `buf` holds the answer, and `at` a path that the call has read.
#[inline]
pub(crate) unsafe fn shown(
    asked: c_int,
    form: Form,
    at: At,
    flags: c_int,
    buf: *mut c_void,
) -> c_int {
    if asked == 0
        && let Some(told) = told()
    {
        // SAFETY: as the caller says.
        keeping_errno(|| unsafe { told.show(form, at, flags, buf) });
    }
    asked
}

impl Told {
    /// # Safety
    /// As [`shown`].
    #[cold]
    unsafe fn show(&self, form: Form, at: At, flags: c_int, buf: *mut c_void) {
        match form {
            // SAFETY: as the caller says.
            Form::Stat => unsafe { self.show_stat(at, flags, buf.cast()) },
            // SAFETY: as the caller says.
            Form::Statx { .. } => unsafe { self.show_statx(at, flags, buf.cast()) },
            Form::Access { .. } => {}
        }
    }

    /// # Safety
    /// There is an answer at `buf`.
    unsafe fn show_stat(&self, at: At, flags: c_int, buf: *mut libc::stat) {
        // SAFETY: as the caller says.
        let mut stat = unsafe { buf.read_unaligned() };
        let inode = Inode {
            device: stat.st_dev,
            number: stat.st_ino,
            changed: stat.st_ctime,
            changed_ns: stat.st_ctime_nsec,
        };
        if let Some(owner) = self.owner(inode, (stat.st_uid, stat.st_gid), at, flags) {
            (stat.st_uid, stat.st_gid) = (owner.uid, owner.gid);
            // SAFETY: as the caller says.
            unsafe { buf.write_unaligned(stat) };
        }
    }

    /// # Safety
    /// There is an answer at `buf`.
    unsafe fn show_statx(&self, at: At, flags: c_int, buf: *mut libc::statx) {
        // SAFETY: as the caller says.
        let mut stat = unsafe { buf.read_unaligned() };
        let inode = Inode {
            device: libc::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            number: stat.stx_ino,
            changed: stat.stx_ctime.tv_sec,
            changed_ns: stat.stx_ctime.tv_nsec.into(),
        };
        if let Some(owner) = self.owner(inode, (stat.stx_uid, stat.stx_gid), at, flags) {
            (stat.stx_uid, stat.stx_gid) = (owner.uid, owner.gid);
            // SAFETY: as the caller says.
            unsafe { buf.write_unaligned(stat) };
        }
    }

    fn owner(
        &self,
        inode: Inode,
        (uid, gid): (uid_t, gid_t),
        at: At,
        flags: c_int,
    ) -> Option<Owner> {
        let is_ours = inode.device == self.device;
        if !is_ours && uid != NOBODY && gid != NOBODY {
            return None;
        }
        let place = inode.number as usize % KEPT;
        let known = ANSWERS.with(|answers| answers.try_borrow().ok()?[place]);
        if let Some((_, owner)) = known.filter(|(of, _)| *of == inode) {
            return Some(owner);
        }
        let owner = match is_ours {
            true => sys::with_path(at, flags, sys::owner_at)?,
            false => sys::with_path(at, flags, |path, follow| {
                let file = sys::open_path(path, follow)?;
                sys::owner_of(&self.mount, file.as_raw_fd())
            })?,
        }?;
        // A time that was not asked for is 0.
        let is_old = inode.changed > 0 && inode.changed + OLD_SECONDS < sys::now_seconds();
        if is_old {
            ANSWERS.with(|answers| {
                if let Ok(mut answers) = answers.try_borrow_mut() {
                    answers[place] = Some((inode, owner));
                }
            });
        }
        Some(owner)
    }
}

/// A call that gives a file to a user and a group: the agent does it, for a file of the mount.
pub(crate) fn giving(
    at: At,
    flags: c_int,
    (uid, gid): (uid_t, gid_t),
    real: impl FnOnce() -> c_int,
) -> c_int {
    let Some(told) = told() else {
        return real();
    };
    let give = |path: &CStr, follow: bool| {
        let is_ours = sys::device_at(path, follow) == Some(told.device);
        is_ours.then(|| sys::give(path, follow, Owner { uid, gid }))
    };
    match keeping_errno(|| sys::with_path(at, flags, give).flatten()) {
        None => real(),
        Some(Ok(())) => 0,
        Some(Err(error)) => {
            set_errno(error);
            -1
        }
    }
}

/// The true groups of this process, as `getgroups` has them.
///
/// # Safety
/// There is room for as many groups as `room` says.
pub(crate) unsafe fn groups(room: c_int, groups: *mut gid_t) -> Option<c_int> {
    if !IS_ON.load(Relaxed) {
        return None;
    }
    let all = &TOLD.get()?.groups;
    let count = c_int::try_from(all.len()).ok()?;
    if room == 0 {
        return Some(count);
    }
    if room < count {
        set_errno(libc::EINVAL);
        return Some(-1);
    }
    // SAFETY: as the caller says, there is room for all of them.
    unsafe { ptr::copy_nonoverlapping(all.as_ptr(), groups, all.len()) };
    Some(count)
}
