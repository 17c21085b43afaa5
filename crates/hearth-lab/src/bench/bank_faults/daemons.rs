//! Daemons that a schedule harms.

use super::HANG;
use super::faults::Fault;
use super::relay::{Relay, Way};
use crate::bench::cells::BLOCK;
use hearth_bank::daemon::{self, DaemonPlan, End, Seat, StartedDaemon};
use hearth_bank::item;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::process::Process;
use rustix::process::Signal;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Memory of a daemon, the least it takes: entries of others soon fill it.
const MEMORY_BYTES: u64 = 1 << 20;

/// Entries of others that fill a daemon.
const JUNK: usize = 600;

/// A daemon and the ways to it.
struct Seated {
    plan: DaemonPlan,
    at: PathBuf,
    started: Option<StartedDaemon>,
    relay: Relay,
}

/// All daemons of a set; dropping it ends them.
pub(super) struct Bank(Vec<Seated>);

impl Bank {
    pub(super) fn start(dir: &Path, count: usize) -> Result<Bank, Failure> {
        let daemons = (0..count).map(|number| {
            let at = dir.join(format!("daemon{number}.sock"));
            let plan = DaemonPlan {
                seat: Seat::Unix(at.clone()),
                memory_bytes: MEMORY_BYTES,
                item_bytes: item::room_for(BLOCK),
                dir: dir.to_owned(),
                end: End::WithStarter,
            };
            let relay = Relay::start(&dir.join(format!("relay{number}.sock")), &at)?;
            let started = Some(start(&plan)?);
            Ok(Seated {
                plan,
                at,
                started,
                relay,
            })
        });
        daemons.collect::<Result<_, Failure>>().map(Bank)
    }

    /// Addresses for agents to connect to.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|seated| seated.relay.address()).collect()
    }

    /// These are the agents.
    pub(super) fn meet(&self, agents: &[Process]) {
        let pids: Vec<u32> = agents.iter().map(|process| process.pid).collect();
        self.0.iter().for_each(|seated| seated.relay.meet(&pids));
    }

    pub(super) fn suffer(&mut self, fault: &Fault) -> Result<(), Failure> {
        match *fault {
            Fault::Kill(daemon) => self.0[daemon].kill(),
            Fault::Restart(daemon) => self.0[daemon].restart(),
            Fault::Stop(daemon) => self.0[daemon].signal(Signal::STOP),
            Fault::Continue(daemon) => self.0[daemon].signal(Signal::CONT),
            Fault::Fill(daemon) => self.0[daemon].fill(),
            Fault::Hold(agent, daemon) => self.put(agent, daemon, Way::Held),
            Fault::Cut(agent, daemon) => self.put(agent, daemon, Way::Cut),
            Fault::Slow(agent, daemon) => self.put(agent, daemon, Way::Slow),
            Fault::Open(agent, daemon) => self.put(agent, daemon, Way::Open),
            // Not a daemon's.
            Fault::Pause | Fault::Resume => Ok(()),
        }
    }

    fn put(&self, agent: usize, daemon: usize, way: Way) -> Result<(), Failure> {
        self.0[daemon].relay.put(agent, way);
        Ok(())
    }

    /// All of them run, and everybody reaches them.
    pub(super) fn heal(&mut self) -> Result<(), Failure> {
        self.0.iter_mut().try_for_each(|seated| {
            seated.relay.open_all();
            seated.signal(Signal::CONT)?;
            match seated.started {
                Some(_) => Ok(()),
                None => seated.restart(),
            }
        })
    }
}

fn start(plan: &DaemonPlan) -> Result<StartedDaemon, Failure> {
    let started = daemon::start(plan);
    started.map_err(|error| Failure::new("cannot start a daemon of the bank").because(error))
}

impl Seated {
    fn kill(&mut self) -> Result<(), Failure> {
        match self.started.take() {
            None => Ok(()),
            Some(mut started) => {
                let ended = started.child.kill().and_then(|()| started.child.wait());
                ended
                    .map(drop)
                    .or_fail(|| "cannot kill a daemon".to_owned())
            }
        }
    }

    fn restart(&mut self) -> Result<(), Failure> {
        self.kill()?;
        self.started = Some(start(&self.plan)?);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let child = self.started.as_ref().map(|started| started.child.id());
        match child.and_then(Process::of) {
            None => Ok(()),
            Some(process) => process
                .signal(signal)
                .or_fail(|| "cannot signal a daemon".to_owned()),
        }
    }

    /// Has a daemon forget, by entries of others. One that stands still has to be woken.
    fn fill(&self) -> Result<(), Failure> {
        if self.started.is_none() {
            return Ok(());
        }
        self.signal(Signal::CONT)?;
        let junk = "x".repeat(BLOCK);
        let filled = UnixStream::connect(&self.at).and_then(|mut daemon| {
            daemon.set_write_timeout(Some(HANG))?;
            (0..JUNK).try_for_each(|entry| {
                let line = format!("set junk{entry} 0 0 {BLOCK} noreply\r\n{junk}\r\n");
                daemon.write_all(line.as_bytes())
            })
        });
        filled.or_fail(|| "cannot fill a daemon".to_owned())
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        if let Err(failure) = self.kill() {
            eprintln!("{failure}");
        }
    }
}
