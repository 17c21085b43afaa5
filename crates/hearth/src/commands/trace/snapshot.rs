//! `hearth trace snapshot`.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use hearth_client::words::counted;
use hearth_trace::collect::Collector;
use hearth_trace::file::Writer;
use hearth_trace::ring::{AreaId, WhenFull};

use super::ls::live;
use hearth_set::failure::{Failure, OrFail};

/// Options of `hearth trace snapshot`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// These processes alone [default: all that record in flight]
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
    /// The trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Saves the last records of processes that go on. Exit 1: there are none.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut areas = live()?;
    areas.retain(|area| {
        let facts = area.facts();
        let is_meant = args.pids.is_empty() || args.pids.contains(&facts.name.pid);
        is_meant && facts.policy == WhenFull::Overwrite
    });
    if areas.is_empty() {
        let failure = Failure::no("no such process keeps its last records");
        return Err(failure.hint("hearth trace run --policy flight -- CMD"));
    }
    let what = || format!("cannot write `{}`", args.output.display());
    let writer = Writer::here(File::create(&args.output).or_fail(what)?).or_fail(what)?;
    let mut collector = Collector::new(writer);
    collector.clocks().or_fail(what)?;
    for (id, area) in (1..).zip(&areas) {
        area.picture(AreaId(id), &mut collector).or_fail(what)?;
    }
    collector.finish().or_fail(what)?;
    hearth_client::say!(
        "{}; see hearth trace report {}",
        counted(areas.len(), "process"),
        args.output.display()
    );
    Ok(ExitCode::SUCCESS)
}
