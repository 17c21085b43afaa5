//! One world from its beginning to its end.

use crate::clock;
use crate::dice::Order;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A thread's stack, in bytes.
const STACK_BYTES: usize = 1 << 18;
/// Set to have worlds tell what happens in them.
const TELL: &str = "HEARTH_FUSE_TELL";
/// A world that takes so many steps turns in a circle.
const STEPS_MAX: usize = 4_000_000;

thread_local! {
    static TOLD: bool = std::env::var_os(TELL).is_some();
    static SO_FAR: RefCell<WorldOutcome> = RefCell::default();
}

/// The end of a world, and how it came there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorldOutcome {
    /// Steps of its threads.
    pub steps: u64,
    /// A digest of their order: two runs of a seed have the same.
    pub order: u64,
    /// How long it took by its clock.
    pub took: Duration,
    /// How often it came to what it is for.
    pub tally: BTreeMap<&'static str, u64>,
    /// The first that was not as it has to be.
    pub finding: Option<String>,
}

/// Something is not as it has to be: the world ends.
pub fn find(what: impl Into<String>) {
    SO_FAR.with_borrow_mut(|so_far| {
        so_far.finding.get_or_insert_with(|| what.into());
    });
}

/// Tells what happens, if somebody wants to see the world.
pub fn tell(what: impl FnOnce() -> String) {
    if TOLD.with(|told| *told) {
        let words = format!("{:>10?} {}", clock::now(), what());
        // Nobody needs it who has closed the stream.
        let _ = writeln!(std::io::stderr(), "{words}");
    }
}

/// The world came to something that it is for.
pub fn tally(what: &'static str) {
    SO_FAR.with_borrow_mut(|so_far| *so_far.tally.entry(what).or_default() += 1);
}

/// Whether something was found.
pub fn is_over() -> bool {
    SO_FAR.with_borrow(|so_far| so_far.finding.is_some())
}

/// One more step, by this thread.
pub(crate) fn note(task: u64) {
    SO_FAR.with_borrow_mut(|so_far| {
        so_far.steps += 1;
        so_far.order = (so_far.order ^ task).wrapping_mul(0x0100_0000_01B3);
    });
}

/// Runs the world of a seed: `first` is its first thread, and it ends when that does.
pub fn run(seed: u64, first: impl Fn() + Send + Sync + 'static) -> WorldOutcome {
    // All that a world leaves in its thread ends with that.
    let world = std::thread::spawn(move || begin(seed, first));
    world.join().expect("a panic within is caught")
}

fn begin(seed: u64, first: impl Fn() + Send + Sync + 'static) -> WorldOutcome {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    let runner = Runner::new(Order::of(seed), config);
    let ran = catch_unwind(AssertUnwindSafe(|| runner.run(move || live(&first))));
    if let Err(panic) = ran {
        let word = panic.downcast_ref::<String>().cloned();
        let word = word.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()));
        find(word.unwrap_or_else(|| "a panic".to_owned()));
    }
    let mut outcome = SO_FAR.take();
    outcome.took = clock::end();
    outcome
}

fn live(first: &impl Fn()) {
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    shuttle::thread::spawn(move || {
        while !told.load(Ordering::Relaxed) {
            if !clock::go_on() {
                return find("all threads wait, and for no moment");
            }
            shuttle::thread::yield_now();
        }
    });
    first();
    ended.store(true, Ordering::Relaxed);
}
