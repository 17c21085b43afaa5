//! An operation as a reader of a trace sees it.

use crate::{Flags, Layer, Op, StreamId, Tables, TracedFileId};

/// One operation of a trace: times corrected to the trace's one clock, ids valid in its [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the Unix epoch on the trace's clock, at entry.
    pub start: i64,
    /// Nanoseconds from entry to return.
    pub took: u64,
    /// The operation.
    pub op: Op,
    /// The layer in which the record was made.
    pub layer: Layer,
    /// Further facts, a bit each.
    pub flags: Flags,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes done, or a negative error number.
    pub result: i64,
    /// The file, if there is one.
    pub file: Option<TracedFileId>,
    /// Joins the records of one request; 0 is none.
    pub request: u64,
    /// Bytes that the nearest layer served.
    pub near: u64,
    /// The node that served it.
    pub peer: u16,
    /// Requests before this one, at entry.
    pub depth: u16,
    /// Of a request to an agent: the thread on its host that made it; 0 is unknown.
    pub caller: u32,
    /// The attempt's number in its stream, from 1. A step of more than one is a gap.
    pub seq: u64,
}

impl Event {
    /// Nanoseconds since the Unix epoch, at return.
    pub fn end(&self) -> i64 {
        self.start.saturating_add_unsigned(self.took)
    }

    /// Bytes done; 0 for a failure.
    pub fn bytes(&self) -> u64 {
        if self.op.moves_bytes() {
            u64::try_from(self.result).unwrap_or(0)
        } else {
            0
        }
    }

    /// Whether the operation failed.
    pub fn failed(&self) -> bool {
        self.flags.has(Flags::ERROR)
    }
}

/// Something that a trace's events can be read from, once, in one pass.
pub trait Source {
    /// Why reading could not go on.
    type Error;

    /// Hosts, processes, streams, files and gaps; complete before the first event.
    fn tables(&self) -> &Tables;

    /// About how many events will come, for progress.
    fn events_expected(&self) -> u64;

    /// Hands out every event, in runs of one stream; runs of one stream come in its order, and
    /// runs of different streams roughly by time.
    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), Self::Error>;
}

impl<S: Source + ?Sized> Source for &mut S {
    type Error = S::Error;

    fn tables(&self) -> &Tables {
        (**self).tables()
    }

    fn events_expected(&self) -> u64 {
        (**self).events_expected()
    }

    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), S::Error> {
        (**self).each_run(take)
    }
}
