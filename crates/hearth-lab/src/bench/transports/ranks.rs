//! MPI as a transport: the same measurement by two ranks of a real job.
//!
//! Each rank is this command once more. It loads the library that its launcher is of, so that one build
//! serves all.

use super::{Found, PATIENCE, Pair, start_server};
use crate::bench::mpi::Mpi;
use hearth_agent::net::{Carrier, Endpoint};
use hearth_mpi::{Comm, Lines, MpiEndpoint, Program};
use hearth_set::failure::{Failure, OrFail};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

/// The name of the hidden command.
const COMMAND: &str = "transport-rank";

/// Arguments of one rank.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The MPI library to load
    library: String,
}

/// Every library, as its launcher and its file are called.
const LIBRARIES: [(Mpi, &str); 2] = [
    (Mpi::Openmpi, "libmpi.so.40"),
    (Mpi::Mpich, "libmpich.so.12"),
];

/// Measures each library that is here.
pub(super) fn measure_all(turns: usize) -> Result<Vec<(String, Vec<Found>)>, Failure> {
    let mut found = Vec::new();
    for (mpi, library) in LIBRARIES {
        let system = format!("mpi_{}", mpi.name());
        if !mpi.is_here() {
            eprintln!("skipped: {system}: no mpirun.{}", mpi.name());
            continue;
        }
        let figures = (0..turns).map(|_| measure(mpi, library));
        found.push((system, figures.collect::<Result<_, _>>()?));
    }
    Ok(found)
}

fn measure(mpi: Mpi, library: &str) -> Result<Found, Failure> {
    let what = || format!("cannot measure MPI under mpirun.{}", mpi.name());
    let program = std::env::current_exe().or_fail(what)?;
    let mut command = mpi.launch(2);
    command.arg(program).args([COMMAND, library]);
    let output = command.stdin(Stdio::null()).output().or_fail(what)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let figures = said
        .lines()
        .find_map(|line| serde_json::from_str::<Value>(line).ok());
    match figures.filter(|_| output.status.success()) {
        Some(figures) => Ok(Found {
            latency_us: figures["latency_us"].as_f64().unwrap_or(f64::NAN),
            bytes_per_s: figures["bytes_per_s"].as_f64().unwrap_or(f64::NAN),
        }),
        None => Err(Failure::new(what()).cause(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Runs one rank: rank 0 answers, rank 1 asks, and prints what it found.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let program = Program::begin(&args.library).map_err(Failure::new)?;
    let what = || "cannot be a rank".to_owned();
    let comm = Comm::of_world().or_fail(what)?;
    let listener = TcpListener::bind("127.0.0.1:0").or_fail(what)?;
    let port = listener.local_addr().or_fail(what)?.port();
    let ports = comm.exchange(&vec![u64::from(port); comm.ranks() as usize]);
    let address = |port: u64| SocketAddr::from(([127, 0, 0, 1], port as u16));
    let members: Vec<_> = ports.or_fail(what)?.into_iter().map(address).collect();
    let lines = Arc::new(Lines::new(comm));
    let doorbells = Endpoint::over(Carrier::Shm, listener);
    let endpoint = MpiEndpoint::new(doorbells, Arc::clone(&lines)).into();
    if lines.rank() == 0 {
        let server = start_server(endpoint, members).or_fail(what)?;
        server.gone.recv_timeout(PATIENCE).or_fail(what)?;
    } else {
        let found = Pair::of(endpoint, members, None).and_then(|pair| pair.measure());
        let Found {
            latency_us,
            bytes_per_s,
        } = found.or_fail(what)?;
        let figures = json!({ "latency_us": latency_us, "bytes_per_s": bytes_per_s });
        hearth_set::output::print(&format!("{figures}\n"))?;
    }
    lines.finish().or_fail(what)?;
    program.end().map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
