//! A process's own area: how it is made, and how threads get their rings.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, FallocateFlags};
use rustix::io::Errno;
use rustix::process::Resource;

use super::layout::{Geometry, MAGIC, SLOTS_MAX, Slot, VERSION, slot as state};
use super::map::{Mapping, wiped_on_fork};
use super::names::{Known, Name};
use super::seat::{OpFacts, Seat};
use super::totals::SharedTotals;
use crate::area::{self, AreaName, DirectoryError};
use crate::clock;

/// The behaviour of a thread whose ring is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Counts the attempt and goes on: the program never waits.
    #[default]
    Drop,
    /// Waits for the drain for at most so many microseconds, then as `Drop`.
    Wait {
        /// The bound.
        micros: u32,
    },
    /// Overwrites its oldest record and counts that one: a flight recorder. The drain takes what
    /// is there when the thread ends.
    Overwrite,
}

impl WhenFull {
    pub(crate) fn to_words(self) -> (u32, u32) {
        match self {
            WhenFull::Drop => (0, 0),
            WhenFull::Wait { micros } => (1, micros),
            WhenFull::Overwrite => (2, 0),
        }
    }

    pub(crate) fn from_words(code: u32, micros: u32) -> Option<WhenFull> {
        match code {
            0 => Some(WhenFull::Drop),
            1 => Some(WhenFull::Wait { micros }),
            2 => Some(WhenFull::Overwrite),
            _ => None,
        }
    }
}

/// How a process traces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The directory of areas.
    pub directory: PathBuf,
    /// Records of one ring; a power of two.
    pub capacity: u32,
    /// Most threads with a ring at one time; others are counted only.
    pub threads: u32,
    /// Bytes for names that the drain has not taken; a power of two.
    pub names_bytes: u32,
    /// The policy of a full ring.
    pub policy: WhenFull,
    /// Whether recording begins at once, or when somebody switches it on.
    pub on: bool,
    /// The number of this process in its job.
    pub rank: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            directory: area::directory(),
            capacity: 4096,
            threads: 256,
            names_bytes: 1 << 18,
            policy: WhenFull::Drop,
            on: true,
            rank: rank(),
        }
    }
}

/// Why a process is not traced.
#[derive(Debug, thiserror::Error)]
pub enum NotTraced {
    /// The directory cannot be used.
    #[error("use the directory of traces")]
    Directory(#[from] DirectoryError),
    /// A size is out of bounds.
    #[error(
        "{threads} threads with {capacity} records each and {names_bytes} bytes of names: not sizes of an area (powers of two, at most 2^20 records)"
    )]
    Sizes {
        /// See [`Options`].
        threads: u32,
        /// See [`Options`].
        capacity: u32,
        /// See [`Options`].
        names_bytes: u32,
    },
    /// There is no memory, or the system refuses.
    #[error("make an area in {directory:?}")]
    Area {
        /// The directory.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// State that a fork must not take over: zeroes in a child.
#[repr(C)]
struct Private {
    alive: AtomicU32,
    known: Known,
}

type Seats = [Seat; SLOTS_MAX as usize];

/// A process's own area, mapped for ever.
pub(crate) struct Producer {
    options: Options,
    name: AreaName,
    /// Path of the area, for the system.
    path: CString,
    map: Mapping,
    private: &'static Private,
    seats: &'static Seats,
    /// Not 0: there was no memory for a ring, so none is tried again.
    short: AtomicU32,
}

impl Producer {
    /// Makes the area of this process.
    pub(crate) fn new(options: Options) -> Result<Producer, NotTraced> {
        let geometry = Geometry::checked(options.threads, options.capacity, options.names_bytes)
            .ok_or(NotTraced::Sizes {
                threads: options.threads,
                capacity: options.capacity,
                names_bytes: options.names_bytes,
            })?;
        let directory = area::open_directory(&options.directory)?;
        let failed = |source: io::Error| NotTraced::Area {
            directory: options.directory.clone(),
            source,
        };
        let first = AreaName::of_this_process().map_err(failed)?;
        let (name, file) = area::create(&directory, first).map_err(failed)?;
        match Producer::fill(options.clone(), name, file, geometry) {
            Ok(producer) => Ok(producer),
            Err(error) => {
                // Half an area is of no use to anybody; the reason is what is reported.
                let _ = area::remove(&directory, &name);
                Err(failed(error))
            }
        }
    }

    fn fill(
        options: Options,
        name: AreaName,
        file: OwnedFd,
        geometry: Geometry,
    ) -> io::Result<Producer> {
        clock::decide();
        let total = geometry.total() as u64;
        // A file beyond the limit of this process (`ulimit -f`) would end the program, which is worth more than its trace.
        if rustix::process::getrlimit(Resource::Fsize)
            .current
            .is_some_and(|max| max < total)
        {
            return Err(Errno::FBIG.into());
        }
        rustix::fs::ftruncate(&file, total)?;
        // Header, table and names now; rings when threads take them. So nothing is ever touched
        // that the file system has not promised.
        let shared = geometry.ring(0) as u64;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, shared)?;
        let map = Mapping::new(&file, geometry)?;
        map.touch(0, geometry.ring(0));
        // SAFETY: both are made of atomics only, and all zeroes are a free seat and an empty table.
        let private = unsafe { wiped_on_fork::<Private>() }?;
        // SAFETY: as above.
        let seats = unsafe { wiped_on_fork::<Seats>() }?;
        let path = options.directory.join(name.to_string());
        let producer = Producer {
            seats,
            path: CString::new(path.into_os_string().into_vec())?,
            options,
            name,
            map,
            private,
            short: AtomicU32::new(0),
        };
        private.alive.store(1, Ordering::Relaxed);
        producer.write_header(area::pid_space()?);
        producer.say_facts();
        Ok(producer)
    }

    fn write_header(&self, pid_space: u64) {
        let header = self.map.header();
        let geometry = self.map.geometry();
        let (policy, wait_us) = self.options.policy.to_words();
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        for (word, value) in [
            (&header.version, VERSION),
            (&header.pid, self.name.pid),
            (&header.image, self.name.image),
            (&header.slots, geometry.slots),
            (&header.capacity, geometry.capacity),
            (&header.names_bytes, geometry.names_bytes),
            (&header.clock, clock::decide() as u32),
            (&header.policy, policy),
            (&header.wait_us, wait_us),
            (&header.parent, parent.cast_unsigned()),
            (&header.switch.0, u32::from(self.options.on)),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        let point = clock::sync_point();
        let words = [point.ticks, point.raw, point.real, point.window];
        for (word, value) in header.sync.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        header
            .start_time
            .store(self.name.start_time, Ordering::Relaxed);
        header.pid_space.store(pid_space, Ordering::Relaxed);
        // Paired with the acquire of whoever attaches: behind the magic, all of the above is there.
        header.magic.store(MAGIC, Ordering::Release);
    }

    fn say_facts(&self) {
        let say = |name: Name<'_>| self.private.known.say(&self.map, name);
        if let Ok(exe) = rustix::fs::readlink("/proc/self/exe", Vec::new()) {
            say(Name::Exe(exe.as_bytes()));
        }
        if let Ok(args) = area::read_small("/proc/self/cmdline") {
            say(Name::Args(&args));
        }
        if let Ok(cwd) = rustix::process::getcwd(Vec::new()) {
            say(Name::Cwd(cwd.as_bytes()));
        }
        if let Some(rank) = self.options.rank {
            say(Name::Rank(rank));
        }
    }

    /// Whether this is still the process that made the area.
    pub(crate) fn is_ours(&self) -> bool {
        self.private.alive.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn name(&self) -> AreaName {
        self.name
    }

    /// The word that says whether to record.
    pub(crate) fn switch(&self) -> &AtomicU32 {
        &self.map.header().switch.0
    }

    /// Wakes the drain, which watches the directory: a new time of the file is news to it. A program
    /// that no longer sees the path goes without; the drain comes anyway, later.
    pub(crate) fn knock(&self) {
        let now = rustix::fs::Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        };
        let times = rustix::fs::Timestamps {
            last_access: now,
            last_modification: now,
        };
        let _ = rustix::fs::utimensat(CWD, self.path.as_c_str(), &times, AtFlags::empty());
    }

    /// The id of a path.
    pub(crate) fn file(&self, path: &[u8]) -> u32 {
        self.private.known.file(&self.map, path)
    }

    /// Counts an attempt of a thread without a seat.
    pub(crate) fn count(&self, why: Unringed, started: u64, ended: u64, done: &OpFacts) {
        let header = self.map.header();
        header.unringed.add(done.share(started, ended));
        let reason = match why {
            Unringed::Nested => &header.nested.0,
            Unringed::NoSlot => &header.beyond,
            Unringed::NoMemory => &header.unbacked,
        };
        reason.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes over what was counted while there was no area.
    pub(crate) fn adopt(&self, totals: &SharedTotals) {
        let count = totals.move_to(&self.map.header().unringed);
        self.map
            .header()
            .nested
            .0
            .fetch_add(count, Ordering::Relaxed);
    }

    /// The reason why a thread has no ring.
    pub(crate) fn want(&self) -> Unringed {
        match self.short.load(Ordering::Relaxed) {
            0 => Unringed::NoSlot,
            _ => Unringed::NoMemory,
        }
    }

    /// Seats the calling thread at a ring of its own.
    pub(crate) fn seat(&'static self) -> Result<&'static Seat, Unringed> {
        if self.want() == Unringed::NoMemory {
            return Err(Unringed::NoMemory);
        }
        let (number, slot) = self.take_slot().ok_or(Unringed::NoSlot)?;
        if slot.backed.load(Ordering::Relaxed) == 0 && !self.back(number) {
            slot.state.store(state::UNBACKED, Ordering::Relaxed);
            self.short.store(1, Ordering::Relaxed);
            return Err(Unringed::NoMemory);
        }
        slot.backed.store(1, Ordering::Relaxed);
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        slot.tid.store(tid.cast_unsigned(), Ordering::Relaxed);
        let seat = &self.seats[number as usize];
        seat.settle(
            number,
            slot.generation.load(Ordering::Relaxed),
            self.map.control(number),
            self.map.lines(number),
            self.options.policy,
        );
        // Paired with the drain's acquire: a live slot has its thread and its pages.
        slot.state.store(state::LIVE, Ordering::Release);
        Ok(seat)
    }

    fn take_slot(&self) -> Option<(u32, &Slot)> {
        let take = |slot: &&Slot| {
            // Acquire: paired with the drain's release when it has cleared the ring.
            slot.state
                .compare_exchange(
                    state::FREE,
                    state::TAKEN,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok()
        };
        (0..).zip(self.map.slots()).find(|(_, slot)| take(slot))
    }

    /// Makes the pages of a ring, so that writing to it can never fail for want of memory.
    fn back(&self, slot: u32) -> bool {
        let geometry = self.map.geometry();
        let (start, bytes) = (geometry.ring(slot), geometry.ring_bytes());
        match self.map.populate(start, bytes) {
            Err(Errno::INVAL) => self.reserve(start, bytes).is_ok(),
            populated => populated.is_ok(),
        }
    }

    /// The same for kernels before 5.14. The file is opened anew, since a descriptor kept open could
    /// be closed by the program and its number be another file's.
    fn reserve(&self, start: usize, bytes: usize) -> io::Result<()> {
        let directory = area::open_directory(&self.options.directory).map_err(io::Error::other)?;
        let file = area::open(&directory, &self.name)?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), start as u64, bytes as u64)?;
        self.map.touch(start, bytes);
        Ok(())
    }

    /// The thread of this seat is going; its records stay.
    pub(crate) fn unseat(&self, seat: &Seat) {
        let slot = &self.map.slots()[seat.slot() as usize];
        seat.leave();
        // Paired with the drain's acquire: all that the thread wrote is there.
        slot.state.store(state::EXITED, Ordering::Release);
    }
}

/// Why an attempt has no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unringed {
    /// A signal handler came while the thread was writing a record.
    Nested,
    /// More threads than slots.
    NoSlot,
    /// No memory for a ring.
    NoMemory,
}

/// The number of this process in its job, if whatever started it says so.
fn rank() -> Option<u32> {
    const VARIABLES: [&str; 7] = [
        "PMIX_RANK",
        "PMI_RANK",
        "OMPI_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_RANK",
        "PALS_RANKID",
        "FLUX_TASK_RANK",
        "SLURM_PROCID",
    ];
    VARIABLES
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}
