//! Darshan's log, version 3.41: counters of each file and rank (POSIX and stdio), and every read and
//! write (extended tracing).
//!
//! Ranks are those of the job's launcher; a process that has none gets the next free number. The
//! log's partial flags are set when the trace lacks anything, since totals would be too small.

mod container;
mod posix;
mod segments;
mod stdio;
mod times;

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hearth_trace::{Event, Flags, Layer, Source, StreamId, Tables, TracedFileId};

use super::window::beginning;
use super::{ExportError, Exported, each_event};
use container::{Container, Module, Region};
use posix::Posix;
use segments::{Head, Segments};
use stdio::Stdio;

/// Bytes of the job's metadata in the log.
const METADATA_BYTES: usize = 1024;

/// A block of the file system, where the trace does not know of stripes.
const ALIGNMENT_DEFAULT: u64 = 4096;

/// Writes what programs did. `dir` is for temporary files.
pub fn darshan<S: Source>(
    mut source: S,
    out: &mut impl Write,
    dir: &Path,
) -> Result<Exported, ExportError<S::Error>> {
    let mut exported = Exported::of(source.tables());
    let mut book = Book::new(source.tables(), dir)?;
    each_event(&mut source, |stream, event| {
        if book.count(stream, event)? {
            exported.kept += 1;
        } else {
            exported.left_out += 1;
        }
        Ok(())
    })?;
    let partial = exported.lost > 0 || !source.tables().gaps.is_empty();
    book.container(source.tables(), partial, dir)?.write(out)?;
    out.flush()?;
    if partial {
        let lost = exported.lost;
        exported.remarks.push(format!(
            "{lost} records are missing from the trace; the log's partial flags say so"
        ));
    }
    Ok(exported)
}

/// The counters of a file and rank.
struct Entry {
    file: u32,
    rank: u32,
    posix: Option<Box<Posix>>,
    stdio: Option<Box<Stdio>>,
    head: Head,
}

/// All counters.
struct Book {
    begin: i64,
    ranks: Vec<u32>,
    hosts: Vec<String>,
    ids: Vec<u64>,
    alignments: Vec<u64>,
    entries: Vec<Entry>,
    /// By identity of the file, and rank.
    places: HashMap<(u64, u32), u32>,
    segments: Segments,
}

impl Book {
    fn new(tables: &Tables, dir: &Path) -> io::Result<Book> {
        let ranks = ranks(tables);
        let streams = tables.streams.iter();
        let processes: Vec<usize> = streams.map(|stream| stream.process.0 as usize).collect();
        let host = |process: &usize| {
            let id = tables.processes[*process].host;
            tables.hosts[id.0 as usize].name.clone()
        };
        let alignment = |file: &hearth_trace::TracedFile| match file.stripe {
            Some((_, bytes)) if bytes > 0 => bytes,
            _ => ALIGNMENT_DEFAULT,
        };
        Ok(Book {
            begin: beginning(tables),
            hosts: processes.iter().map(host).collect(),
            ranks: processes.iter().map(|&process| ranks[process]).collect(),
            ids: tables
                .files
                .iter()
                .map(|file| identity(&file.path))
                .collect(),
            alignments: tables.files.iter().map(alignment).collect(),
            entries: Vec::new(),
            places: HashMap::new(),
            segments: Segments::new(dir)?,
        })
    }

    /// Returns whether the event has a place in the log.
    fn count(&mut self, stream: StreamId, event: &Event) -> io::Result<bool> {
        let Some(file) = event.file else {
            return Ok(false);
        };
        if event.layer != Layer::App || event.failed() || event.result < 0 {
            return Ok(false);
        }
        let begin = self.begin;
        let alignment = self.alignments[file.0 as usize];
        let number = self.place(stream, file);
        let entry = &mut self.entries[number as usize];
        if event.flags.has(Flags::BUFFERED) {
            return Ok(entry.stdio.get_or_insert_default().count(event, begin));
        }
        let posix = (entry.posix).get_or_insert_with(|| Box::new(Posix::new(alignment)));
        if !posix.count(stream, event, begin) {
            return Ok(false);
        }
        if event.op.is_read() || event.op.is_write() {
            entry.head.reads += u64::from(event.op.is_read());
            entry.head.writes += u64::from(event.op.is_write());
            self.segments.push(number, event)?;
        }
        Ok(true)
    }

    fn place(&mut self, stream: StreamId, file: TracedFileId) -> u32 {
        let id = self.ids[file.0 as usize];
        let rank = self.ranks[stream.0 as usize];
        *self.places.entry((id, rank)).or_insert_with(|| {
            self.entries.push(Entry {
                file: file.0,
                rank,
                posix: None,
                stdio: None,
                head: Head {
                    id,
                    rank: i64::from(rank),
                    host: self.hosts[stream.0 as usize].clone(),
                    writes: 0,
                    reads: 0,
                },
            });
            self.entries.len() as u32 - 1
        })
    }

    fn container(self, tables: &Tables, partial: bool, dir: &Path) -> io::Result<Container> {
        let mut job = Region::new(dir)?;
        put_job(tables, &self.ranks, &mut job)?;
        let mut names = Region::new(dir)?;
        let (mut posix, mut stdio) = (Region::new(dir)?, Region::new(dir)?);
        let (mut any_posix, mut any_stdio) = (false, false);
        let mut named = std::collections::HashSet::new();
        for entry in &self.entries {
            let (id, rank) = (entry.head.id, i64::from(entry.rank));
            if named.insert(id) {
                names.write_all(&id.to_le_bytes())?;
                names.write_all(tables.files[entry.file as usize].path.as_bytes())?;
                names.write_all(&[0])?;
            }
            if let Some(record) = &entry.posix {
                record.put(id, rank, &mut posix)?;
                any_posix = true;
            }
            if let Some(record) = &entry.stdio {
                record.put(id, rank, &mut stdio)?;
                any_stdio = true;
            }
        }
        let heads: Vec<Head> = self.entries.into_iter().map(|entry| entry.head).collect();
        let any_segments = heads.iter().any(|head| head.reads + head.writes > 0);
        let mut dxt = Region::new(dir)?;
        self.segments.put(&heads, self.begin, &mut dxt)?;
        let modules = [
            (any_posix, Module::Posix, posix),
            (any_stdio, Module::Stdio, stdio),
            (any_segments, Module::DxtPosix, dxt),
        ];
        let modules = modules.into_iter().filter(|(any, ..)| *any);
        Ok(Container {
            job,
            names,
            modules: modules
                .map(|(_, module, region)| (module, region))
                .collect(),
            partial,
        })
    }
}

/// The rank of each process.
fn ranks(tables: &Tables) -> Vec<u32> {
    let known = tables.processes.iter().filter_map(|process| process.rank);
    let mut next = known.max().map_or(0, |rank| rank + 1);
    let rank = |process: &hearth_trace::TracedProcess| {
        process.rank.unwrap_or_else(|| {
            next += 1;
            next - 1
        })
    };
    tables.processes.iter().map(rank).collect()
}

/// Darshan's name for a file: a hash of its path (FNV-1a).
fn identity(path: &str) -> u64 {
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The job, its command, and where its file systems are.
fn put_job(tables: &Tables, ranks: &[u32], out: &mut impl Write) -> io::Result<()> {
    let begin = beginning(tables);
    let ends = tables.processes.iter().map(|process| process.end);
    let end = ends.max().unwrap_or(begin);
    let uid = std::fs::metadata("/proc/self").map_or(0, |own| own.uid());
    let count = ranks.iter().max().map_or(1, |&rank| i64::from(rank) + 1);
    let jobid = tables.processes.first().map_or(0, |process| process.pid);
    let (second, rest) = (
        |time: i64| time.div_euclid(1_000_000_000),
        |time: i64| time.rem_euclid(1_000_000_000),
    );
    let numbers = [
        i64::from(uid),
        second(begin),
        rest(begin),
        second(end),
        rest(end),
        count,
        i64::from(jobid),
    ];
    for number in numbers {
        out.write_all(&number.to_le_bytes())?;
    }
    let mut metadata = [0; METADATA_BYTES];
    let text = format!(
        "lib_ver=hearth-{}\nlost_records={}\n",
        env!("CARGO_PKG_VERSION"),
        super::lost_records(tables)
    );
    metadata[..text.len()].copy_from_slice(text.as_bytes());
    out.write_all(&metadata)?;
    let exe = tables
        .processes
        .first()
        .map_or("unknown", |process| &process.exe);
    out.write_all(exe.replace('\n', " ").as_bytes())?;
    for (kind, directory) in mounts(tables) {
        write!(out, "\n{kind}\t{directory}")?;
    }
    out.write_all(&[0])
}

/// A trace knows of what type a file system is, not where it is mounted: at the deepest directory that
/// holds all its files, for all that can be known.
fn mounts(tables: &Tables) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    let files = tables.files.iter().filter(|file| !file.fs.is_empty());
    for file in files {
        let directory = file.path.rsplit_once('/').map_or("/", |(above, _)| above);
        match found.iter_mut().find(|(kind, _)| *kind == file.fs) {
            Some((_, common)) => *common = common_directory(common, directory),
            None => found.push((&file.fs, directory.to_owned())),
        }
    }
    for (_, directory) in &mut found {
        if directory.is_empty() {
            directory.push('/');
        }
    }
    found
}

fn common_directory(a: &str, b: &str) -> String {
    let parts = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b);
    let parts: Vec<&str> = parts.map(|(part, _)| part).collect();
    parts.join("/")
}

/// A record: identity, rank, counters, times.
fn put_record(
    out: &mut impl Write,
    id: u64,
    rank: i64,
    counters: &[i64],
    times: &[f64],
) -> io::Result<()> {
    let mut record = Vec::with_capacity(16 + 8 * (counters.len() + times.len()));
    record.extend(id.to_le_bytes());
    record.extend(rank.to_le_bytes());
    record.extend(counters.iter().flat_map(|counter| counter.to_le_bytes()));
    record.extend(times.iter().flat_map(|time| time.to_le_bytes()));
    out.write_all(&record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_directory_is_cut_at_a_name() {
        assert_eq!(common_directory("/a/bc", "/a/bd"), "/a");
        assert_eq!(common_directory("/a", "/b"), "");
    }
}
