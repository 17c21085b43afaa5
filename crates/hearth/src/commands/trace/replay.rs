//! `hearth trace replay`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use hearth_client::words::counted;
use hearth_trace::Source;
use hearth_trace::file::Reader;
use serde_json::json;

use crate::commands::moved::moved;
use crate::replay::plan::Plan;
use crate::replay::run::{self, Outcome, Think};
use crate::replay::tree::{self, Made};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;
use hearth_set::size::Size;

/// Options of `hearth trace replay`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Trace files, or directories of them; read as one trace
    #[arg(value_name = "FILE", required_unless_present = "simulate")]
    files: Vec<PathBuf>,
    /// An empty directory, or one to be made; nothing outside of it is touched
    #[arg(long, value_name = "DIR", required_unless_present = "simulate")]
    at: Option<PathBuf>,
    /// Do not keep the time between operations
    #[arg(long)]
    no_think: bool,
    /// Make the files, and leave it at that
    #[arg(long, conflicts_with = "no_think")]
    files_only: bool,
    /// An option that the laboratory has now, and all that follows
    #[arg(
        long,
        hide = true,
        num_args = 0..,
        allow_hyphen_values = true,
        conflicts_with_all = ["at", "no_think", "files_only"]
    )]
    simulate: Option<Vec<OsString>>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Does again what the programs of a trace did. Exit 1: some of it ended differently.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(more) = &args.simulate {
        let json = args.json.then(|| OsString::from("--json"));
        let files = args.files.iter().map(|file| file.clone().into_os_string());
        let words: Vec<OsString> = json.into_iter().chain(files).chain(more.clone()).collect();
        return Ok(moved("trace replay --simulate", "sim replay", &words));
    }
    let mut reader = Reader::open(&args.files).or_fail(|| "cannot replay".to_owned())?;
    for line in reader.missing() {
        hearth_client::say!("missing: {line}");
    }
    let at = args.at.as_ref();
    on_files(args, at.expect("clap asks for it"), &mut reader)
}

/// Does it on copies of the files in `at`.
fn on_files(args: &Args, at: &Path, reader: &mut Reader) -> Result<ExitCode, Failure> {
    let what = || format!("cannot replay at `{}`", at.display());
    prepare(at)?;
    // Temporary files hold what a trace holds: they stay off the store that is replayed on.
    let plan = Plan::of(reader, &std::env::temp_dir()).or_fail(what)?;
    let tables = reader.tables();
    let files = tables.files.iter();
    let places: Vec<PathBuf> = files.map(|file| tree::place(at, &file.path)).collect();
    let made = tree::make(&places, &plan.files).map_err(|(path, error)| {
        Failure::new(format!("cannot make `{}`", path.display())).because(error)
    })?;
    hearth_client::say!("{} made, {}", counted(made.files, "file"), Size(made.bytes));
    if args.files_only {
        return Ok(ExitCode::SUCCESS);
    }
    let of: Vec<usize> = (tables.streams.iter())
        .map(|stream| stream.process.0 as usize)
        .collect();
    let think = if args.no_think {
        Think::Drop
    } else {
        Think::Keep
    };
    let outcome = run::run(&plan, &places, &of, think).or_fail(what)?;
    report(args, &plan, &outcome, made)?;
    Ok(ExitCode::from(u8::from(outcome.differ > 0)))
}

fn prepare(at: &Path) -> Result<(), Failure> {
    let what = || format!("cannot replay at `{}`", at.display());
    fs::create_dir_all(at).or_fail(what)?;
    let mut entries = fs::read_dir(at).or_fail(what)?;
    if entries.next().is_some() {
        let failure = Failure::new(what()).cause("it is not empty");
        return Err(failure.hint("name a directory that is empty or not there yet"));
    }
    Ok(())
}

fn report(args: &Args, plan: &Plan, outcome: &Outcome, made: Made) -> Result<(), Failure> {
    let traced = Duration::from_nanos(plan.span.1.abs_diff(plan.span.0));
    let quantile = |share: f64| outcome.late.quantile(share);
    for example in &outcome.examples {
        hearth_client::say!("differs: {example}");
    }
    if args.json {
        let line = json!({
            "operations": outcome.operations,
            "left_out": plan.left_out,
            "threads": plan.streams.iter().filter(|part| part.steps > 0).count(),
            "files_made": made.files,
            "bytes_read": outcome.bytes_read,
            "bytes_written": outcome.bytes_written,
            "think": !args.no_think,
            "traced_s": traced.as_secs_f64(),
            "replayed_s": outcome.elapsed.as_secs_f64(),
            "traced_io_s": outcome.traced as f64 / 1e9,
            "replayed_io_s": outcome.took as f64 / 1e9,
            "late_p50_ns": quantile(0.5),
            "late_p99_ns": quantile(0.99),
            "late_max_ns": outcome.late.max(),
            "differ": outcome.differ,
        });
        return print(&format!("{line}\n"));
    }
    let percent = (outcome.elapsed.as_secs_f64() / traced.as_secs_f64().max(1e-9) - 1.0) * 100.0;
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    print(&format!(
        "{} done again, {} cannot be; {} read, {} written\n\
         traced {:.3} s, replayed {:.3} s ({percent:+.1} %)\n\
         in operations: traced {:.3} s, replayed {:.3} s\n\
         late: half at most {:.1} us, 99 % at most {:.1} us, all at most {:.1} us\n\
         {} ended differently\n",
        counted(outcome.operations, "operation"),
        plan.left_out,
        Size(outcome.bytes_read),
        Size(outcome.bytes_written),
        traced.as_secs_f64(),
        outcome.elapsed.as_secs_f64(),
        outcome.traced as f64 / 1e9,
        outcome.took as f64 / 1e9,
        microseconds(quantile(0.5)),
        microseconds(quantile(0.99)),
        microseconds(outcome.late.max()),
        outcome.differ,
    ))
}
