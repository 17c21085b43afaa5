//! Hashing of numbers that nobody chose in order to do harm: one multiplication.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type MixMap<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// A bijection that spreads every bit of `value` over all of the result.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^ (value >> 32)
}

#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}
