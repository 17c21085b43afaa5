//! Programs keep names and attributes by themselves, and see another node's change when its call returns (S7, S8, S23).

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/asker.rs"]
mod asker;
#[path = "support/cc.rs"]
mod cc;
#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/random.rs"]
mod random;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use asker::Asker;
use fixture::{Fixture, LIMIT, lacks_library, skipped, wait_within};
use random::Random;
use rustix::fs::Access;

/// Long enough that nothing is looked at anew for its age.
const KEPT: [&str; 2] = ["--attr-ttl", "2m"];
const NAMES: u64 = 4;
const STEPS: u64 = 250;
/// Questions in a row about one name: the first few fill memories.
const QUESTIONS: usize = 6;

/// Two nodes over a directory `d` of a few files; where node 1 has it, and the program that asks.
fn two_nodes(test: &str) -> Option<(Fixture, PathBuf, PathBuf)> {
    if skipped(test, &[]) || lacks_library(test) {
        return None;
    }
    let fixture = Fixture::new();
    let program = asker::program(test, &fixture.dir("bin"))?;
    fs::create_dir(fixture.store().join("d")).expect("the store takes it");
    for name in 0..NAMES {
        let path = fixture.store().join(format!("d/{name}"));
        fs::write(path, vec![b'x'; name as usize]).expect("the store takes it");
    }
    fixture.up(2, &KEPT);
    let there = fixture.mount(1).join("d");
    Some((fixture, there, program))
}

/// Calls that programs of node 0 were answered without a system call.
fn answered_again(fixture: &Fixture) -> u64 {
    let (agents, _) = fixture.status();
    let stats = agents[0]["node"]["programs"]["stats"].as_u64();
    stats.expect("a number")
}

/// The answer of `stat` for a path in the store itself, in the program's words.
fn real(path: &Path) -> String {
    match fs::symlink_metadata(path) {
        Ok(it) => format!("{:o} {} {} {}", it.mode(), it.len(), it.nlink(), it.ino()),
        Err(error) => format!("- {}", error.raw_os_error().expect("the store's own")),
    }
}

fn may_execute(path: &Path) -> String {
    match rustix::fs::access(path, Access::EXEC_OK) {
        Ok(()) => "yes".to_owned(),
        Err(error) => format!("- {}", error.raw_os_error()),
    }
}

/// One change by somebody on node 1; half of them are impossible, and change nothing.
fn change(dir: &Path, choice: u64, name: &str, other: &str) {
    let (path, to) = (dir.join(name), dir.join(other));
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    let done = match choice {
        0 => fs::write(&path, other.repeat(7)),
        1 => fs::remove_file(&path),
        2 => fs::rename(&path, &to),
        3 => mode(&path, 0o600),
        4 => mode(&path, 0o755),
        5 => File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(77)),
        6 => fs::hard_link(&path, &to),
        7 => fs::rename(dir, dir.with_file_name("e"))
            .and_then(|()| fs::create_dir(dir))
            .and_then(|()| fs::rename(dir.with_file_name("e").join(name), &path))
            .and_then(|()| fs::remove_dir_all(dir.with_file_name("e"))),
        _ => File::create(&path).map(drop),
    };
    drop(done);
}

/// S7, S8, S23
#[test]
fn a_program_that_keeps_answers_sees_every_change_of_another_node() {
    let test = "a_program_that_keeps_answers_sees_every_change_of_another_node";
    let Some((fixture, there, program)) = two_nodes(test) else {
        return;
    };
    let mut command = fixture.hearth(&["run", "--store"]);
    command.arg(fixture.store()).arg("--").arg(program);
    let mut asker = Asker::start(command.env("PMI_RANK", "0"));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut below = |bound| random.below(bound);
    for step in 0..STEPS {
        let (choice, name) = (below(9), below(NAMES).to_string());
        let other = below(NAMES).to_string();
        change(&there, choice, &name, &other);
        for name in (0..NAMES).map(|name| name.to_string()) {
            let path = fixture.store().join("d").join(&name);
            let (is, may) = (real(&path), may_execute(&path));
            let what = format!("step {step}: {choice} with {other}, then {name}");
            for _ in 0..QUESTIONS {
                assert_eq!(asker.ask('s', &path), is, "{what}");
                assert_eq!(asker.ask('e', &path), may, "{what}");
            }
            assert_eq!(asker.ask('x', &path), is, "{what}");
        }
    }
    let served = answered_again(&fixture);
    assert!(served > STEPS * NAMES, "{served} were answered again");
    assert!(asker.end(), "the program ends well");
    fixture.down();
}

/// S7, S23
#[test]
fn a_program_that_keeps_asking_sees_a_rename_when_its_call_has_returned() {
    let test = "a_program_that_keeps_asking_sees_a_rename_when_its_call_has_returned";
    let Some((fixture, there, program)) = two_nodes(test) else {
        return;
    };
    let board = fixture.path("board");
    fs::write(&board, [0; 16]).expect("a file");
    let mut command = fixture.hearth(&["run", "--store"]);
    command.arg(fixture.store()).arg("--").arg(program);
    command
        .arg("follow")
        .arg(fixture.store().join("d/0"))
        .arg(&board);
    let mut child = command
        .env("PMI_RANK", "0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("hearth is there");
    let board = File::options().write(true).open(&board).expect("a file");
    let (new, path) = (there.join("new"), there.join("0"));
    for size in 1..=STEPS {
        fs::write(&new, vec![b'y'; size as usize]).expect("node 1 takes it");
        fs::rename(&new, &path).expect("node 1 takes it");
        board.write_all_at(&size.to_ne_bytes(), 0).expect("a file");
        // The program gets to keep an answer between two changes.
        let before = answered_again(&fixture);
        if size % 10 == 0 {
            fixture::until("an answer is kept", LIMIT, || {
                answered_again(&fixture) > before
            });
        }
    }
    board.write_all_at(&[1; 8], 8).expect("a file");
    let status = wait_within(&mut child, LIMIT).expect("it ends");
    let said = std::io::read_to_string(child.stdout.take().expect("a pipe")).expect("words");
    assert!(status.success() && said.ends_with(", 0 old\n"), "{said}");
    fixture.down();
}
