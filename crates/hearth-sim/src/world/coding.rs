//! Shards: what an agent does when the kernel orders parity, or pages made of shards.

use super::host::{Breach, Host};
use hearth_proto::{Buf, Effect, FrameId, Piece};

impl Host {
    /// Does what the kernel orders of this kind.
    pub(crate) fn code(&mut self, effect: Effect) -> Result<(), Breach> {
        match effect {
            Effect::Encode { data, parity } => self.encode(&data, parity),
            Effect::Restore {
                shards,
                len,
                at_hand,
                lost,
            } => self.restore(shards, len, &at_hand, &lost),
            other => Err(format!("{other:?} makes no shard")),
        }
    }

    /// Makes buffers of the parity shards of a stripe.
    fn encode(&mut self, data: &[Vec<Piece>], parity: Vec<Buf>) -> Result<(), Breach> {
        let shards: Result<Vec<Vec<u8>>, Breach> =
            data.iter().map(|pieces| self.gather(pieces)).collect();
        let shards = shards?;
        let lent: Vec<&[u8]> = shards.iter().map(Vec::as_slice).collect();
        let made = hearth_erasure::parity_of(&lent, parity.len());
        let made = made.map_err(|_| format!("{data:?} is no stripe"))?;
        for (buf, bytes) in parity.into_iter().zip(made) {
            self.stash(buf, bytes)?;
        }
        Ok(())
    }

    /// Fills frames with the data shards that are lost.
    fn restore(
        &mut self,
        (data, parity): (u32, u32),
        len: u32,
        at_hand: &[(u32, FrameId)],
        lost: &[(u32, FrameId)],
    ) -> Result<(), Breach> {
        let shard = |&(place, frame): &(u32, FrameId)| {
            let frame = self.frames.get(frame.0 as usize);
            let bytes = frame.and_then(|frame| frame.get(..len as usize));
            Some((place as usize, bytes?))
        };
        let lent: Option<Vec<hearth_erasure::Placed<'_>>> = at_hand.iter().map(shard).collect();
        let lent = lent.ok_or_else(|| format!("{at_hand:?} are not there"))?;
        let made = hearth_erasure::restore(data as usize, parity as usize, &lent);
        let made = made.map_err(|_| format!("{at_hand:?} make no page"))?;
        for &(place, frame) in lost {
            let bytes = made.iter().find(|(made, _)| *made == place as usize);
            let (_, bytes) = bytes.ok_or_else(|| format!("page {place} is not lost"))?;
            self.fill(frame.0, 0, bytes)?;
        }
        Ok(())
    }
}
