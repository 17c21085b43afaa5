//! Agents that die and start anew, with nothing.

use super::host::{DEAD, Host};
use super::{Event, World};
use hearth_proto::{Config, Input, Node, NodeId, Replicas, Span, Time};

impl Event {
    /// The node whose agent takes this in.
    pub(crate) fn taken_in_by(&self) -> Option<usize> {
        match self {
            Event::Asked { node, .. }
            | Event::StoreTells { node, .. }
            | Event::Revokes { node }
            | Event::Revoked { node, .. } => Some(*node),
            Event::Arrives { to, .. } => Some(*to as usize),
            Event::Down { node, .. } => Some(*node as usize),
            Event::Forged { to, .. } => Some(*to),
            Event::BankTells { node, .. }
            | Event::BankFails { node, .. }
            | Event::BankBreaks { node, .. }
            | Event::BankConnects { node, .. }
            | Event::Brings { node }
            | Event::Recovered { node }
            | Event::Viewed { node, .. } => Some(*node),
            Event::Think { .. }
            | Event::Answered { .. }
            | Event::StoreRuns { .. }
            | Event::Mend { .. }
            | Event::Reset { .. }
            | Event::Restarts { .. }
            | Event::BankRuns { .. }
            | Event::BankReturns { .. }
            | Event::Decides
            | Event::Excludes => None,
        }
    }
}

impl World {
    /// An agent dies: what it held is gone, its sessions lose their handles and what they waited for.
    pub(crate) fn crash(&mut self, node: usize) {
        if !self.hosts[node].is_alive() || self.is_beyond_promise() {
            return;
        }
        self.faults.crashed += 1;
        match self.plan.has_views() {
            true => self.doubt_histories(),
            false => self.part_histories(),
        }
        self.deaths += 1;
        self.lose_unsealed(node as u32, None);
        self.write_down(|| format!("{node}  dies"));
        self.forget_events(node);
        self.leave_bank(node);
        for object in std::mem::take(&mut self.hosts[node].handles).into_values() {
            self.store.objects[object].users -= 1;
        }
        for session in 0..self.sessions.len() {
            if self.sessions[session].node != node {
                continue;
            }
            self.sessions[session].handles.clear();
            self.sessions[session].finished = false;
            if let Some(doing) = self.sessions[session].doing.take() {
                self.store.objects[doing.object].users -= 1;
                self.rest(session);
            }
        }
        let mut config = Config {
            incarnation: self.hosts[node].node().config().incarnation + 1,
            ..self.plan.config(NodeId(node as u32))
        };
        config.bank.rejoins = true;
        config.rejoins = true;
        let tier = self.hosts[node].tier.outlive();
        self.hosts[node] = Host::new(Node::new(config));
        self.hosts[node].paused = DEAD;
        if self.plan.has_views() {
            self.hosts[node].tier = tier;
        }
        if self.plan.has_views() {
            return self.lose_member(node);
        }
        for peer in (0..self.plan.nodes).filter(|&peer| peer as usize != node) {
            self.cut_link(node as u32, peer);
        }
        if self.plan.returns {
            let out = Span::millis(self.rng.below(match self.plan.hurries {
                true => 60,
                false => 4_000,
            }));
            self.after(out, Event::Restarts { node });
        }
    }

    /// Agents that live have heard of every death so far, and nothing else has parted them.
    pub(crate) fn have_all_heard(&self) -> bool {
        let (alive, away): (Vec<&Host>, Vec<&Host>) =
            self.hosts.iter().partition(|host| host.is_alive());
        let knows = |host: &&Host, of: &Host| host.node().is_gone(of.node().config().me);
        !self.parted
            && alive
                .iter()
                .all(|host| away.iter().all(|of| knows(host, of)))
    }

    /// Replicas are promised for one death after another: one more before everybody has heard of the last, or while some
    /// file has fewer copies than it should have, may cost bytes. An agent that is away and known to be may stay away.
    /// Shards are promised for as many deaths as there are parity shards until all is so again.
    fn is_beyond_promise(&mut self) -> bool {
        let (alive, away): (Vec<&Host>, Vec<&Host>) =
            self.hosts.iter().partition(|host| host.is_alive());
        let knows = |host: &&Host| {
            let mut away = away.iter().map(|host| host.node().config().me);
            away.all(|node| host.node().is_gone(node)) && host.node().status().at_risk == 0
        };
        // One that is back already may not have been missed by everybody yet.
        let told = |event: &Event| matches!(event, Event::Down { .. });
        let unheard = self.queue.values().any(told);
        let (is_well, alive) = (!unheard && alive.iter().all(knows), alive.len());
        if is_well {
            self.deaths = 0;
        }
        match self.plan.replicas {
            Replicas::None => false,
            Replicas::Async(_) | Replicas::Sync(_) => alive < 2 || !is_well,
            Replicas::Erasure(_, parity) => alive < 2 || self.deaths >= u32::from(parity),
        }
    }

    pub(crate) fn restart(&mut self, node: usize) {
        if self.plan.has_views() {
            return self.rejoin(node);
        }
        self.hosts[node].paused = Time(0);
        self.parted = true;
        self.write_down(|| format!("{node}  starts anew"));
        for peer in (0..self.plan.nodes).filter(|&peer| peer as usize != node) {
            self.step(node, Input::PeerDown(NodeId(peer)));
        }
        self.connect_bank(node);
    }

    /// Nothing reaches the agent any more; store writes of its may still be done.
    fn forget_events(&mut self, node: usize) {
        let mut now = Vec::new();
        let queue = std::mem::take(&mut self.queue);
        for (key, event) in queue {
            let event = match event {
                Event::StoreRuns { node: of, job } if of == node => {
                    let Some(job) = self.outlive(node, *job) else {
                        self.store_busy -= 1;
                        continue;
                    };
                    // Replicas are promised where the store has what it will have of a node's writes when its end is
                    // heard of: no agent can fence a mounted file system.
                    if self.plan.replicas != Replicas::None || self.plan.has_views() {
                        match self.rng.chance(50) {
                            true => now.push(job),
                            false => self.store_busy -= 1,
                        }
                        continue;
                    }
                    let job = Box::new(job);
                    Event::StoreRuns { node, job }
                }
                Event::StoreTells { node: of, .. } if of == node => {
                    self.store_busy -= 1;
                    continue;
                }
                Event::Answered { call, .. } if self.sessions[call.session].node == node => {
                    continue;
                }
                // Both sides of a broken connection are told, so that it can be mended.
                Event::Down { .. } | Event::Arrives { .. } => event,
                event if event.taken_in_by() == Some(node) => continue,
                event => event,
            };
            self.queue.insert(key, event);
        }
        now.into_iter().for_each(|job| self.run_job(node, job));
    }
}
