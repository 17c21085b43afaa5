//! `hearth doctor`.

mod store;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{MemfdFlags, memfd_create, statvfs};
use rustix::process::geteuid;

use crate::probe;
use crate::requirements;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::job;
use hearth_set::leftovers::{self, Leftover};
use hearth_set::output::print;
use hearth_set::size::Size;
use hearth_set::{preload, program};

/// Shared memory below which a default pool does not fit.
const SHARED_MEMORY_MIN: Size = Size(256 << 20);

const EXAMPLES: &str = "\
Examples:
  hearth doctor          only looks
  hearth doctor --fix    also clears what crashed agents left
  hearth doctor --store /scratch --hosts n2     what a store does, seen from here and from n2
  hearth doctor --store /mnt/a --also /mnt/b    the same, by two mounts of it on this machine

Exit codes: 0 healthy, 1 something needs care.";

/// Options of `hearth doctor`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Clear what crashes left: directories and mounts of dead agents, agents without a job
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    store: store::StoreArgs,
}

/// The result of a check.
enum Finding {
    /// As it should be, in a few words.
    Well(String),
    /// A fault, and its remedy.
    Warning(String, String),
}

/// The subject of a check, and its function.
type Check = (&'static str, fn() -> Finding);

use Finding::{Warning, Well};

/// Checks everything; one line each.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(dir) = &args.store.hand {
        probe::serve(dir).or_fail(|| "cannot go on as a client".to_owned())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(dir) = &args.store.store {
        return store::run(&args.store, dir);
    }
    let mut is_well = true;
    let checks: [Check; 8] = [
        ("/dev/fuse", device),
        ("fusermount3", helper),
        ("namespaces", namespaces),
        ("open files", open_files),
        ("memfd", memfd),
        ("memory", memory),
        ("library for programs", program_library),
        ("library for MPI ranks", rank_library),
    ];
    for (name, check) in checks {
        is_well &= show(name, &check())?;
    }
    let base = match job::base() {
        Ok(base) => base,
        Err(failure) => {
            show(
                "control files",
                &Warning(failure.to_string(), "set HEARTH_DIR".to_owned()),
            )?;
            return Ok(ExitCode::from(1));
        }
    };
    is_well &= show_leftovers(&base, args)?;
    Ok(ExitCode::from(u8::from(!is_well)))
}

fn show(name: &str, finding: &Finding) -> Result<bool, Failure> {
    let (line, is_well) = match finding {
        Well(words) => (format!("ok    {name}: {words}\n"), true),
        Warning(words, remedy) => (format!("care  {name}: {words}; {remedy}\n"), false),
    };
    print(&line)?;
    Ok(is_well)
}

fn show_leftovers(base: &Path, args: &Args) -> Result<bool, Failure> {
    let found = leftovers::find(base)?;
    if found.is_empty() {
        return show("leftovers", &Well("none".to_owned()));
    }
    let mut is_well = true;
    for leftover in &found {
        let finding = if args.fix {
            fix(leftover)
        } else {
            Warning(leftover.describe(), "hearth doctor --fix".to_owned())
        };
        is_well &= show("leftovers", &finding)?;
    }
    Ok(is_well)
}

fn fix(leftover: &Leftover) -> Finding {
    match leftover.clear() {
        Ok(()) => Well(format!("{}: cleared", leftover.describe())),
        Err(failure) => {
            let words = failure.to_string().replace('\n', ";");
            Warning(leftover.describe(), format!("not cleared: {words}"))
        }
    }
}

fn device() -> Finding {
    match requirements::open_device() {
        Ok(_) => Well("can be opened".to_owned()),
        Err(failure) => {
            let words = failure.to_string();
            let mut lines = words.lines().map(|line| line.trim_start_matches("error: "));
            let what = lines.next().unwrap_or_default().to_owned();
            let rest: Vec<&str> = lines.map(str::trim).collect();
            Warning(what, rest.join("; "))
        }
    }
}

fn helper() -> Finding {
    match requirements::helper() {
        Some(path) => Well(path.display().to_string()),
        None if geteuid().is_root() => Well("not there, and root needs none".to_owned()),
        None => Warning(
            "not found, so only `hearth run` can mount".to_owned(),
            "apt-get install fuse3 (as root)".to_owned(),
        ),
    }
}

/// A namespace can only be tried by making one, in a process of its own.
fn namespaces() -> Finding {
    if geteuid().is_root() {
        return Well("root needs no user namespace".to_owned());
    }
    let tried = Command::new("unshare")
        .args(["--user", "--mount", "--map-current-user", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match (tried, requirements::namespace_obstacle()) {
        (Ok(status), _) if status.success() => Well("an ordinary user may make them".to_owned()),
        (_, Some(why)) => Warning(why, "`hearth run` needs --at DIR here".to_owned()),
        (Err(_), None) => Well("nothing forbids them".to_owned()),
        (Ok(_), None) => Warning(
            "an ordinary user may not make them".to_owned(),
            "`hearth run` needs --at DIR here".to_owned(),
        ),
    }
}

fn program_library() -> Finding {
    found(
        program::this().and_then(|this| preload::library(&this)),
        "`hearth run` uses its mount alone, and nothing is traced",
    )
}

fn rank_library() -> Finding {
    found(
        program::this().and_then(|this| preload::mpi_library(&this)),
        "`hearth run --way-in mpiio` cannot work",
    )
}

fn found(library: Result<PathBuf, Failure>, without: &str) -> Finding {
    match library {
        Ok(path) if path.is_file() => Well(path.display().to_string()),
        Ok(path) => Warning(
            format!("`{}` is not there, so {without}", path.display()),
            "correct the variable that names it".to_owned(),
        ),
        Err(failure) => Warning(
            format!("{}, so {without}", failure.in_a_line()),
            "make install".to_owned(),
        ),
    }
}

fn open_files() -> Finding {
    match requirements::few_open_files() {
        None => Well("enough".to_owned()),
        Some(limit) => Warning(
            format!("only {limit} may be open"),
            "ulimit -n 65536".to_owned(),
        ),
    }
}

fn memfd() -> Finding {
    match memfd_create("hearth-doctor", MemfdFlags::CLOEXEC) {
        Ok(_) => Well("works".to_owned()),
        Err(error) => Warning(error.to_string(), "needs Linux 3.17 or later".to_owned()),
    }
}

fn memory() -> Finding {
    let free = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = free
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemAvailable:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .map_or(Size(u64::MAX), |kib: u64| Size(kib << 10));
    let shared = statvfs("/dev/shm").map_or(free, |stat| Size(stat.f_bavail * stat.f_frsize));
    if free < SHARED_MEMORY_MIN {
        return Warning(
            format!("{free} are free"),
            "use a smaller --pool".to_owned(),
        );
    }
    if shared < SHARED_MEMORY_MIN {
        return Warning(
            format!("{shared} are free in /dev/shm"),
            "use a smaller --pool".to_owned(),
        );
    }
    Well(format!("{free} are free"))
}
