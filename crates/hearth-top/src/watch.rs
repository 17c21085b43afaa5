//! All agents that were seen since the start, with their last words.
//!
//! 1. An agent that was seen once stays, as one that is gone, until the program ends.
//! 2. Rates are of two answers of one process. A new process in the place of an old one begins anew.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hearth_agent::AgentStatus;

use crate::look::{AgentAnswer, AgentKey, AgentLook, Glance};
use crate::traffic::Traffic;

/// The agents.
#[derive(Debug, Default)]
pub struct Watch {
    agents: BTreeMap<AgentKey, Watched>,
}

/// One agent.
#[derive(Debug)]
pub struct Watched {
    /// Its process, if it is known.
    pub pid: Option<u32>,
    /// The place at which programs see the store through it.
    pub mount: String,
    /// Why it gave no answer to the last question, if it gave none.
    pub lost: Option<String>,
    /// Its last words; empty if it never answered.
    pub status: AgentStatus,
    /// Its counts since its start.
    pub total: Traffic,
    /// Its counts within the last interval, and how long that was.
    pub last: Option<(Traffic, Duration)>,
    answered: Option<Instant>,
}

impl Watch {
    /// Takes in one look.
    pub fn take(&mut self, look: Glance) {
        let at = look.at;
        let mut missing: Vec<AgentKey> = self.agents.keys().cloned().collect();
        for told in look.agents {
            missing.retain(|key| *key != told.key);
            let watched = self.agents.entry(told.key.clone()).or_default();
            watched.hear(told, at);
        }
        for key in missing {
            if let Some(watched) = self.agents.get_mut(&key) {
                watched.lose("gone".to_owned());
            }
        }
    }

    /// The agents, in the order of their sets and numbers.
    pub fn agents(&self) -> impl ExactSizeIterator<Item = (&AgentKey, &Watched)> {
        self.agents.iter()
    }

    /// One of them.
    pub fn agent(&self, key: &AgentKey) -> Option<&Watched> {
        self.agents.get(key)
    }

    /// Names of the sets, each once.
    pub fn jobs(&self) -> Vec<&str> {
        let mut jobs: Vec<&str> = self.agents.keys().map(|key| key.job.as_str()).collect();
        jobs.dedup();
        jobs
    }

    /// Counts of all agents together: since their start.
    pub fn total(&self) -> Traffic {
        let totals = self.agents.values().map(|agent| agent.total);
        totals.fold(Traffic::default(), |sum, more| sum + more)
    }

    /// And within the last interval, with its length.
    pub fn last(&self) -> (Traffic, Duration) {
        let last = self.agents.values().filter_map(|agent| agent.last);
        last.fold(Default::default(), |(sum, longest), (more, span)| {
            (sum + more, longest.max(span))
        })
    }
}

impl Default for Watched {
    fn default() -> Watched {
        Watched {
            pid: None,
            mount: "no mount".to_owned(),
            lost: None,
            status: AgentStatus::default(),
            total: Traffic::default(),
            last: None,
            answered: None,
        }
    }
}

impl Watched {
    fn hear(&mut self, told: AgentLook, at: Instant) {
        let is_same = self.pid == told.pid;
        self.pid = told.pid;
        let AgentAnswer { mount, status } = match told.answer {
            Ok(account) => account,
            Err(why) => return self.lose(why),
        };
        let total = Traffic::of(&status);
        let before = self.answered.filter(|_| is_same);
        self.last = before.map(|before| {
            let span = at.saturating_duration_since(before);
            (total.since(&self.total), span)
        });
        (self.lost, self.answered) = (None, Some(at));
        (self.mount, self.status, self.total) = (mount, status, total);
    }

    fn lose(&mut self, why: String) {
        self.lost = Some(why);
        self.last = None;
    }

    /// A count of the last interval, for each second of it; nothing before there was an interval.
    pub fn each_second(&self, count: impl Fn(&Traffic) -> u64) -> u64 {
        let last = self.last.as_ref();
        last.map_or(0, |(traffic, span)| {
            crate::traffic::each_second(count(traffic), *span)
        })
    }

    /// Other agents that are connected.
    pub fn peers_up(&self) -> usize {
        self.status.peers.iter().filter(|peer| peer.up).count()
    }

    /// The share of the pool that is in use, in percent.
    pub fn pool_percent(&self) -> u64 {
        let used = self.status.pool_used_bytes.saturating_mul(100);
        used.checked_div(self.status.pool_bytes).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Agent 0, of a process, after so many reads.
    fn told(pid: u32, reads: u64) -> AgentLook {
        let mut status = AgentStatus::default();
        status.counters.reads = reads;
        let mount = "/mnt".to_owned();
        let job = "job".to_owned();
        AgentLook {
            key: AgentKey { job, node: 0 },
            pid: Some(pid),
            answer: Ok(AgentAnswer { mount, status }),
        }
    }

    fn watch(looks: Vec<Vec<AgentLook>>) -> Watch {
        let begun = Instant::now();
        let mut watch = Watch::default();
        for (second, agents) in (0..).zip(looks) {
            let at = begun + Duration::from_secs(second);
            watch.take(Glance { at, agents });
        }
        watch
    }

    fn reads(watch: &Watch) -> Vec<u64> {
        let each = |(_, agent): (_, &Watched)| agent.each_second(|traffic| traffic.reads);
        watch.agents().map(each).collect()
    }

    #[test]
    fn rates_are_of_the_last_interval() {
        assert_eq!(reads(&watch(vec![vec![told(1, 100)]])), [0]);
        let twice = vec![vec![told(1, 100)], vec![told(1, 140)]];
        assert_eq!(reads(&watch(twice)), [40]);
    }

    #[test]
    fn a_new_process_in_an_old_place_begins_anew() {
        let watch = watch(vec![vec![told(1, 100)], vec![told(2, 130)]]);
        assert_eq!(reads(&watch), [0]);
    }

    #[test]
    fn an_agent_that_vanished_stays_as_gone() {
        let watch = watch(vec![vec![told(1, 100)], vec![told(1, 110)], vec![]]);
        let (_, agent) = watch.agents().next().unwrap();
        assert_eq!(agent.lost.as_deref(), Some("gone"));
        assert_eq!((reads(&watch), agent.total.reads), (vec![0], 110));
    }
}
