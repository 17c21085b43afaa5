//! `hearth-lab torture`: rounds of programs over sets of agents, with faults, whose histories are checked.

mod check;
mod history;
mod net;
mod plan;
mod process;
mod round;
mod set;
mod worker;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use plan::{Choices, LIE, NEMESES, Plan, nemesis_of};
use round::{Done, Lab};
pub(crate) use worker::{spin, work};

/// Options of `hearth-lab torture`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Begin no round after so many minutes
    #[arg(long, value_name = "N", conflicts_with = "rounds")]
    minutes: Option<u64>,
    /// Run so many rounds [default: 1]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// The seed of the first round; each round after has the next
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Policies to choose from [default: all]
    #[arg(long, value_name = "P")]
    policy: Vec<String>,
    /// Levels to choose from [default: posix, and now and then job, mpi, cto and commit]
    #[arg(long, value_name = "LEVEL")]
    level: Vec<String>,
    /// Faults to choose from [default: all that this machine can have]
    #[arg(long, value_name = "NAME")]
    nemesis: Vec<String>,
    /// Work of the programs [default: all kinds, or two by the seed]
    #[arg(long, value_name = "KIND", value_enum)]
    kind: Vec<worker::Kind>,
    /// Agents of each set
    #[arg(long, value_name = "N", default_value_t = 3)]
    agents: usize,
    /// Seconds of work before and after each fault
    #[arg(long, value_name = "N", default_value_t = 4)]
    seconds: u64,
    /// The binary to test [default: the one beside this, else in PATH]
    #[arg(long, value_name = "PATH")]
    hearth: Option<PathBuf>,
    /// Busy processes beside every round
    #[arg(long, value_name = "N", default_value_t = 0)]
    load: usize,
    /// Go on after a round with findings
    #[arg(long)]
    keep_going: bool,
    /// One object for each policy on stdout at the end
    #[arg(long)]
    json: bool,
    /// Options of `hearth up` for every round
    #[arg(last = true)]
    extra: Vec<String>,
}

/// Counts of one policy.
#[derive(Default, serde::Serialize)]
struct Tally {
    rounds: u64,
    operations: u64,
    faults: u64,
    histories: u64,
    undecided: u64,
    findings: u64,
}

/// Runs rounds until one fails, the time is over, or all are done.
pub(crate) fn run(args: &Args) -> io::Result<ExitCode> {
    let choices = choices(args)?;
    let lab = Lab {
        hearth: hearth(args)?,
        interrupts: process::Interrupts::new()?,
        load: choices.load,
        seconds: choices.seconds,
    };
    let end = args
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let first = args
        .seed
        .unwrap_or_else(|| history::now() / 1000 % 1_000_000_000);
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut failed = 0;
    for seed in first.. {
        let is_over = match end {
            Some(end) => Instant::now() >= end,
            None => seed - first >= args.rounds.unwrap_or(1),
        };
        if is_over || (failed > 0 && !args.keep_going) {
            break;
        }
        let plan = Plan::of(seed, &choices);
        match one(&lab, &plan, &choices) {
            Ok(done) => {
                failed += u64::from(!done.checked.findings.is_empty());
                add(tallies.entry(plan.policy.clone()).or_default(), &done);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                eprintln!("ended by a signal");
                failed += 1;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    tell(&tallies, args)?;
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn choices(args: &Args) -> io::Result<Choices> {
    let or = |given: &[String], usual: &[&str]| match given {
        [] => usual.iter().map(|word| (*word).to_owned()).collect(),
        given => given.to_vec(),
    };
    let mut policies = vec!["home", "home:plus", "hint", "single", "local", "none"];
    if in_path("memcached").is_some() {
        policies.push("bank");
    }
    let is_root = rustix::process::geteuid().is_root();
    let usual: Vec<&str> = NEMESES
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| is_root || !(name.starts_with("cut") || *name == "full"))
        .collect();
    let nemeses = or(&args.nemesis, &usual);
    if let Some(name) = nemeses.iter().find(|name| nemesis_of(name).is_none()) {
        let names: Vec<&str> = NEMESES.iter().map(|(name, _)| *name).chain([LIE]).collect();
        return Err(io::Error::other(format!(
            "no nemesis `{name}`; there are {}",
            names.join(", ")
        )));
    }
    Ok(Choices {
        policies: or(&args.policy, &policies),
        // Most of what users have is the first level.
        levels: or(
            &args.level,
            &[
                "posix", "posix", "posix", "posix", "posix", "posix", "job", "mpi", "cto", "commit",
            ],
        ),
        nemeses,
        kinds: args.kind.clone(),
        nodes: args.agents,
        seconds: args.seconds,
        load: args.load,
        extra: args.extra.clone(),
    })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

fn hearth(args: &Args) -> io::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("hearth");
    let found = match &args.hearth {
        Some(path) => Some(path.clone()),
        None if beside.is_file() => Some(beside),
        None => in_path("hearth"),
    };
    let found = found.ok_or_else(|| {
        io::Error::other("no `hearth` beside this program or in PATH; name it with --hearth")
    })?;
    fs::canonicalize(&found)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", found.display())))
}

/// Runs one round, and tells what it found.
fn one(lab: &Lab, plan: &Plan, choices: &Choices) -> io::Result<Done> {
    let begun = Instant::now();
    eprintln!("{}", plan.words());
    let dir = tempfile::Builder::new().prefix("hearth-lab-").tempdir()?;
    let done = round::run(lab, plan, dir.path())?;
    let took = begun.elapsed().as_secs_f64();
    let findings = &done.checked.findings;
    eprintln!(
        "  {} calls, {} histories ({} undecided), {} findings, {took:.0} s",
        done.calls,
        done.checked.histories,
        done.checked.undecided,
        findings.len()
    );
    if findings.is_empty() {
        return Ok(done);
    }
    for finding in findings {
        eprintln!("  FOUND {}: {}", finding.key, finding.what);
        finding
            .lines
            .iter()
            .for_each(|line| eprintln!("    {line}"));
    }
    eprintln!("  logs: {}", dir.keep().display());
    eprintln!("  again: {}", plan.again(choices));
    Ok(done)
}

fn add(tally: &mut Tally, done: &Done) {
    tally.rounds += 1;
    tally.operations += done.calls;
    tally.faults += done.faults;
    tally.histories += done.checked.histories;
    tally.undecided += done.checked.undecided;
    tally.findings += done.checked.findings.len() as u64;
}

fn tell(tallies: &BTreeMap<String, Tally>, args: &Args) -> io::Result<()> {
    for (policy, tally) in tallies {
        eprintln!(
            "{policy}: {} rounds, {} operations, {} faults, {} histories ({} undecided), {} findings",
            tally.rounds,
            tally.operations,
            tally.faults,
            tally.histories,
            tally.undecided,
            tally.findings
        );
        if args.json {
            let mut row = serde_json::to_value(tally)?;
            row["policy"] = policy.as_str().into();
            writeln!(io::stdout(), "{row}")?;
        }
    }
    Ok(())
}
