//! Policy `bank` over real memcached daemons: the blocks that they hold, and their fate. No read returns old bytes
//! whatever happens to the daemons (S5). The laboratory plays schedules of faults.

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, LIMIT, sh, skipped, text, until, well};
use hearth_bank::daemon::{self, DaemonPlan, End, Seat, StartedDaemon};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::thread;

#[test]
fn blocks_come_from_daemons_that_end_with_their_set() {
    if skipped(
        "blocks_come_from_daemons_that_end_with_their_set",
        &["memcached"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(
        2,
        &["--policy", "bank", "--bank", "2", "--page-size", "2KiB"],
    );
    let (a, b) = (fixture.mount(0), fixture.mount(1));
    sh(&a, "head -c 200000 /dev/urandom > f");
    for _ in 0..2 {
        same(&a, &b);
    }
    // Blocks of the file that were found; not all, as entries are made behind the reads.
    let (hits, _) = counted(&fixture);
    assert!(hits > 20, "{hits}");
    sh(
        &b,
        "printf changed | dd of=f bs=1 seek=5000 conv=notrunc status=none",
    );
    same(&a, &b);
    let words = fixture.status_words();
    assert!(
        words.contains("bank-1.sock") && words.contains("2 of 2"),
        "{words}"
    );
    let set = fixture.set_file();
    let at = set["bank"][0]["at"].as_str().expect("an address");
    let mode = std::fs::metadata(at)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    fixture.down();
}

fn same(a: &Path, b: &Path) {
    let sum = |at: &Path| sh(at, "sha256sum < f");
    assert_eq!(sum(a), sum(b));
}

/// Entries that were found in daemons, and not.
fn counted(fixture: &Fixture) -> (u64, u64) {
    let (agents, _) = fixture.status();
    let sum = |key: &str| {
        let daemons = agents
            .iter()
            .flat_map(|agent| agent["node"]["bank"].as_array().expect("a list"));
        daemons
            .map(|daemon| daemon[key].as_u64().expect("a number"))
            .sum()
    };
    (sum("hits"), sum("misses"))
}

#[test]
fn a_dead_daemon_is_routed_around_and_one_in_its_place_is_used() {
    let test = "a_dead_daemon_is_routed_around_and_one_in_its_place_is_used";
    if skipped(test, &["memcached"]) {
        return;
    }
    let fixture = Fixture::new();
    let mut bank = Bank::start(&fixture, 1);
    bank.serve(&fixture, "bank", &[]);
    let (a, b) = (fixture.mount(0), fixture.mount(1));
    sh(&a, "head -c 100000 /dev/urandom > f");
    same(&a, &b);
    bank.kill(0);
    same(&a, &b);
    sh(&b, "head -c 100000 /dev/urandom > f");
    same(&a, &b);
    until("the status says so", LIMIT, || {
        fixture
            .status_words()
            .contains("daemon 0 of the bank is away")
    });
    bank.restart(0);
    until("nothing needs care", LIMIT, || fixture.status().1 == 0);
    let before = counted(&fixture).0;
    until("the new daemon is used", LIMIT, || {
        same(&a, &b);
        counted(&fixture).0 > before
    });
    drop(bank);
    fixture.down();
}

#[test]
fn attributes_come_from_daemons_and_never_from_before_a_change() {
    let test = "attributes_come_from_daemons_and_never_from_before_a_change";
    if skipped(test, &["memcached"]) {
        return;
    }
    let fixture = Fixture::new();
    let words = [
        "--policy",
        "bank",
        "--bank-attributes",
        "daemons",
        "--attr-ttl",
        "600s",
    ];
    fixture.up(3, &words);
    let [a, b, c] = [0, 1, 2].map(|agent| fixture.mount(agent));
    sh(&a, "mkdir d; for n in {1..40}; do echo $n > d/f$n; done");
    let look = "stat -c '%n %s %a %Y' d/*";
    let first = sh(&a, look);
    // The first that looks at a file is its manager, and gives the daemon what it found.
    until("daemons answer", LIMIT, || {
        assert_eq!(sh(&b, look), first);
        counted(&fixture).0 > 40
    });
    for turn in 0..10 {
        let (there, file) = ([&a, &b, &c][turn % 3], turn + 1);
        let mode = format!("{}", 600 + turn % 8);
        sh(
            there,
            &format!("chmod {mode} d/f{file}; truncate -s {turn} d/f{file}"),
        );
        for here in [&a, &b, &c] {
            let seen = sh(here, &format!("stat -c '%a %s' d/f{file}"));
            assert_eq!(seen.trim(), format!("{mode} {turn}"), "turn {turn}");
        }
    }
    sh(&c, "rm d/f1");
    sh(&b, "! stat d/f1 2> /dev/null");
    fixture.down();
}

#[test]
fn names_come_from_daemons_and_never_from_before_a_change() {
    let test = "names_come_from_daemons_and_never_from_before_a_change";
    if skipped(test, &["memcached"]) {
        return;
    }
    let fixture = Fixture::new();
    let words = "--policy bank --bank-attributes daemons --attr-ttl 600s";
    fixture.up(3, &words.split(' ').collect::<Vec<_>>());
    let [a, b, c] = [0, 1, 2].map(|agent| fixture.mount(agent));
    sh(&a, "mkdir d; for n in {1..40}; do echo $n > d/f$n; done");
    // Of a name that a directory does not have only the entry of its names can tell.
    let miss = "for n in {1..20}; do [ ! -e d/x$n ]; done";
    until("daemons answer", LIMIT, || {
        sh(&c, miss);
        let before = counted(&fixture).0;
        sh(&b, miss);
        counted(&fixture).0 > before
    });
    for turn in 0..12 {
        let mounts = [&a, &b, &c];
        let [maker, mover, remover] = [0, 1, 2].map(|role| mounts[(turn + role) % 3]);
        let all_see = |script: &str| mounts.map(|at| sh(at, script));
        sh(maker, &format!("echo {turn} > d/x{turn}"));
        all_see(&format!(
            "[ $(cat d/x{turn}) = {turn} ]; [ ! -e d/y{turn} ]"
        ));
        sh(mover, &format!("mv d/x{turn} d/y{turn}"));
        all_see(&format!(
            "[ ! -e d/x{turn} ]; [ $(cat d/y{turn}) = {turn} ]"
        ));
        sh(remover, &format!("rm d/y{turn}"));
        all_see(&format!("[ ! -e d/y{turn} ]; [ -e d/f{} ]", turn + 1));
    }
    fixture.down();
}

#[test]
fn a_daemon_of_others_is_used_beside_their_data() {
    let test = "a_daemon_of_others_is_used_beside_their_data";
    if skipped(test, &["memcached"]) {
        return;
    }
    let fixture = Fixture::new();
    let bank = Bank::start(&fixture, 1);
    let theirs = Theirs::of(&bank, 0);
    theirs.set("theirs", "precious");
    bank.serve(&fixture, "bank", &[]);
    let (a, b) = (fixture.mount(0), fixture.mount(1));
    sh(&a, "head -c 100000 /dev/urandom > f");
    until("the daemon is used", LIMIT, || {
        same(&a, &b);
        counted(&fixture).0 > 20
    });
    assert_eq!(theirs.get("theirs").as_deref(), Some("precious"));
    // They overwrite all that is there, under every name.
    let keys = theirs.keys();
    assert!(keys.len() > 10, "{keys:?}");
    for key in keys.iter().filter(|key| *key != "theirs") {
        theirs.set(key, "junk under a name of ours");
    }
    same(&a, &b);
    well(&fixture.run(&["down"]));
    // A set's end leaves a daemon alone that it did not start.
    assert_eq!(theirs.get("theirs").as_deref(), Some("precious"));
    drop(bank);
}

#[test]
fn a_daemon_with_small_items_is_named_and_done_without() {
    let test = "a_daemon_with_small_items_is_named_and_done_without";
    if skipped(test, &["memcached"]) {
        return;
    }
    let fixture = Fixture::new();
    let at = fixture.path("small.sock");
    let mut command = Command::new("memcached");
    command
        .args([
            "-m",
            "8",
            "-U",
            "0",
            "-u",
            "root",
            "-I",
            "1k",
            "-o",
            "slab_chunk_max=512",
            "-s",
        ])
        .arg(&at);
    let mut small = command.spawn().expect("memcached starts");
    until("it listens", LIMIT, || at.exists());
    let words = refused_by(&fixture, &at.display().to_string());
    assert!(words.contains("its items end at 1024 bytes"), "{words}");
    assert!(words.contains("-I"), "{words}");
    small.kill().expect("our own child");
    small.wait().expect("our own child");
    fixture.down();
}

#[test]
fn an_old_daemon_is_named_and_done_without() {
    let test = "an_old_daemon_is_named_and_done_without";
    if skipped(test, &["memcached"]) {
        return;
    }
    let fixture = Fixture::new();
    let at = fixture.path("old.sock");
    let listener = UnixListener::bind(&at).expect("a socket");
    // No such memcached is packaged any more: what version 1.4 answers to the first questions.
    thread::spawn(move || {
        for mut conn in listener.incoming().flatten() {
            let mut bytes = [0; 256];
            while let Ok(1..) = conn.read(&mut bytes) {
                let answers = b"VERSION 1.4.15\r\nERROR\r\nSTAT item_size_max 1048576\r\nEND\r\n";
                if conn.write_all(answers).is_err() {
                    break;
                }
            }
        }
    });
    let words = refused_by(&fixture, &at.display().to_string());
    assert!(
        words.contains("1.6 or later") && words.contains("1.4.15"),
        "{words}"
    );
    fixture.down();
}

/// The status of a set whose only daemon cannot be used. Its files are right all the same.
fn refused_by(fixture: &Fixture, at: &str) -> String {
    let words = ["--policy", "bank", "--bank", at, "--page-size", "2KiB"];
    fixture.up(2, &words);
    let (a, b) = (fixture.mount(0), fixture.mount(1));
    sh(&a, "head -c 100000 /dev/urandom > f");
    same(&a, &b);
    sh(
        &b,
        "printf changed | dd of=f bs=1 seek=5000 conv=notrunc status=none",
    );
    same(&a, &b);
    assert_eq!(counted(fixture).0, 0);
    fixture.status_words()
}

/// Somebody else's connection to a daemon, in the classic protocol.
struct Theirs(RefCell<UnixStream>);

impl Theirs {
    fn of(bank: &Bank, number: usize) -> Theirs {
        let started = bank.daemons[number].1.as_ref().expect("it runs");
        let hearth_bank::Address::Unix(path) = &started.addr else {
            panic!("it listens at a socket");
        };
        let daemon = UnixStream::connect(path).expect("it listens");
        daemon.set_read_timeout(Some(LIMIT)).expect("a span");
        Theirs(RefCell::new(daemon))
    }

    /// The answer up to a line that ends it.
    fn ask(&self, line: &str, ends: &[&str]) -> String {
        let mut daemon = self.0.borrow_mut();
        daemon.write_all(line.as_bytes()).expect("it reads");
        let (mut said, mut bytes) = (String::new(), [0; 4096]);
        while !ends.iter().any(|end| said.ends_with(end)) {
            let count = daemon.read(&mut bytes).expect("it answers");
            said += &text(&bytes[..count]);
        }
        said
    }

    fn set(&self, key: &str, value: &str) {
        let line = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(self.ask(&line, &["\r\n"]), "STORED\r\n");
    }

    fn get(&self, key: &str) -> Option<String> {
        let said = self.ask(&format!("get {key}\r\n"), &["END\r\n"]);
        said.lines()
            .nth(1)
            .filter(|_| said.starts_with("VALUE"))
            .map(str::to_owned)
    }

    /// Names of all entries, of anybody.
    fn keys(&self) -> Vec<String> {
        let said = self.ask("lru_crawler metadump all\r\n", &["END\r\n"]);
        let keys = said.lines().filter_map(|line| line.strip_prefix("key="));
        let keys = keys.filter_map(|line| line.split(' ').next());
        keys.map(|key| key.replace("%3A", ":")).collect()
    }
}

/// Daemons that the test has started, and harms.
struct Bank {
    daemons: Vec<(DaemonPlan, Option<StartedDaemon>)>,
}

impl Bank {
    fn start(fixture: &Fixture, count: usize) -> Bank {
        let daemons = (0..count).map(|number| {
            let plan = DaemonPlan {
                seat: Seat::Unix(fixture.path(&format!("d{number}.sock"))),
                memory_bytes: 1 << 20,
                item_bytes: 4096,
                dir: fixture.path("control"),
                end: End::WithStarter,
            };
            let started = daemon::start(&plan).expect("memcached starts");
            (plan, Some(started))
        });
        Bank {
            daemons: daemons.collect(),
        }
    }

    /// Starts two agents that use them.
    fn serve(&self, fixture: &Fixture, policy: &str, more: &[&str]) {
        let at: Vec<String> = self
            .daemons
            .iter()
            .filter_map(|(_, started)| Some(started.as_ref()?.addr.to_string()))
            .collect();
        let at = at.join(",");
        let words = ["--policy", policy, "--bank", &at, "--page-size", "2KiB"];
        fixture.up(2, &[&words, more].concat());
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut started) = self.daemons[number].1.take() {
            started.child.kill().expect("our own child");
            started.child.wait().expect("our own child");
        }
    }

    fn restart(&mut self, number: usize) {
        self.kill(number);
        let plan = self.daemons[number].0.clone();
        self.daemons[number].1 = Some(daemon::start(&plan).expect("memcached starts"));
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        for number in 0..self.daemons.len() {
            self.kill(number);
        }
    }
}
