//! Members that come and go in order, and views that begin without a reason.
//!
//! Nodes with sessions stay. The others are *spares*: they are homes and managers while they are members. The world has
//! the log of views: one number after another, and every node hears of each at a time of its own.

use super::host::{DEAD, Host};
use super::{Event, World};
use hearth_proto::{Config, Input, Node, NodeId, Span, Time, View};
use std::collections::{BTreeMap, BTreeSet};

/// A node and which life of it.
type Life = (NodeId, u64);

/// The last view that was decided.
#[derive(Clone, Debug)]
pub(crate) struct Views {
    number: u32,
    members: Vec<NodeId>,
    /// Nodes that leave, and have not left.
    leaving: Vec<NodeId>,
    /// Changes to come.
    left: u32,
    /// Agents that are gone and have not started anew.
    lost: BTreeSet<NodeId>,
    /// The last members that each node was told of, with their lives.
    told: BTreeMap<NodeId, Vec<Life>>,
    /// When each node hears of the last view: of views in their order.
    heard: BTreeMap<NodeId, Time>,
}

impl Views {
    /// All nodes, and so many changes to come.
    pub(crate) fn new(nodes: u32, changes: u32) -> Views {
        Views {
            number: 1,
            members: (0..nodes).map(NodeId).collect(),
            leaving: Vec::new(),
            left: changes,
            lost: BTreeSet::new(),
            told: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }
}

impl World {
    /// The first change of the view, if there are any.
    pub(crate) fn begin_views(&mut self) {
        if self.views.left > 0 {
            let span = Span::millis(self.rng.below(200));
            self.after(span, Event::Decides);
        }
    }

    /// The next view is decided: a spare comes or goes, or nobody does.
    pub(crate) fn decide_view(&mut self) {
        self.note_left();
        let is_under_way = |host: &Host| host.is_alive() && host.member.stage().is_some();
        let waits = self.hosts.iter().any(is_under_way) && !self.rng.chance(5);
        if self.healed || waits {
            if !self.healed {
                self.after(Span::millis(5), Event::Decides);
            }
            return;
        }
        self.views.left -= 1;
        self.views.number += 1;
        self.faults.views += 1;
        if self.plan.spares > 0 && self.rng.chance(85) {
            let first = self.plan.nodes - self.plan.spares;
            let spare = NodeId(first + self.rng.below(u64::from(self.plan.spares)) as u32);
            match self.views.members.iter().position(|&node| node == spare) {
                Some(at) => {
                    self.views.members.remove(at);
                    self.views.leaving.push(spare);
                }
                None if self.views.leaving.contains(&spare) => {}
                None if self.views.lost.contains(&spare) => {}
                None => self.join(spare),
            }
        }
        self.tell_view();
        if self.views.left > 0 {
            let span = Span::millis(self.rng.below(600));
            self.after(span, Event::Decides);
        }
    }

    fn note_left(&mut self) {
        let hosts = &self.hosts;
        let has_left = |node: &NodeId| hosts[node.0 as usize].member.has_left();
        let left: Vec<NodeId> = self
            .views
            .leaving
            .extract_if(.., |node| has_left(node))
            .collect();
        for node in left {
            self.hosts[node.0 as usize].paused = DEAD;
        }
    }

    /// An agent is gone. Its lease has to run out before the others go on without it.
    pub(super) fn lose_member(&mut self, node: usize) {
        let id = NodeId(node as u32);
        for peer in (0..self.plan.nodes).filter(|&peer| peer != id.0) {
            self.links.drop_messages(id.0, peer);
        }
        self.views.members.retain(|&member| member != id);
        self.views.leaving.retain(|&member| member != id);
        self.views.lost.insert(id);
        let lease = Span::millis(self.rng.below(3_000));
        self.after(lease, Event::Excludes);
        if self.plan.returns {
            let out = Span(lease.0 + Span::millis(self.rng.below(3_000)).0);
            self.after(out, Event::Restarts { node });
        }
    }

    /// An agent is gone, and all others hear of the view without it at once.
    pub(crate) fn view_without(&mut self, number: u32, node: usize) {
        let gone = NodeId(node as u32);
        let others = (0..self.plan.nodes)
            .map(NodeId)
            .filter(|&other| other != gone);
        let others: Vec<NodeId> = others.collect();
        self.hosts[node].paused = DEAD;
        for &other in &others {
            self.links.drop_messages(gone.0, other.0);
            let input = Box::new(Input::View {
                view: View(number),
                members: others.clone(),
                leaving: Vec::new(),
                gone: vec![gone],
            });
            let node = other.0 as usize;
            self.at(self.now, Event::Viewed { node, input });
        }
    }

    /// The next view is decided, without a member that is gone.
    pub(super) fn exclude(&mut self) {
        self.note_left();
        self.views.number += 1;
        self.faults.views += 1;
        self.tell_view();
    }

    /// The agent of a node that was lost starts anew, and joins.
    pub(super) fn rejoin(&mut self, node: usize) {
        self.write_down(|| format!("{node}  starts anew"));
        self.views.lost.remove(&NodeId(node as u32));
        self.join(NodeId(node as u32));
        self.exclude();
    }

    /// A node hears of a view. Until then homes that are gone may have been the last to take a write of its sessions.
    pub(super) fn hear_view(&mut self, node: usize, input: Input) {
        if let Input::View { gone, .. } = &input
            && !gone.is_empty()
            && self.hosts[node].is_alive()
        {
            self.doubt_histories();
        }
        self.step(node, input);
    }

    /// Nobody may have what the store was not said to have.
    pub(super) fn doubt_histories(&mut self) {
        self.apart = true;
        let objects = self.store.objects.iter_mut();
        objects.for_each(|object| object.history.doubt());
    }

    /// A spare starts anew, with nothing.
    fn join(&mut self, spare: NodeId) {
        let at = spare.0 as usize;
        let config = Config {
            incarnation: self.hosts[at].node().config().incarnation + 1,
            view: View(0),
            ..self.plan.config(spare)
        };
        let tier = self.hosts[at].tier.outlive();
        self.hosts[at] = Host::new(Node::new(config));
        self.hosts[at].tier = tier;
        self.hosts[at].paused = Time(0);
        // The new life hears of no view without it.
        let is_old = |event: &Event| matches!(event, Event::Viewed { node, .. } if *node == at);
        self.queue.retain(|_, event| !is_old(event));
        self.leave_bank(at);
        self.connect_bank(at);
        self.views.told.remove(&spare);
        self.views.members.push(spare);
        self.views.members.sort_unstable();
    }

    fn tell_view(&mut self) {
        let Views {
            number,
            members,
            leaving,
            ..
        } = self.views.clone();
        let life = |&node: &NodeId| {
            let config = self.hosts[node.0 as usize].node().config();
            (node, config.incarnation)
        };
        let now: Vec<Life> = members.iter().chain(&leaving).map(life).collect();
        let first: Vec<Life> = (0..self.plan.nodes).map(|node| (NodeId(node), 1)).collect();
        for &(node, life) in &now {
            let known = match life {
                1 => self.views.told.entry(node).or_insert(first.clone()),
                _ => self.views.told.entry(node).or_default(),
            };
            let has_ended = |one: &&Life| !now.contains(one);
            let gone = known.iter().filter(has_ended).map(|&(node, _)| node);
            let input = Box::new(Input::View {
                view: View(number),
                members: members.clone(),
                leaving: leaving.clone(),
                gone: gone.collect(),
            });
            known.clone_from(&now);
            let at = self.now + Span::millis(self.rng.below(50));
            let heard = self.views.heard.entry(node).or_default();
            *heard = at.max(*heard);
            let (at, node) = (*heard, node.0 as usize);
            self.at(at, Event::Viewed { node, input });
        }
    }
}
