//! One program of a round: random calls on a few files that other programs use too, each logged before it is made
//! and when it has returned. It ends when its standard input does.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::history::{By, End, Log, Op, Out, RECORD_BYTES, SLOT_BYTES, SLOTS, now, value_of};
use crate::random::Random;
use crate::sys::{self, Mapping};

/// A kind of work of programs in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Write and read slots of files
    Registers,
    /// Truncate files that others write and read
    Cuts,
    /// Append records
    Logs,
    /// Rename whole versions over a name
    Versions,
    /// Create, remove, rename and link names, and list them
    Names,
    /// Add under a lock
    Counters,
}

/// Everything that programs can do.
pub(crate) const KINDS: [Kind; 6] = [
    Kind::Registers,
    Kind::Cuts,
    Kind::Logs,
    Kind::Versions,
    Kind::Names,
    Kind::Counters,
];

/// Pages of a register file.
pub(crate) const PAGES: u64 = 3;
/// Files of each kind.
pub(crate) const FILES: u64 = 2;
/// Names of the directory of names.
pub(crate) const NAMES: u64 = 5;

/// How a program reaches the cache, which says nothing of what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// Through the mount.
    Mount,
    /// Under `hearth run`.
    Run,
}

/// Whether a program reads registers through mappings too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Maps {
    None,
    Reads,
}

/// The task of one program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) worker: u64,
    /// Grows with each start, so that no value comes twice.
    pub(crate) life: u64,
    pub(crate) node: usize,
    pub(crate) way: Way,
    pub(crate) maps: Maps,
    pub(crate) root: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) seed: u64,
    /// Bytes of a page of the agents.
    pub(crate) page: u64,
    pub(crate) kinds: Vec<Kind>,
    /// Additions are all synced, since they cannot be told apart when some are lost.
    pub(crate) every_addition_synced: bool,
}

/// The place of a slot in its file: at both ends of each page, and within it.
pub(crate) fn offset_of(slot: u64, page: u64) -> u64 {
    let within = [0, SLOT_BYTES, page / 2, page - SLOT_BYTES];
    slot / SLOTS * page + within[(slot % SLOTS) as usize]
}

/// Runs the program that a file describes.
pub(crate) fn work(spec: &Path) -> io::Result<()> {
    let spec: Spec = serde_json::from_slice(&fs::read(spec)?)?;
    fs::write(
        spec.log.with_extension("pid"),
        std::process::id().to_string(),
    )?;
    let mut worker = Worker {
        random: Random::of(spec.seed, spec.worker + 100 * spec.life),
        log: Log::create(&spec.log)?,
        open: BTreeMap::new(),
        maps: BTreeMap::new(),
        tails: BTreeMap::new(),
        writes: spec.life << 24,
        spec,
    };
    let (begun, mut pause, mut steps) = (now(), 0, 0);
    while !input_ended(pause)? {
        let failed = worker.step()?;
        steps += 1;
        // A program whose agent is gone would fill its log with errors.
        pause = if failed {
            20
        } else {
            pace(steps, now() - begun)
        };
    }
    worker.end()
}

/// Calls at full speed between two rests.
const BURST: u64 = 150;
/// Calls of one program in a second, over all: longer histories only take longer to check.
const RATE: u64 = 300;

/// Milliseconds to rest after so many steps in so many nanoseconds.
fn pace(steps: u64, took: u64) -> i64 {
    if !steps.is_multiple_of(BURST) {
        return 0;
    }
    (steps * 1000 / RATE).saturating_sub(took / 1_000_000) as i64
}

/// Waits some milliseconds for the end of standard input.
fn input_ended(pause: i64) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec {
        tv_sec: pause / 1000,
        tv_nsec: pause % 1000 * 1_000_000,
    };
    Ok(poll(&mut fds, Some(&wait))? > 0)
}

struct Worker {
    spec: Spec,
    random: Random,
    log: Log,
    open: BTreeMap<(String, ByKey), File>,
    maps: BTreeMap<String, Mapping>,
    /// Number of the record at which each log ended when it was last read.
    tails: BTreeMap<String, u64>,
    writes: u64,
}

type ByKey = u8;

fn key(by: By) -> ByKey {
    by as u8
}

fn ended(result: io::Result<Out>) -> Out {
    result.unwrap_or_else(|error| {
        error
            .raw_os_error()
            .map_or_else(|| Out::Mixed(error.to_string()), Out::Failed)
    })
}

/// The error numbers that say what a name is are results like others.
fn named(result: io::Result<Out>) -> Out {
    match ended(result) {
        Out::Failed(libc::ENOENT) => Out::Absent,
        Out::Failed(libc::EEXIST) => Out::Present,
        out => out,
    }
}

fn is_failure(out: &Out) -> bool {
    matches!(out, Out::Failed(_))
}

impl Worker {
    /// Makes a call or a few; whether one failed.
    fn step(&mut self) -> io::Result<bool> {
        let kind = *self.random.pick(&self.spec.kinds.clone());
        match kind {
            Kind::Registers => self.registers(),
            Kind::Cuts => self.cuts(),
            Kind::Logs => self.logs(),
            Kind::Versions => self.versions(),
            Kind::Names => self.names(),
            Kind::Counters => self.counters(),
        }
    }

    fn value(&mut self) -> u64 {
        self.writes += 1;
        value_of(self.spec.worker, self.writes)
    }

    fn file(&mut self, stem: &str) -> String {
        format!("{stem}{}", self.random.below(FILES))
    }

    fn path(&self, file: &str) -> PathBuf {
        self.spec.root.join(file)
    }

    fn call(&mut self, op: Op, make: impl FnOnce() -> io::Result<Out>) -> io::Result<bool> {
        Ok(is_failure(&self.log.call(op, || ended(make()))?))
    }

    /// A descriptor, opened if it is not open; `None` if that failed.
    fn opened(&mut self, file: &str, by: By, append: bool) -> io::Result<Option<File>> {
        let at = (file.to_owned(), key(by));
        if !self.open.contains_key(&at) {
            let path = self.path(file);
            let mut how = OpenOptions::new();
            match by {
                By::Writer if append => how.read(true).append(true).create(true),
                By::Writer => how.read(true).write(true).create(true),
                By::Reader | By::Map => how.read(true),
            };
            let mut opened = None;
            let op = Op::Open {
                file: file.to_owned(),
                by,
            };
            self.log.call(op, || {
                ended(how.mode(0o644).open(path).map(|file| {
                    opened = Some(file);
                    Out::Done
                }))
            })?;
            let Some(opened) = opened else {
                return Ok(None);
            };
            self.open.insert(at.clone(), opened);
        }
        // Taken out, so that a close has the only one.
        Ok(self.open.remove(&at))
    }

    fn keep(&mut self, file: &str, by: By, handle: File) {
        self.open.insert((file.to_owned(), key(by)), handle);
    }

    /// Syncs or closes a writer now and then, else keeps it open.
    fn settle(&mut self, file: &str, handle: File) -> io::Result<bool> {
        let by = By::Writer;
        let what = self.random.below(100);
        if what < 8 {
            let op = Op::Close {
                file: file.to_owned(),
                by,
            };
            return self.call(op, || sys::close(handle).map(|()| Out::Done));
        }
        let mut failed = false;
        if what < 25 {
            let op = Op::Sync {
                file: file.to_owned(),
                by,
            };
            failed = self.call(op, || handle.sync_data().map(|()| Out::Done))?;
        }
        self.keep(file, by, handle);
        Ok(failed)
    }

    fn registers(&mut self) -> io::Result<bool> {
        let file = self.file("register");
        let (slot, count) = self.range();
        if self.random.chance(45) {
            return self.write_slots(&file, slot, count);
        }
        let by = match self.random.below(3) {
            0 => By::Writer,
            1 if self.spec.maps == Maps::Reads => By::Map,
            _ => By::Reader,
        };
        if by == By::Map {
            return self.read_mapped(&file, slot);
        }
        let Some(handle) = self.opened(&file, by, false)? else {
            return Ok(true);
        };
        let page = self.spec.page;
        let op = Op::Read {
            file: file.clone(),
            slot,
            count,
            by,
        };
        let failed = self.call(op, || read_slots(&handle, slot, count, page))?;
        if by == By::Reader && self.random.chance(5) {
            let op = Op::Close { file, by };
            return self.call(op, || sys::close(handle).map(|()| Out::Done));
        }
        self.keep(&file, by, handle);
        Ok(failed)
    }

    /// One slot, two slots of two pages, or whole pages.
    fn range(&mut self) -> (u64, u64) {
        let page = self.random.below(PAGES);
        match self.random.below(10) {
            0 | 1 if page + 1 < PAGES => (page * SLOTS + SLOTS - 1, 2),
            2 | 3 => (page * SLOTS, SLOTS),
            4 if page + 1 < PAGES => (page * SLOTS, 2 * SLOTS),
            _ => (page * SLOTS + self.random.below(SLOTS), 1),
        }
    }

    fn write_slots(&mut self, file: &str, slot: u64, count: u64) -> io::Result<bool> {
        let by = By::Writer;
        let Some(handle) = self.opened(file, by, false)? else {
            return Ok(true);
        };
        let value = self.value();
        let (begin, end) = extent(slot, count, self.spec.page);
        let bytes = value.to_le_bytes().repeat(((end - begin) / 8) as usize);
        let op = Op::Write {
            file: file.to_owned(),
            slot,
            count,
            value,
            by,
        };
        let failed = self.call(op, || {
            handle.write_all_at(&bytes, begin).map(|()| Out::Done)
        })?;
        Ok(self.settle(file, handle)? || failed)
    }

    fn read_mapped(&mut self, file: &str, slot: u64) -> io::Result<bool> {
        if !self.maps.contains_key(file) {
            let Some(handle) = self.opened(file, By::Map, false)? else {
                return Ok(true);
            };
            let mapping = Mapping::of(&handle, PAGES * self.spec.page);
            self.keep(file, By::Map, handle);
            let Ok(mapping) = mapping else {
                return Ok(true);
            };
            self.maps.insert(file.to_owned(), mapping);
        }
        let mapping = &self.maps[file];
        let at = offset_of(slot, self.spec.page) + self.random.below(SLOT_BYTES / 8) * 8;
        let op = Op::Read {
            file: file.to_owned(),
            slot,
            count: 1,
            by: By::Map,
        };
        self.log
            .call(op, || Out::Values(vec![Some(mapping.word(at))]))?;
        Ok(false)
    }

    fn cuts(&mut self) -> io::Result<bool> {
        let file = self.file("cut");
        let what = self.random.below(10);
        if what == 9 {
            let path = self.path(&file);
            return self.call(Op::Size { file }, || {
                Ok(Out::Count(fs::metadata(path)?.len().div_ceil(SLOT_BYTES)))
            });
        }
        let by = By::Writer;
        let Some(handle) = self.opened(&file, by, false)? else {
            return Ok(true);
        };
        let slot = self.random.below(SLOTS);
        let failed = match what {
            0..=3 => {
                let value = self.value();
                let bytes = value.to_le_bytes().repeat((SLOT_BYTES / 8) as usize);
                let op = Op::Write {
                    file: file.clone(),
                    slot,
                    count: 1,
                    value,
                    by,
                };
                let at = slot * SLOT_BYTES;
                self.call(op, || handle.write_all_at(&bytes, at).map(|()| Out::Done))?
            }
            4 | 5 => {
                let op = Op::Truncate {
                    file: file.clone(),
                    slots: slot,
                };
                self.call(op, || handle.set_len(slot * SLOT_BYTES).map(|()| Out::Done))?
            }
            _ => {
                let op = Op::Read {
                    file: file.clone(),
                    slot,
                    count: 1,
                    by,
                };
                self.call(op, || {
                    let mut bytes = vec![0; SLOT_BYTES as usize];
                    let len = handle.read_at(&mut bytes, slot * SLOT_BYTES)?;
                    Ok(one_slot(&bytes[..len]))
                })?
            }
        };
        Ok(self.settle(&file, handle)? || failed)
    }

    fn logs(&mut self) -> io::Result<bool> {
        let file = self.file("log");
        let Some(mut handle) = self.opened(&file, By::Writer, true)? else {
            return Ok(true);
        };
        if self.random.chance(60) {
            let value = self.value();
            let bytes = value.to_le_bytes().repeat((RECORD_BYTES / 8) as usize);
            let op = Op::Append {
                file: file.clone(),
                value,
            };
            let failed = self.call(op, || handle.write_all(&bytes).map(|()| Out::Done))?;
            return Ok(self.settle(&file, handle)? || failed);
        }
        let tail = self.tails.get(&file).copied().unwrap_or(0);
        let from = tail.saturating_sub(self.random.below(16));
        let mut read = 0;
        let op = Op::Records {
            file: file.clone(),
            from,
        };
        let failed = self.call(op, || {
            let mut bytes = vec![0; 64 * RECORD_BYTES as usize];
            let len = handle.read_at(&mut bytes, from * RECORD_BYTES)?;
            read = len as u64 / RECORD_BYTES;
            Ok(records_of(&bytes[..len], len < bytes.len()))
        })?;
        self.tails.insert(file.clone(), from + read);
        self.keep(&file, By::Writer, handle);
        Ok(failed)
    }

    fn versions(&mut self) -> io::Result<bool> {
        let file = self.file("version");
        let path = self.path(&file);
        if self.random.chance(60) {
            let out = self.log.call(Op::Fetch { file }, || named(fetch(&path)))?;
            return Ok(is_failure(&out));
        }
        let value = self.value();
        let words = *self.random.pick(&[16_u64, 700, 9000]) + self.random.below(8);
        let synced = self.random.chance(30);
        let aside = self.path(&format!("aside{}", self.spec.worker));
        let op = Op::Prepare {
            file: file.clone(),
            value,
            words,
            synced,
        };
        if self.call(op, || prepare(&aside, value, words, synced))? {
            return Ok(true);
        }
        let op = Op::Publish {
            file,
            value,
            words,
            synced,
        };
        self.call(op, || fs::rename(aside, path).map(|()| Out::Done))
    }

    fn names(&mut self) -> io::Result<bool> {
        let file = format!("names/{}", self.random.below(NAMES));
        let from = format!("names/{}", self.random.below(NAMES));
        let (path, old) = (self.path(&file), self.path(&from));
        let dir = self.path("names");
        let done = |()| Out::Done;
        let out = match self.random.below(12) {
            0..=2 => self.log.call(Op::Create { file }, || {
                let how = OpenOptions::new().write(true).create_new(true).open(path);
                named(how.and_then(sys::close).map(done))
            })?,
            3 | 4 => self.log.call(Op::Remove { file }, || {
                named(fs::remove_file(path).map(done))
            })?,
            // A rename between two names of one file does nothing, so a round has links or renames.
            5 | 6 if file != from && self.spec.seed.is_multiple_of(2) => {
                let op = Op::Link { from, file };
                self.log
                    .call(op, || named(fs::hard_link(old, path).map(done)))?
            }
            5 | 6 if file != from => {
                let op = Op::Move { from, file };
                self.log
                    .call(op, || named(fs::rename(old, path).map(done)))?
            }
            7 | 8 => self.log.call(
                Op::List {
                    dir: "names".into(),
                },
                || ended(listed(&dir)),
            )?,
            _ => self.log.call(Op::Look { file }, || {
                named(fs::symlink_metadata(path).map(|_| Out::Present))
            })?,
        };
        Ok(is_failure(&out))
    }

    fn counters(&mut self) -> io::Result<bool> {
        let file = self.file("counter");
        let by = By::Writer;
        let Some(handle) = self.opened(&file, by, false)? else {
            return Ok(true);
        };
        let synced = self.spec.every_addition_synced || self.random.chance(30);
        let op = Op::Add {
            file: file.clone(),
            synced,
        };
        let failed = self.call(op, || add(&handle, synced))?;
        if failed || self.random.chance(5) {
            // A lock that may be held goes with the descriptor.
            let op = Op::Close { file, by };
            return Ok(self.call(op, || sys::close(handle).map(|()| Out::Done))? || failed);
        }
        self.keep(&file, by, handle);
        Ok(failed)
    }

    /// Closes all that is open, and says how that went.
    fn end(&mut self) -> io::Result<()> {
        self.maps.clear();
        for ((file, by), handle) in std::mem::take(&mut self.open) {
            let by = [By::Reader, By::Writer, By::Map][usize::from(by)];
            self.call(Op::Close { file, by }, || {
                sys::close(handle).map(|()| Out::Done)
            })?;
        }
        Ok(())
    }
}

/// The bytes that a range of slots has.
fn extent(slot: u64, count: u64, page: u64) -> (u64, u64) {
    let last = offset_of(slot + count - 1, page);
    (offset_of(slot, page), last + SLOT_BYTES)
}

fn read_slots(file: &File, slot: u64, count: u64, page: u64) -> io::Result<Out> {
    let (begin, end) = extent(slot, count, page);
    let mut bytes = vec![0; (end - begin) as usize];
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], begin + len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    let mut values = Vec::new();
    for slot in slot..slot + count {
        let at = (offset_of(slot, page) - begin) as usize;
        let of_slot = bytes[..len].get(at..at + SLOT_BYTES as usize);
        match one_slot(of_slot.unwrap_or(&[])) {
            Out::Values(value) => values.extend(value),
            other => return Ok(other),
        }
    }
    Ok(Out::Values(values))
}

/// The words of a slot are all the same, as one write wrote them.
fn one_slot(bytes: &[u8]) -> Out {
    match same_words(bytes) {
        Ok(value) => Out::Values(vec![value]),
        Err(mixed) => mixed,
    }
}

/// The word that all of some bytes are; `None` of no bytes.
pub(crate) fn same_words(bytes: &[u8]) -> Result<Option<u64>, Out> {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    let Some(first) = words.next() else {
        return Ok(None);
    };
    let name = super::history::name_of;
    let other = words.enumerate().find(|(_, word)| *word != first);
    if let Some((index, other)) = other {
        let (at, len) = ((index + 1) * 8, bytes.len());
        let what = format!(
            "{len} bytes; {} up to byte {at}, then {}",
            name(first),
            name(other)
        );
        return Err(Out::Mixed(what));
    }
    if !rest.is_empty() {
        let what = format!("{} bytes of {}", bytes.len(), name(first));
        return Err(Out::Mixed(what));
    }
    Ok(Some(first))
}

/// Records of a part of a log.
pub(crate) fn records_of(bytes: &[u8], short: bool) -> Out {
    let mut values = Vec::new();
    for record in bytes.chunks_exact(RECORD_BYTES as usize) {
        match same_words(record) {
            Ok(value) => values.push(value.unwrap_or(0)),
            Err(mixed) => return mixed,
        }
    }
    let rest = bytes.len() % RECORD_BYTES as usize;
    if rest != 0 {
        return Out::Mixed(format!("{rest} bytes of a record at the end"));
    }
    let end = if short { End::Reached } else { End::NotReached };
    Out::Records(values, end)
}

fn fetch(path: &Path) -> io::Result<Out> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(version_of(&bytes))
}

/// The version that some bytes are.
pub(crate) fn version_of(bytes: &[u8]) -> Out {
    match same_words(bytes) {
        Ok(Some(value)) => Out::Version {
            value,
            words: bytes.len() as u64 / 8,
        },
        Ok(None) => Out::Mixed("empty".into()),
        Err(mixed) => mixed,
    }
}

fn prepare(path: &Path, value: u64, words: u64, synced: bool) -> io::Result<Out> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    file.write_all(&value.to_le_bytes().repeat(words as usize))?;
    if synced {
        file.sync_all()?;
    }
    sys::close(file)?;
    Ok(Out::Done)
}

fn listed(dir: &Path) -> io::Result<Out> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(format!("names/{}", entry?.file_name().to_string_lossy()));
    }
    names.sort();
    Ok(Out::Names(names))
}

fn add(file: &File, synced: bool) -> io::Result<Out> {
    sys::lock(file)?;
    let added = (|| {
        let mut word = [0; 8];
        let len = file.read_at(&mut word, 0)?;
        let before = if len == 8 {
            u64::from_le_bytes(word)
        } else {
            0
        };
        file.write_all_at(&(before + 1).to_le_bytes(), 0)?;
        if synced {
            file.sync_data()?;
        }
        Ok(Out::Count(before))
    })();
    sys::unlock(file)?;
    added
}

/// Keeps a processor busy until standard input ends.
pub(crate) fn spin() {
    let mut busy = 0_u64;
    while !input_ended(0).unwrap_or(true) {
        for _ in 0..1_000_000 {
            busy = std::hint::black_box(busy.wrapping_mul(31) ^ now());
        }
    }
}
