//! Mappings of files, by where they begin: so that the calls that take an address alone are recorded
//! for files and for nothing else.
//!
//! A bounded table of atomic words. A mapping that finds no place is recorded when it is made and not
//! afterwards.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use hearth_trace::Op;
use hearth_trace::ring::{OpFacts, tracer};
use libc::off_t;

use crate::call::{Timed, on};
use crate::outcome::Outcome;
use crate::{fds, life};

/// Mappings that are remembered.
const PLACES: usize = 1 << 12;
/// Places that are looked at for one.
const PROBES: usize = 8;

static MAPPINGS: [Mapping; PLACES] = [const { Mapping::none() }; PLACES];

struct Mapping {
    /// Its first address; 0 is none.
    start: AtomicUsize,
    file: AtomicU32,
}

impl Mapping {
    const fn none() -> Mapping {
        Mapping {
            start: AtomicUsize::new(0),
            file: AtomicU32::new(0),
        }
    }
}

fn places(start: usize) -> impl Iterator<Item = &'static Mapping> {
    // Mappings begin on pages, and those of libraries lie close together.
    let first = (start >> 12).wrapping_mul(0x9e37_79b1) >> 7;
    (0..PROBES).filter_map(move |step| MAPPINGS.get(first.wrapping_add(step) % PLACES))
}

fn find(start: usize) -> Option<&'static Mapping> {
    places(start).find(|place| start != 0 && place.start.load(Relaxed) == start)
}

fn remember(start: usize, file: u32) {
    let free = |place: &Mapping| {
        let taken = place.start.compare_exchange(0, start, Relaxed, Relaxed);
        taken.is_ok()
    };
    if let Some(place) = find(start).or_else(|| places(start).find(|place| free(place))) {
        place.file.store(file, Relaxed);
    }
}

fn forget(start: usize) {
    if let Some(place) = find(start).filter(|_| life::is_own_memory()) {
        place.start.store(0, Relaxed);
    }
}

/// Makes a real call that maps a file, or memory that is none.
pub(crate) fn mapping(
    fd: c_int,
    flags: c_int,
    size: usize,
    offset: off_t,
    real: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let is_file = flags & libc::MAP_ANONYMOUS == 0;
    let seen = fds::look(fd).filter(|_| is_file && tracer::is_on());
    let start = match seen {
        Some(_) => on(Op::Mmap, fd).at(offset).asks(size).call(real),
        None => real(),
    };
    match seen.filter(|_| !start.failed()) {
        Some(seen) => remember(start.addr(), seen.number()),
        None => forget(start.addr()),
    }
    start
}

/// Makes a real call that ends a mapping.
pub(crate) fn unmapping(start: *mut c_void, size: usize, real: impl FnOnce() -> c_int) -> c_int {
    let Some(place) = find(start.addr()) else {
        return real();
    };
    let file = place.file.load(Relaxed);
    forget(start.addr());
    record(Op::Munmap, file, size, real)
}

/// Makes a real call that moves a mapping.
pub(crate) fn remapping(start: *mut c_void, real: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let file = find(start.addr()).map(|place| place.file.load(Relaxed));
    let moved = real();
    if let Some(file) = file.filter(|_| !moved.failed() && moved != start) {
        forget(start.addr());
        remember(moved.addr(), file);
    }
    moved
}

/// Makes a real call about a mapping.
pub(crate) fn on_mapping(
    op: Op,
    start: *mut c_void,
    size: usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    match find(start.addr()) {
        Some(place) => record(op, place.file.load(Relaxed), size, real),
        None => real(),
    }
}

fn record(op: Op, file: u32, size: usize, real: impl FnOnce() -> c_int) -> c_int {
    if !tracer::is_on() {
        return real();
    }
    let (done, timed) = Timed::call(real);
    timed.record(&OpFacts {
        file,
        asked: size as u64,
        result: timed.result,
        ..OpFacts::new(op)
    });
    done
}

/// Nothing is known of any mapping: the files' numbers were another process's.
pub(crate) fn forget_all() {
    for place in &MAPPINGS {
        place.start.store(0, Relaxed);
    }
}
