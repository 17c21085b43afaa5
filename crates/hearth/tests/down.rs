//! `hearth down` where bytes cannot go to the store, or an agent stands still: nothing ends before all is in the store.

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use addresses::own_address;
use rustix::process::Signal;
use serde_json::Value;

use fixture::{Fixture, LIMIT, finish, sh, signal, skipped, text, until, wait_within, well};

/// A forced end takes no longer, with a slow machine's time on top.
const FORCED_MAX: Duration = Duration::from_secs(20);

const REFUSES: &[&str] = &["--close", "buffered", "--backing", "fault:write:enospc@1-"];

/// A byte that the store refuses leaves all agents running, and is named by its file.
#[test]
fn a_refused_byte_leaves_the_set_as_it_is() {
    if skipped("a_refused_byte_leaves_the_set_as_it_is", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(3, REFUSES);
    let agents = fixture.agents();
    sh(
        &fixture.mount(1),
        "printf x > refused; mkdir d; printf yz > d/other",
    );
    let down = fixture.run(&["down"]);
    let words = text(&down.stderr);
    assert_eq!(down.status.code(), Some(2), "{words}");
    let file = |name| format!("`{}`: No space left", fixture.store().join(name).display());
    for expected in [
        &file("refused"),
        &file("d/other"),
        "the set goes on",
        "--discard",
    ] {
        assert!(words.contains(expected), "{expected} is not in\n{words}");
    }
    assert!(!words.contains("1 bytes"), "{words}");
    assert_eq!(fixture.agents(), agents);
    assert_eq!(sh(&fixture.mount(2), "cat refused d/other"), "xyz");
    sh(&fixture.mount(0), "rm refused d/other");
    fixture.down();
}

/// Two hosts with a directory of control files each; the store of the second takes no bytes.
struct Hosts {
    fixture: Fixture,
    members: String,
}

impl Hosts {
    fn up() -> Hosts {
        let fixture = Fixture::new();
        let secret = fixture.path("secret");
        fs::write(&secret, "5a".repeat(32)).expect("our own directory");
        fs::set_permissions(secret, Permissions::from_mode(0o600)).expect("our own file");
        let members = format!("{},{}", own_address(), own_address());
        let hosts = Hosts { fixture, members };
        let starts: Vec<Child> = [&REFUSES[..2], REFUSES]
            .into_iter()
            .enumerate()
            .map(|(host, options)| {
                let mut up = hosts.hearth(host, &["up", "--pool", "16MiB", "--policy", "local"]);
                up.args(options).args(["--hosts", &hosts.members]);
                up.args(["--node", &host.to_string(), "--secret-file"]);
                up.arg(hosts.fixture.path("secret"))
                    .arg("--store")
                    .arg(hosts.fixture.store());
                up.arg("--at")
                    .arg(hosts.fixture.dir(&format!("mount{host}")));
                up.stdout(Stdio::piped()).stderr(Stdio::piped());
                up.spawn().expect("the command starts")
            })
            .collect();
        for start in starts {
            well(&start.wait_with_output().expect("our own child"));
        }
        hosts
    }

    fn control(&self, host: usize) -> PathBuf {
        let control = self.fixture.dir(&format!("control{host}"));
        fs::set_permissions(&control, Permissions::from_mode(0o700)).expect("our own directory");
        control
    }

    fn hearth(&self, host: usize, words: &[&str]) -> Command {
        let mut command = self.fixture.hearth(words);
        command.env("HEARTH_DIR", self.control(host));
        command
    }

    fn run(&self, host: usize, words: &[&str]) -> Output {
        finish(&mut self.hearth(host, words))
    }
}

/// Each host runs its own command. The first that ends takes nothing away that another needs to keep its bytes.
#[test]
fn no_host_ends_before_the_store_has_the_bytes_of_all() {
    if skipped("no_host_ends_before_the_store_has_the_bytes_of_all", &[]) {
        return;
    }
    let hosts = Hosts::up();
    sh(&hosts.fixture.mount(1), "printf x > refused");
    let down = hosts.run(0, &["down"]);
    let words = text(&down.stderr);
    assert_eq!(down.status.code(), Some(2), "{words}");
    let file = hosts.fixture.store().join("refused");
    for expected in [
        "agent 1 could not flush",
        &format!("`{}`: No space", file.display()),
        "--discard",
    ] {
        assert!(words.contains(expected), "{expected} is not in\n{words}");
    }
    assert_eq!(sh(&hosts.fixture.mount(0), "cat refused"), "x");
    sh(&hosts.fixture.mount(0), "rm refused");
    well(&hosts.run(0, &["down"]));
    well(&hosts.run(1, &["down"]));
    hosts.fixture.assert_clean();
}

/// An agent that stands still on another host says nothing. A forced end goes on without its word.
#[test]
fn a_host_that_stands_still_holds_up_no_forced_end() {
    if skipped("a_host_that_stands_still_holds_up_no_forced_end", &[]) {
        return;
    }
    let hosts = Hosts::up();
    let status = hosts.run(1, &["status", "--json"]);
    let agent: Value = serde_json::from_slice(&status.stdout).expect("one agent");
    let agent = agent["pid"].as_u64().expect("it lives") as u32;
    signal(agent, Signal::STOP);
    let down = hosts.run(0, &["down", "--force"]);
    let words = text(&down.stderr);
    assert_eq!(down.status.code(), Some(1), "{words}");
    assert!(words.contains("did not say in time"), "{words}");
    signal(agent, Signal::CONT);
    well(&hosts.run(1, &["down"]));
    hosts.fixture.assert_clean();
}

/// A program that waits for an agent which stands still cannot be killed; a forced end lets it go, and keeps the bytes.
#[test]
fn a_forced_end_lets_programs_go_that_wait_for_ever() {
    if skipped("a_forced_end_lets_programs_go_that_wait_for_ever", &[]) {
        return;
    }
    for options in [&["--force"][..], &["--force", "--discard"]] {
        let fixture = Fixture::new();
        fixture.up(1, &["--close", "buffered"]);
        sh(&fixture.mount(0), "echo kept > f");
        let agent = fixture.agents()[0];
        signal(agent, Signal::STOP);
        let mut reader = Command::new("cat");
        let mut reader = reader
            .arg(fixture.mount(0).join("f"))
            .stderr(Stdio::null())
            .spawn()
            .expect("cat is there");
        until("it waits", LIMIT, || waits(reader.id()));
        reader.kill().expect("our own child");
        let begun = Instant::now();
        let down = fixture.run(&[&["down"], options].concat());
        let words = text(&down.stderr);
        assert!(begun.elapsed() < FORCED_MAX, "{words}");
        assert!(wait_within(&mut reader, LIMIT).is_some(), "{words}");
        if options.contains(&"--discard") {
            assert_eq!(down.status.code(), Some(0), "{words}");
        } else {
            assert_eq!(down.status.code(), Some(2), "{words}");
            assert!(words.contains("wait no more"), "{words}");
            signal(agent, Signal::CONT);
            well(&fixture.run(&["down"]));
            assert_eq!(sh(&fixture.store(), "cat f"), "kept\n");
        }
        fixture.assert_clean();
    }
}

/// Whether a process waits in a system call.
fn waits(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    comm == "cat\n" && matches!(state, Some('S' | 'D'))
}
