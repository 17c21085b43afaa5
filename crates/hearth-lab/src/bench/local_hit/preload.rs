//! The same in programs that read their agent's memory themselves: `hearth run`, as people type it,
//! with a program inside that reads a cached file and copies of it in turns.

use crate::hearth::hearth;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::workload::local_hit::{BLOCK, Case, Found, System, WRITTEN_SHARE, byte_of};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::{BenchReport, percentile, rounded};

/// Size of the working set.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) bytes: usize,
    pub(super) turns: usize,
}

/// Adds the figures of one process, and of two at once.
pub(super) fn measure(report: &mut BenchReport, dir: &Path, load: Load) -> Result<(), Failure> {
    let what = || format!("cannot write in `{}`", dir.display());
    let disk = lay(dir, load.bytes).or_fail(what)?;
    report.sum_up("disk", file_system(disk.path()));
    for (processes, suffix) in [(1, ""), (2, "_two")] {
        let all = programs(dir, load, processes)?;
        if !all.iter().all(|found| found.right) {
            return Err(Failure::new("a local hit returned wrong bytes"));
        }
        rows(report, &all, suffix);
        keys(report, &all, load.turns, suffix);
    }
    drop(disk);
    Ok(())
}

fn rows(report: &mut BenchReport, all: &[Found], suffix: &str) {
    for (system, name) in NAMES {
        for (case, words) in CASES {
            // The slowest program counts.
            for (metric, percent) in [("p25", 25.0), ("p50", 50.0), ("p75", 75.0)] {
                let of = |found| Some(percentile(spans(found, system, case)?, percent));
                if let Some(span) = all.iter().filter_map(of).reduce(f64::max) {
                    let system = format!("{name}{}", suffix.replace('_', ", "));
                    report.row(&system, words, metric, span / 1e3, "us");
                }
            }
        }
    }
}

fn keys(report: &mut BenchReport, all: &[Found], turns: usize, suffix: &str) {
    for (key, over, case) in KEYS {
        // Throughput is the other way around.
        let told = |ratio: f64| match key {
            THROUGHPUT => rounded(1.0 / ratio),
            _ => rounded(ratio),
        };
        tell(
            report,
            all,
            turns,
            (&format!("{key}{suffix}"), over, case),
            (median, told),
        );
        if case == Case::Write {
            let key = format!("{key}_mean{suffix}");
            tell(report, all, turns, (&key, over, case), (mean, rounded));
        }
    }
}

/// Adds one key and its spread.
fn tell(
    report: &mut BenchReport,
    all: &[Found],
    turns: usize,
    (key, over, case): (&str, System, Case),
    (of, told): (fn(&[f64]) -> f64, impl Fn(f64) -> f64),
) {
    let ratios = all
        .iter()
        .filter_map(|found| ratio(found, (over, case), of, 0..1, 1));
    let Some(ratio_of_all) = ratios.reduce(f64::max) else {
        return;
    };
    let each = (0..turns).flat_map(|turn| {
        let ratio = move |found| ratio(found, (over, case), of, turn..turn + 1, turns);
        all.iter().filter_map(ratio)
    });
    let (low, high) = each.fold((f64::MAX, 0.0), |(low, high): (f64, f64), it| {
        (low.min(it), high.max(it))
    });
    report.sum_up(key, told(ratio_of_all));
    let mut spread = [told(low), told(high)];
    spread.sort_by(f64::total_cmp);
    report.sum_up(&format!("{key}_spread"), spread.to_vec());
}

fn median(spans: &[f64]) -> f64 {
    percentile(spans, 50.0)
}

fn mean(spans: &[f64]) -> f64 {
    spans.iter().sum::<f64>() / spans.len() as f64
}

const NAMES: [(System, &str); 4] = [
    (System::Cached, "preload"),
    (System::Tmpfs, "page cache of tmpfs"),
    (System::Disk, "page cache of a disk"),
    (System::Memory, "memcpy"),
];

const CASES: [(Case, &str); 6] = [
    (Case::Block, "4KiB random"),
    (Case::Small, "64B random"),
    (Case::Large, "1MiB sequential"),
    (Case::Stat, "stat"),
    (Case::Fstat, "fstat"),
    (Case::Write, "4KiB write"),
];

const THROUGHPUT: &str = "preload_1m_over_memcpy";

/// Keys of the summary: the time of a call in a program over the same elsewhere. With `_spread`, the
/// least and the most that it was in a turn.
const KEYS: [(&str, System, Case); 12] = [
    ("preload_4k_over_pagecache", System::Tmpfs, Case::Block),
    ("preload_4k_over_disk_pagecache", System::Disk, Case::Block),
    ("preload_4k_over_memcpy", System::Memory, Case::Block),
    ("preload_64_over_pagecache", System::Tmpfs, Case::Small),
    ("preload_64_over_disk_pagecache", System::Disk, Case::Small),
    (THROUGHPUT, System::Memory, Case::Large),
    ("preload_stat_over_pagecache", System::Tmpfs, Case::Stat),
    ("preload_stat_over_disk_pagecache", System::Disk, Case::Stat),
    ("preload_fstat_over_pagecache", System::Tmpfs, Case::Fstat),
    (
        "preload_fstat_over_disk_pagecache",
        System::Disk,
        Case::Fstat,
    ),
    ("preload_pwrite_over_pagecache", System::Tmpfs, Case::Write),
    (
        "preload_pwrite_over_disk_pagecache",
        System::Disk,
        Case::Write,
    ),
];

fn spans(found: &Found, system: System, case: Case) -> Option<&[f64]> {
    let mut rows = found.spans.iter();
    let row = rows.find(|row| (row.0, row.1) == (system, case))?;
    (!row.2.is_empty()).then_some(&row.2[..])
}

/// Of medians or means, in some of so many equal parts.
fn ratio(
    found: &Found,
    (over, case): (System, Case),
    of: fn(&[f64]) -> f64,
    part: Range<usize>,
    parts: usize,
) -> Option<f64> {
    let spans_of = |system| {
        let all = spans(found, system, case)?;
        let each = all.len() / parts;
        Some(of(&all[part.start * each..part.end * each]))
    };
    Some(spans_of(System::Cached)? / spans_of(over)?)
}

/// Lays out the store's files and their copies; those on a disk last as long as what is returned.
fn lay(dir: &Path, bytes: usize) -> io::Result<tempfile::TempDir> {
    DirBuilder::new().mode(0o700).create(dir.join("control"))?;
    let disk = tempfile::tempdir()?;
    let places = [dir.join("store"), dir.join("tmpfs"), disk.path().to_owned()];
    for place in &places {
        fs::create_dir_all(place)?;
        for (name, bytes) in [("file", bytes), ("written", bytes / WRITTEN_SHARE)] {
            let mut file = BufWriter::new(File::create(place.join(name))?);
            for block in 0..bytes / BLOCK {
                file.write_all(&[byte_of(block); BLOCK])?;
            }
            file.flush()?;
        }
    }
    std::os::unix::fs::symlink(disk.path(), dir.join("disk"))?;
    Ok(disk)
}

/// The name of a file system, as far as it matters here.
fn file_system(path: &Path) -> &'static str {
    match rustix::fs::statfs(path).map(|found| found.f_type as u64) {
        Ok(0xef53) => "ext4",
        Ok(0x5846_5342) => "xfs",
        Ok(0x0102_1994) => "tmpfs",
        Ok(_) | Err(_) => "another",
    }
}

/// Runs so many programs at once, and returns their findings.
fn programs(dir: &Path, load: Load, count: usize) -> Result<Vec<Found>, Failure> {
    let started: Vec<_> = (0..count)
        .map(|number| program(dir, load, number).and_then(|mut it| it.spawn()))
        .collect();
    let what = || "cannot run a program over the cache".to_owned();
    // All at once: what one of them says must not fill its pipe while another is waited for.
    let ended: Vec<io::Result<Output>> = thread::scope(|scope| {
        let waiting: Vec<_> = started
            .into_iter()
            .map(|child| scope.spawn(|| child?.wait_with_output()))
            .collect();
        let joined = waiting.into_iter().map(|it| it.join());
        joined
            .map(|ended| ended.unwrap_or_else(|_| Err(io::Error::other("a thread ended"))))
            .collect()
    });
    ended
        .into_iter()
        .map(|output| understand(&output.or_fail(what)?))
        .collect()
}

/// `hearth run` over the store of `dir`, up to the words of what is run.
pub(super) fn run_over(dir: &Path, load: Load) -> io::Result<Command> {
    let hearth = hearth().map_err(|failure| io::Error::other(failure.in_a_line()))?;
    let mut command = Command::new(hearth);
    command.env("HEARTH_DIR", dir.join("control"));
    command.args(["run", "--way-in", "preload", "--pool"]);
    // Written bytes may stay in memory: they are less than the share of the pool that is flushed early.
    command.arg((4 * load.bytes).to_string());
    command.arg("--store").arg(dir.join("store")).arg("--");
    Ok(command)
}

fn program(dir: &Path, load: Load, number: usize) -> io::Result<Command> {
    let mut command = run_over(dir, load)?;
    command.arg(std::env::current_exe()?);
    command.args(["workload", "local-hit", "--dir"]).arg(dir);
    command.args(["--size", &load.bytes.to_string()]);
    command.args(["--of", &load.turns.to_string()]);
    command.args(["--rank", &(number + 1).to_string()]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

fn understand(output: &Output) -> Result<Found, Failure> {
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = said.lines().last().unwrap_or("it says nothing");
        return Err(Failure::new("a program over the cache failed").cause(last));
    }
    serde_json::from_slice(&output.stdout)
        .or_fail(|| "cannot understand what a program found".to_owned())
}
