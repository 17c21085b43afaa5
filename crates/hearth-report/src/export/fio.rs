//! The replay log of fio, version 3: what programs read, wrote and synced, in one order of time.
//!
//! fio replays it as one process. Names are relative, so that fio touches the files below its own
//! directory and never the ones that were traced. fio takes the time 0 for "no time yet" and forgets
//! the wait after it, so times begin with 1.

use std::io::{self, Write};
use std::path::Path;

use hearth_trace::{Event, Layer, Op, Source, StreamId, Tables, TracedFileId};

use super::sorter::{SortItem, Sorter};
use super::{ExportError, Exported, each_event};

/// fio cuts longer names.
const NAME_BYTES_MAX: usize = 255;

/// Writes what fio can repeat. `dir` is for a temporary file.
pub fn fio<S: Source>(
    mut source: S,
    out: &mut impl Write,
    dir: &Path,
) -> Result<Exported, ExportError<S::Error>> {
    let mut exported = Exported::of(source.tables());
    let names = names(source.tables());
    let mut sorter = Sorter::new(dir)?;
    each_event(&mut source, |stream, event| {
        match Step::of(stream, event, &names) {
            Some(step) => {
                exported.kept += 1;
                sorter.push(step)
            }
            None => {
                exported.left_out += 1;
                Ok(())
            }
        }
    })?;
    writeln!(out, "fio version 3 iolog")?;
    let mut log = Log::new(out, &names);
    sorter.sorted(|step| log.put(step))?;
    log.close_all()?;
    out.flush()?;
    exported.remarks = remarks(&names, &exported);
    Ok(exported)
}

fn remarks(names: &[Option<String>], exported: &Exported) -> Vec<String> {
    let mut remarks = Vec::new();
    let unnamed = names.iter().filter(|name| name.is_none()).count();
    if unnamed > 0 {
        remarks.push(format!(
            "fio cannot name {unnamed} files (blanks, or more than {NAME_BYTES_MAX} bytes): \
             what was done with them is left out"
        ));
    }
    if exported.left_out > 0 {
        remarks.push(
            "a log of fio holds opens, closes, reads, writes and syncs that succeeded, no more"
                .to_owned(),
        );
    }
    remarks
}

/// How fio is to call each file, if it can.
fn names(tables: &Tables) -> Vec<Option<String>> {
    let relative = |path: &str| {
        let name = path.trim_start_matches('/');
        let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
        let plain = !name.contains(|c: char| c.is_whitespace() || c.is_control());
        let stays = !name.split('/').any(|part| part == "..");
        (fits && plain && stays).then(|| name.to_owned())
    };
    let files = tables.files.iter().map(|file| relative(&file.path));
    files.collect()
}

/// The actions that fio knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Act {
    Open,
    Read,
    Write,
    Sync,
    Datasync,
    Close,
}

impl Act {
    const ALL: [Act; 6] = [
        Act::Open,
        Act::Read,
        Act::Write,
        Act::Sync,
        Act::Datasync,
        Act::Close,
    ];

    fn of(event: &Event) -> Option<Act> {
        if event.layer != Layer::App || event.failed() || event.result < 0 {
            return None;
        }
        match event.op {
            Op::Open => Some(Act::Open),
            Op::Close => Some(Act::Close),
            Op::Fsync => Some(Act::Sync),
            Op::Fdatasync => Some(Act::Datasync),
            op if op.is_read() && event.result > 0 => Some(Act::Read),
            op if op.is_write() && event.result > 0 => Some(Act::Write),
            _ => None,
        }
    }
}

/// One line to be. Ordered by time, and within a thread by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    start: i64,
    stream: u32,
    seq: u64,
    file: u32,
    offset: u64,
    length: u64,
    act: Act,
}

impl Step {
    fn of(stream: StreamId, event: &Event, names: &[Option<String>]) -> Option<Step> {
        let act = Act::of(event)?;
        let TracedFileId(file) = event.file?;
        names[file as usize].as_ref()?;
        Some(Step {
            start: event.start,
            stream: stream.0,
            seq: event.seq,
            file,
            offset: event.offset,
            length: event.bytes(),
            act,
        })
    }
}

impl SortItem for Step {
    const SIZE: usize = 41;

    fn put(&self, to: &mut Vec<u8>) {
        to.extend(self.start.to_le_bytes());
        to.extend(self.stream.to_le_bytes());
        to.extend(self.seq.to_le_bytes());
        to.extend(self.file.to_le_bytes());
        to.extend(self.offset.to_le_bytes());
        to.extend(self.length.to_le_bytes());
        to.push(self.act as u8);
    }

    fn take(from: &[u8]) -> Step {
        let four = |at: usize| from[at..at + 4].try_into().expect("four bytes");
        let eight = |at: usize| from[at..at + 8].try_into().expect("eight bytes");
        Step {
            start: i64::from_le_bytes(eight(0)),
            stream: u32::from_le_bytes(four(8)),
            seq: u64::from_le_bytes(eight(12)),
            file: u32::from_le_bytes(four(20)),
            offset: u64::from_le_bytes(eight(24)),
            length: u64::from_le_bytes(eight(32)),
            act: Act::ALL[usize::from(from[40])],
        }
    }
}

/// The lines about a file that fio has been given.
#[derive(Clone, Copy, Default)]
struct Told {
    added: bool,
    opens: u32,
}

/// The lines, written in order.
struct Log<'a, W> {
    out: &'a mut W,
    names: &'a [Option<String>],
    told: Vec<Told>,
    first: Option<i64>,
    time: u64,
}

impl<'a, W: Write> Log<'a, W> {
    fn new(out: &'a mut W, names: &'a [Option<String>]) -> Log<'a, W> {
        Log {
            out,
            names,
            told: vec![Told::default(); names.len()],
            first: None,
            time: 1,
        }
    }

    fn put(&mut self, step: Step) -> io::Result<()> {
        let first = *self.first.get_or_insert(step.start);
        self.time = step.start.abs_diff(first) / 1000 + 1;
        let file = step.file as usize;
        if step.act == Act::Close {
            return self.close(file);
        }
        self.open(file, step.act)?;
        let word = match step.act {
            Act::Read => "read",
            Act::Write => "write",
            Act::Sync => "sync",
            Act::Datasync => "datasync",
            Act::Open | Act::Close => return Ok(()),
        };
        let Step { offset, length, .. } = step;
        self.line(file, format_args!("{word} {offset} {length}"))
    }

    /// Has fio open a file that it does not hold open. A file that was open before the trace began
    /// is opened by its first use.
    fn open(&mut self, file: usize, act: Act) -> io::Result<()> {
        if !self.told[file].added {
            self.told[file].added = true;
            self.line(file, format_args!("add"))?;
        }
        if self.told[file].opens == 0 {
            self.line(file, format_args!("open"))?;
            self.told[file].opens = 1;
        } else if act == Act::Open {
            self.told[file].opens += 1;
        }
        Ok(())
    }

    fn close(&mut self, file: usize) -> io::Result<()> {
        match self.told[file].opens {
            0 => return Ok(()),
            1 => self.line(file, format_args!("close"))?,
            _ => {}
        }
        self.told[file].opens -= 1;
        Ok(())
    }

    fn close_all(&mut self) -> io::Result<()> {
        for file in 0..self.told.len() {
            if self.told[file].opens > 0 {
                self.line(file, format_args!("close"))?;
            }
        }
        Ok(())
    }

    fn line(&mut self, file: usize, what: std::fmt::Arguments<'_>) -> io::Result<()> {
        let name = self.names[file].as_deref().unwrap_or_default();
        writeln!(self.out, "{} {name} {what}", self.time)
    }
}
