//! Placement: pure functions from names to nodes.
//!
//! Files are cut into chunks and each chunk falls into one of 2^18 slots; the owner of the slot is
//! the highest-random-weight node of the members (rendezvous hashing), so that a member more or less
//! moves only its share.

use crate::config::Config;
use crate::ids::{FileId, NodeId};
use alloc::vec::Vec;

/// Number of slots.
const SLOTS: u32 = 1 << 18;

/// Slot of a chunk of a file.
pub fn slot_of(file: FileId, chunk: u64) -> u32 {
    (mix(mix(file.0) ^ chunk) % u64::from(SLOTS)) as u32
}

/// Owner of a slot among nodes `0..nodes`.
pub fn home_of_slot(slot: u32, nodes: u32) -> NodeId {
    NodeId(heaviest(slot, 0..nodes))
}

/// Home of a chunk: the owner of its slot, among the gateways where only some nodes are any.
pub(crate) fn home_of_chunk(config: &Config, file: FileId, chunk: u64) -> NodeId {
    let homes = config.homes().map(|node| node.0);
    NodeId(heaviest(slot_of(file, chunk), homes))
}

fn heaviest(slot: u32, nodes: impl Iterator<Item = u32>) -> u32 {
    let weight = |node: &u32| mix((u64::from(slot) << 32) | u64::from(*node));
    nodes.max_by_key(weight).unwrap_or(0)
}

/// The node that knows which node manages a file.
pub(crate) fn registrar_of(config: &Config, file: FileId) -> NodeId {
    let members = config.members().map(|node| node.0);
    NodeId(heaviest(slot_of(file, u64::MAX), members))
}

/// Every member but `home`, those first that are to keep what it has and the store lacks: the members that follow it,
/// from the one after the next `turns` on. Homes that write as much as each other so have as much to keep of others.
pub(crate) fn keepers_of(config: &Config, home: NodeId, turns: u32) -> Vec<NodeId> {
    let others = config.members_count().saturating_sub(1);
    let step = |place: u32| 1 + (turns % others + place) % others;
    let first = config.members().position(|node| node == home).unwrap_or(0);
    let node = |place: u32| config.member_at(first as u64 + u64::from(step(place)));
    (0..others).map(node).collect()
}

/// A bijective scramble of 64 bits (the finaliser of SplitMix64).
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn chunks_spread_over_the_nodes_within_a_tenth() {
        let nodes = 8;
        let mut load = vec![0u32; nodes as usize];
        for chunk in 0..20_000 {
            load[home_of_slot(slot_of(FileId(7), chunk), nodes).0 as usize] += 1;
        }
        assert!(load.iter().all(|&l| (2250..=2750).contains(&l)), "{load:?}");
    }

    #[test]
    fn every_node_keeps_for_as_many_homes_as_keep_for_it() {
        for turns in [0, 1, 7, u32::MAX] {
            let config = Config::new(NodeId(0), 5);
            let keepers = |home| keepers_of(&config, NodeId(home), turns);
            for place in 0..4 {
                let mut at: Vec<NodeId> = (0..5).map(|home| keepers(home)[place]).collect();
                at.sort_unstable();
                assert!(at.iter().map(|node| node.0).eq(0..5), "{turns}: {at:?}");
            }
            for home in 0..5 {
                let mut others = keepers(home);
                others.sort_unstable();
                let all = (0..5).filter(|&node| node != home);
                assert!(
                    others.iter().map(|node| node.0).eq(all),
                    "{turns}: {others:?}"
                );
            }
        }
        assert_eq!(keepers_of(&Config::new(NodeId(0), 1), NodeId(0), 3), []);
    }

    #[test]
    fn one_node_more_moves_only_its_share() {
        let moved = (0..SLOTS)
            .filter(|&slot| home_of_slot(slot, 4) != home_of_slot(slot, 5))
            .inspect(|&slot| assert_eq!(home_of_slot(slot, 5), NodeId(4)))
            .count();
        let share = SLOTS as usize / 5;
        assert!(moved.abs_diff(share) < share / 20, "{moved} of {share}");
    }
}
