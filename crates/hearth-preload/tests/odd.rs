//! Programs that do what few do: bad pointers, numbers used again, signals, forks without exec and
//! execs without an environment, cancelled threads; and streams of several languages.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

mod support;

use std::collections::HashSet;
use std::fs;

use hearth_trace::{Flags, Op};
use support::{Place, Traced, build};

/// Runs a part of `odd.c` with and without the library, and checks that one cannot tell.
fn odd(test: &str, part: &str) -> Option<(Place, Traced)> {
    let place = Place::new();
    let Some(program) = build(&place, "cc", "odd.c", &["-pthread", "-w"]) else {
        println!("skipped: {test}: no cc");
        return None;
    };
    let traced = place.compare(&[&program, part]).ok();
    Some((place, traced))
}

fn size(place: &Place, name: &str) -> i64 {
    i64::try_from(fs::metadata(place.path(name)).unwrap().len()).unwrap()
}

#[test]
fn bad_pointers_fail_as_they_would_and_errno_is_kept() {
    let name = "bad_pointers_fail_as_they_would_and_errno_is_kept";
    let Some((place, traced)) = odd(name, "faults") else {
        return;
    };
    let unnamed = traced.calls.iter().filter(|call| call.path.is_empty());
    let faulted = unnamed.filter(|call| call.record.result == -libc::EFAULT);
    assert!(faulted.count() >= 3, "{}", traced.listing());
    assert_eq!(traced.bytes_written(&place.text("data")), 10);
}

#[test]
fn a_number_that_is_used_again_means_the_new_file() {
    let name = "a_number_that_is_used_again_means_the_new_file";
    let Some((place, traced)) = odd(name, "reuse") else {
        return;
    };
    let writes = |name: &str| {
        let calls = traced.on(Op::Write, &place.text(name));
        calls
            .iter()
            .map(|call| (call.record.offset, call.record.result))
            .collect::<Vec<_>>()
    };
    assert_eq!(writes("two"), [(0, 2), (2, 3)], "{}", traced.listing());
    assert_eq!(writes("three"), [(0, 5)]);
    let one: i32 = writes("one").iter().map(|(_, bytes)| bytes).sum();
    // The program ran twice, and the first left a file to append to.
    assert!(one == 5 && writes("one").len() == 2);
    assert_eq!(
        traced.on(Op::Read, &place.text("three"))[0].record.offset,
        2
    );
    assert!(
        traced
            .calls
            .iter()
            .all(|call| !call.path.contains("socket"))
    );
}

#[test]
fn threads_have_rings_of_their_own() {
    let Some((place, traced)) = odd("threads_have_rings_of_their_own", "threads") else {
        return;
    };
    for name in ["t0", "t1", "t2", "t3"] {
        let calls = traced.on(Op::Pwrite, &place.text(name));
        assert_eq!(calls.len(), 1000);
        let tids: HashSet<u32> = calls.iter().map(|call| call.tid).collect();
        assert_eq!(tids.len(), 1, "one thread wrote it");
        let follows = calls
            .iter()
            .filter(|call| call.has(Flags::SEQUENTIAL))
            .count();
        assert_eq!(follows, 999);
    }
}

#[test]
fn a_signal_handler_does_io_inside_of_other_io() {
    let name = "a_signal_handler_does_io_inside_of_other_io";
    let Some((place, traced)) = support_signals(name) else {
        return;
    };
    let main = traced.on(Op::Pwrite, &place.text("main")).len();
    let handler = traced.calls.iter().filter(|call| call.op == Op::Write);
    let written = size(&place, "signals");
    assert_eq!(main, 20_000);
    assert_eq!(
        handler.count() as i64 + i64::try_from(traced.nested).unwrap(),
        written
    );
}

/// Runs the part about signals, in which attempts inside of records are counted, not kept.
fn support_signals(test: &str) -> Option<(Place, Traced)> {
    let place = Place::new();
    let Some(program) = build(&place, "cc", "odd.c", &["-pthread", "-w"]) else {
        println!("skipped: {test}: no cc");
        return None;
    };
    let traced = place.trace(&[&program, "signals"]).ok();
    Some((place, traced))
}

#[test]
fn children_and_the_programs_they_become_are_traced() {
    let name = "children_and_the_programs_they_become_are_traced";
    let Some((place, traced)) = odd(name, "children") else {
        return;
    };
    let shared = place.text("shared");
    let offsets: Vec<u64> = traced
        .on(Op::Write, &shared)
        .iter()
        .map(|call| call.record.offset)
        .collect();
    let offsets: HashSet<u64> = offsets.into_iter().collect();
    assert_eq!(
        offsets,
        HashSet::from([0, 4, 8, 12]),
        "{}",
        traced.listing()
    );
    assert_eq!(traced.bytes_written(&place.text("child")), 2);
    assert_eq!(traced.bytes_written(&place.text("execed")), 1);
    assert_eq!(traced.bytes_written(&place.text("execed2")), 1);
}

#[test]
fn a_thread_can_be_cancelled_inside_of_a_call() {
    odd("a_thread_can_be_cancelled_inside_of_a_call", "cancel");
}

#[test]
fn what_printf_and_getc_move_is_found() {
    let Some((place, traced)) = odd("what_printf_and_getc_move_is_found", "streams") else {
        return;
    };
    let printed = place.text("printed");
    assert_eq!(
        traced.bytes_written(&printed),
        14_009,
        "{}",
        traced.listing()
    );
    assert_eq!(
        traced.bytes_read(&printed),
        14_004 + 14_009,
        "{}",
        traced.listing()
    );
    assert_eq!(
        traced.bytes_written(&place.text("left")),
        13,
        "{}",
        traced.listing()
    );
    assert!(
        traced
            .on(Op::Write, &printed)
            .iter()
            .all(|call| call.has(Flags::BUFFERED))
    );
}

#[test]
fn streams_of_other_languages_are_recorded() {
    let name = "streams_of_other_languages_are_recorded";
    let place = Place::new();
    if let Some(program) = build(&place, "g++", "stream.cc", &[]) {
        let traced = place.compare(&[&program]).ok();
        let lines = place.text("lines");
        assert_eq!(
            traced.bytes_written(&lines),
            size(&place, "lines"),
            "{}",
            traced.listing()
        );
        assert_eq!(traced.bytes_read(&lines), size(&place, "lines"));
    } else {
        println!("skipped: {name}: no g++");
    }
    if let Some(program) = build(&place, "gfortran", "records.f90", &[]) {
        let traced = place.compare(&[&program]).ok();
        for file in ["table", "block"] {
            let written = traced.bytes_written(&place.text(file));
            assert_eq!(written, size(&place, file), "{}", traced.listing());
        }
        assert_eq!(
            traced.bytes_read(&place.text("table")),
            size(&place, "table")
        );
    } else {
        println!("skipped: {name}: no gfortran");
    }
}

#[test]
fn the_compiler_itself_is_traced() {
    let place = Place::new();
    fs::write(place.path("a.c"), "int main(void) { return 0; }\n").unwrap();
    if !support::has("the_compiler_itself_is_traced", "gcc") {
        return;
    }
    let traced = place.compare(&["gcc", "-o", "a", "a.c"]).ok();
    assert_eq!(traced.bytes_read(&place.text("a.c")), size(&place, "a.c"));
    assert!(traced.programs.iter().any(|program| program == "cc1"));
}
