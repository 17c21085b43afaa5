//! Policy `local` with a tier: a disk of the node between its memory and the store (S15).

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::os::unix::fs::FileExt;

use fixture::{Fixture, LIMIT, finish, kill, sh, skipped, text, until};
use serde_json::Value;

/// Starts agents with a tier each, whose bytes stay there for as long as nobody asks for them.
fn up(fixture: &Fixture, agents: usize, more: &[&str]) {
    let tier = format!("{}:1GiB", fixture.dir("tier").display());
    let options = ["--policy", "local", "--pool", "16MiB", "--tier", &tier];
    let all = [&options[..], &["--tier-age", "60m"], more].concat();
    fixture.up(agents, &all);
}

fn tier(fixture: &Fixture, agent: usize, key: &str) -> u64 {
    let (agents, _) = fixture.status();
    agents[agent]["node"]["tier"][key].as_u64().unwrap_or(0)
}

fn lost(fixture: &Fixture, agent: usize) -> Vec<Value> {
    let (agents, _) = fixture.status();
    let lost = &agents[agent]["node"]["tier"]["lost"];
    lost.as_array().cloned().unwrap_or_default()
}

fn md5(dir: &std::path::Path, name: &str) -> String {
    sh(dir, &format!("md5sum < {name}"))
}

#[test]
fn bytes_in_the_tier_are_found_again_after_every_agent_was_killed() {
    if skipped(
        "bytes_in_the_tier_are_found_again_after_every_agent_was_killed",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    up(&fixture, 2, &["--fsync", "tier"]);
    // More than the pool holds, so most of it has left memory before the sync.
    sh(
        &fixture.mount(0),
        "head -c 40000001 /dev/urandom > big; sync big",
    );
    let whole = md5(&fixture.mount(0), "big");
    assert_eq!(
        md5(&fixture.mount(1), "big"),
        whole,
        "another node reads it from where it is"
    );
    let stored = fs::metadata(fixture.store().join("big")).expect("it is there");
    assert!(stored.len() < 40_000_001, "the store lacks it");
    assert!(tier(&fixture, 0, "dirty_bytes") > 20_000_000);
    kill(&fixture.agents());
    finish(&mut fixture.hearth(&["down"]));
    up(&fixture, 2, &["--fsync", "tier"]);
    assert_eq!(md5(&fixture.store(), "big"), whole);
    assert_eq!(md5(&fixture.mount(1), "big"), whole);
    assert_eq!(lost(&fixture, 0), Vec::<Value>::new());
    fixture.down();
}

#[test]
fn what_others_need_and_what_an_end_leaves_is_in_the_store() {
    if skipped(
        "what_others_need_and_what_an_end_leaves_is_in_the_store",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    up(&fixture, 2, &[]);
    sh(
        &fixture.mount(0),
        "head -c 30000000 /dev/urandom > a; head -c 30000000 /dev/urandom > b",
    );
    until("bytes go to the tier", LIMIT, || {
        tier(&fixture, 0, "written_bytes") > 20_000_000
    });
    let (a, b) = (md5(&fixture.mount(0), "a"), md5(&fixture.mount(0), "b"));
    // The other node is the next writer, and takes the file along.
    sh(&fixture.mount(1), "printf x >> a; sync a");
    assert_eq!(sh(&fixture.store(), "head -c 30000000 a | md5sum"), a);
    sh(&fixture.mount(1), "truncate -s 5 a");
    sh(&fixture.mount(0), "test $(stat -c %s a) = 5; rm a");
    fixture.down();
    assert_eq!(md5(&fixture.store(), "b"), b);
    assert!(!fixture.store().join("a").exists());
}

#[test]
fn wrong_bytes_in_the_tier_are_an_error_with_a_name() {
    if skipped("wrong_bytes_in_the_tier_are_an_error_with_a_name", &[]) {
        return;
    }
    let fixture = Fixture::new();
    up(&fixture, 1, &["--fsync", "tier"]);
    sh(
        &fixture.mount(0),
        "head -c 40000000 /dev/urandom > f; sync f",
    );
    let blocks = sh(&fixture.path("tier"), "find . -path '*blocks/*' -size +1M");
    let block = fixture.path("tier").join(blocks.trim());
    let block = fs::File::options()
        .write(true)
        .open(block)
        .expect("a file of the tier");
    block
        .write_all_at(b"not what was written", 4_000_000)
        .expect("a disk that lies");
    let read = finish(&mut fixture::shell(&fixture.mount(0), "md5sum < f"));
    assert!(!read.status.success(), "{}", text(&read.stdout));
    let words = fixture.status_words();
    assert!(words.contains("of `f` as written"), "{words}");
    sh(&fixture.mount(0), "head -c 40000000 /dev/zero > f");
    assert_eq!(
        md5(&fixture.mount(0), "f"),
        sh(&fixture.mount(0), "head -c 40000000 /dev/zero | md5sum")
    );
    fixture.down();
}

#[test]
fn a_tier_that_is_full_lets_the_rest_pass() {
    if skipped("a_tier_that_is_full_lets_the_rest_pass", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let tier_of = format!("{}:4MiB", fixture.dir("tier").display());
    fixture.up(
        1,
        &["--policy", "local", "--pool", "16MiB", "--tier", &tier_of],
    );
    sh(
        &fixture.mount(0),
        "head -c 60000000 /dev/urandom > f; sync f",
    );
    assert_eq!(md5(&fixture.mount(0), "f"), md5(&fixture.store(), "f"));
    assert!(tier(&fixture, 0, "used_bytes") <= 4 << 20);
    fixture.down();
}

#[test]
fn options_of_a_tier_without_one_are_refused() {
    let fixture = Fixture::new();
    for words in [
        &["--policy", "home", "--tier", "/tmp"][..],
        &["--policy", "local", "--fsync", "tier"],
        &["--policy", "local", "--tier", "/tmp:many"],
    ] {
        let mut command = fixture.hearth(&["up", "--store"]);
        command.arg(fixture.store()).args(words);
        let output = finish(&mut command);
        assert!(!output.status.success(), "{words:?}");
        assert!(
            text(&output.stderr).contains("tier"),
            "{}",
            text(&output.stderr)
        );
    }
}
