//! The first steps of an agent's process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
    setsid,
};

use crate::os::close_inherited;
use hearth_set::agent::NodeConfig;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::job::{JobDir, SetOwner};
use hearth_set::launch;
use hearth_set::process::Process;

/// The descriptors that the starting command left in the standard places.
pub(super) struct Inherited {
    /// The socket at which the other members reach this one.
    pub(super) listener: OwnedFd,
    pub(super) report: File,
}

/// Leaves the terminal and the descriptors of the command that started this process.
pub(super) fn detach() -> Result<Inherited, Failure> {
    detach_all()
        .or_fail(|| "cannot start an agent outside of `hearth up` or `hearth run`".to_owned())
}

fn detach_all() -> io::Result<Inherited> {
    close_inherited()?;
    let listener = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::net::getsockname(&listener)?;
    let report = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let nothing = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    // A session of its own: Ctrl-C is for the command, which then ends its agents in order.
    setsid()?;
    Ok(Inherited { listener, report })
}

/// Lifts limits that the shell of the starting command meant for other programs.
pub(super) fn lift_limits() -> Result<(), Failure> {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = getrlimit(resource);
        let lifted = Rlimit {
            current: limit.maximum,
            ..limit
        };
        if let Err(error) = setrlimit(resource, lifted) {
            log::warn!("cannot lift the limit {resource:?}: {error}");
        }
    }
    // Beyond the hard limit a write fails with an error, and programs get that; the signal would end all.
    let nobody_looks = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(Signal::XFSZ.as_raw(), nobody_looks)
        .map(drop)
        .or_fail(|| "cannot catch signals".to_owned())
}

/// The socket at which an agent that takes another's place is reached: at the same address.
pub(super) fn listen(config: &NodeConfig) -> Result<OwnedFd, Failure> {
    let address = config.members[config.node as usize];
    Ok(launch::listen(&config.spec, address)?.into_fd())
}

/// Registers this process as the agent, in the place of one that died.
pub(super) fn register(dir: &JobDir, node: u32) -> Result<(), Failure> {
    let me = Process::of(std::process::id())
        .ok_or_else(|| Failure::new("cannot find this process in /proc"))?;
    dir.change_set(|set| {
        let mut agents = set.agents.iter_mut();
        if let Some(entry) = agents.find(|entry| entry.node == node) {
            entry.process = me;
        }
    })?;
    // From here on commands end it by its own number.
    set_parent_process_death_signal(None).or_fail(|| "cannot outlive the warden".to_owned())
}

/// Sockets that the dead agent listened at are not in the way.
pub(super) fn clear_sockets(sockets: [&Path; 3]) {
    for socket in sockets {
        // One that stays shows when the next is made.
        let _ = std::fs::remove_file(socket);
    }
}

/// Ends this process, as by SIGTERM, when its owner ends.
pub(super) fn die_with_owner(owner: SetOwner) -> Result<(), Failure> {
    let SetOwner::Command(Process { pid, .. }) = owner else {
        return Ok(());
    };
    let what = || "cannot follow the command that owns this agent".to_owned();
    set_parent_process_death_signal(Some(Signal::TERM)).or_fail(what)?;
    // It may have ended before the line above.
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get().cast_unsigned());
    if parent == Some(pid) {
        Ok(())
    } else {
        Err(Failure::new(what()).cause("it has ended already"))
    }
}
