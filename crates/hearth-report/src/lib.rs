//! Analysis of a trace: where the time went, and what to change.

#![forbid(unsafe_code)]

mod access;
mod analysis;
mod assemble;
mod callers;
mod critical;
mod facts;
mod finding;
mod findings;
mod latency;
mod mix;
mod period;
mod profile;
mod render;
mod report;
mod requests;
mod reuse;
mod strip;
mod words;
mod work;

pub mod export;

use std::fmt::Display;

use hearth_trace::Source;

pub use finding::{Finding, PredictedGain, WasteKind};
pub use report::*;

/// Reads a trace once and says what is in it.
///
/// If reading stops before the end, the report covers the part before, and says so.
pub fn analyse<S: Source>(mut source: S) -> Report
where
    S::Error: Display,
{
    let tables = source.tables().clone();
    let (analysis, result) = analysis::Analysis::of(&mut source, &tables);
    let stopped = result.err().map(|error| error.to_string());
    assemble::report(&facts::Facts::new(&tables, &analysis), stopped)
}
