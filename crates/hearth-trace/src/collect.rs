//! Takes the content of a machine's rings and writes it as a session.
//!
//! [`Collector`] turns what a [`Drain`] finds into records and facts. [`Collection`] is the two
//! together, and the pace: a round when a thread knocks because much of its ring waits, a twentieth
//! of a second after the last as long as anything happens, and none where nothing is traced.
//!
//! 1. A record is in the writer's hands before it leaves its ring. Records of a round are in its sink
//!    after the round that follows a second later, or at [`Collection::finish`].

mod mounts;

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

use crate::Record;
use crate::area::DirectoryError;
use crate::clock::{self, SyncPoint};
use crate::file::{Fact, NewProcess, ProcessKey, Sink, StreamKey, Writer};
use crate::ring::{self, Account, AreaId, Drain, Ended, Facts, Name, Pass, Totals};

use mounts::Mounts;

/// Slot of the stream that stands for attempts without a ring.
const NO_SLOT: u32 = u32::MAX;

/// Writes what a drain finds.
pub struct Collector<S> {
    writer: Writer<S>,
    areas: HashMap<AreaId, Area>,
    streams: HashMap<ring::StreamKey, StreamKey>,
    mounts: Mounts,
}

struct Area {
    process: ProcessKey,
    pid: u32,
    lost: Totals,
}

impl<S: Sink> Collector<S> {
    /// Writes to `writer`.
    pub fn new(writer: Writer<S>) -> Collector<S> {
        clock::decide();
        Collector {
            writer,
            areas: HashMap::new(),
            streams: HashMap::new(),
            mounts: Mounts::default(),
        }
    }

    /// Writes how the clocks of this machine stand.
    pub fn clocks(&mut self) -> io::Result<()> {
        let kind = clock::decide();
        self.point(kind as u8, clock::sync_point())
    }

    /// The writer of the session.
    pub fn writer(&mut self) -> &mut Writer<S> {
        &mut self.writer
    }

    /// Ends the session.
    pub fn finish(mut self) -> io::Result<S> {
        self.clocks()?;
        self.writer.finish()
    }

    fn point(&mut self, clock: u8, point: SyncPoint) -> io::Result<()> {
        self.writer.fact(&Fact::Clock {
            clock,
            ticks: point.ticks,
            raw: point.raw,
            real: point.real,
            window: point.window,
        })
    }

    fn stream(&mut self, key: ring::StreamKey) -> io::Result<StreamKey> {
        if let Some(stream) = self.streams.get(&key) {
            return Ok(*stream);
        }
        let process = self.area(key.area).process;
        let stream = self
            .writer
            .stream(process, (key.slot, key.generation), key.tid)?;
        self.streams.insert(key, stream);
        Ok(stream)
    }

    fn file(&mut self, process: ProcessKey, file: u32, path: &[u8]) -> io::Result<()> {
        let Some(mount) = self.mounts.of(path) else {
            return self.writer.file(process, file, (path, ""));
        };
        self.writer.file(process, file, (path, &mount.kind))?;
        let Some(bytes) = mount.unit(path) else {
            return Ok(());
        };
        self.writer.fact(&Fact::Stripe {
            process: process.0,
            file,
            count: 1,
            bytes,
        })
    }

    fn area(&mut self, area: AreaId) -> &mut Area {
        let area = self.areas.get_mut(&area);
        area.expect("a drain says that an area began before all else of it")
    }

    /// Accounts for what was attempted without a ring: a stream that kept nothing.
    fn unringed(&mut self, area: AreaId, ended: &Ended) -> io::Result<()> {
        let attempted = ended.unringed.count();
        if attempted == 0 {
            return Ok(());
        }
        let area = self.area(area);
        area.lost.add(&ended.unringed);
        let (process, pid) = (area.process, area.pid);
        let stream = self.writer.stream(process, (NO_SLOT, 0), 0)?;
        self.writer.fact(&Fact::Counts {
            stream: stream.0,
            attempted,
            dropped: attempted,
            torn: 0,
        })?;
        for (count, of) in [
            (ended.nested, "inside of others, by signal handlers"),
            (ended.beyond, "by threads beyond the slots of its area"),
            (
                ended.unbacked,
                "by threads for whose ring there was no memory",
            ),
        ] {
            if count > 0 {
                self.remark(&format!(
                    "process {pid}: {count} operations {of}, were only counted"
                ))?;
            }
        }
        Ok(())
    }

    fn remark(&mut self, text: &str) -> io::Result<()> {
        let text = text.as_bytes();
        self.writer.fact(&Fact::Remark { text })
    }
}

impl<S: Sink> ring::Sink for Collector<S> {
    type Error = io::Error;

    fn began(&mut self, area: AreaId, facts: &Facts) -> io::Result<()> {
        let process = self.writer.process(&NewProcess {
            pid: facts.name.pid,
            start_time: facts.name.start_time,
            image: facts.name.image,
            clock: facts.clock as u8,
            start: facts.sync.ticks,
        })?;
        self.areas.insert(
            area,
            Area {
                process,
                pid: facts.name.pid,
                lost: Totals::default(),
            },
        );
        self.mounts.refresh();
        self.point(facts.clock as u8, facts.sync)
    }

    fn named(&mut self, area: AreaId, name: Name<'_>) -> io::Result<()> {
        let process = self.area(area).process;
        match name {
            Name::File(file, path) => self.file(process, file, path),
            Name::Exe(path) => self.writer.fact(&Fact::Exe {
                process: process.0,
                path,
            }),
            Name::Args(args) => self.writer.fact(&Fact::Args {
                process: process.0,
                args,
            }),
            Name::Rank(rank) => self.writer.fact(&Fact::Rank {
                process: process.0,
                rank,
            }),
            Name::Cwd(_) => Ok(()),
        }
    }

    fn records(&mut self, stream: ring::StreamKey, records: &[Record]) -> io::Result<()> {
        let stream = self.stream(stream)?;
        self.writer.records(stream, records)
    }

    fn stream_ended(&mut self, key: ring::StreamKey, account: &Account) -> io::Result<()> {
        let stream = self.stream(key)?;
        self.area(key.area).lost.add(&account.drops);
        self.streams.remove(&key);
        self.writer.end_stream(stream)?;
        self.writer.fact(&Fact::Counts {
            stream: stream.0,
            attempted: account.attempted,
            dropped: account.dropped,
            torn: account.torn,
        })
    }

    fn ended(&mut self, area: AreaId, ended: &Ended) -> io::Result<()> {
        self.unringed(area, ended)?;
        let names = ended.names_lost + ended.names_bad;
        let Some(known) = self.areas.remove(&area) else {
            return Ok(());
        };
        if names > 0 {
            let pid = known.pid;
            self.remark(&format!("process {pid}: {names} names of files are lost"))?;
        }
        let process = known.process.0;
        for row in &known.lost.0 {
            self.writer.fact(&Fact::Lost {
                process,
                op: row.code,
                count: row.count,
                bytes: row.bytes,
                ticks: row.ticks,
            })?;
        }
        let ticks = clock::now();
        self.writer.fact(&Fact::Ended { process, ticks })
    }
}

/// Why a machine's rings cannot be collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The directory of the rings cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The operating system refused.
    #[error("cannot collect what is traced")]
    Io(#[from] io::Error),
}

/// Rounds are not further apart than this while something is traced: threads whose rings fill faster
/// knock. Each round costs some 0.1 ms, for whatever it brings.
const PERIOD: Duration = Duration::from_millis(50);
/// Rounds that bring nothing for so long are [`PERIOD_IDLE`] apart.
const IDLE_AFTER: Duration = Duration::from_secs(1);
const PERIOD_IDLE: Duration = Duration::from_millis(200);
/// How often clocks are written, and everything is brought to the sink.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);
/// While nothing is traced, the directory is looked at so often, whatever the system says of it.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// An area is complete so long after its file came to be; until then it is looked at often.
const MAKING_SPAN: Duration = Duration::from_millis(100);
const PERIOD_MAKING: Duration = Duration::from_millis(10);

/// Collects the rings of a directory.
pub struct Collection<S> {
    drain: Drain,
    collector: Collector<S>,
    /// Tells of new areas.
    news: OwnedFd,
    /// Until when new areas are looked for in every round.
    look_until: Instant,
    look_at: Instant,
    flush_at: Instant,
    busy_at: Instant,
    waiting_max: u64,
}

impl<S: Sink> Collection<S> {
    /// Collects the areas in `directory`, which is made if need be.
    pub fn open(directory: &Path, writer: Writer<S>) -> Result<Collection<S>, CollectError> {
        let drain = Drain::open(directory)?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let news = inotify::init(flags).map_err(io::Error::from)?;
        let knocks = inotify::WatchFlags::ATTRIB;
        let events = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | knocks;
        inotify::add_watch(&news, directory, events).map_err(io::Error::from)?;
        let now = Instant::now();
        let mut collector = Collector::new(writer);
        collector.clocks()?;
        Ok(Collection {
            drain,
            collector,
            news,
            look_until: now,
            look_at: now,
            flush_at: now + FLUSH_PERIOD,
            busy_at: now,
            waiting_max: 0,
        })
    }

    /// Takes what is there. The answer is what this round did.
    pub fn round(&mut self) -> io::Result<Pass> {
        let now = Instant::now();
        if self.has_news() {
            self.look_until = now + MAKING_SPAN;
        }
        if now <= self.look_until || now >= self.look_at {
            self.drain.scan()?;
            self.look_at = now + LOOK_PERIOD;
        }
        let pass = self.drain.pass(&mut self.collector)?;
        self.waiting_max = self.waiting_max.max(u64::from(pass.fullest));
        if pass.records > 0 {
            self.busy_at = now;
        }
        if now >= self.flush_at {
            self.flush()?;
        }
        Ok(pass)
    }

    /// Writes how the clocks stand, and brings everything to the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.collector.clocks()?;
        self.flush_at = Instant::now() + FLUSH_PERIOD;
        self.collector.writer.flush()
    }

    /// Waits until the next round is due, something begins or ends, or `also` can be read.
    pub fn wait(&self, also: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let processes: Vec<BorrowedFd<'_>> = self.drain.processes().collect();
        // An area that was not complete when the system told of its file is looked at again soon.
        let now = Instant::now();
        let span = if now <= self.look_until {
            PERIOD_MAKING
        } else if self.areas() == 0 {
            LOOK_PERIOD
        } else if now - self.busy_at > IDLE_AFTER {
            PERIOD_IDLE
        } else {
            PERIOD
        };
        let ready = PollFlags::IN;
        let mut fds = vec![PollFd::from_borrowed_fd(self.news.as_fd(), ready)];
        fds.extend(also.map(|fd| PollFd::from_borrowed_fd(fd, ready)));
        let ended = processes.into_iter();
        fds.extend(ended.map(|fd| PollFd::from_borrowed_fd(fd, ready)));
        let span = Timespec {
            tv_sec: span.as_secs() as i64,
            tv_nsec: i64::from(span.subsec_nanos()),
        };
        match poll(&mut fds, Some(&span)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reads away what the system says of the directory; whether there may be a new area.
    fn has_news(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.news, &mut buffer);
        let mut any = false;
        while let Ok(event) = events.next() {
            any |= event.events() != inotify::ReadFlags::ATTRIB;
        }
        any
    }

    /// Areas that are collected now.
    pub fn areas(&self) -> usize {
        self.drain.areas().count()
    }

    /// The fullest that a ring was when its turn came, in 256ths.
    pub fn waiting_max(&self) -> u64 {
        self.waiting_max
    }

    /// The drain.
    pub fn drain(&mut self) -> &mut Drain {
        &mut self.drain
    }

    /// The writer of the session.
    pub fn writer(&mut self) -> &mut Writer<S> {
        self.collector.writer()
    }

    /// Takes what is there and ends the session. Processes that still run are left to the next.
    pub fn finish(mut self) -> io::Result<S> {
        self.drain.scan()?;
        self.drain.pass(&mut self.collector)?;
        self.collector.finish()
    }
}
