//! Times as Darshan keeps them: seconds since the job began, in floating point.

use hearth_trace::Event;

pub(super) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// A time as seconds since `begin`.
pub(super) fn since(begin: i64, time: i64) -> f64 {
    time.saturating_sub(begin) as f64 / 1e9
}

/// From the start of the first operation of a kind to the end of the last. Zeroes mean none.
#[derive(Default)]
pub(super) struct Span {
    pub(super) from: f64,
    pub(super) to: f64,
    any: bool,
}

impl Span {
    pub(super) fn cover(&mut self, event: &Event, begin: i64) {
        let (from, to) = (since(begin, event.start), since(begin, event.end()));
        self.from = if self.any { self.from.min(from) } else { from };
        self.to = self.to.max(to);
        self.any = true;
    }
}

/// When a file was used, and nanoseconds spent on it.
#[derive(Default)]
pub(super) struct Spans {
    pub(super) open: Span,
    pub(super) read: Span,
    pub(super) write: Span,
    pub(super) close: Span,
    pub(super) reading: u64,
    pub(super) writing: u64,
    pub(super) meta: u64,
}
