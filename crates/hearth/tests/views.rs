//! Three agents on one machine keep a log of views: the others go on without one that dies, and no program sees
//! an error of it.

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/fixture.rs"]
mod fixture;

use fixture::{Fixture, finish, kill, skipped, text, well};
use std::process::Output;

/// Writes files anew and once more, appends to them, renames and removes some, and reads what is left.
const PROGRAM: &str = "\
for i in $(seq 40); do echo $i > f$i || exit 3; done
for i in $(seq 40); do echo more >> f$i || exit 4; done
for i in $(seq 20); do mv f$i g$i || exit 5; done
for i in $(seq 10); do rm g$i || exit 6; done
truncate -s 1 f40 || exit 7
cat g* f* | wc -l";

fn up(fixture: &Fixture, policy: &str, options: &[&str]) -> Output {
    let mut up = fixture.hearth(&["up", "--agents", "3", "--policy", policy]);
    up.args(options);
    finish(up.arg("--store").arg(fixture.store()))
}

/// The program in a directory of its own does all that it wants.
fn assert_works(fixture: &Fixture, name: &str) {
    let directory = fixture.store().join(name);
    std::fs::create_dir(&directory).expect("the store takes it");
    let mut run = fixture.run_in_store(&["bash", "-c", PROGRAM]);
    let output = finish(run.current_dir(directory));
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{name}: {words}");
    // The last file has one byte and no end of a line.
    assert_eq!(text(&output.stdout), "58\n", "{name}: {words}");
}

/// One of three agents is killed; programs beside the others write and read before and after.
fn assert_go_on(policy: &str, options: impl Fn(&Fixture) -> Vec<String>) {
    let fixture = Fixture::new();
    let options = options(&fixture);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    well(&up(&fixture, policy, &options));
    assert_works(&fixture, "all-live");
    kill(&fixture.agents()[1..2]);
    assert_works(&fixture, "one-is-gone");
    let output = fixture.run(&["down"]);
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{output:?}"
    );
    fixture.assert_clean();
}

#[test]
fn programs_go_on_when_another_agent_is_killed() {
    let test = "programs_go_on_when_another_agent_is_killed";
    if skipped(test, &[]) {
        return;
    }
    for policy in ["home", "home:plus", "hint", "single", "local"] {
        assert_go_on(policy, |_| Vec::new());
    }
}

#[test]
fn programs_with_tiers_go_on_when_another_agent_is_killed() {
    let test = "programs_with_tiers_go_on_when_another_agent_is_killed";
    if skipped(test, &[]) {
        return;
    }
    assert_go_on("local", |fixture| {
        let tier = fixture.dir("tier");
        let tier = tier.to_str().expect("a plain path");
        let options = ["--tier", tier, "--fsync", "tier"];
        options.map(str::to_owned).to_vec()
    });
}

#[test]
fn programs_with_daemons_go_on_when_another_agent_is_killed() {
    let test = "programs_with_daemons_go_on_when_another_agent_is_killed";
    if skipped(test, &["memcached"]) {
        return;
    }
    assert_go_on("bank", |_| Vec::new());
}

#[test]
fn what_does_not_go_from_view_to_view_is_refused() {
    let fixture = Fixture::new();
    let options = ["--store-at", "0", "--membership", "embedded"];
    let output = up(&fixture, "local", &options);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let words = text(&output.stderr);
    assert!(words.contains("leave --membership out"), "{words}");
}
