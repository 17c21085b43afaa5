//! Worlds of many seeds keep S7 and S8, and those with something broken are found.

use hearth_fuse_sim::world::{Broken, Guard, Trial, WorldOutcome, run};

const TRIAL: Trial = Trial {
    variable: "HEARTH_FUSE_SEEDS",
    seeds: 0..250,
};

#[test]
fn worlds_keep_names_and_attributes_true_and_nobody_waits() {
    let all = [
        "attributes told by others",
        "names told by others",
        "leave later",
        "leave refused",
        "leave to read",
        "recalls",
    ];
    TRIAL.keeps(|seed| run(seed, None), (100, &all));
}

#[test]
fn a_seed_is_one_world_to_the_last_step() {
    TRIAL.repeats(25, |seed| run(seed, None));
}

fn found(fault: Broken) -> String {
    TRIAL.finds(|seed| run(seed, Some(fault)))
}

#[test]
fn a_recall_that_is_answered_early_is_found() {
    let finding = found(Broken::RecallsAnsweredEarly);
    assert!(finding.contains("before the look began"), "{finding}");
}

#[test]
fn a_reader_of_names_who_waits_for_attributes_is_found() {
    let words = "what it reads of the attributes";
    let finding = TRIAL.finds(|seed| {
        let outcome = run(seed, Some(Broken::LeaveAskedAlone));
        let finding = outcome.finding.filter(|finding| finding.contains(words));
        WorldOutcome { finding, ..outcome }
    });
    assert!(finding.contains(" took "), "{finding}");
}

#[test]
fn a_change_that_nobody_hears_of_is_found() {
    let finding = found(Broken::Without(Guard::ChangesAnnounced));
    assert!(finding.contains("before the look began"), "{finding}");
}
