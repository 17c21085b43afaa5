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
mod options;
mod plan;
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
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::warn_of;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::{self, BenchReport};
use hearth_set::signals::Signals;
use hearth_set::trial::matmul::{self, MATRIX};
pub(crate) use options::Args;
use plan::{Plan, Task};
use rustix::process::Signal;
use std::process::ExitCode;
pub(crate) use transports::ranks::{Args as TransportRank, run as be_rank};

/// Measures and prints.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(&[Signal::INT, Signal::TERM])?;
    let Plan { task, format } = plan::of(args)?;
    args.bench.policies().iter().copied().for_each(warn_of);
    let report = carry_out(&task, &signals)?;
    progress_over();
    report
        .print(format)
        .or_fail(|| "cannot print the report".to_owned())?;
    match report.is_verified() {
        true => Ok(ExitCode::SUCCESS),
        // That is what was asked.
        false if task.looks_for_wrong_data() => Ok(ExitCode::from(1)),
        false => Err(Failure::new("the data that came out is wrong")),
    }
}

fn carry_out(task: &Task<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    match task {
        Task::Matmul(load) => matmul_on(load, signals),
        Task::SmallIo(load) => small_io::run(load, signals),
        Task::Stat(load) => stat::run(load, signals),
        Task::ReadLatency(load) => read_latency::run(load, signals),
        Task::BankFaults(play) => bank_faults::run(play, signals),
        Task::ReplicaFaults(play) => replica_faults::run(play, signals),
        Task::RemoteHit(turns) => remote_hit::run(*turns),
        Task::Transports(turns) => transports::run(*turns),
        Task::LocalHit(load) => local_hit::run(load),
        Task::Programs(choice) => programs::run(*choice, signals, progress),
        Task::SlidingWindow(load) => sliding_window::run(load, signals, progress),
        Task::Btio(load) => btio::run(load, signals, progress),
        Task::FlashIo(load) => flash_io::run(load, signals, progress),
        Task::Throughput(load) => tiers::throughput::run(load, signals),
        Task::Fuse(load) => tiers::fuse::run(load, signals),
        Task::Replication(effort) => tiers::replication::run(effort),
        Task::Create(load) => tiers::create(load, signals),
        Task::Findings(turns) => findings::run(*turns, signals, progress),
        Task::Logging(load) => logging::run(load, signals),
    }
}

fn matmul_on(load: &plan::Matmul<'_>, signals: &Signals) -> Result<BenchReport, Failure> {
    let (store, systems) = (load.store, &load.systems);
    if store == "gluster" {
        return matmul_on_gluster(load);
    }
    let (of, turns) = ((store, MATRIX), load.turns);
    let samples = matmul::sample(&hearth()?, systems, of, turns, signals, progress)?;
    progress_over();
    Ok(matmul::report(systems, store, MATRIX, &samples))
}

fn matmul_on_gluster(load: &plan::Matmul<'_>) -> Result<BenchReport, Failure> {
    let systems = load.systems.as_slice();
    let taken = gluster::sample(systems, MATRIX, load.turns, progress)?;
    progress_over();
    let samples: Vec<matmul::Sample> = taken.iter().map(|wire| wire.sample).collect();
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
