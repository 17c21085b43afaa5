//! Worlds of many seeds keep what programs read and leave in the memory true, and those with something broken are found.

use hearth_run_sim::world::{BrokenMemory, Guard, Trial, run};

const TRIAL: Trial = Trial {
    variable: "HEARTH_RUN_SEEDS",
    seeds: 0..300,
};

#[test]
fn worlds_keep_bytes_true_and_nobody_waits() {
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
    TRIAL.keeps(|seed| run(seed, None), (20, &all));
}

#[test]
fn a_seed_is_one_world_to_the_last_step() {
    TRIAL.repeats(25, |seed| run(seed, None));
}

fn found(fault: BrokenMemory) -> String {
    TRIAL.finds(|seed| run(seed, Some(fault)))
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
