//! An agent that ended does not come back into its set (S13), however it ended and wherever it starts. It
//! joins anew if the agents keep a log of views.

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use addresses::own_address;
use fixture::{Fixture, LIMIT, finish, kill, kill_alone, sh, signal, skipped, text, until, well};
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
        let hosts = Hosts::new(options);
        hosts.all_start();
        hosts
    }

    fn new(options: &[&str]) -> Hosts {
        let fixture = Fixture::new();
        let secret = fixture.path("secret");
        fs::write(&secret, "5a".repeat(32)).expect("our own directory");
        fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).expect("our own file");
        let members: Vec<String> = (0..HOSTS).map(|_| own_address().to_string()).collect();
        Hosts {
            fixture,
            members: members.join(","),
            options: options.iter().map(|&word| word.to_owned()).collect(),
        }
    }

    fn all_start(&self) {
        let starts: Vec<Child> = (0..HOSTS).map(|host| self.start(host, "own")).collect();
        for start in starts {
            well(&start.wait_with_output().expect("our own child"));
        }
    }

    /// Begins to start the agent of a host, which keeps its set in a directory of this name.
    fn start(&self, host: usize, control: &str) -> Child {
        self.start_with(host, control, &[])
    }

    /// The same with other options, which take the places of the usual ones.
    fn start_with(&self, host: usize, control: &str, other: &[&str]) -> Child {
        let mut up = self.hearth(host, control, &["up", "--pool", "16MiB"]);
        up.args(&self.options).args(["--hosts", &self.members]);
        up.args(["--node", &host.to_string()]);
        let at = self.fixture.dir(&format!("mount{host}"));
        let usual = [
            ("--secret-file", self.fixture.path("secret")),
            ("--store", self.fixture.store()),
            ("--at", at),
        ];
        let usual = usual.iter().filter(|(name, _)| !other.contains(name));
        for (name, path) in usual {
            up.arg(name).arg(path);
        }
        up.args(other).stdout(Stdio::piped()).stderr(Stdio::piped());
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

    fn all_end(&self) {
        (0..HOSTS).for_each(|host| well(&self.run(host, &["down"])));
    }

    fn run(&self, host: usize, words: &[&str]) -> Output {
        finish(&mut self.hearth(host, "own", words))
    }

    /// The exit code of `hearth status`, and its words.
    fn status(&self, host: usize) -> (Option<i32>, String) {
        let output = self.run(host, &["status"]);
        let words = text(&output.stdout) + &text(&output.stderr);
        (output.status.code(), words)
    }

    fn agent(&self, host: usize) -> u32 {
        let status = self.run(host, &["status", "--json"]);
        let line: Value = serde_json::from_slice(&status.stdout).expect("one agent");
        line["pid"].as_u64().expect("it lives") as u32
    }

    /// Kills the agent of a host and its warden, as when the host dies, and takes away what they left.
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
    let told = "agent 0 is gone: it was taken down on its host";
    until("the leave is told", LIMIT, || {
        hosts.status(1).1.contains(told)
    });
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
    hosts.all_end();
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
        // The others have said of the death that bytes may be lost with it.
        let down = hosts.run(host, &["down"]);
        assert!(down.status.code() <= Some(1), "{}", text(&down.stderr));
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
    hosts.all_end();
}

/// A shell with a file of the mount open, one without a name, and a lock; it goes on when it is told to.
const PROGRAM: &str = "exec 3>>log; echo before >&3; sync log; \
    exec 4<>nameless; echo hidden >&4; sync nameless; rm nameless; \
    exec 5>lock; flock -n 5; mkdir -p many; for i in $(seq 50); do : > many/$i; done; \
    echo ready; read go; \
    echo after >&3; sync log; cat log; cat /proc/self/fd/4; ls many | wc -l; rm -r many; \
    flock -n lock echo taken || echo locked";

#[test]
fn programs_go_on_when_their_agent_is_killed() {
    if skipped("programs_go_on_when_their_agent_is_killed", &[]) {
        return;
    }
    let hosts = Hosts::up(&["--policy", "home"]);
    for host in [1, 0] {
        let mut program = Command::new("sh");
        program
            .args(["-c", PROGRAM])
            .current_dir(hosts.fixture.mount(host));
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = program.spawn().expect("a shell");
        let mut output = BufReader::new(program.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says so");
        assert_eq!(line, "ready\n");
        let agent = hosts.agent(host);
        kill_alone(&[agent]);
        let mut input = program.stdin.take().expect("a pipe");
        input.write_all(b"go\n").expect("it reads");
        let mut said = String::new();
        output.read_to_string(&mut said).expect("text");
        assert_eq!(said, "before\nafter\nhidden\n50\nlocked\n");
        assert!(program.wait().expect("our own child").success());
        assert_ne!(hosts.agent(host), agent, "another agent serves the mount");
        assert_eq!(
            sh(&hosts.fixture.mount(2), "cat log; rm log"),
            "before\nafter\n"
        );
    }
    hosts.all_end();
}

/// A command that starts the agent of a host again may come before its warden, or after it.
#[test]
fn an_agent_that_is_up_already_is_not_started_twice() {
    if skipped("an_agent_that_is_up_already_is_not_started_twice", &[]) {
        return;
    }
    let hosts = Hosts::up(&[]);
    let agent = hosts.agent(1);
    let again = hosts.start(1, "own").wait_with_output();
    let again = again.expect("our own child");
    well(&again);
    assert!(text(&again.stderr).contains("is up already"));
    assert_eq!(hosts.agent(1), agent);
    kill_alone(&[agent]);
    well(
        &hosts
            .start(1, "own")
            .wait_with_output()
            .expect("our own child"),
    );
    assert_all_share(&hosts, "shared");
    hosts.all_end();
}

#[test]
fn status_tells_a_leave_from_a_death_and_ends_a_warning_with_its_cause() {
    let test = "status_tells_a_leave_from_a_death_and_ends_a_warning_with_its_cause";
    if skipped(test, &[]) {
        return;
    }
    let hosts = Hosts::up(&[]);
    let tells = |expected: &[&str]| {
        until("it is told", LIMIT, || {
            let words = hosts.status(0).1;
            expected.iter().all(|word| words.contains(word))
        });
        hosts.status(0)
    };
    tells(&["view 1: 3 of 3 agents\n"]);
    well(&hosts.run(2, &["down"]));
    let (code, words) = tells(&["2 of 3 agents; agent 2 left", " s ago"]);
    assert_eq!(code, Some(0), "{words}");
    let again = hosts.start(2, "own");
    well(&again.wait_with_output().expect("our own child"));
    kill(&[hosts.agent(1)]);
    let (code, words) = tells(&["agent 1 has been missing", "warning: ", "agent 1 is gone: "]);
    assert_eq!(code, Some(1), "{words}");
    // It is down, as was asked.
    let down = hosts.run(1, &["down"]);
    well(&down);
    let words = text(&down.stderr);
    assert!(
        words.contains("note: its agents were gone already"),
        "{words}"
    );
    let again = hosts.start(1, "own");
    well(&again.wait_with_output().expect("our own child"));
    let (code, words) = tells(&["3 of 3 agents\n", "over for", ": agent 1 is gone: "]);
    assert_eq!(code, Some(0), "{words}");
    hosts.all_end();
}

/// Names, in what a start that fails says.
fn refusal(start: Child, names: &[&str]) {
    let output = start.wait_with_output().expect("our own child");
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    for name in names {
        assert!(words.contains(name), "{name} is not in\n{words}");
    }
}

/// An agent of another secret is told at once, by a set that is up and by one that starts.
#[test]
fn another_secret_is_told_at_once_with_its_file() {
    let test = "another_secret_is_told_at_once_with_its_file";
    if skipped(test, &[]) {
        return;
    }
    let hosts = Hosts::new(&["--membership", "static"]);
    let other = hosts.fixture.path("other-secret");
    fs::write(&other, "77".repeat(32)).expect("our own directory");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("our own file");
    let other = other.to_str().expect("a plain path");
    let right = [hosts.start(0, "own"), hosts.start(2, "own")];
    let names = [other, "has another secret", "the same on all hosts"];
    for _ in 0..2 {
        let begun = Instant::now();
        refusal(
            hosts.start_with(1, "own", &["--secret-file", other]),
            &names,
        );
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it does not wait for all"
        );
    }
    // Those that have each other wait for it.
    let again = hosts.start(1, "own");
    for start in right.into_iter().chain([again]) {
        well(&start.wait_with_output().expect("our own child"));
    }
    hosts.all_end();
}

/// On one host, whose agents see each other, and from another, whichever of the two dials.
#[test]
fn a_start_with_other_settings_is_told_which_differ() {
    let test = "a_start_with_other_settings_is_told_which_differ";
    if skipped(test, &[]) {
        return;
    }
    let hosts = Hosts::up(&["--membership", "static", "--policy", "hint"]);
    let other = ["--chunk", "1MiB"];
    // Agents of one host see each other.
    let names = ["it has chunk 8 MiB, not 1 MiB", "hearth down --job hosts-"];
    for host in [0, 2] {
        kill(&[hosts.agent(host)]);
        hosts.run(host, &["down"]);
        refusal(hosts.start_with(host, "own", &other), &names);
    }
    let elsewhere = hosts.fixture.dir("elsewhere");
    let elsewhere = elsewhere.to_str().expect("a plain path");
    for host in [0, 2] {
        let mut start = hosts.start_with(host, "own", &["--chunk", "1MiB", "--store", elsewhere]);
        let differs = "the settings differ: --chunk is the default at the peer and `1 MiB` here";
        until("the difference is known", LIMIT, || {
            hosts.log(host).contains(differs)
        });
        let pid = rustix::process::Pid::from_child(&start);
        rustix::process::kill_process(pid, Signal::INT).expect("our own child");
        start.wait().expect("our own child");
    }
    hosts.run(1, &["down"]);
}

/// Its kernel hears of nothing, so the operating system would go on to show what it keeps.
#[test]
fn an_agent_that_stands_still_shows_no_old_bytes() {
    if skipped("an_agent_that_stands_still_shows_no_old_bytes", &[]) {
        return;
    }
    let hosts = Hosts::up(&["--policy", "home"]);
    let (first, second) = (hosts.fixture.mount(0), hosts.fixture.mount(1));
    sh(&first, "echo old > file; sync file");
    // A descriptor in this process would hold up each start of a program here.
    let script = "exec 3<file 4<file; read kept <&3; echo $kept; read on; echo reads; read now <&4; echo $now";
    let mut reader = Command::new("sh");
    reader.args(["-c", script]).current_dir(&second);
    reader.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut reader = reader.spawn().expect("a shell");
    let output = BufReader::new(reader.stdout.take().expect("a pipe"));
    let mut lines = output.lines().map(|line| line.expect("it says so"));
    assert_eq!(lines.next().as_deref(), Some("old"));
    let agent = hosts.agent(1);
    signal(agent, Signal::STOP);
    // The others wait for its lease first.
    sh(&first, "echo new > file; sync file");
    drop(reader.stdin.take());
    assert_eq!(lines.next().as_deref(), Some("reads"));
    signal(agent, Signal::CONT);
    assert_eq!(lines.next().as_deref(), Some("new"));
    reader.wait().expect("our own child");
    hosts.all_end();
}

/// The operating system holds a page of a mapping until it is written, and the write waits until all members have begun.
#[test]
fn mapped_writers_go_on_when_another_agent_dies() {
    let test = "mapped_writers_go_on_when_another_agent_dies";
    if skipped(test, &["python3"]) {
        return;
    }
    let hosts = Hosts::up(&[]);
    let mut writers: Vec<Mapper> = (0..4)
        .map(|number| Mapper::new(&hosts.fixture.mount(number % 2), number))
        .collect();
    for _ in 0..3 {
        let agent = hosts.agent(2);
        kill_alone(&[agent]);
        until("another agent is a member", LIMIT, || {
            let status = hosts.run(2, &["status", "--json"]);
            let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
            let pid = status["pid"].as_u64();
            let members = status["node"]["view"]["members"].as_array().map(Vec::len);
            pid.is_some_and(|pid| pid != u64::from(agent)) && members == Some(HOSTS)
        });
        let seen: Vec<u64> = writers.iter().map(Mapper::count).collect();
        until("all writers go on", LIMIT, || {
            let counts = writers.iter().map(Mapper::count);
            counts.zip(&seen).all(|(count, seen)| count > seen + 20)
        });
    }
    writers.iter_mut().for_each(Mapper::end);
    for host in 0..HOSTS {
        let code = hosts.run(host, &["down"]).status.code();
        // 1 tells of bytes that only the dead agent had.
        assert!(matches!(code, Some(0 | 1)), "{code:?}");
    }
}

/// A program that stores into a mapping of a file of its own, again and again, and tells how often.
struct Mapper {
    child: Child,
    count: Arc<AtomicU64>,
}

impl Mapper {
    fn new(dir: &Path, number: usize) -> Mapper {
        let script = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 65536)
pages = mmap.mmap(file, 65536)
turn = 0
while True:
    turn += 1
    at = turn % 16 * 4096
    pages[at : at + 8] = b'%08d' % turn
    try:
        pages.flush()
    except OSError:
        pass # What a home had that died is lost, and told.
    print(turn, flush=True)
";
        let mut child = Command::new("python3");
        child
            .args(["-c", script, &format!("map{number}")])
            .current_dir(dir);
        let mut child = child.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let count = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&count);
        thread::spawn(move || {
            let told = lines
                .map_while(Result::ok)
                .filter_map(|line| line.parse().ok());
            told.for_each(|turn| counted.store(turn, Ordering::Relaxed));
        });
        Mapper { child, count }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.child.kill().expect("our own child");
        self.child.wait().expect("our own child");
    }
}
