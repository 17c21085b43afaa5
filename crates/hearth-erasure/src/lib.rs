//! Shards of sealed bytes: parity, and what is lost from what is left.
//!
//! A *stripe* is a few *data shards* of one length, which hold the bytes as they are, and *parity shards* of the same
//! length: any as many of all these as there are data shards give back the data. The code is a Reed-Solomon code over
//! 16-bit symbols (the O(n log n) construction of Lin, Chung and Han, 2014), so a length is even.

#![forbid(unsafe_code)]

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

/// Shards that cannot be a stripe: none, too many, of an odd length, of different lengths, or too few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit;

impl core::fmt::Display for Misfit {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("these shards are no stripe")
    }
}

impl core::error::Error for Misfit {}

impl From<reed_solomon_simd::Error> for Misfit {
    fn from(_: reed_solomon_simd::Error) -> Misfit {
        Misfit
    }
}

/// A shard and its place in the stripe: data shards come first.
pub type Placed<'a> = (usize, &'a [u8]);

/// The parity shards of a stripe.
pub fn parity_of(data: &[&[u8]], parity: usize) -> Result<Vec<Vec<u8>>, Misfit> {
    let len = data.first().ok_or(Misfit)?.len();
    let mut encoder = ReedSolomonEncoder::new(data.len(), parity, len)?;
    for shard in data {
        encoder.add_original_shard(shard)?;
    }
    let encoded = encoder.encode()?;
    Ok(encoded.recovery_iter().map(<[u8]>::to_vec).collect())
}

/// The data shards of a stripe that are not among those at hand, with their places, ascending.
pub fn restore(
    data: usize,
    parity: usize,
    at_hand: &[Placed<'_>],
) -> Result<Vec<(usize, Vec<u8>)>, Misfit> {
    let len = at_hand.first().ok_or(Misfit)?.1.len();
    let mut decoder = ReedSolomonDecoder::new(data, parity, len)?;
    for &(place, shard) in at_hand {
        match place.checked_sub(data) {
            None => decoder.add_original_shard(place, shard)?,
            Some(place) => decoder.add_recovery_shard(place, shard)?,
        }
    }
    let decoded = decoder.decode()?;
    let restored = decoded.restored_original_iter();
    let mut restored: Vec<(usize, Vec<u8>)> = restored
        .map(|(place, shard)| (place, shard.to_vec()))
        .collect();
    restored.sort_unstable_by_key(|(place, _)| *place);
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that look like chance.
    fn shard(seed: usize, len: usize) -> Vec<u8> {
        let mut state = seed as u64 + 1;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn any_so_many_shards_give_back_the_data() {
        for (data, parity, len) in [(1, 1, 2), (1, 2, 16), (2, 1, 34), (4, 2, 4096), (3, 3, 66)] {
            let shards: Vec<Vec<u8>> = (0..data).map(|place| shard(place, len)).collect();
            let lent: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
            let mut all = shards.clone();
            all.extend(parity_of(&lent, parity).expect("a stripe"));
            for left in 0..1usize << (data + parity) {
                let at_hand: Vec<Placed<'_>> = (0..data + parity)
                    .filter(|place| left >> place & 1 == 1)
                    .map(|place| (place, all[place].as_slice()))
                    .collect();
                let restored = restore(data, parity, &at_hand);
                if at_hand.len() < data {
                    assert_eq!(restored, Err(Misfit), "{left:b} of {data}+{parity}");
                    continue;
                }
                let missing = (0..data).filter(|place| left >> place & 1 == 0);
                let wanted: Vec<_> = missing
                    .map(|place| (place, shards[place].clone()))
                    .collect();
                assert_eq!(restored, Ok(wanted), "{left:b} of {data}+{parity}");
            }
        }
    }

    #[test]
    fn what_is_no_stripe_is_refused() {
        assert_eq!(parity_of(&[], 1), Err(Misfit));
        assert_eq!(parity_of(&[&[1, 2, 3]], 1), Err(Misfit), "an odd length");
        assert_eq!(parity_of(&[&[1, 2], &[1, 2, 3, 4]], 1), Err(Misfit));
        assert_eq!(restore(2, 1, &[]), Err(Misfit));
        assert_eq!(restore(2, 1, &[(0, &[1, 2]), (9, &[1, 2])]), Err(Misfit));
    }
}
