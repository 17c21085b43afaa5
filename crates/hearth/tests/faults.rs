//! The behaviour of a set when agents die or stop, the store breaks, or strangers knock (S4, S5, S6, S13).
//!
//! A program with a limit of time does all that may hang, never the test itself.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fixture::{
    Fixture, LIMIT, finish, finish_within, is_gone, kill, sh, shell, signal, skipped, text,
    that_hears_interrupts, until, wait_within, well,
};
use rustix::process::Signal;

/// An operation that needs an agent which does not answer ends within this.
const ANSWER_SPAN_MAX: Duration = Duration::from_secs(30);

/// An operation that needs a whole flush that cannot be had may take longer, but ends.
const GIVE_UP_SPAN_MAX: Duration = Duration::from_secs(90);

/// Small pages and chunks: files of some hundred KiB have homes at every agent.
const SPREAD: [&str; 4] = ["--page-size", "16KiB", "--chunk", "32KiB"];

/// Nobody goes on without an agent that is gone.
const FIXED: [&str; 2] = ["--membership", "static"];

fn attempt(dir: &Path, script: &str, limit: Duration) -> Output {
    finish_within(&mut shell(dir, script), limit).0
}

#[test]
fn synced_and_closed_bytes_outlive_every_agent() {
    if skipped("synced_and_closed_bytes_outlive_every_agent", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(3, &SPREAD);
    let random = "head -c 700001 /dev/urandom";
    let closed = sh(
        &fixture.mount(0),
        &format!("{random} | tee closed | md5sum"),
    );
    let synced =
        format!("{random} > $OLDPWD/copy; exec 7> synced; cat $OLDPWD/copy >&7; sync synced");
    // Descriptor 7 is still open when the agents die.
    let script = format!(
        "cd {}; {synced}; : > $OLDPWD/done; read never",
        fixture.mount(1).display()
    );
    let here = fixture.dir("here");
    let mut holder = shell(&here, &script);
    let mut holder = holder.stdin(Stdio::piped()).spawn().expect("a shell");
    until("the bytes are synced", LIMIT, || here.join("done").exists());
    kill(&fixture.agents());
    drop(holder.stdin.take());
    wait_within(&mut holder, LIMIT).expect("it ends");
    assert_eq!(sh(&fixture.store(), "md5sum < closed"), closed);
    assert_eq!(
        sh(&fixture.store(), "md5sum < synced"),
        sh(&here, "md5sum < copy")
    );
    let output = fixture.run(&["down"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fixture.assert_clean();
}

#[test]
fn a_stopped_agent_holds_nobody_for_long() {
    if skipped("a_stopped_agent_holds_nobody_for_long", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.store().join("old"), vec![7; 300_000]).expect("the store takes it");
    fixture.up(3, &[&SPREAD[..], &FIXED].concat());
    for agent in 0..3 {
        sh(
            &fixture.mount(agent),
            "cat old > /dev/null; head -c 300000 /dev/zero > mine$$",
        );
    }
    let agents = fixture.agents();
    signal(agents[2], Signal::STOP);
    for script in [
        "cat old > /dev/null",
        "head -c 300000 /dev/urandom > new",
        "head -c 300000 /dev/urandom | dd of=old bs=100000 conv=notrunc status=none",
        "rm -f old2; cp old old2; mv old2 old3; rm old3; ls > /dev/null",
    ] {
        let output = attempt(&fixture.mount(0), script, ANSWER_SPAN_MAX);
        let words = text(&output.stderr);
        assert!(
            output.status.success() || words.contains(": "),
            "{script}: {words}"
        );
    }
    let (status, code) = fixture.status();
    assert_eq!(code, 1);
    assert_eq!(status[2]["answers"], false, "{}", status[2]);
    let words = fixture.status_words();
    assert!(
        words.contains(&format!("agent 2 (pid {})", agents[2])),
        "{words}"
    );

    signal(agents[2], Signal::CONT);
    until("the agents have each other again", LIMIT, || {
        is_connected(&fixture)
    });
    let stored = sh(&fixture.store(), "md5sum < old");
    works_again(&fixture, &stored);
    let output = fixture.run(&["down"]);
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{}",
        text(&output.stderr)
    );
    fixture.assert_clean();
}

/// Every mount shows what the store had, and what any of them writes now.
fn works_again(fixture: &Fixture, stored: &str) {
    for agent in 0..3 {
        let seen = attempt(&fixture.mount(agent), "md5sum < old", ANSWER_SPAN_MAX);
        assert_eq!(
            text(&seen.stdout),
            stored,
            "agent {agent}: {}",
            text(&seen.stderr)
        );
        let name = format!("after{agent}");
        let write = format!("head -c 300000 /dev/urandom | tee {name} | md5sum");
        let sum = sh(&fixture.mount(agent), &write);
        let sum = sum.trim();
        for other in 0..3 {
            let seen = attempt(&fixture.mount(other), &format!("md5sum < {name}"), LIMIT);
            assert_eq!(
                text(&seen.stdout).trim(),
                sum,
                "{name} at {other}: {}",
                text(&seen.stderr)
            );
        }
    }
}

#[test]
fn a_set_with_a_stopped_agent_is_ended_by_force_only() {
    if skipped("a_set_with_a_stopped_agent_is_ended_by_force_only", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &SPREAD);
    let sum = sh(
        &fixture.mount(0),
        "head -c 300000 /dev/urandom | tee f | md5sum",
    );
    let agents = fixture.agents();
    signal(agents[1], Signal::STOP);
    let (output, _) = finish_within(&mut fixture.hearth(&["down"]), GIVE_UP_SPAN_MAX);
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(
        words.contains("still up") && words.contains("agent 1"),
        "{words}"
    );
    let (output, _) = finish_within(
        &mut fixture.hearth(&["down", "--discard"]),
        GIVE_UP_SPAN_MAX,
    );
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{}",
        text(&output.stderr)
    );
    fixture.assert_clean();
    assert_eq!(sh(&fixture.store(), "md5sum < f"), sum);
}

/// Whether every agent is connected to every other, and says of none that it is gone.
fn is_connected(fixture: &Fixture) -> bool {
    let (agents, _) = fixture.status();
    let all = |agent: &serde_json::Value, what: &str, holds: fn(&serde_json::Value) -> bool| {
        let list = agent["node"][what].as_array();
        list.is_some_and(|list| list.iter().all(holds))
    };
    let names_nobody = |alarm: &serde_json::Value| {
        !alarm
            .as_str()
            .is_some_and(|words| words.contains(" is gone: "))
    };
    let is_well = |agent: &serde_json::Value| {
        all(agent, "peers", |peer| peer["up"] == true) && all(agent, "alarms", names_nobody)
    };
    agents.iter().all(is_well)
}

#[test]
fn a_killed_agent_is_named_and_readers_go_on() {
    if !skipped("a_killed_agent_is_named_and_readers_go_on", &[]) {
        readers_go_on_over("unix", "socket of the host");
    }
}

#[test]
fn a_killed_agent_that_shared_memory_is_named_and_readers_go_on() {
    if !skipped(
        "a_killed_agent_that_shared_memory_is_named_and_readers_go_on",
        &[],
    ) {
        readers_go_on_over("shm", "shared memory");
    }
}

/// Kills one of three agents, which talk over `transport` and say `way` of it.
fn readers_go_on_over(transport: &str, way: &str) {
    let fixture = Fixture::new();
    fs::write(fixture.store().join("old"), vec![7; 300_000]).expect("the store takes it");
    fixture.up(
        3,
        &[&SPREAD[..], &FIXED, &["--transport", transport]].concat(),
    );
    let (status, _) = fixture.status();
    for peer in [1, 2] {
        assert_eq!(status[0]["node"]["peers"][peer - 1]["way"], way);
    }
    for agent in 0..3 {
        sh(
            &fixture.mount(agent),
            "cmp old <(tr '\\0' '\\7' < /dev/zero | head -c 300000)",
        );
    }
    let agents = fixture.agents();
    kill(&agents[2..]);
    for agent in 0..2 {
        let read = "cmp old <(tr '\\0' '\\7' < /dev/zero | head -c 300000)";
        well(&attempt(&fixture.mount(agent), read, ANSWER_SPAN_MAX));
        // The dead agent is the home of some of its pages.
        let write = format!("head -c 1000000 /dev/urandom > new{agent}");
        let output = attempt(&fixture.mount(agent), &write, ANSWER_SPAN_MAX);
        assert!(
            !output.status.success(),
            "nobody keeps the bytes of agent {agent}"
        );
        let words = text(&output.stderr);
        assert!(words.contains(": "), "{words}");
    }
    // A dead mount cannot be the directory of a program.
    let read = format!("cat {}/old", fixture.mount(2).display());
    let output = attempt(&fixture.dir("here"), &read, ANSWER_SPAN_MAX);
    assert!(!output.status.success());
    let (status, code) = fixture.status();
    assert_eq!(
        (code, &status[2]["answers"]),
        (1, &serde_json::Value::Bool(false))
    );
    let words = fixture.status_words();
    assert!(
        words.contains(&format!("agent 2 (pid {}) is gone", agents[2])),
        "{words}"
    );
    let output = fixture.run(&["down"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fixture.assert_clean();
}

#[test]
fn doctor_clears_what_dead_sets_left() {
    if skipped("doctor_clears_what_dead_sets_left", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(3, &[]);
    sh(&fixture.mount(0), "echo word > f");
    kill(&fixture.agents());
    let output = fixture.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    assert!(told.contains("is dead"), "{told}");
    fixture.run(&["doctor", "--fix"]);
    fixture.assert_clean();
    // The place can be used again.
    fixture.up(3, &[]);
    assert_eq!(sh(&fixture.mount(2), "cat f"), "word\n");
    fixture.down();
}

#[test]
fn a_full_store_is_told_and_bytes_are_kept() {
    if skipped("a_full_store_is_told_and_bytes_are_kept", &["dd"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &["--backing", "fault:write:budget=1000000"]);
    let before = sh(
        &fixture.mount(0),
        "head -c 600000 /dev/urandom | tee fits | md5sum",
    );
    let here = fixture.dir("here");
    sh(&here, "head -c 2000000 /dev/urandom > copy");
    let write = format!(
        "dd if={}/copy of=large bs=100000 conv=fsync",
        here.display()
    );
    let output = attempt(&fixture.mount(0), &write, GIVE_UP_SPAN_MAX);
    assert!(!output.status.success(), "nobody was told");
    assert!(
        text(&output.stderr).contains("No space left"),
        "{}",
        text(&output.stderr)
    );
    for agent in 0..2 {
        assert_eq!(
            sh(&fixture.mount(agent), "md5sum < fits"),
            before,
            "agent {agent}"
        );
        // As far as the file goes, its bytes are those that were written.
        let read = format!("cmp -n $(stat -c %s large) large {}/copy", here.display());
        well(&attempt(&fixture.mount(agent), &read, GIVE_UP_SPAN_MAX));
    }
    well(&attempt(
        &fixture.mount(0),
        "rm large; test ! -e large",
        GIVE_UP_SPAN_MAX,
    ));
    let output = fixture.run(&["down"]);
    let words = text(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(0),
        "nothing dirty is left: {words}"
    );
    fixture.assert_clean();
    assert_eq!(sh(&fixture.store(), "md5sum < fits"), before);
}

#[test]
fn bytes_that_do_not_fit_keep_the_set_up_until_they_are_given_up() {
    let test = "bytes_that_do_not_fit_keep_the_set_up_until_they_are_given_up";
    if skipped(test, &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &["--backing", "fault:write:budget=100000"]);
    let output = attempt(
        &fixture.mount(1),
        "head -c 900000 /dev/zero > f",
        GIVE_UP_SPAN_MAX,
    );
    assert!(
        !output.status.success(),
        "close waits for the store by default"
    );
    let output = fixture.run(&["down"]);
    if output.status.code() == Some(2) {
        assert!(
            text(&output.stderr).contains("still up"),
            "{}",
            text(&output.stderr)
        );
        well(&fixture.run(&["down", "--discard"]));
    }
    fixture.assert_clean();
}

#[test]
fn a_full_store_and_a_small_pool_hold_nobody() {
    if skipped("a_full_store_and_a_small_pool_hold_nobody", &["dd"]) {
        return;
    }
    let fixture = Fixture::new();
    let full = [
        "--backing",
        "fault:write:budget=200000",
        "--close",
        "buffered",
    ];
    fixture.up(2, &[&full[..], &SPREAD, &["--pool", "8MiB"]].concat());
    // Four times what both pools hold.
    let write = "dd if=/dev/zero of=f bs=65536 count=1024 conv=fsync";
    let output = attempt(&fixture.mount(0), write, GIVE_UP_SPAN_MAX);
    let words = text(&output.stderr);
    assert!(
        !output.status.success() && words.contains("No space left"),
        "{words}"
    );
    for agent in 0..2 {
        let read = "cat f > /dev/null; ls > /dev/null";
        well(&attempt(&fixture.mount(agent), read, GIVE_UP_SPAN_MAX));
    }
    well(&attempt(
        &fixture.mount(1),
        "rm f; test ! -e f",
        GIVE_UP_SPAN_MAX,
    ));
    // The store still takes calls that need no room.
    well(&attempt(
        &fixture.mount(1),
        ": > empty; mkdir d; mv empty d/",
        GIVE_UP_SPAN_MAX,
    ));
    let (output, _) = finish_within(&mut fixture.hearth(&["down"]), GIVE_UP_SPAN_MAX);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fixture.assert_clean();
}

#[test]
fn a_sync_that_fails_in_the_store_fails_here() {
    if skipped("a_sync_that_fails_in_the_store_fails_here", &["dd"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &["--backing", "fault:sync:eio@1-"]);
    let write = "dd if=/dev/zero of=f bs=100000 count=3 conv=fsync";
    for agent in 0..2 {
        let output = attempt(&fixture.mount(agent), write, ANSWER_SPAN_MAX);
        let words = text(&output.stderr);
        assert!(
            !output.status.success() && words.contains("Input/output error"),
            "{words}"
        );
    }
    let output = fixture.run(&["down", "--discard"]);
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{}",
        text(&output.stderr)
    );
    fixture.assert_clean();
}

#[test]
fn strangers_at_the_port_of_an_agent_change_nothing() {
    if skipped("strangers_at_the_port_of_an_agent_change_nothing", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &SPREAD);
    let write = "head -c 300000 /dev/urandom | tee f | md5sum";
    let sum = sh(&fixture.mount(0), write);
    let members = fixture.set_file()["members"].clone();
    let members: Vec<SocketAddr> = serde_json::from_value(members).expect("addresses");
    let noise: Vec<u8> = (0..200_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let mut lines: Vec<&[u8]> = vec![
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"",
        &[0; 4096],
        &[255; 4096],
    ];
    lines.extend([&noise[..1], &noise[..100], &noise]);
    let mut silent = Vec::new();
    for member in &members {
        for line in &lines {
            knock(*member, line);
        }
        silent.extend((0..20).map(|_| TcpStream::connect(member).expect("it listens")));
    }
    let (status, code) = fixture.status();
    assert_eq!(code, 0, "{status:?}");
    for agent in [0, 1] {
        let output = attempt(&fixture.mount(agent), "md5sum < f", ANSWER_SPAN_MAX);
        assert_eq!(text(&output.stdout), sum);
    }
    let again = text(&attempt(&fixture.mount(1), write, ANSWER_SPAN_MAX).stdout);
    assert_eq!(sh(&fixture.mount(0), "md5sum < f"), again);
    assert_eq!(sh(&fixture.store(), "md5sum < f"), again);
    drop(silent);
    fixture.down();
}

/// Says something to a port and waits until the other side hangs up, or a moment.
fn knock(member: SocketAddr, line: &[u8]) {
    let mut stream = TcpStream::connect(member).expect("it listens");
    let moment = Some(Duration::from_secs(1));
    stream.set_read_timeout(moment).expect("a span");
    stream.set_write_timeout(moment).expect("a span");
    // It may hang up at the first byte.
    let _ = stream.write_all(line);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut [0; 4096]);
}

/// Makes files that must be new; those that it is refused must not be there after.
const MAKE_NEW: &str = r#"
import errno, os, sys
refused = 0
for i in range(60):
    path = f"{sys.argv[1]}/new{i}"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        assert error.errno == errno.EHOSTDOWN, error
        refused += 1
        assert not os.path.lexists(f"{sys.argv[2]}/new{i}"), i
assert refused, "some have the dead agent for a manager"
"#;

#[test]
fn a_new_file_that_is_refused_is_not_left_behind() {
    if skipped(
        "a_new_file_that_is_refused_is_not_left_behind",
        &["python3"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.path("p.py"), MAKE_NEW).expect("our own directory");
    fixture.up(3, &FIXED);
    signal(fixture.agents()[2], Signal::KILL);
    until("the death is known", LIMIT, || {
        fixture.status_words().contains("agent 2")
    });
    let [program, at, store] = [fixture.path("p.py"), fixture.mount(0), fixture.store()];
    let names = [program, at, store].map(|path| path.display().to_string());
    sh(&fixture.path("."), &format!("python3 {}", names.join(" ")));
    fixture.run(&["down", "--force", "--discard"]);
    fixture.assert_clean();
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    if skipped("an_interrupted_run_leaves_nothing", &[]) {
        return;
    }
    let fixture = Fixture::new();
    for signal_sent in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut run = run_that_waits(&fixture);
        signal(run.id(), signal_sent);
        let status = wait_within(&mut run, LIMIT).expect("it ends");
        assert_eq!(status.code(), Some(128 + signal_sent.as_raw()));
        fixture.assert_clean();
        assert_eq!(
            fs::read_to_string(fixture.store().join("ready")).expect("it was closed"),
            "word\n"
        );
        fs::remove_file(fixture.store().join("ready")).expect("it is there");
    }
}

#[test]
fn a_start_that_is_interrupted_while_it_mounts_leaves_nothing() {
    if skipped(
        "a_start_that_is_interrupted_while_it_mounts_leaves_nothing",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    let mut command = fixture.hearth(&["up", "--agents", "4", "--store"]);
    command.arg(fixture.store());
    for agent in 0..4 {
        command
            .arg("--at")
            .arg(fixture.dir(&format!("mount{agent}")));
    }
    let mut up = command.spawn().expect("hearth is there");
    let first = format!(" {} ", fixture.mount(0).display());
    until("the first mount is there", LIMIT, || {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("our own mounts");
        mounts.contains(&first)
    });
    signal(up.id(), Signal::TERM);
    let status = wait_within(&mut up, LIMIT).expect("it ends");
    if status.success() {
        // It was quicker.
        well(&fixture.run(&["down"]));
    }
    fixture.assert_clean();
}

#[test]
fn a_killed_run_leaves_nothing_that_doctor_does_not_clear() {
    if skipped(
        "a_killed_run_leaves_nothing_that_doctor_does_not_clear",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    let mut run = run_that_waits(&fixture);
    let agents = fixture.agents();
    signal(run.id(), Signal::KILL);
    wait_within(&mut run, LIMIT).expect("it is killed");
    until("the agents have followed", LIMIT, || {
        agents.iter().all(is_gone)
    });
    fixture.run(&["doctor", "--fix"]);
    fixture.assert_clean();
}

/// `hearth run` of a command that has written a file and now waits.
fn run_that_waits(fixture: &Fixture) -> std::process::Child {
    let script = "echo word > ready; while :; do sleep 0.05; done";
    let mut command = that_hears_interrupts(&fixture.run_in_store(&["sh", "-c", script]));
    let ready = fixture.store().join("ready");
    let child = command
        .current_dir(fixture.store())
        .spawn()
        .expect("hearth is there");
    until("the command is inside", LIMIT, || {
        fs::read_to_string(&ready).is_ok_and(|text| text == "word\n")
    });
    child
}

#[test]
fn what_cannot_be_a_store_is_refused_in_words() {
    let fixture = Fixture::new();
    fixture.let_others_in();
    let (file, none) = (fixture.path("file"), fixture.path("none"));
    fs::write(&file, "").expect("a file");
    for (store, words) in [(&file, "not a directory"), (&none, "no such directory")] {
        for command in ["up", "run"] {
            let mut hearth = fixture.hearth(&[command, "--store"]);
            hearth.arg(store);
            if command == "run" {
                hearth.args(["--", "true"]);
            }
            refused(&finish(&mut hearth), words);
        }
    }
    if skipped("what_cannot_be_a_store_is_refused_in_words", &["runuser"]) {
        return;
    }
    fs::set_permissions(fixture.store(), Permissions::from_mode(0o700)).expect("our own");
    let program = fixture.path("hearth");
    fs::copy(fixture::program(), &program).expect("a copy that others reach");
    let control = fixture.dir("theirs");
    std::os::unix::fs::chown(&control, Some(65534), Some(65534)).expect("root may");
    fs::set_permissions(&control, Permissions::from_mode(0o700)).expect("our own");
    let mut command = Command::new("runuser");
    command.args(["-u", "nobody", "--"]).arg(program);
    command.args(["up", "--store"]).arg(fixture.store());
    command.env("HEARTH_DIR", control).current_dir("/");
    refused(&finish(&mut command), "Permission denied");
    fixture.assert_clean();
}

fn refused(output: &Output, words: &str) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.starts_with("error: ") && told.contains(words),
        "{told}"
    );
}
