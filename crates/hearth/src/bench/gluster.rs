//! The matrix program on MPI over a real GlusterFS volume, hosts in network namespaces.

use super::cluster::Counts;
use super::matmul::{Sample, System};
use super::rig::{Rig, run};
use crate::failure::{Failure, OrFail};
use crate::options::Policy;
use crate::workload::IoTimes;
use serde::Deserialize;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Port of every agent; each host has an address of its own.
const PORT: u16 = 7420;

/// Looks at a product before it counts as wrong.
const LOOKS: u32 = 4;

/// What the MPI program says at its end.
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

/// Runs every system `turns` times, one after another within each turn.
pub(crate) fn sample(
    n: usize,
    turns: usize,
    mut tell: impl FnMut(&str),
) -> Result<Vec<WireSample>, Failure> {
    tell("building test hosts");
    let rig = Rig::start(super::matmul::PROCESSES)?;
    std::fs::write(rig.path("secret"), format!("{:064x}\n", 0x4ea7_u32))
        .and_then(|()| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(rig.path("secret"), std::fs::Permissions::from_mode(0o600))
        })
        .or_fail(|| "cannot write the secret".to_owned())?;
    let mut samples = Vec::new();
    for turn in 0..turns {
        for &system in System::MAIN {
            tell(&format!("turn {} of {turns}: {}", turn + 1, system.name()));
            samples.push(one(&rig, system, n)?);
        }
    }
    Ok(samples)
}

fn one(rig: &Rig, system: System, n: usize) -> Result<WireSample, Failure> {
    let size = n.to_string();
    let native = template(rig, "store");
    let old = rig.hosts()[0].mount.join("C");
    if old.exists() {
        std::fs::remove_file(&old).or_fail(|| "cannot remove the last product".to_owned())?;
    }
    rig.matmul(&native, &["--n", &size, "--init"])?;
    forget_caches()?;
    let agents = match system {
        System::Native => None,
        System::Under(policy) => Some(Agents::start(rig, policy)?),
    };
    let dirs = if agents.is_some() {
        template(rig, "at")
    } else {
        native.clone()
    };
    let before = rig.storage_sent()?;
    let told: Told = serde_json::from_str(&rig.matmul(&dirs, &["--n", &size])?)
        .or_fail(|| "cannot understand the program".to_owned())?;
    let storage_sent = rig.storage_sent()? - before;
    let counts = match &agents {
        Some(agents) => agents.counts()?,
        None => Counts {
            store_read_bytes: storage_sent,
            ..Counts::default()
        },
    };
    agents.map_or(Ok(()), Agents::end)?;
    let verified = verify(rig, &native, &size)?;
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
fn verify(rig: &Rig, native: &str, size: &str) -> Result<bool, Failure> {
    for look in 0..LOOKS {
        forget_caches()?;
        match rig.matmul(native, &["--n", size, "--verify-only"]) {
            Ok(_) => return Ok(true),
            Err(failure) if look + 1 == LOOKS => eprintln!("{failure}"),
            Err(_) => pause(),
        }
    }
    Ok(false)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the volume's client tells nobody when it forgets"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(700));
}

/// Directories of all ranks: `%r` stands for the rank.
fn template(rig: &Rig, name: &str) -> String {
    rig.path("hosts")
        .join("compute%r")
        .join(name)
        .display()
        .to_string()
}

/// Empties the kernel's page cache, so that every run begins cold.
fn forget_caches() -> Result<(), Failure> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "1")
        .or_fail(|| "cannot empty the kernel's caches".to_owned())
}

/// One agent on every compute host.
struct Agents<'a> {
    rig: &'a Rig,
    this: PathBuf,
}

impl<'a> Agents<'a> {
    fn start(rig: &'a Rig, policy: Policy) -> Result<Agents<'a>, Failure> {
        let this = std::env::current_exe().or_fail(|| "cannot find this program".to_owned())?;
        let agents = Agents { rig, this };
        let members: Vec<String> = rig
            .hosts()
            .iter()
            .map(|host| format!("{}:{PORT}", host.addr))
            .collect();
        let members = members.join(",");
        let starts: Result<Vec<Child>, Failure> = (0..rig.hosts().len())
            .map(|node| agents.start_one(node, &members, policy))
            .collect();
        for child in starts? {
            let done = child
                .wait_with_output()
                .or_fail(|| "cannot start agents".to_owned())?;
            if !done.status.success() {
                let words = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                return Err(Failure::new("cannot start agents").cause(words));
            }
        }
        Ok(agents)
    }

    fn start_one(&self, node: usize, members: &str, policy: Policy) -> Result<Child, Failure> {
        let what = || "cannot start an agent".to_owned();
        let host = &self.rig.hosts()[node];
        let at = host.mount.with_file_name("at");
        std::fs::create_dir_all(&at).or_fail(what)?;
        let mut private = std::fs::DirBuilder::new();
        private
            .recursive(true)
            .mode(0o700)
            .create(self.dir(node))
            .or_fail(what)?;
        let mut command = self.rig.on(host, &self.this);
        command.env("HEARTH_DIR", self.dir(node)).arg("up");
        command.arg("--store").arg(&host.mount).arg("--at").arg(&at);
        command.args(["--hosts", members, "--node", &node.to_string()]);
        command.arg("--secret-file").arg(self.rig.path("secret"));
        command.args(["--policy", &policy.to_string()]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().or_fail(what)
    }

    /// Where the commands of one host keep their sets.
    fn dir(&self, node: usize) -> PathBuf {
        self.rig.path(&format!("run{node}"))
    }

    fn command(&self, node: usize, words: &[&str]) -> Command {
        let mut command = Command::new(&self.this);
        command.env("HEARTH_DIR", self.dir(node)).args(words);
        command
    }

    fn counts(&self) -> Result<Counts, Failure> {
        let mut sum = Counts::default();
        for node in 0..self.rig.hosts().len() {
            let text = run(&mut self.command(node, &["status", "--json"]))?;
            for line in text.lines() {
                sum.add(&counts_in(line)?);
            }
        }
        Ok(sum)
    }

    fn end(self) -> Result<(), Failure> {
        let ends: Vec<Result<String, Failure>> = std::thread::scope(|scope| {
            let downs: Vec<_> = (0..self.rig.hosts().len())
                .map(|node| {
                    scope.spawn({
                        let mut command = self.command(node, &["down"]);
                        move || run(&mut command)
                    })
                })
                .collect();
            downs
                .into_iter()
                .map(|down| down.join().expect("a command does not panic"))
                .collect()
        });
        ends.into_iter().try_for_each(|end| end.map(drop))
    }
}

/// The counters in one line of `hearth status --json`, wherever they stand in it.
fn counts_in(line: &str) -> Result<Counts, Failure> {
    let what = || "cannot read an agent's status".to_owned();
    let value: serde_json::Value = serde_json::from_str(line).or_fail(what)?;
    let mut sum = Counts::default();
    let mut open = vec![&value];
    while let Some(value) = open.pop() {
        if let Some(counters) = value.get("counters") {
            sum.add(&serde_json::from_value(counters.clone()).or_fail(what)?);
        } else if let Some(list) = value.as_array() {
            open.extend(list);
        } else if let Some(fields) = value.as_object() {
            open.extend(fields.values());
        }
    }
    Ok(sum)
}
