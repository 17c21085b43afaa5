//! The ring itself: this process records what it never did, while a drain takes it.

use super::drain::{LiveDrain, Sums};
use hearth_set::failure::{Failure, OrFail};
use hearth_trace::clock::{self, ClockKind};
use hearth_trace::ring::{OpFacts, Options, tracer};
use hearth_trace::{Flags, Op};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A thread that records in bursts, and the drain beside it.
pub(crate) struct Ring {
    drain: LiveDrain,
    orders: Sender<(u64, Kind)>,
    ticks: Receiver<Vec<f64>>,
    thread: JoinHandle<()>,
    attempts: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Two readings around all.
    Whole,
    /// Two readings around each.
    Stamped,
}

impl Ring {
    /// This process is traced from now on.
    pub(crate) fn start(areas: &Path) -> Result<Ring, Failure> {
        let options = Options {
            directory: areas.to_owned(),
            capacity: 1 << 14,
            ..Options::default()
        };
        tracer::start(options).or_fail(|| "cannot trace this process".to_owned())?;
        let drain = LiveDrain::start(areas)?;
        let (orders, told) = channel();
        let (answer, ticks) = channel();
        let thread = std::thread::spawn(move || {
            let file = tracer::file(b"/scratch/mesh");
            for (count, kind) in told {
                let figures = match kind {
                    Kind::Whole => vec![whole(count, file)],
                    Kind::Stamped => stamped(count, file),
                };
                if answer.send(figures).is_err() {
                    break;
                }
            }
        });
        Ok(Ring {
            drain,
            orders,
            ticks,
            thread,
            attempts: 0,
        })
    }

    /// Ticks of one burst.
    pub(crate) fn burst(&mut self, count: u64) -> Result<f64, Failure> {
        Ok(self.ask(count, Kind::Whole)?[0])
    }

    /// Adds the ticks of each record of a burst, with one reading of the clock in each.
    pub(crate) fn stamped_burst(&mut self, count: u64, into: &mut Vec<f64>) -> Result<(), Failure> {
        into.extend(self.ask(count, Kind::Stamped)?);
        Ok(())
    }

    fn ask(&mut self, count: u64, kind: Kind) -> Result<Vec<f64>, Failure> {
        let gone = || Failure::new("the recording thread is gone");
        self.orders.send((count, kind)).map_err(|_| gone())?;
        let figures = self.ticks.recv().map_err(|_| gone())?;
        self.attempts += count;
        // An empty ring for the next, so that none is dropped.
        self.drain.wait_for(self.attempts)?;
        Ok(figures)
    }

    /// Ends the recording, and returns the outcome of all of it.
    pub(crate) fn end(self) -> Result<Sums, Failure> {
        drop(self.orders);
        let joined = self.thread.join();
        joined.map_err(|_| Failure::new("the recording thread failed"))?;
        self.drain.end()
    }
}

/// The record of the operation with this number.
#[inline(always)]
fn done(number: u64, file: u32) -> OpFacts {
    OpFacts {
        flags: Flags::HIT,
        offset: number * 4096,
        asked: 4096,
        result: 4096,
        file,
        request: number,
        near: 4096,
        ..OpFacts::new(Op::Pread)
    }
}

#[inline(always)]
fn record(number: u64, file: u32) {
    if let Some(started) = tracer::enter() {
        tracer::leave(started, &done(number, file));
    }
}

#[inline(never)]
fn whole(count: u64, file: u32) -> f64 {
    let first = clock::now();
    for number in 0..count {
        record(number, file);
    }
    (clock::now() - first) as f64
}

#[inline(never)]
fn stamped(count: u64, file: u32) -> Vec<f64> {
    // Written before, so that no fault of a new page is taken for the record's.
    let mut figures = vec![f64::NAN; count as usize];
    for (number, figure) in (0..).zip(&mut figures) {
        let before = clock::now();
        record(number, file);
        *figure = (clock::now() - before) as f64;
    }
    figures
}

/// Ticks of a record's two readings of the clock: what no tracer of intervals can be under.
pub(crate) fn floor() -> f64 {
    const READINGS: u32 = 100_000;
    let first = clock::now();
    for _ in 0..READINGS {
        std::hint::black_box(clock::now());
        std::hint::black_box(clock::now());
    }
    (clock::now() - first) as f64 / f64::from(READINGS)
}

/// Name of the clock that the ticks are from.
pub(crate) fn clock_name() -> &'static str {
    ClockKind::name(clock::decide())
}
