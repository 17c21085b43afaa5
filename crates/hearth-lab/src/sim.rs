//! `hearth-lab sim`: the protocol without machines, many times over.

mod cache;
mod canaries;
mod compare;
mod explore;
mod replay;
mod run;
mod schedule;
mod stat;
mod step;

use std::process::ExitCode;

use hearth_sim::{Plan, Policy, Replicas};

use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::{BenchReport, Format};

const EXAMPLES: &str = "\
Examples:
  hearth-lab sim run --faults --seeds 1000            random worlds with faults of every kind
  hearth-lab sim step --faults --seed 17              one of them, message by message
  hearth-lab sim schedule --example                   which files stay, step by step
  hearth-lab sim run --nodes 4096 --ops 10000000      one large world, its messages counted
  hearth-lab sim stat --nodes 16,64,4096              a herd that asks for attributes
  hearth-lab sim explore --policy home                every state of small worlds
  hearth-lab sim explore --policy hint:paper          what the published policy does wrong
  hearth-lab sim canaries                             every guard off, each must be noticed

Exit codes: 0 every promise was kept, 1 one was not, 2 could not do it.";

/// Options of `hearth-lab sim`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Run random worlds and hold what sessions saw against a model
    Run(run::Args),
    /// Turn every guard of the kernel off, one at a time, and see it noticed
    Canaries(canaries::Args),
    /// See every state of a small world, and what published policies do wrong
    Explore(explore::Args),
    /// See what policies cost for one workload
    Compare(compare::Args),
    /// Tell one such run, message by message
    Step(step::Args),
    /// Run a trace of reads through caches of several policies
    Cache(cache::Args),
    /// A herd asks for attributes: messages and store requests beside their closed form
    Stat(stat::Args),
    /// Do what the programs of a trace did, with another pool or policy
    Replay(replay::Args),
    /// Place jobs and keep files on many nodes, each next to its bound
    Schedule(schedule::Args),
}

/// Does what was asked.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Canaries(args) => canaries::run(args),
        Command::Explore(args) => explore::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Step(args) => step::run(args),
        Command::Cache(args) => cache::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Schedule(args) => schedule::run(args),
    }
}

/// A world with the replicas that are asked for, which policy `local` alone has, and with hand-overs or without.
fn replicated(plan: Plan, replicas: Option<Replicas>, hands: bool) -> Result<Plan, Failure> {
    let replicas = replicas.unwrap_or_default();
    if replicas != Replicas::None && plan.policy != Policy::Local {
        let what = format!("policy {} has no replicas", plan.policy.name());
        return Err(Failure::new(what).hint("--policy local"));
    }
    let plan = plan.replicated(replicas);
    Ok(if hands { plan.handing_over() } else { plan })
}

/// Replicas, as clap reads them.
fn parse_replicas(name: &str) -> Result<Replicas, String> {
    Replicas::by_name(name)
        .ok_or_else(|| "none, async[:K], sync[:K] or erasure[:K,M], K and M from 1 to 8".to_owned())
}

/// A policy, as clap reads it.
fn parse_policy(name: &str) -> Result<Policy, String> {
    Policy::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = Policy::NAMES.iter().map(|&(name, _)| name).collect();
        format!("policies are {}", names.join(", "))
    })
}

/// A level of promises, as clap reads it.
fn parse_semantics(name: &str) -> Result<hearth_sim::Semantics, String> {
    hearth_sim::Semantics::by_name(name).ok_or_else(|| {
        let names = hearth_sim::Semantics::NAMES.iter();
        let names: Vec<&str> = names.map(|&(name, _)| name).collect();
        format!("levels are {}", names.join(", "))
    })
}

/// How operations over several homes are made one, as clap reads it.
fn parse_ranges(name: &str) -> Result<hearth_sim::Ranges, String> {
    hearth_sim::Ranges::by_name(name).ok_or_else(|| {
        let names = hearth_sim::Ranges::NAMES.iter();
        let names: Vec<&str> = names.map(|&(name, _)| name).collect();
        format!("these are {}", names.join(", "))
    })
}

fn print(report: &BenchReport, json: bool) -> Result<(), Failure> {
    let format = if json { Format::Json } else { Format::Table };
    report
        .print(format)
        .or_fail(|| "cannot print the report".to_owned())
}

/// Panics of a kernel are caught and told as violations.
fn hush_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}
