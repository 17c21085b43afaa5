//! A wait that lasts is told while it lasts.

#[path = "support/scene.rs"]
mod scene;

use std::fs::{self, File};
use std::process::Command;

use scene::{LIMIT, Scene, skipped, until, wait_within};

#[test]
fn a_program_that_waits_for_the_lock_of_another_is_told_of() {
    if skipped(
        "a_program_that_waits_for_the_lock_of_another_is_told_of",
        &["fusermount3", "flock"],
    ) {
        return;
    }
    let scene = Scene::new();
    scene.up(1, &[]);
    let path = scene.mount(0).join("locked");
    fs::write(&path, "x").expect("a mount takes writes");
    let held = File::open(&path).expect("it was just made");
    held.lock().expect("nobody else has it");
    let mut command = Command::new("flock");
    let mut waits = command.arg(&path).arg("true").spawn().expect("it is there");
    let word = "s for a lock of `";
    until("a word of the wait", LIMIT, || {
        scene.status_words().contains(word)
    });
    let words = scene.status_words();
    assert!(
        words.contains("locked`: the store is slow, or another program has a lock"),
        "{words}"
    );
    drop(held);
    assert!(wait_within(&mut waits, LIMIT).is_some_and(|status| status.success()));
    assert!(!scene.status_words().contains(word), "the wait is over");
    scene.down();
}
