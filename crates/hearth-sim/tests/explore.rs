//! Small worlds: every state of them, and what published policies do wrong.

use hearth_proto::{Policy, Ranges};
use hearth_sim::explore::{
    Scope, SearchOrder, SearchOutcome, Small, Story, World, explore, findings, search,
};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// States after which a search of these tests is not a small one.
const STATES_MAX: u64 = 400_000;

fn outcome(scope: Scope) -> SearchOutcome {
    let world = Small::new(scope).expect("a world that begins well");
    explore(&world, |at| at.states < STATES_MAX)
}

/// Every state of the scope is seen, and none is wrong.
fn holds(scope: Scope) {
    let outcome = outcome(scope);
    if let Some(found) = outcome.found {
        panic!("{scope:?}\n{}\n{}", found.story.join("\n"), found.violation);
    }
    assert!(outcome.exhausted, "{scope:?}: {:?}", outcome.progress);
}

/// A scope that is small enough to be tried again with every change.
fn small(policy: Policy) -> Scope {
    Scope {
        reads: 2,
        writes: 1,
        flushes: 1,
        evictions: 1,
        crashes: 0,
        ..Scope::of(policy)
    }
}

fn holds_in_the_small(policy: Policy) {
    let base = small(policy);
    holds(base);
    holds(Scope {
        reads: 1,
        crashes: 1,
        ..base
    });
    holds(Scope {
        reads: 1,
        breaks: 1,
        ..base
    });
    holds(Scope { keep: true, ..base });
    holds(Scope {
        page_bytes: 2,
        evictions: 0,
        ..base
    });
    holds(Scope {
        reads: 1,
        syncs: 1,
        evictions: 0,
        ..base
    });
}

#[test]
fn home_keeps_every_promise_in_the_small() {
    holds_in_the_small(Policy::Home);
}

#[test]
fn home_plus_keeps_every_promise_in_the_small() {
    holds_in_the_small(Policy::HomePlus);
}

#[test]
fn hint_keeps_every_promise_in_the_small() {
    holds_in_the_small(Policy::Hint);
}

#[test]
fn single_keeps_every_promise_in_the_small() {
    holds_in_the_small(Policy::Single);
}

#[test]
fn local_keeps_every_promise_in_the_small() {
    holds_in_the_small(Policy::Local);
}

#[test]
fn bank_keeps_every_promise_in_the_small() {
    holds_in_the_small(Policy::Bank);
    let one = Scope {
        reads: 1,
        ..small(Policy::Bank)
    };
    holds(Scope { cuts: 1, ..one });
    holds(Scope { restarts: 1, ..one });
    holds(Scope { nodes: 2, ..one });
}

/// A read, a write, and nothing that goes wrong.
fn quiet(policy: Policy) -> Scope {
    Scope {
        reads: 1,
        writes: 1,
        flushes: 0,
        evictions: 0,
        crashes: 0,
        ..Scope::of(policy)
    }
}

/// Two nodes, of which each is the home of one of two pages, and operations over both.
fn over_two_homes(policy: Policy, ranges: Ranges) -> Scope {
    Scope {
        nodes: 2,
        pages: 2,
        ranges,
        ..quiet(policy)
    }
}

/// I10, I16
#[test]
fn operations_over_two_homes_are_one_in_the_small() {
    for (policy, ranges) in [
        (Policy::Home, Ranges::WoundWait),
        (Policy::Home, Ranges::SeqHome),
        (Policy::Single, Ranges::WoundWait),
    ] {
        let base = over_two_homes(policy, ranges);
        holds(base);
        holds(Scope {
            reads: 0,
            writes: 2,
            ..base
        });
        holds(Scope {
            nodes: 3,
            crashes: 1,
            ..base
        });
        holds(Scope { breaks: 1, ..base });
    }
}

#[test]
fn states_over_two_homes_that_count_as_one_lead_to_the_same() {
    twins_lead_to_the_same(over_two_homes(Policy::Home, Ranges::WoundWait));
    twins_lead_to_the_same(over_two_homes(Policy::Single, Ranges::WoundWait));
}

#[test]
fn the_store_alone_keeps_every_promise_in_the_small() {
    holds_in_the_small(Policy::None);
}

#[test]
fn two_searches_see_the_same_states() {
    let (a, b) = (outcome(small(Policy::Home)), outcome(small(Policy::Home)));
    assert_eq!(a.progress.states, b.progress.states);
    assert_eq!(a.progress.steps, b.progress.steps);
}

#[test]
fn a_search_that_is_stopped_says_so() {
    let world = Small::new(Scope::of(Policy::Home)).expect("a world that begins well");
    let outcome = explore(&world, |_| false);
    assert!(!outcome.exhausted && outcome.found.is_none());
}

#[test]
fn every_published_policy_is_seen_to_break_its_promises() {
    for finding in findings::ALL {
        let found = finding.look(&mut |at| at.states < STATES_MAX);
        let found = found.unwrap_or_else(|| panic!("{} is not found", finding.id));
        assert!(!found.story.is_empty(), "{}", finding.id);
        let due: &[&str] = match finding.id {
            "F5" | "F6-lock" => &["liveness"],
            _ => &["value", "order"],
        };
        let check = found.violation.check;
        assert!(due.contains(&check), "{}: {check}", finding.id);
        assert!(
            found.events <= 40,
            "{} takes {} events",
            finding.id,
            found.events
        );
    }
}

/// Scopes in which every state is looked at more than once, with faults of each kind.
fn tiny(policy: Policy) -> Vec<Scope> {
    let base = quiet(policy);
    vec![
        Scope { crashes: 1, ..base },
        Scope { breaks: 1, ..base },
        Scope {
            reads: 2,
            flushes: 1,
            evictions: 1,
            ..base
        },
        Scope {
            page_bytes: 2,
            crashes: 1,
            ..base
        },
        Scope { syncs: 1, ..base },
    ]
}

const POLICIES: [Policy; 7] = [
    Policy::Home,
    Policy::HomePlus,
    Policy::Hint,
    Policy::Single,
    Policy::Local,
    Policy::Bank,
    Policy::None,
];

/// The states that a state leads to.
fn next(world: &Small) -> BTreeSet<Option<u128>> {
    let mut events = Vec::new();
    world.enabled(&mut events);
    let after = |&event: &_| {
        let mut next = world.clone();
        let happened = next.happen(event, &mut Story::untold());
        happened.ok().map(|()| next.fingerprint())
    };
    events.iter().map(after).collect()
}

/// Takes every way to every state, and holds what each leads to against what the first one did.
fn twins_lead_to_the_same(scope: Scope) {
    let root = Small::new(scope).expect("a world that begins well");
    let mut known = HashMap::from([(root.fingerprint(), next(&root))]);
    let mut frontier = vec![root];
    while let Some(world) = frontier.pop() {
        let mut events = Vec::new();
        world.enabled(&mut events);
        for event in events {
            let mut twin = world.clone();
            if twin.happen(event, &mut Story::untold()).is_err() {
                continue;
            }
            match known.entry(twin.fingerprint()) {
                Entry::Occupied(first) => {
                    assert_eq!(*first.get(), next(&twin), "{scope:?}: after {event:?}");
                }
                Entry::Vacant(place) => {
                    place.insert(next(&twin));
                    frontier.push(twin);
                }
            }
        }
    }
}

#[test]
fn states_that_count_as_one_lead_to_the_same_states() {
    for policy in POLICIES {
        tiny(policy).into_iter().for_each(twins_lead_to_the_same);
    }
}

#[test]
fn both_orders_count_the_same_states() {
    for scope in POLICIES.into_iter().flat_map(tiny) {
        let root = Small::new(scope).expect("a world that begins well");
        let seen = |order| search(&root, order, |_| true).progress;
        let (nearest, latest) = (seen(SearchOrder::Nearest), seen(SearchOrder::Latest));
        assert_eq!(nearest.states, latest.states, "{scope:?}");
        assert_eq!(nearest.steps, latest.steps, "{scope:?}");
    }
}
