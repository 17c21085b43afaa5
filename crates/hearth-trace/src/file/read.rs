//! Reads traces: one pass over what is known beside the records, then the records themselves.
//!
//! 1. Whatever the files hold, reading gives what can be recovered and says what is missing; it
//!    fails only where the operating system does, or where there is no trace at all.
//! 2. Threads decode ahead of the one that reads; at most [`AHEAD`] blocks each.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::assemble::{Meaning, Placed, Trace, assemble};
use super::scan::{Costs, Scan};
use super::tighten::tighten;
use crate::codec::{self, BLOCK_RECORDS_MAX};
use crate::merge::Line;
use crate::{Event, Layer, Op, Record, Source, StreamId, Tables, TracedFileId};

/// Blocks that one thread decodes before they are wanted.
const AHEAD: usize = 2;
/// Threads that decode.
const DECODERS_MAX: usize = 4;
/// The extension of trace files; of a directory, the files with it are read.
pub const EXTENSION: &str = "htrace";

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system does not let us.
    #[error("cannot read `{path}`")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// There is nothing of a trace in it.
    #[error("`{0}` is not a trace: no part of it is what `hearth trace` writes")]
    Foreign(PathBuf),
    /// There is no file to read.
    #[error("no trace file (`*.{EXTENSION}`) is in `{0}`")]
    Empty(PathBuf),
}

/// A trace in one or several files, on one clock.
pub struct Reader {
    files: Vec<(PathBuf, fs::File)>,
    trace: Trace,
    bytes: u64,
    costs: Vec<Costs>,
}

impl Reader {
    /// Reads what is known beside the records. A directory stands for the trace files in it.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Reader, ReadError> {
        let mut scan = Scan::default();
        let mut files = Vec::new();
        for path in expand(paths)? {
            let failed = |source| ReadError::Io {
                path: path.clone(),
                source,
            };
            let file = fs::File::open(&path).map_err(failed)?;
            let before = scan.frames;
            scan.file(files.len(), &file).map_err(failed)?;
            if scan.frames == before {
                return Err(ReadError::Foreign(path));
            }
            files.push((path, file));
        }
        let names: Vec<String> = files
            .iter()
            .map(|(path, _)| path.display().to_string())
            .collect();
        let (bytes, costs) = (scan.bytes, scan.costs());
        let mut trace = assemble(scan, &names);
        tighten(&mut trace, &mut |block| {
            let mut bytes = vec![0; block.len];
            let file = &files[block.file].1;
            file.read_exact_at(&mut bytes, block.at).ok()?;
            Some(bytes)
        });
        Ok(Reader {
            files,
            trace,
            bytes,
            costs,
        })
    }

    /// Sentences about what the files do not have and should.
    pub fn missing(&self) -> &[String] {
        &self.trace.missing
    }

    /// Bytes of the files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The costs of the log clients that wrote the trace, as far as they said.
    pub fn costs(&self) -> &[Costs] {
        &self.costs
    }

    fn decode_ahead(
        &self,
        (first, step): (usize, usize),
        done: &SyncSender<io::Result<Vec<Event>>>,
        spare: &Receiver<Vec<Event>>,
    ) {
        let mut bytes = Vec::new();
        for block in self.trace.blocks.iter().skip(first).step_by(step) {
            let mut events = spare.try_recv().unwrap_or_default();
            let decoded = self.decode(block, &mut bytes, &mut events);
            if done.send(decoded.map(|()| events)).is_err() {
                return;
            }
        }
    }

    fn decode(
        &self,
        block: &Placed,
        bytes: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        bytes.resize(block.len, 0);
        self.files[block.file].1.read_exact_at(bytes, block.at)?;
        events.clear();
        events.reserve(block.count.min(BLOCK_RECORDS_MAX));
        let mut translate = Translate::new(&self.trace.meanings[block.meaning]);
        // The checksum was right, so a block that does not decode was written wrong: what it gave is
        // as good as the writer.
        let _ = codec::decode(bytes, block.count, |record| {
            events.extend(translate.event(&record));
        });
        Ok(())
    }
}

impl Source for Reader {
    type Error = ReadError;

    fn tables(&self) -> &Tables {
        &self.trace.tables
    }

    fn events_expected(&self) -> u64 {
        self.trace.events
    }

    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), ReadError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let decoders = cores.min(DECODERS_MAX).min(self.trace.blocks.len().max(1));
        let reader = &*self;
        thread::scope(|scope| {
            let lanes: Vec<_> = (0..decoders)
                .map(|first| {
                    let (done, ready) = sync_channel(AHEAD);
                    let (give_back, spare) = sync_channel(AHEAD + 1);
                    scope.spawn(move || reader.decode_ahead((first, decoders), &done, &spare));
                    (ready, give_back)
                })
                .collect();
            for (block, (ready, give_back)) in reader.trace.blocks.iter().zip(lanes.iter().cycle())
            {
                let events = ready
                    .recv()
                    .expect("a decoder sends one answer for each block");
                let events = events.map_err(|source| ReadError::Io {
                    path: reader.files[block.file].0.clone(),
                    source,
                })?;
                if !events.is_empty() {
                    take(block.stream, &events);
                }
                // Full is as good: the decoder then makes a new one.
                let _ = give_back.try_send(events);
            }
            Ok(())
        })
    }
}

/// Files, and the trace files of directories.
fn expand<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    for path in paths {
        let path = path.as_ref();
        if !path.is_dir() {
            files.push(path.to_owned());
            continue;
        }
        let failed = |source| ReadError::Io {
            path: path.to_owned(),
            source,
        };
        let before = files.len();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?.path();
            if entry.extension().is_some_and(|ext| ext == EXTENSION) {
                files.push(entry);
            }
        }
        if files.len() == before {
            return Err(ReadError::Empty(path.to_owned()));
        }
        files[before..].sort();
    }
    Ok(files)
}

/// Records of one process become events.
struct Translate<'a> {
    meaning: &'a Meaning,
    line: Line,
    /// The last file and its number in the records.
    file: (u32, Option<TracedFileId>),
}

impl<'a> Translate<'a> {
    fn new(meaning: &'a Meaning) -> Translate<'a> {
        Translate {
            meaning,
            line: meaning.timeline.line(0),
            file: (0, None),
        }
    }

    /// The event; `None` if the record is of an operation or a layer that there is not.
    #[inline]
    fn event(&mut self, record: &Record) -> Option<Event> {
        if !self.line.holds(record.start) {
            self.line = self.meaning.timeline.line(record.start);
        }
        if record.file != self.file.0 {
            self.file = (record.file, self.meaning.files.get(&record.file).copied());
        }
        let layer = Layer::from_code(record.layer)?;
        Some(Event {
            start: self.line.at(record.start),
            took: self.line.span(record.ticks()),
            op: Op::from_code(record.op)?,
            layer,
            flags: record.flags,
            offset: record.offset,
            asked: record.asked_bytes(),
            result: record.outcome(),
            file: self.file.1,
            request: record.request,
            near: u64::from(record.near),
            peer: record.peer,
            depth: record.depth,
            caller: match layer {
                Layer::Cache => record.thread,
                _ => 0,
            },
            seq: super::block::attempt(record),
        })
    }
}
