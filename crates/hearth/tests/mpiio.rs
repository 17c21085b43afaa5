//! `hearth run --way-in mpiio`: ranks of an MPI job are told to be the cache.

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Each rank writes its number, and reads that of the next rank.
const PROGRAM: &str = r#"
#include <mpi.h>
int main(int count, char **words)
{
    int rank, ranks, read = -1;
    MPI_File file;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file))
        return 3;
    MPI_File_write_at(file, rank * 4, &rank, 4, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(file);
    MPI_File_read_at(file, (rank + 1) % ranks * 4, &read, 4, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    MPI_Finalize();
    return read != (rank + 1) % ranks;
}
"#;

fn hearth() -> Command {
    let named = std::env::var_os("HEARTH_BIN").map(PathBuf::from);
    Command::new(named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_hearth"))))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a test has what it needs; says so if not.
fn has(test: &str, program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = Path::new(hearth().get_program()).with_file_name("libhearth_mpiio.so");
    let missing = if !std::env::split_paths(&path).any(|dir| dir.join(program).exists()) {
        program
    } else if !beside.exists() && std::env::var_os("HEARTH_MPIIO").is_none() {
        "libhearth_mpiio.so"
    } else {
        return true;
    };
    println!("skipped: {test}: no {missing}");
    false
}

#[test]
fn ranks_that_are_run_so_are_the_cache_and_are_counted() {
    let test = "ranks_that_are_run_so_are_the_cache_and_are_counted";
    for mpi in ["openmpi", "mpich"] {
        let compiler = format!("mpicc.{mpi}");
        if !has(test, &compiler) {
            continue;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        fs::write(&source, PROGRAM).expect("a program");
        let mut build = Command::new(compiler);
        let built = build.arg("-o").args([&program, &source]).status();
        assert!(built.expect("a compiler").success());
        let store = dir.path().join("store");
        fs::create_dir(&store).expect("a store");
        let launcher = format!("mpirun.{mpi}");
        let mut words = vec!["timeout", "60", &launcher];
        if mpi == "openmpi" {
            words.extend([
                "--allow-run-as-root",
                "--oversubscribe",
                "--bind-to",
                "none",
            ]);
        }
        // A name that no other job has: Open MPI shares semaphores by name.
        let file = store.join(format!("{mpi}-{}", std::process::id()));
        let ran = hearth()
            .args([
                "run", "--way-in", "mpiio", "--report", "--policy", "home", "--store",
            ])
            .arg(&store)
            .arg("--")
            .args(words)
            .args(["-n", "3"])
            .args([&program, &file])
            .output()
            .expect("it runs");
        assert!(ran.status.success(), "{mpi}: {}", said(&ran));
        assert!(said(&ran).contains("wrote 12 B"), "{mpi}: {}", said(&ran));
        let wanted: Vec<u8> = (0..3_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(fs::read(file).expect("the file"), wanted);
    }
}

#[test]
fn what_needs_agents_is_refused() {
    let ran = hearth()
        .args(["run", "--way-in", "mpiio", "--agents", "2", "--", "true"])
        .output()
        .expect("it runs");
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        said(&ran).contains("cannot heed --agents"),
        "{}",
        said(&ran)
    );
}
