//! A place at which a store cannot be mounted: the command says so at once, why, and what to type.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fixture::{Fixture, finish, kill, program, signal, skipped, text};
use rustix::process::Signal;

/// An agent that stands still is waited for two seconds.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A second store is refused a place, in these words.
fn is_refused(fixture: &Fixture, command: &mut Command, words: &[&str]) {
    let begun = Instant::now();
    let output = finish(command);
    assert!(
        begun.elapsed() < AT_ONCE,
        "{words:?} took {:?}",
        begun.elapsed()
    );
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for expected in words.iter().chain(&["error: cannot mount at", "\nhint: "]) {
        assert!(said.contains(expected), "{expected} is not in\n{said}");
    }
    let jobs = fs::read_dir(fixture.path("control"))
        .expect("our own directory")
        .flatten();
    assert!(
        jobs.filter(|job| job.path().is_dir()).count() <= 1,
        "nothing is left of it"
    );
}

fn up(fixture: &Fixture, points: &[&Path]) -> Command {
    let mut command = fixture.hearth(&["up", "--agents", "2", "--store"]);
    command.arg(fixture.dir("other"));
    for at in points {
        command.arg("--at").arg(at);
    }
    command
}

#[test]
fn a_place_that_cannot_be_is_refused_at_once() {
    if skipped("a_place_that_cannot_be_is_refused_at_once", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let (here, inside) = (fixture.dir("here"), fixture.dir("other/inside"));
    let file = fixture.path("file");
    fs::write(&file, "").expect("our own directory");
    let beside = format!("mkdir -p {}.hearth", fixture.path("other").display());
    let twice = format!("another mount is to be at `{}`", here.display());
    let no_directory = "there is no such directory\nhint: mkdir -p";
    for (points, words) in [
        (
            vec![inside.as_path()],
            ["it lies inside the store", &beside],
        ),
        (vec![&fixture.path("other")], ["it is the store", &beside]),
        (
            vec![&fixture.path("")],
            ["the store lies inside it", &beside],
        ),
        (vec![&fixture.path("none")], [no_directory, "none"]),
        (vec![&file], ["it is not a directory", "another"]),
        (
            vec![&file.join("x")],
            ["a part of the path is not a directory", "namei"],
        ),
        (vec![&here, &here], [&twice, "a directory of its own"]),
        (
            vec![&here, &fixture.dir("here/below")],
            [&twice, "a directory of its own"],
        ),
    ] {
        is_refused(&fixture, &mut up(&fixture, &points), &words);
    }
}

#[test]
fn a_place_in_a_mount_is_refused_at_once_whether_or_not_it_answers() {
    if skipped(
        "a_place_in_a_mount_is_refused_at_once_whether_or_not_it_answers",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &[]);
    let (at, agent) = (fixture.mount(0), fixture.agents()[0]);
    let below = at.join("below");
    fs::create_dir(&below).expect("it is served");
    let umount = format!("hearth umount {}", at.display());
    is_refused(
        &fixture,
        &mut up(&fixture, &[&at]),
        &["mounted there already: the mount of job", &umount],
    );
    is_refused(
        &fixture,
        &mut up(&fixture, &[&below]),
        &["it lies inside of the mount of job", "outside"],
    );
    signal(agent, Signal::STOP);
    for at in [&at, &below] {
        is_refused(
            &fixture,
            &mut up(&fixture, &[at]),
            &["does not answer", "hearth down --force --job"],
        );
    }
    signal(agent, Signal::CONT);
    kill(&[agent]);
    is_refused(
        &fixture,
        &mut up(&fixture, &[&at]),
        &["is gone", "hearth doctor --fix"],
    );
    fixture.run(&["down"]);
    fixture.assert_clean();
}

/// An ordinary user is told whose rights are missing.
#[test]
fn a_place_of_others_is_refused_at_once() {
    if skipped(
        "a_place_of_others_is_refused_at_once",
        &["runuser", "fusermount3"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fixture.let_others_in();
    let (shut, read, control) = (
        fixture.dir("shut/in"),
        fixture.dir("read"),
        fixture.dir("theirs"),
    );
    fs::set_permissions(fixture.path("shut"), Permissions::from_mode(0o700)).expect("our own");
    fs::set_permissions(&control, Permissions::from_mode(0o777)).expect("our own");
    let theirs = |at: &Path| {
        let mut command = Command::new("runuser");
        command.args(["-u", "nobody", "--", "env"]);
        command.arg(format!("HEARTH_DIR={}", control.join("control").display()));
        command
            .arg(program())
            .args(["up", "--store"])
            .arg(fixture.store())
            .arg("--at")
            .arg(at);
        command
    };
    if !finish(
        Command::new("runuser")
            .args(["-u", "nobody", "--", "test", "-x"])
            .arg(program()),
    )
    .status
    .success()
    {
        return fixture::skip(
            "a_place_of_others_is_refused_at_once",
            "others cannot run the command",
        );
    }
    is_refused(
        &fixture,
        &mut theirs(&shut),
        &["you may not enter it", "namei -l"],
    );
    is_refused(
        &fixture,
        &mut theirs(&read),
        &["you may not write there", "a directory of your own"],
    );
}
