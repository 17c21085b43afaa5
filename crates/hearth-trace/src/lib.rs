//! Traces of the calls on files by programs and agents: records, rings, trace files.
//!
//! One completed operation is one [`Record`] of 64 bytes, written by the thread that did it. Records
//! become [`Event`]s when a trace is read: clocks corrected, files and threads named by [`Tables`].
//! Every reader of a trace takes it from a [`Source`].

#![deny(unsafe_code)]

pub mod area;
#[expect(unsafe_code, reason = "reads the processor's counter")]
pub mod clock;
pub mod codec;
pub mod collect;
mod event;
pub mod file;
pub mod generate;
mod merge;
mod op;
mod record;
pub mod ring;
pub mod ship;
mod tables;

pub use event::{Event, Source};
pub use op::{Layer, Op};
pub use record::{Flags, Record};
pub use tables::{
    Gap, Host, HostId, ProcessId, Stream, StreamId, Tables, Tally, TracedFile, TracedFileId,
    TracedProcess,
};
