//! `hearth warden`: ends a mount whose agent was killed.
//!
//! The operating system ends a mount when its agent's last thread does. One that it keeps waiting, until a program in the
//! mount goes on, never ends; and the program waits for the agent. So a process of its own hears of the agent's death, and
//! ends what programs wait for: they get `ENOTCONN`.

use std::fs::{self, File};
use std::process::ExitCode;
use std::time::Duration;

use hearth_set::failure::{Failure, OrFail};
use hearth_set::process::timespec;
use hearth_set::signals::{ENDS, Signals};
use hearth_set::unmount::{abort, end_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::stdio::stdin;

/// Options of `hearth warden`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of the mount's connection
    connection: u32,
    /// The agent's process
    #[arg(long, value_name = "PID")]
    agent: u32,
}

/// An agent that was killed is dead within so many looks after its first thread has ended.
const LOOKS: u32 = 100;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Waits for a byte on standard input, by which an agent says that it ends in order, or for its death.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let end = end_of(args.connection).or_fail(|| {
        let number = args.connection;
        format!("programs may wait for ever if the agent is killed: no end of connection {number}")
    })?;
    let signals = Signals::catch(ENDS)?;
    set_parent_process_death_signal(Some(Signal::TERM))
        .or_fail(|| "cannot hear of an agent's death".to_owned())?;
    let mut looks = 0;
    loop {
        if is_dead(args.agent) {
            return abort_by(&end);
        }
        let limit = (looks > 0).then(|| timespec(LOOK_AGAIN));
        let mut fds: Vec<PollFd<'_>> = signals
            .fds()
            .chain([stdin()])
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // It fails when a signal comes, which is looked at below.
        let _ = poll(&mut fds, limit.as_ref());
        let is_told = fds.last().is_some_and(|fd| !fd.revents().is_empty());
        looks = match signals.take().is_empty() {
            true => u32::saturating_sub(looks, 1),
            // The agent's, or somebody else's.
            false => LOOKS,
        };
        if is_told {
            return match rustix::io::read(stdin(), &mut [0; 1][..]) {
                Ok(1) => Ok(ExitCode::SUCCESS),
                Ok(_) | Err(_) => abort_by(&end),
            };
        }
    }
}

/// True for a process whose first thread has ended: others may wait for what never comes.
fn is_dead(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

fn abort_by(end: &File) -> Result<ExitCode, Failure> {
    abort(end).or_fail(|| "cannot end a mount".to_owned())?;
    Ok(ExitCode::SUCCESS)
}
