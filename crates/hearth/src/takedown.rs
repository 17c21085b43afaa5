//! Ends a set: flush, unmount, flush, stop, look whether everything is gone, clear up.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::agent::Health;
use crate::bank;
use crate::control::{Busy, CallError, Peer, Request, call};
use crate::failure::{Failure, OrFail};
use crate::mountinfo::{self, Service};
use crate::set::{Life, Set, ask_all};
use crate::unmount::unmount_at;

/// How long an agent that was told to stop may take before it gets a signal, and then another.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a set is ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// What to do about bytes that the store does not have.
    pub(crate) dirty: Dirty,
    /// What to do about programs that still use it.
    pub(crate) busy: Busy,
}

impl How {
    /// For a set that nobody has used yet.
    pub(crate) const AT_ONCE: How = How {
        dirty: Dirty::Discard,
        busy: Busy::Detach,
    };
}

/// What to do about bytes that the store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirty {
    /// Flush them; if that fails, leave the set up.
    Flush,
    /// Forget them.
    Discard,
}

/// Ends a set; comes back with what people should know, once nothing of it is left.
pub(crate) fn take_down(set: &Set, how: How) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    if set.life() != Life::Dead {
        if how.busy == Busy::Refuse {
            check_unused(set)?;
        }
        if how.dirty == Dirty::Flush {
            notes = flush(set)?;
        }
        unmount(set, how)?;
        if how.dirty == Dirty::Flush {
            flush(set)?;
        }
        stop(set, how.dirty)?;
    } else {
        notes.push("its agents were gone; what they had not flushed is lost".to_owned());
    }
    clear(set)?;
    Ok(notes)
}

/// Brings everything to the store. Agents that are gone are named in the answer.
pub(crate) fn flush(set: &Set) -> Result<Vec<String>, Failure> {
    let mut gone = Vec::new();
    let peers = set.peers();
    for (peer, answer) in peers.iter().zip(ask_all(&peers, &Request::Flush)) {
        match answer {
            Ok(_) => {}
            Err(CallError::Gone(who)) => {
                gone.push(format!("{who} is gone; what it had not flushed is lost"));
            }
            Err(CallError::Refused(failure)) => {
                return Err(Failure::new(format!("{peer} could not flush")).after(failure));
            }
            Err(silent) => return Err(silent.into_failure()),
        }
    }
    Ok(gone)
}

/// Removes what a set left whose agents are all gone.
pub(crate) fn clear(set: &Set) -> Result<(), Failure> {
    assert!(set.life() == Life::Dead, "a living set is not cleared");
    for mount in &set.file.mounts {
        detach_stale(&mount.at)?;
    }
    bank::end(&set.file.bank)?;
    set.dir.remove()
}

/// Takes a mount away that nobody serves; anything else stays.
pub(crate) fn detach_stale(at: &Path) -> Result<(), Failure> {
    let what = || format!("cannot unmount `{}`", at.display());
    let mounts = mountinfo::read().or_fail(what)?;
    let is_ours = |mount: &&mountinfo::MountPoint| mount.at == at && mount.is_hearth();
    match mounts.iter().rfind(is_ours) {
        Some(mount) if mount.service() == Service::Gone => {
            unmount_at(at, Busy::Detach).or_fail(what)
        }
        _ => Ok(()),
    }
}

/// Fails if commands are inside of namespaces that an agent serves.
fn check_unused(set: &Set) -> Result<(), Failure> {
    let answers = ask_all(&set.peers(), &Request::Status);
    for health in answers.into_iter().flatten().map(health) {
        if let Some(user) = health.users.first() {
            let what = format!(
                "job {} is in use by `hearth run` (pid {user})",
                set.file.job
            );
            return Err(Failure::new(what).hint("let it end, or end the set under it with --force"));
        }
    }
    Ok(())
}

/// An agent's answer about itself, as far as it can be read.
pub(crate) fn health(value: serde_json::Value) -> Health {
    serde_json::from_value(value).unwrap_or_default()
}

fn unmount(set: &Set, how: How) -> Result<(), Failure> {
    let busy = match how.dirty {
        Dirty::Flush => how.busy,
        // Their bytes are given up; so is their mount.
        Dirty::Discard => Busy::Detach,
    };
    for mount in &set.file.mounts {
        let Some(agent) = set
            .file
            .agents
            .iter()
            .find(|agent| agent.node == mount.node)
        else {
            continue;
        };
        let at = mount.at.clone();
        match call(&set.peer(agent), &Request::Unmount { at, busy }) {
            Ok(_) => {}
            // Nothing is mounted there any more.
            Err(CallError::Refused(failure)) if failure.exit_code() == 1 => {}
            Err(CallError::Gone(_)) => detach_stale(&mount.at)?,
            Err(CallError::Silent(_)) if how.dirty == Dirty::Discard => {}
            Err(error) => return Err(error.into_failure()),
        }
    }
    Ok(())
}

fn stop(set: &Set, dirty: Dirty) -> Result<(), Failure> {
    let peers = set.peers();
    if dirty == Dirty::Flush {
        // Whether they have heard it shows below.
        drop(ask_all(&peers, &Request::Stop));
    }
    for peer in &peers {
        end(peer, dirty)?;
    }
    Ok(())
}

fn end(peer: &Peer, dirty: Dirty) -> Result<(), Failure> {
    let what = || format!("cannot end {peer}");
    let process = peer.process.expect("agents of a set are known by process");
    if dirty == Dirty::Flush && process.wait_gone(PATIENCE).or_fail(what)? {
        return Ok(());
    }
    let signals: &[Signal] = match dirty {
        Dirty::Flush => &[Signal::TERM, Signal::KILL],
        Dirty::Discard => &[Signal::KILL],
    };
    for signal in signals {
        process.signal(*signal).or_fail(what)?;
        if process.wait_gone(PATIENCE).or_fail(what)? {
            return Ok(());
        }
    }
    Err(Failure::new(what()).cause("the kernel holds it in a call that does not end"))
}
