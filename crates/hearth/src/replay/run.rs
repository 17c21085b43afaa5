//! Does all steps of a plan, and measures how well it kept the time.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{ClockId, Timespec, clock_nanosleep_relative};

use super::files::{Buffer, Process};
use super::gate::Gate;
use super::plan::Plan;
use super::step::Step;

/// Stack of a thread that replays.
const STACK_BYTES: usize = 256 << 10;

/// The last part of a wait is not slept: a sleep is late by about that much.
const SPIN: Duration = Duration::from_micros(80);

/// All threads begin so much later than the first of them is made, for each of them.
const LEAD_PER_THREAD: Duration = Duration::from_micros(100);

/// Sentences about outcomes that are kept.
const EXAMPLES_MAX: usize = 5;

/// Whether the time between operations is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Think {
    Keep,
    Drop,
}

/// The result of a replay.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Nanoseconds in operations, as traced and now.
    pub(crate) traced: u64,
    pub(crate) took: u64,
    /// From the first operation to the end of the last.
    pub(crate) elapsed: Duration,
    /// How late operations began.
    pub(crate) late: Late,
    /// Operations that ended differently, and some of them in words.
    pub(crate) differ: u64,
    pub(crate) examples: Vec<String>,
}

/// How late operations began: counts by the power of two of nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    counts: [u64; 65],
    max: u64,
}

impl Default for Late {
    fn default() -> Late {
        Late {
            counts: [0; 65],
            max: 0,
        }
    }
}

impl Late {
    fn add(&mut self, late: Duration) {
        let nanoseconds = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.counts[64 - nanoseconds.leading_zeros() as usize] += 1;
        self.max = self.max.max(nanoseconds);
    }

    fn join(&mut self, other: &Late) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    /// Nanoseconds that at most a share of all operations exceeded, to the next power of two.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let all: u64 = self.counts.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        let power = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let bound = power.map_or(u64::MAX, |power| {
            1_u64.checked_shl(power as u32).unwrap_or(u64::MAX)
        });
        bound.min(self.max)
    }

    /// The worst.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }
}

/// The state that all threads share.
struct Stage<'a> {
    plan: &'a Plan,
    places: &'a [PathBuf],
    processes: Vec<Process>,
    of: &'a [usize],
    gates: Vec<Gate>,
    think: Think,
    begin: Instant,
}

/// Does all steps. `of` says which process each thread is of.
pub(crate) fn run(
    plan: &Plan,
    places: &[PathBuf],
    of: &[usize],
    think: Think,
) -> io::Result<Outcome> {
    let threads = plan.streams.len();
    let processes = of.iter().max().map_or(0, |last| last + 1);
    let lead = LEAD_PER_THREAD * u32::try_from(threads).unwrap_or(u32::MAX);
    let stage = Stage {
        plan,
        places,
        processes: (0..processes).map(|_| Process::default()).collect(),
        of,
        gates: (0..threads).map(|_| Gate::default()).collect(),
        think,
        begin: Instant::now() + lead,
    };
    let whole = Mutex::new(Outcome::default());
    let mut failure = None;
    thread::scope(|scope| {
        for stream in 0..threads {
            let (stage, whole) = (&stage, &whole);
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            let spawned = builder.spawn_scoped(scope, move || {
                let outcome = stage.replay(stream);
                let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
                whole.join(outcome);
            });
            if let Err(error) = spawned {
                // Nobody waits for a thread that is not there.
                stage.gates[stream].open();
                failure = Some(error);
            }
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(whole.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

impl Outcome {
    fn join(&mut self, other: Outcome) {
        self.operations += other.operations;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.traced += other.traced;
        self.took += other.took;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.late.join(&other.late);
        self.differ += other.differ;
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.into_iter().take(room));
    }

    fn differs(&mut self, words: impl FnOnce() -> String) {
        self.differ += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(words());
        }
    }
}

impl Stage<'_> {
    fn replay(&self, stream: usize) -> Outcome {
        let mut outcome = Outcome::default();
        let mut steps = self.plan.steps_of(stream);
        let mut buffer = Buffer::new();
        let delay = Duration::from_nanos(self.plan.streams[stream].delay);
        let mut ready = match self.think {
            Think::Keep => self.begin + delay,
            Think::Drop => self.begin,
        };
        loop {
            match steps.next() {
                Ok(Some(step)) => ready = self.step(&step, ready, &mut buffer, &mut outcome),
                Ok(None) => break,
                Err(error) => {
                    outcome.differs(|| format!("cannot read the plan of the replay: {error}"));
                    break;
                }
            }
        }
        self.gates[stream].open();
        outcome
    }

    /// Does one step, and returns when it was over.
    fn step(
        &self,
        step: &Step,
        ready: Instant,
        buffer: &mut Buffer,
        outcome: &mut Outcome,
    ) -> Instant {
        let mut ready = ready;
        if let Some((other, count)) = step.after {
            let before = Instant::now();
            self.gates[other as usize].wait(count);
            let now = Instant::now();
            // A thread that had to wait is ready only now.
            if now.duration_since(before) > SPIN {
                ready = ready.max(now);
            }
        }
        let target = match self.think {
            Think::Keep => ready + Duration::from_nanos(step.think),
            Think::Drop => ready,
        };
        wait_until(target);
        let what = &step.what;
        let path = &self.places[what.file as usize];
        let process = &self.processes[self.of[step.stream as usize]];
        let begin = Instant::now();
        let result = process.act(what, path, buffer);
        let end = Instant::now();
        self.gates[step.stream as usize].pass();
        outcome.late.add(begin.duration_since(target));
        outcome.operations += 1;
        outcome.traced += what.took;
        outcome.took += end.duration_since(begin).as_nanos() as u64;
        outcome.elapsed = outcome
            .elapsed
            .max(end.saturating_duration_since(self.begin));
        judge(step, result, path, outcome);
        end
    }
}

/// Compares what happened with what the trace says.
fn judge(step: &Step, result: io::Result<u64>, path: &std::path::Path, outcome: &mut Outcome) {
    let what = &step.what;
    let (op, place) = (what.op.name(), path.display());
    match result {
        Ok(_) if what.failed() => outcome.differs(|| {
            let traced = io::Error::from_raw_os_error(what.result.unsigned_abs() as i32);
            format!("{op} of `{place}` succeeds; it failed in the trace: {traced}")
        }),
        Ok(moved) => {
            if what.op.is_write() {
                outcome.bytes_written += moved;
            } else {
                outcome.bytes_read += moved;
            }
            if what.op.moves_bytes() && moved != what.bytes() {
                let traced = what.bytes();
                outcome.differs(|| {
                    format!("{op} of `{place}` moves {moved} bytes; it moved {traced} in the trace")
                });
            }
        }
        Err(_) if what.failed() => {}
        Err(error) => outcome.differs(|| format!("{op} of `{place}` fails: {error}")),
    }
}

fn wait_until(target: Instant) {
    loop {
        let left = target.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > SPIN {
            let sleep = left - SPIN;
            let request = Timespec {
                tv_sec: sleep.as_secs().cast_signed(),
                tv_nsec: i64::from(sleep.subsec_nanos()),
            };
            // A signal ends it early; then there is another round.
            let _ = clock_nanosleep_relative(ClockId::Monotonic, &request);
        } else {
            std::hint::spin_loop();
        }
    }
}
