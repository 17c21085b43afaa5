//! A part of a trace, by time.

use hearth_trace::{Event, Source, StreamId, Tables};

/// From one time to another, in nanoseconds since the trace began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first nanosecond that is in it.
    pub from: u64,
    /// The first nanosecond after it.
    pub to: u64,
}

impl TimeRange {
    /// All of it.
    pub const ALL: TimeRange = TimeRange {
        from: 0,
        to: u64::MAX,
    };
}

/// When a trace began: when its first process did.
pub(super) fn beginning(tables: &Tables) -> i64 {
    let starts = tables.processes.iter().map(|process| process.start);
    starts.min().unwrap_or(0)
}

/// A source of those events of another that begin within a span.
pub struct Window<S> {
    source: S,
    span: TimeRange,
    kept: Vec<Event>,
}

impl<S: Source> Window<S> {
    /// The events of `source` that begin within `span`.
    pub fn new(source: S, span: TimeRange) -> Window<S> {
        Window {
            source,
            span,
            kept: Vec::new(),
        }
    }
}

impl<S: Source> Source for Window<S> {
    type Error = S::Error;

    fn tables(&self) -> &Tables {
        self.source.tables()
    }

    fn events_expected(&self) -> u64 {
        self.source.events_expected()
    }

    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), S::Error> {
        if self.span == TimeRange::ALL {
            return self.source.each_run(take);
        }
        let start = beginning(self.source.tables());
        let from = start.saturating_add_unsigned(self.span.from);
        let to = start.saturating_add_unsigned(self.span.to);
        let kept = &mut self.kept;
        self.source.each_run(&mut |stream, events| {
            kept.clear();
            let within = |event: &&Event| (from..to).contains(&event.start);
            kept.extend(events.iter().filter(within));
            if !kept.is_empty() {
                take(stream, kept);
            }
        })
    }
}
