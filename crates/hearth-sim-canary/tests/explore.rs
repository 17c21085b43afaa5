//! The explorer notices that a guard is off.

use hearth_proto::{Guard, Policy, Ranges};
use hearth_sim_canary::explore::{Scope, Small, explore};

/// States after which a guard counts as missed.
const STATES_MAX: u64 = 300_000;

/// The check that notices, in a scope that is well with the guard.
fn noticed(without: Guard, scope: Scope) -> Option<&'static str> {
    let look = |without| {
        let world = Small::new(Scope { without, ..scope }).expect("a world that begins well");
        explore(&world, |at| at.states < STATES_MAX)
    };
    let whole = look(None);
    assert!(whole.exhausted && whole.found.is_none(), "{scope:?}");
    look(Some(without)).found.map(|found| found.violation.check)
}

fn scope() -> Scope {
    Scope {
        writes: 1,
        flushes: 0,
        evictions: 0,
        crashes: 0,
        ..Scope::of(Policy::Home)
    }
}

#[test]
fn a_write_that_is_applied_too_early_shows() {
    let scope = Scope {
        reads: 3,
        ..scope()
    };
    let check = noticed(Guard::AcksBeforeApply, scope);
    assert!(matches!(check, Some("value" | "order")), "{check:?}");
}

#[test]
fn a_reader_that_is_not_recorded_keeps_old_bytes() {
    let check = noticed(Guard::ReaderRecorded, scope());
    assert!(matches!(check, Some("value" | "order")), "{check:?}");
}

#[test]
fn pages_that_a_front_end_has_not_dropped_are_old() {
    let scope = Scope {
        keep: true,
        ..scope()
    };
    let check = noticed(Guard::RevokedBeforeAck, scope);
    assert!(matches!(check, Some("value" | "order")), "{check:?}");
}

#[test]
fn a_flush_that_does_not_wait_is_not_durable() {
    let scope = Scope {
        reads: 0,
        syncs: 1,
        ..scope()
    };
    assert_eq!(noticed(Guard::FlushWaits, scope), Some("durable"));
}

#[test]
fn an_answer_that_never_comes_leaves_somebody_waiting() {
    let scope = Scope {
        reads: 1,
        crashes: 1,
        ..scope()
    };
    assert_eq!(noticed(Guard::GoneAnswersGiven, scope), Some("liveness"));
}

/// A write over two homes, and a read of both pages.
fn over_two_homes(policy: Policy) -> Scope {
    Scope {
        nodes: 2,
        pages: 2,
        ranges: Ranges::WoundWait,
        reads: 1,
        ..Scope { policy, ..scope() }
    }
}

#[test]
fn a_write_that_one_home_applies_before_the_other_has_it_shows_in_part() {
    let scope = over_two_homes(Policy::Home);
    assert_eq!(noticed(Guard::AppliedTogether, scope), Some("range"));
}

#[test]
fn a_write_that_does_not_wait_for_a_read_is_seen_in_part() {
    let scope = over_two_homes(Policy::Single);
    assert_eq!(noticed(Guard::HoldsHonoured, scope), Some("range"));
}

#[test]
fn two_writes_of_which_neither_gives_way_wait_for_each_other() {
    let scope = Scope {
        reads: 0,
        writes: 2,
        ..over_two_homes(Policy::Home)
    };
    assert_eq!(noticed(Guard::OlderFirst, scope), Some("liveness"));
}

#[test]
fn what_a_dead_writer_has_locked_holds_up_a_reader() {
    let scope = Scope {
        nodes: 3,
        crashes: 1,
        ..over_two_homes(Policy::Home)
    };
    let check = noticed(Guard::GoneLetGo, scope);
    assert!(matches!(check, Some("liveness" | "contract")), "{check:?}");
}
