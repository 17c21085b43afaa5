//! Exports are read by the tools that they are for, and the tools find the numbers of the trace.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

#[path = "exports/support.rs"]
mod support;

#[path = "exports/darshan.rs"]
mod darshan;
#[path = "exports/fio.rs"]
mod fio;
#[path = "exports/parquet.rs"]
mod parquet;
#[path = "exports/perfetto.rs"]
mod perfetto;
#[path = "exports/plain.rs"]
mod plain;
