//! This rank's agent: asleep until a file is opened, by this rank or by another.
//!
//! Asleep it is one thread that waits for a caller on the agent's own port. Agents wait for each
//! other at their start, and connect to each other; so when one starts, all do.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_agent::net::Endpoint;
use hearth_agent::{Agent, AgentSettings, AgentStatus};
use hearth_client::{FileKey, PageRange, Revoker, Session};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::sys;

/// How long knocking at one rank may take.
const KNOCK_SPAN: Duration = Duration::from_secs(5);

/// The agents of a job, as one rank has them.
pub(crate) struct JobAgents {
    shared: Arc<Shared>,
    members: Vec<SocketAddr>,
    rank: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// The configuration that the agent will have; changed only while it sleeps.
    config: Mutex<AgentSettings>,
    changed: Condvar,
    /// Rung to start or end the agent.
    doorbell: OwnedFd,
}

enum State {
    Asleep,
    Starting,
    Up(Arc<Agent>),
    Failed(String),
    Over,
}

impl JobAgents {
    /// Puts an agent to sleep on its port.
    pub(crate) fn asleep(config: AgentSettings, endpoint: Endpoint) -> io::Result<JobAgents> {
        let members = config.members.clone();
        let rank = config.node as usize;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Asleep),
            config: Mutex::new(config),
            changed: Condvar::new(),
            doorbell: eventfd(0, EventfdFlags::CLOEXEC)?,
        });
        let own = Arc::clone(&shared);
        // The agent's threads are this one's children, and get no signals of the program either.
        let thread = sys::without_signals(|| {
            std::thread::Builder::new()
                .name("hearth".to_owned())
                .spawn(move || own.wait_and_start(endpoint))
        })?;
        Ok(JobAgents {
            shared,
            members,
            rank,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Whether the agent sleeps.
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(*self.shared.lock(), State::Asleep)
    }

    /// Makes the agent another than it was going to be. One that is awake stays as it is.
    pub(crate) fn shape(&self, change: impl FnOnce(&mut AgentSettings)) {
        if self.is_asleep() {
            let config = self.shared.config.lock();
            change(&mut config.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Starts all agents if they sleep. Ranks that do not call this as well must be knocked at.
    pub(crate) fn wake(&self, others_sleep: bool) -> Result<(), String> {
        if self.is_asleep() {
            self.shared.ring();
            if others_sleep {
                self.knock();
            }
        }
        let waiting = |state: &mut State| matches!(state, State::Asleep | State::Starting);
        let waited = self.shared.changed.wait_while(self.shared.lock(), waiting);
        match &*waited.unwrap_or_else(PoisonError::into_inner) {
            State::Up(_) => Ok(()),
            State::Failed(why) => Err(why.clone()),
            State::Asleep | State::Starting | State::Over => Err("the job is over".to_owned()),
        }
    }

    fn knock(&self) {
        for (rank, address) in self.members.iter().enumerate() {
            // One that cannot be reached is missed by all, who say so.
            if rank != self.rank {
                drop(TcpStream::connect_timeout(address, KNOCK_SPAN));
            }
        }
    }

    /// The agent's session, while it runs.
    pub(crate) fn session(&self) -> Option<Arc<dyn Session>> {
        self.agent().map(|agent| agent.session())
    }

    /// The counts of the agent, if one ran.
    pub(crate) fn status(&self) -> Option<AgentStatus> {
        self.agent().map(|agent| agent.status())
    }

    /// Brings every byte that this rank is home of to the store.
    pub(crate) fn flush(&self, span: Duration) -> Result<(), String> {
        let flushed = self.agent().map_or(Ok(()), |agent| agent.flush(span));
        flushed.map_err(|left| left.to_string())
    }

    /// Ends the agent, or its sleep.
    pub(crate) fn stop(&self) {
        self.shared.ring();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // One that is still starting finds that it is over.
        let before = std::mem::replace(&mut *self.shared.lock(), State::Over);
        self.shared.changed.notify_all();
        if let (Some(thread), State::Asleep | State::Up(_) | State::Failed(_)) = (thread, &before) {
            let _ = thread.join();
        }
        drop(before);
    }

    fn agent(&self) -> Option<Arc<Agent>> {
        match &*self.shared.lock() {
            State::Up(agent) => Some(Arc::clone(agent)),
            State::Asleep | State::Starting | State::Failed(_) | State::Over => None,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.doorbell, &1_u64.to_ne_bytes());
    }

    /// The life of the sleeping thread.
    fn wait_and_start(&self, endpoint: Endpoint) {
        {
            let sockets = endpoint.sockets();
            let sockets = sockets
                .iter()
                .map(|socket| PollFd::new(socket, PollFlags::IN));
            let doorbell = PollFd::new(&self.doorbell, PollFlags::IN);
            let mut called: Vec<_> = sockets.chain([doorbell]).collect();
            while poll(&mut called, None) == Err(rustix::io::Errno::INTR) {}
        }
        {
            let mut state = self.lock();
            if !matches!(*state, State::Asleep) {
                return;
            }
            *state = State::Starting;
        }
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Agent::start(config.clone(), endpoint);
        drop(config);
        let next = match started {
            Ok(agent) => {
                agent.session().attach(Arc::new(KeepsNothing));
                State::Up(Arc::new(agent))
            }
            Err(error) => State::Failed(with_causes(&error)),
        };
        let mut state = self.lock();
        if matches!(*state, State::Starting) {
            *state = next;
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Every read asks the agent, so there is never anything to drop.
struct KeepsNothing;

impl Revoker for KeepsNothing {
    fn revoke(&self, _: FileKey, _: Option<PageRange>, done: Box<dyn FnOnce() + Send>) {
        done();
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
