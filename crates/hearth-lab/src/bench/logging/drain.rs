//! A drain that runs beside what is measured, as a log client does, and only counts.

use hearth_set::failure::{Failure, OrFail};
use hearth_trace::Record;
use hearth_trace::ring::{Account, AreaId, Drain, Ended, Facts, Name, Sink, StreamKey};
use std::convert::Infallible;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long it sleeps between passes.
const PERIOD: Duration = Duration::from_millis(1);
/// How long it may take for what was recorded.
const PATIENCE: Duration = Duration::from_secs(20);

/// Outcomes of all attempts that it has seen the end of, and the number of records that it has taken meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) attempted: u64,
    pub(crate) stored: u64,
    pub(crate) dropped: u64,
    pub(crate) torn: u64,
    pub(crate) taken: u64,
}

impl Sums {
    /// Whether every attempt is accounted for, and nothing was handed out that is not.
    pub(crate) fn adds_up(&self) -> bool {
        self.attempted == self.stored + self.dropped + self.torn && self.taken == self.stored
    }
}

impl Sink for Sums {
    type Error = Infallible;

    fn began(&mut self, _: AreaId, _: &Facts) -> Result<(), Infallible> {
        Ok(())
    }

    fn named(&mut self, _: AreaId, _: Name<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn records(&mut self, _: StreamKey, records: &[Record]) -> Result<(), Infallible> {
        self.taken += records.len() as u64;
        Ok(())
    }

    fn stream_ended(&mut self, _: StreamKey, account: &Account) -> Result<(), Infallible> {
        self.attempted += account.attempted;
        self.stored += account.stored;
        self.dropped += account.dropped;
        self.torn += account.torn;
        Ok(())
    }

    fn ended(&mut self, _: AreaId, ended: &Ended) -> Result<(), Infallible> {
        let unringed = ended.unringed.count();
        self.attempted += unringed;
        self.dropped += unringed;
        Ok(())
    }
}

/// The drain of one directory, on a thread of its own.
pub(crate) struct LiveDrain {
    thread: JoinHandle<Sums>,
    /// Dropped when it is to end.
    more: Sender<()>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    taken: Mutex<u64>,
    grown: Condvar,
}

impl LiveDrain {
    pub(crate) fn start(directory: &Path) -> Result<LiveDrain, Failure> {
        let what = || format!("cannot drain `{}`", directory.display());
        let drain = Drain::open(directory).or_fail(what)?;
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let (more, is_over) = channel();
        let thread = std::thread::Builder::new().spawn(move || run(drain, &seen, &is_over));
        Ok(LiveDrain {
            thread: thread.or_fail(what)?,
            more,
            shared,
        })
    }

    /// Waits until so many records have been taken.
    pub(crate) fn wait_for(&self, records: u64) -> Result<(), Failure> {
        let taken = self
            .shared
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let grown = &self.shared.grown;
        let waited = grown.wait_timeout_while(taken, PATIENCE, |taken| *taken < records);
        match waited {
            Ok((_, in_time)) if !in_time.timed_out() => Ok(()),
            _ => Err(Failure::new("the drain does not take what was recorded")),
        }
    }

    /// Takes what is left, and answers what became of everything.
    pub(crate) fn end(self) -> Result<Sums, Failure> {
        drop(self.more);
        let ended = self.thread.join();
        ended.map_err(|_| Failure::new("the drain failed"))
    }
}

fn run(mut drain: Drain, shared: &Shared, is_over: &Receiver<()>) -> Sums {
    let mut sums = Sums::default();
    loop {
        let is_last = is_over.recv_timeout(PERIOD) == Err(RecvTimeoutError::Disconnected);
        // An area that cannot be found now is found in the next pass.
        let _ = drain.scan();
        match drain.pass(&mut sums) {
            Ok(_) => {}
            Err(never) => match never {},
        }
        *shared.taken.lock().unwrap_or_else(PoisonError::into_inner) = sums.taken;
        shared.grown.notify_all();
        if is_last {
            return sums;
        }
    }
}
