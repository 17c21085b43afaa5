//! A place at which a store cannot be mounted: the command says so at once, why, and what to type.

#[path = "support/scene.rs"]
mod scene;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use scene::{Scene, finish, kill, program, signal, skipped, text};

/// An agent that stands still is waited for two seconds.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A second store is refused a place, in these words.
fn is_refused(scene: &Scene, command: &mut Command, words: &[&str]) {
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
    let jobs = fs::read_dir(scene.path("control"))
        .expect("our own directory")
        .flatten();
    assert!(
        jobs.filter(|job| job.path().is_dir()).count() <= 1,
        "nothing is left of it"
    );
}

fn up(scene: &Scene, points: &[&Path]) -> Command {
    let mut command = scene.hearth(&["up", "--agents", "2", "--store"]);
    command.arg(scene.dir("other"));
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
    let scene = Scene::new();
    let (here, inside) = (scene.dir("here"), scene.dir("other/inside"));
    let file = scene.path("file");
    fs::write(&file, "").expect("our own directory");
    let beside = format!("mkdir -p {}.hearth", scene.path("other").display());
    let twice = format!("another mount is to be at `{}`", here.display());
    let no_directory = "there is no such directory\nhint: mkdir -p";
    for (points, words) in [
        (
            vec![inside.as_path()],
            ["it lies inside the store", &beside],
        ),
        (vec![&scene.path("other")], ["it is the store", &beside]),
        (vec![&scene.path("")], ["the store lies inside it", &beside]),
        (vec![&scene.path("none")], [no_directory, "none"]),
        (vec![&file], ["it is not a directory", "another"]),
        (
            vec![&file.join("x")],
            ["a part of the path is not a directory", "namei"],
        ),
        (vec![&here, &here], [&twice, "a directory of its own"]),
        (
            vec![&here, &scene.dir("here/below")],
            [&twice, "a directory of its own"],
        ),
    ] {
        is_refused(&scene, &mut up(&scene, &points), &words);
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
    let scene = Scene::new();
    scene.up(1, &[]);
    let (at, agent) = (scene.mount(0), scene.agents()[0]);
    let below = at.join("below");
    fs::create_dir(&below).expect("it is served");
    let umount = format!("hearth umount {}", at.display());
    is_refused(
        &scene,
        &mut up(&scene, &[&at]),
        &["mounted there already: the mount of job", &umount],
    );
    is_refused(
        &scene,
        &mut up(&scene, &[&below]),
        &["it lies inside of the mount of job", "outside"],
    );
    signal(agent, Signal::STOP);
    for at in [&at, &below] {
        is_refused(
            &scene,
            &mut up(&scene, &[at]),
            &["does not answer", "hearth down --force --job"],
        );
    }
    signal(agent, Signal::CONT);
    kill(&[agent]);
    is_refused(
        &scene,
        &mut up(&scene, &[&at]),
        &["is gone", "hearth doctor --fix"],
    );
    scene.run(&["down"]);
    scene.assert_clean();
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
    let scene = Scene::new();
    scene.let_others_in();
    let (shut, read, control) = (scene.dir("shut/in"), scene.dir("read"), scene.dir("theirs"));
    fs::set_permissions(scene.path("shut"), Permissions::from_mode(0o700)).expect("our own");
    fs::set_permissions(&control, Permissions::from_mode(0o777)).expect("our own");
    let theirs = |at: &Path| {
        let mut command = Command::new("runuser");
        command.args(["-u", "nobody", "--", "env"]);
        command.arg(format!("HEARTH_DIR={}", control.join("control").display()));
        command
            .arg(program())
            .args(["up", "--store"])
            .arg(scene.store())
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
        return scene::skip(
            "a_place_of_others_is_refused_at_once",
            "others cannot run the command",
        );
    }
    is_refused(
        &scene,
        &mut theirs(&shut),
        &["you may not enter it", "namei -l"],
    );
    is_refused(
        &scene,
        &mut theirs(&read),
        &["you may not write there", "a directory of your own"],
    );
}
