//! `hearth trace replay`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use hearth_client::words::counted;
use hearth_sim::policy;
use hearth_sim::scale::{self, Shape};
use hearth_trace::Source;
use hearth_trace::file::Reader;
use serde_json::json;

use crate::failure::{Failure, OrFail};
use crate::output::print;
use crate::replay::plan::Plan;
use crate::replay::run::{self, Outcome, Think};
use crate::replay::simulate::Lists;
use crate::replay::tree::{self, Made};
use crate::size::Size;

/// Policies that the large world of the simulator follows.
const SIMULATED: [&str; 3] = ["none", "home", "bank"];
/// Pages of a simulated pool.
const FRAMES_MIN: u32 = 16;
const FRAMES_MAX: u32 = 1 << 22;

/// Options of `hearth trace replay`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Trace files, or directories of them; read as one trace
    #[arg(value_name = "FILE", required = true)]
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
    /// Have the simulator do it, with a node for each host of the trace
    #[arg(long, conflicts_with_all = ["at", "no_think", "files_only"])]
    simulate: bool,
    /// With --simulate: under this policy [default: each]
    #[arg(long, value_name = "P", requires = "simulate", value_parser = SIMULATED)]
    policy: Option<String>,
    /// With --simulate: memory of each node's pool
    #[arg(
        long,
        value_name = "SIZE",
        requires = "simulate",
        default_value = "1GiB"
    )]
    pool: Size,
    /// With --simulate: a page, a power of two from 4KiB to 4MiB
    #[arg(
        long,
        value_name = "SIZE",
        requires = "simulate",
        default_value = "256KiB"
    )]
    page_size: Size,
    /// Print one JSON object, of a simulation one for each policy
    #[arg(long)]
    json: bool,
}

/// Does again what the programs of a trace did. Exit 1: some of it ended differently.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut reader = Reader::open(&args.files).or_fail(|| "cannot replay".to_owned())?;
    for line in reader.missing() {
        eprintln!("missing: {line}");
    }
    match &args.at {
        Some(at) => on_files(args, at, &mut reader),
        None => simulated(args, &mut reader),
    }
}

/// Has the simulator do what the programs of a trace did, under one policy or each.
fn simulated(args: &Args, reader: &mut Reader) -> Result<ExitCode, Failure> {
    let what = || "cannot simulate what is traced".to_owned();
    let page = args.page_size.0;
    if !page.is_power_of_two() || !(4 << 10..=4 << 20).contains(&page) {
        let failure = Failure::new(what()).cause(format!("a page cannot have {}", args.page_size));
        return Err(failure.hint("name a power of two from 4KiB to 4MiB"));
    }
    let lists = Lists::of(reader, page).or_fail(what)?;
    if lists.pages == 0 {
        return Err(Failure::no("nothing in the trace reads or writes a file"));
    }
    let frames = u32::try_from(args.pool.0 / page).unwrap_or(u32::MAX);
    let frames = frames.clamp(FRAMES_MIN, FRAMES_MAX);
    eprintln!(
        "{} of {} on {}, each with a pool of {}",
        counted(lists.pages, "page"),
        args.page_size,
        counted(lists.lists.len(), "node"),
        Size(u64::from(frames) * page)
    );
    let mut is_right = true;
    for name in SIMULATED {
        let Some(policy) = policy::by_name(name).filter(|_| {
            let only = args.policy.as_deref();
            only.is_none_or(|only| only == name)
        }) else {
            continue;
        };
        let shape = Shape {
            frames,
            ..Shape::new(policy, lists.lists.len() as u32, 0, 1)
        };
        let outcome = scale::replay(&shape, lists.lists.clone(), |_| {});
        for violation in &outcome.violations {
            eprintln!("{name}: {violation}");
        }
        is_right &= outcome.violations.is_empty();
        print(&simulated_words(args, name, &outcome))?;
    }
    match is_right {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::new(what()).cause("the simulator found a fault in itself")),
    }
}

fn simulated_words(args: &Args, name: &str, outcome: &scale::Outcome) -> String {
    let share = outcome.own_reads as f64 / outcome.reads.max(1) as f64;
    if args.json {
        let line = json!({
            "policy": name,
            "page_reads": outcome.reads,
            "own_hit_ratio": share,
            "messages": outcome.messages.total(),
            "store_reads": outcome.store_reads,
            "store_writes": outcome.store_writes,
            "modelled_s": outcome.took.0 as f64 / 1e9,
        });
        return format!("{line}\n");
    }
    format!(
        "{name}: {:.1} % of {} page reads served by the node's own memory; {} messages, {} store reads, \
         {} store writes; modelled time {:.3} s\n",
        share * 100.0,
        outcome.reads,
        outcome.messages.total(),
        outcome.store_reads,
        outcome.store_writes,
        outcome.took.0 as f64 / 1e9,
    )
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
    eprintln!("{} made, {}", counted(made.files, "file"), Size(made.bytes));
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
        eprintln!("differs: {example}");
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
