//! Agents on the compute hosts of a rig, one on each.

use super::rig::{Host, Rig, run};
use crate::hearth::hearth;
use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::trial::cluster::ClusterCounts;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Port of every agent; each host has an address of its own.
const PORT: u16 = 7420;

/// Empties the kernel's page cache, so that every run begins cold.
pub(super) fn forget_caches() -> Result<(), Failure> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "1")
        .or_fail(|| "cannot empty the kernel's caches".to_owned())
}

/// Makes the kernel forget names and attributes that nobody uses; only root can.
pub(super) fn forget_names() -> Result<(), Failure> {
    std::fs::write("/proc/sys/vm/drop_caches", "2")
        .or_fail(|| "cannot make the kernel forget names".to_owned())
}

/// One agent on each of the first compute hosts.
pub(super) struct HostAgents<'a> {
    rig: &'a Rig,
    this: PathBuf,
    hosts: &'a [Host],
    stores: Vec<PathBuf>,
}

impl<'a> HostAgents<'a> {
    /// Starts agents under a policy, each with a mount beside the volume's.
    pub(super) fn start(
        rig: &'a Rig,
        count: u32,
        policy: Policy,
    ) -> Result<HostAgents<'a>, Failure> {
        HostAgents::start_with(rig, count, policy, &[])
    }

    /// As [`HostAgents::start`], with more options of `hearth up`.
    pub(super) fn start_with(
        rig: &'a Rig,
        count: u32,
        policy: Policy,
        options: &[&str],
    ) -> Result<HostAgents<'a>, Failure> {
        let hosts = &rig.hosts()[..count as usize];
        let stores = hosts.iter().map(|host| host.mount.clone()).collect();
        HostAgents::start_over(rig, stores, policy, options)
    }

    /// As [`HostAgents::start_with`], one over each of these directories of the first hosts.
    pub(super) fn start_over(
        rig: &'a Rig,
        stores: Vec<PathBuf>,
        policy: Policy,
        options: &[&str],
    ) -> Result<HostAgents<'a>, Failure> {
        let this = hearth()?;
        let hosts = &rig.hosts()[..stores.len()];
        let agents = HostAgents {
            rig,
            this,
            hosts,
            stores,
        };
        agents.write_secret()?;
        let members: Vec<String> = hosts
            .iter()
            .map(|host| format!("{}:{PORT}", host.addr))
            .collect();
        let members = members.join(",");
        let starts: Result<Vec<Child>, Failure> = (0..hosts.len())
            .map(|node| agents.start_one(node, &members, (policy, options)))
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

    fn write_secret(&self) -> Result<(), Failure> {
        let path = self.rig.path("secret");
        std::fs::write(&path, format!("{:064x}\n", 0x4ea7_u32))
            .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)))
            .or_fail(|| "cannot write the secret".to_owned())
    }

    fn start_one(
        &self,
        node: usize,
        members: &str,
        (policy, options): (Policy, &[&str]),
    ) -> Result<Child, Failure> {
        let what = || "cannot start an agent".to_owned();
        let host = &self.hosts[node];
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
        command.arg("--store").arg(&self.stores[node]);
        command.arg("--at").arg(&at);
        command.args(["--hosts", members, "--node", &node.to_string()]);
        command.arg("--secret-file").arg(self.rig.path("secret"));
        command
            .args(["--policy", &policy.to_string()])
            .args(options);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().or_fail(what)
    }

    /// Directory in which the commands of one host keep their sets.
    fn dir(&self, node: usize) -> PathBuf {
        self.rig.path(&format!("run{node}"))
    }

    fn command(&self, node: usize, words: &[&str]) -> Command {
        let mut command = Command::new(&self.this);
        command.env("HEARTH_DIR", self.dir(node)).args(words);
        command
    }

    /// Counts of all of them together.
    pub(super) fn counts(&self) -> Result<ClusterCounts, Failure> {
        let mut sum = ClusterCounts::default();
        for node in 0..self.hosts.len() {
            let text = run(&mut self.command(node, &["status", "--json"]))?;
            for line in text.lines() {
                sum.add(&counts_in(line)?);
            }
        }
        Ok(sum)
    }

    /// Flushes and ends them.
    pub(super) fn end(self) -> Result<(), Failure> {
        let ends: Vec<Result<String, Failure>> = std::thread::scope(|scope| {
            let downs: Vec<_> = (0..self.hosts.len())
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

/// The counters in one line of `hearth status --json`, or in an agent's status, wherever they stand.
pub(super) fn counts_in(line: &str) -> Result<ClusterCounts, Failure> {
    let what = || "cannot read an agent's status".to_owned();
    let value: serde_json::Value = serde_json::from_str(line).or_fail(what)?;
    let mut sum = ClusterCounts::default();
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
