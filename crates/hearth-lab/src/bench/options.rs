//! Options of `hearth-lab bench NAME`. Each benchmark takes those that change what it does, and no other.

use super::{btio, mpi};
use hearth_agent::{Policy, Replicas};
use hearth_set::size::Size;
use hearth_set::typed::parser;

const EXAMPLES: &str = "\
Examples:
  hearth-lab bench matmul --store model
  hearth-lab bench remote-hit --json | tail -1
  hearth-lab bench sliding-window --help

The table is for people; --json prints one object per figure and a summary last. Ratios and counts
are the results; times are context. Every run checks its own data: wrong data exits with 2; for
bank-faults and replica-faults, which look for it, with 1.";

/// Options of `hearth-lab bench`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) bench: Bench,
}

/// A benchmark, with its options.
#[derive(clap::Subcommand, Debug)]
pub(super) enum Bench {
    /// Matrix multiplication by four processes, natively and under each policy
    Matmul {
        #[command(flatten)]
        store: AnyStore,
        #[command(flatten)]
        chosen: Policies,
        #[command(flatten)]
        way: Way,
    },
    /// Small interleaved writes into one shared file, under each policy
    SmallIo {
        #[command(flatten)]
        store: StoreHere,
        #[command(flatten)]
        chosen: Policies,
        #[command(flatten)]
        way: Way,
    },
    /// Attributes of many small files, asked for by each of several clients
    Stat {
        #[command(flatten)]
        store: AnyStore,
        /// Policies to measure beside the store [default: none,bank,home]
        #[arg(
            long = "policy",
            value_name = "P",
            value_delimiter = ',',
            value_parser = parser::<Policy>(),
            hide_possible_values = true
        )]
        policies: Vec<Policy>,
        /// Clients, one run for each count
        #[arg(
            long,
            value_name = "N,M",
            value_delimiter = ',',
            default_value = "1,2,4",
            value_parser = clap::value_parser!(u32).range(1..=16)
        )]
        clients: Vec<u32>,
        #[command(flatten)]
        way: Way,
    },
    /// Records written and read one after another, cold and warm, by one client and by several
    ReadLatency {
        #[command(flatten)]
        store: AnyStore,
        /// Clients where there are several [default: 4; 2 with --quick]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
        clients: Option<u32>,
        #[command(flatten)]
        way: Way,
    },
    /// Faults of daemons and gateways under policy bank, with a checker of every read
    BankFaults {
        /// The policy: bank or bank:paper
        #[arg(long, value_name = "P", default_value = "bank", value_parser = bank_policy)]
        policy: Policy,
        #[command(flatten)]
        schedules: Schedules,
    },
    /// Agents of policy local that die and come back, with a checker of what was acknowledged
    ReplicaFaults {
        /// How bytes are kept: none, async[:K], sync[:K] or erasure[:K,M] [default: none and sync:1 in turn]
        #[arg(long, value_name = "HOW", value_parser = hearth_set::replicas::parse)]
        replicas: Option<Replicas>,
        #[command(flatten)]
        schedules: Schedules,
    },
    /// A read that a peer's memory serves, over a bare TCP round trip
    RemoteHit {
        #[command(flatten)]
        way: Way,
    },
    /// A warm read through FUSE, over the same on tmpfs
    LocalHit {
        #[command(flatten)]
        way: Way,
    },
    /// Programs that people use, over the library and over the mount: is all as without a cache?
    Programs {
        #[command(flatten)]
        way: Way,
    },
    /// A window that ranks slide over a shared file, with byte-range locks or over a cache
    SlidingWindow {
        #[command(flatten)]
        store: AnyStore,
        /// Ranks, one run for each count [default: 4,8,16; 4 with --quick]
        #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
        ranks: Vec<u32>,
        #[command(flatten)]
        mpi: OfMpi,
        #[command(flatten)]
        way: Way,
    },
    /// The I/O of BTIO: full, simple, fortran and epio
    Btio {
        #[command(flatten)]
        store: AnyStore,
        #[command(flatten)]
        chosen: Policies,
        #[command(flatten)]
        grid: Grid,
        #[command(flatten)]
        mpi: OfMpi,
        #[command(flatten)]
        way: Way,
    },
    /// The checkpoint and plot files of FLASH I/O through parallel HDF5
    FlashIo {
        #[command(flatten)]
        store: AnyStore,
        #[command(flatten)]
        chosen: Policies,
        #[command(flatten)]
        ranks: FewRanks,
        #[command(flatten)]
        mpi: OfMpi,
        #[command(flatten)]
        way: Way,
    },
    /// All transports over loopback, and those between hosts over modelled links, without loss and with
    Transports {
        #[command(flatten)]
        way: Way,
    },
    /// Writers over tiers that fill, each on an agent of its own, over the bare store
    Throughput {
        #[command(flatten)]
        store: AnyStore,
        #[command(flatten)]
        way: Way,
    },
    /// 1 to 12 writers through the mount to a tier, over the tier's file system alone
    Fuse {
        #[command(flatten)]
        store: StoreHere,
        /// Put the tier on a disk that takes so many bytes a second, such as 100MiB; as root [default: in memory]
        #[arg(long, value_name = "SIZE", value_parser = disk_rate)]
        disk: Option<Size>,
        #[command(flatten)]
        way: Way,
    },
    /// Writers over tiers whose bytes others keep as well, over writers alone
    Replication {
        #[command(flatten)]
        way: Way,
    },
    /// Many files created in one directory from four agents at once
    Create {
        #[command(flatten)]
        store: StoreHere,
        #[command(flatten)]
        way: Way,
    },
    /// Programs with a planted fault each: is it named, and is its cost predicted?
    Findings {
        #[command(flatten)]
        way: Way,
    },
    /// A record of a call, beside a line of text and an LTTng event
    Logging {
        /// Instead, programs that do I/O on a directory, with and without: posix
        #[arg(long, value_name = "KIND", value_parser = ["posix"], hide_possible_values = true)]
        store: Option<String>,
        #[command(flatten)]
        way: Way,
    },
}

/// How much is done, and how it is told.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Way {
    /// Fewer turns, less data
    #[arg(long)]
    pub(super) quick: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Output {
    /// One JSON object per line
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct AnyStore {
    /// The store: posix, model[:SETTINGS], or gluster for a real volume on test hosts
    #[arg(id = "store", long = "store", default_value = "model", value_name = "KIND", value_parser = any_store)]
    pub(super) kind: String,
}

#[derive(clap::Args, Debug)]
pub(super) struct StoreHere {
    /// The store: posix or model[:SETTINGS]
    #[arg(id = "store", long = "store", default_value = "model", value_name = "KIND", value_parser = store_here)]
    pub(super) kind: String,
}

#[derive(clap::Args, Debug)]
pub(super) struct Policies {
    /// Policies to measure beside none and home [default: all]
    #[arg(
        id = "policy",
        long = "policy",
        value_name = "P",
        value_delimiter = ',',
        value_parser = parser::<Policy>(),
        hide_possible_values = true
    )]
    pub(super) policies: Vec<Policy>,
}

/// Sizes and ways of BTIO.
#[derive(clap::Args, Debug)]
pub(super) struct Grid {
    /// Size: S, W or A [default: W; S with --quick]
    #[arg(long, value_enum, value_name = "C")]
    pub(super) class: Option<btio::Class>,
    /// Ways to measure: full, simple, fortran or epio [default: all]
    #[arg(
        long,
        value_name = "M",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub(super) mode: Vec<btio::Mode>,
    /// Dumps [default: the class's 12 or 40; a quarter with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) dumps: Option<u32>,
    #[command(flatten)]
    pub(super) ranks: FewRanks,
}

#[derive(clap::Args, Debug)]
pub(super) struct FewRanks {
    /// Ranks, one run for each count [default: 4]
    #[arg(id = "ranks", long = "ranks", value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) counts: Vec<u32>,
}

#[derive(clap::Args, Debug)]
pub(super) struct OfMpi {
    /// MPI library: openmpi or mpich
    #[arg(
        id = "mpi",
        long = "mpi",
        value_enum,
        value_name = "MPI",
        default_value = "openmpi",
        hide_possible_values = true
    )]
    pub(super) library: mpi::Mpi,
    /// Rate of each test host's link, with --store gluster [default: 1gbit]
    #[arg(long, value_name = "RATE")]
    pub(super) link: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(super) struct Schedules {
    /// Random schedules to play
    #[arg(id = "schedules", long = "schedules", value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) count: u32,
    /// Seed of the first schedule
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) output: Output,
}

fn any_store(text: &str) -> Result<String, String> {
    match text {
        "gluster" => Ok(text.to_owned()),
        _ => store_here(text),
    }
}

/// A store of this machine.
fn store_here(text: &str) -> Result<String, String> {
    if text == "gluster" {
        return Err(
            "this benchmark does not run on test hosts: type --store posix or --store model"
                .to_owned(),
        );
    }
    let checked = hearth_set::agent::check_backing(text);
    checked
        .map(|()| text.to_owned())
        .map_err(|failure| failure.in_a_line())
}

fn disk_rate(text: &str) -> Result<Size, String> {
    match text.parse()? {
        Size(0) => Err("a disk takes at least a byte a second".to_owned()),
        rate => Ok(rate),
    }
}

fn bank_policy(text: &str) -> Result<Policy, String> {
    match text {
        "bank" => Ok(Policy::Bank),
        "bank:paper" => Ok(Policy::BankPaper),
        _ => Err("only a policy with a bank is played: bank or bank:paper".to_owned()),
    }
}
