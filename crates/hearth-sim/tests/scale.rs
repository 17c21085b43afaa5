//! A large world, made small: messages are as many as the closed form says.

use hearth_sim::Policy;
use hearth_sim::scale::{Forecast, MessageKind, PageAccess, Shape, replay, run};

#[test]
fn messages_are_those_of_the_closed_form() {
    let shape = Shape::new(Policy::Home, 64, 200_000, 1);
    let (outcome, forecast) = (run(&shape, |_| {}), Forecast::of(&shape));
    assert_eq!(outcome.violations, Vec::<String>::new());
    for kind in MessageKind::ALL {
        let (counted, due) = (outcome.messages.of(kind) as f64, forecast.kind(kind));
        let tolerance = 0.03 * due;
        assert!(
            (counted - due).abs() <= tolerance,
            "{}: {counted} of {due}",
            kind.name()
        );
    }
}

/// A read of the bank is one order to a daemon, a write two, and only writes and first reads are messages.
#[test]
fn orders_to_daemons_are_those_of_the_closed_form() {
    let shape = Shape::new(Policy::Bank, 64, 200_000, 1);
    let outcome = run(&shape, |_| {});
    assert_eq!(outcome.violations, Vec::<String>::new());
    let (counted, due) = (outcome.bank_orders as f64, Forecast::bank_orders(&shape));
    assert!((counted - due).abs() <= 0.03 * due, "{counted} of {due}");
    let writes = outcome.messages.of(MessageKind::Write) as f64;
    let due = Forecast::of(&shape).kind(MessageKind::Write);
    assert!((writes - due).abs() <= 0.03 * due, "{writes} of {due}");
}

#[test]
fn one_seed_is_one_run() {
    let shape = |seed| Shape::new(Policy::Home, 16, 5_000, seed);
    let digest = |seed| run(&shape(seed), |_| {}).digest;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn without_a_cache_every_operation_goes_to_the_store() {
    let shape = Shape::new(Policy::None, 16, 5_000, 1);
    let outcome = run(&shape, |_| {});
    assert_eq!(outcome.violations, Vec::<String>::new());
    assert_eq!(outcome.store_reads + outcome.store_writes, 5_000);
    assert_eq!(outcome.messages.total(), 0);
}

#[test]
fn every_policy_does_the_same_work() {
    let shape = |policy| Shape::new(policy, 16, 5_000, 1);
    let policies = [Policy::Hint, Policy::Single, Policy::Local, Policy::Bank];
    for policy in policies {
        let outcome = run(&shape(policy), |_| {});
        assert_eq!(outcome.violations, Vec::<String>::new(), "{policy:?}");
    }
    // Every write goes through, and is ordered by messages that no page is part of.
    let (hint, none) = (
        run(&shape(Policy::Hint), |_| {}),
        run(&shape(Policy::None), |_| {}),
    );
    assert_eq!(hint.store_writes, none.store_writes);
    assert!(hint.store_reads < none.store_reads);
}

/// A page that a home has evicted comes from a node that it gave a copy.
#[test]
fn homes_that_ask_their_readers_spare_the_store() {
    let outcome = |policy| {
        let shape = Shape {
            frames: 24,
            write_percent: 2,
            ..Shape::new(policy, 16, 20_000, 1)
        };
        run(&shape, |_| {})
    };
    let (home, plus) = (outcome(Policy::Home), outcome(Policy::HomePlus));
    assert_eq!(plus.violations, Vec::<String>::new());
    assert!(
        plus.store_reads * 10 < home.store_reads * 9,
        "{} of {}",
        plus.store_reads,
        home.store_reads
    );
}

/// Nodes that have their pages to themselves: a message for the first writes of each alone.
#[test]
fn private_writers_cost_next_to_nothing_where_homes_delegate() {
    let outcome = |policy| {
        let own = |node: u32| {
            let turn = |turn: u32| PageAccess {
                page: node * 8 + turn % 2,
                write: turn % 5 != 4,
            };
            (0..200).map(turn).collect()
        };
        let lists = (0..8).map(own).collect();
        replay(&Shape::new(policy, 8, 0, 1), lists, |_| {})
    };
    let (home, plus) = (outcome(Policy::Home), outcome(Policy::HomePlus));
    assert_eq!(plus.violations, Vec::<String>::new());
    let (home, plus) = (home.messages.total(), plus.messages.total());
    assert!(plus * 10 < home, "{plus} of {home}");
}

/// And where pages are shared at random they cost little more.
#[test]
fn shared_pages_cost_little_more_where_homes_delegate() {
    for write_percent in [2, 10, 50] {
        let outcome = |policy| {
            let shape = Shape {
                write_percent,
                ..Shape::new(policy, 16, 40_000, 1)
            };
            run(&shape, |_| {})
        };
        let (home, plus) = (outcome(Policy::Home), outcome(Policy::HomePlus));
        assert_eq!(plus.violations, Vec::<String>::new());
        let (home, plus) = (home.messages.total(), plus.messages.total());
        println!("{write_percent} % writes: {plus} of {home}");
        assert!(plus * 100 <= home * 103, "{plus} of {home}");
    }
}
