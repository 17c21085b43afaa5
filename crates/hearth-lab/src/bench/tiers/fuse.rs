//! Processes that write and sync through the mount of an agent with a tier, over the same on the tier's own file
//! system. Of two runs side by side now the one is first and now the other.
//!
//! The tier is in memory, so that nothing but the mount and its agent takes time. With a rate it is on a disk
//! that takes as much, and every row says so.

use super::{Effort, REQUEST_BYTES, are_whole, at_once, request, spec};
use crate::bench::disk::Disk;
use crate::hearth::hearth;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::{BenchReport, median, rounded};
use hearth_set::signals::Signals;
use hearth_set::size::Size;
use hearth_set::trial::cluster::Cluster;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Numbers of processes, as in the publication.
const PROCESSES: [usize; 5] = [1, 2, 4, 8, 12];

/// Bytes that the disk holds; only those that are written take room.
const DISK_BYTES: u64 = 8 << 30;

/// Room of the tier: more than the files of all turns that stay.
const TIER_BYTES: u64 = 4 << 30;

/// A file system in memory, on every Linux.
const MEMORY: &str = "/dev/shm";

/// Parameters of a measurement.
#[derive(Debug)]
pub(in crate::bench) struct Load<'a> {
    pub(in crate::bench) store: &'a str,
    /// Bytes per second of the tier's disk; in memory if there is none.
    pub(in crate::bench) disk: Option<Size>,
    pub(in crate::bench) effort: &'static Effort,
}

/// The place of the tier, which goes with this.
struct Ground {
    // The disk is taken away before its directory.
    disk: Option<Disk>,
    dir: tempfile::TempDir,
}

impl Ground {
    fn prepare(rate: Option<Size>) -> Result<Ground, Failure> {
        let what = || "cannot make a directory for a tier".to_owned();
        let Some(Size(rate)) = rate else {
            return Ok(Ground {
                disk: None,
                dir: tempfile::tempdir_in(MEMORY).or_fail(what)?,
            });
        };
        let dir = tempfile::tempdir().or_fail(what)?;
        let disk = Disk::make(dir.path(), DISK_BYTES, rate)
            .map_err(|failure| failure.hint("as root, or leave --disk out for a tier in memory"))?;
        Ok(Ground {
            disk: Some(disk),
            dir,
        })
    }

    fn at(&self) -> &Path {
        self.disk.as_ref().map_or(self.dir.path(), Disk::at)
    }
}

/// Measures each number of processes.
pub(in crate::bench) fn run(load: &Load<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let ground = Ground::prepare(load.disk)?;
    let (store, alone) = (dir.path().join("store"), ground.at().join("alone"));
    for made in [&store, &alone] {
        std::fs::create_dir_all(made).or_fail(|| "cannot make a directory".to_owned())?;
    }
    let spec = spec(1, load.store, ground.at(), TIER_BYTES)?;
    let cluster = Cluster::start(&hearth()?, &store, dir.path(), spec, signals)?;
    let pair = Pair {
        alone,
        mount: cluster.points()[0].clone(),
    };
    let mut report = BenchReport::new("fuse", load.store);
    let (mut least, mut kept) = (f64::INFINITY, Vec::new());
    for processes in PROCESSES {
        let took = pair.measure(processes, load.effort)?;
        let label = match load.disk {
            Some(rate) => format!("{processes} writers, disk of {rate}/s"),
            None => format!("{processes} writers, memory"),
        };
        least = least.min(took.tell(&mut report, &label, processes));
        kept.push((took.names, took.bytes));
    }
    report.sum_up("over_tier_least", rounded(least));
    match load.disk {
        Some(Size(rate)) => report.sum_up("disk_mb_s", rate >> 20),
        None => report.sum_up("tier", "memory"),
    }
    cluster.end()?;
    let right = kept.iter().try_fold(true, |all, (names, bytes)| {
        Ok::<_, Failure>(all & are_whole(&store, names, *bytes)?)
    })?;
    report.sum_up("verified", right);
    Ok(report)
}

/// Seconds of one number of processes, turn by turn.
struct Took {
    alone: Vec<f64>,
    mount: Vec<f64>,
    /// Files of the last turn, and the bytes of each.
    names: Vec<String>,
    bytes: u64,
}

impl Took {
    /// Adds the figures; the middle ratio.
    fn tell(&self, report: &mut BenchReport, case: &str, processes: usize) -> f64 {
        let all = ((processes as u64 * self.bytes) >> 20) as f64;
        for (system, took) in [("tier alone", &self.alone), ("mount", &self.mount)] {
            let rate = all / median(took);
            report.row(system, case, "write and fsync", rate, "MiB/s");
        }
        let turns = self.alone.iter().zip(&self.mount);
        let ratios: Vec<f64> = turns.map(|(alone, mount)| alone / mount).collect();
        let ratio = median(&ratios);
        report.row("mount over tier alone", case, "bandwidth", ratio, "x");
        let key = format!("over_tier_{processes}");
        report.sum_up(&key, rounded(ratio));
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        report.sum_up(&format!("{key}_least"), rounded(least));
        report.sum_up(&format!("{key}_most"), rounded(most));
        ratio
    }
}

/// A tier's file system, and the mount over an agent with that tier.
struct Pair {
    alone: PathBuf,
    mount: PathBuf,
}

impl Pair {
    /// Both in turns. Files of the last turn stay behind the mount.
    fn measure(&self, processes: usize, effort: &Effort) -> Result<Took, Failure> {
        let request = REQUEST_BYTES as u64;
        let mut took = Took {
            alone: Vec::new(),
            mount: Vec::new(),
            names: Vec::new(),
            bytes: effort.bytes / processes as u64 / request * request,
        };
        for turn in 0..effort.turns {
            remove(&self.mount, &took.names)?;
            let name = format!("{processes}-{turn}");
            took.names = (0..processes).map(|at| format!("{name}-{at}")).collect();
            let first = [&self.alone, &self.mount];
            let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
            for at in order {
                self.settle()?;
                let seconds = synced(first[at], &name, (processes, took.bytes))?;
                [&mut took.alone, &mut took.mount][at].push(seconds);
            }
            remove(&self.alone, &took.names)?;
        }
        Ok(took)
    }

    /// Writes out bytes that earlier turns left unwritten, so that the next one does not wait for them.
    fn settle(&self) -> Result<(), Failure> {
        let what = || "cannot bring a disk to rest".to_owned();
        let disk = File::open(&self.alone).or_fail(what)?;
        rustix::fs::syncfs(disk).or_fail(what)
    }
}

fn remove(dir: &Path, names: &[String]) -> Result<(), Failure> {
    let mut paths = names.iter().map(|name| dir.join(name));
    paths
        .try_for_each(std::fs::remove_file)
        .or_fail(|| "cannot remove a file".to_owned())
}

/// Seconds until so many writers have written and synced a file each.
fn synced(dir: &Path, name: &str, (writers, bytes): (usize, u64)) -> Result<f64, Failure> {
    let request = request();
    let begun = Instant::now();
    let write = |number: usize| -> io::Result<()> {
        let file = File::create(dir.join(format!("{name}-{number}")))?;
        for offset in (0..bytes).step_by(REQUEST_BYTES) {
            file.write_all_at(&request, offset)?;
        }
        file.sync_all()
    };
    let done = at_once(writers, write);
    done.or_fail(|| "cannot write".to_owned())?;
    Ok(begun.elapsed().as_secs_f64())
}
