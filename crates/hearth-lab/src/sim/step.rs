//! `hearth-lab sim step`: one world, message by message.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use hearth_sim::{Detail, Plan, Policy, Ranges, Replicas, Semantics, Trouble};

use hearth_set::failure::{Failure, OrFail};

/// Options of `hearth-lab sim step`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which policy: none, home, hint, ...
    #[arg(long, default_value = "home", value_parser = super::parse_policy, value_name = "P")]
    policy: Policy,
    /// Promise for every file: posix, mpi-atomic, mpi, cto, commit or job
    #[arg(long, default_value = "posix", value_parser = super::parse_semantics, value_name = "LEVEL")]
    semantics: Semantics,
    /// How reads and writes over several homes are made one: apart (they are not), home or wound-wait
    #[arg(long, default_value = "apart", value_parser = super::parse_ranges, value_name = "HOW")]
    ranges: Ranges,
    /// As `hearth-lab sim run --replicas`
    #[arg(long, value_parser = super::parse_replicas, value_name = "R")]
    replicas: Option<Replicas>,
    /// As `hearth-lab sim run --hand-over`
    #[arg(long)]
    hand_over: bool,
    /// Faults of every kind, as `hearth-lab sim run --faults`
    #[arg(long)]
    faults: bool,
    /// Which world
    #[arg(long, value_name = "S")]
    seed: u64,
    /// Operations that sessions begin [default: as the seed says]
    #[arg(long, value_name = "N")]
    ops: Option<u32>,
    /// Every input and effect of every kernel
    #[arg(long)]
    all: bool,
}

/// Tells the run. On a terminal Enter brings the next line, `q` ends it.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    super::hush_panics();
    let trouble = if args.faults {
        Trouble::All
    } else {
        Trouble::Never
    };
    let drawn = Plan::new(args.seed, trouble);
    let plan = Plan {
        policy: args.policy,
        semantics: args.semantics,
        ranges: args.ranges,
        steps: args.ops.unwrap_or(drawn.steps),
        ..drawn
    };
    let plan = super::replicated(plan, args.replicas, args.hand_over)?;
    let detail = if args.all {
        Detail::Everything
    } else {
        Detail::Story
    };
    let (outcome, story) = hearth_sim::tell(&plan, detail);
    match show(&story) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        result => result.or_fail(|| "cannot tell the run".to_owned())?,
    }
    match outcome.violations.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(violation) => Err(Failure::no(violation.to_string())),
    }
}

fn show(story: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut keys = io::stdin().lock();
    let waits = out.is_terminal() && keys.is_terminal();
    for line in story {
        write!(out, "{line}")?;
        if !waits {
            writeln!(out)?;
            continue;
        }
        out.flush()?;
        let mut key = String::new();
        if keys.read_line(&mut key)? == 0 || key.trim() == "q" {
            break;
        }
    }
    out.flush()
}
