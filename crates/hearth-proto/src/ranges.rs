//! Byte ranges within one page: which bytes are known, which are dirty.
//!
//! A page may have as many ranges as half of its bytes. So all that is done with one of them costs the
//! logarithm of how many there are, and to count ranges or bytes costs nothing.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Disjoint, non-touching, ascending half-open ranges of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges {
    /// The end of each, by its beginning.
    list: BTreeMap<u32, u32>,
    bytes: u32,
}

impl Ranges {
    /// Adds `start..end`, merging what overlaps or touches. Returns how many bytes are new.
    pub fn insert(&mut self, start: u32, end: u32) -> u32 {
        if start >= end {
            return 0;
        }
        let before = self.bytes;
        let (mut from, mut to) = (start, end);
        while let Some((s, e)) = self.last_from(to).filter(|&(_, e)| e >= start) {
            if s <= start && end <= e {
                return 0;
            }
            self.list.remove(&s);
            self.bytes -= e - s;
            from = from.min(s);
            to = to.max(e);
        }
        self.list.insert(from, to);
        self.bytes += to - from;
        self.bytes - before
    }

    /// Adds all of `others`. Returns how many bytes are new.
    pub fn insert_all(&mut self, others: Ranges) -> u32 {
        if self.is_empty() {
            *self = others;
            return self.bytes;
        }
        others.iter().map(|(s, e)| self.insert(s, e)).sum()
    }

    /// The last range that begins at `at` or before.
    fn last_from(&self, at: u32) -> Option<(u32, u32)> {
        let (&s, &e) = self.list.range(..=at).next_back()?;
        Some((s, e))
    }

    /// Cuts everything at and above `end`. Returns how many bytes went.
    pub fn clip(&mut self, end: u32) -> u32 {
        let above = self.list.split_off(&end);
        let mut gone: u32 = above.iter().map(|(s, e)| e - s).sum();
        if let Some(mut last) = self.list.last_entry() {
            gone += last.get().saturating_sub(end);
            let cut = (*last.get()).min(end);
            last.insert(cut);
        }
        self.bytes -= gone;
        gone
    }

    /// Takes everything out and returns it.
    pub fn take(&mut self) -> Ranges {
        core::mem::take(self)
    }

    /// Keeps the first `count` ranges and returns the others.
    pub fn split_off(&mut self, count: usize) -> Ranges {
        if self.list.len() <= count {
            return Ranges::default();
        }
        let kept = self.iter().take(count).map(|(s, e)| e - s).sum();
        let first = self.list.keys().nth(count).copied();
        let list = first.map(|first| self.list.split_off(&first));
        let bytes = core::mem::replace(&mut self.bytes, kept) - kept;
        Ranges {
            list: list.unwrap_or_default(),
            bytes,
        }
    }

    /// Bytes covered.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// From the first byte to behind the last.
    pub fn span(&self) -> Option<(u32, u32)> {
        let (&first, _) = self.list.first_key_value()?;
        let (_, &last) = self.list.last_key_value()?;
        Some((first, last))
    }

    /// These ranges, if they are ascending, not empty, and do not touch.
    pub fn from_sorted(list: Vec<(u32, u32)>) -> Option<Ranges> {
        let apart = list.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let whole = list.iter().all(|&(start, end)| start < end);
        (apart && whole).then(|| Ranges {
            bytes: list.iter().map(|(s, e)| e - s).sum(),
            list: list.into_iter().collect(),
        })
    }

    /// True if nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True if `start..end` is covered whole.
    pub fn covers(&self, start: u32, end: u32) -> bool {
        start >= end || self.last_from(start).is_some_and(|(_, e)| end <= e)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.list.iter().map(|(&s, &e)| (s, e))
    }

    /// The gaps within `0..end`, ascending.
    pub fn gaps(&self, end: u32) -> Vec<(u32, u32)> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for (s, e) in self.iter() {
            if s >= end {
                break;
            }
            if at < s {
                gaps.push((at, s));
            }
            at = e;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn ranges(list: &[(u32, u32)]) -> Ranges {
        let mut ranges = Ranges::default();
        for &(s, e) in list {
            ranges.insert(s, e);
        }
        ranges
    }

    #[test]
    fn neighbours_merge_and_only_new_bytes_are_counted() {
        let mut r = ranges(&[(10, 20), (30, 40)]);
        assert_eq!(r.insert(20, 30), 10);
        assert_eq!(r.iter().collect::<Vec<_>>(), vec![(10, 40)]);
        assert_eq!(r.insert(5, 45), 10);
        assert_eq!(r.insert(6, 7), 0);
        assert_eq!(r.insert(7, 7), 0);
    }

    #[test]
    fn gaps_are_what_is_not_covered() {
        let r = ranges(&[(10, 20), (30, 40)]);
        assert_eq!(r.gaps(50), vec![(0, 10), (20, 30), (40, 50)]);
        assert_eq!(r.gaps(35), vec![(0, 10), (20, 30)]);
        assert_eq!(r.gaps(10), vec![(0, 10)]);
        assert_eq!(Ranges::default().gaps(0), vec![]);
    }

    #[test]
    fn clipping_counts_what_went() {
        let mut r = ranges(&[(10, 20), (30, 40)]);
        assert_eq!(r.clip(35), 5);
        assert_eq!(r.clip(5), 15);
        assert!(r.is_empty());
    }

    #[test]
    fn what_is_split_off_goes_in_again() {
        let mut r = ranges(&[(0, 4), (8, 12), (16, 20)]);
        let whole = r.clone();
        let rest = r.split_off(1);
        assert_eq!((r.bytes(), r.count()), (4, 1));
        assert_eq!((rest.bytes(), rest.count()), (8, 2));
        assert_eq!(r.insert_all(rest), 8);
        assert_eq!(r, whole);
        assert!(r.split_off(3).is_empty());
    }

    #[test]
    fn cover_needs_one_whole_range() {
        let r = ranges(&[(0, 10), (11, 20)]);
        assert!(r.covers(2, 10));
        assert!(!r.covers(2, 12));
        assert!(r.covers(5, 5));
    }

    #[test]
    fn agrees_with_a_bitmap_on_random_operations() {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        let mut next = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..200 {
            let (mut r, mut bits) = (Ranges::default(), [false; 64]);
            for _ in 0..20 {
                let (a, b) = ((next() % 64) as u32, (next() % 64) as u32);
                if next() % 4 == 0 {
                    let gone = bits[a as usize..].iter().filter(|b| **b).count();
                    bits[a as usize..].fill(false);
                    assert_eq!(r.clip(a) as usize, gone);
                } else if a < b {
                    let new = bits[a as usize..b as usize].iter().filter(|b| !**b).count();
                    bits[a as usize..b as usize].fill(true);
                    assert_eq!(r.insert(a, b) as usize, new);
                }
                assert_eq!(r.bytes() as usize, bits.iter().filter(|b| **b).count());
                for (s, e) in r.gaps(64) {
                    assert!(bits[s as usize..e as usize].iter().all(|b| !b));
                }
            }
        }
    }
}
