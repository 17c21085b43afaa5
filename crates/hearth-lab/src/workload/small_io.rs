//! Small interleaved writes into one shared file, then the whole read back: the access pattern of
//! BTIO's simple mode (Coopc-PVFS, section 5.2), whose runs are 240 bytes at class S on 4 processes.
//!
//! All processes write before any closes, and all have closed before any reads: the benchmark lets
//! them go from one phase to the next by a line on standard input.

use hearth_set::trial::{IoTimes, phase_over};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Bytes of one write.
pub(crate) const RECORD_BYTES: usize = 240;

/// Byte at a place of the file that `of` processes write together.
fn byte_at(offset: u64, of: usize) -> u8 {
    let record = offset / RECORD_BYTES as u64;
    let rank = record % of as u64;
    (record.wrapping_mul(31) + rank * 7 + offset % 13) as u8
}

/// One process: writes every `of`-th record of `records`, then reads all and checks.
pub(crate) fn run(
    path: &Path,
    records: u64,
    rank: usize,
    of: usize,
) -> io::Result<(IoTimes, bool)> {
    let mut times = IoTimes::default();
    let start = Instant::now();
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    times.add_write(start.elapsed(), 0);
    phase_over()?;
    for record in (rank as u64..records).step_by(of) {
        let offset = record * RECORD_BYTES as u64;
        let bytes: Vec<u8> = (offset..offset + RECORD_BYTES as u64)
            .map(|at| byte_at(at, of))
            .collect();
        let start = Instant::now();
        file.write_all_at(&bytes, offset)?;
        times.add_write(start.elapsed(), RECORD_BYTES as u64);
    }
    phase_over()?;
    let start = Instant::now();
    drop(file);
    times.add_write(start.elapsed(), 0);
    phase_over()?;
    let right = read_back(path, records, of, &mut times)?;
    Ok((times, right))
}

fn read_back(path: &Path, records: u64, of: usize, times: &mut IoTimes) -> io::Result<bool> {
    let start = Instant::now();
    let file = File::open(path)?;
    times.add_read(start.elapsed(), 0);
    let mut right = file.metadata()?.len() == records * RECORD_BYTES as u64;
    let mut bytes = [0; RECORD_BYTES];
    for record in 0..records {
        let offset = record * RECORD_BYTES as u64;
        let start = Instant::now();
        file.read_exact_at(&mut bytes, offset)?;
        times.add_read(start.elapsed(), RECORD_BYTES as u64);
        right &= (offset..)
            .zip(bytes)
            .all(|(at, byte)| byte == byte_at(at, of));
    }
    Ok(right)
}
