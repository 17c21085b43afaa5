//! A block of a file in a tier: which of its bytes are here, where, and their checksum.

use hearth_proto::ranges::Ranges;

/// Bytes of a block; the last one of a file may hold fewer.
pub(super) const BLOCK: usize = 64 << 10;

/// The place of a block. Bytes that the store lacks are never overwritten where they lie: the new ones go to the other
/// place, and count once the journal says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Main,
    Other,
}

/// How far a block's bytes have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// The store lacks them.
    Dirty,
    /// The store has taken them, and has yet to make them durable.
    Written,
    /// The store has them: this is a copy.
    Clean,
    /// The store lacks them, and what lies here is not what was written.
    Lost,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) place: Place,
    pub(super) stand: Stand,
    pub(super) valid: Ranges,
    /// Of the valid bytes, one range after another.
    pub(super) crc: u32,
}

impl Place {
    pub(super) fn other(self) -> Place {
        match self {
            Place::Main => Place::Other,
            Place::Other => Place::Main,
        }
    }
}

impl Block {
    /// True if `bytes`, the whole block, holds what was written.
    pub(super) fn is_true(&self, bytes: &[u8]) -> bool {
        crc_of(&self.valid, bytes) == self.crc
    }

    /// The places at which the valid bytes begin and end.
    pub(super) fn span(&self) -> (usize, usize) {
        let first = self.valid.iter().next().map_or(0, |(start, _)| start);
        let last = self.valid.iter().last().map_or(0, |(_, end)| end);
        (first as usize, last as usize)
    }
}

/// Checksum of the valid bytes of a block.
pub(super) fn crc_of(valid: &Ranges, bytes: &[u8]) -> u32 {
    valid.iter().fold(0, |crc, (start, end)| {
        crc32c::crc32c_append(crc, &bytes[start as usize..end as usize])
    })
}

/// The pieces into which blocks cut a run of bytes: block, first byte in it, and how many.
pub(super) fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % BLOCK as u64) as usize;
        let count = (BLOCK - within).min(len - done);
        done += count;
        (count > 0).then_some((at / BLOCK as u64, within, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_run_and_end_where_blocks_end() {
        let found: Vec<_> = pieces(BLOCK as u64 - 1, BLOCK + 2).collect();
        assert_eq!(found, [(0, BLOCK - 1, 1), (1, 0, BLOCK), (2, 0, 1)]);
        assert_eq!(pieces(7, 0).count(), 0);
    }

    #[test]
    fn a_byte_that_changed_shows() {
        let mut valid = Ranges::default();
        valid.insert(2, 4);
        valid.insert(8, 9);
        let mut bytes = vec![7; 10];
        let block = Block {
            place: Place::Main,
            stand: Stand::Dirty,
            crc: crc_of(&valid, &bytes),
            valid,
        };
        bytes[0] = 1;
        assert!(block.is_true(&bytes), "it is not one of the block's");
        bytes[8] = 1;
        assert!(!block.is_true(&bytes));
        assert_eq!(block.span(), (2, 9));
    }
}
