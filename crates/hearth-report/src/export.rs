//! Traces in the formats of other tools.
//!
//! Every exporter takes a [`Source`] once, in one pass, and keeps no more of it in memory than tables
//! that grow with files and processes; what has to be put in another order goes through
//! [`sorter`] and a temporary file. An exporter never hides loss: [`Exported`] says what the file
//! lacks, and formats that have a place for it say so themselves.

mod csv;
mod darshan;
mod fio;
mod parquet;
mod perfetto;
pub mod sorter;
mod window;

use std::fmt;
use std::io;

use hearth_trace::{Event, Source, StreamId, Tables};

pub use csv::csv;
pub use darshan::darshan;
pub use fio::fio;
pub use parquet::{Side, parquet};
pub use perfetto::{SLICES_MAX, perfetto};
pub use window::{TimeRange, Window};

/// Counts of events that an exporter wrote, and of those that it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Events of the source that are in the file.
    pub kept: u64,
    /// Events of the source that the format has no place for, or no room.
    pub left_out: u64,
    /// Records that the trace itself lacks.
    pub lost: u64,
    /// Sentences for people.
    pub remarks: Vec<String>,
}

impl Exported {
    /// Counts for an export of everything in a trace with these tables.
    fn of(tables: &Tables) -> Exported {
        Exported {
            lost: lost_records(tables),
            ..Exported::default()
        }
    }
}

/// Why an export failed.
#[derive(Debug)]
pub enum ExportError<E> {
    /// The trace could not be read on.
    Read(E),
    /// The file could not be written, or a temporary one could not.
    Write(io::Error),
}

impl<E> fmt::Display for ExportError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExportError::Read(_) => "cannot read the trace on",
            ExportError::Write(_) => "cannot write the export",
        })
    }
}

impl<E: std::error::Error + 'static> std::error::Error for ExportError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExportError::Read(error) => Some(error),
            ExportError::Write(error) => Some(error),
        }
    }
}

impl<E> From<io::Error> for ExportError<E> {
    fn from(error: io::Error) -> ExportError<E> {
        ExportError::Write(error)
    }
}

/// Records that a trace counted and does not have.
pub fn lost_records(tables: &Tables) -> u64 {
    let streams = tables.streams.iter();
    streams.map(|stream| stream.dropped + stream.torn).sum()
}

/// Hands every event of a source to `take`, until one cannot be taken.
fn each_event<S: Source>(
    source: &mut S,
    mut take: impl FnMut(StreamId, &Event) -> io::Result<()>,
) -> Result<(), ExportError<S::Error>> {
    let mut outcome = Ok(());
    let read = source.each_run(&mut |stream, events| {
        for event in events {
            if outcome.is_ok() {
                outcome = take(stream, event);
            }
        }
    });
    outcome.map_err(ExportError::Write)?;
    read.map_err(ExportError::Read)
}
