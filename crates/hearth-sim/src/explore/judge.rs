//! Answers that the sessions of a small world have seen, held against the reference model.
//!
//! The history and its checks are those of the simulator. Of a history a state keeps only what later verdicts
//! depend on. Two histories that agree in it are one:
//!
//! - [`order`] puts a write and the reads that returned it into a group. It looks at nothing but the group's
//!   *first end* and *last beginning*. Two groups clash if each has its first end before the last beginning of
//!   the other. So it is enough to know of each pair whether one's first end is before the other's last
//!   beginning. A first end never moves. A last beginning becomes that of an operation which is open now, or of
//!   one that will begin after every first end so far. So of open reads it is enough to know which first ends are
//!   before their beginning, and of groups whether they have a first end.
//! - A stale read, of which [`value`] speaks, is always a clash too. The write that was overwritten was over
//!   before the newer one began, which was over before the read began. No write has two bytes, so none is torn.
//!   All that is left of it is which node wrote which value where.
//! - If operations span all pages every write gives all bytes one value. So a read which shows two has mixed two
//!   instants. That is said as the read ends.
//! - [`durable`] compares the end of a write with the beginnings of writes and syncs, while there are syncs.
//! - Once bytes may have been lost nothing counts but which values there are.

use super::words::{NameKind, Words};
use crate::check::order::Group;
use crate::check::{Violation, durable, order, value};
use crate::model::{self, History, Interval, Read, Tick};
use std::hash::{Hash, Hasher};

/// The history of the file of a small world.
#[derive(Clone, Debug)]
pub struct Book {
    history: History,
    moment: u64,
    /// Every operation spans all bytes.
    whole: bool,
}

impl Book {
    /// A file that begins with so many bytes of one value.
    pub fn new(size: u64, whole: bool) -> (Book, Vec<u8>) {
        let base = NameKind::Moment.base();
        let history = History::born(size, Tick(base + 1), Tick(base + 3));
        let bytes = vec![history.changes[1].value; size as usize];
        let moment = 3;
        let book = Book {
            history,
            moment,
            whole,
        };
        (book, bytes)
    }

    /// An operation begins now.
    pub fn begin(&mut self) -> Tick {
        self.moment += self.moment % 2;
        Tick(NameKind::Moment.base() + self.moment)
    }

    fn end(&mut self) -> Tick {
        self.moment += (self.moment + 1) % 2;
        Tick(NameKind::Moment.base() + self.moment)
    }

    /// A write of some bytes begins: its number and value.
    pub fn begin_write(&mut self, node: u32, at: u64, len: u64) -> (usize, u8) {
        let value = self.history.next_value();
        let now = self.begin();
        let place = at..at + len;
        let change = self
            .history
            .begin(node, model::ChangeKind::Write, place, value, now);
        (change, value)
    }

    /// The write is done.
    pub fn end_write(&mut self, change: usize) {
        let ended = self.end();
        self.history.end(change, ended);
    }

    /// A read has these bytes.
    pub fn end_read(
        &mut self,
        read: (u32, u64),
        began: Tick,
        bytes: Vec<u8>,
        page_bytes: u32,
    ) -> Result<(), Violation> {
        let ended = self.end();
        let (node, offset) = read;
        let span = Interval { began, ended };
        self.history.reads.push(Read {
            node,
            offset,
            bytes,
            span,
            since: began,
            whole: true,
        });
        self.check(page_bytes)
    }

    /// A sync is done, and this is what the store has.
    pub fn end_sync(&mut self, node: u32, began: Tick, store: &[u8]) -> Result<(), Violation> {
        let ended = self.end();
        let span = Interval { began, ended };
        let whose = durable::Whose::Node(node);
        durable::check(&self.history, store, whose, span).map_or(Ok(()), Err)
    }

    /// Somebody died or was cut off: bytes may have been lost, and sessions told so.
    pub fn lose(&mut self) {
        self.history.lossy = true;
    }

    /// Nothing more will happen, and the store has this.
    pub fn close(&mut self, store: &[u8], page_bytes: u32) -> Result<(), Violation> {
        let began = self.begin();
        self.end_read((u32::MAX, 0), began, store.to_vec(), page_bytes)
    }

    fn check(&self, page_bytes: u32) -> Result<(), Violation> {
        let found = value::check(&self.history, page_bytes).or_else(|| order::check(&self.history));
        let found = found.or_else(|| self.mixed());
        found.map_or(Ok(()), Err)
    }

    /// The last read, if it shows two writes at once.
    fn mixed(&self) -> Option<Violation> {
        let read = self.history.reads.last()?;
        let one = read
            .bytes
            .iter()
            .all(|value| Some(value) == read.bytes.first());
        let judged = self.whole && !self.history.lossy && !one;
        judged.then(|| Violation::new("range", format!("a read shows two writes: {read:?}")))
    }

    /// Writes all that later checks depend on, and no more (see above).
    pub fn write_down(&self, words: &mut Words, open: &Open) {
        words.write_usize(self.history.changes.len());
        words.write_u8(u8::from(self.history.lossy));
        for change in &self.history.changes {
            (change.place.start, change.value).hash(words);
        }
        if self.history.lossy {
            return;
        }
        let births = self.history.changes.iter();
        let bytes = births.filter(|change| change.kind == model::ChangeKind::Birth);
        for at in bytes.flat_map(|birth| birth.place.clone()) {
            self.write_byte(at, &open.reads, words);
        }
        if open.promises || !open.syncs.is_empty() {
            self.write_promises(&open.syncs, words);
        }
    }

    /// The constraints on any order of the writes of a byte: which group must stand before which.
    fn write_byte(&self, at: u64, reads: &[Tick], words: &mut Words) {
        let groups: Vec<Group> = order::groups(&self.history, at).into_values().collect();
        for one in &groups {
            let before = |moment: Tick| one.first_end < moment;
            words.write_u8(u8::from(one.first_end == model::OPEN));
            words.write_u64(bits(groups.iter().map(|other| before(other.last_begin))));
            words.write_u64(bits(reads.iter().map(|&began| before(began))));
        }
    }

    /// Which writes a sync promises, and which of them are newer than which.
    fn write_promises(&self, syncs: &[Tick], words: &mut Words) {
        for change in &self.history.changes {
            let before = |moment: Tick| change.span.ended < moment;
            let later = self.history.changes.iter();
            words.write_u32(change.node);
            words.write_u8(u8::from(change.span.ended == model::OPEN));
            words.write_u64(bits(later.map(|other| before(other.span.began))));
            words.write_u64(bits(syncs.iter().map(|&began| before(began))));
        }
    }
}

/// Operations that have begun and not ended.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// When the reads among them began.
    pub reads: Vec<Tick>,
    /// When the syncs among them began.
    pub syncs: Vec<Tick>,
    /// More syncs may begin.
    pub promises: bool,
}

/// Answers as one word; a small world has fewer operations than a word has bits.
fn bits(answers: impl Iterator<Item = bool>) -> u64 {
    answers.fold(1, |word, answer| word << 1 | u64::from(answer))
}
