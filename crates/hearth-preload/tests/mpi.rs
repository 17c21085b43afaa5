//! Programs with MPI-IO under the library, with each MPI that is there, in C and in Fortran.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

mod support;

use hearth_trace::{Layer, Op};
use support::{Call, Place, Traced, build, has};

/// Processes of each program.
const RANKS: usize = 2;

#[test]
fn calls_of_open_mpi_are_recorded() {
    c_program("calls_of_open_mpi_are_recorded", "openmpi");
}

#[test]
fn calls_of_mpich_are_recorded() {
    c_program("calls_of_mpich_are_recorded", "mpich");
}

#[test]
fn calls_from_fortran_of_open_mpi_are_recorded() {
    fortran_program("calls_from_fortran_of_open_mpi_are_recorded", "openmpi");
}

#[test]
fn calls_from_fortran_of_mpich_are_recorded() {
    fortran_program("calls_from_fortran_of_mpich_are_recorded", "mpich");
}

fn c_program(test: &str, mpi: &str) {
    let Some((traced, path)) = run(test, mpi, "mpicc", "mpiio.c") else {
        return;
    };
    let spans = |op| spans(&traced, op, &path);
    let each = |span: (u64, u64, i64)| vec![span; RANKS];
    // CREATE and RDWR.
    assert_eq!(
        spans(Op::MpiOpen),
        each((0, 1 | 8, 0)),
        "{}",
        traced.listing()
    );
    assert_eq!(spans(Op::MpiView), each((64, 0, 0)));
    assert_eq!(spans(Op::MpiWriteAll), [(64, 64, 64), (128, 64, 64)]);
    assert_eq!(spans(Op::MpiWrite), [(192, 16, 16), (208, 16, 16)]);
    assert_eq!(spans(Op::MpiSync), each((0, 0, 0)));
    let alone = [(64, 8, 8), (64, 8, 8), (64, 64, 64), (128, 64, 64)];
    assert_eq!(
        spans(Op::MpiRead),
        [&alone[..], &each((192, 64, 32))].concat()
    );
    // Begun at the pointer; the end moves nothing.
    assert_eq!(
        spans(Op::MpiReadAll),
        [(0, 0, 0), (0, 0, 0), (64, 4, 4), (128, 4, 4)]
    );
    assert_eq!(spans(Op::MpiClose), each((0, 0, 0)));
    let failed = traced.on(Op::MpiOpen, "/nowhere/at/all");
    assert_eq!(failed.len(), RANKS);
    assert!(failed.iter().all(|call| call.record.result < 0));
    inside_of_each_write_are_calls_of_the_program(&traced, &path);
}

fn fortran_program(test: &str, mpi: &str) {
    let Some((traced, path)) = run(test, mpi, "mpif90", "mpiio.f90") else {
        return;
    };
    let spans = |op| spans(&traced, op, &path);
    assert_eq!(spans(Op::MpiOpen).len(), RANKS, "{}", traced.listing());
    assert_eq!(spans(Op::MpiWriteAll), [(0, 64, 64), (64, 64, 64)]);
    assert_eq!(spans(Op::MpiRead), [(0, 64, 64), (64, 64, 64)]);
    assert_eq!(spans(Op::MpiSync).len(), RANKS);
    assert_eq!(spans(Op::MpiClose).len(), RANKS);
}

/// Builds a program and runs it by two processes; what was recorded, and the path of its file.
fn run(test: &str, mpi: &str, compiler: &str, source: &str) -> Option<(Traced, String)> {
    let (compiler, launcher) = (format!("{compiler}.{mpi}"), format!("mpirun.{mpi}"));
    if !has(test, &compiler) || !has(test, &launcher) {
        return None;
    }
    let place = Place::new();
    let program = build(&place, &compiler, source, &[])?;
    let path = place.text("shared");
    let ranks = RANKS.to_string();
    let line = ["timeout", "60", &launcher, "-n", &ranks, &program, &path];
    let mut command = place.traced_command(&line);
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    let traced = place.finish(command).ok();
    Some((traced, path))
}

/// Offset, bytes asked for and result of each call of MPI, sorted.
fn spans(traced: &Traced, op: Op, path: &str) -> Vec<(u64, u64, i64)> {
    let calls = traced.on(op, path);
    assert!(
        calls
            .iter()
            .all(|call| call.record.layer == Layer::Mpi as u8),
        "{op:?}"
    );
    let span = |call: &Call| {
        let record = &call.record;
        (record.offset, record.asked_bytes(), record.outcome())
    };
    let mut spans: Vec<_> = calls.into_iter().map(span).collect();
    spans.sort_unstable();
    spans
}

fn inside_of_each_write_are_calls_of_the_program(traced: &Traced, path: &str) {
    for outer in traced.on(Op::MpiWrite, path) {
        let end = outer.record.start + outer.record.ticks();
        let is_inside = |call: &&Call| {
            call.op.is_write()
                && call.path == path
                && (call.area, call.tid) == (outer.area, outer.tid)
                && (outer.record.start..=end).contains(&call.record.start)
        };
        let bytes = traced.calls.iter().filter(is_inside);
        let bytes: i64 = bytes.map(|call| call.record.outcome()).sum();
        assert_eq!(bytes, outer.record.outcome(), "{}", traced.listing());
    }
}
