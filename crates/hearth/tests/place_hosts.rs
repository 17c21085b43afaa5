//! `hearth place` by what agents of several hosts hold, asked on one of them.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fixture::{Fixture, LIMIT, finish, signal, skipped, text, well};
use rustix::process::Signal;
use serde_json::Value;

const HOSTS: usize = 3;

const NEEDED: &[&str] = &["ip", "tc", "nsenter", "unshare", "findmnt"];

const FILES: [&str; HOSTS] = ["zero", "one", "two"];

const JOBS: &str = "job a reads in/two cold\njob b reads in/zero\njob c reads in/one\n";

/// Hosts with networks of their own, an agent and a control directory on each, over one store. An agent has written
/// each file.
struct Hosts {
    fixture: Fixture,
    members: String,
}

impl Hosts {
    fn new() -> Hosts {
        let fixture = Fixture::new();
        let mut up = Command::new(rig());
        let up = up.arg("up").arg(fixture.path("rig")).arg("--storage");
        let up = finish(up.args(["0", "--compute", &HOSTS.to_string()]));
        well(&up);
        let told: Value = serde_json::from_slice(&up.stdout).expect("the rig says what it is");
        let compute = told["compute"].as_array().expect("a list");
        let addrs = compute.iter().map(|host| host["addr"].as_str());
        let members: Vec<String> = addrs
            .map(|addr| format!("{}:7420", addr.expect("it has one")))
            .collect();
        let secret = fixture.path("secret");
        fs::write(&secret, "5a".repeat(32)).expect("our own directory");
        fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).expect("our own file");
        let hosts = Hosts {
            fixture,
            members: members.join(","),
        };
        std::thread::scope(|scope| {
            for host in 0..HOSTS {
                let hosts = &hosts;
                scope.spawn(move || hosts.up(host));
            }
        });
        for (host, file) in FILES.iter().enumerate() {
            let dir = hosts.fixture.mount(host).join("in");
            fs::create_dir_all(&dir).expect("the mount takes it");
            fs::write(dir.join(file), vec![7; 3 << 20]).expect("the mount takes it");
        }
        fs::write(hosts.fixture.store().join("cold"), "elsewhere").expect("the store takes it");
        hosts
    }

    fn up(&self, host: usize) {
        let dir = self.fixture.dir(&format!("control{host}"));
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("our own directory");
        let at = self.fixture.dir(&format!("mount{host}"));
        let mut up = self.hearth(host, &["up", "--policy", "local", "--pool", "16MiB"]);
        up.args(["--hosts", &self.members, "--node", &host.to_string()]);
        up.arg("--store")
            .arg(self.fixture.store())
            .arg("--at")
            .arg(at);
        up.arg("--secret-file").arg(self.fixture.path("secret"));
        well(&finish(&mut up));
    }

    /// The command on a host, which Slurm would have named so.
    fn hearth(&self, host: usize, words: &[&str]) -> Command {
        let mut command = Command::new(rig());
        command.arg("exec").arg(self.fixture.path("rig"));
        command
            .arg(format!("compute{host}"))
            .arg(fixture::program());
        command.args(words);
        command.env("SLURMD_NODENAME", format!("node{host}"));
        command.env("HEARTH_DIR", self.fixture.path(&format!("control{host}")));
        command
    }

    fn place(&self, host: usize, jobs: &str, options: &[&str]) -> Output {
        let path = self.fixture.path("jobs");
        fs::write(&path, jobs).expect("our own directory");
        let mut command = self.hearth(host, &["place"]);
        finish(command.arg(path).args(options))
    }

    fn pid(&self, host: usize) -> u32 {
        let status = finish(&mut self.hearth(host, &["status", "--json"]));
        let status: Value = serde_json::from_slice(&status.stdout).expect("one object");
        status["pid"].as_u64().expect("a number") as u32
    }

    /// Ends them all; those that `live` must end well.
    fn down(&self, live: std::ops::Range<usize>) {
        let (live, options) = (&live, ["down", "--discard"]);
        std::thread::scope(|scope| {
            for host in 0..HOSTS {
                scope.spawn(move || {
                    let down = finish(&mut self.hearth(host, &options));
                    assert!(
                        down.status.success() || !live.contains(&host),
                        "{}",
                        text(&down.stderr)
                    );
                });
            }
        });
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let down = finish(
            Command::new(rig())
                .arg("down")
                .arg(self.fixture.path("rig")),
        );
        if !std::thread::panicking() {
            well(&down);
            self.fixture.assert_clean();
        }
    }
}

fn rig() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rig/rig.sh")
}

#[test]
fn any_host_places_jobs_where_agents_of_all_hosts_hold_their_bytes() {
    let test = "any_host_places_jobs_where_agents_of_all_hosts_hold_their_bytes";
    if skipped(test, NEEDED) {
        return;
    }
    let hosts = Hosts::new();
    let expected = "a --nodelist=node2\nb --nodelist=node0\nc --nodelist=node1\n";
    let mut recorded = String::new();
    for host in 0..HOSTS {
        let placed = hosts.place(host, JOBS, &["--as", "nodelist"]);
        well(&placed);
        assert_eq!(text(&placed.stdout), expected);
        assert!(
            !text(&placed.stderr).contains("care"),
            "{}",
            text(&placed.stderr)
        );
        let told = hosts.place(host, JOBS, &["--as", "residency"]);
        well(&told);
        recorded += &text(&told.stdout);
    }
    // Files are found below the mount of another host, too.
    let path = format!("job a reads {}/in/two\n", hosts.fixture.mount(2).display());
    let placed = hosts.place(0, &path, &["--as", "nodelist", "--nodes", "x,y,z"]);
    assert_eq!(
        text(&placed.stdout),
        "a --nodelist=z\n",
        "{}",
        text(&placed.stderr)
    );
    let few = hosts.place(0, JOBS, &["--nodes", "x,y"]);
    let words = text(&few.stderr);
    assert!(
        words.contains("--nodes has 2 names, and none for agent 2"),
        "{words}"
    );
    // The records of all hosts add up to no more than the record of one.
    let joined = ["all", "first"].map(|name| {
        let text = match name {
            "all" => recorded.as_str(),
            _ => recorded.lines().next().expect("a line"),
        };
        let path = hosts.fixture.path(name);
        fs::write(&path, text).expect("our own directory");
        let path = path.display().to_string();
        let mut joined = hosts.hearth(0, &["place", "--residency", &path, "--as", "residency"]);
        let joined = finish(&mut joined);
        well(&joined);
        serde_json::from_slice::<Value>(&joined.stdout).expect("JSON")
    });
    assert_eq!(joined[0], joined[1]);
    assert_eq!(joined[0]["nodes"].as_array().map(Vec::len), Some(HOSTS));
    hosts.down(0..HOSTS);
}

#[test]
fn an_agent_of_another_host_that_is_gone_or_silent_costs_its_node_alone() {
    let test = "an_agent_of_another_host_that_is_gone_or_silent_costs_its_node_alone";
    if skipped(test, NEEDED) {
        return;
    }
    let hosts = Hosts::new();
    let (silent, gone) = (hosts.pid(1), hosts.pid(2));
    fixture::kill(&[gone]);
    let place = || {
        let placed = hosts.place(0, JOBS, &["--as", "nodelist"]);
        well(&placed);
        (text(&placed.stdout), text(&placed.stderr))
    };
    let (lines, words) = place();
    assert!(
        words.contains("warning: agent 2 is not connected to agent 0"),
        "{words}"
    );
    assert!(words.contains("the node of agent 2 gets no job"), "{words}");
    assert!(
        lines.contains("b --nodelist=node0\nc --nodelist=node1\n"),
        "{lines}"
    );
    assert!(!lines.contains("node2"), "{lines}");
    signal(silent, Signal::STOP);
    let (lines, words) = place();
    assert!(
        words.contains("warning: agent 1 did not tell agent 0 what it holds"),
        "{words}"
    );
    assert!(
        lines.contains("b --nodelist=node0\n") && !lines.contains("node1"),
        "{lines}"
    );
    signal(silent, Signal::CONT);
    fixture::until("it tells again", LIMIT, || {
        place().0.contains("c --nodelist=node1\n")
    });
    hosts.down(0..2);
}
