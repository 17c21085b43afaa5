//! Bandwidth of writers, each over the tier of a node of its own, until that is full and after, over
//! the bare store's: on this machine, or on test hosts with a GlusterFS volume.

use super::simulated::{Shape, simulate};
use super::{Effort, REQUEST_BYTES, Slices, are_whole, rate, spec, write_all};
use crate::bench::hosts::HostAgents;
use crate::bench::rig::Rig;
use crate::hearth::hearth;
use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::report::{BenchReport, rounded};
use hearth_set::signals::Signals;
use hearth_set::trial::cluster::Cluster;
use std::path::{Path, PathBuf};

/// Rate of a test host's link, and so of the volume for all clients together.
const LINK: &str = "200mbit";

/// Hundredths of a processor that each test host's agent has.
const HOST_PERCENT: u64 = 25;

/// Nodes that are simulated beyond those that are measured.
const SIMULATED: [usize; 4] = [16, 64, 512, 4096];

/// One number of nodes, and what their writers came to.
struct Written {
    nodes: usize,
    bare: Slices,
    slices: Slices,
    whole: bool,
}

/// How much each writes: in all, and until its tier is full.
#[derive(Clone, Copy)]
struct Load {
    bytes: u64,
    tier: u64,
}

impl Load {
    /// The tier has room.
    fn first(self, slices: &Slices) -> f64 {
        rate(slices, 0, self.bytes / 4)
    }

    fn last(self, slices: &Slices) -> f64 {
        rate(slices, self.bytes - self.bytes / 4, self.bytes)
    }
}

/// The machines of a measurement: this one, or test hosts.
enum Machines {
    Here {
        backing: String,
        dir: tempfile::TempDir,
    },
    Hosts(Rig),
}

/// Measures with each number of nodes, and simulates more.
pub(in crate::bench) fn run(
    asked: &super::Load<'_>,
    signals: &Signals,
) -> Result<BenchReport, Failure> {
    let &super::Load { store, effort } = asked;
    let most = effort.counts.iter().copied().max().unwrap_or(1);
    let machines = Machines::prepare(store, most)?;
    let load = machines.load(effort);
    let mut report = BenchReport::new("throughput", store);

    let mut all = Vec::new();
    for &nodes in effort.counts {
        hearth_set::output::progress(&format!("{nodes} nodes"));
        let written = machines.measure(nodes, load, signals)?;
        tell(&mut report, &written, load);
        all.push(written);
    }
    let first = all.first().map_or(0.0, |one| load.first(&one.slices));
    let last = all.last().map_or(0.0, |one| load.first(&one.slices));
    report.sum_up("growth", rounded(last / first.max(1.0)));
    report.sum_up("verified", all.iter().all(|written| written.whole));
    go_on(&mut report, &all, load);
    Ok(report)
}

fn tell(report: &mut BenchReport, written: &Written, load: Load) {
    let Written { nodes, slices, .. } = written;
    let bare = load.first(&written.bare);
    let case = format!("{nodes} nodes");
    let (first, last) = (load.first(slices), load.last(slices));
    for (system, value) in [("store", bare), ("tier", first), ("tier, full", last)] {
        report.row(system, &case, "write", value / 1e6, "MB/s");
    }
    report.row("tier", &case, "over store", first / bare, "x");
    report.row("tier, full", &case, "over store", last / bare, "x");
    report.sum_up(&format!("over_store_{nodes}"), rounded(first / bare));
    report.sum_up(&format!("full_over_store_{nodes}"), rounded(last / bare));
}

/// Simulates the nodes that were measured, to see how far to trust it, and then more of them.
fn go_on(report: &mut BenchReport, all: &[Written], load: Load) {
    let (Some(one), Some(most)) = (all.first(), all.last()) else {
        return;
    };
    let each = one.nodes as f64;
    let shape = |nodes| Shape {
        nodes,
        local: load.first(&one.slices) / each,
        link: load.first(&one.bare) / each,
        store: load.first(&most.bare),
        tier: load.tier,
        bytes: load.bytes,
    };
    let mut curves: Vec<(String, Slices)> = Vec::new();
    for written in all {
        let nodes = written.nodes;
        let due = simulate(&shape(nodes), 1);
        let ratio = load.first(&due) / load.first(&written.slices);
        report.sum_up(&format!("simulated_over_measured_{nodes}"), rounded(ratio));
        curves.push((format!("curve_{nodes}"), written.slices.clone()));
    }
    tell_curves(report, &curves, load.bytes);
    for nodes in SIMULATED {
        let shape = shape(nodes);
        let due = simulate(&shape, 1);
        let store = shape.store.min(shape.link * nodes as f64);
        let case = format!("{nodes} nodes");
        let (first, last) = (load.first(&due) / store, load.last(&due) / store);
        report.row("simulated", &case, "over store", first, "x");
        report.row("simulated, full", &case, "over store", last, "x");
        report.sum_up(&format!("simulated_over_store_{nodes}"), rounded(first));
        report.sum_up(&format!("simulated_full_over_store_{nodes}"), rounded(last));
        if nodes == SIMULATED[SIMULATED.len() - 1] {
            tell_curves(
                report,
                &[(format!("simulated_curve_{nodes}"), due)],
                load.bytes,
            );
        }
    }
}

/// Bandwidth over the bytes that each has written, an eighth a column, all on one scale.
fn tell_curves(report: &mut BenchReport, curves: &[(String, Slices)], bytes: u64) {
    let rates: Vec<(&String, Vec<f64>)> = curves
        .iter()
        .map(|(name, slices)| (name, eighths(slices, bytes)))
        .collect();
    let all = rates.iter().flat_map(|(_, rates)| rates);
    let most = all.copied().fold(1.0, f64::max);
    for (name, rates) in rates {
        report.sum_up(name, bars(&rates, most));
    }
}

fn eighths(slices: &Slices, bytes: u64) -> Vec<f64> {
    let step = (bytes / 8 / REQUEST_BYTES as u64).max(1) * REQUEST_BYTES as u64;
    (0..8)
        .filter(|part| (part + 1) * step <= bytes)
        .map(|part| rate(slices, part * step, (part + 1) * step))
        .collect()
}

fn bars(rates: &[f64], most: f64) -> String {
    let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |rate: &f64| bars[((rate / most * 7.0).round() as usize).min(7)];
    rates.iter().map(bar).collect()
}

impl Machines {
    fn prepare(store: &str, nodes: usize) -> Result<Machines, Failure> {
        if store == "gluster" {
            let mut rig = Rig::start_with(nodes as u32, &["--rate", LINK])?;
            rig.share_processors(HOST_PERCENT)?;
            return Ok(Machines::Hosts(rig));
        }
        Ok(Machines::Here {
            backing: store.to_owned(),
            dir: tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?,
        })
    }

    /// A link takes its time.
    fn load(&self, effort: &Effort) -> Load {
        let bytes = match self {
            Machines::Here { .. } => effort.bytes,
            Machines::Hosts(_) => effort.bytes / 2,
        };
        // While a tier fills, what has come to the store, and what the pool holds, makes room in it: so
        // much more is written that it is full at the end.
        Load {
            bytes,
            tier: bytes / 4,
        }
    }

    fn measure(&self, nodes: usize, load: Load, signals: &Signals) -> Result<Written, Failure> {
        match self {
            Machines::Here { backing, dir } => {
                let place = dir.path().join(nodes.to_string());
                here((backing, &place), nodes, load, signals)
            }
            Machines::Hosts(rig) => on_hosts(rig, nodes, load),
        }
    }
}

fn here(
    (backing, place): (&str, &Path),
    nodes: usize,
    load: Load,
    signals: &Signals,
) -> Result<Written, Failure> {
    let store = place.join("store");
    std::fs::create_dir_all(&store).or_fail(|| "cannot make the store".to_owned())?;
    let none = SetSpec {
        agents: nodes as u32,
        policy: Policy::None,
        backing: backing.to_owned(),
        ..SetSpec::default()
    };
    let cluster = Cluster::start(&hearth()?, &store, &place.join("bare"), none, signals)?;
    let bare = write_all(cluster.points(), "bare", load.bytes / 4)?;
    cluster.end()?;
    let cluster = Cluster::start(
        &hearth()?,
        &store,
        place,
        spec(nodes, backing, place, load.tier)?,
        signals,
    )?;
    let slices = write_all(cluster.points(), "tiered", load.bytes)?;
    cluster.end()?;
    written((nodes, "tiered", &store), (bare, slices), load)
}

fn on_hosts(rig: &Rig, nodes: usize, load: Load) -> Result<Written, Failure> {
    let mounts = rig.hosts()[..nodes].iter().map(|host| host.mount.clone());
    let mounts: Vec<PathBuf> = mounts.collect();
    let bare = write_all(&mounts, &format!("bare{nodes}"), load.bytes / 4)?;
    let place = rig.path("tier");
    std::fs::create_dir_all(&place).or_fail(|| "cannot make a tier".to_owned())?;
    let tier = format!("{}:{}", place.display(), load.tier);
    let options = ["--tier", &tier, "--tier-age", "10m", "--fsync", "tier"];
    let options = [&options[..], &["--pool", "16MiB"]].concat();
    let agents = HostAgents::start_with(rig, nodes as u32, Policy::Local, &options)?;
    let points: Vec<PathBuf> = mounts.iter().map(|at| at.with_file_name("at")).collect();
    let name = format!("tiered{nodes}");
    let slices = write_all(&points, &name, load.bytes)?;
    agents.end()?;
    written((nodes, &name, &mounts[0]), (bare, slices), load)
}

/// Reads in the store what was written.
fn written(
    (nodes, name, store): (usize, &str, &Path),
    (bare, slices): (Slices, Slices),
    load: Load,
) -> Result<Written, Failure> {
    let names: Vec<String> = (0..nodes)
        .map(|number| format!("{name}-{number}"))
        .collect();
    Ok(Written {
        nodes,
        bare,
        slices,
        whole: are_whole(store, &names, load.bytes)?,
    })
}
