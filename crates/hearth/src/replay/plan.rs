//! The operations of every thread, their times, and the files that must be there before.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use hearth_report::export::sorter::{SortItem, Sorter};
use hearth_trace::{Op, Source};

use super::step::{Step, Traced, is_replayable};

/// Steps that a thread reads from its part of the plan at a time.
const READ_STEPS: u64 = 1024;

/// The state of a file before the first operation on it that can be replayed, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// Whether it is there; not known until it is used.
    pub(crate) there: Option<bool>,
    /// Whether it is a directory.
    pub(crate) is_directory: bool,
    /// Whether anything that was done to it succeeded.
    pub(crate) succeeded: bool,
    /// Bytes that are read from it and that nobody wrote.
    pub(crate) bytes: u64,
    /// End of what has been written so far.
    pub(super) written: u64,
}

/// A plan. Each thread's steps are a part of a temporary file.
pub(crate) struct Plan {
    pub(crate) files: Vec<Before>,
    pub(crate) streams: Vec<Part>,
    /// Operations that cannot be done again.
    pub(crate) left_out: u64,
    /// When the first step began, and when the last ended.
    pub(crate) span: (i64, i64),
    file: File,
}

/// The place of a thread's steps in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    begin: u64,
    pub(crate) steps: u64,
    /// Nanoseconds from the start of the trace to the thread's first step.
    pub(crate) delay: u64,
}

/// Why a plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError<E: std::error::Error + 'static> {
    /// The trace cannot be read on.
    #[error("cannot read the trace on")]
    Read(#[source] E),
    /// A temporary file fails.
    #[error("cannot write the plan of the replay to a temporary file")]
    Write(#[source] io::Error),
}

impl Plan {
    /// Reads all of a trace. `dir` is for temporary files.
    pub(crate) fn of<S: Source>(source: &mut S, dir: &Path) -> Result<Plan, PlanError<S::Error>>
    where
        S::Error: std::error::Error + 'static,
    {
        let (traced, left_out) = gather(source, dir)?;
        let tables = source.tables();
        let (streams, files) = (tables.streams.len(), tables.files.len());
        let mut sweep = Sweep::new(streams, files, dir).map_err(PlanError::Write)?;
        traced
            .sorted(|traced| sweep.put(traced))
            .and_then(|()| sweep.plan(left_out, dir))
            .map_err(PlanError::Write)
    }

    /// The steps of a thread, in order.
    pub(crate) fn steps_of(&self, stream: usize) -> Steps<'_> {
        let part = self.streams[stream];
        Steps {
            file: &self.file,
            at: part.begin,
            left: part.steps,
            bytes: Vec::new(),
            used: 0,
        }
    }
}

fn gather<S: Source>(
    source: &mut S,
    dir: &Path,
) -> Result<(Sorter<Traced>, u64), PlanError<S::Error>>
where
    S::Error: std::error::Error + 'static,
{
    let mut sorter = Sorter::new(dir).map_err(PlanError::Write)?;
    let mut left_out = 0;
    let mut outcome = Ok(());
    let read = source.each_run(&mut |stream, events| {
        for event in events {
            let traced = Traced::of(stream, event).filter(|_| is_replayable(event));
            match traced {
                Some(traced) if outcome.is_ok() => outcome = sorter.push(traced),
                Some(_) => {}
                None => left_out += 1,
            }
        }
    });
    outcome.map_err(PlanError::Write)?;
    read.map_err(PlanError::Read)?;
    Ok((sorter, left_out))
}

/// The last change of a file: by whom, which of its steps, and when it ended.
#[derive(Clone, Copy)]
struct Change {
    stream: u32,
    count: u64,
    end: i64,
}

/// Sees all operations in order of time.
struct Sweep {
    files: Vec<Before>,
    changes: Vec<[Option<Change>; 2]>,
    /// Steps of each thread so far, and the end of its last.
    threads: Vec<(u64, i64)>,
    first: Option<i64>,
    last: i64,
    parts: Vec<Part>,
    /// How many steps of another thread a thread has waited for.
    waited: HashMap<(u32, u32), u64>,
    steps: Sorter<Step>,
}

impl Sweep {
    fn new(streams: usize, files: usize, dir: &Path) -> io::Result<Sweep> {
        Ok(Sweep {
            files: vec![Before::default(); files],
            changes: vec![[None; 2]; files],
            threads: vec![(0, i64::MIN); streams],
            first: None,
            last: i64::MIN,
            parts: vec![Part::default(); streams],
            waited: HashMap::new(),
            steps: Sorter::new(dir)?,
        })
    }

    fn put(&mut self, what: Traced) -> io::Result<()> {
        note(&mut self.files[what.file as usize], &what);
        let first = *self.first.get_or_insert(what.start);
        self.last = self.last.max(what.end());
        let change = self.last_change(&what);
        let (index, own_end) = self.threads[what.stream as usize];
        if index == 0 {
            self.parts[what.stream as usize].delay = what.start.abs_diff(first);
        }
        let ready = change.map_or(own_end, |change| own_end.max(change.end));
        let think = match index {
            0 => 0,
            _ => u64::try_from(what.start.saturating_sub(ready)).unwrap_or(0),
        };
        let after = change.and_then(|change| self.wait(what.stream, change));
        let end = what.end().max(own_end);
        self.threads[what.stream as usize] = (index + 1, end);
        self.parts[what.stream as usize].steps = index + 1;
        if is_change(&what) {
            self.changed(&what, index + 1);
        }
        self.steps.push(Step {
            stream: what.stream,
            index,
            think,
            after,
            what,
        })
    }

    /// The last change of the file that another thread had finished when this began.
    fn last_change(&self, what: &Traced) -> Option<Change> {
        let changes = self.changes[what.file as usize].iter().flatten();
        let finished =
            changes.filter(|change| change.stream != what.stream && change.end <= what.start);
        finished.max_by_key(|change| change.end).copied()
    }

    /// Two are kept: the last of all, and the last of another thread than that one's.
    fn changed(&mut self, what: &Traced, count: u64) {
        let new = Change {
            stream: what.stream,
            count,
            end: what.end(),
        };
        let kept = &mut self.changes[what.file as usize];
        if kept[0].is_some_and(|last| last.stream != what.stream) {
            kept[1] = kept[0];
        }
        kept[0] = Some(new);
    }

    /// The change to wait for, unless the thread has waited for as much already.
    fn wait(&mut self, stream: u32, change: Change) -> Option<(u32, u64)> {
        let waited = self.waited.entry((stream, change.stream)).or_default();
        if *waited >= change.count {
            return None;
        }
        *waited = change.count;
        Some((change.stream, change.count))
    }

    fn plan(self, left_out: u64, dir: &Path) -> io::Result<Plan> {
        let mut out = BufWriter::new(tempfile::tempfile_in(dir)?);
        let mut parts = self.parts;
        let mut steps = 0;
        for part in &mut parts {
            part.begin = steps * Step::SIZE as u64;
            steps += part.steps;
        }
        let mut bytes = Vec::with_capacity(Step::SIZE);
        self.steps.sorted(|step| {
            bytes.clear();
            step.put(&mut bytes);
            out.write_all(&bytes)
        })?;
        Ok(Plan {
            files: self.files,
            streams: parts,
            left_out,
            span: (
                self.first.unwrap_or(0),
                self.last.max(self.first.unwrap_or(0)),
            ),
            file: out.into_inner()?,
        })
    }
}

/// Whether others may see a difference.
fn is_change(what: &Traced) -> bool {
    let creates = what.op == Op::Open && what.asked & 0o1100 != 0;
    let namespace = matches!(
        what.op,
        Op::Mkdir | Op::Rmdir | Op::Unlink | Op::Rename | Op::Truncate | Op::Fallocate
    );
    !what.failed() && (creates || namespace || what.op.is_write())
}

/// Learns from an operation what must have been before all of them.
fn note(before: &mut Before, what: &Traced) {
    const NOT_THERE: i64 = -2;
    const CREAT: u64 = 0o100;
    const EXCL: u64 = 0o200;
    let directory = matches!(what.op, Op::Mkdir | Op::Rmdir | Op::Opendir);
    before.is_directory |= directory && !what.failed();
    before.succeeded |= !what.failed();
    let there = match what.op {
        _ if what.result == NOT_THERE => Some(false),
        _ if what.failed() => None,
        Op::Mkdir => Some(false),
        Op::Open if what.asked & (CREAT | EXCL) == CREAT | EXCL => Some(false),
        // It may have been there; if bytes are read that nobody wrote, it was.
        Op::Open if what.asked & CREAT != 0 => None,
        Op::Close if before.written > 0 => None,
        op if op.is_write() => None,
        _ => Some(true),
    };
    let is_new = before.written == 0 && before.bytes == 0;
    if before.there.is_none() && is_new {
        before.there = there;
    }
    if what.op.is_write() {
        before.written = before.written.max(what.offset.saturating_add(what.bytes()));
    } else if what.op.is_read() || what.op == Op::Copy {
        let end = what.offset.saturating_add(what.bytes());
        if what.bytes() > 0 && end > before.written && before.there != Some(false) {
            before.there = Some(true);
            before.bytes = before.bytes.max(end);
        }
    }
}

/// The steps of one thread.
pub(crate) struct Steps<'a> {
    file: &'a File,
    at: u64,
    left: u64,
    bytes: Vec<u8>,
    used: usize,
}

impl Steps<'_> {
    /// The next one.
    pub(crate) fn next(&mut self) -> io::Result<Option<Step>> {
        if self.used == self.bytes.len() {
            let count = self.left.min(READ_STEPS);
            if count == 0 {
                return Ok(None);
            }
            self.bytes.resize(count as usize * Step::SIZE, 0);
            self.file.read_exact_at(&mut self.bytes, self.at)?;
            self.at += self.bytes.len() as u64;
            self.left -= count;
            self.used = 0;
        }
        let step = Step::take(&self.bytes[self.used..]);
        self.used += Step::SIZE;
        Ok(Some(step))
    }
}
