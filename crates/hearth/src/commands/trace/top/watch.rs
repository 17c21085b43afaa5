//! Looks at the rings of all processes again and again, and adds up the new records.
//!
//! The rings count operations, so their number is exact. Their bytes, times and files are in the records. If a ring was
//! written around between two looks, the records that are left stand for the others of their thread.

use std::collections::{HashMap, HashSet};

use hearth_trace::area::AreaName;
use hearth_trace::clock::{self, Calibration, ClockKind, SyncPoint};
use hearth_trace::ring::{Look, Name, OpTotal, Recent, Totals, WhenFull};
use hearth_trace::{Op, Record};

use super::super::ls::program;
use super::view::{Maker, View, Who};

/// Names kept of one process. Beyond that they are learnt anew.
const NAMES: usize = 1 << 16;

/// The processes that are watched, and how far each was seen.
pub(super) struct Watch {
    kind: ClockKind,
    /// When watching began, and when the last view was taken.
    first: SyncPoint,
    since: SyncPoint,
    processes: HashMap<AreaName, Process>,
}

/// One process.
#[derive(Default)]
struct Process {
    program: String,
    rank: Option<u32>,
    recording: bool,
    files: HashMap<u32, String>,
    streams: HashMap<(u32, u32), Seen>,
    unringed: Totals,
    did: Activity,
}

/// How far a thread was when it was last looked at.
#[derive(Clone, Default)]
struct Seen {
    attempted: u64,
    /// The last record.
    seq: u64,
    drops: Totals,
}

/// The operations of a process since the last view.
#[derive(Default)]
pub(super) struct Activity {
    pub(super) attempted: u64,
    pub(super) lost: u64,
    pub(super) threads: usize,
    /// Records are missing.
    pub(super) sampled: bool,
    /// Its ticks are those of this clock.
    pub(super) timed: bool,
    pub(super) operations: HashMap<Op, Sum>,
    pub(super) files: HashMap<u32, Sum>,
}

/// A sum over operations, in part estimated.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) count: f64,
    pub(super) read: f64,
    pub(super) written: f64,
    /// Ticks since the last view.
    pub(super) ticks: f64,
    /// Ticks from their beginning.
    pub(super) took: f64,
}

impl Sum {
    pub(super) fn add(&mut self, more: &Sum) {
        self.count += more.count;
        self.read += more.read;
        self.written += more.written;
        self.ticks += more.ticks;
        self.took += more.took;
    }

    fn scaled(self, by: f64) -> Sum {
        Sum {
            count: self.count * by,
            read: self.read * by,
            written: self.written * by,
            ticks: self.ticks * by,
            took: self.took * by,
        }
    }

    fn of(op: Op, count: u64, bytes: u64, ticks: u64, took: u64) -> Sum {
        let bytes_if = |counts: bool| if counts { bytes as f64 } else { 0.0 };
        Sum {
            count: count as f64,
            read: bytes_if(op.is_read() || op == Op::Copy),
            written: bytes_if(op.is_write()),
            ticks: ticks as f64,
            took: took as f64,
        }
    }
}

impl Watch {
    /// Begins: what was done before does not count.
    pub(super) fn start(areas: &[Look]) -> Watch {
        let kind = clock::decide();
        let now = clock::sync_point();
        let mut watch = Watch {
            kind,
            first: now,
            since: now,
            processes: HashMap::new(),
        };
        watch.look(areas);
        for process in watch.processes.values_mut() {
            process.did = Activity::default();
        }
        watch
    }

    /// Adds what is new.
    pub(super) fn look(&mut self, areas: &[Look]) {
        let (kind, since) = (self.kind, self.since.ticks);
        let mut alive = HashSet::new();
        for area in areas {
            let name = area.facts().name;
            alive.insert(name);
            let process = self.processes.entry(name).or_insert_with(|| Process {
                program: program(name.pid),
                ..Process::default()
            });
            process.did.timed = area.facts().clock == kind;
            process.look(area, since);
        }
        // The operations that they did up to their end stay in the view.
        self.processes.retain(|name, process| {
            process.recording &= alive.contains(name);
            alive.contains(name) || process.did.attempted > 0
        });
    }

    /// The view of the time since the last one, or since the start.
    pub(super) fn view(&mut self) -> View {
        let now = clock::sync_point();
        let Some(line) = Calibration::between(self.first, now) else {
            return View::default();
        };
        let mut maker = Maker::new(now.ticks - self.since.ticks, line);
        for (name, process) in &mut self.processes {
            let did = std::mem::take(&mut process.did);
            let who = Who {
                pid: name.pid,
                rank: process.rank,
                program: process.program.clone(),
                recording: process.recording,
            };
            maker.add(who, &did, |file| process.files.get(&file).cloned());
        }
        self.since = now;
        maker.finish()
    }
}

impl Process {
    fn look(&mut self, area: &Look, since: u64) {
        self.recording = area.is_on();
        self.learn_names(area);
        let streams = &self.streams;
        let key = |recent: &Recent| (recent.stream.slot, recent.stream.generation);
        let recent = area.recent(|stream| {
            let seen = streams.get(&(stream.slot, stream.generation));
            seen.map_or(0, |seen| seen.seq)
        });
        self.did.threads = self.did.threads.max(recent.len());
        let keys: HashSet<_> = recent.iter().map(key).collect();
        self.streams.retain(|key, _| keys.contains(key));
        let is_flight = area.facts().policy == WhenFull::Overwrite;
        for recent in recent {
            let seen = self.streams.entry(key(&recent)).or_default();
            self.did.thread(seen, recent, is_flight, since);
        }
        let unringed = area.unringed();
        let more = difference(&unringed, &self.unringed);
        self.did.attempted += more.count();
        self.did.dropped(&more);
        self.unringed = unringed;
    }

    fn learn_names(&mut self, area: &Look) {
        if self.files.len() > NAMES {
            self.files.clear();
        }
        area.names(|name| match name {
            Name::File(id, path) => {
                let path = || String::from_utf8_lossy(path).into_owned();
                self.files.entry(id).or_insert_with(path);
            }
            Name::Rank(rank) => self.rank = Some(rank),
            Name::Exe(_) | Name::Args(_) | Name::Cwd(_) => {}
        });
    }
}

impl Activity {
    /// Adds what a thread did since it was seen.
    fn thread(&mut self, seen: &mut Seen, recent: Recent, is_flight: bool, since: u64) {
        let account = recent.account;
        let attempted = account.attempted.saturating_sub(seen.attempted);
        let drops = match is_flight {
            // The records that a flight recorder overwrites were stored before.
            true => Totals::default(),
            false => difference(&account.drops, &seen.drops),
        };
        let stored = attempted.saturating_sub(drops.count());
        let found = recent.records.len() as u64;
        // A record may come a moment after it is counted.
        self.sampled |= found + 1 < attempted;
        self.attempted += attempted;
        self.dropped(&drops);
        let by = (stored as f64 / found.max(1) as f64).max(1.0);
        for record in &recent.records {
            self.record(record, by, since);
        }
        let last = recent.records.last().map(|record| record.seq);
        *seen = Seen {
            attempted: account.attempted,
            seq: last.unwrap_or(seen.seq),
            drops: account.drops,
        };
    }

    fn record(&mut self, record: &Record, by: f64, since: u64) {
        let Some(op) = Op::from_code(record.op) else {
            return;
        };
        let bytes = match op.moves_bytes() {
            true => u64::try_from(record.outcome()).unwrap_or(0),
            false => 0,
        };
        let took = record.ticks();
        let end = record.start.saturating_add(took);
        let ticks = end.saturating_sub(record.start.max(since));
        let timed = |ticks| if self.timed { ticks } else { 0 };
        let sum = Sum::of(op, 1, bytes, timed(ticks), timed(took)).scaled(by);
        self.operations.entry(op).or_default().add(&sum);
        if record.file != 0 {
            self.files.entry(record.file).or_default().add(&sum);
        }
    }

    /// Adds what was counted only.
    fn dropped(&mut self, drops: &Totals) {
        self.lost += drops.count();
        for row in &drops.0 {
            let Some(op) = Op::from_code(row.code) else {
                continue;
            };
            let ticks = if self.timed { row.ticks } else { 0 };
            let sum = Sum::of(op, row.count, row.bytes, ticks, ticks);
            self.operations.entry(op).or_default().add(&sum);
        }
    }
}

/// The counts that a table gained since it was read.
fn difference(now: &Totals, before: &Totals) -> Totals {
    let rows = now.0.iter().map(|row| {
        let old = before.0.iter().find(|old| old.code == row.code);
        let less = |field: fn(&OpTotal) -> u64| field(row).saturating_sub(old.map_or(0, field));
        OpTotal {
            code: row.code,
            count: less(|row| row.count),
            bytes: less(|row| row.bytes),
            ticks: less(|row| row.ticks),
        }
    });
    Totals(rows.filter(|row| row.count > 0).collect())
}
