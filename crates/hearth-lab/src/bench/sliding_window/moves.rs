//! The number of messages of a sliding window if a page moves to the rank that overwrites it. The pattern is gone
//! through once more, page by page, with ranks in the order in which they take turns.

use std::collections::BTreeSet;

/// Delegates of pages, the homes that ranks know, and the messages so far.
struct Count {
    ranks: u32,
    /// By page: the rank that writes it by itself, if its home does not.
    delegates: Vec<Option<u32>>,
    /// Ranks that know the home of a page.
    known: BTreeSet<(u32, u64)>,
    messages: u64,
}

/// Messages a call, once a file is open: those that a longer file needs more, over its calls.
pub(super) fn messages_a_call(ranks: u32, segments: [u32; 2]) -> f64 {
    let [few, more] = segments.map(|segments| messages(ranks, segments) as f64);
    let [fewer, most] = segments.map(|segments| f64::from(segments * ranks * ranks * 2));
    (more - few) / (most - fewer)
}

fn messages(ranks: u32, segments: u32) -> u64 {
    let pages = u64::from(segments * ranks) + 1;
    let mut count = Count {
        ranks,
        delegates: vec![None; pages as usize],
        known: BTreeSet::new(),
        messages: 0,
    };
    (0..pages).for_each(|page| count.ask_keeper(count.home_of(page), page));
    for segment in 0..segments {
        for step in 0..ranks {
            for rank in in_turn(ranks) {
                let start = u64::from(segment * ranks + (rank + step) % ranks);
                let window = [start, start + 1];
                window.iter().for_each(|&page| count.read(rank, page));
                window.iter().for_each(|&page| count.write(rank, page));
            }
        }
    }
    count.messages
}

/// Even ranks, then odd ones; an odd last one at the end.
fn in_turn(ranks: u32) -> impl Iterator<Item = u32> {
    let turn = move |rank: u32| match ranks % 2 == 1 && rank == ranks - 1 {
        true => 2,
        false => rank % 2,
    };
    (0..3).flat_map(move |now| (0..ranks).filter(move |&rank| turn(rank) == now))
}

impl Count {
    /// The rank that was dealt the page.
    fn home_of(&self, page: u64) -> u32 {
        (page % u64::from(self.ranks)) as u32
    }

    /// A rank asks rank `page mod ranks` once for the home of a page.
    fn ask_keeper(&mut self, rank: u32, page: u64) {
        let asks =
            self.known.insert((rank, page)) && page % u64::from(self.ranks) != u64::from(rank);
        self.messages += 2 * u64::from(asks);
    }

    /// A question and its answer; where a delegate has the page, another at it.
    fn read(&mut self, rank: u32, page: u64) {
        self.ask_keeper(rank, page);
        let is_home = self.home_of(page) == rank;
        self.messages += match self.delegates[page as usize] {
            Some(delegate) if delegate == rank => 0,
            Some(_) if is_home => 2,
            Some(_) => 4,
            None => 2 * u64::from(!is_home),
        };
    }

    /// A claim and its answer, and between them the last delegate's word that it has stopped.
    fn write(&mut self, rank: u32, page: u64) {
        let is_home = self.home_of(page) == rank;
        let last = self.delegates[page as usize];
        if last == Some(rank) {
            return;
        }
        self.messages += 2 * (u64::from(!is_home) + u64::from(last.is_some()));
        self.delegates[page as usize] = (!is_home).then_some(rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranks_are_counted_by_hand() {
        // Pages 0 and 2 are rank 0's, page 1 is rank 1's, and so each is its own keeper's.
        // Rank 0 reads and claims page 1: a question to the keeper, a read, a claim; page 0 is its own.
        // Rank 1 has page 1 fetched from rank 0 and stops it; page 2: a question, a read, a claim.
        // Then rank 0 has page 1 again, which is at its home, and stops rank 1 at page 2 after a fetch.
        // Rank 1 has pages 0 and 1: a question, a read, a claim; a fetch and a stop.
        let turns = [6, 4 + 6, 4 + 4, 6 + 4];
        assert_eq!(messages(2, 1), turns.iter().sum::<u64>());
    }

    #[test]
    fn every_rank_has_its_turn_once() {
        for ranks in 1..9 {
            let mut all: Vec<u32> = in_turn(ranks).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..ranks));
        }
    }
}
