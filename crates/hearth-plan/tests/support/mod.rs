//! Cases drawn from a seed.

#![allow(dead_code, reason = "each test program uses its part")]

/// SplitMix64.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// A number from `low` to `high`, both possible.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        low + (z ^ (z >> 31)) % (high - low + 1)
    }
}
