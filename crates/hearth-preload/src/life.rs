//! The library's start in a process, what a fork changes, and its end.

use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::Relaxed};

use hearth_trace::ring::{Options, WhenFull, tracer};

use crate::errno::keeping_errno;
use crate::{
    behind, bus, cache, cwd, environment, fds, filter, jail, maps, notice, owners, streams, sys,
    thread, write_ring,
};

/// A word that a fork wipes: the process that has this memory, or 0 in a child that has yet to say
/// so. Null before the start.
static OWNER: AtomicPtr<AtomicI32> = AtomicPtr::new(ptr::null_mut());

/// Called by the dynamic linker when the library is loaded, before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Called by the dynamic linker when the program ends.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    keeping_errno(|| {
        if let Some(word) = sys::word_wiped_on_fork() {
            word.store(sys::process(), Relaxed);
            OWNER.store(ptr::from_ref(word).cast_mut(), Relaxed);
        }
        filter::start();
        environment::start();
        cache::start();
        write_ring::start();
        behind::start();
        owners::start();
        if jail::is_closer() {
            cache::jailed();
            behind::stop();
        }
        notice::start();
        bus::start();
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
        let Some(options) = options() else { return };
        // A process that cannot be traced runs as it would have.
        if tracer::start(options).is_ok() {
            streams::start();
        }
    });
}

extern "C" fn end() {
    if tracer::is_on() {
        streams::catch_up_all();
    }
}

extern "C" fn before_fork() {
    fds::forked();
}

extern "C" fn in_child() {
    is_own_memory();
}

/// Whether this process's memory is its own: not in a child of `vfork`, which has its parent's.
pub(crate) fn is_own_memory() -> bool {
    // SAFETY: null, or a word that is never unmapped.
    let Some(owner) = (unsafe { OWNER.load(Relaxed).as_ref() }) else {
        return true;
    };
    let process = sys::process();
    if owner.load(Relaxed) == 0 {
        owner.store(process, Relaxed);
        // The files' numbers were those of the parent's names.
        fds::forked();
        fds::inherited();
        thread::forget_shard();
        cwd::forget();
        maps::forget_all();
    }
    let own = owner.load(Relaxed) == process;
    if !own {
        write_ring::shared_by_child();
    }
    own
}

/// How the environment wants this process traced; `None` if not at all.
fn options() -> Option<Options> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let on = match variable("HEARTH_TRACE")?.as_str() {
        "0" | "no" => return None,
        "off" => false,
        _ => true,
    };
    if variable("HEARTH_TRACE_FOLLOW").as_deref() == Some("no") {
        return None;
    }
    let mut options = Options {
        on,
        ..Options::default()
    };
    let number = |name: &str| variable(name)?.parse().ok();
    options.capacity = number("HEARTH_TRACE_RING").unwrap_or(options.capacity);
    options.threads = number("HEARTH_TRACE_THREADS").unwrap_or(options.threads);
    options.policy = variable("HEARTH_TRACE_POLICY")
        .and_then(|word| policy(&word))
        .unwrap_or(options.policy);
    Some(options)
}

/// `drop`, `wait` (or `wait:` and microseconds), or `flight`.
fn policy(word: &str) -> Option<WhenFull> {
    const WAIT_MICROS: u32 = 10_000;
    match word.split_once(':') {
        None if word == "drop" => Some(WhenFull::Drop),
        None if word == "flight" => Some(WhenFull::Overwrite),
        None if word == "wait" => Some(WhenFull::Wait {
            micros: WAIT_MICROS,
        }),
        Some(("wait", micros)) => Some(WhenFull::Wait {
            micros: micros.parse().ok()?,
        }),
        _ => None,
    }
}
