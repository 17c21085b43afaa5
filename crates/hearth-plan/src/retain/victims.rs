//! Which files to discard for a new one: Algorithm 3.
//!
//! The *gain* of a file is its size times its reads after this one, the *cost* of a victim its size
//! times its reads from now on, and what of it has yet to be written back. To be chosen is the
//! cheapest set of victims that makes room, if it costs less than the gain: equal is no benefit.

use alloc::vec::Vec;

use crate::units::{Bytes, FileIndex};

/// A file in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionCandidate {
    /// Which one.
    pub file: FileIndex,
    /// Bytes that its going sets free.
    pub size: Bytes,
    /// How often it is read from now on.
    pub references: usize,
    /// Bytes that have to be written back before it can go.
    pub dirty: Bytes,
}

/// The file that is to come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingFile {
    /// Bytes that it takes.
    pub size: Bytes,
    /// How often it is read after the read that it is fetched for.
    pub references: usize,
}

/// A node's memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Bytes that it holds.
    pub capacity: Bytes,
    /// The files in it.
    pub residents: &'a [EvictionCandidate],
    /// A file that cannot go, because it is being read and nobody waits for the end of that.
    pub pinned: Option<FileIndex>,
}

impl EvictionCandidate {
    /// Reads that its going sends to the disk, in bytes.
    fn cost(&self) -> Bytes {
        self.size.times(self.references)
    }

    fn cost_with_writes(&self) -> Bytes {
        self.cost() + self.dirty
    }
}

impl IncomingFile {
    fn gain(&self) -> Bytes {
        self.size.times(self.references)
    }
}

impl Memory<'_> {
    fn used(&self) -> Bytes {
        self.residents.iter().map(|resident| resident.size).sum()
    }

    /// Bytes to be set free.
    fn need(&self, wanted: IncomingFile) -> Bytes {
        (self.used() + wanted.size).saturating_sub(self.capacity)
    }

    fn loose(&self) -> impl Iterator<Item = EvictionCandidate> {
        let loose = self.residents.iter();
        loose
            .filter(|resident| Some(resident.file) != self.pinned)
            .copied()
    }
}

/// Algorithm 3 line by line: victims, or `None` for *failed*.
///
/// It succeeds with a file that cannot fit at all, if everything in memory is worth less, and knows
/// of no file that cannot go.
pub fn literal(memory: Memory<'_>, wanted: IncomingFile) -> Option<Vec<FileIndex>> {
    by_cost(memory.residents.to_vec(), memory.need(wanted), wanted)
}

/// Algorithm 3 with the checks that it needs: the file fits at all, and what cannot go stays.
pub fn paper(memory: Memory<'_>, wanted: IncomingFile) -> Option<Vec<FileIndex>> {
    let (loose, need) = (memory.loose().collect::<Vec<_>>(), memory.need(wanted));
    let enough = loose.iter().map(|resident| resident.size).sum::<Bytes>() >= need;
    (wanted.size <= memory.capacity && enough)
        .then(|| by_cost(loose, need, wanted))
        .flatten()
}

fn by_cost(
    mut loose: Vec<EvictionCandidate>,
    need: Bytes,
    wanted: IncomingFile,
) -> Option<Vec<FileIndex>> {
    let mut victims = Vec::new();
    let (mut freed, mut cost) = (Bytes::ZERO, Bytes::ZERO);
    if need == Bytes::ZERO {
        return Some(victims);
    }
    loose.sort_by_key(EvictionCandidate::cost);
    for resident in loose {
        cost += resident.cost();
        if cost >= wanted.gain() {
            return None;
        }
        victims.push(resident.file);
        freed += resident.size;
        if freed >= need {
            break;
        }
    }
    Some(victims)
}

/// The cheapest victims that make room and cost less than the gain.
///
/// Exact while the search is short, which it is for dozens of files; otherwise the best that was
/// found. A file that is not read again has no gain: it may take the room of files that are not read
/// either, and is then the first to go.
pub fn covering(memory: Memory<'_>, wanted: IncomingFile) -> Option<Vec<FileIndex>> {
    let need = memory.need(wanted);
    let limit = match wanted.references {
        0 => Bytes(1),
        _ => wanted.gain(),
    };
    if need == Bytes::ZERO {
        return Some(Vec::new());
    }
    let mut cover = Cover::new(memory.loose().collect(), limit);
    cover.seed(need);
    cover.search(0, need, Bytes::ZERO);
    let chosen = cover.best?;
    Some(
        chosen
            .into_iter()
            .map(|place| cover.loose[place].file)
            .collect(),
    )
}

/// Sets of victims that are looked at before the best one so far has to do.
const VISITS_MAX: u32 = 20_000;

/// Branch and bound over files in the order of cost per byte.
struct Cover {
    loose: Vec<EvictionCandidate>,
    /// The cost that must be undercut.
    limit: Bytes,
    best: Option<Vec<usize>>,
    chosen: Vec<usize>,
    visits_left: u32,
}

impl Cover {
    fn new(mut loose: Vec<EvictionCandidate>, limit: Bytes) -> Cover {
        let product = |one: &EvictionCandidate, other: &EvictionCandidate| {
            u128::from(one.cost_with_writes().0) * u128::from(other.size.0)
        };
        loose.retain(|resident| resident.size > Bytes::ZERO);
        loose.sort_by(|one, other| {
            let by_density = product(one, other).cmp(&product(other, one));
            by_density.then(other.size.cmp(&one.size))
        });
        Cover {
            loose,
            limit,
            best: None,
            chosen: Vec::new(),
            visits_left: VISITS_MAX,
        }
    }

    /// A first answer: files in order until there is room, then out with those that were not needed.
    fn seed(&mut self, need: Bytes) {
        let mut chosen = Vec::new();
        let mut freed = Bytes::ZERO;
        for (place, resident) in self.loose.iter().enumerate() {
            if freed < need {
                chosen.push(place);
                freed += resident.size;
            }
        }
        let mut dearest_first = chosen.clone();
        dearest_first
            .sort_by_key(|place| core::cmp::Reverse(self.loose[*place].cost_with_writes()));
        for place in dearest_first {
            let size = self.loose[place].size;
            if freed >= need + size {
                freed -= size;
                chosen.retain(|other| *other != place);
            }
        }
        if freed >= need {
            self.offer(chosen);
        }
    }

    fn offer(&mut self, chosen: Vec<usize>) {
        let costs = chosen
            .iter()
            .map(|place| self.loose[*place].cost_with_writes());
        let cost = costs.sum();
        if cost < self.limit {
            self.limit = cost;
            self.best = Some(chosen);
        }
    }

    /// Tries sets that continue `chosen` with files from `from` on.
    fn search(&mut self, from: usize, need: Bytes, cost: Bytes) {
        if need == Bytes::ZERO {
            let chosen = self.chosen.clone();
            return self.offer(chosen);
        }
        self.visits_left = self.visits_left.saturating_sub(1);
        let is_hopeless = self
            .least(from, need)
            .is_none_or(|least| cost + least >= self.limit);
        if self.visits_left == 0 || is_hopeless {
            return;
        }
        let EvictionCandidate { size, .. } = self.loose[from];
        self.chosen.push(from);
        let with = cost + self.loose[from].cost_with_writes();
        self.search(from + 1, need.saturating_sub(size), with);
        self.chosen.pop();
        self.search(from + 1, need, cost);
    }

    /// The least cost of setting `need` free with files from `from` on, as if files could be cut.
    /// `None` if they cannot.
    fn least(&self, from: usize, mut need: Bytes) -> Option<Bytes> {
        let mut cost = Bytes::ZERO;
        for resident in &self.loose[from..] {
            let whole = resident.cost_with_writes();
            if resident.size >= need {
                let part = u128::from(whole.0) * u128::from(need.0) / u128::from(resident.size.0);
                return Some(cost + Bytes(part as u64));
            }
            need -= resident.size;
            cost += whole;
        }
        None
    }
}
