//! Warm calls on files in turns: through the C library, where a library in front of it may serve
//! them, and by the system call itself on copies beside them; and the same bytes copied in memory.
//!
//! Small calls are timed many at a time, so that the clock does not count.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use hearth_set::failure::{Failure, OrFail};

/// Bytes that are the same in a file: its number is in each of them.
pub(crate) const BLOCK: usize = 4 << 10;
const SMALL: usize = 64;
const LARGE: usize = 1 << 20;
/// Calls that are timed together.
const BURST: usize = 32;
/// Bursts of one turn.
const BURSTS: usize = 64;
/// Bursts of one turn of writes: many times what can wait anywhere, so that all that a write costs shows.
const WRITE_BURSTS: usize = 512;

/// Source of the bytes.
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

/// Use of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// 4 KiB at random places.
    Block,
    /// 64 bytes at random places.
    Small,
    /// 1 MiB, one after another.
    Large,
    /// Attributes of the file, by its path.
    Stat,
    /// Its attributes, by its descriptor.
    Fstat,
    /// 4 KiB written at random places.
    Write,
}

impl Case {
    const ALL: [Case; 6] = [
        Case::Block,
        Case::Small,
        Case::Large,
        Case::Stat,
        Case::Fstat,
        Case::Write,
    ];
}

/// Size of the file that is written, of the one that is read.
pub(crate) const WRITTEN_SHARE: usize = 4;

/// Findings of a process, as one line of JSON.
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

/// Uses the files `store`, `tmpfs` and `disk`, if that is there, of `dir` in so many turns.
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
        Source::Hooked(Files::open(&dir.join("store"))?),
        Source::Bare(System::Tmpfs, Files::open(&dir.join("tmpfs"))?),
        Source::Memory((0..bytes).map(|at| byte_of(at / BLOCK)).collect()),
    ];
    if let Ok(disk) = dir.join("disk").canonicalize() {
        sources.push(Source::Bare(System::Disk, Files::open(&disk)?));
    }
    let mut places = Places::new(seed as u64, bytes);
    let mut right = true;
    let mut spans = Vec::new();
    for source in &sources {
        // Brings all of it into memory.
        right &= large(source, bytes)?.1;
        for case in Case::ALL {
            spans.push((source.system(), case, Vec::new()));
        }
    }
    for _ in 0..turns {
        for (source, rows) in sources.iter().zip(spans.chunks_mut(Case::ALL.len())) {
            for (_, case, spans) in rows {
                let (found, good) = turn(source, *case, bytes, &mut places)?;
                spans.extend(found);
                right &= good;
            }
        }
    }
    Ok(Found { right, spans })
}

fn turn(
    source: &Source,
    case: Case,
    bytes: usize,
    places: &mut Places,
) -> io::Result<(Vec<f64>, bool)> {
    match case {
        Case::Block => bursts(source, BLOCK, places),
        Case::Small => bursts(source, SMALL, places),
        Case::Large => large(source, bytes),
        Case::Stat | Case::Fstat => stats(source, case, bytes),
        Case::Write => writes(source, places),
    }
}

/// Files of one system.
struct Files {
    read: File,
    written: File,
    path: PathBuf,
}

impl Files {
    fn open(dir: &Path) -> io::Result<Files> {
        let path = dir.join("file");
        let mut writing = OpenOptions::new();
        Ok(Files {
            read: File::open(&path)?,
            written: writing.read(true).write(true).open(dir.join("written"))?,
            path,
        })
    }
}

enum Source {
    Hooked(Files),
    Bare(System, Files),
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
            Source::Hooked(files) => files.read.read_at(into, offset as u64),
            Source::Bare(_, files) => Ok(rustix::io::pread(&files.read, into, offset as u64)?),
            Source::Memory(bytes) => {
                into.copy_from_slice(&bytes[offset..offset + into.len()]);
                Ok(into.len())
            }
        }
    }

    /// The size, by path or descriptor; both sides ask for the same.
    #[inline]
    fn size(&self, case: Case) -> io::Result<u64> {
        let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let bare = match (self, case) {
            (Source::Memory(bytes), _) => return Ok(bytes.len() as u64),
            (Source::Hooked(files), Case::Stat) => return Ok(files.path.metadata()?.len()),
            (Source::Hooked(files), _) => return Ok(files.read.metadata()?.len()),
            (Source::Bare(_, files), Case::Stat) => {
                statx(CWD, &files.path, AtFlags::empty(), mask)?
            }
            (Source::Bare(_, files), _) => statx(&files.read, c"", AtFlags::EMPTY_PATH, mask)?,
        };
        Ok(bare.stx_size)
    }

    #[inline]
    fn write(&self, from: &[u8], offset: usize) -> io::Result<usize> {
        match self {
            Source::Hooked(files) => files.written.write_at(from, offset as u64),
            Source::Bare(_, files) => Ok(rustix::io::pwrite(&files.written, from, offset as u64)?),
            Source::Memory(_) => Ok(from.len()),
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

/// The same for what the file is.
fn stats(source: &Source, case: Case, bytes: usize) -> io::Result<(Vec<f64>, bool)> {
    if source.system() == System::Memory {
        return Ok((Vec::new(), true));
    }
    let mut right = true;
    let mut spans = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        let started = Instant::now();
        for _ in 0..BURST {
            right &= black_box(source).size(case)? == bytes as u64;
        }
        spans.push(started.elapsed().as_secs_f64() * 1e9 / BURST as f64);
    }
    Ok((spans, right))
}

/// The same for writes, each of which leaves a block as it was.
fn writes(source: &Source, places: &mut Places) -> io::Result<(Vec<f64>, bool)> {
    if source.system() == System::Memory {
        return Ok((Vec::new(), true));
    }
    let mut right = true;
    let mut spans = Vec::with_capacity(WRITE_BURSTS);
    for _ in 0..WRITE_BURSTS {
        let offsets: [usize; BURST] =
            std::array::from_fn(|_| places.next(BLOCK) / WRITTEN_SHARE / BLOCK * BLOCK);
        let started = Instant::now();
        for &offset in &offsets {
            let block = [byte_of(offset / BLOCK); BLOCK];
            right &= source.write(black_box(&block), offset)? == BLOCK;
        }
        spans.push(started.elapsed().as_secs_f64() * 1e9 / BURST as f64);
    }
    if let Source::Hooked(files) = source {
        let mut block = [0; BLOCK];
        let offset = places.next(BLOCK) / WRITTEN_SHARE / BLOCK * BLOCK;
        files.written.read_exact_at(&mut block, offset as u64)?;
        right &= block.iter().all(|byte| *byte == byte_of(offset / BLOCK));
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
