//! LEASE-1 over random worlds: skewed clocks, cuts, lost, late and doubled messages, and coordinators
//! that come and go. Each guard is turned off once, and the checker is seen to fire.

mod world;

use super::granter::{GranterEffect, GranterInput, LeaseGranter, NotYet};
use super::guard::LeaseGuard;
use super::*;
use crate::membership::{Incarnation, MemberId, MemberKey, ViewNumber};
use world::{Faults, World};

/// Worlds that each claim is checked in.
const WORLDS: u64 = 300;

/// Worlds in which a guard that is off is to be noticed.
const CANARY_WORLDS: u64 = 3000;

#[test]
fn nobody_believes_in_a_lease_after_it_was_excluded() {
    let mut seen = world::Sightings::default();
    for seed in 0..WORLDS {
        let mut world = World::new(seed, Faults::All, None);
        world.run();
        assert_eq!(world.violation, None, "seed {seed}");
        seen.add(&world.seen);
    }
    // Worlds without these would show nothing.
    assert!(seen.exclusions > WORLDS / 4, "{seen:?}");
    assert!(
        seen.grants > WORLDS * 10 && seen.vouched > WORLDS,
        "{seen:?}"
    );
    assert!(
        seen.abandoned > WORLDS / 4 && seen.proceeded > WORLDS,
        "{seen:?}"
    );
}

#[test]
fn quiet_world_never_pauses_and_excludes_nobody() {
    for seed in 0..20 {
        let mut world = World::new(seed, Faults::None, None);
        world.run();
        assert_eq!(
            (world.violation, world.seen.pauses, world.seen.exclusions),
            (None, 0, 0)
        );
    }
}

#[test]
fn members_that_vouch_for_each_other_need_no_coordinator() {
    let mut world = World::new(1, Faults::NoCoordinator, None);
    world.run();
    assert_eq!((world.seen.grants, world.seen.pauses), (0, 0));
    assert!(world.seen.vouched > 100);
}

#[test]
fn each_guard_that_is_off_is_noticed() {
    for guard in [
        LeaseGuard::CountFromSending,
        LeaseGuard::ShortenTerm,
        LeaseGuard::WaitAsNewGranter,
        LeaseGuard::ConfirmFirst,
        LeaseGuard::RenewNoDoomed,
        LeaseGuard::VouchInNewestView,
        LeaseGuard::NeedEveryVouch,
        LeaseGuard::LookAgain,
        LeaseGuard::DecideAsMember,
    ] {
        let noticed = (0..CANARY_WORLDS).any(|seed| {
            let mut world = World::new(seed, Faults::All, Some(guard));
            world.run();
            world.violation.is_some()
        });
        assert!(noticed, "{guard:?}");
    }
}

#[test]
fn holders_term_ends_before_the_granters_by_any_clocks_within_the_drift() {
    let terms = LeaseTerms::USUAL;
    assert_eq!(terms.held().0 / 1_000_000, 5988);
    // The holder's clock is as slow as it may be, the granter's as fast.
    let (granted, held) = (u128::from(terms.granted.0), u128::from(terms.held().0));
    assert!(held * 1_001_000 <= granted * 999_000);
}

#[test]
fn exclusion_of_a_member_is_on_its_way_once_until_it_is_spared() {
    let key = |id| MemberKey {
        id: MemberId(id),
        incarnation: Incarnation(1),
    };
    let members = [key(0), key(1)].into();
    let mut granter = LeaseGranter::new(LeaseTerms::USUAL, key(0), ViewNumber(1), members);
    granter.step(LocalTime(0), GranterInput::Elected);
    let now = LocalTime(LeaseTerms::USUAL.granted.0);
    assert_eq!(granter.doom(now, &[key(1)]), Ok(()));
    assert_eq!(granter.doom(now, &[key(1)]), Err(NotYet::Doomed(key(1))));
    let asked = GranterInput::VouchAsked(key(1), RenewalNumber(1), ViewNumber(1));
    assert_eq!(granter.step(now, asked.clone()), []);
    granter.step(now, GranterInput::Spared(key(1)));
    let vouch = GranterEffect::Vouch(key(1), RenewalNumber(1));
    assert_eq!(granter.step(now, asked), [vouch]);
    let wait = LeaseTerms::USUAL.granted;
    assert_eq!(
        granter.doom(now, &[key(1)]),
        Err(NotYet::Leased(key(1), wait))
    );
}
