//! Pages as the kernel got them, of files that a program here may store into through a mapping.
//!
//! A program's store makes a page of the kernel's dirty, and the kernel brings all of the page back. Meanwhile others may
//! have written other bytes of it, here by a call or on another node. So the page is held against the one that the kernel
//! was given, its *base*, and the bytes that differ are written alone.
//!
//! Invariant BASE-1: a base is what the kernel's page held when it was last clean. A read for the kernel sets it, or takes
//! it away where nobody has the file open for writing. A page that comes back sets it. A truncation takes it away, as the
//! kernel clears the rest of the page by itself; so does a write that failed.
//!
//! A page without a base is written as a whole.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// The kernel's pages.
const PAGE: usize = 4096;
/// Bases that are kept: 16 MiB. The oldest give way.
const BASES_MAX: usize = 4096;
/// Runs of bytes that one page, or a run of pages, is written in. More are joined, those with the least between them first.
const RUNS_MAX: usize = 64;

type Place = (u64, u64);

/// The bases of one mount, by node and number of the page.
#[derive(Default)]
pub(crate) struct Bases {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    pages: BTreeMap<Place, Box<[u8]>>,
    /// The order in which they came; some are gone since.
    order: VecDeque<Place>,
}

impl Bases {
    /// The kernel is about to be given these bytes, from a page's start.
    pub(crate) fn given(&self, node: u64, offset: u64, pieces: &[&[u8]], may_be_stored: bool) {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut table = self.lock();
        if !may_be_stored {
            return table.forget(node, pages_of(offset, len));
        }
        let whole;
        let bytes = match pieces {
            [one] => *one,
            pieces => {
                whole = pieces.concat();
                &whole[..]
            }
        };
        table.set(node, offset, bytes);
    }

    /// Pages have come back: the runs of them that are to be written. They are the bases from here on.
    pub(crate) fn changed(&self, node: u64, offset: u64, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut table = self.lock();
        let mut runs = Vec::new();
        for (page, at) in pages_of(offset, bytes.len()).zip((0..).step_by(PAGE)) {
            let here = &bytes[at..bytes.len().min(at + PAGE)];
            match table.pages.get(&(node, page)) {
                Some(base) => push_changes(&mut runs, at, base, here),
                None => push(&mut runs, at..at + here.len()),
            }
        }
        table.set(node, offset, bytes);
        join(&mut runs);
        runs
    }

    /// The kernel changes pages from here on by itself, or their write has failed.
    pub(crate) fn forget(&self, node: u64, offset: u64, len: usize) {
        self.lock().forget(node, pages_of(offset, len));
    }

    /// The same for all pages that end behind a size.
    pub(crate) fn forget_from(&self, node: u64, size: u64) {
        self.lock().forget(node, size / PAGE as u64..u64::MAX);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nothing panics under this lock")
    }
}

impl Table {
    fn set(&mut self, node: u64, offset: u64, bytes: &[u8]) {
        for (page, here) in pages_of(offset, bytes.len()).zip(bytes.chunks(PAGE)) {
            let mut base = here.to_vec();
            base.resize(PAGE, 0);
            if self.pages.insert((node, page), base.into()).is_none() {
                self.order.push_back((node, page));
            }
        }
        while self.pages.len() > BASES_MAX {
            let oldest = self.order.pop_front();
            oldest.and_then(|place| self.pages.remove(&place));
        }
        if self.order.len() > 2 * BASES_MAX {
            let pages = &self.pages;
            self.order.retain(|place| pages.contains_key(place));
        }
    }

    fn forget(&mut self, node: u64, pages: Range<u64>) {
        let range = (node, pages.start)..(node, pages.end);
        let gone: Vec<Place> = self.pages.range(range).map(|(&place, _)| place).collect();
        for place in gone {
            self.pages.remove(&place);
        }
    }
}

fn pages_of(offset: u64, len: usize) -> Range<u64> {
    let first = offset / PAGE as u64;
    first..first + len.div_ceil(PAGE) as u64
}

/// Adds the runs in which a page differs from its base.
fn push_changes(runs: &mut Vec<Range<usize>>, at: usize, base: &[u8], here: &[u8]) {
    let differs = |byte: &usize| here[*byte] != base[*byte];
    let mut next = 0;
    while let Some(start) = (next..here.len()).find(differs) {
        let end = (start..here.len()).find(|byte| !differs(byte));
        next = end.unwrap_or(here.len());
        push(runs, at + start..at + next);
    }
}

/// Adds a run, to the last one if that touches it.
fn push(runs: &mut Vec<Range<usize>>, run: Range<usize>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Joins runs until there are few.
fn join(runs: &mut Vec<Range<usize>>) {
    let Some(excess) = runs
        .len()
        .checked_sub(RUNS_MAX)
        .filter(|&excess| excess > 0)
    else {
        return;
    };
    let gaps = runs.windows(2).map(|pair| pair[1].start - pair[0].end);
    let mut gaps: Vec<(usize, usize)> = gaps.zip(1..).collect();
    gaps.sort_unstable();
    let mut joined: Vec<usize> = gaps[..excess].iter().map(|&(_, at)| at).collect();
    joined.sort_unstable();
    for at in joined.into_iter().rev() {
        runs[at - 1].end = runs[at].end;
        runs.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: u64 = 7;

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; PAGE]
    }

    fn one(run: Range<usize>) -> Vec<Range<usize>> {
        std::iter::once(run).collect()
    }

    #[test]
    fn bytes_that_differ_from_the_base_are_written_alone() {
        let bases = Bases::default();
        let both = [page(1), page(2)].concat();
        bases.given(NODE, PAGE as u64, &[&both[..5000], &both[5000..]], true);
        let mut back = both.clone();
        back[10..14].fill(9);
        back[PAGE - 1..PAGE + 2].fill(9);
        let changed = || bases.changed(NODE, PAGE as u64, &back);
        assert_eq!(changed(), [10..14, PAGE - 1..PAGE + 2]);
        assert!(changed().is_empty(), "they are the base now");
    }

    #[test]
    fn a_page_without_a_base_is_written_as_a_whole() {
        let bases = Bases::default();
        let back = page(3);
        assert_eq!(bases.changed(NODE, 0, &back[..100]), one(0..100));
        let forgets: [&dyn Fn(); 3] = [
            &|| bases.given(NODE, 0, &[&page(3)], false),
            &|| bases.forget(NODE, 0, 1),
            &|| bases.forget_from(NODE, 5),
        ];
        for forget in forgets {
            bases.given(NODE, 0, &[&back], true);
            forget();
            assert_eq!(bases.changed(NODE, 0, &back), one(0..PAGE));
        }
        bases.given(NODE, 0, &[&back], true);
        bases.forget_from(NODE, PAGE as u64);
        bases.forget_from(NODE + 1, 0);
        assert!(bases.changed(NODE, 0, &back).is_empty());
    }

    #[test]
    fn a_short_page_ends_in_zeros() {
        let bases = Bases::default();
        bases.given(NODE, 0, &[b"abc"], true);
        let mut back = page(0);
        back[..3].copy_from_slice(b"abc");
        back[200] = 1;
        assert_eq!(bases.changed(NODE, 0, &back), one(200..201));
    }

    #[test]
    fn many_runs_are_joined_where_the_least_lies_between() {
        let bases = Bases::default();
        bases.given(NODE, 0, &[&page(0)], true);
        let mut back = page(0);
        (0..PAGE).step_by(40).for_each(|at| back[at] = 1);
        (0..PAGE).step_by(400).for_each(|at| back[at + 2] = 1);
        let runs = bases.changed(NODE, 0, &back);
        assert_eq!(runs.len(), RUNS_MAX);
        assert_eq!(runs[0].start, 0);
        assert!((0..PAGE).all(|at| back[at] == 0 || runs.iter().any(|run| run.contains(&at))));
        assert!(
            runs.iter()
                .filter(|run| run.start % 400 == 0)
                .all(|run| run.len() >= 3)
        );
    }

    #[test]
    fn the_oldest_give_way() {
        let bases = Bases::default();
        for number in 0..=BASES_MAX as u64 {
            bases.given(NODE, number * PAGE as u64, &[&page(1)], true);
        }
        assert_eq!(bases.changed(NODE, 0, &page(1)), one(0..PAGE));
        let last = (BASES_MAX * PAGE) as u64;
        assert!(bases.changed(NODE, last, &page(1)).is_empty());
    }
}
