//! A place between agents and a daemon, where the way of each agent can be closed.
//!
//! The agent at the other end of a connection is known by its process, so all agents have one address
//! of the daemon and each has its own fate.

use super::HANG;
use hearth_set::failure::{Failure, OrFail};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes passed on at a time.
const PIECE_BYTES: usize = 4 << 10;

/// Time that each piece takes on a slow way.
const SLOWNESS: Duration = Duration::from_millis(15);

/// How the way of an agent is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    #[default]
    Open,
    /// Bytes wait here, also those of connections that their sender has given up.
    Held,
    /// There is none.
    Cut,
    /// Bytes take their time.
    Slow,
}

/// Ways to one daemon.
pub(super) struct Relay {
    shared: Arc<Shared>,
    at: PathBuf,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    daemon: PathBuf,
}

#[derive(Default)]
struct State {
    /// Agents by their processes.
    agents: BTreeMap<u32, usize>,
    ways: BTreeMap<usize, Way>,
    over: bool,
    /// Both ends of each connection, by its number, with the agent it is of.
    conns: BTreeMap<u64, (Option<usize>, [UnixStream; 2])>,
    made: u64,
}

impl Relay {
    /// Listens at `at` for connections to `daemon`.
    pub(super) fn start(at: &Path, daemon: &Path) -> Result<Relay, Failure> {
        let what = || format!("cannot listen at `{}`", at.display());
        let listener = UnixListener::bind(at).or_fail(what)?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            daemon: daemon.to_owned(),
        });
        let taken = Arc::clone(&shared);
        thread::spawn(move || taken.accept(&listener));
        let at = at.to_owned();
        Ok(Relay { shared, at })
    }

    /// The address for agents to connect to.
    pub(super) fn address(&self) -> String {
        self.at.display().to_string()
    }

    /// These are the agents, in their order.
    pub(super) fn meet(&self, pids: &[u32]) {
        let agents = pids.iter().copied().zip(0..).collect();
        self.shared.lock().agents = agents;
    }

    /// The way of an agent is now like this.
    pub(super) fn put(&self, agent: usize, way: Way) {
        let mut state = self.shared.lock();
        state.ways.insert(agent, way);
        if way == Way::Cut {
            state.conns.retain(|_, (of, ends)| {
                let cut = *of == Some(agent);
                if cut {
                    close(ends);
                }
                !cut
            });
        }
        self.shared.changed.notify_all();
    }

    /// Every way is open.
    pub(super) fn open_all(&self) {
        self.shared.lock().ways.clear();
        self.shared.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.over = true;
        state.conns.values().for_each(|(_, ends)| close(ends));
        drop(state);
        self.shared.changed.notify_all();
        // The listener's thread looks again.
        let _ = UnixStream::connect(&self.at);
    }
}

fn close(ends: &[UnixStream; 2]) {
    for end in ends {
        // It may be closed already.
        let _ = end.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Shared>, listener: &UnixListener) {
        while let Ok((near, _)) = listener.accept() {
            if self.lock().over {
                return;
            }
            let agent = self.agent_of(&near);
            if self.way(agent) != Some(Way::Cut)
                && let Err(error) = self.connect(near, agent)
            {
                log::debug!("a daemon is not there: {error}");
            }
        }
    }

    /// The agent at the other end; the command itself is none.
    fn agent_of(&self, near: &UnixStream) -> Option<usize> {
        let peer = rustix::net::sockopt::socket_peercred(near).ok()?;
        let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
        self.lock().agents.get(&pid).copied()
    }

    fn way(&self, agent: Option<usize>) -> Option<Way> {
        let agent = agent?;
        Some(self.lock().ways.get(&agent).copied().unwrap_or_default())
    }

    fn connect(self: &Arc<Shared>, near: UnixStream, agent: Option<usize>) -> io::Result<()> {
        let far = UnixStream::connect(&self.daemon)?;
        let ends = [near.try_clone()?, far.try_clone()?];
        let mut state = self.lock();
        state.made += 1;
        let number = state.made;
        state.conns.insert(number, (agent, ends));
        drop(state);
        let there = (near.try_clone()?, far.try_clone()?);
        for (from, to) in [there, (far, near)] {
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // A connection that breaks is what this is for.
                let _ = shared.pass_on(from, &to, agent);
                let _ = to.shutdown(Shutdown::Write);
                shared.lock().conns.remove(&number);
            });
        }
        Ok(())
    }

    fn pass_on(
        &self,
        mut from: UnixStream,
        mut to: &UnixStream,
        agent: Option<usize>,
    ) -> io::Result<()> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            let count = from.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            self.await_way(agent);
            to.write_all(&piece[..count])?;
        }
    }

    fn await_way(&self, agent: Option<usize>) {
        match self.way(agent) {
            Some(Way::Slow) => thread::park_timeout(SLOWNESS),
            Some(Way::Held) => {
                let agent = agent.unwrap_or_default();
                let held =
                    |state: &mut State| !state.over && state.ways.get(&agent) == Some(&Way::Held);
                let state = self.lock();
                drop(self.changed.wait_timeout_while(state, HANG, held));
            }
            Some(Way::Open | Way::Cut) | None => {}
        }
    }
}
