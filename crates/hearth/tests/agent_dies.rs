//! The agent is killed under running programs. Their reads are right and go on; their writes fail loudly or were safe
//! before. No program hangs or dies of it (S13).

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/asker.rs"]
mod asker;
#[path = "support/cc.rs"]
mod cc;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use asker::Asker;
use fixture::{Fixture, finish, lacks_library, skipped, text, well};

/// Runs of a program, each with an agent that is killed at another moment.
const RUNS: u32 = 50;

/// One run of the program, over one agent or over two.
fn survive(fixture: &Fixture, program: &Path, seed: u32) -> Output {
    let log = fixture.path("log");
    let agents = if seed.is_multiple_of(5) { "2" } else { "1" };
    let mut command = fixture.hearth(&["run", "--agents", agents, "--store"]);
    command
        .arg(fixture.store())
        .arg("--")
        .arg(program)
        .arg("run");
    command.arg(fixture.store()).arg(log).arg(seed.to_string());
    finish(&mut command)
}

#[test]
fn a_program_whose_agent_is_killed_reads_on_and_hears_of_every_loss() {
    let test = "a_program_whose_agent_is_killed_reads_on_and_hears_of_every_loss";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let Some(program) = cc::workload(test, "survivor", &fixture.dir("bin")) else {
        return;
    };
    let in_store = |part: &str, log: &str| {
        let mut command = Command::new(&program);
        well(&finish(
            command
                .arg(part)
                .arg(fixture.store())
                .arg(fixture.path(log)),
        ));
    };
    in_store("make", "");
    for seed in 0..RUNS {
        let _ = fs::remove_file(fixture.store().join("out"));
        let output = survive(&fixture, &program, seed);
        let (said, words) = (text(&output.stdout), text(&output.stderr));
        // The last line is there: no signal has ended it.
        assert!(said.ends_with("faults 0\n"), "seed {seed}: {said}\n{words}");
        assert!(words.contains("this node's agent is gone"), "{words}");
        assert_eq!(output.status.code(), Some(2), "{words}");
        in_store("check", "log");
    }
    fixture.assert_clean();
}

#[test]
fn a_program_that_starts_later_reads_on_through_what_it_inherits() {
    let test = "a_program_that_starts_later_reads_on_through_what_it_inherits";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let lines: String = (0..50_000).map(|line| format!("line {line}\n")).collect();
    fs::write(fixture.store().join("in"), &lines).expect("the store takes it");
    well(&finish(
        fixture.hearth(&["up", "--store"]).arg(fixture.store()),
    ));
    let agent = fixture.agents()[0];
    let script = format!(
        "exec 3<in 4>>out; head -c 100000 <&3 >/dev/null; read -r first <&3; echo kept >&4; \
         kill -9 {agent}; cat <&3; echo refused >&4 || echo told; tail -n 1 in"
    );
    let output = finish(
        fixture
            .run_in_store(&["bash", "-c", &script])
            .current_dir(fixture.store()),
    );
    let printed = text(&output.stdout);
    let all = lines.as_bytes();
    assert!(
        printed.ends_with("line 49999\ntold\nline 49999\n"),
        "{} {}",
        &printed[printed.len().saturating_sub(100)..],
        text(&output.stderr)
    );
    // The children's reads begin where the shell's reads ended.
    let from = all.len() - (printed.len() - "told\nline 49999\n".len());
    assert!(from > 100_000 && printed.as_bytes().starts_with(&all[from..]));
    let words = text(&output.stderr);
    assert!(words.contains("write error"), "{words}");
    let output = fixture.run(&["down"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fixture.assert_clean();
}

/// A program's questions about names, and the store's answers; `asker` has the letters.
const QUESTIONS: [(char, &str, &str); 16] = [
    ('s', "d/in", "100644 4 1"),
    ('x', "d/in", "100644 4 1"),
    ('s', "d/link", "100644 4 1"),
    ('l', "d/link", "120777 2 1"),
    ('s', "d", "40755"),
    ('s', "d/none", "- 2"),
    ('s', "d/in/none", "- 20"),
    ('r', "d/in", "yes"),
    ('r', "d/none", "- 2"),
    ('e', "d/in", "- 13"),
    ('E', "d/in", "- 13"),
    ('E', "d", "yes"),
    ('d', "d", "in,link,"),
    ('D', "d", "in,link,"),
    ('d', "d/in", "- 20"),
    ('d', "", "d,"),
];

#[test]
fn names_are_looked_up_in_the_store_when_the_agent_is_gone() {
    let test = "names_are_looked_up_in_the_store_when_the_agent_is_gone";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let Some(program) = asker::program(test, &fixture.dir("bin")) else {
        return;
    };
    let dir = fixture.store().join("d");
    fs::create_dir(&dir).expect("the store takes it");
    fs::write(dir.join("in"), "word").expect("the store takes it");
    std::os::unix::fs::symlink("in", dir.join("link")).expect("the store takes it");
    well(&finish(
        fixture.hearth(&["up", "--store"]).arg(fixture.store()),
    ));
    let agent = fixture.agents()[0];
    let mut command = fixture.hearth(&["run", "--store"]);
    command.arg(fixture.store()).arg("--").arg(program);
    let mut asker = Asker::start(&mut command);
    let mut all_are_answered = || {
        for (letter, path, answer) in QUESTIONS {
            let said = asker.ask(letter, &fixture.store().join(path));
            assert!(
                said.starts_with(answer),
                "{letter} {path}: {said}, not {answer}"
            );
        }
        let number = fs::metadata(dir.join("in")).expect("it is there").ino();
        let said = asker.ask('s', &dir.join("in"));
        assert!(said.ends_with(&format!(" {number}")), "{said}");
    };
    all_are_answered();
    fixture::kill(&[agent]);
    all_are_answered();
    // Nothing can be written there.
    assert_eq!(asker.ask('w', &dir.join("in")), "- 30");
    assert!(asker.end(), "the program ends well");
    let output = fixture.run(&["down"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    fixture.assert_clean();
}
