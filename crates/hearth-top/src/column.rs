//! The columns of the table of agents.

use std::cmp::Reverse;

use crate::look::AgentKey;
use crate::watch::{Watch, Watched};
use crate::words;

/// One column; all but the first hold numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// Its number, and its set if there are several.
    #[default]
    Agent,
    /// Reads of programs, each second.
    Reads,
    /// Writes of programs, each second.
    Writes,
    /// Bytes that programs read and wrote, each second.
    Bytes,
    /// Share of the pool in use.
    Pool,
    /// Bytes that the store lacks.
    Dirty,
    /// Pages that left the pool, each second.
    Evictions,
    /// Messages to other agents, each second.
    Messages,
    /// Requests of programs without an answer.
    Open,
    /// Other agents that are connected.
    Peers,
}

impl Column {
    /// Every one, in the order in which they are shown; the last go first where there is no room.
    pub const ALL: [Column; 10] = [
        Column::Agent,
        Column::Reads,
        Column::Writes,
        Column::Bytes,
        Column::Pool,
        Column::Dirty,
        Column::Evictions,
        Column::Messages,
        Column::Open,
        Column::Peers,
    ];

    /// The next one, after the last the first.
    pub fn next(self) -> Column {
        Column::ALL[(self as usize + 1) % Column::ALL.len()]
    }

    /// Its head.
    pub fn head(self) -> &'static str {
        match self {
            Column::Agent => "agent",
            Column::Reads => "reads/s",
            Column::Writes => "writes/s",
            Column::Bytes => "bytes/s",
            Column::Pool => "pool",
            Column::Dirty => "dirty",
            Column::Evictions => "evict/s",
            Column::Messages => "msgs/s",
            Column::Open => "open",
            Column::Peers => "peers",
        }
    }

    /// The cell of an agent; but for its name, one that is lost has none.
    pub fn cell(self, watch: &Watch, key: &AgentKey, agent: &Watched) -> String {
        let rate = |count: u64| words::count(count);
        match self {
            Column::Agent => name(watch, key),
            _ if agent.lost.is_some() => "-".to_owned(),
            Column::Pool => words::percent(Some(agent.pool_percent())),
            Column::Bytes | Column::Dirty => words::bytes(self.number(agent)),
            Column::Peers => format!("{}/{}", agent.peers_up(), agent.status.peers.len()),
            _ => rate(self.number(agent)),
        }
    }

    fn number(self, agent: &Watched) -> u64 {
        match self {
            Column::Agent => 0,
            Column::Reads => agent.each_second(|traffic| traffic.reads),
            Column::Writes => agent.each_second(|traffic| traffic.writes),
            Column::Bytes => agent.each_second(|traffic| traffic.bytes()),
            Column::Pool => agent.pool_percent(),
            Column::Dirty => agent.status.dirty_bytes,
            Column::Evictions => agent.each_second(|traffic| traffic.evictions),
            Column::Messages => agent.each_second(|traffic| traffic.messages),
            Column::Open => agent.status.requests_open as u64,
            Column::Peers => agent.peers_up() as u64,
        }
    }

    /// Agents by this column: names upwards, numbers downwards.
    pub fn sorted(self, watch: &Watch) -> Vec<(&AgentKey, &Watched)> {
        let mut agents: Vec<_> = watch.agents().collect();
        // Stable: agents that are alike stay in the order of their names.
        agents.sort_by_key(|(_, agent)| Reverse(self.number(agent)));
        agents
    }
}

/// An agent's name among all that are shown.
pub(crate) fn name(watch: &Watch, key: &AgentKey) -> String {
    match watch.jobs().len() {
        0 | 1 => key.node.to_string(),
        _ => format!("{}/{}", key.job, key.node),
    }
}
