//! Worlds in which views follow each other: members join, leave and die, and every promise holds across that.

use hearth_proto::{Policy, Replicas, Synced};
use hearth_sim::{Faults, Plan, Trouble, run};

/// Policies whose members may change.
const POLICIES: [Policy; 6] = [
    Policy::Home,
    Policy::HomePlus,
    Policy::Hint,
    Policy::Single,
    Policy::Local,
    Policy::Bank,
];

/// Worlds of each policy.
const WORLDS: u64 = 200;

/// Runs one world, in which nothing may be found; returns its faults.
fn holds((policy, seed): (Policy, u64), viewed: impl Fn(Plan) -> Plan) -> Faults {
    let outcome = run(&viewed(Plan {
        policy,
        ..Plan::new(seed, Trouble::Some)
    }));
    let first = outcome.violations.first();
    assert!(first.is_none(), "{policy}, seed {seed}: {first:?}");
    outcome.faults
}

/// Runs worlds of all policies from a seed on; returns the faults of all.
fn all_hold(first: u64, viewed: impl Fn(Plan) -> Plan) -> Faults {
    let mut faults = Faults::default();
    for policy in POLICIES {
        for seed in first..first + WORLDS {
            faults.add(&holds((policy, seed), &viewed));
        }
    }
    faults
}

/// Runs worlds of policy `local` in which all nodes have tiers; returns the faults of all.
fn all_hold_with_tiers(first: u64, viewed: impl Fn(Plan) -> Plan) -> Faults {
    let synced = |seed: u64| match seed.is_multiple_of(2) {
        true => Synced::Store,
        false => Synced::Tier,
    };
    let tiered = |plan: Plan| {
        viewed(Plan {
            tier: true,
            synced: synced(plan.seed),
            ..plan
        })
    };
    let mut faults = Faults::default();
    for seed in first..first + 2 * WORLDS {
        faults.add(&holds((Policy::Local, seed), tiered));
    }
    faults
}

/// Runs worlds that once failed.
fn all_hold_with_deaths(worlds: &[(Policy, u64)]) {
    for &world in worlds {
        holds(world, Plan::viewed_with_deaths);
    }
}

#[test]
fn members_come_and_go_in_order_and_nobody_notices() {
    let faults = all_hold(31_000_000, Plan::viewed);
    assert!(faults.views > 1000, "{faults:?}");
    assert_eq!(faults.crashed, 0);
}

#[test]
fn members_die_and_what_was_confirmed_is_there() {
    let faults = all_hold(32_000_000, Plan::viewed_with_deaths);
    assert!(faults.views > 1000 && faults.crashed > 300, "{faults:?}");
}

#[test]
fn tiers_go_from_view_to_view() {
    let faults = all_hold_with_tiers(33_000_000, Plan::viewed);
    assert!(faults.views > 1000, "{faults:?}");
}

#[test]
fn tiers_of_members_that_died_come_back() {
    let faults = all_hold_with_tiers(34_000_000, Plan::viewed_with_deaths);
    assert!(faults.recovered > 10, "{faults:?}");
}

#[test]
fn entries_of_daemons_end_with_their_view() {
    let looked_up = |plan: Plan| Plan {
        bank_faults: plan.seed.is_multiple_of(2),
        ..plan.viewed_with_deaths()
    };
    let mut faults = Faults::default();
    for seed in 37_000_000..37_000_000 + 2 * WORLDS {
        faults.add(&holds((Policy::Bank, seed), looked_up));
    }
    assert!(faults.bank_hits > 500 && faults.daemons > 100, "{faults:?}");
}

#[test]
fn replicas_go_from_view_to_view() {
    let replicated = |plan: Plan| plan.replicated(Replicas::Sync(1)).viewed_with_deaths();
    let worlds = [20_001_083, 20_001_780, 20_005_632, 20_012_262];
    let worlds = worlds.into_iter().chain(35_000_000..35_000_000 + WORLDS);
    worlds.for_each(|seed| _ = holds((Policy::Local, seed), replicated));
}

/// A member hears of the next view before it has begun the last: others began that, and wait for what they asked of it.
#[test]
fn members_that_go_past_a_view_hold_up_nobody() {
    let worlds = [
        (Policy::Home, 900_218),
        (Policy::Home, 900_326),
        (Policy::Home, 902_102),
        (Policy::Single, 900_060),
        (Policy::Single, 900_129),
    ];
    all_hold_with_deaths(&worlds);
}

/// A file loses its last name, and the view ends before all that have it open are told.
#[test]
fn a_file_without_a_name_is_left_to_the_store_by_all() {
    let worlds = [
        (Policy::Home, 1283),
        (Policy::Home, 2_001_309),
        (Policy::HomePlus, 2_000_651),
        (Policy::HomePlus, 2_001_964),
        (Policy::Hint, 2973),
    ];
    all_hold_with_deaths(&worlds);
}

/// Others know of a death before a member hears of the view without the dead, and say so in their answers.
#[test]
fn a_session_is_not_told_that_a_node_is_gone() {
    all_hold_with_deaths(&[(Policy::Home, 14), (Policy::Single, 99)]);
}

/// A page has another home than in the last view, whose client of the store may have older bytes.
#[test]
fn a_new_home_reads_what_the_last_one_wrote() {
    holds((Policy::HomePlus, 900_229), Plan::viewed);
}

/// A file's manager dies while a session reads beyond the end that its node knows: the next one tells the end.
#[test]
fn a_read_whose_manager_dies_is_not_cut_short() {
    let worlds = [
        (Policy::Home, 400),
        (Policy::Home, 913),
        (Policy::Single, 1428),
    ];
    all_hold_with_deaths(&worlds);
}

/// The manager of a file without a name dies while an append that homes have taken waits for its word.
#[test]
fn an_append_that_homes_have_taken_is_not_made_twice() {
    let worlds = [
        (Policy::Home, 1252),
        (Policy::Home, 900_168),
        (Policy::Home, 900_882),
        (Policy::HomePlus, 103),
        (Policy::HomePlus, 900_882),
    ];
    all_hold_with_deaths(&worlds);
}

/// Two homes die one after the other, and each had taken a part of a write.
#[test]
fn a_part_that_is_lost_later_is_written_again() {
    all_hold_with_deaths(&[(Policy::Home, 2716), (Policy::Home, 2_001_828)]);
}

/// A member that goes past a view waits for what another, which has begun that, had of the last one.
#[test]
fn members_that_have_begun_a_view_hold_up_nobody_who_goes_past_it() {
    all_hold_with_deaths(&[(Policy::Single, 2_000_061), (Policy::Single, 2_002_678)]);
}

/// The store refuses a write whose manager dies meanwhile.
#[test]
fn a_write_that_the_store_refused_does_not_succeed() {
    all_hold_with_deaths(&[(Policy::Hint, 902_395)]);
}

/// A view ends while a write of a node that is gone waits at its home.
#[test]
fn bytes_of_a_write_that_never_took_place_are_freed() {
    all_hold_with_deaths(&[(Policy::Home, 900_112)]);
}

/// The next kernel sends a read to the store. All members begin meanwhile.
#[test]
fn writes_wait_for_reads_that_a_new_view_sends_to_the_store() {
    all_hold_with_deaths(&[(Policy::Home, 2803)]);
}

/// The home of an append is gone. Its manager is not.
#[test]
fn nobody_gets_the_place_of_an_append_that_is_finished_later() {
    let worlds = [
        (Policy::Home, 3_001_596),
        (Policy::HomePlus, 10_006_722),
        (Policy::HomePlus, 10_013_251),
        (Policy::Single, 4_000_628),
        (Policy::Single, 10_001_420),
        (Policy::Single, 10_002_099),
        (Policy::Single, 10_008_552),
    ];
    all_hold_with_deaths(&worlds);
}

/// A node keeps the size of a file that it has not open.
#[test]
fn a_kept_size_goes_with_its_view() {
    let worlds = [
        (Policy::HomePlus, 3_001_963),
        (Policy::Local, 3_001_213),
        (Policy::Local, 10_003_438),
        (Policy::Local, 10_006_380),
    ];
    all_hold_with_deaths(&worlds);
}

/// The store takes all bytes of a member, and refuses their sync.
#[test]
fn a_member_has_not_settled_while_a_sync_may_fail() {
    all_hold_with_deaths(&[(Policy::Home, 10_002_543)]);
}

/// The manager dies before it has called back the attributes that are about to change.
#[test]
fn attributes_change_after_the_next_manager_was_asked() {
    all_hold_with_deaths(&[(Policy::Home, 10_000_005)]);
}

/// It is answered early only if somebody waits for these.
#[test]
fn a_read_that_locks_its_pages_is_not_cut_short() {
    all_hold_with_deaths(&[(Policy::Home, 10_019_191), (Policy::HomePlus, 900_046)]);
}

/// The client of the store remembers what was there before a home wrote that is gone.
#[test]
fn pages_of_a_home_that_is_gone_are_read_anew() {
    all_hold_with_deaths(&[(Policy::Home, 10_004_019)]);
}

/// A write is seen, dies with its home, and is made once more.
#[test]
fn a_write_that_is_made_once_more_has_its_order_when_it_ends() {
    let worlds = [
        (Policy::Home, 3_001_285),
        (Policy::Home, 3_001_291),
        (Policy::HomePlus, 10_009_675),
        (Policy::Single, 10_002_838),
    ];
    all_hold_with_deaths(&worlds);
}

/// A home that has not agreed to a truncation keeps its bytes when the manager dies.
#[test]
fn a_truncation_that_was_not_made_takes_no_bytes() {
    all_hold_with_deaths(&[(Policy::Home, 10_017_545)]);
}
