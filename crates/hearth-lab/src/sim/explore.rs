//! `hearth-lab sim explore`: every state of small worlds, and the stories of published policies.

use std::process::ExitCode;
use std::time::Instant;

use hearth_sim::Ranges;
use hearth_sim::explore::findings::{self, FaultSource, PublishedFault};
use hearth_sim::explore::{Counterexample, Progress, Scope, SearchOutcome, Small, explore};
use serde_json::{Map, Value, json};

use hearth_set::failure::Failure;
use hearth_set::output;
use hearth_set::output::{progress, progress_over};
use hearth_set::size::Size;

/// Options of `hearth-lab sim explore`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which policy: none, home, hint, single, local, bank, or a published one such as hint:paper
    #[arg(long, default_value = "home", value_name = "P")]
    policy: String,
    /// Operations over two homes, made one in this way: home or wound-wait
    #[arg(long, default_value = "apart", value_parser = super::parse_ranges, value_name = "HOW")]
    ranges: Ranges,
    /// Only this finding of a published policy, such as F1
    #[arg(long, value_name = "ID")]
    finding: Option<String>,
    /// Nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=6))]
    nodes: Option<u32>,
    /// Nodes that have a session
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=6))]
    clients: Option<u32>,
    /// Pages of the file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4))]
    pages: Option<u32>,
    /// Reads of all sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    reads: Option<u32>,
    /// Writes of all sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    writes: Option<u32>,
    /// Syncs of all sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    syncs: Option<u32>,
    /// Times that a node is told to flush
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    flushes: Option<u32>,
    /// Times that a page must go
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    evictions: Option<u32>,
    /// Agents that die
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=3))]
    faults: Option<u32>,
    /// Connections that break
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=3))]
    breaks: Option<u32>,
    /// Stop at so many states
    #[arg(long, value_name = "N", default_value_t = 400_000_000)]
    states: u64,
    /// Stop when the process has so much memory
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    memory: Size,
    /// One JSON object a line, the summary last
    #[arg(long)]
    json: bool,
}

/// One world that was explored.
struct Row {
    name: &'static str,
    scope: Scope,
    outcome: SearchOutcome,
    wall_s: f64,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    super::hush_panics();
    let told: Vec<&PublishedFault> = findings::of(&args.policy).collect();
    if !told.is_empty() {
        return tell(args, &told);
    }
    if let Some(id) = &args.finding {
        let what = format!(
            "policy {} has no finding {id}; hint:paper has F1",
            args.policy
        );
        return Err(Failure::new(what));
    }
    let policy = super::parse_policy(&args.policy).map_err(Failure::new)?;
    let mut rows = Vec::new();
    for (name, scope) in args.scopes(policy) {
        rows.push(look(args, name, scope)?);
    }
    print(args, &rows)?;
    let broken = rows.iter().find_map(|row| row.outcome.found.as_ref());
    let whole = rows.iter().all(|row| row.outcome.exhausted);
    match broken {
        Some(found) => Err(Failure::no(found.violation.to_string())),
        None if whole => Ok(ExitCode::SUCCESS),
        None => Err(Failure::new(
            "not every state was seen; --states and --memory say how much is tried".to_owned(),
        )),
    }
}

impl Args {
    /// The scopes of the policy, or the one that was asked for.
    fn scopes(&self, policy: hearth_sim::Policy) -> Vec<(&'static str, Scope)> {
        if self.ranges != Ranges::Apart {
            return self.over_homes(policy);
        }
        let base = Scope::of(policy);
        let nodes = self.nodes.unwrap_or(base.nodes);
        let asked = Scope {
            nodes,
            clients: self.clients.unwrap_or(base.clients).min(nodes),
            pages: self.pages.unwrap_or(base.pages),
            reads: self.reads.unwrap_or(base.reads),
            writes: self.writes.unwrap_or(base.writes),
            syncs: self.syncs.unwrap_or(base.syncs),
            flushes: self.flushes.unwrap_or(base.flushes),
            evictions: self.evictions.unwrap_or(base.evictions),
            crashes: self.faults.unwrap_or(base.crashes),
            breaks: self.breaks.unwrap_or(base.breaks),
            ..base
        };
        match asked == base {
            true => Scope::all_of(policy),
            false => vec![("as asked", asked)],
        }
    }

    /// The same for operations over two homes.
    fn over_homes(&self, policy: hearth_sim::Policy) -> Vec<(&'static str, Scope)> {
        let named = Scope::all_over_homes(policy, self.ranges);
        let with = |base: Scope| Scope {
            nodes: self.nodes.unwrap_or(base.nodes),
            reads: self.reads.unwrap_or(base.reads),
            writes: self.writes.unwrap_or(base.writes),
            crashes: self.faults.unwrap_or(base.crashes),
            breaks: self.breaks.unwrap_or(base.breaks),
            flushes: self.flushes.unwrap_or(base.flushes),
            evictions: self.evictions.unwrap_or(base.evictions),
            ..base
        };
        let asked = with(named[0].1);
        match asked == named[0].1 {
            true => named,
            false => vec![("as asked", asked)],
        }
    }

    /// Shows how far a search is; false if it has gone far enough.
    fn watch(&self, name: &str, at: &Progress) -> bool {
        let (states, waiting, depth) = (at.states, at.frontier, at.depth);
        progress(&format!(
            "{name}: {states} states, {waiting} wait, depth {depth}"
        ));
        states < self.states && memory().is_none_or(|bytes| bytes < self.memory.0)
    }
}

/// Memory of this process.
fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

fn look(args: &Args, name: &'static str, scope: Scope) -> Result<Row, Failure> {
    let began = Instant::now();
    let world = Small::new(scope).map_err(|violation| Failure::no(violation.to_string()))?;
    let outcome = explore(&world, |at| args.watch(name, at));
    progress_over();
    Ok(Row {
        name,
        scope,
        outcome,
        wall_s: began.elapsed().as_secs_f64(),
    })
}

fn print(args: &Args, rows: &[Row]) -> Result<(), Failure> {
    if args.json {
        let lines: Vec<String> = rows
            .iter()
            .map(|row| row.json(&args.policy).to_string())
            .collect();
        return output::print(&format!("{}\n{}\n", lines.join("\n"), summary(args, rows)));
    }
    let head = [
        "scope",
        "what may happen",
        "states",
        "steps",
        "depth",
        "seconds",
        "result",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(Row::cells));
    output::print(&output::table(&table))?;
    for found in rows.iter().filter_map(|row| row.outcome.found.as_ref()) {
        output::print(&story(found))?;
    }
    Ok(())
}

fn summary(args: &Args, rows: &[Row]) -> Value {
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let violations = sum(|row| u64::from(row.outcome.found.is_some()));
    let depth = rows.iter().map(|row| row.outcome.progress.depth).max();
    let wall_s: f64 = rows.iter().map(|row| row.wall_s).sum();
    json!({ "bench": "sim explore", "summary": {
        "policy": args.policy,
        "states": sum(|row| row.outcome.progress.states),
        "exhausted": rows.iter().all(|row| row.outcome.exhausted),
        "violations": violations,
        "depth": depth,
        "wall_s": (wall_s * 1e3).round() / 1e3,
        "scope": rows.first().map(Row::bounds),
    }})
}

impl Row {
    fn bounds(&self) -> Map<String, Value> {
        let named = self.scope.named();
        named
            .iter()
            .map(|&(name, value)| (name.to_owned(), json!(value)))
            .collect()
    }

    fn json(&self, policy: &str) -> Value {
        let SearchOutcome {
            progress, found, ..
        } = &self.outcome;
        json!({
            "bench": "sim explore", "policy": policy, "case": self.name, "scope": self.bounds(),
            "states": progress.states, "steps": progress.steps, "depth": progress.depth,
            "exhausted": self.outcome.exhausted, "violations": u64::from(found.is_some()),
            "violation": found.as_ref().map(|found| found.violation.to_string()),
            "story": found.as_ref().map(|found| &found.story),
            "wall_s": (self.wall_s * 1e3).round() / 1e3,
        })
    }

    fn cells(&self) -> Vec<String> {
        let bounds = self.scope.named();
        let some: Vec<String> = bounds
            .iter()
            .filter(|&&(name, value)| value > 0 && name != "faults")
            .map(|(name, value)| format!("{value} {name}"))
            .collect();
        let SearchOutcome {
            progress,
            found,
            exhausted,
            ..
        } = &self.outcome;
        let result = match (found, exhausted) {
            (Some(found), _) => format!("broken: {}", found.violation.check),
            (None, true) => "exhausted, no violation".to_owned(),
            (None, false) => "not exhausted".to_owned(),
        };
        vec![
            self.name.to_owned(),
            some.join(", "),
            progress.states.to_string(),
            progress.steps.to_string(),
            progress.depth.to_string(),
            format!("{:.1}", self.wall_s),
            result,
        ]
    }
}

fn story(found: &Counterexample) -> String {
    let lines: Vec<String> = found
        .story
        .iter()
        .map(|line| format!("    {line}\n"))
        .collect();
    // The moments of operations say nothing that the story does not.
    let what = found.violation.what.split(": Read {").next();
    let what = what
        .and_then(|what| what.lines().next())
        .unwrap_or_default();
    let check = found.violation.check;
    format!("{}  {check}: {what}\n", lines.concat())
}

/// The findings of a published policy.
fn tell(args: &Args, all: &[&PublishedFault]) -> Result<ExitCode, Failure> {
    let wanted = |finding: &&&PublishedFault| {
        let id = args.finding.as_deref();
        id.is_none_or(|id| finding.id == id || finding.id.split('-').next() == Some(id))
    };
    let chosen: Vec<&PublishedFault> = all.iter().filter(wanted).copied().collect();
    if chosen.is_empty() {
        let ids: Vec<&str> = all.iter().map(|finding| finding.id).collect();
        let what = format!("policy {} has the findings {}", args.policy, ids.join(", "));
        return Err(Failure::new(what));
    }
    let mut seen = Vec::new();
    for finding in &chosen {
        let found = finding.look(&mut |at| args.watch(finding.id, at));
        progress_over();
        output::print(&one(args, finding, found.as_ref()))?;
        seen.extend(found.map(|_| finding.id));
    }
    match seen.len() == chosen.len() {
        true => Err(Failure::no(format!(
            "{} breaks its promises: {}",
            args.policy,
            seen.join(", ")
        ))),
        false => Err(Failure::new(format!(
            "{} of {} findings were found",
            seen.len(),
            chosen.len()
        ))),
    }
}

fn one(args: &Args, finding: &PublishedFault, found: Option<&Counterexample>) -> String {
    let PublishedFault {
        id, policy, what, ..
    } = finding;
    let source = match finding.source {
        FaultSource::Kernel => "the shipped kernel with the published parameters",
        FaultSource::Model => {
            "a model of the published protocol; the shipped kernel has no such state"
        }
    };
    if args.json {
        let line = json!({
            "bench": "sim explore", "policy": policy, "finding": id, "what": what, "source": source,
            "violations": u64::from(found.is_some()), "exhausted": false,
            "events": found.map(|found| found.events),
            "violation": found.map(|found| found.violation.to_string()),
            "story": found.map(|found| &found.story),
        });
        return format!("{line}\n");
    }
    let told = found.map_or_else(|| "    not found\n".to_owned(), story);
    format!("{id} ({policy}): {what}.\n  Shown by {source}.\n{told}\n")
}
