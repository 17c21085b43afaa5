//! Every checker has been seen to fire: a guard is broken from outside, and the named checker says so.

use hearth_proto::{BankConfig, BankUpdate, Policy, Ranges, Span};
use hearth_sim::{Plan, Tamper, Trouble, run};
use std::collections::BTreeSet;

/// Checks that fire on runs without planned faults.
fn fired(tamper: Tamper) -> BTreeSet<&'static str> {
    let plans = (0..400).map(|seed| Plan {
        tamper,
        looks: false,
        asides: false,
        store_faults: false,
        link_faults: false,
        ..Plan::from_seed(seed)
    });
    let violations = plans.flat_map(|plan| run(&plan).violations);
    violations.map(|violation| violation.check).collect()
}

fn fires(tamper: Tamper, check: &str) {
    let fired = fired(tamper);
    assert!(fired.contains(check), "{tamper:?} fires {fired:?}");
}

#[test]
fn kernel_pages_that_outlive_their_revocation_are_stale_values() {
    fires(Tamper::KeepRevoked, "value");
}

#[test]
fn an_acknowledgement_before_the_drop_breaks_the_order_or_the_value() {
    // Front ends take long, and messages do not: the write is over before the drop.
    let plans = (0..1200).map(|seed| Plan {
        tamper: Tamper::EarlyInvalOk,
        local_delay: Span::millis(5),
        net_delay: Span(10_000),
        looks: false,
        asides: false,
        store_faults: false,
        link_faults: false,
        ..Plan::from_seed(seed)
    });
    let mut violations = plans.flat_map(|plan| run(&plan).violations);
    assert!(violations.any(|v| v.check == "value" || v.check == "order"));
}

#[test]
fn what_programs_have_left_and_is_brought_late_is_a_stale_value() {
    fires(Tamper::LateLocals, "value");
}

#[test]
fn a_missing_copy_into_a_frame_is_a_wrong_value() {
    fires(Tamper::DropFill, "value");
}

#[test]
fn a_store_write_that_comes_again_breaks_value_and_order() {
    let fired = fired(Tamper::LateStoreWrite);
    assert!(
        fired.contains("value") || fired.contains("order"),
        "{fired:?}"
    );
}

#[test]
fn a_store_write_that_never_was_is_not_durable() {
    fires(Tamper::SkipStoreWrite, "durable");
}

#[test]
fn a_lost_store_write_shows_in_the_size() {
    fires(Tamper::SkipStoreWrite, "size");
}

#[test]
fn a_swallowed_message_leaves_somebody_waiting() {
    fires(Tamper::SwallowMessages, "liveness");
}

#[test]
fn parts_that_each_home_takes_by_itself_are_seen_mixed() {
    let plans = (0..400).map(|seed| Plan {
        ranges: Ranges::WoundWait,
        tamper: Tamper::PartsApart,
        ..Plan::new(seed, Trouble::Never)
    });
    let violations = plans.flat_map(|plan| run(&plan).violations);
    let fired: BTreeSet<&str> = violations.map(|violation| violation.check).collect();
    assert!(fired.contains("range"), "{fired:?}");
}

/// The published protocol lets fills in flight survive an invalidation, and fills begin before the
/// write is in the store.
#[test]
fn hints_without_a_window_leave_old_bytes() {
    let plans = (0..400).map(|seed| Plan {
        policy: Policy::HintPaper,
        store_faults: false,
        link_faults: false,
        ..Plan::from_seed(seed)
    });
    let violations = plans.flat_map(|plan| run(&plan).violations);
    let fired: BTreeSet<&str> = violations.map(|violation| violation.check).collect();
    assert!(fired.contains("value"), "{fired:?}");
}

/// The checks that fire under the published bank, with its update thread or inline, with daemons in trouble
/// or well.
fn fired_by_bank(update: BankUpdate, bank_faults: bool) -> BTreeSet<&'static str> {
    let plans = (0..400).map(|seed| {
        let plan = Plan::new(seed, Trouble::Never);
        let bank = BankConfig {
            update,
            ..plan.bank.clone()
        };
        Plan {
            policy: Policy::BankPaper,
            bank,
            bank_faults,
            ..plan
        }
    });
    let violations = plans.flat_map(|plan| run(&plan).violations);
    violations.map(|violation| violation.check).collect()
}

#[test]
fn a_write_that_is_answered_before_the_bank_is_updated_leaves_old_bytes() {
    let fired = fired_by_bank(BankUpdate::Thread, false);
    assert!(fired.contains("bank"), "{fired:?}");
}

#[test]
fn giving_up_on_a_daemon_that_others_reach_leaves_old_bytes() {
    let fired = fired_by_bank(BankUpdate::Inline, true);
    assert!(fired.contains("bank"), "{fired:?}");
    let well = fired_by_bank(BankUpdate::Inline, false);
    assert!(well.is_empty(), "{well:?}");
}

#[test]
fn buffers_are_counted() {
    fires(Tamper::FreeTwice, "contract");
    fires(Tamper::FreeNever, "contract");
}

#[test]
fn a_pool_beyond_its_bound_is_seen() {
    fires(Tamper::LargerPool, "memory");
}
