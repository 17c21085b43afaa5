//! Writing to a tier: `throughput`, `fuse` and `create`.
//!
//! All of a set runs on this machine, so agents share its processors and its disk: what grows here
//! with their number is what these leave. Test hosts have a share of the processors each.

pub(super) mod fuse;
pub(super) mod replication;
mod simulated;
pub(super) mod throughput;

use crate::hearth::hearth;
use hearth_agent::{Policy, Synced};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::report::{BenchReport, median, rounded};
use hearth_set::signals::Signals;
use hearth_set::size::{HumanDuration, Size};
use hearth_set::tier::{TierPlace, TierSpec};
use hearth_set::trial::cluster::Cluster;

/// Bytes of one request.
const REQUEST_BYTES: usize = 1 << 20;

/// How much is done.
#[derive(Debug)]
pub(super) struct Effort {
    /// Numbers of agents, or of processes.
    counts: &'static [usize],
    /// Bytes that each writes.
    bytes: u64,
    turns: usize,
    /// Files that are created.
    files: usize,
}

impl Effort {
    pub(super) const FULL: Effort = Effort {
        counts: &[1, 2, 3, 4],
        bytes: 192 << 20,
        turns: 7,
        files: 200_000,
    };
    pub(super) const QUICK: Effort = Effort {
        counts: &[1, 2],
        bytes: 48 << 20,
        turns: 1,
        files: 4_000,
    };
}

/// Parameters of a measurement.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) store: &'a str,
    pub(super) effort: &'static Effort,
}

/// A set of agents with a tier each, of this size.
fn spec(agents: usize, backing: &str, dir: &Path, tier: u64) -> Result<SetSpec, Failure> {
    let place = dir.join("tier");
    std::fs::create_dir_all(&place).or_fail(|| "cannot make a tier".to_owned())?;
    Ok(SetSpec {
        agents: agents as u32,
        policy: Policy::Local,
        pool: Size(32 << 20),
        backing: backing.to_owned(),
        tier: Some(TierSpec {
            place: TierPlace {
                dir: place,
                size: Some(Size(tier)),
            },
            age: HumanDuration(std::time::Duration::from_secs(600)),
            fsync: Synced::Tier,
        }),
        ..SetSpec::default()
    })
}

/// The bytes that every request writes.
fn request() -> Vec<u8> {
    (0..REQUEST_BYTES).map(|at| (at % 251) as u8).collect()
}

/// True if the store has all that was written to a file.
fn is_whole(path: &Path, bytes: u64) -> io::Result<bool> {
    let (file, request) = (File::open(path)?, request());
    let mut found = vec![0; REQUEST_BYTES];
    for offset in (0..bytes).step_by(REQUEST_BYTES) {
        file.read_exact_at(&mut found, offset)?;
        if found != request {
            return Ok(false);
        }
    }
    Ok(file.metadata()?.len() == bytes)
}

/// True if the store has all that was written to these files.
fn are_whole(store: &Path, names: &[String], bytes: u64) -> Result<bool, Failure> {
    let whole = |name: &String| {
        is_whole(&store.join(name), bytes).or_fail(|| format!("cannot read `{name}` back"))
    };
    names
        .iter()
        .try_fold(true, |all, name| Ok(all & whole(name)?))
}

/// When each MiB of each writer was done, in seconds since all began.
type Slices = Vec<Vec<f64>>;

fn write_all(points: &[PathBuf], name: &str, bytes: u64) -> Result<Slices, Failure> {
    let start = Barrier::new(points.len());
    let what = || "cannot write".to_owned();
    thread::scope(|scope| {
        let start = &start;
        let writers = points.iter().enumerate().map(|(number, point)| {
            let path = point.join(format!("{name}-{number}"));
            scope.spawn(move || write_one(&path, bytes, start))
        });
        let writers: Vec<_> = writers.collect();
        let ended = writers.into_iter().map(|writer| {
            let slices = writer.join().map_err(|_| io::Error::other("a writer died"));
            slices.and_then(|slices| slices).or_fail(what)
        });
        ended.collect()
    })
}

fn write_one(path: &Path, bytes: u64, start: &Barrier) -> io::Result<Vec<f64>> {
    let request = request();
    let made = File::create(path);
    start.wait();
    let (file, begun) = (made?, Instant::now());
    let mut slices = Vec::new();
    for offset in (0..bytes).step_by(REQUEST_BYTES) {
        file.write_all_at(&request, offset)?;
        slices.push(begun.elapsed().as_secs_f64());
    }
    Ok(slices)
}

/// Bytes per second of all together while each wrote these bytes.
fn rate(slices: &Slices, from: u64, to: u64) -> f64 {
    let request = REQUEST_BYTES as u64;
    let rates = slices.iter().map(|slices| {
        let at = |bytes: u64| match bytes / request {
            0 => 0.0,
            count => slices[count as usize - 1],
        };
        (to - from) as f64 / (at(to) - at(from)).max(1e-9)
    });
    rates.sum()
}

/// Does something in so many threads, each with its number.
fn at_once(threads: usize, work: impl Fn(usize) -> io::Result<()> + Sync) -> io::Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let ended = thread.join();
            ended.map_err(|_| io::Error::other("a thread died"))?
        });
        // All are waited for, whoever fails first.
        let ended: Vec<io::Result<()>> = ended.collect();
        ended.into_iter().collect()
    })
}

/// Empty files created in one directory by four agents at once: rate and messages as it grows.
pub(super) fn create(load: &Load<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    let backing = load.store;
    const AGENTS: usize = 4;
    const PARTS: usize = 5;
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let store = dir.path().join("store");
    std::fs::create_dir_all(store.join("huge")).or_fail(|| "cannot make the store".to_owned())?;
    let spec = SetSpec {
        agents: AGENTS as u32,
        policy: Policy::Local,
        backing: backing.to_owned(),
        ..SetSpec::default()
    };
    let cluster = Cluster::start(&hearth()?, &store, dir.path(), spec, signals)?;
    let mut report = BenchReport::new("create", backing);
    let share = load.effort.files / AGENTS / PARTS;
    let (mut rates, mut messages) = (Vec::new(), Vec::new());
    let mut sent = cluster.counts()?.messages_sent;
    for part in 0..PARTS {
        let begun = Instant::now();
        let make = |agent: usize| -> io::Result<()> {
            let huge = cluster.points()[agent].join("huge");
            (0..share).try_for_each(|file| {
                File::create_new(huge.join(format!("{agent}-{part}-{file}"))).map(drop)
            })
        };
        let made = at_once(AGENTS, make);
        made.or_fail(|| "cannot create a file".to_owned())?;
        let files = (share * AGENTS) as f64;
        let rate = files / begun.elapsed().as_secs_f64();
        let now = cluster.counts()?.messages_sent;
        let each = (now - sent) as f64 / files;
        sent = now;
        let case = format!(
            "files {} to {}",
            part * share * AGENTS,
            (part + 1) * share * AGENTS
        );
        report.row("local", &case, "created", rate, "/s");
        report.row("local", &case, "messages per create", each, "");
        rates.push(rate);
        messages.push(each);
    }
    cluster.end()?;
    let found = std::fs::read_dir(store.join("huge")).map(Iterator::count);
    let found = found.or_fail(|| "cannot list the directory".to_owned())?;
    report.sum_up("files", found);
    report.sum_up("verified", found == share * AGENTS * PARTS);
    report.sum_up("messages_per_create", rounded(median(&messages)));
    let last_over_first = |of: &[f64]| {
        of.last()
            .zip(of.first())
            .map_or(0.0, |(l, f)| l / f.max(1e-9))
    };
    report.sum_up("rate_last_over_first", rounded(last_over_first(&rates)));
    report.sum_up(
        "messages_last_over_first",
        rounded(last_over_first(&messages)),
    );
    Ok(report)
}
