//! Warm reads through a FUSE mount, and in programs that read their agent's memory themselves, beside
//! the same reads in the page cache and in memory.
//!
//! Taken in turns in one run: 4 KiB at random places, and 1 MiB one after another; in programs also
//! 64 bytes, what a file is, 4 KiB written, and what `fio` gets.

mod fio;
mod preload;

use super::inside;
use hearth_fuse::{Ledger, Mount, MountOptions, WhenBusy};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::{BenchReport, percentile, rounded};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const FILE_BYTES: usize = 64 << 20;
const SMALL: usize = 4 << 10;
const LARGE: usize = 1 << 20;
/// Small reads of one turn; the large reads of a turn go over the whole file.
const SMALL_READS: usize = 2000;

/// Microseconds of each read of one system.
#[derive(Default)]
struct Figures {
    small: Vec<f64>,
    large: Vec<f64>,
}

/// Parameters of a measurement.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) turns: usize,
    /// MiB that programs work on.
    pub(super) working_set: usize,
}

/// Measures.
pub(super) fn run(load: &Load) -> Result<BenchReport, Failure> {
    let &Load { turns, working_set } = load;
    let shm = Path::new("/dev/shm");
    let root = if shm.is_dir() { shm } else { Path::new("/tmp") };
    let dir = tempfile::tempdir_in(root).or_fail(|| "cannot make a directory".to_owned())?;
    let (fuse, tmpfs, right) =
        measure(dir.path(), turns).or_fail(|| "cannot measure".to_owned())?;
    if !right {
        return Err(Failure::new("a warm read returned wrong bytes"));
    }
    let mut report = BenchReport::new("local-hit", "posix");
    for (system, figures) in [("fuse", &fuse), ("tmpfs", &tmpfs)] {
        for (case, figures) in [
            ("4KiB random", &figures.small),
            ("1MiB sequential", &figures.large),
        ] {
            report.row(system, case, "p50", percentile(figures, 50.0), "us");
            report.row(system, case, "p99", percentile(figures, 99.0), "us");
        }
    }
    let ratio = |a: &[f64], b: &[f64]| rounded(percentile(a, 50.0) / percentile(b, 50.0));
    report.sum_up("verified", true);
    report.sum_up("fuse_4k_over_tmpfs", ratio(&fuse.small, &tmpfs.small));
    report.sum_up("fuse_1m_over_tmpfs", ratio(&fuse.large, &tmpfs.large));
    let apart = tempfile::tempdir_in(root).or_fail(|| "cannot make a directory".to_owned())?;
    let load = preload::Load {
        bytes: working_set << 20,
        turns,
    };
    preload::measure(&mut report, apart.path(), load)?;
    fio::measure(&mut report, apart.path(), load)?;
    Ok(report)
}

fn measure(dir: &Path, turns: usize) -> io::Result<(Figures, Figures, bool)> {
    let (store, at) = (dir.join("store"), dir.join("at"));
    std::fs::create_dir(&store)?;
    std::fs::create_dir(&at)?;
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|i| (i / SMALL % 251) as u8).collect();
    std::fs::write(store.join("file"), &bytes)?;
    std::fs::write(dir.join("beside"), &bytes)?;
    drop(bytes);
    let agents = inside::agents(1, &store, dir, 256 << 10, 2 * FILE_BYTES as u64)?;
    let mount = Mount::at(
        &at,
        Arc::new(Ledger::new()?),
        agents[0].store_root()?,
        agents[0].session(),
        MountOptions::default(),
    )?;
    let cached = File::open(at.join("file"))?;
    let beside = File::open(dir.join("beside"))?;
    let mut right = true;
    for file in [&cached, &beside] {
        large_reads(file, &mut Vec::new(), &mut right)?;
    }
    let (mut fuse, mut tmpfs) = (Figures::default(), Figures::default());
    for turn in 0..turns {
        for (file, figures) in [(&cached, &mut fuse), (&beside, &mut tmpfs)] {
            small_reads(file, turn as u64, &mut figures.small, &mut right)?;
            large_reads(file, &mut figures.large, &mut right)?;
        }
    }
    drop(cached);
    mount.unmount(WhenBusy::Detach)?;
    Ok((fuse, tmpfs, right))
}

fn small_reads(file: &File, seed: u64, spans: &mut Vec<f64>, right: &mut bool) -> io::Result<()> {
    let mut buffer = vec![0; SMALL];
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for _ in 0..SMALL_READS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let page = state as usize % (FILE_BYTES / SMALL);
        let start = Instant::now();
        file.read_exact_at(&mut buffer, (page * SMALL) as u64)?;
        spans.push(start.elapsed().as_secs_f64() * 1e6);
        *right &= buffer[0] == (page % 251) as u8 && buffer[SMALL - 1] == buffer[0];
    }
    Ok(())
}

fn large_reads(file: &File, spans: &mut Vec<f64>, right: &mut bool) -> io::Result<()> {
    let mut buffer = vec![0; LARGE];
    for offset in (0..FILE_BYTES).step_by(LARGE) {
        let start = Instant::now();
        file.read_exact_at(&mut buffer, offset as u64)?;
        spans.push(start.elapsed().as_secs_f64() * 1e6);
        *right &= buffer[LARGE - 1] == ((offset + LARGE - 1) / SMALL % 251) as u8;
    }
    Ok(())
}
