//! The testbed that ranks run on, and the files that they find there. It is this machine with a plain or
//! modelled store, or test hosts with a GlusterFS volume.
//!
//! Each run has a directory of its own in the store ([`Place`]), and agents over it for its time
//! ([`Stand`]): one for every rank, so that every rank is a node.

use super::way::Inside;
use super::{Mpi, Program, Told, Way};
use crate::bench::fixture::{Translators, hosts};
use crate::bench::hosts::{HostAgents, forget_caches};
use crate::bench::rig::Rig;
use crate::hearth::hearth;
use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::signals::Signals;
use hearth_set::trial::cluster::{Cluster, ClusterCounts};
use hearth_set::trial::matmul::System;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The testbed of all runs.
pub(in crate::bench) struct Testbed<'a> {
    kind: Kind,
    signals: &'a Signals,
}

enum Kind {
    Here {
        backing: String,
        dir: tempfile::TempDir,
    },
    Hosts(Rig),
}

/// A directory of the store for one run; it goes with its files when this is dropped.
pub(in crate::bench) struct Place {
    dir: PathBuf,
    store: PathBuf,
}

/// The agents or mounts through which ranks find their files, for one run.
pub(in crate::bench) struct Stand<'a> {
    testbed: &'a Testbed<'a>,
    ranks: u32,
    agents: Agents<'a>,
    dirs: String,
}

enum Agents<'a> {
    Here(Box<Cluster>),
    Hosts(HostAgents<'a>),
    /// The same, and each rank is one of `hearth run`.
    Joined(Box<Cluster>, PathBuf),
    /// Those that the ranks bring.
    Inside(Inside),
    /// The store itself: the volume's own mounts, or a directory.
    Bare,
}

impl<'a> Testbed<'a> {
    /// A testbed over a kind of store, for as many ranks; `link` is what links of test hosts carry,
    /// if not what the rig's own do.
    pub(in crate::bench) fn build(
        store: &str,
        link: Option<&str>,
        ranks: u32,
        signals: &'a Signals,
    ) -> Result<Testbed<'a>, Failure> {
        let kind = if store == "gluster" {
            // Ranks share files without a cache, too.
            Kind::Hosts(hosts(ranks, Translators::OffAndDirect, link, signals)?)
        } else {
            let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
            Kind::Here {
                backing: store.to_owned(),
                dir,
            }
        };
        Ok(Testbed { kind, signals })
    }

    /// Directory in which programs may be built.
    pub(in crate::bench) fn workshop(&self) -> PathBuf {
        match &self.kind {
            Kind::Here { dir, .. } => dir.path().to_owned(),
            Kind::Hosts(rig) => rig.path("programs"),
        }
    }

    /// A fresh directory in the store.
    pub(in crate::bench) fn place(&self, name: &str) -> Result<Place, Failure> {
        let place = match &self.kind {
            Kind::Here { dir, .. } => {
                let dir = dir.path().join(name);
                let store = dir.join("store");
                Place { dir, store }
            }
            Kind::Hosts(rig) => {
                let store = rig.hosts()[0].mount.join(name);
                let dir = store.clone();
                Place { dir, store }
            }
        };
        let what = || format!("cannot make `{}`", place.store.display());
        std::fs::create_dir_all(&place.store).or_fail(what)?;
        Ok(place)
    }

    /// The ranks' directories of a place without Hearth; `%r` stands for the rank.
    pub(in crate::bench) fn bare_dirs(&self, place: &Place) -> String {
        let dirs = match &self.kind {
            Kind::Here { .. } => place.store.clone(),
            Kind::Hosts(rig) => volume(rig, "store", place),
        };
        dirs.display().to_string()
    }

    /// Runs a program, one rank on each host where there are several.
    pub(in crate::bench) fn run(
        &self,
        program: &Program,
        ranks: u32,
        words: &[&str],
    ) -> Result<Told, Failure> {
        let mut command = self.launch(program, ranks);
        command.arg(program.path()).args(words);
        told(&mut command, program.mpi())
    }

    fn launch(&self, program: &Program, ranks: u32) -> Command {
        match &self.kind {
            Kind::Here { .. } => program.mpi().launch(ranks),
            Kind::Hosts(rig) => rig.launch(program.mpi().name(), ranks),
        }
    }

    /// Starts what `way` is made of over a place.
    pub(in crate::bench) fn stand(
        &'a self,
        way: Way,
        ranks: u32,
        place: &Place,
    ) -> Result<Stand<'a>, Failure> {
        let (agents, dirs) = match (&self.kind, way) {
            // Agents alone reach a model; a plain directory is the store itself.
            (Kind::Here { backing, .. }, Way::Mounts(System::Native)) if backing == "posix" => {
                (Agents::Bare, place.store.clone())
            }
            (Kind::Here { backing, .. }, Way::Mounts(system)) => {
                let spec = spec_of(system, backing, ranks);
                let cluster =
                    Cluster::start(&hearth()?, &place.store, &place.dir, spec, self.signals)?;
                (Agents::Here(Box::new(cluster)), place.dir.join("mount%r"))
            }
            (Kind::Here { backing, .. }, Way::LooseMounts(policy)) => {
                let cluster = self.cluster(place, way, policy, (backing, ranks))?;
                (Agents::Here(cluster), place.dir.join("mount%r"))
            }
            (Kind::Here { backing, .. }, Way::Runs(policy) | Way::LooseRuns(policy)) => {
                let cluster = self.cluster(place, way, policy, (backing, ranks))?;
                let agents = Agents::Joined(cluster, place.store.clone());
                (agents, place.store.clone())
            }
            (Kind::Here { backing, .. }, Way::Ranks(policy) | Way::LooseRanks(policy)) => {
                let report = place.dir.join("report");
                std::fs::create_dir(&report).or_fail(|| "cannot make a directory".to_owned())?;
                let inside = Inside {
                    policy,
                    semantics: way.semantics(),
                    store: place.store.clone(),
                    backing: backing.clone(),
                    report,
                };
                (Agents::Inside(inside), place.store.clone())
            }
            (Kind::Hosts(rig), Way::Mounts(System::Native)) => {
                forget_caches()?;
                (Agents::Bare, volume(rig, "store", place))
            }
            (Kind::Hosts(rig), Way::Mounts(System::Under(policy))) => {
                forget_caches()?;
                let agents = HostAgents::start(rig, ranks, policy)?;
                (Agents::Hosts(agents), volume(rig, "at", place))
            }
            (Kind::Hosts(rig), Way::LooseMounts(policy)) => {
                forget_caches()?;
                let level = ["--semantics", "mpi"];
                let agents = HostAgents::start_with(rig, ranks, policy, &level)?;
                (Agents::Hosts(agents), volume(rig, "at", place))
            }
            (
                Kind::Hosts(_),
                Way::Runs(_) | Way::LooseRuns(_) | Way::Ranks(_) | Way::LooseRanks(_),
            ) => {
                let why = "each has the volume at a path of its own";
                return Err(Failure::new("cannot run agents inside ranks on test hosts").cause(why));
            }
        };
        Ok(Stand {
            testbed: self,
            ranks,
            agents,
            dirs: dirs.display().to_string(),
        })
    }

    /// Agents of a policy with as much of a promise as the way has.
    fn cluster(
        &self,
        place: &Place,
        way: Way,
        policy: Policy,
        (backing, ranks): (&str, u32),
    ) -> Result<Box<Cluster>, Failure> {
        let spec = SetSpec {
            semantics: way.semantics(),
            ..spec_of(System::Under(policy), backing, ranks)
        };
        Cluster::start(&hearth()?, &place.store, &place.dir, spec, self.signals).map(Box::new)
    }
}

/// A mount for each rank.
fn spec_of(system: System, backing: &str, ranks: u32) -> SetSpec {
    SetSpec {
        agents: ranks,
        backing: backing.to_owned(),
        policy: system.policy(),
        kernel_cache: system == System::Native,
        ..SetSpec::default()
    }
}

impl Place {
    /// Directory of its files in the store, past every agent.
    pub(in crate::bench) fn store(&self) -> &Path {
        &self.store
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Files that cannot be removed go with the testbed.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Stand<'_> {
    /// The ranks' directories; `%r` stands for the rank.
    pub(in crate::bench) fn dirs(&self) -> &str {
        &self.dirs
    }

    /// Runs a program, one rank over each agent.
    pub(in crate::bench) fn run(&self, program: &Program, words: &[&str]) -> Result<Told, Failure> {
        let mut command = self.testbed.launch(program, self.ranks);
        match &self.agents {
            Agents::Inside(inside) => inside.tell(&mut command),
            Agents::Joined(_, store) => {
                command.arg(hearth()?).args(["run", "--way-in", "preload"]);
                command.arg("--store").arg(store).arg("--");
            }
            Agents::Here(_) | Agents::Hosts(_) | Agents::Bare => {}
        }
        command.arg(program.path()).args(words);
        told(&mut command, program.mpi())
    }

    /// Counts of all agents, once what is dirty is in the store.
    pub(in crate::bench) fn counts(&self) -> Result<ClusterCounts, Failure> {
        match &self.agents {
            Agents::Here(cluster) | Agents::Joined(cluster, _) => cluster.counts(),
            Agents::Hosts(agents) => agents.counts(),
            Agents::Inside(inside) => inside.counts(self.ranks),
            Agents::Bare => Ok(ClusterCounts::default()),
        }
    }

    /// Ends the agents, and lets the store's clients forget.
    pub(in crate::bench) fn end(self) -> Result<(), Failure> {
        match self.agents {
            Agents::Here(cluster) | Agents::Joined(cluster, _) => cluster.end(),
            Agents::Hosts(agents) => agents.end().and_then(|()| forget_caches()),
            Agents::Inside(_) => Ok(()),
            Agents::Bare => match self.testbed.kind {
                Kind::Here { .. } => Ok(()),
                Kind::Hosts(_) => forget_caches(),
            },
        }
    }
}

/// A place as the compute hosts see it through one of their mounts.
fn volume(rig: &Rig, mount: &str, place: &Place) -> PathBuf {
    let name = place.store.file_name().expect("a place has a name");
    rig.path("hosts").join("compute%r").join(mount).join(name)
}

/// Figures of the ranks. A rank that found wrong data says so in them, and by its exit code once more.
fn told(command: &mut Command, mpi: Mpi) -> Result<Told, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let what = || format!("cannot run the ranks with `{name}`");
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .or_fail(what)
        .map_err(|failure| failure.hint(format!("apt-get install {} (as root)", mpi.packages())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with('{'));
    match line.map(serde_json::from_str) {
        Some(Ok(told)) => Ok(told),
        Some(Err(_)) | None => {
            let words = String::from_utf8_lossy(&output.stderr);
            let words = format!("{}: {}", output.status, words.trim());
            Err(Failure::new(what()).cause(words))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_ranks_find_the_directory_itself() {
        let signals = Signals::catch(&[]).expect("signals are caught");
        let testbed = Testbed::build("posix", None, 2, &signals).expect("a testbed");
        let place = testbed.place("native").expect("a place");
        let native = Way::Mounts(System::Native);
        let stand = testbed.stand(native, 2, &place).expect("a stand");
        assert_eq!(Path::new(stand.dirs()), place.store());
        stand.end().expect("there is nothing to end");
    }
}
