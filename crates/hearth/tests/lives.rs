//! An agent that ended does not come back into its set (S13), however it ended and wherever it starts. It
//! joins anew if the agents keep a log of views.

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

use addresses::own_address;
use fixture::{Fixture, LIMIT, finish, kill, sh, signal, skipped, text, until, well};
use rustix::process::Signal;
use serde_json::Value;

const HOSTS: usize = 3;

/// Agents of one list, each with a control directory of its own, as on a host of its own.
struct Hosts {
    fixture: Fixture,
    members: String,
    options: Vec<String>,
}

impl Hosts {
    fn up(options: &[&str]) -> Hosts {
        let fixture = Fixture::new();
        let secret = fixture.path("secret");
        fs::write(&secret, "5a".repeat(32)).expect("our own directory");
        fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).expect("our own file");
        let members: Vec<String> = (0..HOSTS).map(|_| own_address().to_string()).collect();
        let hosts = Hosts {
            fixture,
            members: members.join(","),
            options: options.iter().map(|&word| word.to_owned()).collect(),
        };
        hosts.all_start();
        hosts
    }

    fn all_start(&self) {
        let starts: Vec<Child> = (0..HOSTS).map(|host| self.start(host, "own")).collect();
        for start in starts {
            well(&start.wait_with_output().expect("our own child"));
        }
    }

    /// Begins to start the agent of a host, which keeps its set in a directory of this name.
    fn start(&self, host: usize, control: &str) -> Child {
        let at = self.fixture.dir(&format!("mount{host}"));
        let mut up = self.hearth(host, control, &["up", "--pool", "16MiB"]);
        up.args(&self.options).args(["--hosts", &self.members]);
        up.args(["--node", &host.to_string(), "--secret-file"]);
        up.arg(self.fixture.path("secret")).arg("--store");
        up.arg(self.fixture.store()).arg("--at").arg(at);
        up.stdout(Stdio::piped()).stderr(Stdio::piped());
        up.spawn().expect("the command starts")
    }

    fn hearth(&self, host: usize, control: &str, words: &[&str]) -> Command {
        let control = self.fixture.dir(&format!("{control}{host}"));
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&control, mode).expect("our own directory");
        let mut command = self.fixture.hearth(words);
        command.env("HEARTH_DIR", control);
        command
    }

    /// The log of the agent of a host.
    fn log(&self, host: usize) -> String {
        let control = self.fixture.path(&format!("own{host}"));
        let dirs = fs::read_dir(control).expect("our own directory").flatten();
        let logs = dirs.map(|dir| dir.path().join(format!("agent-{host}.log")));
        logs.filter_map(|log| fs::read_to_string(log).ok())
            .collect()
    }

    fn run(&self, host: usize, words: &[&str]) -> Output {
        finish(&mut self.hearth(host, "own", words))
    }

    fn agent(&self, host: usize) -> u32 {
        let status = self.run(host, &["status", "--json"]);
        let line: Value = serde_json::from_slice(&status.stdout).expect("one agent");
        line["pid"].as_u64().expect("it lives") as u32
    }

    /// Kills the agent of a host, and takes away what it left.
    fn dies(&self, host: usize) {
        kill(&[self.agent(host)]);
        self.run(host, &["down"]);
    }

    fn is_refused(&self, start: Child) {
        let output = start.wait_with_output().expect("our own child");
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains("does not come back into its set"), "{words}");
        assert!(
            words.contains("hint: end the set on all its hosts"),
            "{words}"
        );
    }

    /// Ends the agents that live; then all start, and have what was written.
    fn start_anew(&self) {
        for host in 0..HOSTS {
            self.run(host, &["down"]);
        }
        self.all_start();
        for host in 0..HOSTS {
            assert_eq!(sh(&self.fixture.mount(host), "cat kept"), "kept\n");
            well(&self.run(host, &["down"]));
        }
    }
}

fn is_refused_in_each_way(options: &[&str]) {
    let hosts = Hosts::up(options);
    sh(&hosts.fixture.mount(2), "echo kept > kept; sync kept");
    hosts.dies(1);
    hosts.is_refused(hosts.start(1, "own"));
    hosts.is_refused(hosts.start(1, "other"));
    let words = text(&hosts.run(0, &["status"]).stderr) + &text(&hosts.run(0, &["status"]).stdout);
    assert!(
        words.contains("agent 1 was started again and is refused"),
        "{words}"
    );
    // Two of three, who would have each other.
    hosts.dies(2);
    let both = [hosts.start(1, "own"), hosts.start(2, "own")];
    both.into_iter().for_each(|start| hosts.is_refused(start));
    assert_eq!(sh(&hosts.fixture.mount(0), "cat kept"), "kept\n");
    hosts.start_anew();
}

#[test]
fn an_agent_that_was_killed_is_refused_under_policy_local() {
    if !skipped(
        "an_agent_that_was_killed_is_refused_under_policy_local",
        &[],
    ) {
        is_refused_in_each_way(&[
            "--policy",
            "local",
            "--replicas",
            "sync:1",
            "--membership",
            "static",
        ]);
    }
}

#[test]
fn an_agent_that_was_killed_is_refused_under_policy_home_over_datagrams() {
    let test = "an_agent_that_was_killed_is_refused_under_policy_home_over_datagrams";
    if !skipped(test, &[]) {
        is_refused_in_each_way(&["--transport", "udp", "--membership", "static"]);
    }
}

#[test]
fn an_agent_that_was_taken_down_alone_is_refused() {
    if skipped("an_agent_that_was_taken_down_alone_is_refused", &[]) {
        return;
    }
    let hosts = Hosts::up(&["--membership", "static"]);
    sh(&hosts.fixture.mount(0), "echo kept > kept");
    well(&hosts.run(0, &["down"]));
    hosts.is_refused(hosts.start(0, "own"));
    hosts.start_anew();
}

/// Those who know the agent stand still when it dies and starts, and so notice both at once.
#[test]
fn an_agent_is_refused_by_others_that_stood_still() {
    if skipped("an_agent_is_refused_by_others_that_stood_still", &[]) {
        return;
    }
    let hosts = Hosts::up(&["--membership", "static"]);
    sh(&hosts.fixture.mount(0), "echo kept > kept; sync kept");
    let others = [0, 2].map(|host| hosts.agent(host));
    for agent in others {
        signal(agent, Signal::STOP);
    }
    hosts.dies(1);
    let start = hosts.start(1, "own");
    let log = || {
        let control = hosts.fixture.path("own1");
        let dirs = fs::read_dir(control).expect("our own directory").flatten();
        dirs.map(|dir| dir.path().join("agent-1.log"))
            .any(|log| log.exists())
    };
    until("the new agent starts", LIMIT, log);
    for agent in others {
        signal(agent, Signal::CONT);
    }
    hosts.is_refused(start);
    hosts.start_anew();
}

/// Appends a line by each agent, and reads all lines back from each.
fn assert_all_share(hosts: &Hosts, file: &str) {
    let mounts = [0, 1, 2].map(|host| hosts.fixture.mount(host));
    for (host, mount) in mounts.iter().enumerate() {
        sh(mount, &format!("echo {host} >> {file}; sync {file}"));
    }
    for mount in &mounts {
        assert_eq!(sh(mount, &format!("cat {file}")), "0\n1\n2\n");
    }
}

fn comes_back(options: &[&str]) {
    let hosts = Hosts::up(options);
    for host in 0..HOSTS {
        assert_all_share(&hosts, &format!("before-{host}"));
        hosts.dies(host);
        let again = hosts.start(host, "own");
        // The others go on without it meanwhile.
        let other = hosts.fixture.mount((host + 1) % HOSTS);
        sh(&other, "echo meanwhile > meanwhile; sync meanwhile");
        well(&again.wait_with_output().expect("our own child"));
        assert_all_share(&hosts, &format!("after-{host}"));
        assert_eq!(
            sh(&hosts.fixture.mount(host), "cat meanwhile"),
            "meanwhile\n"
        );
    }
    for host in 0..HOSTS {
        well(&hosts.run(host, &["down"]));
    }
}

#[test]
fn agents_that_were_killed_join_anew_under_policy_home() {
    if !skipped("agents_that_were_killed_join_anew_under_policy_home", &[]) {
        comes_back(&["--policy", "home"]);
    }
}

#[test]
fn agents_that_were_killed_join_anew_under_policy_local_over_datagrams() {
    let test = "agents_that_were_killed_join_anew_under_policy_local_over_datagrams";
    if !skipped(test, &[]) {
        comes_back(&[
            "--policy",
            "local",
            "--replicas",
            "sync:1",
            "--transport",
            "udp",
        ]);
    }
}

/// Bytes that only the tier of an agent has are not seen while it is dead. They come back with it, but where others have
/// written since.
#[test]
fn bytes_in_a_tier_come_back_with_their_agent() {
    if skipped("bytes_in_a_tier_come_back_with_their_agent", &[]) {
        return;
    }
    let place = Fixture::new();
    let tier = place.dir("tier").display().to_string();
    let options = "--policy local --close buffered --fsync tier --tier-age 60m --tier";
    let hosts = Hosts::up(
        &options
            .split(' ')
            .chain([tier.as_str()])
            .collect::<Vec<_>>(),
    );
    let [first, second] = [0, 1].map(|host| hosts.fixture.mount(host));
    let write = "head -c 500000 /dev/zero > kept; echo old > changed; sync kept changed";
    sh(&first, write);
    let stored = "wc -c < kept; wc -c < changed";
    assert_eq!(sh(&hosts.fixture.store(), stored), "0\n0\n");
    hosts.dies(0);
    sh(&second, "echo new > changed; sync changed");
    let again = hosts.start(0, "own");
    well(&again.wait_with_output().expect("our own child"));
    assert_eq!(sh(&second, "wc -c < kept; cat changed"), "500000\nnew\n");
    let words = text(&hosts.run(0, &["status"]).stderr);
    assert!(words.contains("4 bytes of `changed` cannot go"), "{words}");
    for host in 0..HOSTS {
        well(&hosts.run(host, &["down"]));
    }
}

/// An agent that is taken down alone leaves in order: nothing that it had is lost, though nobody had synced it, and the others do
/// not wait for a lease.
#[test]
fn an_agent_leaves_in_order_and_joins_anew() {
    if skipped("an_agent_leaves_in_order_and_joins_anew", &[]) {
        return;
    }
    let hosts = Hosts::up(&["--close", "buffered"]);
    let mount = hosts.fixture.mount(0);
    let turns = [1, 2, 1];
    for (turn, host) in turns.into_iter().enumerate() {
        let write = "for i in $(seq 30); do echo $i >> kept; done";
        sh(&mount, write);
        well(&hosts.run(host, &["down"]));
        sh(&mount, write);
        assert_eq!(sh(&mount, "wc -l < kept; rm kept"), "60\n");
        let again = hosts.start(host, "own");
        well(&again.wait_with_output().expect("our own child"));
        assert_all_share(&hosts, &format!("after-{turn}"));
    }
    // An exclusion takes two views of those that are left: one until the fence, and one from then on. A machine that is
    // busy may have nobody in time who decides.
    let log = hosts.log(0);
    let views = log.matches(": 2 members").count();
    assert!(views < 2 * turns.len(), "{log}");
    for host in 0..HOSTS {
        well(&hosts.run(host, &["down"]));
    }
}
