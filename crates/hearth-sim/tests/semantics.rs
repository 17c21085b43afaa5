//! Each level of promises holds what it says, under faults too, and costs less than the one above.

use hearth_proto::{Policy, Semantics};
use hearth_sim::scale::{MessageKind, ScaleOutcome, Shape, run as run_large};
use hearth_sim::{Plan, Trouble, run, shrink};

/// Worlds of each level.
const WORLDS: u64 = 600;

/// Runs worlds of a level, with faults of every kind and without.
fn hold(semantics: Semantics) {
    for (number, trouble) in (0..WORLDS).zip([Trouble::Never, Trouble::All].iter().cycle()) {
        hold_one(semantics, number, *trouble);
    }
}

fn hold_one(semantics: Semantics, seed: u64, trouble: Trouble) {
    let plan = Plan {
        policy: Policy::Home,
        semantics,
        ..Plan::new(seed, trouble)
    };
    if !run(&plan).violations.is_empty() {
        let small = shrink(&plan);
        panic!("{}\n{}", small.replay(), run(&small).violations[0]);
    }
}

/// S30, S31: what is asked for ahead is not older than what this node has gathered of the page.
#[test]
fn nothing_is_read_ahead_of_what_is_gathered() {
    for semantics in [Semantics::Cto, Semantics::Mpi] {
        hold_one(semantics, 7_700_000_112, Trouble::Never);
    }
}

/// S9, S30, S31: a write through a descriptor of a file without a name shows in what the same node reads next.
#[test]
fn a_write_past_the_homes_shows_at_its_own_node() {
    hold_one(Semantics::Cto, 7_700_011_759, Trouble::Never);
    hold_one(Semantics::Mpi, 7_700_004_989, Trouble::Never);
}

/// S30
#[test]
fn an_open_sees_what_was_closed_before_it() {
    hold(Semantics::Cto);
}

/// S31
#[test]
fn a_sync_sees_what_was_synced_before_it() {
    hold(Semantics::Mpi);
}

/// S32
#[test]
fn a_laminated_file_is_whole_and_changes_no_more() {
    hold(Semantics::Commit);
}

/// S33
#[test]
fn a_job_of_its_own_sees_every_write() {
    hold(Semantics::Job);
}

/// A level that promised as much as the one above would break no checker of that.
#[test]
fn weaker_levels_do_break_the_promises_of_posix() {
    for semantics in [Semantics::Cto, Semantics::Mpi, Semantics::Commit] {
        let shape = Shape {
            semantics,
            ..Shape::new(Policy::Home, 16, 20_000, 1)
        };
        let (weak, posix) = (
            run_large(&shape, |_| {}),
            run_large(&large(Semantics::Posix, None), |_| {}),
        );
        assert_eq!(weak.violations, Vec::<String>::new());
        assert!(
            weak.own_reads > posix.own_reads,
            "{semantics:?}: copies outlive writes"
        );
    }
}

fn large(semantics: Semantics, reopens: Option<u32>) -> Shape {
    Shape {
        semantics,
        reopens,
        ..Shape::new(Policy::Home, 16, 20_000, 1)
    }
}

/// S30 to S32: nothing is called back, and opens cost what they do under `posix`.
#[test]
fn levels_without_records_call_nothing_back() {
    let outcome = |semantics| -> ScaleOutcome { run_large(&large(semantics, Some(64)), |_| {}) };
    let posix = outcome(Semantics::Posix);
    assert_eq!(posix.violations, Vec::<String>::new());
    for semantics in [Semantics::Cto, Semantics::Mpi, Semantics::Commit] {
        let weak = outcome(semantics);
        assert_eq!(weak.violations, Vec::<String>::new());
        // But at the writer itself, if it may have been given a copy while its write waited.
        let few = weak.messages.of(MessageKind::Inval) * 100;
        assert!(few < posix.messages.of(MessageKind::Inval), "{semantics:?}");
        let opens = |outcome: &ScaleOutcome| outcome.messages.of(MessageKind::Other);
        assert!(opens(&weak).abs_diff(opens(&posix)) * 100 < opens(&posix));
    }
    // Before lamination nothing that others write voids a copy, so that opens read nothing anew.
    let reads = |semantics| outcome(semantics).messages.of(MessageKind::Read);
    assert!(reads(Semantics::Commit) * 3 < reads(Semantics::Posix) * 2);
    assert!(reads(Semantics::Posix) < reads(Semantics::Cto));
}
