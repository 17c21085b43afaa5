//! MPI programs, built and run under the library.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses its part; what fails here fails the test, and a skipped test says so"
)]

#[path = "../../../hearth-mpi/tests/fleet/launchers.rs"]
mod launchers;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Seconds after which a program is ended: what hangs must fail.
const LIMIT_SECONDS: &str = "120";

/// An MPI library, and how its programs are built and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mpi {
    OpenMpi,
    Mpich,
}

pub(crate) const BOTH: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

impl Mpi {
    fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }

    fn launcher(self) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT_SECONDS]);
        command.args(match self {
            Mpi::OpenMpi => launchers::OPEN_MPI,
            Mpi::Mpich => launchers::MPICH,
        });
        command
    }
}

/// Whether a test has all that it needs; says so if not.
pub(crate) fn has(test: &str, mpi: Mpi, compiler: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let wanted = [
        format!("{compiler}.{}", mpi.name()),
        format!("mpirun.{}", mpi.name()),
    ];
    let missing = wanted
        .iter()
        .find(|name| !std::env::split_paths(&path).any(|dir| dir.join(name).exists()));
    if let Some(missing) = missing {
        println!("skipped: {test}: no {missing}");
    }
    missing.is_none()
}

/// The library under test, as it was built beside this test.
pub(crate) fn library() -> PathBuf {
    if let Some(named) = std::env::var_os("HEARTH_MPIIO") {
        return PathBuf::from(named);
    }
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().join("libhearth_mpiio.so");
    assert!(
        built.exists(),
        "{built:?} is not there: cargo build -p hearth-mpiio"
    );
    built
}

/// A store, and a program to use it.
pub(crate) struct Fixture {
    dir: TempDir,
    mpi: Mpi,
    program: PathBuf,
}

/// How ranks are to run.
pub(crate) struct Run<'a> {
    pub(crate) ranks: u32,
    pub(crate) words: &'a [&'a str],
    /// The variables of the environment beside the store; the library is not loaded without any.
    pub(crate) cache: Option<&'a [(&'a str, &'a str)]>,
}

impl Fixture {
    /// Builds a program for an MPI library.
    pub(crate) fn new(mpi: Mpi, compiler: &str, source: &str) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("store")).unwrap();
        fs::create_dir(dir.path().join("report")).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let program = dir.path().join("program");
        let built = Command::new(format!("{compiler}.{}", mpi.name()))
            .arg("-O1")
            .arg("-o")
            .arg(&program)
            .arg(sources.join(source))
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(built.status.success(), "{mpi:?} {source}: {}", both(&built));
        Fixture { dir, mpi, program }
    }

    /// A file name that no other test has: Open MPI shares semaphores by name among all jobs of a host.
    pub(crate) fn name(&self, kind: &str) -> String {
        let dir = self.dir.path().file_name().unwrap().to_str().unwrap();
        format!("{kind}-{}", dir.trim_start_matches('.'))
    }

    /// Path of a file in the store.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("store").join(name)
    }

    /// Path of a file outside of the store.
    pub(crate) fn elsewhere(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Whether a rank had an agent in the last run.
    pub(crate) fn has_report(&self, rank: u32) -> bool {
        self.dir
            .path()
            .join(format!("report/rank-{rank}.json"))
            .exists()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The counts of a rank in the last run with a report.
    pub(crate) fn report(&self, rank: u32) -> String {
        fs::read_to_string(self.dir.path().join(format!("report/rank-{rank}.json"))).unwrap()
    }

    /// A command that runs the program in the store.
    pub(crate) fn command(&self, run: &Run<'_>) -> Command {
        let mut command = self.mpi.launcher();
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HEARTH_") {
                command.env_remove(name);
            }
        }
        if let Some(settings) = run.cache {
            command
                .env("LD_PRELOAD", library())
                .env("HEARTH_STORE", self.store())
                .env("HEARTH_REPORT", self.dir.path().join("report"))
                .env("HEARTH_POOL", "16MiB")
                .envs(settings.iter().copied());
        }
        command
            .arg("-n")
            .arg(run.ranks.to_string())
            .arg(&self.program)
            .args(run.words)
            // Open MPI keeps a folder for each user there, and a job that ends removes it beneath one that begins.
            .env("TMPDIR", self.dir.path())
            .current_dir(self.store())
            .stdin(Stdio::null());
        command.process_group(0);
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, run: &Run<'_>) -> Output {
        self.command(run).output().unwrap()
    }

    /// Runs the program, which must end well; what it said is returned.
    #[track_caller]
    pub(crate) fn runs_well(&self, run: &Run<'_>) -> String {
        let output = self.run(run);
        let said = both(&output);
        assert!(output.status.success(), "{:?}: {said}", self.mpi);
        said
    }
}

/// All that a program said.
pub(crate) fn both(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}
