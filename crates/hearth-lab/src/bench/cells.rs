//! Checks for benchmarks that have something happen under load. A *cell* has one writer, and its version grows. A block
//! of a file is filled with its version. Wrong results are counted.

use hearth_set::failure::{Failure, OrFail};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block.
pub(super) const BLOCK: usize = 2048;

/// Lines that are told at most; all are counted.
const LINES_MAX: usize = 20;

/// Something with a version.
#[derive(Default)]
pub(super) struct Cell {
    begun: AtomicU64,
    over: AtomicU64,
}

impl Cell {
    /// The version of a write that begins.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Nothing older than this version may be found from now on.
    pub(super) fn end(&self, version: u64) {
        self.over.fetch_max(version, Ordering::SeqCst);
    }

    /// A lost version is not missed again: `found` is now the oldest that may be found.
    pub(super) fn give_up(&self, found: u64) {
        self.over.store(found, Ordering::SeqCst);
    }

    /// The oldest version that a look which begins now may find.
    pub(super) fn least(&self) -> u64 {
        self.over.load(Ordering::SeqCst)
    }

    /// The newest that a look which is over now may have found.
    pub(super) fn most(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }
}

/// A block of one version.
pub(super) fn filled(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(BLOCK / 8)
}

/// The version that fills a block, if one does.
pub(super) fn version_of(bytes: &[u8]) -> Option<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    let first = words.first()?;
    let whole = words.iter().all(|word| word == first);
    whole.then(|| u64::from_le_bytes(*first))
}

/// The versions of the blocks of a file in the store, whatever agents say; none where a block is torn or missing.
pub(super) fn in_store(
    store: &Path,
    name: &str,
    blocks: usize,
) -> Result<Vec<Option<u64>>, Failure> {
    let bytes =
        std::fs::read(store.join(name)).or_fail(|| format!("cannot read `{name}` of the store"))?;
    let block = |number| bytes.get(number * BLOCK..(number + 1) * BLOCK);
    Ok((0..blocks)
        .map(|number| block(number).and_then(version_of))
        .collect())
}

/// Wrong results: their number, and lines about the first of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrong {
    pub(super) count: u64,
    pub(super) lines: Vec<String>,
}

impl Wrong {
    pub(super) fn add(&mut self, line: String) {
        self.count += 1;
        if self.lines.len() < LINES_MAX {
            self.lines.push(line);
        }
    }

    pub(super) fn join(&mut self, other: Wrong) {
        self.count += other.count;
        let room = LINES_MAX.saturating_sub(self.lines.len());
        self.lines.extend(other.lines.into_iter().take(room));
    }
}

/// The same numbers for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // The first numbers of near seeds are near.
        for _ in 0..4 {
            dice.roll(2);
        }
        dice
    }

    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % sides as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_two_versions_is_torn() {
        let mut bytes = filled(7);
        assert_eq!(version_of(&bytes), Some(7));
        bytes[9] = 1;
        assert_eq!(version_of(&bytes), None);
    }
}
