//! Miss-ratio curves: what a pool of any size would have served, from a sample of the pages.
//!
//! A page is looked at if its hash is below a threshold. The threshold falls whenever the sample
//! outgrows its bound, so memory is fixed and the error stays below a few percent (the method is
//! known as SHARDS). The distance of a use is the number of other pages used since the page's last
//! one: a pool that holds more pages than that, and drops the least recently used one, has it.

use crate::latency::{CELLS, Latency, bounds, cell};
use crate::mix::{MixMap, mix};

/// Bytes in a page of the curves.
pub(crate) const PAGE: u64 = 256 << 10;
/// Parts of a page whose reads are told apart.
const PART: u64 = PAGE / 64;
/// Pages in the sample of one class.
const SAMPLE_MAX: usize = 8192;
/// Times in the tree before they are numbered anew.
const TIMES: usize = 4 * SAMPLE_MAX;
const HASH_BITS: u32 = 32;
const HASH_MASK: u64 = (1 << HASH_BITS) - 1;
/// Uses that wait for their turn.
const WAITING_MAX: usize = 1 << 18;
/// Powers of two of distances, in pages.
const OCTAVES: usize = 40;
/// Pages of one access that are looked at.
const PAGES_MAX: u64 = 4096;

/// Which files are one class.
pub(crate) const CLASSES_MAX: usize = 64;

#[derive(Debug)]
struct Seen {
    time: usize,
    /// The parts that were read or written.
    parts: u64,
}

/// The pages of one class of files.
#[derive(Debug)]
pub(crate) struct Reuse {
    threshold: u64,
    pages: MixMap<u64, Seen>,
    tree: Tree,
    now: usize,
    /// Uses by distance, each counted for all that its sample stands for.
    distances: Vec<f64>,
    /// Uses of pages for the first time.
    pub(crate) first: f64,
    /// Times of reads of the same bytes again, by octave of distance.
    again: Vec<Option<Box<Latency>>>,
    pub(crate) bytes_again: f64,
}

/// One access, as the curves see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) start: i64,
    pub(crate) class: u16,
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) took: u64,
    pub(crate) is_read: bool,
}

/// A use of one page.
#[derive(Clone, Copy, Debug)]
struct Visit {
    start: i64,
    key: u64,
    parts: u64,
    took: u64,
    bytes: u32,
    class: u16,
    is_read: bool,
    /// The thread's last use of the file was of this page as well.
    is_same: bool,
}

/// The curves of all classes. Uses come by thread and are taken by time.
#[derive(Debug, Default)]
pub(crate) struct Curves {
    pub(crate) classes: Vec<Reuse>,
    waiting: Vec<Visit>,
}

impl Curves {
    /// Takes one access; `last_page` is the thread's last page in the file, and becomes the new one.
    pub(crate) fn add(&mut self, used: Use, last_page: &mut u64) {
        if used.bytes == 0 {
            return;
        }
        let class = usize::from(used.class);
        while self.classes.len() <= class {
            self.classes.push(Reuse::default());
        }
        let threshold = self.classes[class].threshold;
        let end = used.offset.saturating_add(used.bytes - 1);
        let (first, last) = (used.offset / PAGE, end / PAGE);
        for page in first..=last.min(first + PAGES_MAX - 1) {
            let key = mix(u64::from(used.file) << 40 ^ page);
            let is_same = page == *last_page;
            *last_page = page;
            if key & HASH_MASK < threshold {
                self.waiting.push(used.visit(page, key, is_same));
            }
        }
        if self.waiting.len() >= WAITING_MAX {
            self.take(WAITING_MAX / 2);
        }
    }

    /// Takes all that waits.
    pub(crate) fn finish(&mut self) {
        self.take(self.waiting.len());
    }

    /// Takes the earliest of what waits.
    fn take(&mut self, count: usize) {
        // Each thread's uses are in order, and this sort makes use of runs.
        self.waiting.sort_by_key(|visit| visit.start);
        for visit in self.waiting.drain(..count) {
            self.classes[usize::from(visit.class)].add(visit);
        }
    }
}

impl Use {
    fn visit(&self, page: u64, key: u64, is_same: bool) -> Visit {
        let from = self.offset.max(page * PAGE);
        let page_end = (page + 1).saturating_mul(PAGE);
        let to = self.offset.saturating_add(self.bytes).min(page_end);
        let share = (to - from) as f64 / self.bytes as f64;
        Visit {
            start: self.start,
            key,
            parts: mask((from - page * PAGE) / PART, (to - 1 - page * PAGE) / PART),
            took: (self.took as f64 * share) as u64,
            bytes: (to - from) as u32,
            class: self.class,
            is_read: self.is_read,
            is_same,
        }
    }
}

impl Default for Reuse {
    fn default() -> Reuse {
        let mut again = Vec::new();
        again.resize_with(OCTAVES, || None);
        Reuse {
            threshold: 1 << HASH_BITS,
            pages: MixMap::default(),
            tree: Tree(vec![0; TIMES + 1]),
            now: 0,
            distances: vec![0.0; CELLS],
            first: 0.0,
            again,
            bytes_again: 0.0,
        }
    }
}

impl Reuse {
    fn weight(&self) -> f64 {
        (1u64 << HASH_BITS) as f64 / self.threshold as f64
    }

    fn add(&mut self, visit: Visit) {
        // The threshold may have fallen while it waited.
        if visit.key & HASH_MASK >= self.threshold {
            return;
        }
        let weight = self.weight();
        let Some(seen) = self.pages.get_mut(&visit.key) else {
            self.first += weight;
            self.remember(visit.key, visit.parts);
            return;
        };
        let is_again = seen.parts & visit.parts == visit.parts;
        seen.parts |= visit.parts;
        let time = seen.time;
        if visit.is_same {
            return;
        }
        let others = self.pages.len() - self.tree.up_to(time);
        let distance = others as f64 * weight;
        self.distances[cell(distance as u64)] += weight;
        if is_again && visit.is_read {
            self.bytes_again += f64::from(visit.bytes) * weight;
            let octave = (distance.max(1.0).log2() as usize).min(OCTAVES - 1);
            let again = self.again[octave].get_or_insert_default();
            again.add_many(visit.took, weight as u32);
        }
        self.refresh(visit.key);
    }

    fn remember(&mut self, key: u64, parts: u64) {
        let time = self.tick();
        self.pages.insert(key, Seen { time, parts });
        self.tree.add(time, 1);
        if self.pages.len() > SAMPLE_MAX {
            self.thin();
        }
    }

    fn refresh(&mut self, key: u64) {
        // Time may be numbered anew, so the page's old time is looked up after that.
        let now = self.tick();
        if let Some(seen) = self.pages.get_mut(&key) {
            self.tree.add(seen.time, -1);
            self.tree.add(now, 1);
            seen.time = now;
        }
    }

    fn tick(&mut self) -> usize {
        if self.now == TIMES {
            self.renumber();
        }
        self.now += 1;
        self.now
    }

    /// Halves the sample.
    fn thin(&mut self) {
        self.threshold /= 2;
        let threshold = self.threshold;
        self.pages.retain(|key, _| key & HASH_MASK < threshold);
        self.renumber();
    }

    fn renumber(&mut self) {
        let mut order: Vec<&mut Seen> = self.pages.values_mut().collect();
        order.sort_unstable_by_key(|seen| seen.time);
        self.tree.0.fill(0);
        self.now = order.len();
        for (index, seen) in order.into_iter().enumerate() {
            seen.time = index + 1;
            self.tree.add(seen.time, 1);
        }
    }

    /// Uses of pages, first ones counted.
    pub(crate) fn uses(&self) -> f64 {
        self.first + self.distances.iter().sum::<f64>()
    }

    /// Share of the uses that miss in a pool of so many pages.
    pub(crate) fn miss_ratio(&self, pages: f64) -> f64 {
        let hits: f64 = (0..CELLS)
            .map(|cell| self.distances[cell] * below(cell, pages))
            .sum();
        1.0 - hits / self.uses().max(1.0)
    }

    /// Pages that were used at all.
    pub(crate) fn footprint(&self) -> f64 {
        self.pages.len() as f64 * self.weight()
    }

    /// Reads of the same bytes again: pages needed to hold them, and their times.
    pub(crate) fn again(&self) -> impl Iterator<Item = (f64, &Latency)> {
        let octaves = self.again.iter().enumerate();
        octaves.filter_map(|(octave, cell)| {
            Some((f64::powi(2.0, octave as i32 + 1), cell.as_deref()?))
        })
    }
}

/// The share of a cell's distances that is below `pages`.
fn below(cell: usize, pages: f64) -> f64 {
    let (from, to) = bounds(cell);
    ((pages - from) / (to - from)).clamp(0.0, 1.0)
}

fn mask(first: u64, last: u64) -> u64 {
    let count = last - first + 1;
    let ones = if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    };
    ones << first
}

/// Counts by time, and their sums (a Fenwick tree).
#[derive(Debug)]
struct Tree(Vec<i32>);

impl Tree {
    fn add(&mut self, mut at: usize, count: i32) {
        while at < self.0.len() {
            self.0[at] += count;
            at += at & at.wrapping_neg();
        }
    }

    fn up_to(&self, mut at: usize) -> usize {
        let mut sum = 0;
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum as usize
    }
}

/// The class of a file: its path with every number replaced.
pub(crate) fn class_name(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    for char in path.chars() {
        match char {
            '0'..='9' if name.ends_with('#') => {}
            '0'..='9' => name.push('#'),
            _ => name.push(char),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `pages` pages in a circle, `rounds` times, each page with one call.
    fn circle(pages: u64, rounds: u64) -> Reuse {
        let mut curves = Curves::default();
        let mut last_page = u64::MAX;
        for (time, page) in (0..rounds).flat_map(|_| 0..pages).enumerate() {
            let used = Use {
                start: time as i64,
                class: 0,
                file: 1,
                offset: page * PAGE,
                bytes: PAGE,
                took: 1000,
                is_read: true,
            };
            curves.add(used, &mut last_page);
        }
        curves.finish();
        curves.classes.remove(0)
    }

    #[test]
    fn a_circle_hits_only_in_a_pool_that_holds_all_of_it() {
        for pages in [100, 50_000] {
            let reuse = circle(pages, 4);
            let pages = pages as f64;
            assert!(
                (reuse.footprint() / pages - 1.0).abs() < 0.05,
                "{}",
                reuse.footprint()
            );
            assert!(reuse.miss_ratio(pages * 0.8) > 0.97);
            let large = reuse.miss_ratio(pages * 1.2);
            assert!((large - 0.25).abs() < 0.03, "{pages}: {large}");
        }
    }

    fn read(start: i64, offset: u64, took: u64) -> Use {
        Use {
            start,
            class: 0,
            file: 7,
            offset,
            bytes: 4096,
            took,
            is_read: true,
        }
    }

    #[test]
    fn a_second_visit_is_a_read_again_and_small_steps_are_one_visit() {
        let mut curves = Curves::default();
        let mut last_page = u64::MAX;
        for offset in (0..4 * PAGE).step_by(4096) {
            curves.add(read(offset as i64, offset, 10), &mut last_page);
        }
        curves.add(read(i64::MAX, 0, 500), &mut last_page);
        curves.finish();
        let reuse = &curves.classes[0];
        assert_eq!(reuse.uses(), 5.0);
        let (pages, latency) = reuse.again().next().expect("page 0 was read again");
        assert_eq!((pages, latency.count, latency.total), (4.0, 1, 500));
        assert_eq!(reuse.bytes_again, 4096.0);
    }

    #[test]
    fn uses_of_several_threads_are_taken_by_time() {
        let mut curves = Curves::default();
        // Two threads go in step through pages of their own, twice; they come one after the other.
        for thread in 0..2 {
            let mut last_page = u64::MAX;
            for turn in 0..20 {
                let page = thread * 100 + turn % 10;
                let used = read((turn * 2 + thread) as i64, page * PAGE, 10);
                curves.add(used, &mut last_page);
            }
        }
        curves.finish();
        assert!(
            curves.classes[0].miss_ratio(15.0) > 0.99,
            "20 pages are between two uses"
        );
        assert!(curves.classes[0].miss_ratio(20.0) < 0.51);
    }

    #[test]
    fn numbers_do_not_tell_classes_apart() {
        assert_eq!(
            class_name("/data/run12/part-0003.h5"),
            "/data/run#/part-#.h#"
        );
    }
}
