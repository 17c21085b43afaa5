//! Odd things that programs do, and that happen to them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::{BOTH, Fixture, Mpi, Run, both, has};

const RANKS: u32 = 3;

/// Ranks whose agents talk over MPI.
const OVER_MPI: &[(&str, &str)] = &[("HEARTH_TRANSPORT", "mpi"), ("THREADS", "1")];

/// Runs a case under both MPI libraries; each must end well.
fn both_run(test: &str, case: &str, settings: &[(&str, &str)], then: impl Fn(&Fixture)) {
    for mpi in BOTH {
        if !has(test, mpi, "mpicc") {
            continue;
        }
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        fixture.runs_well(&Run {
            ranks: RANKS,
            words: &[case, &fixture.name("f")],
            cache: Some(settings),
        });
        then(&fixture);
    }
}

fn byte(writer: u64, at: u64) -> u8 {
    (writer * 37 + at * 11 + (at >> 9) + 1) as u8
}

/// Each rank's block, as the program writes it.
fn blocks(offset: u64) -> Vec<u8> {
    const BLOCK: u64 = 30000;
    let block = |rank| (0..BLOCK).map(move |at| byte(rank + offset, at));
    (0..u64::from(RANKS)).flat_map(block).collect()
}

#[test]
fn one_file_through_several_communicators_is_one_file() {
    let test = "one_file_through_several_communicators_is_one_file";
    let pages = [("HEARTH_PAGE_SIZE", "4KiB")];
    both_run(test, "communicators", &pages, |_| ());
    both_run(test, "communicators", &[("HEARTH_POLICY", "home")], |_| ());
}

#[test]
fn calls_of_the_program_itself_see_what_mpi_has_written() {
    let test = "calls_of_the_program_itself_see_what_mpi_has_written";
    both_run(test, "beside", &[], |_| ());
}

#[test]
fn what_the_store_cannot_hold_is_refused_at_once() {
    let test = "what_the_store_cannot_hold_is_refused_at_once";
    both_run(test, "beyond", &[], |_| ());
    both_run(test, "beyond", &[("HEARTH_POLICY", "home")], |_| ());
}

#[test]
fn hints_of_the_first_file_are_heeded_and_others_are_named() {
    let test = "hints_of_the_first_file_are_heeded_and_others_are_named";
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        let said = fixture.runs_well(&Run {
            ranks: RANKS,
            words: &["hints", &fixture.name("f")],
            cache: Some(&[("HEARTH_PAGE_SIZE", "64KiB")]),
        });
        let not_heeded: Vec<&str> = said.lines().filter(|line| line.contains("hint")).collect();
        let [wrong, late] = not_heeded[..] else {
            panic!("{mpi:?}: {said}");
        };
        assert!(wrong.contains("hearth_pool=many is not heeded"), "{said}");
        assert!(late.contains("hearth_policy=hint is not heeded"), "{said}");
    }
}

#[test]
fn modes_of_opening_do_what_they_say() {
    let test = "modes_of_opening_do_what_they_say";
    both_run(test, "modes", &[], |fixture| {
        assert!(fs::read(fixture.file(&fixture.name("f"))).unwrap() == blocks(2));
    });
}

#[test]
fn a_store_without_room_is_an_error_of_its_class() {
    let test = "a_store_without_room_is_an_error_of_its_class";
    let full = [("HEARTH_BACKING", "fault:write:enospc@1-")];
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        // The bytes never leave, so the end waits for them as long as it does anywhere.
        let output = fixture.run(&Run {
            ranks: 1,
            words: &["full", &fixture.name("f")],
            cache: Some(&full),
        });
        let said = both(&output);
        assert!(!said.contains("not so"), "{mpi:?}: {said}");
        assert!(said.contains("No space left on device"), "{mpi:?}: {said}");
    }
}

#[test]
fn an_agent_that_nobody_asks_sleeps() {
    both_run("an_agent_that_nobody_asks_sleeps", "idle", &[], |_| ());
}

#[test]
fn an_agent_that_nobody_asks_over_mpi_sleeps() {
    let test = "an_agent_that_nobody_asks_over_mpi_sleeps";
    both_run(test, "idle", OVER_MPI, |fixture| {
        assert!(fixture.report(0).contains("\"way\": \"MPI"));
    });
}

/// Runs a case that no job survives, under both libraries: it must end, and not well.
fn both_end(test: &str, case: &str, settings: &[(&str, &str)]) {
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        let output = fixture.run(&Run {
            ranks: RANKS,
            words: &[case, &fixture.name("f")],
            cache: Some(settings),
        });
        let (code, said) = (output.status.code(), both(&output));
        // 124 and 137 are what ends a job that hangs; Open MPI ends with 137 where a rank was killed.
        let is_killed = code == Some(137) && said.contains("exited on signal 9");
        let is_ended = is_killed || !matches!(code, Some(0 | 124 | 137));
        assert!(is_ended, "{mpi:?}: {code:?} {said}");
        assert!(!said.contains("not so"), "{mpi:?}: {said}");
    }
}

#[test]
fn a_job_with_a_dead_rank_ends() {
    both_end("a_job_with_a_dead_rank_ends", "death", &[]);
    both_end("a_job_with_a_dead_rank_ends", "death", OVER_MPI);
}

#[test]
fn a_job_with_a_killed_rank_ends_whoever_has_its_pages() {
    let test = "a_job_with_a_killed_rank_ends_whoever_has_its_pages";
    both_end(test, "killed", &[("HEARTH_POLICY", "home")]);
}

#[test]
fn a_job_that_is_aborted_ends() {
    both_end("a_job_that_is_aborted_ends", "aborted", &[]);
}

#[test]
fn a_file_whose_name_goes_is_still_itself() {
    both_run(
        "a_file_whose_name_goes_is_still_itself",
        "removed",
        &[],
        |_| (),
    );
}

#[test]
fn a_file_is_gone_through_in_turn() {
    both_run(
        "a_file_is_gone_through_in_turn",
        "sequential",
        &[],
        |fixture| {
            assert!(fs::read(fixture.file(&fixture.name("f"))).unwrap() == blocks(0));
        },
    );
}

#[test]
fn a_program_without_mpi_reads_what_was_synced() {
    let test = "a_program_without_mpi_reads_what_was_synced";
    both_run(test, "reader", &[], |_| ());
}

#[test]
fn a_second_job_is_refused_while_the_first_has_the_file() {
    let test = "a_second_job_is_refused_while_the_first_has_the_file";
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        let name = fixture.name("f");
        let (holds, asks) = (["holder", &name], ["refused", &name]);
        let run = |words| Run {
            ranks: 2,
            words,
            cache: Some(&[]),
        };
        let mut first = fixture.command(&run(&holds));
        let mut first = first
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(first.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "held\n", "{mpi:?}");
        let second = fixture.runs_well(&run(&asks));
        assert!(second.contains("another job has it open"), "{second}");
        drop(first.stdin.take());
        assert!(first.wait().unwrap().success(), "{mpi:?}");
    }
}

#[test]
fn a_job_of_one_rank_is_a_job() {
    let test = "a_job_of_one_rank_is_a_job";
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        for case in ["communicators", "removed"] {
            fixture.runs_well(&Run {
                ranks: 1,
                words: &[case, &fixture.name(case)],
                cache: Some(&[]),
            });
        }
    }
}

#[test]
fn a_file_that_is_open_at_the_end_is_whole() {
    let test = "a_file_that_is_open_at_the_end_is_whole";
    both_run(test, "open-at-the-end", &[], |fixture| {
        assert!(fs::read(fixture.file(&fixture.name("f"))).unwrap() == blocks(0));
    });
}

#[test]
fn a_program_that_does_not_finish_mpi_leaves_its_bytes_and_ends() {
    let test = "a_program_that_does_not_finish_mpi_leaves_its_bytes_and_ends";
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        let output = fixture.run(&Run {
            ranks: 1,
            words: &["unfinished", &fixture.name("f")],
            cache: Some(&[]),
        });
        let said = both(&output);
        assert!(
            !matches!(output.status.code(), Some(124 | 137)),
            "{mpi:?}: {said}"
        );
        let left = fs::read(fixture.file(&fixture.name("f"))).unwrap();
        assert!(left == blocks(0)[..30000], "{mpi:?}: {said}");
    }
}

#[test]
fn atomic_mode_never_mixes_two_writes() {
    let test = "atomic_mode_never_mixes_two_writes";
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "atomic.c");
        fixture.runs_well(&Run {
            ranks: RANKS,
            words: &[&fixture.name("f"), "2000"],
            cache: Some(&[("HEARTH_PAGE_SIZE", "4KiB")]),
        });
    }
}

/// A program whose file is not managed, by whatever way: nothing is different, and nothing is said.
fn is_left_alone(test: &str, mpi: Mpi, settings: &[(&str, &str)]) {
    if !has(test, mpi, "mpicc") {
        return;
    }
    let fixture = Fixture::new(mpi, "mpicc", "features.c");
    let run = |words: &[&str], cache| {
        fixture.runs_well(&Run {
            ranks: RANKS,
            words,
            cache,
        })
    };
    let elsewhere = fixture.elsewhere(&fixture.name("cached"));
    let file = elsewhere.to_str().unwrap();
    assert_eq!(run(&[&fixture.name("plain")], None), "");
    assert_eq!(run(&[file, "off"], Some(settings)), "");
    let (plain, alone) = (
        fs::read(fixture.file(&fixture.name("plain"))),
        fs::read(elsewhere),
    );
    assert!(plain.unwrap() == alone.unwrap(), "{mpi:?}");
    assert!(!fixture.has_report(0), "{mpi:?}: no agent has started");
}

#[test]
fn a_file_outside_of_the_store_is_left_alone() {
    for mpi in BOTH {
        is_left_alone("a_file_outside_of_the_store_is_left_alone", mpi, &[]);
    }
}

#[test]
fn without_threads_a_job_that_wants_mpi_says_so_and_uses_memory() {
    let test = "without_threads_a_job_that_wants_mpi_says_so_and_uses_memory";
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "features.c");
        let said = fixture.runs_well(&Run {
            ranks: RANKS,
            words: &[&fixture.name("f"), "on"],
            cache: Some(&[("HEARTH_TRANSPORT", "mpi")]),
        });
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(lines[0].contains("MPI_THREAD_MULTIPLE"), "{said}");
        assert!(fixture.report(0).contains("\"way\": \"shared memory\""));
    }
}

#[test]
fn settings_that_cannot_be_are_named_and_the_job_runs_without_a_cache() {
    let test = "settings_that_cannot_be_are_named_and_the_job_runs_without_a_cache";
    for mpi in BOTH.into_iter().filter(|mpi| has(test, *mpi, "mpicc")) {
        let fixture = Fixture::new(mpi, "mpicc", "odd.c");
        let said = fixture.runs_well(&Run {
            ranks: 1,
            words: &["open-at-the-end", &fixture.name("f")],
            cache: Some(&[("HEARTH_POLICY", "best")]),
        });
        assert!(
            said.contains("rank 0: no file is cached: HEARTH_POLICY=best"),
            "{said}"
        );
        assert!(!fixture.has_report(0));
    }
}
