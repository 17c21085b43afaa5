//! The tracer of this process: what its calls tell it.
//!
//! ```no_run
//! use hearth_trace::Op;
//! use hearth_trace::ring::{OpFacts, Options, tracer};
//!
//! tracer::start(Options::default())?;
//! let file = tracer::file(b"/scratch/mesh.h5");
//! if let Some(started) = tracer::enter() {
//!     // ... the call itself ...
//!     tracer::leave(started, &OpFacts { file, result: 4096, ..OpFacts::new(Op::Pread) });
//! }
//! # Ok::<(), hearth_trace::ring::NotTraced>(())
//! ```
//!
//! `enter` and `leave` may be called anywhere, also in signal handlers and in a child made by fork,
//! which gets an area of its own with its first record.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::producer::{NotTraced, Options, Producer, Unringed};
use super::seat::{NOBODY, OpFacts, Seat};
use super::totals::SharedTotals;
use crate::area::AreaName;
use crate::clock;

/// The area of this process; never freed.
static PRODUCER: AtomicPtr<Producer> = AtomicPtr::new(std::ptr::null_mut());
/// The word that says whether to record: the area's, or [`OFF`].
static SWITCH: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const OFF).cast_mut());
static OFF: AtomicU32 = AtomicU32::new(0);
/// Thread that is making an area for a forked child, or 0.
static STARTER: AtomicU32 = AtomicU32::new(0);
/// The sums of operations done while it makes one.
static MEANWHILE: SharedTotals = SharedTotals::new();
/// Counts the areas that this process and its ancestors have had.
static LIFE: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SEAT: Cell<&'static Seat> = const { Cell::new(&NOBODY) };
    /// Attempts to let pass before this thread looks for a ring again.
    static PATIENCE: Cell<u32> = const { Cell::new(0) };
    static GOING: Going = const { Going };
}

/// How many attempts a thread without a ring lets pass before it looks for one again.
const PATIENCE_ATTEMPTS: u32 = 1024;

/// Gives the seat back when the thread ends.
struct Going;

impl Drop for Going {
    fn drop(&mut self) {
        let seat = SEAT.replace(&NOBODY);
        PATIENCE.set(u32::MAX);
        if let Some(producer) = producer()
            && producer.is_ours()
            && seat.is_taken()
        {
            producer.unseat(seat);
        }
    }
}

/// Begins to trace this process; once. A second call changes nothing.
pub fn start(options: Options) -> Result<(), NotTraced> {
    if producer().is_some() {
        return Ok(());
    }
    install(Producer::new(options)?);
    Ok(())
}

fn install(made: Producer) {
    let made: &'static Producer = Box::leak(Box::new(made));
    LIFE.fetch_add(1, Ordering::Relaxed);
    let switch: *const AtomicU32 = made.switch();
    let made: *const Producer = made;
    PRODUCER.store(made.cast_mut(), Ordering::Release);
    SWITCH.store(switch.cast_mut(), Ordering::Release);
}

fn producer() -> Option<&'static Producer> {
    // SAFETY: null, or what `install` leaked: valid for ever, and shared only.
    unsafe { PRODUCER.load(Ordering::Acquire).as_ref() }
}

/// Whether calls are recorded now.
#[inline(always)]
pub fn is_on() -> bool {
    // SAFETY: OFF, or a word of an area that is never unmapped.
    unsafe { &*SWITCH.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// A call begins: the time, or `None` while tracing is off.
#[inline(always)]
pub fn enter() -> Option<u64> {
    is_on().then(clock::now)
}

/// The call that began at `started` is over.
#[inline(always)]
pub fn leave(started: u64, done: &OpFacts) {
    record(started, clock::now(), done);
}

/// Records a call whose times, in ticks of [`clock::now`], the caller has.
#[inline(always)]
pub fn record(started: u64, ended: u64, done: &OpFacts) {
    if !SEAT.get().record(started, ended, done) {
        without_seat(started, ended, done);
    }
}

/// The id of a file, named to the drain if it is new; 0 while this process is not traced. Ids are
/// those of one [`life`].
pub fn file(path: &[u8]) -> u32 {
    match ours() {
        Some(producer) => producer.file(path),
        None => 0,
    }
}

/// Wakes the drain, if this process is traced.
pub(crate) fn knock() {
    if let Some(producer) = producer() {
        producer.knock();
    }
}

/// Changes when file ids lose their meaning: when a child made by fork gets an area of its own.
pub fn life() -> u32 {
    let _ = ours();
    LIFE.load(Ordering::Relaxed)
}

/// The area of this process, if it is traced.
pub fn area() -> Option<AreaName> {
    ours().map(Producer::name)
}

/// The producer of this very process; makes one for a forked child.
fn ours() -> Option<&'static Producer> {
    match producer() {
        Some(producer) if !producer.is_ours() => after_fork(producer),
        producer => producer,
    }
}

#[cold]
#[inline(never)]
fn without_seat(started: u64, ended: u64, done: &OpFacts) {
    let Some(producer) = ours() else {
        if producer().is_some() {
            MEANWHILE.add(done.share(started, ended));
        }
        return;
    };
    if SEAT.get().is_taken() {
        return producer.count(Unringed::Nested, started, ended, done);
    }
    let patience = PATIENCE.get();
    if patience > 0 {
        // A thread on its way out stays without.
        if patience != u32::MAX {
            PATIENCE.set(patience - 1);
        }
        return producer.count(producer.want(), started, ended, done);
    }
    match producer.seat() {
        Ok(seat) => {
            SEAT.set(seat);
            say_when_going();
            seat.record(started, ended, done);
        }
        Err(why) => {
            PATIENCE.set(PATIENCE_ATTEMPTS);
            producer.count(why, started, ended, done);
        }
    }
}

/// Has the seat given back at the end of the thread. The main thread keeps it: what runs at the
/// end of a process does I/O too.
fn say_when_going() {
    let thread = rustix::thread::gettid();
    if thread != rustix::process::getpid() {
        GOING.with(|_| ());
    }
}

/// This is a child made by fork: it gets an area of its own, made by the thread that comes first.
/// Others wait for it, but a handler that interrupts that very thread does not.
fn after_fork(parent: &'static Producer) -> Option<&'static Producer> {
    let me = rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned();
    // A starter that the fork left behind never finishes.
    const TURNS_MAX: u32 = 10_000;
    for turn in 0.. {
        if let Some(producer) = producer()
            && producer.is_ours()
        {
            return Some(producer);
        }
        match STARTER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(starter) if starter == me => return None,
            Err(_) if turn == TURNS_MAX => break,
            Err(_) => rustix::thread::sched_yield(),
        }
    }
    if producer().is_some_and(|producer| !producer.is_ours()) {
        make_own(parent);
    }
    STARTER.store(0, Ordering::Release);
    producer().filter(|producer| producer.is_ours())
}

fn make_own(parent: &Producer) {
    // The forking thread's seat is the parent's.
    SEAT.set(&NOBODY);
    match Producer::new(parent.options().clone()) {
        Ok(own) => {
            own.adopt(&MEANWHILE);
            install(own);
        }
        // There is nobody to tell, and the program must not suffer: this process is not traced.
        Err(_) => {
            SWITCH.store((&raw const OFF).cast_mut(), Ordering::Relaxed);
            PRODUCER.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}
