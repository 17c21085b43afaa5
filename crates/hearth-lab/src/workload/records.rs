//! Records of one size, one after another, as IMCa's experiments on read and write latency have it:
//! written once, then read twice from the beginning.

use hearth_set::trial::{IoTimes, phase_over};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Records in a file.
pub(crate) const RECORDS: u64 = 1024;

/// Sharing of the files that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// There is one process.
    Single,
    /// Each process has its own.
    Own,
    /// The first process writes one, and all read it.
    Shared,
}

fn path(dir: &Path, record: usize, rank: usize, files: Files) -> PathBuf {
    match files {
        Files::Single => dir.join(format!("single-{record}")),
        Files::Own => dir.join(format!("own-{record}-{rank}")),
        Files::Shared => dir.join(format!("shared-{record}")),
    }
}

/// The byte that a record is full of.
fn value(number: u64) -> u8 {
    (number % 251) as u8
}

/// One process, with records of so many bytes.
pub(crate) fn run(
    dir: &Path,
    record: usize,
    rank: usize,
    files: Files,
) -> io::Result<(IoTimes, bool)> {
    let (mut times, mut right) = (IoTimes::default(), true);
    let path = path(dir, record, rank, files);
    phase_over()?;
    if files != Files::Shared || rank == 0 {
        let begun = Instant::now();
        let mut file = File::create(&path)?;
        for number in 0..RECORDS {
            file.write_all(&vec![value(number); record])?;
        }
        drop(file);
        times.add_write(begun.elapsed(), RECORDS * record as u64);
    }
    for _pass in 0..2 {
        phase_over()?;
        let begun = Instant::now();
        let mut file = File::open(&path)?;
        let mut bytes = vec![0; record];
        for number in 0..RECORDS {
            file.read_exact(&mut bytes)?;
            right &= bytes.iter().all(|&byte| byte == value(number));
        }
        times.add_read(begun.elapsed(), RECORDS * record as u64);
    }
    phase_over()?;
    Ok((times, right))
}
