//! Reading ahead: what a handle will read next is asked for before it is needed.
//!
//! Invariants:
//! - AHEAD-1: a page that comes without a read that waits for it is a copy as any other. Its home remembers who has
//!   it, and calls it back (I3). One that may be used only once is dropped.
//! - AHEAD-2: one handle has at most its window beyond its last read asked for or here. No window is larger than an
//!   eighth of the frames that can be had.
//! - AHEAD-3: nothing is asked for beyond the end, nor of a file that another node may write.
//! - AHEAD-4: nothing is asked for of a page that is gathered or being scattered. Its home has older bytes, and the
//!   copy would stay when the gathered ones are there.
//!
//! [`Ahead`] is told of reads, and says what to ask for. Reads are in order if each begins in the last page of
//! the one before or behind it. Some that overtake each other, within the window, are so too. The window doubles
//! with each request, from a few pages on. It is halved by a page that was asked for in vain: one that was passed
//! over, or had gone again when it was read.

use super::read::Found;
use super::{Desk, File, What, home_of};
use crate::config::{Config, Copies};
use crate::ids::{FileId, Handle, NodeId};
use crate::msg::Body;
use alloc::vec::Vec;
use core::ops::Range;

/// Pages of a first window, and of the largest.
const WINDOW_PAGES: (u32, u32) = (4, 64);

/// Bytes of one request: what comes first can be used first, and other answers come between.
const REQUEST_BYTES: u32 = 1 << 20;

/// Reads after which they count as in order.
const IN_ORDER: u32 = 2;

/// How a handle is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ahead {
    /// The page behind the last read.
    next: u64,
    /// Reads in order so far, up to [`IN_ORDER`].
    reads: u32,
    /// The page behind the last that was asked for.
    end: u64,
    /// Pages that were last asked for, or may be next; 0 before the first.
    window: u32,
}

impl Ahead {
    /// A read of pages `first..end`. Says which to ask for, given how many that may be at `most`.
    fn read(&mut self, first: u64, end: u64, most: u32) -> Range<u64> {
        let is_next = first <= self.end.max(self.next) && first + 1 >= self.next;
        if !is_next {
            let is_late =
                self.reads == IN_ORDER && first < self.next && end + u64::from(most) >= self.next;
            if !is_late {
                self.jump(end);
            }
            return end..end;
        }
        if end <= self.next {
            return end..end;
        }
        self.next = end;
        self.reads = (self.reads + 1).min(IN_ORDER);
        let left = self.end.saturating_sub(end);
        if self.reads < IN_ORDER || left * 2 > u64::from(self.window) {
            return end..end;
        }
        let (least, largest) = WINDOW_PAGES;
        let most = most.min(largest);
        self.window = (self.window * 2).max(least).min(most);
        let from = self.end.max(end);
        self.end = (end + u64::from(self.window)).max(from);
        from..self.end
    }

    /// The next read is elsewhere.
    fn jump(&mut self, end: u64) {
        // Pages that were asked for beyond the last read were in vain; the next request doubles what is left.
        if self.end > self.next {
            self.window /= 4;
        }
        *self = Ahead {
            next: end,
            reads: 1,
            end,
            window: self.window,
        };
    }

    /// A page that had been asked for had gone again before it was read.
    fn lost(&mut self) {
        self.window /= 4;
        self.end = self.next;
    }

    /// Whether the page was asked for ahead, and not read since.
    fn expects(&self, page: u64) -> bool {
        (self.next..self.end).contains(&page)
    }
}

/// Pages that may be asked for at once.
fn most(config: &Config, spare: u32) -> u32 {
    (config.ahead_bytes / config.page_bytes).min(spare / 8)
}

impl Desk<'_, '_> {
    /// Notes that a page of a read was asked for in vain, before it is asked for again.
    pub(super) fn miss_ahead(&mut self, handle: Handle, offset: u64, len: u32) {
        let Some(opened) = self.client.handles.get_mut(&handle) else {
            return;
        };
        let Some(file) = self.client.files.get(&opened.file) else {
            return;
        };
        let page = self.ctx.config.page_of(offset);
        let copy = file.copies.get(&page);
        let is_here = copy.is_some_and(|copy| self.ctx.frames.valid(copy.slot));
        let is_ours = home_of(self.ctx.config, opened.file, file, page) == Some(self.ctx.me());
        if len > 0
            && opened.ahead.expects(page)
            && !is_here
            && !is_ours
            && !file.wants.contains_key(&page)
        {
            opened.ahead.lost();
        }
    }

    /// Asks for what a handle will read next.
    pub(super) fn read_ahead(&mut self, handle: Handle, offset: u64, len: u32) {
        let most = most(self.ctx.config, self.ctx.frames.spare());
        let Some(opened) = self.client.handles.get_mut(&handle) else {
            return;
        };
        let id = opened.file;
        let Some(file) = self.client.files.get(&id) else {
            return;
        };
        let rules = self.ctx.config.rules();
        let keeps = rules.copies == Copies::Many && rules.bank.is_none();
        let end = (offset + u64::from(len)).min(file.size);
        if most == 0 || !keeps || !file.is_quiet() || end <= offset {
            return;
        }
        let (first, count) = self.ctx.config.pages_of(offset, end - offset);
        let pages = opened.ahead.read(first, first + u64::from(count), most);
        let pages = pages.start..pages.end.min(self.ctx.config.page_of(file.size - 1) + 1);
        for (home, first, count) in self.lacking(id, pages) {
            self.ask_ahead(id, home, (first, count));
        }
    }

    /// Runs of pages that are neither here nor asked for, by home.
    fn lacking(&self, id: FileId, pages: Range<u64>) -> Vec<(NodeId, u64, u32)> {
        let config = self.ctx.config;
        let full = (REQUEST_BYTES / config.page_bytes).max(1);
        let mut runs: Vec<(NodeId, u64, u32)> = Vec::new();
        let Some(file) = self.client.files.get(&id) else {
            return runs;
        };
        for page in pages {
            let copy = file.copies.get(&page);
            let is_here = copy.is_some_and(|copy| self.ctx.frames.valid(copy.slot));
            let home = home_of(config, id, file, page);
            let home = home.filter(|&home| home != self.ctx.me() && !self.ctx.peers.is_down(home));
            let lacks = !is_here && !file.wants.contains_key(&page);
            let lacks = lacks && !file.gathering.touches(page, 1);
            let Some(home) = home.filter(|_| lacks) else {
                continue;
            };
            match runs.last_mut() {
                Some((last, first, count))
                    if *last == home && *first + u64::from(*count) == page && *count < full =>
                {
                    *count += 1;
                }
                Some(_) | None => runs.push((home, page, 1)),
            }
        }
        runs
    }

    fn ask_ahead(&mut self, id: FileId, home: NodeId, (first, count): (u64, u32)) {
        let Some(file) = self.client.files.get(&id) else {
            return;
        };
        let body = Body::Read {
            first,
            count,
            keep: false,
            record: file.semantics.is_recorded(),
            aside: false,
            skip: 0,
            spare: 0,
            here: false,
        };
        let seq = self.ask(home, id, body, What::Pages, Vec::new());
        for page in first..first + u64::from(count) {
            self.want(id, page, seq, (Vec::new(), false));
        }
    }

    /// A page came that nobody waited for: the read that uses it first counts where it was.
    pub(super) fn came_ahead(&mut self, id: FileId, page: u64, found: Option<Found>) {
        let copies = self.client.files.get_mut(&id).map(|file| &mut file.copies);
        if let Some(copy) = copies.and_then(|copies| copies.get_mut(&page)) {
            copy.unread = found;
        }
    }
}

impl File {
    /// No node writes it, as far as this one knows.
    fn is_quiet(&self) -> bool {
        self.exact && !self.bypass && !self.orphan && self.writes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of one page each; what each asks for.
    fn asked(ahead: &mut Ahead, pages: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let each = pages
            .into_iter()
            .map(|page| ahead.read(page, page + 1, 1000));
        each.filter(|range| !range.is_empty())
            .map(|range| (range.start, range.end))
            .collect()
    }

    #[test]
    fn the_window_doubles_while_reads_go_on_and_no_page_is_asked_for_twice() {
        let mut ahead = Ahead::default();
        let asked = asked(&mut ahead, 0..200);
        assert_eq!(asked[..4], [(2, 6), (6, 12), (12, 24), (24, 48)]);
        let largest = asked.iter().map(|(start, end)| end - start).max();
        assert!(largest <= Some(64), "{asked:?}");
        let gaps = asked.windows(2).filter(|two| two[0].1 != two[1].0);
        assert_eq!(gaps.count(), 0, "{asked:?}");
    }

    #[test]
    fn reads_within_one_page_are_one_step() {
        let mut ahead = Ahead::default();
        assert_eq!(asked(&mut ahead, [0; 100]), []);
        assert_eq!(asked(&mut ahead, [1, 1, 1]), [(2, 6)]);
    }

    #[test]
    fn reads_here_and_there_ask_for_nothing() {
        let mut ahead = Ahead::default();
        assert_eq!(asked(&mut ahead, (0..100).map(|n| n * 37 % 1000)), []);
        // Backwards is no order, either.
        assert_eq!(asked(&mut ahead, (0..500).rev()), []);
    }

    #[test]
    fn what_was_asked_for_in_vain_halves_the_window() {
        let mut ahead = Ahead::default();
        asked(&mut ahead, 0..60);
        let before = ahead.window;
        assert_eq!(before, 64);
        let again = asked(&mut ahead, 1000..1002);
        assert_eq!(again, [(1002, 1034)]);
        ahead.lost();
        let again = asked(&mut ahead, [1002]);
        assert_eq!(again, [(1003, 1019)]);
    }

    #[test]
    fn reads_that_overtake_each_other_within_the_window_are_in_order() {
        let mut ahead = Ahead::default();
        asked(&mut ahead, 0..20);
        let before = ahead.clone();
        assert_eq!(asked(&mut ahead, [21, 20, 22]).len(), 0);
        assert_eq!((ahead.window, ahead.next), (before.window, 23));
    }

    #[test]
    fn a_window_is_no_larger_than_there_is_room() {
        let mut ahead = Ahead::default();
        for page in 0..50 {
            let asked = ahead.read(page, page + 1, 3);
            assert!(asked.end - asked.start <= 3, "{asked:?}");
        }
        let mut ahead = Ahead::default();
        (0..50).for_each(|page| assert!(ahead.read(page, page + 1, 0).is_empty()));
    }
}
