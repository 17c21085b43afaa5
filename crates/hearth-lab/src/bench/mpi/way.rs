//! How the ranks of a program reach their files.

use crate::bench::fixture::is_model;
use crate::bench::hosts::counts_in;
use crate::hearth::hearth;
use hearth_agent::{Policy, Semantics};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::preload;
use hearth_set::trial::cluster::ClusterCounts;
use hearth_set::trial::matmul::System;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARY: &str = "libhearth_mpiio.so";

/// A front end, and who may keep what behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Way {
    /// A mount and an agent for each rank.
    Mounts(System),
    /// The same with what MPI promises of files, and no more.
    LooseMounts(Policy),
    /// A mount and an agent for each rank, and each rank under `hearth run`, as people run programs: it reads and
    /// writes by itself what is in its agent's memory.
    Runs(Policy),
    /// The same with what MPI promises of files, and no more: small writes stay with the rank's agent.
    LooseRuns(Policy),
    /// An agent inside each rank, which a library loaded into the program brings.
    Ranks(Policy),
    /// The same with what MPI promises of files, and no more.
    LooseRanks(Policy),
}

impl Way {
    /// Name of it in figures.
    pub(in crate::bench) fn name(self) -> String {
        match self {
            Way::Mounts(system) => system.name(),
            Way::LooseMounts(policy) => format!("{policy}-mpi"),
            Way::Runs(policy) => format!("run-{policy}"),
            Way::LooseRuns(policy) => format!("run-{policy}-mpi"),
            Way::Ranks(policy) => format!("ranks-{policy}"),
            Way::LooseRanks(policy) => format!("ranks-{policy}-mpi"),
        }
    }

    /// The promise for files.
    pub(super) fn semantics(self) -> Semantics {
        match self {
            Way::Mounts(_) | Way::Runs(_) | Way::Ranks(_) => Semantics::Posix,
            Way::LooseMounts(_) | Way::LooseRuns(_) | Way::LooseRanks(_) => Semantics::Mpi,
        }
    }

    /// Whether agents are between ranks and a kind of store, and count what they do.
    pub(in crate::bench) fn has_agents(self, store: &str) -> bool {
        self != Way::Mounts(System::Native) || is_model(store)
    }

    /// Whether writes gather in memory before they go to the store.
    pub(in crate::bench) fn is_gathering(self) -> bool {
        let policy = match self {
            Way::Mounts(System::Native) => return false,
            Way::Mounts(System::Under(policy)) | Way::Runs(policy) | Way::Ranks(policy) => policy,
            Way::LooseMounts(policy) | Way::LooseRuns(policy) | Way::LooseRanks(policy) => policy,
        };
        match policy {
            Policy::Home | Policy::HomePlus | Policy::Single | Policy::Local => true,
            Policy::Hint | Policy::HintPaper | Policy::Bank | Policy::BankPaper | Policy::None => {
                false
            }
        }
    }

    /// Those to compare when these policies are asked for; without any, all.
    pub(in crate::bench) fn chosen(policies: &[Policy], store: &str) -> Vec<Way> {
        let single = System::Under(Policy::Single);
        if policies.is_empty() {
            let mounts = [
                System::Native,
                System::NONE,
                System::HINT,
                System::HOME,
                single,
            ];
            let mut ways = Way::all(&mounts, store);
            ways.push(Way::LooseMounts(Policy::Home));
            ways.extend(Way::run(store));
            if ways.contains(&Way::Ranks(Policy::Home)) {
                ways.push(Way::LooseRanks(Policy::Home));
            }
            return ways;
        }
        let mut ways = vec![
            Way::Mounts(System::NONE),
            Way::Mounts(System::HOME),
            Way::LooseMounts(Policy::Home),
        ];
        ways.extend(Way::run(store));
        for &policy in policies {
            let way = Way::Mounts(System::Under(policy));
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways
    }

    /// Under `hearth run`, if it has its library and the ranks are on this machine.
    fn run(store: &str) -> Vec<Way> {
        let here = store != "gluster"
            && hearth()
                .and_then(|hearth| preload::loadable(&hearth))
                .is_ok();
        let ways = [Way::Runs(Policy::Home), Way::LooseRuns(Policy::Home)];
        ways.into_iter().filter(|_| here).collect()
    }

    /// All that can be measured over a kind of store: mounts first, then agents inside the ranks if
    /// there is a library for them and one path for all.
    pub(in crate::bench) fn all(mounts: &[System], store: &str) -> Vec<Way> {
        let mut ways: Vec<Way> = mounts.iter().copied().map(Way::Mounts).collect();
        if store != "gluster" && library().is_some() {
            ways.extend([Way::Ranks(Policy::Home), Way::Ranks(Policy::Single)]);
        }
        ways
    }
}

/// The library, if it was built beside the command.
fn library() -> Option<PathBuf> {
    let beside = hearth().ok()?.with_file_name(LIBRARY);
    beside.is_file().then_some(beside)
}

/// Settings of ranks that are to be agents themselves.
pub(super) struct Inside {
    pub(super) policy: Policy,
    /// The promise for files.
    pub(super) semantics: Semantics,
    pub(super) store: PathBuf,
    pub(super) backing: String,
    /// Directory in which each rank leaves its counts.
    pub(super) report: PathBuf,
}

impl Inside {
    /// Has a program load the library.
    pub(super) fn tell(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", library().unwrap_or_default())
            .env("HEARTH_STORE", &self.store)
            .env("HEARTH_POLICY", self.policy.to_string())
            .env("HEARTH_SEMANTICS", self.semantics.to_string())
            .env("HEARTH_BACKING", &self.backing)
            .env("HEARTH_REPORT", &self.report);
    }

    /// Counts of all ranks, which have ended. A rank without any had no agent.
    pub(super) fn counts(&self, ranks: u32) -> Result<ClusterCounts, Failure> {
        let mut sum = ClusterCounts::default();
        for rank in 0..ranks {
            sum.add(&counts_of(&self.report.join(format!("rank-{rank}.json")))?);
        }
        Ok(sum)
    }
}

fn counts_of(path: &Path) -> Result<ClusterCounts, Failure> {
    let text = std::fs::read_to_string(path)
        .or_fail(|| format!("cannot read what a rank counted in `{}`", path.display()))?;
    counts_in(&text)
}
