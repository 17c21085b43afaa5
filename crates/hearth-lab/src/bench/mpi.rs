//! Programs under an MPI library: built, started over a file system of choice, and told apart.

mod program;
mod runs;
mod testbed;
mod way;

pub(super) use program::{Program, Source};
pub(super) use runs::{Run, Runs};
pub(super) use testbed::{Place, Testbed};
pub(super) use way::Way;

use serde::Deserialize;
use std::process::Command;

/// Ranks are ended after so long, in seconds: a benchmark never hangs.
const SPAN_MAX_S: u32 = 3600;

/// An MPI library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mpi {
    #[default]
    Openmpi,
    Mpich,
}

impl Mpi {
    /// As its commands end.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mpi::Openmpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }

    /// Packages with its compiler and its launcher.
    fn packages(self) -> &'static str {
        match self {
            Mpi::Openmpi => "openmpi-bin libopenmpi-dev",
            Mpi::Mpich => "mpich libmpich-dev",
        }
    }

    /// Whether its launcher is on this machine.
    pub(super) fn is_here(self) -> bool {
        let launcher = format!("mpirun.{}", self.name());
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(&launcher).exists())
    }

    /// Starts ranks on this machine. They share its cores, however many there are, and talk to
    /// nobody else.
    pub(super) fn launch(self, ranks: u32) -> Command {
        let (words, count) = match self {
            Mpi::Openmpi => (
                "--allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader \
                 --mca oob_tcp_if_include lo --mca mpi_yield_when_idle 1",
                "-np",
            ),
            Mpi::Mpich => ("-iface lo", "-n"),
        };
        let mut command = Command::new(format!("mpirun.{}", self.name()));
        command
            .env("MPIEXEC_TIMEOUT", SPAN_MAX_S.to_string())
            .args(words.split_whitespace())
            .args([count, &ranks.to_string()]);
        command
    }
}

/// Figures that a program prints at its end; those that it does not have are 0.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    /// From open to close, of the rank that took longest.
    pub(super) seconds: f64,
    /// In calls, of the rank that spent most.
    pub(super) read_s: f64,
    pub(super) write_s: f64,
    /// Of all ranks.
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Ranks that read something else than was written.
    pub(super) wrong: u64,
    /// Reads of what the reader itself had overwritten.
    pub(super) stale: u64,
    /// Pages of which a read saw parts of two writes.
    pub(super) torn: u64,
}
