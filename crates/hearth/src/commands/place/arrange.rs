//! Jobs onto nodes, wave by wave.
//!
//! Jobs that run after others form a later *wave*. The files that a job reads or writes are on its node from then on,
//! so the next wave finds them there.

mod order;

use std::collections::{BTreeMap, BTreeSet};

use hearth_plan::place::{Placement, Situation, bound_shared, cheapest_shared, literal, paper};
use hearth_plan::{Bytes, FileIndex, NodeIndex};

use super::Method;
use super::jobs::{Asked, Job, of_rank};
use super::residency::Residency;
use hearth_set::failure::Failure;
use hearth_set::size::Size;

/// All that jobs read together, at most: sums stay far from what 64 bits hold.
const TOTAL_MAX: u64 = 1 << 60;
/// Ranks of all jobs, at most: more would take minutes.
const UNITS_MAX: usize = 1 << 14;

/// A node for each rank of each job.
#[derive(Debug)]
pub(super) struct Arranged {
    /// Names of the nodes.
    pub(super) nodes: Vec<String>,
    /// In the order of the jobs and their ranks.
    pub(super) units: Vec<Unit>,
    /// Bytes that have to be moved.
    pub(super) moved: Bytes,
    /// The same for the published method.
    pub(super) moved_paper: Bytes,
    /// No placement moves less; known for a single wave.
    pub(super) bound: Option<Bytes>,
}

/// A rank of a job.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) job: String,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) wave: usize,
    pub(super) node: Option<NodeIndex>,
    pub(super) reads: Bytes,
    /// Bytes of these that are on the node before anything moves.
    pub(super) held: Bytes,
}

impl Arranged {
    pub(super) fn new(
        asked: &Asked,
        residency: &Residency,
        method: Method,
    ) -> Result<Arranged, Failure> {
        let cannot = |why: String| Failure::new("cannot place these jobs").cause(why);
        let waves = order::waves(&asked.jobs).map_err(cannot)?;
        let table = Table::new(asked, residency, &waves).map_err(cannot)?;
        table.check_total(residency)?;
        let count = waves.iter().max().map_or(0, |last| last + 1);
        let (units, moved, bound) = table.place(method, count);
        let (_, moved_paper, _) = table.place(Method::Paper, count);
        Ok(Arranged {
            nodes: residency
                .nodes
                .iter()
                .map(|node| node.name.clone())
                .collect(),
            units,
            moved,
            moved_paper,
            bound,
        })
    }

    /// The ranks of a job, or of all.
    pub(super) fn units_of(&self, job: Option<&str>) -> Vec<&Unit> {
        let units = self.units.iter();
        units
            .filter(|unit| job.is_none_or(|job| job == unit.job))
            .collect()
    }
}

/// Files and ranks by number.
struct Table {
    situation: Situation,
    ranks: Vec<Rank>,
}

struct Rank {
    job: String,
    rank: u32,
    ranks: u32,
    wave: usize,
    reads: Vec<FileIndex>,
    writes: Vec<FileIndex>,
}

impl Table {
    fn new(asked: &Asked, residency: &Residency, waves: &[usize]) -> Result<Table, String> {
        let mut files: BTreeMap<&str, FileIndex> = BTreeMap::new();
        let mut situation = Situation {
            seats: residency.nodes.iter().map(|node| node.seats).collect(),
            ..Situation::default()
        };
        let nodes: BTreeMap<&str, NodeIndex> = residency
            .nodes
            .iter()
            .map(|node| node.name.as_str())
            .zip((0..).map(NodeIndex))
            .collect();
        for file in &residency.files {
            files.insert(&file.path, FileIndex(situation.sizes.len() as u32));
            situation.sizes.push(Bytes(file.size.0));
            let held = file.held.iter();
            let held = held.map(|(node, bytes)| (nodes[node.as_str()], Bytes(bytes.0)));
            situation.held.push(held.collect());
        }
        for (name, size) in &asked.sizes {
            files.entry(name).or_insert_with(|| {
                situation.sizes.push(Bytes(size.0));
                situation.held.push(Vec::new());
                FileIndex(situation.sizes.len() as u32 - 1)
            });
        }
        let count: usize = asked.jobs.iter().map(|job| job.ranks as usize).sum();
        if count > UNITS_MAX {
            return Err(format!(
                "they have {count} ranks together; at most {UNITS_MAX} can be placed"
            ));
        }
        let mut ranks = Vec::new();
        for (job, wave) in asked.jobs.iter().zip(waves) {
            for rank in 0..job.ranks {
                ranks.push(Rank::new(job, rank, *wave, &files)?);
            }
        }
        Ok(Table { situation, ranks })
    }

    /// Everything fits into the nodes together, if they say how much they hold.
    fn check_total(&self, residency: &Residency) -> Result<(), Failure> {
        let cannot = |why: String| Failure::new("cannot place these jobs").cause(why);
        let all = self.ranks.iter().map(|rank| self.size(&rank.reads));
        if all.sum::<Bytes>() > Bytes(TOTAL_MAX) {
            let most = Size(TOTAL_MAX);
            return Err(cannot(format!("jobs read more than {most} together")));
        }
        let memory = residency.nodes.iter().map(|node| node.memory);
        let memory = memory.map(|memory| memory.map(|memory| Bytes(memory.0)));
        let Some(memory) = memory.sum::<Option<Bytes>>() else {
            return Ok(());
        };
        let files: BTreeSet<FileIndex> = self
            .ranks
            .iter()
            .flat_map(|rank| &rank.reads)
            .copied()
            .collect();
        let read = self.size(&files);
        if read <= memory {
            return Ok(());
        }
        let (read, memory) = (Size(read.0), Size(memory.0));
        let why = format!("they read {read}, and all nodes together hold {memory}");
        Err(cannot(why)
            .hint("place fewer jobs at a time, or leave out `memory` in a recorded residency"))
    }

    fn size<'a>(&self, files: impl IntoIterator<Item = &'a FileIndex>) -> Bytes {
        let files = files.into_iter();
        files.map(|file| self.situation.sizes[file.index()]).sum()
    }

    /// Ranks with their nodes, the bytes moved, and what cannot be undercut.
    fn place(&self, method: Method, waves: usize) -> (Vec<Unit>, Bytes, Option<Bytes>) {
        let mut situation = self.situation.clone();
        let mut placed: BTreeMap<usize, (Option<NodeIndex>, Bytes)> = BTreeMap::new();
        let (mut moved, mut bound) = (Bytes::ZERO, None);
        for wave in 0..waves {
            let ranks: Vec<usize> = (0..self.ranks.len())
                .filter(|rank| self.ranks[*rank].wave == wave)
                .collect();
            let reads = ranks.iter().map(|rank| self.ranks[*rank].reads.clone());
            situation.jobs = reads.collect();
            let placement = place_by(method, &situation);
            moved += situation.moved_once(&placement);
            if waves == 1 {
                bound = Some(bound_shared(&situation));
            }
            for (job, (rank, node)) in ranks.iter().zip(&placement.0).enumerate() {
                let held = node.map_or(Bytes::ZERO, |node| {
                    situation.reads(job) - situation.moved_by(job, node)
                });
                placed.insert(*rank, (*node, held));
            }
            self.note(&mut situation, &ranks, &placement);
        }
        let units = self.ranks.iter().zip(placed.into_values());
        let units = units.map(|(rank, (node, held))| rank.unit(node, held, self.size(&rank.reads)));
        (units.collect(), moved, bound)
    }

    /// Notes that the files that ranks read and wrote are on their nodes now.
    fn note(&self, situation: &mut Situation, ranks: &[usize], placement: &Placement) {
        for (rank, node) in ranks.iter().zip(&placement.0) {
            let Some(node) = node else { continue };
            let Rank { reads, writes, .. } = &self.ranks[*rank];
            for file in writes {
                situation.held[file.index()].clear();
            }
            for file in reads.iter().chain(writes) {
                let held = &mut situation.held[file.index()];
                held.retain(|(holder, _)| holder != node);
                held.push((*node, situation.sizes[file.index()]));
            }
        }
    }
}

fn place_by(method: Method, situation: &Situation) -> Placement {
    match method {
        Method::Improved => cheapest_shared(situation),
        Method::Paper => paper(situation),
        Method::PaperLiteral => literal(situation),
    }
}

impl Rank {
    fn unit(&self, node: Option<NodeIndex>, held: Bytes, reads: Bytes) -> Unit {
        Unit {
            job: self.job.clone(),
            rank: self.rank,
            ranks: self.ranks,
            wave: self.wave,
            node,
            reads,
            held,
        }
    }

    fn new(
        job: &Job,
        rank: u32,
        wave: usize,
        files: &BTreeMap<&str, FileIndex>,
    ) -> Result<Rank, String> {
        let find = |name: &String| {
            let name = of_rank(name, rank);
            files.get(name.as_str()).copied().ok_or(name)
        };
        let reads = job.reads.iter().map(find);
        let mut reads: Vec<FileIndex> = reads.collect::<Result<_, _>>().map_err(|name| {
            format!(
                "job `{}` reads `{name}`, of which no size is known: say `file {name} SIZE`",
                job.name
            )
        })?;
        reads.sort_unstable();
        reads.dedup();
        Ok(Rank {
            job: job.name.clone(),
            rank,
            ranks: job.ranks,
            wave,
            reads,
            // A file that nobody reads later needs no size.
            writes: job
                .writes
                .iter()
                .filter_map(|name| find(name).ok())
                .collect(),
        })
    }
}
