//! Writing to a tier: `throughput`, `fuse` and `create`.
//!
//! All of a set runs on this machine, so agents share its processors and its disk: what grows here
//! with their number is what these leave.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::cluster::Cluster;
use super::report::{Report, median, rounded};
use crate::failure::{Failure, OrFail};
use crate::options::{Policy, SetSpec};
use crate::signals::Signals;
use crate::size::{Size, Span};
use crate::tier::{Fsync, TierPlace, TierSpec};

/// What one request moves.
const REQUEST_BYTES: usize = 1 << 20;

/// How much is done.
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
        turns: 3,
        files: 200_000,
    };
    pub(super) const QUICK: Effort = Effort {
        counts: &[1, 2],
        bytes: 48 << 20,
        turns: 1,
        files: 4_000,
    };
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
            age: Span(std::time::Duration::from_secs(600)),
            fsync: Fsync::Tier,
        }),
        ..SetSpec::default()
    })
}

/// Bandwidth of each agent's writer, until its tier is full and after, over the bare store's.
pub(super) fn throughput(
    backing: &str,
    effort: &Effort,
    signals: &Signals,
) -> Result<Report, Failure> {
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let mut report = Report::new("throughput", backing);
    let mut right = true;
    let mut grown = Vec::new();
    let mut curve = Vec::new();
    for &agents in effort.counts {
        let place = dir.path().join(agents.to_string());
        let quarter = effort.bytes / 4;
        let Written {
            bare,
            slices,
            whole,
        } = measure(backing, &place, agents, effort, signals)?;
        right &= whole;
        let bare = rate(&bare, 0, quarter);
        let case = format!("{agents} agents");
        // Write-back begins when a tier is half full, and competes from then on.
        let (first, last) = (
            rate(&slices, 0, quarter),
            rate(&slices, effort.bytes - quarter, effort.bytes),
        );
        for (system, value) in [("store", bare), ("tier", first), ("tier, full", last)] {
            report.row(system, &case, "write", value / 1e6, "MB/s");
        }
        report.row("tier", &case, "over store", first / bare, "x");
        report.row("tier, full", &case, "over store", last / bare, "x");
        report.sum_up(&format!("over_store_{agents}"), rounded(first / bare));
        report.sum_up(&format!("full_over_store_{agents}"), rounded(last / bare));
        grown.push(first);
        curve = slices;
    }
    let ends = grown.first().zip(grown.last());
    let growth = ends.map_or(0.0, |(first, last)| last / first);
    report.sum_up("growth", rounded(growth));
    report.sum_up("verified", right);
    report.sum_up("curve", plot(&curve, effort.bytes));
    Ok(report)
}

/// What one number of agents came to.
struct Written {
    bare: Slices,
    slices: Slices,
    whole: bool,
}

fn measure(
    backing: &str,
    place: &Path,
    agents: usize,
    effort: &Effort,
    signals: &Signals,
) -> Result<Written, Failure> {
    let store = place.join("store");
    std::fs::create_dir_all(&store).or_fail(|| "cannot make the store".to_owned())?;
    let none = SetSpec {
        agents: agents as u32,
        policy: Policy::None,
        backing: backing.to_owned(),
        ..SetSpec::default()
    };
    let cluster = Cluster::start(&store, &place.join("bare"), none, signals)?;
    let bare = write_all(cluster.points(), "bare", effort.bytes / 4)?;
    cluster.end()?;
    let tiered = spec(agents, backing, place, effort.bytes / 2)?;
    let cluster = Cluster::start(&store, place, tiered, signals)?;
    let slices = write_all(cluster.points(), "tiered", effort.bytes)?;
    cluster.end()?;
    let names: Vec<String> = (0..agents)
        .map(|number| format!("tiered-{number}"))
        .collect();
    let whole = are_whole(&store, &names, effort.bytes)?;
    Ok(Written {
        bare,
        slices,
        whole,
    })
}

/// What every request writes.
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

/// The last run's bandwidth over the bytes that each has written, an eighth a column.
fn plot(slices: &Slices, bytes: u64) -> String {
    let step = (bytes / 8 / REQUEST_BYTES as u64).max(1) * REQUEST_BYTES as u64;
    let rates: Vec<f64> = (0..8)
        .filter(|part| (part + 1) * step <= bytes)
        .map(|part| rate(slices, part * step, (part + 1) * step))
        .collect();
    let most = rates.iter().copied().fold(1.0, f64::max);
    let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |rate: &f64| bars[((rate / most * 7.0).round() as usize).min(7)];
    rates.iter().map(bar).collect()
}

/// Processes that write and sync through the mount, over the same on the tier's own file system.
pub(super) fn fuse(backing: &str, effort: &Effort, signals: &Signals) -> Result<Report, Failure> {
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let store = dir.path().join("store");
    let alone = dir.path().join("alone");
    for made in [&store, &alone] {
        std::fs::create_dir_all(made).or_fail(|| "cannot make a directory".to_owned())?;
    }
    let cluster = Cluster::start(
        &store,
        dir.path(),
        spec(1, backing, dir.path(), 16 << 30)?,
        signals,
    )?;
    let mut report = Report::new("fuse", backing);
    let mut least = f64::INFINITY;
    let mut written = Vec::new();
    for processes in [1, 2, 4, 8, 12] {
        let request = REQUEST_BYTES as u64;
        let bytes = effort.bytes / processes as u64 / request * request;
        let mut ratios = Vec::new();
        for turn in 0..effort.turns {
            let name = format!("{processes}-{turn}");
            let here = synced(&alone, &name, (processes, bytes))?;
            let ours = synced(&cluster.points()[0], &name, (processes, bytes))?;
            ratios.push(here / ours);
            let names = (0..processes).map(|number| format!("{name}-{number}"));
            written.push((names.collect::<Vec<_>>(), bytes));
        }
        let ratio = median(&ratios);
        least = least.min(ratio);
        let case = format!("{processes} writers");
        report.row("mount over tier alone", &case, "bandwidth", ratio, "x");
        report.sum_up(&format!("over_tier_{processes}"), rounded(ratio));
    }
    report.sum_up("over_tier_least", rounded(least));
    cluster.end()?;
    let right = written.iter().try_fold(true, |all, (names, bytes)| {
        Ok::<_, Failure>(all & are_whole(&store, names, *bytes)?)
    })?;
    report.sum_up("verified", right);
    Ok(report)
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

/// Empty files created in one directory by four agents at once: rate and messages as it grows.
pub(super) fn create(backing: &str, effort: &Effort, signals: &Signals) -> Result<Report, Failure> {
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
    let cluster = Cluster::start(&store, dir.path(), spec, signals)?;
    let mut report = Report::new("create", backing);
    let share = effort.files / AGENTS / PARTS;
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
