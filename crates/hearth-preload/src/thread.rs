//! A thread's knowledge of itself. Constant cells without destructors: the first use allocates
//! nothing, and hooks run while a thread is being made or unmade.

use std::cell::Cell;

use hearth_client::local::{CounterShard, Local};
use hearth_trace::Flags;

/// Files whose last access a thread remembers, by the lower bits of their numbers.
const RECENT: usize = 16;

struct Here {
    /// The thread is at work for the trace; a signal handler that comes now goes by quickly.
    is_inside: Cell<bool>,
    /// Number of the shard to count in, and one; 0 before the first count.
    shard: Cell<u32>,
    /// Files and where the last access to them ended.
    recent: [Cell<(u32, i64)>; RECENT],
}

thread_local! {
    static HERE: Here = const {
        Here {
            is_inside: Cell::new(false),
            shard: Cell::new(0),
            recent: [const { Cell::new((0, 0)) }; RECENT],
        }
    };
}

/// Does `work` unless this thread is at such work already.
pub(crate) fn inside<T>(work: impl FnOnce() -> T) -> Option<T> {
    HERE.with(|here| {
        if here.is_inside.replace(true) {
            return None;
        }
        let done = work();
        here.is_inside.set(false);
        Some(done)
    })
}

/// The shard in which this thread counts.
#[inline(always)]
pub(crate) fn shard(local: &Local) -> CounterShard {
    HERE.with(|here| match here.shard.get() {
        0 => first_shard(local, &here.shard),
        known => CounterShard::numbered(known - 1),
    })
}

#[cold]
#[inline(never)]
fn first_shard(local: &Local, known: &Cell<u32>) -> CounterShard {
    let shard = local.shard();
    known.set(shard.number() + 1);
    shard
}

/// This thread is that of a new process: the shard is its parent's.
pub(crate) fn forget_shard() {
    HERE.with(|here| here.shard.set(0));
}

/// Notes an access of `count` bytes at `offset`, and tells whether it begins where this thread's
/// last access to the file ended.
#[inline(always)]
pub(crate) fn follow(file: u32, offset: i64, count: i64) -> Flags {
    HERE.with(|here| {
        let cell = &here.recent[file as usize % RECENT];
        let follows = cell.replace((file, offset.wrapping_add(count))) == (file, offset);
        Flags(if follows { Flags::SEQUENTIAL.0 } else { 0 })
    })
}
