//! How long operations took: a histogram of fixed size.
//!
//! Eight cells to the octave, so that a quantile is off by less than 5 %.

/// Cells to the octave, as a power of two.
const FINE_BITS: u32 = 3;
/// Up to 2^40 ns, 18 minutes; longer ones fall into the last cell.
const OCTAVES: u32 = 40;
pub(crate) const CELLS: usize = ((OCTAVES - FINE_BITS + 1) << FINE_BITS) as usize;

/// A histogram of nanoseconds, with their sum.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    pub(crate) count: u64,
    pub(crate) total: u64,
    pub(crate) longest: u64,
    /// Bytes that they moved, where the caller counts them.
    pub(crate) bytes: u64,
    cells: [u32; CELLS],
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            count: 0,
            total: 0,
            longest: 0,
            bytes: 0,
            cells: [0; CELLS],
        }
    }
}

impl Latency {
    pub(crate) fn add(&mut self, took: u64) {
        self.add_many(took, 1);
    }

    /// One that stands for `weight` of its kind.
    pub(crate) fn add_many(&mut self, took: u64, weight: u32) {
        self.count += u64::from(weight);
        self.total = self
            .total
            .saturating_add(took.saturating_mul(u64::from(weight)));
        self.longest = self.longest.max(took);
        let cell = &mut self.cells[cell(took)];
        *cell = cell.saturating_add(weight);
    }

    pub(crate) fn merge(&mut self, other: &Latency) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
        self.bytes += other.bytes;
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Nanoseconds that a share `q` of the operations did not exceed; 0 where there are none.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let wanted = q.clamp(0.0, 1.0) * self.count as f64;
        let mut below = 0.0;
        for (index, &count) in self
            .cells
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let count = f64::from(count);
            if below + count >= wanted {
                let (from, to) = bounds(index);
                let at = from + (to - from) * ((wanted - below) / count);
                return at.min(self.longest as f64);
            }
            below += count;
        }
        self.longest as f64
    }

    /// Bytes of one.
    pub(crate) fn size(&self) -> f64 {
        self.bytes as f64 / self.count.max(1) as f64
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.total as f64 / self.count as f64
    }
}

pub(crate) fn cell(took: u64) -> usize {
    if took < 1 << FINE_BITS {
        return took as usize;
    }
    let octave = took.ilog2();
    let fine = (took >> (octave - FINE_BITS)) as usize & ((1 << FINE_BITS) - 1);
    let coarse = ((octave - FINE_BITS + 1) << FINE_BITS) as usize;
    (coarse + fine).min(CELLS - 1)
}

pub(crate) fn bounds(cell: usize) -> (f64, f64) {
    let fine = 1usize << FINE_BITS;
    if cell < fine {
        return (cell as f64, cell as f64 + 1.0);
    }
    let width = f64::powi(2.0, (cell / fine) as i32 - 1);
    let from = (fine + cell % fine) as f64 * width;
    (from, from + width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_off_by_less_than_one_cell() {
        let mut latency = Latency::default();
        for took in 1..=100_000 {
            latency.add(took);
        }
        for q in [0.01, 0.1, 0.5, 0.9, 0.999] {
            let exact = q * 100_000.0;
            let found = latency.quantile(q);
            assert!((found / exact - 1.0).abs() < 0.05, "{q}: {found}");
        }
        assert_eq!(latency.quantile(1.0), 100_000.0);
        assert_eq!(latency.mean(), 50_000.5);
    }

    #[test]
    fn every_time_has_a_cell_that_holds_it() {
        for shift in 0..OCTAVES {
            for took in [1u64 << shift, (1 << shift) + 1, (2u64 << shift) - 1] {
                let (from, to) = bounds(cell(took));
                assert!(from <= took as f64 && (took as f64) < to, "{took}");
            }
        }
        assert_eq!(cell(u64::MAX), CELLS - 1);
    }
}
