//! How members bid for a slot.
//!
//! A bid is a waiting time: minus the logarithm of a hash in (0, 1), over the weight. The shortest wins,
//! with a chance in proportion to the weight. All is done in integers, as the logarithms of two
//! machines' libraries may differ in the last bit (SLOT-1).

use super::SlotIndex;
use crate::membership::{MemberId, MemberRecord, Salt};
use std::cmp::Ordering;

/// Bits behind the point of a logarithm.
const FRACTION_BITS: u32 = 40;

/// Bits of a number that pick an entry of the table of logarithms.
const TABLE_BITS: u32 = 10;

/// Bits of a number that lie between two entries.
const BETWEEN_BITS: u32 = 20;

/// Logarithms to base 2 of the numbers from 1 to 2, in equal steps.
static LOGARITHMS: [u64; (1 << TABLE_BITS) + 1] = logarithms();

/// Odd, and near to the golden part of 2^64: steps of it spread evenly.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A member as it bids for any slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bidder {
    pub(super) id: MemberId,
    pub(super) weight: u16,
    seed: u64,
}

/// A bid for one slot. The least wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bid {
    hash: u64,
    weight: u16,
    pub(super) id: MemberId,
}

/// The best bid so far, and its waiting time.
pub(super) struct Leader {
    pub(super) bid: Bid,
    wait: u64,
}

impl Leader {
    pub(super) fn new(bid: Bid) -> Leader {
        let wait = wait(bid.hash);
        Leader { bid, wait }
    }

    /// Takes the better of the two. Most bids are turned down without a logarithm.
    pub(super) fn meet(&mut self, bid: Bid) {
        let least = wait_min(bid.hash) * u64::from(self.bid.weight);
        if least <= self.wait * u64::from(bid.weight) && bid < self.bid {
            *self = Leader::new(bid);
        }
    }
}

impl Bidder {
    pub(super) fn new(record: &MemberRecord, salt: Salt) -> Bidder {
        Bidder {
            id: record.key.id,
            weight: record.weight.0,
            seed: mixed(mixed(salt.0) ^ u64::from(record.key.id.0)),
        }
    }

    /// Its hash for a slot. Of two members of one weight the greater hash is the better bid.
    pub(super) fn hash(&self, slot: SlotIndex) -> u64 {
        mixed(
            self.seed
                .wrapping_add(STEP.wrapping_mul(u64::from(slot.0) + 1)),
        )
    }

    pub(super) fn bid(&self, slot: SlotIndex) -> Bid {
        self.bid_of(self.hash(slot))
    }

    pub(super) fn bid_of(&self, hash: u64) -> Bid {
        Bid {
            hash,
            weight: self.weight,
            id: self.id,
        }
    }
}

impl Ord for Bid {
    /// By waiting time, then by hash, then by id. The hash makes this one order, also across weights:
    /// with equal weights the waiting time only falls with the hash.
    fn cmp(&self, other: &Bid) -> Ordering {
        let times = || {
            let mine = wait(self.hash) * u64::from(other.weight);
            let others = wait(other.hash) * u64::from(self.weight);
            mine.cmp(&others)
        };
        let by_time = match self.weight == other.weight {
            true => Ordering::Equal,
            false => times(),
        };
        by_time
            .then(other.hash.cmp(&self.hash))
            .then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Bid {
    fn partial_cmp(&self, other: &Bid) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Minus the logarithm of `hash / 2^64`: below 2^46, so it may be multiplied by any weight.
fn wait(hash: u64) -> u64 {
    let hash = hash.max(1);
    let zeros = hash.leading_zeros();
    let mantissa = hash << zeros;
    let index = ((mantissa << 1) >> (64 - TABLE_BITS)) as usize;
    let between = (mantissa << (1 + TABLE_BITS)) >> (64 - BETWEEN_BITS);
    let (low, high) = (LOGARITHMS[index], LOGARITHMS[index + 1]);
    let fraction = low + (((high - low) * between) >> BETWEEN_BITS);
    (u64::from(zeros + 1) << FRACTION_BITS) - fraction
}

/// No more than the waiting time: minus the logarithm of a part is more than what it lacks to one.
fn wait_min(hash: u64) -> u64 {
    !hash >> (64 - FRACTION_BITS)
}

/// Each output bit depends on each input bit, and no two inputs have one output.
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

const fn logarithms() -> [u64; (1 << TABLE_BITS) + 1] {
    let mut table = [0; (1 << TABLE_BITS) + 1];
    let mut index = 0;
    while index < 1 << TABLE_BITS {
        table[index] = logarithm((1 << 62) + ((index as u64) << (62 - TABLE_BITS)));
        index += 1;
    }
    table[1 << TABLE_BITS] = 1 << FRACTION_BITS;
    table
}

/// The logarithm of `value / 2^62`, which is at least 1 and below 2: one bit a squaring.
const fn logarithm(mut value: u64) -> u64 {
    let mut result = 0;
    let mut bit = 0;
    while bit < FRACTION_BITS {
        let square = ((value as u128 * value as u128) >> 62) as u64;
        let carry = square >> 63;
        value = square >> carry;
        result = (result << 1) | carry;
        bit += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_time_is_minus_the_logarithm() {
        for at in 1..10_000_u64 {
            let hash = mixed(at);
            let exact = 64.0 - (hash as f64).log2();
            let here = wait(hash) as f64 / (1_u64 << FRACTION_BITS) as f64;
            assert!((exact - here).abs() < 1e-6, "{hash}: {exact} and {here}");
            assert!(wait_min(hash) <= wait(hash) && wait_min(!at) <= wait(!at));
        }
    }

    #[test]
    fn waiting_time_never_grows_with_the_hash() {
        for at in 1..10_000_u64 {
            let hash = mixed(at) >> (at % 64);
            let more = hash.saturating_add(1 << (at % 50));
            assert!(wait(more) <= wait(hash), "{hash}");
        }
        assert_eq!(wait(0), 64 << FRACTION_BITS);
        assert!(wait(u64::MAX) < 1 << 21);
    }
}
