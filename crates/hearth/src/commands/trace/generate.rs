//! `hearth trace generate`.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use hearth_trace::file::{SessionId, Writer};
use hearth_trace::generate;

use hearth_set::failure::{Failure, OrFail};

/// Options of `hearth trace generate`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// How many events
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    events: u64,
    /// Processes that share them
    #[arg(long, value_name = "R", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    ranks: u32,
    /// The trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Writes the trace of a job that never ran. The same options give the same bytes.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let why = || format!("cannot write `{}`", args.output.display());
    let file = File::create(&args.output).or_fail(why)?;
    let mut writer = Writer::new(file, SessionId(1), ("generated", 1)).or_fail(why)?;
    generate::write(&mut writer, args.events, args.ranks).or_fail(why)?;
    writer.finish().or_fail(why)?;
    Ok(ExitCode::SUCCESS)
}
