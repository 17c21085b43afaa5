//! Calls of programs: as each program logs them, and as a whole history with times of one clock.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Nanoseconds of the host's monotonic clock, which all programs share.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Slots of a page of a register file.
pub(crate) const SLOTS: u64 = 4;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 512;
/// Bytes of a record of a log.
pub(crate) const RECORD_BYTES: u64 = 64;

/// A value that one write alone ever wrote: the program's number, and the write's.
pub(crate) fn value_of(worker: u64, count: u64) -> u64 {
    (worker + 1) << 32 | count
}

/// A value in words.
pub(crate) fn name_of(value: u64) -> String {
    match value {
        0 => "0".into(),
        value if value >> 32 == 0 || value >> 32 > 1000 => format!("{value:#x}"),
        value => format!("w{}.{}", (value >> 32) - 1, value as u32),
    }
}

/// The descriptor that a call went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum By {
    Reader,
    Writer,
    Map,
}

/// A call of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Op {
    /// Opens a file.
    Open { file: String, by: By },
    /// Closes a descriptor.
    Close { file: String, by: By },
    /// Brings a file to the store.
    Sync { file: String, by: By },
    /// Writes slots of a register file.
    Write {
        file: String,
        slot: u64,
        count: u64,
        value: u64,
        by: By,
    },
    /// Reads slots of a register file.
    Read {
        file: String,
        slot: u64,
        count: u64,
        by: By,
    },
    /// Gives a file that many slots.
    Truncate { file: String, slots: u64 },
    /// Asks how long a file is.
    Size { file: String },
    /// Appends a record to a log.
    Append { file: String, value: u64 },
    /// Reads records of a log from a place on.
    Records { file: String, from: u64 },
    /// Makes the file that `Publish` renames.
    Prepare {
        file: String,
        value: u64,
        words: u64,
        synced: bool,
    },
    /// Renames a whole version over a name.
    Publish {
        file: String,
        value: u64,
        words: u64,
        synced: bool,
    },
    /// Opens a name and reads its version.
    Fetch { file: String },
    /// Makes a file that must not be there.
    Create { file: String },
    /// Removes a name.
    Remove { file: String },
    /// Gives a file a second name.
    Link { from: String, file: String },
    /// Renames one name to another.
    Move { from: String, file: String },
    /// Looks whether a name is there.
    Look { file: String },
    /// Reads a directory.
    List { dir: String },
    /// Adds one to a counter under its lock.
    Add { file: String, synced: bool },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Out {
    /// It did not return.
    Pending,
    /// It returned without an error.
    Done,
    /// The value of each slot; `None` beyond the end of the file.
    Values(Vec<Option<u64>>),
    /// Bytes of one slot, record or version that no write wrote as a whole.
    Mixed(String),
    /// There is no such name.
    Absent,
    /// The name is there.
    Present,
    /// A count: slots of a file, or what a counter had before.
    Count(u64),
    /// Records, and whether the end of the file came behind them.
    Records(Vec<u64>, End),
    /// A version of a name and its words.
    Version { value: u64, words: u64 },
    /// Names of a directory.
    Names(Vec<String>),
    /// It failed with that error.
    Failed(i32),
}

/// Whether a read came to the end of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Reached,
    NotReached,
}

/// A call with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) worker: usize,
    pub(crate) node: usize,
    pub(crate) begun: u64,
    /// `None`: it never returned.
    pub(crate) ended: Option<u64>,
    pub(crate) op: Op,
    pub(crate) out: Out,
}

impl Call {
    /// Whether it returned without an error.
    pub(crate) fn is_good(&self) -> bool {
        !matches!(self.out, Out::Pending | Out::Failed(_))
    }

    /// The time at which it had returned, or the end of all time.
    pub(crate) fn end(&self) -> u64 {
        self.ended.unwrap_or(u64::MAX)
    }

    /// The file or name that it is about.
    pub(crate) fn file(&self) -> &str {
        match &self.op {
            Op::Open { file, .. }
            | Op::Close { file, .. }
            | Op::Sync { file, .. }
            | Op::Write { file, .. }
            | Op::Read { file, .. }
            | Op::Truncate { file, .. }
            | Op::Size { file }
            | Op::Append { file, .. }
            | Op::Records { file, .. }
            | Op::Prepare { file, .. }
            | Op::Publish { file, .. }
            | Op::Fetch { file }
            | Op::Create { file }
            | Op::Remove { file }
            | Op::Link { file, .. }
            | Op::Move { file, .. }
            | Op::Look { file }
            | Op::List { dir: file }
            | Op::Add { file, .. } => file,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Open { file, by } => write!(f, "open {file} ({by:?})"),
            Op::Close { file, by } => write!(f, "close {file} ({by:?})"),
            Op::Sync { file, by } => write!(f, "fsync {file} ({by:?})"),
            Op::Write {
                file,
                slot,
                count,
                value,
                by,
            } => {
                let last = slot + count - 1;
                write!(
                    f,
                    "write {file}[{slot}..={last}] = {} ({by:?})",
                    name_of(*value)
                )
            }
            Op::Read {
                file,
                slot,
                count,
                by,
            } => {
                write!(f, "read {file}[{slot}..={}] ({by:?})", slot + count - 1)
            }
            Op::Truncate { file, slots } => write!(f, "truncate {file} to {slots} slots"),
            Op::Size { file } => write!(f, "stat {file}"),
            Op::Append { file, value } => write!(f, "append {file} {}", name_of(*value)),
            Op::Records { file, from } => write!(f, "records {file} from {from}"),
            Op::Prepare {
                value,
                words,
                synced,
                ..
            } => {
                let rest = if *synced { ", fsync" } else { "" };
                write!(f, "write {words} words of {}{rest}, close", name_of(*value))
            }
            Op::Publish { file, value, .. } => write!(f, "rename {} to {file}", name_of(*value)),
            Op::Fetch { file } => write!(f, "open, read {file}"),
            Op::Create { file } => write!(f, "create {file}"),
            Op::Remove { file } => write!(f, "unlink {file}"),
            Op::Link { from, file } => write!(f, "link {from} {file}"),
            Op::Move { from, file } => write!(f, "rename {from} {file}"),
            Op::Look { file } => write!(f, "stat {file}"),
            Op::List { dir } => write!(f, "list {dir}"),
            Op::Add { file, synced } => {
                let rest = if *synced { ", fsync" } else { "" };
                write!(f, "lock, add to {file}{rest}, unlock")
            }
        }
    }
}

impl fmt::Display for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Out::Pending => f.write_str("(did not return)"),
            Out::Done => f.write_str("done"),
            Out::Values(values) => {
                let words = values
                    .iter()
                    .map(|value| value.map_or("end".into(), name_of));
                f.write_str(&words.collect::<Vec<_>>().join(" "))
            }
            Out::Mixed(what) => write!(f, "mixed: {what}"),
            Out::Absent => f.write_str("absent"),
            Out::Present => f.write_str("present"),
            Out::Count(count) => write!(f, "{count}"),
            Out::Records(values, end) => {
                let words: Vec<String> = values.iter().map(|value| name_of(*value)).collect();
                let end = if *end == End::Reached { " end" } else { "" };
                write!(f, "{}{end}", words.join(" "))
            }
            Out::Version { value, words } => write!(f, "{words} words of {}", name_of(*value)),
            Out::Names(names) => f.write_str(&names.join(" ")),
            Out::Failed(errno) => write!(f, "error: {}", io::Error::from_raw_os_error(*errno)),
        }
    }
}

/// One line of a program's log.
#[derive(Serialize, Deserialize)]
struct Line {
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<Op>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<Out>,
}

/// The log of one program: a call stands in it before it is made.
pub(crate) struct Log {
    to: std::fs::File,
}

impl Log {
    /// A new log.
    pub(crate) fn create(path: &Path) -> io::Result<Log> {
        std::fs::File::create(path).map(|to| Log { to })
    }

    /// Makes a call between two lines.
    pub(crate) fn call(&mut self, op: Op, make: impl FnOnce() -> Out) -> io::Result<Out> {
        self.line(&Line {
            at: now(),
            op: Some(op),
            out: None,
        })?;
        let out = make();
        let line = Line {
            at: now(),
            op: None,
            out: Some(out),
        };
        self.line(&line)?;
        Ok(line.out.unwrap_or(Out::Pending))
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.to.write_all(&bytes)
    }
}

/// Reads the log of one program; a last line that is not whole is left out.
pub(crate) fn read_log(path: &Path, worker: usize, node: usize) -> io::Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    for line in io::BufReader::new(std::fs::File::open(path)?).lines() {
        let Ok(line) = serde_json::from_str::<Line>(&line?) else {
            break;
        };
        if let Some(op) = line.op {
            calls.push(Call {
                worker,
                node,
                begun: line.at,
                ended: None,
                op,
                out: Out::Pending,
            });
        } else if let (Some(out), Some(call)) = (line.out, calls.last_mut()) {
            call.ended = Some(line.at);
            call.out = out;
        }
    }
    Ok(calls)
}
