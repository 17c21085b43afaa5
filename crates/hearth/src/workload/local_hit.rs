//! Warm reads of one file in turns: through the C library, where a library in front of it may serve
//! them, and by the system call itself of copies beside it; and the same bytes copied in memory.
//!
//! Small calls are timed many at a time, so that the clock does not count.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, OrFail};

/// Bytes that are the same in a file: its number is in each of them.
pub(crate) const BLOCK: usize = 4 << 10;
const SMALL: usize = 64;
const LARGE: usize = 1 << 20;
/// Calls that are timed together.
const BURST: usize = 32;
/// Bursts of one turn.
const BURSTS: usize = 64;

/// Where bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum System {
    /// A file of the store, as any program reads it.
    Cached,
    /// A copy on tmpfs.
    Tmpfs,
    /// A copy on a disk, in the operating system's page cache.
    Disk,
    /// A copy in this process.
    Memory,
}

/// What is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// 4 KiB at random places.
    Block,
    /// 64 bytes at random places.
    Small,
    /// 1 MiB, one after another.
    Large,
}

/// What a process found, as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Every byte that was looked at was as it should be.
    pub(crate) right: bool,
    /// Nanoseconds of a call, for each time that some were timed together.
    pub(crate) spans: Vec<(System, Case, Vec<f64>)>,
}

/// The byte that a block is full of.
pub(crate) fn byte_of(block: usize) -> u8 {
    (block % 251) as u8
}

/// Reads `dir/store/file`, `dir/tmpfs` and `dir/disk`, if that is there, in so many turns.
pub(crate) fn run(
    dir: &Path,
    bytes: usize,
    seed: usize,
    turns: usize,
) -> Result<ExitCode, Failure> {
    let what = || format!("cannot read in `{}`", dir.display());
    let found = measure(dir, bytes, seed, turns).or_fail(what)?;
    let line = serde_json::to_string(&found).or_fail(what)?;
    writeln!(io::stdout().lock(), "{line}").or_fail(what)?;
    Ok(ExitCode::SUCCESS)
}

fn measure(dir: &Path, bytes: usize, seed: usize, turns: usize) -> io::Result<Found> {
    let mut sources = vec![
        Source::Hooked(File::open(dir.join("store/file"))?),
        Source::Bare(System::Tmpfs, File::open(dir.join("tmpfs"))?),
        Source::Memory((0..bytes).map(|at| byte_of(at / BLOCK)).collect()),
    ];
    if let Ok(disk) = File::open(dir.join("disk")) {
        sources.push(Source::Bare(System::Disk, disk));
    }
    let mut places = Places::new(seed as u64, bytes);
    let mut right = true;
    let mut spans = Vec::new();
    for source in &sources {
        // Brings all of it into memory.
        right &= large(source, bytes)?.1;
        for case in [Case::Block, Case::Small, Case::Large] {
            spans.push((source.system(), case, Vec::new()));
        }
    }
    for _ in 0..turns {
        for (source, figures) in sources.iter().zip(spans.chunks_mut(3)) {
            for (len, row) in [(BLOCK, 0), (SMALL, 1)] {
                let (found, good) = bursts(source, len, &mut places)?;
                figures[row].2.extend(found);
                right &= good;
            }
            let (found, good) = large(source, bytes)?;
            figures[2].2.extend(found);
            right &= good;
        }
    }
    Ok(Found { right, spans })
}

enum Source {
    Hooked(File),
    Bare(System, File),
    Memory(Vec<u8>),
}

impl Source {
    fn system(&self) -> System {
        match self {
            Source::Hooked(_) => System::Cached,
            Source::Bare(system, _) => *system,
            Source::Memory(_) => System::Memory,
        }
    }

    #[inline]
    fn read(&self, into: &mut [u8], offset: usize) -> io::Result<usize> {
        match self {
            Source::Hooked(file) => file.read_at(into, offset as u64),
            Source::Bare(_, file) => Ok(rustix::io::pread(file, into, offset as u64)?),
            Source::Memory(bytes) => {
                into.copy_from_slice(&bytes[offset..offset + into.len()]);
                Ok(into.len())
            }
        }
    }
}

/// Nanoseconds of a call, burst by burst, and whether the bytes were right.
fn bursts(source: &Source, len: usize, places: &mut Places) -> io::Result<(Vec<f64>, bool)> {
    let mut buffer = vec![0; len];
    let mut right = true;
    let mut spans = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        let offsets: [usize; BURST] = std::array::from_fn(|_| places.next(len));
        let started = Instant::now();
        for &offset in &offsets {
            let done = source.read(black_box(&mut buffer), offset)?;
            right &= done == len && black_box(&buffer)[0] == byte_of(offset / BLOCK);
        }
        spans.push(started.elapsed().as_secs_f64() * 1e9 / BURST as f64);
        let last = byte_of(offsets[BURST - 1] / BLOCK);
        right &= buffer.iter().all(|byte| *byte == last);
    }
    Ok((spans, right))
}

/// The same for the whole file, from its beginning to its end.
fn large(source: &Source, bytes: usize) -> io::Result<(Vec<f64>, bool)> {
    let mut buffer = vec![0; LARGE];
    let mut right = true;
    let mut spans = Vec::new();
    for offset in (0..bytes).step_by(LARGE) {
        let started = Instant::now();
        let done = source.read(black_box(&mut buffer), offset)?;
        spans.push(started.elapsed().as_secs_f64() * 1e9);
        let checked = || (0..LARGE).step_by(BLOCK);
        right &= done == LARGE
            && checked().all(|at| buffer[at] == byte_of((offset + at) / BLOCK))
            && buffer[LARGE - 1] == byte_of((offset + LARGE - 1) / BLOCK);
    }
    Ok((spans, right))
}

/// Random places in a file, each within one block.
struct Places {
    state: u64,
    blocks: usize,
}

impl Places {
    fn new(seed: u64, bytes: usize) -> Places {
        Places {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            blocks: bytes / BLOCK,
        }
    }

    fn next(&mut self, len: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let within = (self.state >> 40) as usize % (BLOCK / len) * len;
        self.state as usize % self.blocks * BLOCK + within
    }
}
