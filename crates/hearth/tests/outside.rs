//! Files that somebody changes in the store, behind the back of the agents, while nobody writes them through a mount.
//! The next open sees the change, and stat sees it within `--attr-ttl` (S11).

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/stamps.rs"]
mod stamps;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use fixture::{Fixture, skipped, until};
use stamps::until_it_shows;

const AGENTS: usize = 3;

/// More than `--attr-ttl` below, and room for a machine with much to do.
const STAT_SPAN_MAX: Duration = Duration::from_secs(60);

/// Several pages of the size below, and a rest.
const LEN: usize = 300_000;

fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ seed).collect()
}

/// Has every agent keep a file, changes it in the store, and looks through every mount.
fn changed_outside(test: &str, change: fn(&Path, &[u8]), then: &[u8]) {
    if skipped(test, &[]) {
        return;
    }
    let fixture = Fixture::new();
    let stored = fixture.store().join("f");
    let before = bytes(0, LEN);
    fs::write(&stored, &before).expect("the store takes it");
    fixture.up(AGENTS, &["--attr-ttl", "1s", "--page-size", "64KiB"]);
    let mounted: Vec<_> = (0..AGENTS)
        .map(|agent| fixture.mount(agent).join("f"))
        .collect();
    for file in &mounted {
        assert!(
            fs::read(file).expect("it opens") == before,
            "{}",
            file.display()
        );
    }
    change(&stored, then);
    for file in &mounted {
        assert!(
            fs::read(file).expect("it opens") == then,
            "{}",
            file.display()
        );
    }
    for file in &mounted {
        until("stat sees the change", STAT_SPAN_MAX, || {
            let meta = fs::metadata(file).expect("it is there");
            let real = fs::metadata(&stored).expect("it is there");
            meta.len() == real.len() && meta.modified().ok() == real.modified().ok()
        });
    }
    fixture.down();
    assert!(fs::read(&stored).expect("it opens") == then);
}

#[test]
fn a_file_rewritten_in_place_is_noticed() {
    changed_outside(
        "a_file_rewritten_in_place_is_noticed",
        |file, then| {
            let open = File::options().write(true).open(file).expect("it opens");
            until_it_shows(file, || {
                open.write_all_at(then, 0).expect("the store takes it");
            });
        },
        &bytes(1, LEN),
    );
}

#[test]
fn a_file_appended_to_is_noticed() {
    changed_outside(
        "a_file_appended_to_is_noticed",
        |file, then| {
            let mut file = File::options().append(true).open(file).expect("it opens");
            file.write_all(&then[LEN..]).expect("the store takes it");
        },
        &bytes(0, LEN + 70_000),
    );
}

#[test]
fn a_file_replaced_by_rename_is_noticed() {
    changed_outside(
        "a_file_replaced_by_rename_is_noticed",
        |file, then| {
            let new = file.with_extension("new");
            fs::write(&new, then).expect("the store takes it");
            fs::rename(new, file).expect("the store renames");
        },
        &bytes(2, LEN),
    );
}

#[test]
fn a_file_cut_short_is_noticed() {
    changed_outside(
        "a_file_cut_short_is_noticed",
        |file, then| {
            let file = File::options().write(true).open(file).expect("it opens");
            file.set_len(then.len() as u64).expect("the store cuts");
        },
        &bytes(0, 1000),
    );
}

/// Every agent has the directory's names, of its own reading or of another's.
#[test]
fn names_made_and_removed_are_noticed_where_a_herd_knows_the_directory() {
    let test = "names_made_and_removed_are_noticed_where_a_herd_knows_the_directory";
    if skipped(test, &[]) {
        return;
    }
    let fixture = Fixture::new();
    let dir = fixture.store().join("d");
    fs::create_dir(&dir).expect("the store takes it");
    for number in 0..40 {
        fs::write(dir.join(number.to_string()), b"x").expect("the store takes it");
    }
    fixture.up(AGENTS, &["--attr-ttl", "1s"]);
    let mounted: Vec<_> = (0..AGENTS)
        .map(|agent| fixture.mount(agent).join("d"))
        .collect();
    let look = || {
        for number in 0..40 {
            for dir in &mounted {
                let _ = fs::metadata(dir.join(number.to_string()));
                let _ = fs::metadata(dir.join("new"));
            }
        }
    };
    look();
    fs::write(dir.join("new"), b"x").expect("the store takes it");
    fs::remove_file(dir.join("7")).expect("the store takes it");
    for dir in &mounted {
        // Others go on asking: what they know must not keep it from this one.
        until("names show as they are", STAT_SPAN_MAX, || {
            look();
            dir.join("new").exists() && !dir.join("7").exists()
        });
    }
    fixture.down();
}

#[test]
fn stat_alone_notices_a_change_within_its_time() {
    if skipped("stat_alone_notices_a_change_within_its_time", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let stored = fixture.store().join("f");
    fs::write(&stored, "one").expect("the store takes it");
    fixture.up(2, &["--attr-ttl", "1s"]);
    let len = |agent: usize| {
        let meta = fs::metadata(fixture.mount(agent).join("f"));
        meta.expect("it is there").len()
    };
    assert_eq!([len(0), len(1)], [3, 3]);
    fs::write(&stored, "one and two").expect("the store takes it");
    for agent in 0..2 {
        until("stat sees the length", STAT_SPAN_MAX, || len(agent) == 11);
    }
    fs::write(fixture.store().join("new"), "").expect("the store takes it");
    fs::remove_file(&stored).expect("the store removes it");
    for agent in 0..2 {
        until("names come and go", STAT_SPAN_MAX, || {
            let is_there = |name| fixture.mount(agent).join(name).exists();
            is_there("new") && !is_there("f")
        });
    }
    fixture.down();
}

#[test]
fn an_agent_that_wrote_a_file_before_notices_too() {
    if skipped("an_agent_that_wrote_a_file_before_notices_too", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &[]);
    let stored = fixture.store().join("f");
    for round in 0..4 {
        let mine = bytes(round, LEN);
        fs::write(fixture.mount(round as usize % 2).join("f"), &mine).expect("the mount takes it");
        assert!(
            fs::read(&stored).expect("it opens") == mine,
            "close has flushed"
        );
        let theirs = bytes(100 + round, LEN / 2);
        fs::write(&stored, &theirs).expect("the store takes it");
        for agent in 0..2 {
            // The writer has the file open for a moment after its close has returned.
            let what = format!("agent {agent} sees what was written outside in round {round}");
            until(&what, STAT_SPAN_MAX, || {
                fs::read(fixture.mount(agent).join("f")).expect("it opens") == theirs
            });
        }
    }
    fixture.down();
}
