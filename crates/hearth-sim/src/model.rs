//! The reference: everything that sessions were told about one file, with the order in which
//! operations began and ended.
//!
//! Every write puts one byte value, used by no other write of the file, in all of its places, so a
//! byte that is read names its writer. Zero stands for holes and for what truncations cut away. The
//! checks in `check/` judge a history; this file only records it and answers who may be meant.

use hearth_proto::Semantics;
use std::ops::Range;

/// A point in the one order of everything that sessions see; each is given once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

/// An operation that never ended, or failed: it may take effect at any later time.
pub const OPEN: Tick = Tick(u64::MAX);

/// From the first to the last moment of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The session asked.
    pub began: Tick,
    /// The session had the answer.
    pub ended: Tick,
}

impl Interval {
    /// True if this was over before the other began.
    pub fn before(&self, other: &Interval) -> bool {
        self.ended < other.began
    }
}

/// The kind of a change of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The content at birth.
    Birth,
    /// A write.
    Write,
    /// A write at the end whose place is not known yet.
    Placeless,
    /// A truncation: zero from its place on.
    Cut,
}

/// One change of the content.
#[derive(Clone, Debug)]
pub struct Change {
    /// Node of the session.
    pub node: u32,
    /// Its kind.
    pub kind: ChangeKind,
    /// The bytes that it changed.
    pub place: Range<u64>,
    /// The value of every byte.
    pub value: u8,
    /// It was written at the end, wherever that was.
    pub append: bool,
    /// The last name of the file went meanwhile, or a node took it so: parts may have been written twice,
    /// or past the gateways.
    pub redone: bool,
    /// A flush or sync has said that the store has it.
    pub durable: bool,
    /// An agent died that may have been the only one to have it: it may be lost.
    pub doubtful: bool,
    /// It was under way when an agent died: until it ends a part of it may show.
    pub torn: bool,
    /// When.
    pub span: Interval,
    /// From when on other nodes must see it, if they look.
    pub published: Tick,
}

impl Change {
    /// True if it may have set the byte at `at`.
    pub fn may_cover(&self, at: u64) -> bool {
        self.kind == ChangeKind::Placeless || self.place.contains(&at)
    }

    /// True if it has set the byte at `at` by its end.
    pub fn covers(&self, at: u64) -> bool {
        self.kind != ChangeKind::Placeless && self.place.contains(&at)
    }
}

/// Bytes that a session was given.
#[derive(Clone, Debug)]
pub struct Read {
    /// Node of the session.
    pub node: u32,
    /// First byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// When.
    pub span: Interval,
    /// When its session last looked what others had published.
    pub since: Tick,
    /// The cache gave all of it in one answer.
    pub whole: bool,
}

/// Something that was said of the size.
#[derive(Clone, Copy, Debug)]
pub struct Sized {
    /// Node of the session.
    pub node: u32,
    /// At least this.
    pub low: u64,
    /// At most this.
    pub high: u64,
    /// When.
    pub span: Interval,
    /// The answer that said it, for people.
    pub by: &'static str,
}

/// The history of one file, from birth to its last close.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Changes in the order in which they began.
    pub changes: Vec<Change>,
    /// Reads in the order in which they ended.
    pub reads: Vec<Read>,
    /// Reports of the size.
    pub sizes: Vec<Sized>,
    /// Bytes may have been lost and the sessions were told: old values may show again.
    pub lossy: bool,
    /// Nodes have lost each other: of its size some may be told what the store has (S13), and what was read of a write
    /// that was not acknowledged may be gone.
    pub parted: bool,
    /// Somebody was told so by name.
    pub told: bool,
    /// Reads are held to what was sealed, whatever else is lost.
    pub strict: bool,
    /// Closes that sealed what a node had written.
    pub sealed: Vec<(u32, Interval)>,
    /// When what a node had written and not sealed was lost: it was told so, or was itself gone.
    pub unsealed_lost: Vec<(u32, Tick)>,
    /// The semantics that the sessions are promised.
    pub semantics: Semantics,
    /// The file was laminated.
    pub laminated: Option<Interval>,
    values: u8,
}

impl History {
    /// A file that is born with `size` bytes of one value, first a hole, then the bytes.
    pub fn born(size: u64, hole: Tick, bytes: Tick) -> History {
        let mut history = History::default();
        let everywhere = 0..u64::MAX;
        history.begin(u32::MAX, ChangeKind::Cut, everywhere, 0, hole);
        let value = history.next_value();
        history.begin(u32::MAX, ChangeKind::Birth, 0..size, value, bytes);
        for change in &mut history.changes {
            change.span.ended = change.span.began;
            change.published = change.span.began;
        }
        history
    }

    /// True if another write can be told apart from all others.
    pub fn has_values(&self) -> bool {
        self.values < u8::MAX
    }

    /// The value of the next write.
    pub fn next_value(&mut self) -> u8 {
        self.values += 1;
        self.values
    }

    /// A change begins; returns its number.
    pub fn begin(
        &mut self,
        node: u32,
        kind: ChangeKind,
        place: Range<u64>,
        value: u8,
        at: Tick,
    ) -> usize {
        let span = Interval {
            began: at,
            ended: OPEN,
        };
        self.changes.push(Change {
            node,
            kind,
            place,
            value,
            append: false,
            redone: false,
            durable: false,
            doubtful: false,
            torn: false,
            span,
            published: OPEN,
        });
        self.changes.len() - 1
    }

    /// Changes other than holes that gave the byte at `at` this value.
    pub fn writers(&self, at: u64, value: u8) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(move |change| change.value == value && change.may_cover(at))
    }

    /// True if `change` was overwritten at `at` by something that came after it and that the read must
    /// see.
    pub fn overwritten(&self, change: &Change, at: u64, read: &Read) -> bool {
        let sure = self.changes.iter().filter(|later| !later.doubtful);
        sure.filter(|later| later.covers(at))
            .any(|later| comes_before(change, later) && must_see(read, later))
    }

    /// An agent dies: nobody may have what the store was not said to have. Truncations are made there.
    pub fn doubt(&mut self) {
        for change in &mut self.changes {
            let is_there = change.durable || change.kind == ChangeKind::Cut;
            let is_over = change.span.ended != OPEN;
            change.doubtful |= is_over && !is_there && change.node != u32::MAX;
            change.torn |= !is_over;
        }
        self.told = true;
    }

    /// The store was said to have what these nodes had written before.
    pub fn confirm(&mut self, node: Option<u32>, span: &Interval) {
        for change in &mut self.changes {
            let its = node.is_none_or(|node| node == change.node);
            change.durable |= its && change.span.before(span);
        }
    }

    /// True if a close that was over before `now` had sealed a change: other nodes had shards of it, or the store had it.
    pub fn is_sealed(&self, change: &Change, now: &Interval) -> bool {
        let lost = |end: Tick| {
            let mut losses = self.unsealed_lost.iter();
            losses.any(|&(node, at)| node == change.node && change.span.began < at && at < end)
        };
        let mut seals = self.sealed.iter();
        seals.any(|(node, span)| {
            *node == change.node
                && change.span.before(span)
                && span.before(now)
                && !lost(span.ended)
        })
    }

    /// True if a read misses, at `at`, what was sealed after `change` and before the read.
    pub fn misses_sealed(&self, change: &Change, at: u64, read: &Read) -> bool {
        let sealed = |later: &Change| {
            later.covers(at) && comes_before(change, later) && self.is_sealed(later, &read.span)
        };
        self.strict && !self.told && self.changes.iter().any(sealed)
    }

    /// A change is over.
    pub fn end(&mut self, change: usize, at: Tick) {
        let change = &mut self.changes[change];
        change.span.ended = at;
        let at_once = match self.semantics {
            Semantics::Posix | Semantics::MpiAtomic | Semantics::Job => true,
            // Of truncations and of others there is no close.
            Semantics::Mpi | Semantics::Cto => {
                change.kind == ChangeKind::Cut || change.node == u32::MAX
            }
            Semantics::Commit | Semantics::Laminated => false,
        };
        if at_once {
            change.published = at;
        }
    }

    /// A node has closed, or synced, within `span`: what it wrote before that is published.
    pub fn publish(&mut self, node: u32, span: Interval) {
        match self.semantics {
            Semantics::Mpi | Semantics::Cto => {}
            Semantics::Posix
            | Semantics::MpiAtomic
            | Semantics::Job
            | Semantics::Commit
            | Semantics::Laminated => return,
        }
        for change in self.changes.iter_mut().filter(|change| change.node == node) {
            if change.span.before(&span) && change.published == OPEN {
                change.published = span.ended;
            }
        }
    }

    /// The file was laminated: all that came before is published.
    pub fn laminate(&mut self, span: Interval) {
        self.laminated = Some(span);
        for change in &mut self.changes {
            if change.span.ended != OPEN {
                change.published = change.published.min(span.ended);
            }
        }
    }

    /// The sizes that an observation made on a node within `now` may report: least and greatest. If writers
    /// gather, bytes that others have not published count as on their way.
    pub fn sizes(&self, node: u32, now: &Interval) -> (u64, u64) {
        let mut bounds: Option<(u64, u64)> = None;
        for base in self.bases(now) {
            let end = |c: &&Change| c.place.end;
            let grows = |c: &&Change| matches!(c.kind, ChangeKind::Write | ChangeKind::Birth);
            let start = base.place.start;
            let sure = self
                .changes
                .iter()
                .filter(grows)
                .filter(|c| base.span.ended <= c.span.began && self.shows(c, node, now))
                .filter(|c| !c.doubtful)
                .map(|c| end(&c))
                .max()
                .unwrap_or(0);
            let possible = self
                .changes
                .iter()
                .filter(|c| {
                    matches!(
                        c.kind,
                        ChangeKind::Write | ChangeKind::Birth | ChangeKind::Placeless
                    )
                })
                .filter(|c| c.span.began < now.ended && !c.span.before(&base.span))
                .map(|c| end(&c))
                .max()
                .unwrap_or(0);
            let (low, high) = (start.max(sure), start.max(possible));
            bounds = Some(match bounds {
                Some((l, h)) => (l.min(low), h.max(high)),
                None => (low, high),
            });
        }
        bounds.unwrap_or((0, u64::MAX))
    }

    /// True if an observation on a node must heed what was written.
    fn shows(&self, change: &Change, node: u32, now: &Interval) -> bool {
        let gathered =
            self.semantics.gathers() && change.node != node && change.kind == ChangeKind::Write;
        match gathered {
            true => change.published < now.began,
            false => change.span.before(now),
        }
    }

    /// Truncations that may be the last one for an observer within `now`.
    fn bases(&self, now: &Interval) -> impl Iterator<Item = &Change> {
        let cuts = || self.changes.iter().filter(|c| c.kind == ChangeKind::Cut);
        cuts().filter(move |cut| {
            cut.span.began < now.ended
                && !cuts().any(|later| cut.span.before(&later.span) && later.span.before(now))
        })
    }
}

/// True if the order of two changes is promised, this one first.
pub(crate) fn comes_before(change: &Change, later: &Change) -> bool {
    match change.node == later.node {
        true => change.span.before(&later.span),
        false => change.published < later.span.began,
    }
}

/// True if a read may not miss a change: its own node's, or one that was published before it looked.
fn must_see(read: &Read, change: &Change) -> bool {
    match change.node == read.node {
        true => change.span.before(&read.span),
        false => change.published < read.since,
    }
}
