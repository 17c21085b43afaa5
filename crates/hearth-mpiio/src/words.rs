//! Words for people, on standard error, under the rank's number.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Nobody has said yet which rank this is.
const UNKNOWN: u32 = u32::MAX;

static RANK: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Words of the agent go the same way.
struct Words;

/// Says from now on which rank speaks, and lets the agent's warnings through.
pub(crate) fn begin(rank: u32) {
    RANK.store(rank, Relaxed);
    if log::set_logger(&Words).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}

/// Says something that a person should know.
pub(crate) fn say(what: &dyn fmt::Display) {
    // One write: ranks share their standard error.
    let text = match RANK.load(Relaxed) {
        UNKNOWN => format!("hearth: {what}\n"),
        rank => format!("hearth: rank {rank}: {what}\n"),
    };
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}

impl log::Log for Words {
    fn enabled(&self, about: &log::Metadata<'_>) -> bool {
        // The transport tells of strangers at its port; a rank that wakes another one is such.
        !about.target().starts_with("hearth_net")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            say(record.args());
        }
    }

    fn flush(&self) {}
}

/// From here on agents leave, and say so to each other: that is no news.
pub(crate) fn end() {
    log::set_max_level(log::LevelFilter::Off);
}
