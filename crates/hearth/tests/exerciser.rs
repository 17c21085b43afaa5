//! A program does random things to one file and knows what must be there. It works through the library and through
//! mounts of two nodes at once (S1, S8, S10, S22, S23).

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/cc.rs"]
mod cc;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs;

use fixture::{Fixture, finish, lacks_library, skipped, well};

/// Steps of each run.
const STEPS: u32 = 3000;

/// Small pages, so that a call touches several, of homes on both nodes; a small pool, which evicts.
const SMALL: [&str; 6] = [
    "--page-size",
    "16KiB",
    "--chunk",
    "64KiB",
    "--pool",
    "16MiB",
];

/// Runs with these seeds over so many nodes, or those that `HEARTH_EXERCISER_SEED` begins with.
fn exercise(test: &str, nodes: usize, options: &[&str], seeds: u64) {
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let Some(program) = cc::workload(test, "exerciser", &fixture.dir("bin")) else {
        return;
    };
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("HEARTH_EXERCISER_SEED").unwrap_or(1);
    let steps = number("HEARTH_EXERCISER_STEPS").unwrap_or(u64::from(STEPS));
    fixture.up(nodes, options);
    for seed in first..first + seeds {
        let name = format!("file{seed}");
        fs::write(fixture.mount(0).join(&name), "").expect("the mount takes it");
        let mut command = fixture.hearth(&["run", "--store"]);
        command.arg(fixture.store()).arg("--").arg(&program);
        command.args([seed.to_string(), steps.to_string()]);
        command.arg(fixture.store().join(&name));
        command.args((0..nodes).map(|node| fixture.mount(node).join(&name)));
        well(&finish(command.env("PMI_RANK", "0")));
    }
    fixture.down();
}

#[test]
fn one_node_shows_what_was_written() {
    exercise("one_node_shows_what_was_written", 1, &[], 2);
}

#[test]
fn two_nodes_show_what_was_written_at_either() {
    exercise("two_nodes_show_what_was_written_at_either", 2, &SMALL, 2);
}
