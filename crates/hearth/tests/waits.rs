//! A wait that lasts is told while it lasts.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, File};
use std::process::Command;

use fixture::{Fixture, LIMIT, skipped, until, wait_within};

#[test]
fn a_program_that_waits_for_the_lock_of_another_is_told_of() {
    if skipped(
        "a_program_that_waits_for_the_lock_of_another_is_told_of",
        &["fusermount3", "flock"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &[]);
    let path = fixture.mount(0).join("locked");
    fs::write(&path, "x").expect("a mount takes writes");
    let held = File::open(&path).expect("it was just made");
    held.lock().expect("nobody else has it");
    let mut command = Command::new("flock");
    let mut waits = command.arg(&path).arg("true").spawn().expect("it is there");
    let word = "s for a lock of `";
    until("a word of the wait", LIMIT, || {
        fixture.status_words().contains(word)
    });
    let words = fixture.status_words();
    assert!(
        words.contains("locked`: the store is slow, or another program has a lock"),
        "{words}"
    );
    drop(held);
    assert!(wait_within(&mut waits, LIMIT).is_some_and(|status| status.success()));
    assert!(!fixture.status_words().contains(word), "the wait is over");
    fixture.down();
}
