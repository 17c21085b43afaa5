//! `hearth enter`: the second half of `hearth run`, in the process that becomes the command.
//!
//! A process of its own, because only one with a single thread may make a user namespace.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getgroups, getppid, set_parent_process_death_signal};

use crate::namespace::Entrance;
use crate::pool;
use hearth_set::control::Peer;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::job::BEHIND;
use hearth_set::options::Others;

/// Options of `hearth enter`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The store's true path
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// The agent's number
    #[arg(long, value_name = "N")]
    node: u32,
    /// Socket of the agent
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Let other users into the mount
    #[arg(long)]
    allow_other: bool,
    /// The process to end with
    #[arg(long, value_name = "PID")]
    owner: i32,
    /// Tell the command where the agent's pool is
    #[arg(long)]
    pool: bool,
    /// Command to run
    #[arg(last = true, required = true, num_args = 1..)]
    command: Vec<OsString>,
}

/// Enters the namespaces and becomes the command.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let entrance = Entrance {
        peer: Peer {
            node: args.node,
            process: None,
            warden: None,
            socket: args.socket.clone(),
        },
        store: args.store.clone(),
        others: if args.allow_other {
            Others::Allowed
        } else {
            Others::Refused
        },
        lock: args.socket.with_extension("lock"),
        behind: args.socket.with_extension(BEHIND),
    };
    let groups = getgroups().or_fail(|| "cannot tell whose groups these are".to_owned())?;
    let users = users();
    let behind = entrance.enter()?;
    let hidden = (users != self::users()).then_some(groups.as_slice());
    // Last: to change users takes the wish back.
    die_with(args.owner)?;
    // Without it programs use the mount.
    let told = match args.pool {
        true => pool::environment(&args.store, &args.socket, behind.as_deref(), hidden).ok(),
        false => None,
    };
    become_command(&args.command, told.unwrap_or_default())
}

/// The user namespace of this process.
fn users() -> Option<PathBuf> {
    std::fs::read_link("/proc/self/ns/user").ok()
}

/// Ends the command, as by SIGTERM, when `hearth run` is killed: its files end with its agents.
fn die_with(owner: i32) -> Result<(), Failure> {
    let what = || "cannot follow `hearth run`".to_owned();
    set_parent_process_death_signal(Some(Signal::TERM)).or_fail(what)?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent == Some(owner) {
        Ok(())
    } else {
        Err(Failure::new(what()).cause("it has ended"))
    }
}

fn become_command(
    command: &[OsString],
    told: Vec<(&'static str, OsString)>,
) -> Result<ExitCode, Failure> {
    let [program, args @ ..] = command else {
        unreachable!("the command line requires a command");
    };
    let mut command = Command::new(program);
    command.args(args).envs(told);
    let error = command.exec();
    Ok(cannot_run(program, &error))
}

/// Says why a program cannot be run, with the exit code that shells use.
pub(crate) fn cannot_run(program: &OsString, error: &io::Error) -> ExitCode {
    let what = format!("cannot run `{}`", program.display());
    hearth_client::say!("{}", Failure::new(what).because(error));
    match error.kind() {
        io::ErrorKind::NotFound => ExitCode::from(127),
        _ => ExitCode::from(126),
    }
}
