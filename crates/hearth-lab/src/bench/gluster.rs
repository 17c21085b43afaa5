//! The matrix program on MPI over a real GlusterFS volume, hosts in network namespaces.

use super::hosts::{HostAgents, forget_caches};
use super::mpi::{Mpi, Program, Source};
use super::rig::{Rig, run};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::trial::IoTimes;
use hearth_set::trial::cluster::ClusterCounts;
use hearth_set::trial::matmul::{PROCESSES, Sample, System};
use serde::Deserialize;
use std::time::Duration;

const MATMUL: Source = Source {
    name: "matmul",
    files: &[("matmul.c", include_str!("../../../../workloads/matmul.c"))],
};

/// Looks at a product before it counts as wrong.
const LOOKS: u32 = 4;

/// Figures that the MPI program prints at its end.
#[derive(Deserialize)]
struct Told {
    read_s_sum: f64,
    write_s_sum: f64,
    bytes_read: u64,
    bytes_written: u64,
}

/// A sample, and the bytes that the storage host sent for it.
pub(crate) struct WireSample {
    pub(crate) sample: Sample,
    pub(crate) storage_sent: u64,
}

/// Test hosts and the program that runs on them.
struct Desk {
    rig: Rig,
    program: Program,
}

/// Runs every system `turns` times, one after another within each turn.
pub(crate) fn sample(
    systems: &[System],
    n: usize,
    turns: usize,
    mut tell: impl FnMut(&str),
) -> Result<Vec<WireSample>, Failure> {
    tell("building test hosts");
    let rig = Rig::start(PROCESSES)?;
    let program = Program::build(&MATMUL, Mpi::Openmpi, &rig.path("programs"), &[])?;
    let desk = Desk { rig, program };
    let mut samples = Vec::new();
    for turn in 0..turns {
        for &system in systems {
            tell(&format!("turn {} of {turns}: {}", turn + 1, system.name()));
            samples.push(desk.one(system, n)?);
        }
    }
    Ok(samples)
}

impl Desk {
    fn one(&self, system: System, n: usize) -> Result<WireSample, Failure> {
        let size = n.to_string();
        let native = self.template("store");
        let old = self.rig.hosts()[0].mount.join("C");
        if old.exists() {
            std::fs::remove_file(&old).or_fail(|| "cannot remove the last product".to_owned())?;
        }
        self.matmul(&native, &["--n", &size, "--init"])?;
        forget_caches()?;
        let agents = match system {
            System::Native => None,
            System::Under(policy) => Some(HostAgents::start(&self.rig, PROCESSES, policy)?),
        };
        let dirs = if agents.is_some() {
            self.template("at")
        } else {
            native.clone()
        };
        let before = self.rig.storage_sent()?;
        let told: Told = serde_json::from_str(&self.matmul(&dirs, &["--n", &size])?)
            .or_fail(|| "cannot understand the program".to_owned())?;
        let storage_sent = self.rig.storage_sent()? - before;
        let counts = match &agents {
            Some(agents) => agents.counts()?,
            None => ClusterCounts {
                store_read_bytes: storage_sent,
                ..ClusterCounts::default()
            },
        };
        agents.map_or(Ok(()), HostAgents::end)?;
        let verified = self.verify(&native, &size)?;
        let times = IoTimes {
            read_s: told.read_s_sum,
            write_s: told.write_s_sum,
            bytes_read: told.bytes_read,
            bytes_written: told.bytes_written,
        };
        Ok(WireSample {
            sample: Sample {
                system,
                times,
                counts,
                verified,
            },
            storage_sent,
        })
    }

    /// Looks at the product through the volume's own mount. Its client keeps what it once saw of a file
    /// for about a second, so a product that looks wrong is looked at again.
    fn verify(&self, native: &str, size: &str) -> Result<bool, Failure> {
        for look in 0..LOOKS {
            forget_caches()?;
            match self.matmul(native, &["--n", size, "--verify-only"]) {
                Ok(_) => return Ok(true),
                Err(failure) if look + 1 == LOOKS => eprintln!("{failure}"),
                Err(_) => pause(),
            }
        }
        Ok(false)
    }

    /// Runs the matrix program, one rank on every compute host; `%r` in `dirs` is the rank.
    fn matmul(&self, dirs: &str, words: &[&str]) -> Result<String, Failure> {
        let mut command = self.rig.launch(self.program.mpi().name(), PROCESSES);
        command.arg(self.program.path()).arg(dirs).args(words);
        run(&mut command)
    }

    /// Directories of all ranks: `%r` stands for the rank.
    fn template(&self, name: &str) -> String {
        let dirs = self.rig.path("hosts").join("compute%r").join(name);
        dirs.display().to_string()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the volume's client tells nobody when it forgets"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(700));
}
