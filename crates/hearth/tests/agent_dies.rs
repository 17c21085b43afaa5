//! The agent is killed under running programs: what they read is right and goes on, what they write
//! fails loudly or was safe before, and nobody hangs or dies of it (S13).

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/cc.rs"]
mod cc;
#[path = "support/scene.rs"]
mod scene;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use scene::{Scene, finish, skip, skipped, text, well};

/// Runs of a program, each with an agent that is killed at another moment.
const RUNS: u32 = 50;

/// Whether the library can be loaded into programs; says so if not.
fn lacks_library(test: &str) -> bool {
    let lacks = !scene::program()
        .with_file_name("libhearth_preload.so")
        .exists();
    if lacks {
        skip(test, "no libhearth_preload.so beside the command");
    }
    lacks
}

/// One run of the program, over one agent or over two.
fn survive(scene: &Scene, program: &Path, seed: u32) -> Output {
    let log = scene.path("log");
    let agents = if seed.is_multiple_of(5) { "2" } else { "1" };
    let mut command = scene.hearth(&["run", "--agents", agents, "--store"]);
    command.arg(scene.store()).arg("--").arg(program).arg("run");
    command.arg(scene.store()).arg(log).arg(seed.to_string());
    finish(&mut command)
}

#[test]
fn a_program_whose_agent_is_killed_reads_on_and_hears_of_every_loss() {
    let test = "a_program_whose_agent_is_killed_reads_on_and_hears_of_every_loss";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let scene = Scene::new();
    let Some(program) = cc::workload(test, "survivor", &scene.dir("bin")) else {
        return;
    };
    let in_store = |part: &str, log: &str| {
        let mut command = Command::new(&program);
        well(&finish(
            command.arg(part).arg(scene.store()).arg(scene.path(log)),
        ));
    };
    in_store("make", "");
    for seed in 0..RUNS {
        let _ = fs::remove_file(scene.store().join("out"));
        let output = survive(&scene, &program, seed);
        let (said, words) = (text(&output.stdout), text(&output.stderr));
        // The last line is there: no signal has ended it.
        assert!(said.ends_with("faults 0\n"), "seed {seed}: {said}\n{words}");
        assert!(words.contains("this node's agent is gone"), "{words}");
        assert_eq!(output.status.code(), Some(2), "{words}");
        in_store("check", "log");
    }
    scene.assert_clean();
}

#[test]
fn a_program_that_starts_later_reads_on_through_what_it_inherits() {
    let test = "a_program_that_starts_later_reads_on_through_what_it_inherits";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let scene = Scene::new();
    let lines: String = (0..50_000).map(|line| format!("line {line}\n")).collect();
    fs::write(scene.store().join("in"), &lines).expect("the store takes it");
    well(&finish(scene.hearth(&["up", "--store"]).arg(scene.store())));
    let agent = scene.agents()[0];
    let script = format!(
        "exec 3<in 4>>out; head -c 100000 <&3 >/dev/null; read -r first <&3; echo kept >&4; \
         kill -9 {agent}; cat <&3; echo refused >&4 || echo told; tail -n 1 in"
    );
    let output = finish(
        scene
            .run_in_store(&["bash", "-c", &script])
            .current_dir(scene.store()),
    );
    let printed = text(&output.stdout);
    let all = lines.as_bytes();
    assert!(
        printed.ends_with("line 49999\ntold\nline 49999\n"),
        "{} {}",
        &printed[printed.len().saturating_sub(100)..],
        text(&output.stderr)
    );
    // What the children read begins where the shell's reads ended.
    let from = all.len() - (printed.len() - "told\nline 49999\n".len());
    assert!(from > 100_000 && printed.as_bytes().starts_with(&all[from..]));
    let words = text(&output.stderr);
    assert!(words.contains("write error"), "{words}");
    let output = scene.run(&["down"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    scene.assert_clean();
}
