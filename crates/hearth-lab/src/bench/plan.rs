//! The work that options ask for. Two command lines that do the same have the same plan, and one with an option that
//! would change nothing has none: it is refused.

use super::options::{Args, Bench, FewRanks, Grid, OfMpi, Output, Policies, Schedules, Way};
use super::{
    bank_faults, btio, fixture, flash_io, local_hit, logging, programs, read_latency,
    replica_faults, sliding_window, small_io, stat, tiers,
};
use hearth_agent::{Policy, Replicas};
use hearth_set::failure::Failure;
use hearth_set::report::Format;
use hearth_set::size::Size;
use hearth_set::trial::matmul::System;

/// A benchmark, and how it is told.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) task: Task<'a>,
    pub(super) format: Format,
}

/// A benchmark with its parameters.
#[derive(Debug)]
pub(super) enum Task<'a> {
    Matmul(Matmul<'a>),
    SmallIo(small_io::Load<'a>),
    Stat(stat::Load<'a>),
    ReadLatency(read_latency::Load<'a>),
    BankFaults(bank_faults::Play),
    ReplicaFaults(replica_faults::Play),
    /// So many turns.
    RemoteHit(usize),
    Transports(usize),
    LocalHit(local_hit::Load),
    Programs(programs::Choice),
    SlidingWindow(sliding_window::Load<'a>),
    Btio(btio::Load<'a>),
    FlashIo(flash_io::Load<'a>),
    Throughput(tiers::Load<'a>),
    Fuse(tiers::fuse::Load<'a>),
    Replication(&'static tiers::replication::Effort),
    Create(tiers::Load<'a>),
    Findings(usize),
    Logging(logging::Load),
}

/// Parameters of the matrix program.
#[derive(Debug)]
pub(super) struct Matmul<'a> {
    pub(super) store: &'a str,
    pub(super) systems: Vec<System>,
    pub(super) turns: usize,
}

impl Task<'_> {
    /// True for those that play schedules of faults.
    pub(super) fn looks_for_wrong_data(&self) -> bool {
        matches!(self, Task::BankFaults(_) | Task::ReplicaFaults(_))
    }
}

/// The plan of a command line.
pub(super) fn of(args: &Args) -> Result<Plan<'_>, Failure> {
    let bench = &args.bench;
    let format = match bench.output().json {
        true => Format::Json,
        false => Format::Table,
    };
    let task = task(bench)?;
    Ok(Plan { task, format })
}

impl Bench {
    /// Policies that were named.
    pub(super) fn policies(&self) -> &[Policy] {
        match self {
            Bench::Matmul { chosen, .. }
            | Bench::SmallIo { chosen, .. }
            | Bench::Btio { chosen, .. }
            | Bench::FlashIo { chosen, .. } => &chosen.policies,
            Bench::Stat { policies, .. } => policies,
            Bench::BankFaults { policy, .. } => std::slice::from_ref(policy),
            Bench::ReadLatency { .. }
            | Bench::ReplicaFaults { .. }
            | Bench::RemoteHit { .. }
            | Bench::LocalHit { .. }
            | Bench::Programs { .. }
            | Bench::SlidingWindow { .. }
            | Bench::Transports { .. }
            | Bench::Throughput { .. }
            | Bench::Fuse { .. }
            | Bench::Replication { .. }
            | Bench::Create { .. }
            | Bench::Findings { .. }
            | Bench::Logging { .. } => &[],
        }
    }

    fn output(&self) -> Output {
        match self {
            Bench::Matmul { way, .. }
            | Bench::SmallIo { way, .. }
            | Bench::Stat { way, .. }
            | Bench::ReadLatency { way, .. }
            | Bench::RemoteHit { way }
            | Bench::LocalHit { way }
            | Bench::Programs { way }
            | Bench::SlidingWindow { way, .. }
            | Bench::Btio { way, .. }
            | Bench::FlashIo { way, .. }
            | Bench::Transports { way }
            | Bench::Throughput { way, .. }
            | Bench::Fuse { way, .. }
            | Bench::Replication { way }
            | Bench::Create { way, .. }
            | Bench::Findings { way }
            | Bench::Logging { way, .. } => way.output,
            Bench::BankFaults { schedules, .. } | Bench::ReplicaFaults { schedules, .. } => {
                schedules.output
            }
        }
    }
}

fn task(bench: &Bench) -> Result<Task<'_>, Failure> {
    use Bench as B;
    Ok(match bench {
        B::Matmul { store, chosen, way } => Task::Matmul(matmul(&store.kind, chosen, *way)),
        B::SmallIo { store, chosen, way } => Task::SmallIo(small_io(&store.kind, chosen, *way)),
        B::Stat {
            store,
            clients,
            way,
            ..
        } => Task::Stat(stat((&store.kind, bench.policies()), clients, *way)),
        B::ReadLatency {
            store,
            clients,
            way,
        } => Task::ReadLatency(read_latency(&store.kind, *clients, *way)),
        B::BankFaults { policy, schedules } => Task::BankFaults(bank_faults(*policy, schedules)),
        B::ReplicaFaults {
            replicas,
            schedules,
        } => Task::ReplicaFaults(replica_faults(*replicas, schedules)),
        B::RemoteHit { way } => Task::RemoteHit(way.of(64, 16)),
        B::Transports { way } => Task::Transports(way.of(5, 1)),
        B::LocalHit { way } => Task::LocalHit(local_hit(*way)),
        B::Programs { way } => Task::Programs(programs(*way)),
        B::SlidingWindow {
            store,
            ranks,
            mpi,
            way,
        } => Task::SlidingWindow(sliding_window(&store.kind, ranks, mpi, *way)?),
        B::Btio {
            store,
            chosen,
            grid,
            mpi,
            way,
        } => Task::Btio(btio((&store.kind, chosen), grid, mpi, *way)?),
        B::FlashIo {
            store,
            chosen,
            ranks,
            mpi,
            way,
        } => Task::FlashIo(flash_io((&store.kind, chosen), ranks, mpi, *way)?),
        B::Throughput { store, way } => Task::Throughput(tiers(&store.kind, *way)),
        B::Fuse { store, disk, way } => Task::Fuse(fuse(&store.kind, *disk, *way)),
        B::Create { store, way } => Task::Create(tiers(&store.kind, *way)),
        B::Replication { way } => Task::Replication(replication(*way)),
        B::Findings { way } => Task::Findings(way.of(3, 1)),
        B::Logging { store, way } => Task::Logging(logging(store.as_deref(), *way)),
    })
}

impl Way {
    /// The whole, or what a quick run has.
    fn of<T>(self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }
}

fn matmul<'a>(store: &'a str, chosen: &Policies, way: Way) -> Matmul<'a> {
    let usual = match store {
        "gluster" => System::MAIN,
        _ => System::ALL,
    };
    Matmul {
        store,
        systems: System::chosen(&chosen.policies, usual),
        turns: way.of(5, 1),
    }
}

fn small_io<'a>(store: &'a str, chosen: &Policies, way: Way) -> small_io::Load<'a> {
    let whole = small_io::Load::whole(store, &chosen.policies);
    if way.quick { whole.quick() } else { whole }
}

fn stat<'a>(
    (store, policies): (&'a str, &[Policy]),
    clients: &'a [u32],
    way: Way,
) -> stat::Load<'a> {
    stat::Load {
        store,
        clients,
        systems: fixture::System::chosen(policies),
        effort: way.of(&stat::Effort::FULL, &stat::Effort::QUICK),
    }
}

fn read_latency(store: &str, clients: Option<u32>, way: Way) -> read_latency::Load<'_> {
    use read_latency::Effort;
    read_latency::Load {
        store,
        clients,
        effort: way.of(&Effort::FULL, &Effort::QUICK),
    }
}

fn bank_faults(policy: Policy, schedules: &Schedules) -> bank_faults::Play {
    bank_faults::Play {
        policy,
        seed: schedules.seed,
        schedules: schedules.count as usize,
    }
}

fn replica_faults(replicas: Option<Replicas>, schedules: &Schedules) -> replica_faults::Play {
    replica_faults::Play {
        seed: schedules.seed,
        schedules: schedules.count as usize,
        replicas,
    }
}

fn local_hit(way: Way) -> local_hit::Load {
    local_hit::Load {
        turns: way.of(10, 3),
        working_set: way.of(256, 32),
    }
}

fn programs(way: Way) -> programs::Choice {
    way.of(programs::Choice::All, programs::Choice::Light)
}

fn sliding_window<'a>(
    store: &'a str,
    ranks: &[u32],
    mpi: &'a OfMpi,
    way: Way,
) -> Result<sliding_window::Load<'a>, Failure> {
    Ok(sliding_window::Load {
        store,
        link: link(store, mpi)?,
        mpi: mpi.library,
        ranks: ranks_or(ranks, way.of(&[4, 8, 16], &[4])),
        segments: way.of(2, 1),
        turns: way.of(3, 1),
    })
}

fn btio<'a>(
    (store, chosen): (&'a str, &'a Policies),
    grid: &'a Grid,
    mpi: &'a OfMpi,
    way: Way,
) -> Result<btio::Load<'a>, Failure> {
    let class = grid.class.unwrap_or(way.of(btio::Class::W, btio::Class::S));
    let (points, dumps) = class.size();
    let turns = match class {
        btio::Class::S | btio::Class::W => way.of(5, 1),
        // A run takes long enough that a slow moment does not show.
        btio::Class::A => 1,
    };
    if way.quick && class == btio::Class::A && grid.dumps.is_some() {
        let what = "cannot use --quick: --class A with --dumps has one turn, and no fewer";
        return Err(Failure::new(what).hint("leave --quick out"));
    }
    Ok(btio::Load {
        store,
        link: link(store, mpi)?,
        mpi: mpi.library,
        policies: &chosen.policies,
        modes: &grid.mode,
        ranks: ranks_or(&grid.ranks.counts, &[4]),
        points,
        // As many lines a dump as ever, fewer dumps.
        dumps: grid.dumps.unwrap_or(way.of(dumps, dumps / 4)),
        turns,
    })
}

fn flash_io<'a>(
    (store, chosen): (&'a str, &'a Policies),
    ranks: &FewRanks,
    mpi: &'a OfMpi,
    way: Way,
) -> Result<flash_io::Load<'a>, Failure> {
    Ok(flash_io::Load {
        store,
        link: link(store, mpi)?,
        mpi: mpi.library,
        policies: &chosen.policies,
        ranks: ranks_or(&ranks.counts, &[4]),
        sides: way.of(vec![8, 16], vec![8]),
        blocks: way.of(80, 8),
        turns: way.of(3, 1),
    })
}

/// The links' rate, which test hosts alone have.
fn link<'a>(store: &str, mpi: &'a OfMpi) -> Result<Option<&'a str>, Failure> {
    let link = mpi.link.as_deref();
    if link.is_some() && store != "gluster" {
        let what =
            format!("cannot use --link with --store {store}: there are no links on one machine");
        return Err(Failure::new(what).hint("--store gluster, or leave --link out"));
    }
    Ok(link)
}

fn ranks_or(asked: &[u32], usual: &[u32]) -> Vec<u32> {
    match asked {
        [] => usual.to_vec(),
        asked => asked.to_vec(),
    }
}

fn tiers(store: &str, way: Way) -> tiers::Load<'_> {
    tiers::Load {
        store,
        effort: way.of(&tiers::Effort::FULL, &tiers::Effort::QUICK),
    }
}

fn fuse(store: &str, disk: Option<Size>, way: Way) -> tiers::fuse::Load<'_> {
    tiers::fuse::Load {
        store,
        disk,
        effort: way.of(&tiers::Effort::FULL, &tiers::Effort::QUICK),
    }
}

fn replication(way: Way) -> &'static tiers::replication::Effort {
    use tiers::replication::Effort;
    way.of(&Effort::FULL, &Effort::QUICK)
}

fn logging(store: Option<&str>, way: Way) -> logging::Load {
    logging::Load {
        logged: match store {
            Some(_) => logging::Logged::Programs,
            None => logging::Logged::Calls,
        },
        effort: way.of(logging::Effort::FULL, logging::Effort::QUICK),
    }
}

#[cfg(test)]
mod tests;
