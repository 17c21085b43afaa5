//! Ends under programs, ends of killed commands, and sets that would be in each other's way.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fixture::{
    Fixture, LIMIT, finish, is_gone, kill, kill_alone, sh, shell, skipped, text, until,
    wait_within, well,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// An end takes less, whatever programs do.
const END_MAX: Duration = Duration::from_secs(30);

/// A program that stays in a directory until it is killed.
fn stays_in(dir: &Path) -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg("1000").current_dir(dir);
    sleep.spawn().expect("sleep is there")
}

fn ends(mut program: Child) {
    program.kill().expect("our own child");
    wait_within(&mut program, LIMIT).expect("it is killed");
}

fn down(fixture: &Fixture, options: &[&str]) -> (Output, String) {
    let begun = Instant::now();
    let store = fixture.store();
    let output = finish(
        fixture
            .hearth(&["down", "--store"])
            .arg(store)
            .args(options),
    );
    assert!(begun.elapsed() < END_MAX, "{:?}", begun.elapsed());
    let words = text(&output.stderr);
    (output, words)
}

#[test]
fn who_is_in_a_mount_is_named_and_may_be_left_there() {
    if skipped("who_is_in_a_mount_is_named_and_may_be_left_there", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &[]);
    sh(&fixture.mount(0), "echo kept > f");
    let program = stays_in(&fixture.mount(0));
    let name = format!("`sleep` (pid {})", program.id());
    let (refused, words) = down(&fixture, &[]);
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(
        words.contains(&name) && words.contains("--force"),
        "{words}"
    );
    let (forced, words) = down(&fixture, &["--force"]);
    assert_eq!(forced.status.code(), Some(0), "{words}");
    assert!(words.contains(&name), "{words}");
    assert_eq!(sh(&fixture.store(), "cat f"), "kept\n");
    ends(program);
    fixture.assert_clean();
}

/// A mount namespace that was made meanwhile has a copy, which no unmount outside takes away.
#[test]
fn a_copy_in_another_namespace_does_not_hold_up_an_end() {
    let test = "a_copy_in_another_namespace_does_not_hold_up_an_end";
    if skipped(test, &["unshare"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &[]);
    sh(&fixture.mount(0), "echo kept > f");
    let here = fixture.dir("here");
    let script = "unshare --mount --propagation private sh -c 'echo > ready; exec sleep 1000'";
    let other = shell(&here, script).spawn().expect("a shell");
    until("it has a copy", LIMIT, || here.join("ready").exists());
    let (ended, words) = down(&fixture, &[]);
    assert_eq!(ended.status.code(), Some(0), "{words}");
    assert_eq!(sh(&fixture.store(), "cat f"), "kept\n");
    ends(other);
    fixture.assert_clean();
}

#[test]
fn after_a_killed_run_the_next_one_works() {
    if skipped("after_a_killed_run_the_next_one_works", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let script = ["sh", "-c", "echo a >> f; sleep 0.1; echo b >> f"];
    for after in 0..20_u32 {
        let mut run = fixture.run_in_store(&script);
        run.stdout(Stdio::null()).stderr(Stdio::null());
        run.current_dir(fixture.store());
        let mut run = run.process_group(0).spawn().expect("the command");
        // Each at another moment of its life.
        std::thread::park_timeout(Duration::from_millis(u64::from(after) * 15));
        run.kill().expect("our own child");
        wait_within(&mut run, LIMIT).expect("it is killed");
        let mut next = fixture.run_in_store(&["sh", "-c", "echo well > g; cat g"]);
        let next = finish(next.current_dir(fixture.store()));
        well(&next);
        assert_eq!(text(&next.stdout), "well\n");
        assert_eq!(sh(&fixture.store(), "cat g; rm g"), "well\n");
    }
    fixture.run(&["doctor", "--fix"]);
    fixture.assert_clean();
}

#[test]
fn a_store_in_another_sets_store_is_refused() {
    if skipped(
        "a_store_in_another_sets_store_is_refused",
        &["mount", "umount"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    let sub = fixture.dir("store/sub");
    let (link, bound, other) = (
        fixture.path("link"),
        fixture.dir("bound"),
        fixture.dir("other"),
    );
    std::os::unix::fs::symlink(&sub, &link).expect("a link");
    sh(
        &fixture.store(),
        &format!("mount --bind {} {}", sub.display(), bound.display()),
    );
    fixture.up(1, &[]);
    for store in [&sub, &link, &bound] {
        for words in [&["up"][..], &["run"]] {
            let mut command = fixture.hearth(words);
            command.arg("--store").arg(store);
            if words == ["run"] {
                command.args(["--", "true"]);
            }
            // Other control directories hide nothing.
            let control = fixture.dir("other-control");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(&control, mode).expect("our own");
            let output = finish(command.env("HEARTH_DIR", control));
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{store:?} {words:?}: {said}");
            assert!(said.contains("a directory that holds it"), "{said}");
        }
    }
    well(&finish(fixture.hearth(&["up", "--store"]).arg(&other)));
    well(&finish(fixture.hearth(&["down", "--store"]).arg(&other)));
    fixture.down_of_store();
    well(&finish(fixture.hearth(&["up", "--store"]).arg(&sub)));
    let output = finish(fixture.hearth(&["up", "--store"]).arg(fixture.store()));
    assert!(text(&output.stderr).contains("a directory below it"));
    well(&finish(fixture.hearth(&["down", "--store"]).arg(&sub)));
    sh(&other, &format!("umount {}", bound.display()));
    fixture.assert_clean();
}

impl Fixture {
    fn down_of_store(&self) {
        well(&finish(self.hearth(&["down", "--store"]).arg(self.store())));
    }
}

#[test]
fn the_doctor_leaves_mounts_that_programs_or_others_have() {
    let test = "the_doctor_leaves_mounts_that_programs_or_others_have";
    if skipped(test, &["umount"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &[]);
    let program = stays_in(&fixture.mount(0));
    kill(&fixture.agents());
    let fixed = text(&fixture.run(&["doctor", "--fix"]).stdout);
    assert!(fixed.contains("a program still uses the mount"), "{fixed}");
    assert!(
        fixed.contains(&format!("(pid {})", program.id())),
        "{fixed}"
    );
    assert!(!fixture.leftovers().is_empty(), "the mount stays");
    // Others know nothing of the set, and so do not know whose the mount is.
    let other = fixture.dir("other-control");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&other, mode).expect("our own");
    ends(program);
    let fixed = finish(
        fixture
            .hearth(&["doctor", "--fix"])
            .env("HEARTH_DIR", other),
    );
    let fixed = text(&fixed.stdout);
    assert!(
        fixed.contains("belongs to no set that is known here"),
        "{fixed}"
    );
    assert!(!fixture.leftovers().is_empty(), "the mount stays");
    fixture.run(&["doctor", "--fix"]);
    fixture.assert_clean();
}

#[test]
fn the_mount_of_a_dead_agent_goes_while_the_others_of_its_set_live() {
    if skipped(
        "the_mount_of_a_dead_agent_goes_while_the_others_of_its_set_live",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(3, &[]);
    let agents = fixture.agents();
    kill(&agents[1..]);
    well(&finish(fixture.hearth(&["umount"]).arg(fixture.mount(1))));
    let fixed = text(&fixture.run(&["doctor", "--fix"]).stdout);
    // The doctor also sees what tests beside this one leave for a moment.
    let ours = fixture.mount(2).display().to_string();
    let mut told = fixed.lines().filter(|line| line.contains(&ours));
    assert!(told.all(|line| line.ends_with(": cleared")), "{fixed}");
    // Only here: a namespace that another test made keeps a copy of each mount.
    let left = fs::read_to_string("/proc/self/mountinfo").expect("our own");
    let mounts =
        (0..3).map(|agent| left.contains(&format!(" {} ", fixture.mount(agent).display())));
    assert_eq!(mounts.collect::<Vec<_>>(), [true, false, false], "{left}");
    down(&fixture, &["--force", "--discard"]);
    fixture.assert_clean();
}

#[test]
fn a_mount_through_a_set_of_other_settings_is_refused() {
    if skipped("a_mount_through_a_set_of_other_settings_is_refused", &[]) {
        return;
    }
    let fixture = Fixture::new();
    well(&finish(
        fixture.hearth(&["up", "--store"]).arg(fixture.store()),
    ));
    let mut mount = fixture.hearth(&["mount", "--policy", "hint"]);
    mount.arg(fixture.store()).arg(fixture.dir("at"));
    let refused = finish(&mut mount);
    let words = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("cannot use job"), "{words}");
    fixture.down_of_store();
    fixture.assert_clean();
}

/// S13. An agent that Linux keeps waiting holds its device in the same way, and cannot be made to at a wanted moment.
#[test]
fn a_mount_ends_with_its_agent_though_its_device_is_held() {
    if skipped("a_mount_ends_with_its_agent_though_its_device_is_held", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &[]);
    let agents = fixture.agents();
    let held = devices_of(agents[0]);
    assert!(!held.is_empty(), "it has the device of its mount");
    kill_alone(&agents);
    let mut look = Command::new("stat")
        .arg(fixture.mount(0))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is there");
    let ended = wait_within(&mut look, LIMIT);
    drop(held);
    assert!(ended.is_some(), "it waits for an agent that is gone");
    down(&fixture, &["--force", "--discard"]);
    fixture.assert_clean();
}

/// Copies of a process's devices of mounts.
fn devices_of(pid: u32) -> Vec<OwnedFd> {
    let process = Pid::from_raw(pid as i32).expect("it is no group");
    let process = pidfd_open(process, PidfdFlags::empty()).expect("it lives");
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("our own");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let devices =
        paths.filter(|path| fs::read_link(path).is_ok_and(|to| to == Path::new("/dev/fuse")));
    let numbers = devices.filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    let copy = |number: i32| pidfd_getfd(&process, number, PidfdGetfdFlags::empty());
    numbers
        .map(|number| copy(number).expect("our own"))
        .collect()
}

#[test]
fn a_missing_library_is_told() {
    if skipped("a_missing_library_is_told", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let mut run = fixture.run_in_store(&["true"]);
    let output = finish(run.env("HEARTH_PRELOAD", fixture.path("none.so")));
    well(&output);
    let words = text(&output.stderr);
    assert_eq!(words.matches("warning: ").count(), 1, "{words}");
    assert!(
        words.contains("none.so") && words.contains("make install"),
        "{words}"
    );
    let mut doctor = fixture.hearth(&["doctor"]);
    let output = finish(doctor.env("HEARTH_PRELOAD", fixture.path("none.so")));
    let words = text(&output.stdout);
    assert!(words.contains("care  library for programs"), "{words}");
    assert_eq!(output.status.code(), Some(1), "{words}");
}

#[test]
fn options_that_would_change_nothing_are_refused() {
    let fixture = Fixture::new();
    let refused = |words: &[&str], named: &str| {
        let mut command = fixture.hearth(words);
        if words[0] == "run" {
            command.args(["--", "true"]);
        }
        let output = finish(command.current_dir(fixture.store()));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(named), "{words:?}: {said}");
    };
    for (option, value) in [
        ("--atomic", "call"),
        ("--semantics", "cto"),
        ("--replicas", "sync:1"),
        ("--allocation", "first-touch"),
        ("--chunk", "16MiB"),
        ("--attr-ttl", "2s"),
        ("--balance", "off"),
        ("--tier", "/tmp"),
        ("--store-at", "0:7100"),
    ] {
        let named = match option {
            "--semantics" => "cannot promise cto",
            other => other,
        };
        refused(&["run", "--way-in", "mpiio", option, value], named);
    }
    let up = ["up", "--store", "."];
    refused(
        &[
            &up[..],
            &["--policy", "single", "--allocation", "first-touch"],
        ]
        .concat(),
        "--allocation",
    );
    refused(
        &[&up[..], &["--policy", "home", "--balance", "on"]].concat(),
        "--balance",
    );
}

/// Agents that are gone are no users of what a run left.
#[test]
fn the_status_counts_a_run_once() {
    if skipped("the_status_counts_a_run_once", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let ready = fixture.store().join("ready");
    let mut run = fixture.run_in_store(&["sh", "-c", "echo > ready; exec sleep 1000"]);
    let mut run = run
        .current_dir(fixture.store())
        .spawn()
        .expect("the command");
    until("it runs", LIMIT, || ready.exists());
    let (agents, _) = fixture.status();
    let users = agents[0]["users"]
        .as_array()
        .expect("they are listed")
        .len();
    assert_eq!(users, 1, "{agents:?}");
    let pids = fixture.agents();
    run.kill().expect("our own child");
    wait_within(&mut run, LIMIT).expect("it is killed");
    until("its agents follow", LIMIT, || pids.iter().all(is_gone));
    fixture.run(&["doctor", "--fix"]);
}
