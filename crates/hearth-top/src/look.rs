//! One look at all agents that are watched.

use std::time::{Duration, Instant};

use hearth_agent::AgentStatus;
use hearth_set::control::{CallError, ControlRequest, Peer};
use hearth_set::failure::Failure;
use hearth_set::set::{Choice, ask_all_within, choose};
use hearth_set::takedown;
use serde_json::Value;

/// An agent that takes longer does not answer; the next look is near.
const ANSWER_SPAN: Duration = Duration::from_millis(900);

/// The answers of all agents at about one moment.
#[derive(Debug)]
pub struct Glance {
    /// The moment.
    pub at: Instant,
    /// The agents, in the order of their sets.
    pub agents: Vec<AgentLook>,
}

/// One agent, as it was found.
#[derive(Debug)]
pub struct AgentLook {
    /// Its set and its number there.
    pub key: AgentKey,
    /// Its process, if it is known.
    pub pid: Option<u32>,
    /// Its account, or why there is none.
    pub answer: Result<AgentAnswer, String>,
}

/// An agent among those of all sets of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentKey {
    /// The name of its set.
    pub job: String,
    /// Its number there.
    pub node: u32,
}

/// An agent's account of itself.
#[derive(Debug)]
pub struct AgentAnswer {
    /// The place at which programs see the store through it.
    pub mount: String,
    /// The status of the library.
    pub status: AgentStatus,
}

impl Glance {
    /// Asks all agents of the chosen sets. Fails if there is no such set.
    pub fn take(choice: &Choice) -> Result<Glance, Failure> {
        let mut agents = Vec::new();
        for set in choose(choice)? {
            let peers = set.peers();
            let answers = ask_all_within(&peers, &ControlRequest::Status, ANSWER_SPAN);
            let told = peers.iter().zip(answers);
            agents.extend(told.map(|(peer, answer)| AgentLook::new(&set.file.job, peer, answer)));
        }
        let at = Instant::now();
        Ok(Glance { at, agents })
    }
}

impl AgentLook {
    fn new(job: &str, peer: &Peer, answer: Result<Value, CallError>) -> AgentLook {
        let (job, node) = (job.to_owned(), peer.node);
        let why = |error| match error {
            CallError::Gone(_) => "gone".to_owned(),
            CallError::Starting(_) => "being started again".to_owned(),
            CallError::Silent(_) => "does not answer".to_owned(),
            CallError::Refused(failure) => failure.to_string(),
        };
        AgentLook {
            key: AgentKey { job, node },
            pid: peer.process.map(|process| process.pid),
            answer: answer.map(AgentAnswer::new).map_err(why),
        }
    }
}

impl AgentAnswer {
    /// Of an agent's answer about its status.
    pub fn new(answer: Value) -> AgentAnswer {
        let health = takedown::health(answer);
        let mount = match (&health.mount, health.users.len()) {
            (Some(at), _) => at.display().to_string(),
            (None, 0) => "no mount".to_owned(),
            (None, users) => format!("{users} x hearth run"),
        };
        let status = health.status();
        AgentAnswer { mount, status }
    }
}
