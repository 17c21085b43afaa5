//! Parity shards of what is sealed, and pages made of shards.

use crate::core::{Core, State};
use hearth_proto::{Buf, Piece};
use hearth_shm::FrameIndex;

impl Core {
    /// Makes buffers of the parity shards of a stripe.
    pub(crate) fn encode(&self, state: &mut State, data: &[Vec<Piece>], parity: Vec<Buf>) {
        let pieces = data.concat();
        let made = self.with_pieces(state, &pieces, |slices| {
            if pieces.len() == data.len() {
                return hearth_erasure::parity_of(slices, parity.len());
            }
            let mut left = slices;
            let whole: Vec<Vec<u8>> = data
                .iter()
                .map(|shard| left.split_off(..shard.len()).unwrap_or_default().concat())
                .collect();
            let lent: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
            hearth_erasure::parity_of(&lent, parity.len())
        });
        let made = made.expect("the kernel cuts shards of one even length");
        for (buf, bytes) in parity.into_iter().zip(made) {
            state.buffers.insert(buf, bytes);
        }
    }

    /// Fills frames with the data shards that are lost.
    pub(crate) fn restore(
        &self,
        (data, parity): (u32, u32),
        len: u32,
        at_hand: &[(u32, hearth_proto::FrameId)],
        lost: &[(u32, hearth_proto::FrameId)],
    ) {
        let read = |frame: hearth_proto::FrameId| {
            let range = 0..len as usize;
            self.pool.with(FrameIndex(frame.0), range, <[u8]>::to_vec)
        };
        let bytes: Vec<(usize, Vec<u8>)> = at_hand
            .iter()
            .map(|&(place, frame)| (place as usize, read(frame)))
            .collect();
        let lent: Vec<hearth_erasure::Placed<'_>> = bytes
            .iter()
            .map(|(place, bytes)| (*place, bytes.as_slice()))
            .collect();
        let made = hearth_erasure::restore(data as usize, parity as usize, &lent);
        let made = made.expect("the kernel gathers as many shards as there are pages");
        for (place, bytes) in made {
            let frame = lost.iter().find(|(lost, _)| *lost as usize == place);
            if let Some((_, frame)) = frame {
                self.pool.write(FrameIndex(frame.0), 0, &bytes);
            }
        }
    }
}
