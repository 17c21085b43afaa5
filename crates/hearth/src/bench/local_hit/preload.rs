//! The same in programs that read their agent's memory themselves: `hearth run`, as people type it,
//! with a program inside that reads a cached file and copies of it in turns.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::bench::report::{Report, percentile, rounded};
use crate::failure::{Failure, OrFail};
use crate::workload::local_hit::{BLOCK, Case, Found, System, byte_of};

/// Size of the working set.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) bytes: usize,
    pub(super) turns: usize,
}

/// Adds the figures of one process, and of two at once.
pub(super) fn measure(report: &mut Report, dir: &Path, load: Load) -> Result<(), Failure> {
    let what = || format!("cannot write in `{}`", dir.display());
    let disk = lay(dir, load.bytes).or_fail(what)?;
    for (processes, suffix) in [(1, ""), (2, "_two")] {
        let all = programs(dir, load, processes)?;
        for found in &all {
            if !found.right {
                return Err(Failure::new("a local hit returned wrong bytes"));
            }
        }
        for (system, name) in NAMES {
            for (case, words) in CASES {
                let span = worst(&all, system, case);
                if let Some(span) = span {
                    let system = format!("{name}{}", suffix.replace('_', ", "));
                    report.row(&system, words, "p50", span / 1e3, "us");
                }
            }
        }
        for (key, over, case) in KEYS {
            let ratios = all.iter().filter_map(|found| ratio(found, over, case));
            if let Some(ratio) = ratios.reduce(f64::max) {
                report.sum_up(&format!("{key}{suffix}"), rounded(ratio));
            }
        }
        // Throughput: the other way around, and the slowest counts.
        let large = |found| ratio(found, System::Memory, Case::Large);
        if let Some(ratio) = all.iter().filter_map(large).reduce(f64::max) {
            report.sum_up(
                &format!("preload_1m_over_memcpy{suffix}"),
                rounded(1.0 / ratio),
            );
        }
    }
    drop(disk);
    Ok(())
}

const NAMES: [(System, &str); 4] = [
    (System::Cached, "preload"),
    (System::Tmpfs, "page cache of tmpfs"),
    (System::Disk, "page cache of a disk"),
    (System::Memory, "memcpy"),
];

const CASES: [(Case, &str); 3] = [
    (Case::Block, "4KiB random"),
    (Case::Small, "64B random"),
    (Case::Large, "1MiB sequential"),
];

/// Keys of the summary: the time of a call in a program over the same elsewhere.
const KEYS: [(&str, System, Case); 5] = [
    ("preload_4k_over_pagecache", System::Tmpfs, Case::Block),
    ("preload_4k_over_disk_pagecache", System::Disk, Case::Block),
    ("preload_4k_over_memcpy", System::Memory, Case::Block),
    ("preload_64_over_pagecache", System::Tmpfs, Case::Small),
    ("preload_64_over_disk_pagecache", System::Disk, Case::Small),
];

fn median(found: &Found, system: System, case: Case) -> Option<f64> {
    let mut rows = found.spans.iter();
    let row = rows.find(|row| (row.0, row.1) == (system, case))?;
    Some(percentile(&row.2, 50.0))
}

fn worst(all: &[Found], system: System, case: Case) -> Option<f64> {
    let medians = all.iter().filter_map(|found| median(found, system, case));
    medians.reduce(f64::max)
}

fn ratio(found: &Found, over: System, case: Case) -> Option<f64> {
    Some(median(found, System::Cached, case)? / median(found, over, case)?)
}

/// Lays out the store's file and its copies; the one on a disk lasts as long as what is returned.
fn lay(dir: &Path, bytes: usize) -> io::Result<tempfile::NamedTempFile> {
    fs::create_dir(dir.join("store"))?;
    DirBuilder::new().mode(0o700).create(dir.join("control"))?;
    let mut disk = tempfile::NamedTempFile::new()?;
    let mut files = [
        File::create(dir.join("store/file"))?,
        File::create(dir.join("tmpfs"))?,
    ];
    for block in 0..bytes / BLOCK {
        let block = [byte_of(block); BLOCK];
        for file in files.iter_mut() {
            file.write_all(&block)?;
        }
        disk.write_all(&block)?;
    }
    std::os::unix::fs::symlink(disk.path(), dir.join("disk"))?;
    Ok(disk)
}

/// What so many programs found that ran at once.
fn programs(dir: &Path, load: Load, count: usize) -> Result<Vec<Found>, Failure> {
    let started: Vec<_> = (0..count)
        .map(|number| program(dir, load, number).spawn())
        .collect();
    let what = || "cannot run a program over the cache".to_owned();
    let ended: Vec<Result<Output, Failure>> = started
        .into_iter()
        .map(|child| {
            child
                .and_then(|child| child.wait_with_output())
                .or_fail(what)
        })
        .collect();
    ended
        .into_iter()
        .map(|output| understand(&output?))
        .collect()
}

fn program(dir: &Path, load: Load, number: usize) -> Command {
    let this = std::env::current_exe().unwrap_or_else(|_| "hearth".into());
    let mut command = Command::new(&this);
    command.env("HEARTH_DIR", dir.join("control"));
    command.args(["run", "--way-in", "preload", "--pool"]);
    command.arg((2 * load.bytes).to_string());
    command
        .arg("--store")
        .arg(dir.join("store"))
        .arg("--")
        .arg(this);
    command.args(["workload", "local-hit", "--dir"]).arg(dir);
    command.args(["--size", &load.bytes.to_string()]);
    command.args(["--of", &load.turns.to_string()]);
    command.args(["--rank", &(number + 1).to_string()]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
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
