//! Checks of an area before it is read: that it is one, and whether its process runs.
//!
//! Nothing is trusted: sizes are checked against the file before it is mapped, and pages that are not
//! there are never touched, since a full file system answers that with a signal.

use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::SeekFrom;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::layout::{Geometry, Header, MAGIC, PAGE, VERSION};
use super::map::Mapping;
use super::producer::WhenFull;
use crate::area::{self, AreaName};
use crate::clock::{ClockKind, SyncPoint};

/// The content of an area's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which process.
    pub name: AreaName,
    /// Its parent when the area was made.
    pub parent: u32,
    /// The kind of its ticks.
    pub clock: ClockKind,
    /// All clocks when the area was made.
    pub sync: SyncPoint,
    /// The policy of a full ring.
    pub policy: WhenFull,
    /// Records of one ring.
    pub capacity: u32,
    /// In which space of process numbers it is.
    pid_space: u64,
}

/// How an area stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaState {
    /// Its process runs.
    Live,
    /// Its process is gone, or has become another program; its records are still there.
    Over,
}

/// The boot and the namespaces of this process, to judge others by.
pub(crate) struct Here {
    boot: u128,
    pid_space: u64,
}

impl Here {
    pub(crate) fn now() -> io::Result<Here> {
        Ok(Here {
            boot: area::boot()?,
            pid_space: area::pid_space()?,
        })
    }

    /// The process of an area.
    pub(crate) fn process(&self, facts: &Facts) -> Process {
        if facts.name.boot != self.boot {
            Process::Gone
        } else if facts.pid_space != self.pid_space {
            Process::Elsewhere
        } else {
            Process::of(&facts.name)
        }
    }

    /// Whether a file that is no area, or not yet, will never be one. A process makes an area within
    /// milliseconds; a minute is for those that are stopped meanwhile or not to be seen from here.
    pub(crate) fn is_abandoned(&self, file: &OwnedFd, name: &AreaName) -> bool {
        const PATIENCE_S: i64 = 60;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
        let is_old = |stat: rustix::fs::Stat| now.saturating_sub(stat.st_mtime) > PATIENCE_S;
        name.boot != self.boot
            || matches!(Process::of(name), Process::Gone)
                && rustix::fs::fstat(file).is_ok_and(is_old)
    }
}

/// The process of an area.
pub(crate) enum Process {
    /// Its descriptor becomes readable at its end.
    Running(OwnedFd),
    /// It is over.
    Gone,
    /// In a container, where process numbers mean others: nobody here can tell.
    Elsewhere,
}

impl Process {
    fn of(name: &AreaName) -> Process {
        let found = Pid::from_raw(name.pid.cast_signed())
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // Looked at after the descriptor is there: from here on the number means this process.
        match found {
            Some(pidfd) if area::start_time(name.pid).is_ok_and(|at| at == name.start_time) => {
                Process::Running(pidfd)
            }
            _ => Process::Gone,
        }
    }

    pub(crate) fn state(&self) -> AreaState {
        match self {
            Process::Running(pidfd) if !is_over(pidfd) => AreaState::Live,
            Process::Elsewhere => AreaState::Live,
            Process::Running(_) | Process::Gone => AreaState::Over,
        }
    }
}

fn is_over(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut fds, Some(&now)), Ok(1..))
}

/// Checks a file and maps it.
pub(crate) fn map(file: &OwnedFd, name: AreaName) -> Option<(Facts, Mapping)> {
    let mut head = [0; PAGE];
    if rustix::io::pread(file, &mut head, 0).ok()? < PAGE {
        return None;
    }
    let at32 = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
    let at64 = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
    let magic = at64(offset_of!(Header, magic));
    if (magic, at32(offset_of!(Header, version))) != (MAGIC, VERSION) {
        return None;
    }
    let geometry = Geometry::checked(
        at32(offset_of!(Header, slots)),
        at32(offset_of!(Header, capacity)),
        at32(offset_of!(Header, names_bytes)),
    )?;
    let size = rustix::fs::fstat(file).ok()?.st_size;
    if size != geometry.total() as i64 || !is_whole(file, 0, geometry.ring(0) as u64) {
        return None;
    }
    let policy = at32(offset_of!(Header, policy));
    let sync = offset_of!(Header, sync);
    let facts = Facts {
        name,
        parent: at32(offset_of!(Header, parent)),
        clock: ClockKind::from_code(at32(offset_of!(Header, clock)))?,
        sync: SyncPoint {
            ticks: at64(sync),
            raw: at64(sync + 8),
            real: at64(sync + 16),
            window: at64(sync + 24),
        },
        policy: WhenFull::from_words(policy, at32(offset_of!(Header, wait_us)))?,
        capacity: geometry.capacity,
        pid_space: at64(offset_of!(Header, pid_space)),
    };
    let map = Mapping::new(file, geometry).ok()?;
    Some((facts, map))
}

/// Whether every page of a range of a file is there.
pub(crate) fn is_whole(file: &OwnedFd, start: u64, end: u64) -> bool {
    matches!(rustix::fs::seek(file, SeekFrom::Hole(start)), Ok(hole) if hole >= end)
}
