//! A crowd that asks for attributes: messages and store requests are as many as the closed form says.

use hearth_sim::storm::{Forecast, Outcome, Shape, bare_store, run};

fn deviation(counted: u64, due: f64) -> f64 {
    (counted as f64 - due).abs() / due.max(1.0)
}

fn right(shape: &Shape) -> Outcome {
    let outcome = run(shape);
    assert_eq!(outcome.violations, Vec::<String>::new(), "{shape:?}");
    assert_eq!(outcome.second_messages, 0, "{shape:?}");
    outcome
}

#[test]
fn counts_are_those_of_the_closed_form() {
    for (nodes, files) in [
        (1, 64),
        (2, 1000),
        (4, 1024),
        (16, 128),
        (16, 1024),
        (64, 1000),
    ] {
        let shape = Shape::new(nodes, files);
        let outcome = right(&shape);
        let due = Forecast::of(&shape).expect("it has a closed form");
        for (counted, due) in [
            (outcome.messages, due.messages),
            (outcome.store_requests, due.store_requests),
        ] {
            assert!(
                deviation(counted, due) <= 0.1,
                "{counted} of {due}, {nodes} nodes and {files} files"
            );
        }
    }
}

/// A directory of more files than are read along: the crowd shares what is left. Each file is read once,
/// whoever is asked for it.
#[test]
fn a_crowd_shares_a_large_directory() {
    let shape = Shape::new(16, 5000);
    let outcome = right(&shape);
    let (alone, listing) = (2 * 16, 5000u64.div_ceil(128));
    let reads = outcome.store_requests - alone - listing;
    assert!((4990..=5000).contains(&reads), "{reads} files were read");
    assert!(Forecast::of(&shape).is_none());
}

/// The more nodes, the more is saved.
#[test]
fn a_crowd_gains_more_the_larger_it_is() {
    let gain = |nodes| {
        let shape = Shape::new(nodes, 512);
        1.0 - right(&shape).took.0 as f64 / bare_store(&shape).0 as f64
    };
    let (few, many) = (gain(4), gain(64));
    assert!(few > 0.0 && many > few && many > 0.9, "{few} {many}");
}
