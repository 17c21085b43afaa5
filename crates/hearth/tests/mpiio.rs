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

/// The program, its store, and how its ranks are started under one MPI library.
struct Job {
    dir: tempfile::TempDir,
    mpi: &'static str,
}

impl Job {
    fn new(mpi: &'static str) -> Job {
        let dir = tempfile::tempdir().expect("a directory");
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        fs::write(&source, PROGRAM).expect("a program");
        let mut build = Command::new(format!("mpicc.{mpi}"));
        let built = build.arg("-o").args([&program, &source]).status();
        assert!(built.expect("a compiler").success());
        fs::create_dir(dir.path().join("store")).expect("a store");
        Job { dir, mpi }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// A name that no other job has: Open MPI shares semaphores by name.
    fn file(&self) -> PathBuf {
        let name = format!("{}-{}", self.mpi, std::process::id());
        self.store().join(name)
    }

    /// Runs three ranks by `hearth run`, under a command if there are words for one.
    fn run(&self, options: &[&str], under: &[String]) -> Output {
        let mut run = hearth();
        run.arg("run").args(options).arg("--report");
        run.arg("--store").arg(self.store()).arg("--").args(under);
        run.args(["timeout", "60", &format!("mpirun.{}", self.mpi)]);
        if self.mpi == "openmpi" {
            run.args(["--allow-run-as-root", "--oversubscribe"]);
            run.args(["--bind-to", "none"]);
        }
        run.args(["-n", "3"]);
        run.args([&self.dir.path().join("p"), &self.file()]);
        // Open MPI keeps a folder for each user there, and a job that ends removes it beneath one that begins.
        run.env("TMPDIR", self.dir.path());
        run.output().expect("it runs")
    }

    /// The run went well, the bytes are right, and a cache has counted them.
    fn expect_well(&self, ran: &Output) {
        let said = said(ran);
        assert!(ran.status.success(), "{}: {said}", self.mpi);
        assert!(said.contains("wrote 12 B"), "{}: {said}", self.mpi);
        let wanted: Vec<u8> = (0..3_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(fs::read(self.file()).expect("the file"), wanted);
    }
}

#[test]
fn ranks_that_are_run_so_are_the_cache_and_are_counted() {
    let test = "ranks_that_are_run_so_are_the_cache_and_are_counted";
    for mpi in ["openmpi", "mpich"] {
        if !has(test, &format!("mpicc.{mpi}")) {
            continue;
        }
        let job = Job::new(mpi);
        let ran = job.run(&["--way-in", "mpiio", "--policy", "home"], &[]);
        job.expect_well(&ran);
    }
}

#[test]
fn ranks_over_a_mount_use_the_agent_of_their_node() {
    let test = "ranks_over_a_mount_use_the_agent_of_their_node";
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
        return println!("skipped: {test}: /dev/fuse cannot be opened: {error}");
    }
    for mpi in ["openmpi", "mpich"] {
        if !has(test, &format!("mpicc.{mpi}")) {
            continue;
        }
        let job = Job::new(mpi);
        let plain = job.run(&["--way-in", "fuse"], &[]);
        job.expect_well(&plain);
        // The library stands back, and says so.
        let library = Path::new(hearth().get_program()).with_file_name("libhearth_mpiio.so");
        let loaded = [
            "env".to_owned(),
            format!("LD_PRELOAD={}", library.display()),
            format!("HEARTH_STORE={}", job.store().display()),
        ];
        let with_library = job.run(&["--way-in", "fuse"], &loaded);
        job.expect_well(&with_library);
        let said = said(&with_library);
        assert!(said.contains("is a mount of this node's agent"), "{said}");
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
