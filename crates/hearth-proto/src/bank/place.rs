//! Which daemon holds a block: a pure function of the block and the number of daemons.
//!
//! The list of daemons never changes while a job runs. A daemon that is away keeps its blocks, which
//! are served by their gateways meanwhile: were they given to another daemon until it is back, that
//! one would keep them afterwards, and nobody would delete them there.

use super::Daemon;
use crate::ids::FileId;
use crate::placement::mix;

/// How blocks are spread over daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BankPlacement {
    /// The daemon with the highest weight for the block: one daemon more moves only its share.
    #[default]
    Rendezvous,
    /// CRC-32 of file and block modulo the number of daemons, as IMCa has it: one daemon more moves
    /// nearly all.
    Crc32,
}

impl BankPlacement {
    /// The daemon of a block among daemons `0..daemons`; `None` without daemons.
    pub fn daemon_of(self, file: FileId, block: u64, daemons: u32) -> Option<Daemon> {
        if daemons == 0 {
            return None;
        }
        Some(Daemon(match self {
            BankPlacement::Rendezvous => {
                let name = mix(mix(file.0) ^ block);
                let weight = |daemon: &u32| mix(name ^ u64::from(*daemon));
                (0..daemons).max_by_key(weight).unwrap_or(0)
            }
            BankPlacement::Crc32 => {
                let (file, block) = (file.0.to_le_bytes(), block.to_le_bytes());
                crc32(file.into_iter().chain(block)) % daemons
            }
        }))
    }
}

/// CRC-32 (IEEE 802.3, reflected), bit by bit: sixteen bytes are soon done, and a table would be more
/// to read.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let shift = |crc: u32| (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
    !bytes.fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| shift(crc))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [BankPlacement; 2] = [BankPlacement::Rendezvous, BankPlacement::Crc32];

    #[test]
    fn crc32_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789".iter().copied()), 0xCBF4_3926);
    }

    #[test]
    fn blocks_spread_over_the_daemons_within_a_tenth() {
        for placement in BOTH {
            let mut load = [0u32; 4];
            for block in 0..8_000 {
                let daemon = placement.daemon_of(FileId(7), block, 4);
                load[daemon.expect("there are four").0 as usize] += 1;
            }
            assert!(load.iter().all(|&l| (1800..=2200).contains(&l)), "{load:?}");
        }
    }

    #[test]
    fn one_daemon_more_moves_only_its_share_of_the_blocks() {
        let place = |block, daemons| BankPlacement::Rendezvous.daemon_of(FileId(7), block, daemons);
        let moved = (0..10_000)
            .filter(|&block| place(block, 4) != place(block, 5))
            .inspect(|&block| assert_eq!(place(block, 5), Some(Daemon(4))))
            .count();
        assert!(moved.abs_diff(2_000) < 200, "{moved} of 2000");
    }

    #[test]
    fn without_daemons_a_block_is_nowhere() {
        for placement in BOTH {
            assert_eq!(placement.daemon_of(FileId(7), 1, 0), None);
        }
    }
}
