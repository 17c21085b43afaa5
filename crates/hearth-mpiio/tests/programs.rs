//! Real MPI programs under the library: C and both ways of Fortran, under both MPI libraries.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::fs;

use support::{BOTH, Fixture, Mpi, Run, has};

const RANKS: u32 = 3;

/// Small pages, so that ranks share many and each has several.
const SMALL_PAGES: &[(&str, &str)] = &[("HEARTH_PAGE_SIZE", "16KiB")];

/// The same where small writes may stay at their rank until they are synced.
const LOOSE: &[(&str, &str)] = &[
    ("HEARTH_PAGE_SIZE", "16KiB"),
    ("HEARTH_POLICY", "home"),
    ("HEARTH_SEMANTICS", "mpi"),
];

/// Without and with the cache, a program finds its bytes, and leaves the same file.
fn leaves_the_same_file(test: &str, tools: (Mpi, &str), source: &str) {
    leaves_the_same_file_with(test, tools, source, (SMALL_PAGES, "single"));
}

fn leaves_the_same_file_with(
    test: &str,
    (mpi, compiler): (Mpi, &str),
    source: &str,
    (cache, policy): (&[(&str, &str)], &str),
) -> Option<Fixture> {
    if !has(test, mpi, compiler) {
        return None;
    }
    let fixture = Fixture::new(mpi, compiler, source);
    let run = |words: &[&str], cache| {
        let ranks = RANKS;
        fixture.runs_well(&Run {
            ranks,
            words,
            cache,
        })
    };
    run(&[&fixture.name("plain")], None);
    let said = run(&[&fixture.name("cached"), "on"], Some(cache));
    assert_eq!(said, "", "{mpi:?}: nothing is worth a word");
    let (plain, cached) = (
        fs::read(fixture.file(&fixture.name("plain"))),
        fs::read(fixture.file(&fixture.name("cached"))),
    );
    assert!(
        plain.unwrap() == cached.unwrap(),
        "{mpi:?}: the files differ"
    );
    assert!(
        fixture
            .report(0)
            .contains(&format!("\"policy\": \"{policy}\""))
    );
    Some(fixture)
}

#[test]
fn c_programs_run_over_the_cache() {
    for mpi in BOTH {
        leaves_the_same_file(
            "c_programs_run_over_the_cache",
            (mpi, "mpicc"),
            "features.c",
        );
    }
}

/// S31
#[test]
fn c_programs_run_where_small_writes_stay_at_their_rank() {
    let test = "c_programs_run_where_small_writes_stay_at_their_rank";
    for mpi in BOTH {
        leaves_the_same_file_with(test, (mpi, "mpicc"), "features.c", (LOOSE, "home"));
    }
}

/// A program by each transport that is not the default; ranks say in their reports how they reach each other.
fn runs_over(test: &str, (mpi, compiler): (Mpi, &str), source: &str, (name, way): (&str, &str)) {
    let cache = [
        ("HEARTH_PAGE_SIZE", "16KiB"),
        ("HEARTH_TRANSPORT", name),
        ("THREADS", "1"),
    ];
    if let Some(fixture) =
        leaves_the_same_file_with(test, (mpi, compiler), source, (&cache, "single"))
    {
        for rank in 0..RANKS {
            let report = fixture.report(rank);
            let said = format!("\"way\": \"{way}");
            let others = report.matches(&said).count();
            assert_eq!(others, RANKS as usize - 1, "{mpi:?}: {report}");
        }
    }
}

#[test]
fn c_programs_run_over_every_transport() {
    let test = "c_programs_run_over_every_transport";
    let ways = [
        (Mpi::OpenMpi, "shm", "shared memory"),
        (Mpi::Mpich, "unix", "socket of the host"),
        (Mpi::OpenMpi, "tcp", "tcp"),
        (Mpi::OpenMpi, "mpi", "MPI, and bells over: shared memory"),
        (Mpi::Mpich, "mpi", "MPI, and bells over: shared memory"),
    ];
    for (mpi, name, way) in ways {
        runs_over(test, (mpi, "mpicc"), "features.c", (name, way));
    }
}

/// The thread that carries the cache's messages calls MPI while the program begins and ends requests.
#[test]
fn requests_are_begun_and_ended_while_messages_go_over_mpi() {
    let test = "requests_are_begun_and_ended_while_messages_go_over_mpi";
    let way = ("mpi", "MPI, and bells over: shared memory");
    for mpi in BOTH {
        runs_over(test, (mpi, "mpicc"), "pending.c", way);
    }
}

#[test]
fn fortran_programs_run_over_mpi() {
    let test = "fortran_programs_run_over_mpi";
    let way = ("mpi", "MPI, and bells over: shared memory");
    for mpi in BOTH {
        runs_over(test, (mpi, "mpif90"), "features_mpi.f90", way);
        runs_over(test, (mpi, "mpif90"), "features_f08.f90", way);
    }
}

#[test]
fn fortran_programs_that_use_mpi_run_over_the_cache() {
    let test = "fortran_programs_that_use_mpi_run_over_the_cache";
    for mpi in BOTH {
        leaves_the_same_file(test, (mpi, "mpif90"), "features_mpi.f90");
    }
}

#[test]
fn fortran_programs_that_use_mpi_f08_run_over_the_cache() {
    let test = "fortran_programs_that_use_mpi_f08_run_over_the_cache";
    for mpi in BOTH {
        leaves_the_same_file(test, (mpi, "mpif90"), "features_f08.f90");
    }
}

/// A pool of 16 MiB, and requests of 24 MiB: they take no frames, so what is small is all that is in memory.
/// The small pieces lie on 42 pages, 10.5 MiB: a rank that happens to be the home of them all has room.
fn passes_the_pool_by(test: &str, policy: &str) {
    for mpi in BOTH {
        if !has(test, mpi, "mpicc") {
            continue;
        }
        let fixture = Fixture::new(mpi, "mpicc", "large.c");
        let name = fixture.name("large");
        let run = |cache| {
            let (ranks, words) = (RANKS, &[name.as_str()][..]);
            fixture.runs_well(&Run {
                ranks,
                words,
                cache,
            })
        };
        run(None);
        let plain = fs::read(fixture.file(&name)).unwrap();
        fs::remove_file(fixture.file(&name)).unwrap();
        let said = run(Some(&[("HEARTH_POOL", "16MiB"), ("HEARTH_POLICY", policy)]));
        assert_eq!(said, "", "{mpi:?}: nothing is worth a word");
        assert!(
            plain == fs::read(fixture.file(&name)).unwrap(),
            "{mpi:?}: the files differ"
        );
        for rank in 0..RANKS {
            let report = fixture.report(rank);
            assert!(report.contains("\"evictions\": 0"), "{mpi:?}: {report}");
        }
    }
}

#[test]
fn requests_larger_than_the_pool_pass_it_by_under_single() {
    passes_the_pool_by(
        "requests_larger_than_the_pool_pass_it_by_under_single",
        "single",
    );
}

#[test]
fn requests_larger_than_the_pool_pass_it_by_under_home() {
    passes_the_pool_by(
        "requests_larger_than_the_pool_pass_it_by_under_home",
        "home",
    );
}
