//! Worlds of many seeds keep S7 and S8, and those with something broken are found.

use hearth_fuse_sim::world::{Broken, Guard, WorldOutcome, run};
use std::collections::BTreeMap;
use std::ops::Range;

/// Seeds that are run, if nobody wants others.
const SEEDS: Range<u64> = 0..250;
/// Something that is broken is found within so many worlds.
const BROKEN_SEEDS: u64 = 250;

/// `HEARTH_FUSE_SEEDS=17` runs one world, and `HEARTH_FUSE_SEEDS=0..5000` runs many.
fn seeds() -> Range<u64> {
    let Ok(wanted) = std::env::var("HEARTH_FUSE_SEEDS") else {
        return SEEDS;
    };
    let number = |text: &str| text.parse().expect("a seed is a number");
    match wanted.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&wanted)..number(&wanted) + 1,
    }
}

#[test]
fn worlds_keep_names_and_attributes_true_and_nobody_waits() {
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds() {
        let outcome = run(seed, None);
        if let Some(finding) = outcome.finding {
            panic!("HEARTH_FUSE_SEEDS={seed} runs it again: {finding}");
        }
        for (what, count) in outcome.tally {
            *tally.entry(what).or_default() += count;
        }
    }
    eprintln!("{tally:?}");
    let came_to = |what: &str| tally.get(what).is_some_and(|&count| count >= 100);
    let all = [
        "attributes told by others",
        "names told by others",
        "leave later",
        "leave refused",
        "leave to read",
        "recalls",
    ];
    for what in all.iter().filter(|_| seeds() == SEEDS) {
        assert!(came_to(what), "{what}: {tally:?}");
    }
}

#[test]
fn a_seed_is_one_world_to_the_last_step() {
    for seed in 0..25 {
        let [first, second] = [(); 2].map(|()| run(seed, None));
        assert_eq!(first, second, "seed {seed}");
    }
}

/// The first world in which a broken part shows.
fn found(fault: Broken) -> String {
    let worlds = (0..BROKEN_SEEDS).map(|seed| run(seed, Some(fault)));
    let mut findings = worlds.filter_map(|WorldOutcome { finding, .. }| finding);
    findings.next().expect("it is found")
}

#[test]
fn a_recall_that_is_answered_early_is_found() {
    let finding = found(Broken::RecallsAnsweredEarly);
    assert!(finding.contains("before the look began"), "{finding}");
}

#[test]
fn a_reader_of_names_who_waits_for_attributes_is_found() {
    let finding = found(Broken::LeaveAskedAlone);
    assert!(finding.contains(" took "), "{finding}");
    assert!(
        finding.contains("what it reads of the attributes"),
        "{finding}"
    );
}

#[test]
fn a_change_that_nobody_hears_of_is_found() {
    let finding = found(Broken::Without(Guard::ChangesAnnounced));
    assert!(finding.contains("before the look began"), "{finding}");
}
