//! `hearth trace check`.

use std::path::PathBuf;
use std::process::ExitCode;

use hearth_client::words::counted;
use hearth_trace::Source;
use hearth_trace::file::Reader;

use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;

/// Options of `hearth trace check`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Trace files, or directories of them; read as one trace
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Reads all of a trace. Exit 0: whole, 1: something is missing, 2: cannot be read.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let why = || "cannot check the trace".to_owned();
    let mut reader = Reader::open(&args.files).or_fail(why)?;
    let mut decoded = 0;
    reader
        .each_run(&mut |_, events| decoded += events.len() as u64)
        .or_fail(why)?;
    let streams = reader.tables().streams.iter();
    let (mut attempted, mut stored, mut dropped, mut torn) = (0, 0, 0, 0);
    for stream in streams {
        attempted += stream.attempted;
        stored += stream.stored;
        dropped += stream.dropped;
        torn += stream.torn;
    }
    print(&format!(
        "attempted {attempted} = stored {stored} + lost {dropped} + torn {torn}\n\
         {}, {:.2} for each stored event\n",
        counted(reader.bytes(), "byte"),
        reader.bytes() as f64 / stored.max(1) as f64
    ))?;
    let mut missing = reader.missing().to_vec();
    if decoded != stored {
        missing.push(format!(
            "{} cannot be decoded",
            counted(stored - decoded, "event")
        ));
    }
    if dropped > 0 {
        missing.push(format!(
            "{} lost, in {}",
            counted(dropped, "event"),
            counted(reader.tables().gaps.len(), "gap")
        ));
    }
    for line in &missing {
        print(&format!("missing: {line}\n"))?;
    }
    if missing.is_empty() {
        print("whole\n")?;
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(ExitCode::from(1))
    }
}
