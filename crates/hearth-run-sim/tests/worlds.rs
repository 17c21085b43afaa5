//! Worlds of many seeds keep what programs read and leave in the memory true, and those with something broken are found.

use hearth_run_sim::world::{BrokenMemory, Guard, WorldOutcome, run};
use std::collections::BTreeMap;
use std::ops::Range;

/// Seeds that are run, if nobody wants others.
const SEEDS: Range<u64> = 0..300;
/// Something that is broken is found within so many worlds.
const BROKEN_SEEDS: u64 = 300;

/// `HEARTH_RUN_SEEDS=17` runs one world, and `HEARTH_RUN_SEEDS=0..5000` runs many.
fn seeds() -> Range<u64> {
    let Ok(wanted) = std::env::var("HEARTH_RUN_SEEDS") else {
        return SEEDS;
    };
    let number = |text: &str| text.parse().expect("a seed is a number");
    match wanted.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&wanted)..number(&wanted) + 1,
    }
}

#[test]
fn worlds_keep_bytes_true_and_nobody_waits() {
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds() {
        let outcome = run(seed, None);
        if let Some(finding) = outcome.finding {
            panic!("HEARTH_RUN_SEEDS={seed} runs it again: {finding}");
        }
        for (what, count) in outcome.tally {
            *tally.entry(what).or_default() += count;
        }
    }
    eprintln!("{tally:?}");
    let came_to = |what: &str| tally.get(what).is_some_and(|&count| count >= 20);
    let all = [
        "pages called back",
        "pages offered",
        "pages read in the memory",
        "pages that changed under a copy",
        "two values read in the memory",
        "write rings lent",
        "writes left",
        "writes taken back",
    ];
    for what in all.iter().filter(|_| seeds() == SEEDS) {
        assert!(came_to(what), "{what}: {tally:?}");
    }
}

/// The first world in which a broken part shows.
fn found(fault: BrokenMemory) -> String {
    let worlds = (0..BROKEN_SEEDS).map(|seed| run(seed, Some(fault)));
    let mut findings = worlds.filter_map(|WorldOutcome { finding, .. }| finding);
    findings.next().expect("it is found")
}

#[test]
fn pages_that_stay_readable_are_found() {
    let finding = found(BrokenMemory::PagesStayShown);
    assert!(finding.contains("before the read began"), "{finding}");
}

#[test]
fn writes_that_come_after_what_was_later_are_found() {
    let finding = found(BrokenMemory::GateLeftOpen);
    assert!(finding.contains("before the read began"), "{finding}");
}

#[test]
fn an_offer_that_is_not_taken_back_is_found() {
    // A kernel that has given the frame away panics, and else a read is too old.
    found(BrokenMemory::Without(Guard::OffersTakenBack));
}
