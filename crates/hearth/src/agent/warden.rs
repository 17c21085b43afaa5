//! The process that outlives its agent, and starts another in its place ([takeover.md]).
//!
//! ```text
//!   agent ── splits ──> warden           one table of descriptors, two memories
//!     │  says what it serves ──>│
//!     ✕ killed                  │  closes what nobody needs any more
//!                               ├── splits ──> agent: takes the mount over
//! ```
//!
//! The table lasts as long as one of the two. So the mount, files that programs have open, and locks on them are there
//! after a death, under the same numbers. The warden has one thread, does nothing while its agent lives, and can be ended
//! at any time: then the mount ends with the agent.
//!
//! [takeover.md]: ../../../../docs/agent/takeover.md

mod guard;
mod line;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_fuse::{Ledger, left};
use hearth_set::control::Ids;
use hearth_set::process::Process;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use serde::{Deserialize, Serialize};

use self::guard::Guard;
pub(super) use self::line::Line;
use super::start::Inherited;
use crate::os::{self, Half};

/// One word of an agent to its warden.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// It is ready: another one is to take its place when it dies.
    Ready(Run),
    /// It serves this mount.
    Serves(Held),
    /// It serves none any more.
    ServesNone,
    /// It ends in order.
    Ends,
}

/// One run of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Larger than that of every agent that was in its place.
    pub(super) incarnation: u64,
    /// How other agents know it.
    pub(super) number: u64,
}

/// A mount that an agent serves, as another one finds it in the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Held {
    /// The ledger.
    ledger: RawFd,
    /// Namespaces that the mount is in, if it is not in the common tree.
    namespaces: Vec<RawFd>,
    /// Its path, if it is in the common tree.
    pub(super) at: Option<PathBuf>,
    /// The owners that its files are shown with.
    pub(super) ids: Ids,
    /// The number by which the operating system knows its connection, if it is known.
    connection: Option<u32>,
}

impl Held {
    /// A mount that is to be.
    pub(super) fn new(ledger: &Ledger, ids: Ids) -> Held {
        Held {
            ledger: ledger.as_fd().as_raw_fd(),
            namespaces: Vec::new(),
            at: None,
            ids,
            connection: None,
        }
    }

    /// The same with the number of its connection.
    pub(super) fn by(self, connection: Option<u32>) -> Held {
        Held { connection, ..self }
    }

    /// The same in the common tree.
    pub(super) fn at(self, at: &Path) -> Held {
        let at = Some(at.to_owned());
        Held { at, ..self }
    }

    /// The same in namespaces of its own.
    pub(super) fn in_namespaces(self, namespaces: &[OwnedFd]) -> Held {
        let namespaces = namespaces.iter().map(AsRawFd::as_raw_fd).collect();
        Held { namespaces, ..self }
    }

    /// Its ledger and its namespaces, from an agent that is dead.
    pub(super) fn take(&self) -> io::Result<(Arc<Ledger>, Vec<OwnedFd>)> {
        let ledger = Ledger::from_fd(left::adopt(self.ledger)?)?;
        let namespaces = self.namespaces.iter().copied().map(left::adopt);
        Ok((Arc::new(ledger), namespaces.collect::<io::Result<_>>()?))
    }
}

/// An agent's part of its warden. Nothing of it is ever closed: the next agent has it, too.
#[derive(Clone, Copy)]
pub(super) struct Warden(Option<&'static Ways>);

/// The ways by which a warden hears of its agent.
struct Ways {
    line: Line,
    /// Rings soon after the agent's lease is over.
    lease_alarm: OwnedFd,
}

/// The way in which an agent begins.
pub(super) enum Beginning {
    /// A command starts it.
    First(Inherited, Option<Process>),
    /// It takes the place of one that is dead.
    Again(Again),
}

/// An agent's place, as it was left.
pub(super) struct Again {
    /// The mount that the dead one served.
    pub(super) held: Option<Held>,
    /// The last one that was ready.
    pub(super) last: Run,
    /// Nothing of that one, nor of any since, is on its way to the store any more.
    pub(super) are_over: bool,
}

/// Starts the warden. Returns in the agent, and again in each that takes its place.
pub(super) fn start(config: &Path, inherited: Inherited) -> (Warden, Beginning) {
    match try_start(config) {
        Ok((ways, None, warden)) => {
            let warden = warden.and_then(Process::of);
            (Warden(Some(ways)), Beginning::First(inherited, warden))
        }
        Ok((ways, Some(again), _)) => {
            // These numbers are of the agent that is dead.
            std::mem::forget(inherited);
            (Warden(Some(ways)), Beginning::Again(again))
        }
        Err(error) => {
            log::warn!("no other agent can take the place of this one when it dies: {error}");
            (Warden(None), Beginning::First(inherited, None))
        }
    }
}

fn try_start(config: &Path) -> io::Result<(&'static Ways, Option<Again>, Option<u32>)> {
    let (line, its) = Line::pair()?;
    let clock = TimerfdClockId::Boottime;
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let lease_alarm = timerfd_create(clock, flags)?;
    let ours: &'static Ways = Box::leak(Box::new(Ways { line, lease_alarm }));
    let guard = Guard::of_this_process(config, its, ours)?;
    match os::split()? {
        Half::Old(warden) => {
            // One that starts no other agent is nothing that commands have to know.
            let number = warden.as_raw_nonzero().get().cast_unsigned();
            let known = guard.revives().then_some(number);
            guard.forget();
            Ok((ours, None, known))
        }
        Half::New => Ok((ours, Some(guard.keep()), None)),
    }
}

impl Warden {
    /// From now on another agent is to take this one's place when it dies.
    pub(super) fn ready(&self, run: Run) {
        self.say(&Word::Ready(run));
    }

    /// A mount is served from now on, or none.
    pub(super) fn serves(&self, held: Option<Held>) {
        self.say(&held.map_or(Word::ServesNone, Word::Serves));
    }

    /// The mount of a dead agent cannot be served: programs wait for it no more.
    pub(super) fn lose_mount(&self) {
        let closed = left::devices().and_then(|devices| {
            let mut devices = devices.into_iter().map(left::adopt);
            devices.try_for_each(|device| device.map(drop))
        });
        if let Err(error) = closed {
            log::error!("programs wait for ever in a mount that nobody serves: {error}");
        }
        self.serves(None);
    }

    /// This agent ends in order.
    pub(super) fn ends(&self) {
        self.say(&Word::Ends);
    }

    /// The timer that wakes the warden soon after the lease is over.
    pub(super) fn lease_alarm(&self) -> Option<OwnedFd> {
        self.0.and_then(|ways| ways.lease_alarm.try_clone().ok())
    }

    fn say(&self, word: &Word) {
        if let Some(ways) = &self.0
            && let Err(error) = ways.line.say(word)
        {
            log::warn!("this agent's warden is gone: {error}");
        }
    }
}
