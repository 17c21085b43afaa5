//! Byte ranges within one page: which bytes are known, which are dirty.

use alloc::vec::Vec;

/// Disjoint, non-touching, ascending half-open ranges of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Adds `start..end`, merging what overlaps or touches. Returns how many bytes are new.
    pub fn insert(&mut self, start: u32, end: u32) -> u32 {
        if start >= end {
            return 0;
        }
        let first = self.0.partition_point(|&(_, e)| e < start);
        let last = self.0.partition_point(|&(s, _)| s <= end);
        let (mut from, mut to, mut had) = (start, end, 0);
        for &(s, e) in &self.0[first..last] {
            from = from.min(s);
            to = to.max(e);
            had += e - s;
        }
        self.0.splice(first..last, [(from, to)]);
        (to - from) - had
    }

    /// Cuts everything at and above `end`. Returns how many bytes went.
    pub fn clip(&mut self, end: u32) -> u32 {
        let before = self.bytes();
        self.0.retain(|&(s, _)| s < end);
        if let Some(last) = self.0.last_mut() {
            last.1 = last.1.min(end);
        }
        before - self.bytes()
    }

    /// Takes everything out and returns it.
    pub fn take(&mut self) -> Ranges {
        core::mem::take(self)
    }

    /// Keeps the first `count` ranges and returns the others.
    pub fn split_off(&mut self, count: usize) -> Ranges {
        Ranges(self.0.split_off(count.min(self.0.len())))
    }

    /// Bytes covered.
    pub fn bytes(&self) -> u32 {
        self.0.iter().map(|&(s, e)| e - s).sum()
    }

    /// From the first byte to behind the last.
    pub fn span(&self) -> Option<(u32, u32)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// These ranges, if they are ascending, not empty, and do not touch.
    pub fn from_sorted(list: Vec<(u32, u32)>) -> Option<Ranges> {
        let apart = list.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let whole = list.iter().all(|&(start, end)| start < end);
        (apart && whole).then_some(Ranges(list))
    }

    /// True if nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `start..end` is covered whole.
    pub fn covers(&self, start: u32, end: u32) -> bool {
        start >= end || self.0.iter().any(|&(s, e)| s <= start && end <= e)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.iter().copied()
    }

    /// The gaps within `0..end`, ascending.
    pub fn gaps(&self, end: u32) -> Vec<(u32, u32)> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for &(s, e) in &self.0 {
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
