//! A herd that asks for attributes: store requests are as many as the closed form says, and few nodes pay nothing
//! for what a herd gains.

use hearth_sim::thundering_herd::{
    Openers, Pace, Shape, StormOutcome, Times, bare_store, requests_due, run, run_openers,
    run_several,
};
use hearth_sim::{Policy, Replicas, Span};

fn right(shape: &Shape) -> StormOutcome {
    let outcome = run(shape);
    assert_eq!(outcome.violations, Vec::<String>::new(), "{shape:?}");
    outcome
}

/// Each file is read once, whoever is asked for it. Six were looked at alone by the first nodes.
#[test]
fn requests_are_those_of_the_closed_form() {
    for (nodes, files) in [
        (1, 64),
        (2, 1000),
        (3, 64),
        (4, 1024),
        (16, 128),
        (16, 5000),
        (64, 1000),
    ] {
        let shape = Shape::new(nodes, files);
        let outcome = right(&shape);
        let due = requests_due(&shape).expect("it has a closed form");
        let short = due - outcome.store_requests as f64;
        assert!(
            (0.0..=6.0).contains(&short),
            "{} of {due}, {nodes} nodes and {files} files",
            outcome.store_requests
        );
        let both = outcome.store_requests + outcome.second_store_requests;
        assert!(both as f64 <= due, "{both} of {due} in two passes");
    }
}

/// A node that looks at a few files alone, or with one other node, has no directory read as a whole.
#[test]
fn a_lone_node_pays_for_no_listing() {
    for nodes in [1, 2] {
        for files in [3, 6] {
            let shape = Shape::new(nodes, files);
            let few = right(&shape);
            assert_eq!(few.store_requests, u64::from(nodes * files), "{shape:?}");
            assert!(requests_due(&shape).is_none());
        }
    }
}

/// Not so with a herd: two lookups of each, four more of the first two, one listing, and each file.
#[test]
fn a_herd_of_three_has_a_directory_read() {
    let herd = right(&Shape::new(3, 64));
    assert!(herd.store_requests <= 3 * 2 + 2 * 4 + 1 + 64);
    assert_eq!(herd.second_messages, 0);
}

/// The more nodes, the more is saved.
#[test]
fn a_herd_gains_more_the_larger_it_is() {
    let gain = |nodes| {
        let shape = Shape::new(nodes, 512);
        1.0 - right(&shape).took.0 as f64 / bare_store(&shape).0 as f64
    };
    let (few, many) = (gain(4), gain(64));
    assert!(few > 0.0 && many > few && many > 0.9, "{few} {many}");
}

/// The managers of files, and the order of nodes, make some difference to messages, and none to what the
/// store must tell.
#[test]
fn herds_of_one_kind_differ_in_messages_alone() {
    let shape = Shape::new(8, 512);
    let herds = run_several(&shape, &Pace::default(), 9);
    let due = requests_due(&shape).expect("it has a closed form");
    for herd in &herds {
        assert_eq!(herd.violations, Vec::<String>::new());
        assert!((0.0..=6.0).contains(&(due - herd.store_requests as f64)));
    }
    let (least, most) = (herds[0].messages, herds[8].messages);
    assert!(least < most && most < least * 3 / 2, "{least} {most}");
}

/// Steps take what was measured, in whatever stretches: the store is asked for the same all the same.
#[test]
fn a_herd_goes_at_the_pace_that_was_measured() {
    let micros = |all: &[u64]| Times::new(all.iter().map(|&us| vec![Span(us * 1000); 40]));
    let alone = Pace {
        looks: micros(&[700]),
        hits: micros(&[9]),
        ..Pace::default()
    };
    let shape = Shape::new(1, 256);
    let lone = &run_several(&shape, &alone, 1)[0];
    // Two alone, and the others by four at one time.
    let looks = Span(700_000 * (2 + (lone.store_requests - 2) / 4));
    assert!(
        lone.took >= looks && lone.took <= Span(looks.0 + 8 * 700_000 + 256 * 9_000),
        "{:?} beside {looks:?}",
        lone.took
    );
    let uneven = Pace {
        looks: micros(&[50, 5000, 400]),
        hits: micros(&[10, 90]),
        ways: micros(&[20, 600]),
        ..Pace::default()
    };
    let shape = Shape::new(8, 512);
    let due = requests_due(&shape).expect("it has a closed form");
    for herd in run_several(&shape, &uneven, 9) {
        assert_eq!(herd.violations, Vec::<String>::new());
        assert!((0.0..=6.0).contains(&(due - herd.store_requests as f64)));
    }
}

/// If the store sends attributes along with names, a node that is about to look at many files reads the names
/// before, and then asks the store for no file.
#[test]
fn who_has_read_the_names_asks_the_store_for_no_file() {
    for (nodes, files) in [(1, 1024), (2, 1024), (12, 1024), (12, 1536)] {
        let shape = Shape {
            along: true,
            ..Shape::new(nodes, files)
        };
        let alone = u64::from(nodes * 2 + nodes.min(2) * 4);
        let names = u64::from(files / shape.names);
        let plain = right(&shape);
        assert!(plain.took < Span::secs(1), "{nodes}: {:?}", plain.took);
        // A node that is about to look at a few files alone does not read names for that.
        let most = alone + u64::from(nodes) * 2 * names;
        assert!(plain.store_requests <= most, "{nodes}: {plain:?}");
        for herd in run_several(&shape, &Pace::default(), 5) {
            assert_eq!(herd.violations, Vec::<String>::new());
            // A second may end meanwhile, and then what came along is old.
            let seconds = herd.took.0 / Span::secs(1).0 + 2;
            let most = alone + seconds * u64::from(nodes) * (names + 64);
            let all = herd.store_requests;
            assert!(all >= alone + names && all <= most, "{nodes}: {all}");
        }
    }
}

/// Each file has another manager than its neighbours: a question about several has parts about one. Nobody who reads
/// attributes for others waits for what they read.
#[test]
fn nobody_waits_for_who_waits() {
    for nodes in [2, 3, 5] {
        for files in [nodes, 64 + nodes, 2 * nodes, 64 * nodes + 1] {
            let shape = Shape {
                spread: true,
                ..Shape::new(nodes, files)
            };
            for herd in run_several(&shape, &Pace::default(), 40) {
                assert_eq!(herd.violations, Vec::<String>::new(), "{shape:?}");
            }
        }
    }
}

/// Programs that open files of their own, beside others that do so in the same directory, never wait for long.
#[test]
fn nobody_waits_for_who_opens_a_file_of_his_own() {
    let policies = [
        (Policy::Single, Replicas::None),
        (Policy::Home, Replicas::None),
        (Policy::HomePlus, Replicas::None),
        (Policy::Hint, Replicas::None),
        (Policy::Local, Replicas::None),
        (Policy::Local, Replicas::Sync(1)),
    ];
    for (policy, replicas) in policies {
        for seed in 0..18 {
            let shape = Openers {
                nodes: 2 + (seed / 9 % 4) as u32,
                programs: 1 + (seed / 3 % 3) as u32,
                rounds: 60,
                policy,
                replicas,
                seed,
            };
            assert_eq!(run_openers(&shape), Vec::<String>::new(), "{shape:?}");
        }
    }
}
