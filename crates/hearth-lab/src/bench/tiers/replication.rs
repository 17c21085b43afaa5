//! The cost of replicas for writers: three test hosts write and sync a file each to their tiers, alone and with copies
//! on one or two others. The cost of shards for the writer that closes is measured in [`sealing`]. Of systems side by
//! side each goes first in some turn.
//!
//! Rates are chosen, not the machine's: a tier takes some half of what a link carries, as where the method was
//! published, and both less than two processors move. A copy that is made before or after the local write would leave
//! `1 / (1 + b_local / b_net)` of the bandwidth; what is above that runs beside it.

mod sealing;

use super::{REQUEST_BYTES, are_whole, at_once, request};
use crate::bench::disk::Disk;
use crate::bench::hosts::HostAgents;
use crate::bench::rig::Rig;
use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::{progress, progress_over};
use hearth_set::report::{BenchReport, median, rounded};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Test hosts, each with an agent and a writer.
const NODES: usize = 3;

/// Rate of a link each way, and of the tiers of all hosts together.
const LINK: &str = "500mbit";
const DISK_RATE: u64 = 96 << 20;
/// Bytes that the disk holds; only those that are written take room.
const DISK_BYTES: u64 = 4 << 30;

/// Of an agent's memory a quarter is for others' bytes: two writers' files at least.
const POOL: &str = "512MiB";

/// Systems that are measured, the others against the first.
const SYSTEMS: [&str; 4] = ["none", "async", "sync:1", "sync:2"];

/// How much is done.
#[derive(Debug)]
pub(in crate::bench) struct Effort {
    /// Bytes that each writes.
    bytes: u64,
    /// Bytes that each writes where a file is closed.
    sealed_bytes: u64,
    turns: usize,
}

impl Effort {
    pub(in crate::bench) const FULL: Effort = Effort {
        bytes: 48 << 20,
        sealed_bytes: 24 << 20,
        turns: 7,
    };
    pub(in crate::bench) const QUICK: Effort = Effort {
        bytes: 16 << 20,
        sealed_bytes: 8 << 20,
        turns: 1,
    };
}

/// Bytes per second, of each node.
#[derive(Default)]
struct Rates {
    write: Vec<Vec<f64>>,
    link: Vec<f64>,
    whole: bool,
}

/// Measures every system, turn by turn.
pub(in crate::bench) fn run(effort: &Effort) -> Result<BenchReport, Failure> {
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let rates = with_tiers(dir.path(), effort)?;
    let mut report = report(effort, &rates);
    sealing::run(&mut report, dir.path(), (effort.sealed_bytes, effort.turns))?;
    progress_over();
    Ok(report)
}

/// Measures what copies cost, turn by turn.
fn with_tiers(dir: &Path, effort: &Effort) -> Result<Rates, Failure> {
    progress("building test hosts");
    let rig = Rig::start_with(NODES as u32, &["--storage", "0", "--rate", LINK])?;
    let disk = Disk::make(dir, DISK_BYTES, DISK_RATE)?;
    let desk = Desk {
        rig: &rig,
        nodes: NODES,
        dir,
        bytes: effort.bytes,
    };
    let mut rates = Rates {
        write: vec![Vec::new(); SYSTEMS.len()],
        link: Vec::new(),
        whole: true,
    };
    for turn in 0..effort.turns {
        for at in 0..SYSTEMS.len() {
            let system = (turn + at) % SYSTEMS.len();
            let name = SYSTEMS[system];
            progress(&format!("turn {} of {}: {name}", turn + 1, effort.turns));
            one(&desk, &disk, (turn, system), &mut rates)?;
        }
    }
    Ok(rates)
}

/// One system: agents, writers at once, and whether the store has all in the end.
fn one(
    desk: &Desk<'_>,
    disk: &Disk,
    (turn, system): (usize, usize),
    rates: &mut Rates,
) -> Result<(), Failure> {
    let what = || "cannot make a directory".to_owned();
    let store = desk.dir.join(format!("store-{turn}-{system}"));
    let tier = disk.at().join(format!("tier-{turn}-{system}"));
    for made in [&store, &tier] {
        std::fs::create_dir(made).or_fail(what)?;
    }
    let place = format!("{}:1GiB", tier.display());
    let options = ["--pool", POOL, "--tier", &place, "--tier-age", "10m"];
    let options = [
        &options[..],
        &["--fsync", "tier", "--replicas", SYSTEMS[system]],
    ]
    .concat();
    let stores = vec![store.clone(); NODES];
    let agents = HostAgents::start_over(desk.rig, stores, Policy::Local, &options)?;
    let points = desk.points();
    rates.write[system].push(desk.write(&points, End::Synced)?);
    if system == 0 {
        rates.link.push(desk.read(&points)?);
    }
    agents.end()?;
    rates.whole &= desk.is_whole(&store)?;
    for gone in [&store, &tier] {
        std::fs::remove_dir_all(gone).or_fail(|| "cannot remove a directory".to_owned())?;
    }
    Ok(())
}

/// The call that a writer waits for at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Synced,
    Closed,
}

/// The hosts and the directory of a measurement.
struct Desk<'a> {
    rig: &'a Rig,
    nodes: usize,
    dir: &'a Path,
    bytes: u64,
}

impl Desk<'_> {
    /// The agents' mount points.
    fn points(&self) -> Vec<PathBuf> {
        let hosts = self.rig.hosts()[..self.nodes].iter();
        hosts.map(|host| host.mount.with_file_name("at")).collect()
    }

    fn is_whole(&self, store: &Path) -> Result<bool, Failure> {
        let names: Vec<String> = (0..self.nodes).map(name).collect();
        are_whole(store, &names, self.bytes)
    }

    /// Bytes per second that a node writes, and syncs or closes, while all do.
    fn write(&self, points: &[PathBuf], end: End) -> Result<f64, Failure> {
        let request = request();
        let begun = Instant::now();
        let written = at_once(self.nodes, |node| {
            let file = File::create(points[node].join(name(node)))?;
            for offset in (0..self.bytes).step_by(REQUEST_BYTES) {
                file.write_all_at(&request, offset)?;
            }
            match end {
                End::Synced => file.sync_all(),
                End::Closed => Ok(()),
            }
        });
        written.or_fail(|| "cannot write".to_owned())?;
        Ok(self.bytes as f64 / begun.elapsed().as_secs_f64())
    }

    /// Bytes per second that a node reads of another's memory, while all do: the links' rate between agents.
    fn read(&self, points: &[PathBuf]) -> Result<f64, Failure> {
        let request = request();
        let begun = Instant::now();
        let read = at_once(self.nodes, |node| {
            let file = File::open(points[node].join(name((node + 1) % self.nodes)))?;
            let mut found = vec![0; REQUEST_BYTES];
            for offset in (0..self.bytes).step_by(REQUEST_BYTES) {
                file.read_exact_at(&mut found, offset)?;
                if found != request {
                    return Err(io::Error::other("other bytes than were written"));
                }
            }
            Ok(())
        });
        read.or_fail(|| "cannot read".to_owned())?;
        Ok(self.bytes as f64 / begun.elapsed().as_secs_f64())
    }
}

fn name(node: usize) -> String {
    format!("file-{node}")
}

fn report(effort: &Effort, rates: &Rates) -> BenchReport {
    let mut report = BenchReport::new("replication", "posix");
    let none = &rates.write[0];
    for (system, write) in SYSTEMS.iter().zip(&rates.write) {
        let case = "write and fsync";
        report.row(system, case, "of a node", median(write) / 1e6, "MB/s");
        report.row(system, case, "over none", median(&over(write, none)), "x");
        if *system != "none" {
            let key = format!("{}_over_none", system.replace(':', ""));
            side_by_side(&mut report, &key, over(write, none));
        }
    }
    let (local, link) = (median(none), median(&rates.link));
    report.row("links", "read from a peer", "of a node", link / 1e6, "MB/s");
    let serial = |copies: f64| 1.0 / (1.0 + copies * local / link);
    for (copies, key) in [(1.0, "model_sync1"), (2.0, "model_sync2")] {
        let case = "one after another";
        report.row("model", case, key, serial(copies), "x");
        report.sum_up(key, rounded(serial(copies)));
    }
    report.sum_up("local_over_link", rounded(local / link));
    report.sum_up("turns", effort.turns);
    report.sum_up("verified", rates.whole);
    report
}

/// The figure of each turn over that of its counterpart.
fn over(ones: &[f64], others: &[f64]) -> Vec<f64> {
    let pairs = ones.iter().zip(others);
    pairs.map(|(one, other)| one / other).collect()
}

/// Sums up what turns came to: the median, the least and the most.
fn side_by_side(report: &mut BenchReport, key: &str, ratios: Vec<f64>) {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    report.sum_up(key, rounded(median(&ratios)));
    report.sum_up(&format!("{key}_least"), rounded(least));
    report.sum_up(&format!("{key}_most"), rounded(most));
}
