//! What the sessions of a small world have seen, held against the reference model.
//!
//! The history and its checks are those of the simulator. Only the count of moments differs: it goes on
//! when an operation begins after one has ended, or ends after one has begun. So two beginnings without
//! an end between them share a moment, and so do two ends.
//!
//! Why that is sound: every check compares an end with a beginning (one operation was over before
//! another began), never two ends or two beginnings, and ends get odd moments and beginnings even ones.

use super::words::{Kind, Words};
use crate::check::{Violation, durable, order, value};
use crate::model::{self, History, Interval, Read, Tick};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// The history of the file of a small world.
#[derive(Clone, Debug)]
pub struct Book {
    history: History,
    moment: u64,
}

impl Book {
    /// A file that begins with so many bytes of one value.
    pub fn new(size: u64) -> (Book, Vec<u8>) {
        let base = Kind::Moment.base();
        let history = History::born(size, Tick(base + 1), Tick(base + 3));
        let bytes = vec![history.changes[1].value; size as usize];
        let moment = 3;
        (Book { history, moment }, bytes)
    }

    /// An operation begins now.
    pub fn begin(&mut self) -> Tick {
        self.moment += self.moment % 2;
        Tick(Kind::Moment.base() + self.moment)
    }

    fn end(&mut self) -> Tick {
        self.moment += (self.moment + 1) % 2;
        Tick(Kind::Moment.base() + self.moment)
    }

    /// A write of one byte begins: its number and value.
    pub fn begin_write(&mut self, node: u32, at: u64) -> (usize, u8) {
        let value = self.history.next_value();
        let now = self.begin();
        let place = at..at + 1;
        let change = self
            .history
            .begin(node, model::Kind::Write, place, value, now);
        (change, value)
    }

    /// The write is done.
    pub fn end_write(&mut self, change: usize) {
        self.history.changes[change].span.ended = self.end();
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
        found.map_or(Ok(()), Err)
    }

    /// Writes all that later checks depend on. Of the reads of a value that is the first end and the
    /// last beginning (see [`order`]); once bytes may have been lost, only which values there are.
    pub fn write_down(&self, words: &mut Words, open: &[Tick]) {
        words.write_usize(self.history.changes.len());
        words.write_u8(u8::from(self.history.lossy));
        if self.history.lossy {
            return;
        }
        let zones = self.zones();
        let spans = self.history.changes.iter().map(|change| change.span);
        let of_changes = spans.flat_map(|span| [span.began, span.ended]);
        let of_reads = zones.values().flat_map(|&(ended, began)| [ended, began]);
        let all = open.iter().copied().chain(of_changes).chain(of_reads);
        let turns = Turns::of(all.collect());
        for &began in open {
            words.write_usize(turns.place(began));
        }
        for change in &self.history.changes {
            (change.node, change.place.start, change.value).hash(words);
            words.write_usize(turns.place(change.span.began));
            words.write_usize(turns.place(change.span.ended));
        }
        for (&(at, value), &(ended, began)) in &zones {
            (at, value, turns.place(ended), turns.place(began)).hash(words);
        }
    }

    fn zones(&self) -> BTreeMap<(u64, u8), (Tick, Tick)> {
        let mut zones: BTreeMap<(u64, u8), (Tick, Tick)> = BTreeMap::new();
        for read in &self.history.reads {
            for (at, &value) in (read.offset..).zip(&read.bytes) {
                let Interval { began, ended } = read.span;
                let zone = zones.entry((at, value)).or_insert((ended, began));
                *zone = (zone.0.min(ended), zone.1.max(began));
            }
        }
        zones
    }
}

/// Moments that still matter, in order. Where the end that stood between two beginnings is forgotten,
/// they count as one, and so do two ends.
struct Turns(Vec<(Tick, usize)>);

impl Turns {
    fn of(mut moments: Vec<Tick>) -> Turns {
        moments.sort_unstable();
        moments.dedup();
        let mut place = 0;
        let mut last = None;
        let placed = moments.into_iter().map(|moment| {
            let ends = moment.0 % 2;
            place += usize::from(last.is_some_and(|last| last != ends || moment == model::OPEN));
            last = Some(ends);
            (moment, place)
        });
        Turns(placed.collect())
    }

    fn place(&self, moment: Tick) -> usize {
        let at = self.0.binary_search_by_key(&moment, |&(known, _)| known);
        at.map_or(0, |at| self.0[at].1)
    }
}
