//! `hearth-lab bench`: the seeds' experiments and our own limits, side by side in one run.

mod bank_faults;
mod btio;
mod cells;
mod disk;
mod findings;
mod fixture;
mod flash_io;
mod gluster;
mod hosts;
mod inside;
mod local_hit;
mod logging;
mod mpi;
mod programs;
mod read_latency;
mod remote_hit;
mod replica_faults;
mod rig;
mod shares;
mod sliding_window;
mod small_io;
mod stat;
mod tiers;
mod transports;

use crate::hearth::hearth;
use hearth_agent::{Policy, Replicas};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::warn_of;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::{self, BenchReport, Format};
use hearth_set::signals::Signals;
use hearth_set::trial::matmul::{self, MATRIX};
use hearth_set::typed::parser;
use rustix::process::Signal;
use std::process::ExitCode;
pub(crate) use transports::ranks::{Args as TransportRank, run as be_rank};

const EXAMPLES: &str = "\
Examples:
  hearth-lab bench matmul --store model
  hearth-lab bench remote-hit --json | tail -1

The table is for people; --json prints one object per figure and a summary last. Ratios and counts
are the results; times are context. Every run checks its own data: wrong data exits with 2; for
bank-faults and replica-faults, which look for it, with 1.";

/// Options of `hearth-lab bench`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Benchmark to run
    #[arg(value_enum)]
    name: Name,
    /// The store: posix, model[:SETTINGS], or gluster for a real volume on test hosts
    #[arg(long, default_value = "model", value_name = "KIND")]
    store: String,
    /// Policies to measure beside none and home, for matmul, small-io, btio and flash-io [default: all]; for
    /// stat those to measure beside the store [default: none,bank,home]
    #[arg(
        long,
        value_name = "P",
        value_delimiter = ',',
        value_parser = parser::<Policy>(),
        hide_possible_values = true
    )]
    policy: Vec<Policy>,
    /// Size of btio: S, W or A [default: W; S with --quick]
    #[arg(long, value_enum, value_name = "C")]
    class: Option<btio::Class>,
    /// Ways of btio to measure: full, simple, fortran or epio [default: all]
    #[arg(
        long,
        value_name = "M",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    mode: Vec<btio::Mode>,
    /// Dumps of btio [default: the class's 12 or 40; a quarter with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    dumps: Option<u32>,
    /// Ranks of sliding-window, btio and flash-io [default: 4,8,16 for sliding-window, else 4]
    #[arg(long, value_name = "N", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: Vec<u32>,
    /// MPI library of sliding-window, btio and flash-io: openmpi or mpich [default: openmpi]
    #[arg(long, value_enum, value_name = "MPI", hide_possible_values = true)]
    mpi: Option<mpi::Mpi>,
    /// Rate of the links of test hosts in sliding-window, btio and flash-io: low, so that the volume takes the
    /// time and not the processors that all hosts share [default: 25mbit for sliding-window, else 100mbit]
    #[arg(long, value_name = "RATE")]
    link: Option<String>,
    /// Clients of stat, one run for each count
    #[arg(
        long,
        value_name = "N,M",
        value_delimiter = ',',
        default_value = "1,2,4",
        value_parser = clap::value_parser!(u32).range(1..=16)
    )]
    clients: Vec<u32>,
    /// Random schedules of bank-faults and replica-faults [default: 300; 8 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    schedules: Option<u32>,
    /// Seed of the first schedule of bank-faults and replica-faults [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How replica-faults keeps bytes: none, async[:K], sync[:K] or erasure[:K,M] [default: none and sync:1 in turn]
    #[arg(long, value_name = "HOW", value_parser = hearth_set::replicas::parse)]
    replicas: Option<Replicas>,
    /// Fewer turns, less data
    #[arg(long)]
    quick: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Name {
    /// Matrix multiplication by four processes, natively and under each policy
    Matmul,
    /// Small interleaved writes into one shared file, under each policy
    SmallIo,
    /// Attributes of many small files, asked for by each of several clients
    Stat,
    /// Records written and read one after another, cold and warm, by one client and by several
    ReadLatency,
    /// Faults of daemons and gateways under policy bank, with a checker of every read
    BankFaults,
    /// Agents of policy local that die and come back, with a checker of what was acknowledged
    ReplicaFaults,
    /// A read that a peer's memory serves, over a bare TCP round trip
    RemoteHit,
    /// A warm read through FUSE, over the same on tmpfs
    LocalHit,
    /// Programs that people use, over the library and over the mount: is all as without a cache?
    Programs,
    /// A window that ranks slide over a shared file, with byte-range locks or over a cache
    SlidingWindow,
    /// The I/O of BTIO: full, simple, fortran and epio
    Btio,
    /// The checkpoint and plot files of FLASH I/O through parallel HDF5
    FlashIo,
    /// All transports over loopback, and those between hosts over modelled links, without loss and with
    Transports,
    /// Writers over tiers that fill, each on an agent of its own, over the bare store
    Throughput,
    /// 1 to 12 writers through the mount to a tier, over the tier's file system alone
    Fuse,
    /// Writers over tiers whose bytes others keep as well, over writers alone
    Replication,
    /// Many files created in one directory from four agents at once
    Create,
    /// Programs with a planted fault each: is it named, and is its cost predicted?
    Findings,
    /// A record of a call, beside a line of text and an LTTng event; with --store posix, programs
    /// with and without
    Logging,
}

/// Records of the small-writes benchmark: 12 dumps of BTIO class S.
const RECORDS: usize = 3456;

impl Name {
    /// True for those that play schedules of faults.
    fn looks_for_wrong_data(self) -> bool {
        matches!(self, Name::BankFaults | Name::ReplicaFaults)
    }
}

impl Args {
    /// Refuses options that would say nothing to the benchmark.
    fn check(&self) -> Result<(), Failure> {
        let is_btio = self.name == Name::Btio;
        let is_faults = self.name.looks_for_wrong_data();
        let has_ranks = matches!(self.name, Name::SlidingWindow | Name::Btio | Name::FlashIo);
        let has_replicas = self.name == Name::ReplicaFaults;
        let deaf = [
            ("--class", self.class.is_some() && !is_btio),
            ("--mode", !self.mode.is_empty() && !is_btio),
            ("--dumps", self.dumps.is_some() && !is_btio),
            ("--ranks", !self.ranks.is_empty() && !has_ranks),
            ("--mpi", self.mpi.is_some() && !has_ranks),
            ("--schedules", self.schedules.is_some() && !is_faults),
            ("--seed", self.seed.is_some() && !is_faults),
            ("--replicas", self.replicas.is_some() && !has_replicas),
        ];
        match deaf.iter().find(|(_, is_deaf)| *is_deaf) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::new(format!(
                "cannot use {option}: this benchmark has no such choice"
            ))
            .hint("hearth-lab bench --help")),
        }
    }
}

/// Measures and prints.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(&[Signal::INT, Signal::TERM])?;
    args.policy.iter().copied().for_each(warn_of);
    args.check()?;
    let turns = |many, few| if args.quick { few } else { many };
    let report = match args.name {
        Name::Matmul => matmul_on(args, turns(5, 1), &signals)?,
        Name::SmallIo => small_io::run(
            (&args.store, &args.policy),
            turns(RECORDS, RECORDS / 4),
            &signals,
        )?,
        Name::Stat => stat::run(&stat_load(args), &signals)?,
        Name::ReadLatency => read_latency::run(
            &args.store,
            match args.quick {
                true => &read_latency::Effort::QUICK,
                false => &read_latency::Effort::FULL,
            },
            &signals,
        )?,
        Name::BankFaults => bank_faults::run(&bank_play(args)?, &signals)?,
        Name::ReplicaFaults => replica_faults::run(&replica_play(args), &signals)?,
        Name::RemoteHit => remote_hit::run(turns(64, 16))?,
        Name::Transports => transports::run(turns(5, 1))?,
        Name::LocalHit => local_hit::run(turns(10, 3), turns(256, 32))?,
        Name::Programs => programs::run(programs_of(args.quick), &signals, progress)?,
        Name::SlidingWindow => sliding_window::run(&sliding_load(args), &signals, progress)?,
        Name::Btio => btio::run(&btio_load(args), &signals, progress)?,
        Name::FlashIo => flash_io::run(&flash_load(args), &signals, progress)?,
        Name::Throughput => tiers::throughput::run(&args.store, tier_effort(args.quick), &signals)?,
        Name::Fuse => tiers::fuse(&args.store, tier_effort(args.quick), &signals)?,
        Name::Replication => tiers::replication::run(&args.store, replication_effort(args.quick))?,
        Name::Create => tiers::create(&args.store, tier_effort(args.quick), &signals)?,
        Name::Findings => findings::run(turns(3, 1), &signals, progress)?,
        Name::Logging => logging::run(&args.store, effort(args.quick), &signals)?,
    };
    progress_over();
    let format = if args.json {
        Format::Json
    } else {
        Format::Table
    };
    report
        .print(format)
        .or_fail(|| "cannot print the report".to_owned())?;
    match report.is_verified() {
        true => Ok(ExitCode::SUCCESS),
        // That is what was asked.
        false if args.name.looks_for_wrong_data() => Ok(ExitCode::from(1)),
        false => Err(Failure::new("the data that came out is wrong")),
    }
}

fn bank_play(args: &Args) -> Result<bank_faults::Play, Failure> {
    let policy = match args.policy.as_slice() {
        [] => Policy::Bank,
        [policy] if policy.has_bank() => *policy,
        _ => {
            return Err(
                Failure::new("cannot play: one policy with a bank is wanted")
                    .hint("--policy bank, or bank:paper"),
            );
        }
    };
    let usual = if args.quick { 8 } else { 300 };
    Ok(bank_faults::Play {
        policy,
        seed: args.seed.unwrap_or(1),
        schedules: args.schedules.unwrap_or(usual) as usize,
    })
}

fn replica_play(args: &Args) -> replica_faults::Play {
    let usual = if args.quick { 8 } else { 300 };
    replica_faults::Play {
        seed: args.seed.unwrap_or(1),
        schedules: args.schedules.unwrap_or(usual) as usize,
        replicas: args.replicas,
    }
}

fn link_or<'a>(args: &'a Args, usual: &'a str) -> &'a str {
    args.link.as_deref().unwrap_or(usual)
}

fn sliding_load(args: &Args) -> sliding_window::Load<'_> {
    let (ranks, segments, turns): (&[u32], _, _) = match args.quick {
        true => (&[4], 1, 1),
        false => (&[4, 8, 16], 2, 3),
    };
    sliding_window::Load {
        store: &args.store,
        link: link_or(args, "25mbit"),
        mpi: args.mpi.unwrap_or_default(),
        ranks: ranks_or(args, ranks),
        segments,
        turns,
    }
}

fn btio_load(args: &Args) -> btio::Load<'_> {
    let usual = match args.quick {
        true => btio::Class::S,
        false => btio::Class::W,
    };
    let class = args.class.unwrap_or(usual);
    let (points, dumps) = class.size();
    btio::Load {
        store: &args.store,
        link: link_or(args, "100mbit"),
        mpi: args.mpi.unwrap_or_default(),
        policies: &args.policy,
        modes: &args.mode,
        ranks: ranks_or(args, &[4]),
        points,
        // As many lines a dump as ever, fewer dumps.
        dumps: match args.dumps {
            Some(dumps) => dumps,
            None if args.quick => dumps / 4,
            None => dumps,
        },
        turns: match class {
            _ if args.quick => 1,
            btio::Class::S | btio::Class::W => 5,
            // A run takes long enough that a slow moment does not show.
            btio::Class::A => 1,
        },
    }
}

fn flash_load(args: &Args) -> flash_io::Load<'_> {
    let (sides, blocks, turns): (&[u32], _, _) = match args.quick {
        true => (&[8], 8, 1),
        false => (&[8, 16], 80, 3),
    };
    flash_io::Load {
        store: &args.store,
        link: link_or(args, "100mbit"),
        mpi: args.mpi.unwrap_or_default(),
        policies: &args.policy,
        ranks: ranks_or(args, &[4]),
        sides: sides.to_vec(),
        blocks,
        turns,
    }
}

fn ranks_or(args: &Args, usual: &[u32]) -> Vec<u32> {
    match args.ranks.as_slice() {
        [] => usual.to_vec(),
        asked => asked.to_vec(),
    }
}

fn effort(quick: bool) -> logging::Effort {
    match quick {
        true => logging::Effort::QUICK,
        false => logging::Effort::FULL,
    }
}

fn tier_effort(quick: bool) -> &'static tiers::Effort {
    match quick {
        true => &tiers::Effort::QUICK,
        false => &tiers::Effort::FULL,
    }
}

fn replication_effort(quick: bool) -> &'static tiers::replication::Effort {
    match quick {
        true => &tiers::replication::Effort::QUICK,
        false => &tiers::replication::Effort::FULL,
    }
}

fn programs_of(quick: bool) -> programs::Choice {
    match quick {
        true => programs::Choice::Light,
        false => programs::Choice::All,
    }
}

fn stat_load(args: &Args) -> stat::Load<'_> {
    stat::Load {
        store: &args.store,
        clients: &args.clients,
        systems: fixture::System::chosen(&args.policy),
        effort: match args.quick {
            true => &stat::Effort::QUICK,
            false => &stat::Effort::FULL,
        },
    }
}

fn matmul_on(args: &Args, turns: usize, signals: &Signals) -> Result<BenchReport, Failure> {
    let store = args.store.as_str();
    if store == "gluster" {
        return matmul_on_gluster(turns);
    }
    let systems = &matmul::System::chosen(&args.policy, matmul::System::ALL);
    let samples = matmul::sample(
        &hearth()?,
        systems,
        (store, MATRIX),
        turns,
        signals,
        progress,
    )?;
    progress_over();
    Ok(matmul::report(systems, store, MATRIX, &samples))
}

fn matmul_on_gluster(turns: usize) -> Result<BenchReport, Failure> {
    let taken = gluster::sample(MATRIX, turns, progress)?;
    progress_over();
    let samples: Vec<matmul::Sample> = taken.iter().map(|wire| wire.sample).collect();
    let systems = matmul::System::MAIN;
    let mut report = matmul::report(systems, "gluster", MATRIX, &samples);
    for &system in systems {
        let sent = taken.iter().filter(|wire| wire.sample.system == system);
        let sent: Vec<f64> = sent.map(|wire| wire.storage_sent as f64).collect();
        report.row(
            &system.name(),
            "median",
            "storage host sent",
            report::median(&sent),
            "B",
        );
        report.sum_up(
            &format!("storage_sent_bytes_{}", system.name()),
            report::median(&sent),
        );
    }
    report.sum_up(
        "reason",
        "one switch of 1 Gbit/s and a server with warm memory: a read of a row costs a round trip, \
         not a disk, and the volume's own client reads ahead under every system",
    );
    Ok(report)
}
