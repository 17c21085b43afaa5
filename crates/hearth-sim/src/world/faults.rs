//! Connections that stall, break and mend, and what of it all is written down for people.

use super::answers::Answer;
use super::links::State;
use super::session::{Action, Doing, Session};
use super::{Event, World};
use crate::check::liveness;
use hearth_proto::{Effect, Input, NodeId, Replicas, Span, Time};

/// How much of a run is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Messages, store operations, and what sessions do and are told.
    Story,
    /// Every input and effect of every kernel.
    Everything,
}

/// How often each fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Views that were decided.
    pub views: u64,
    /// Files that a tier brought to the store after its agent had died. Not a fault, but what makes others matter.
    pub recovered: u64,
    /// Packets that were lost and sent again.
    pub lost: u64,
    /// Packets that came twice.
    pub doubled: u64,
    /// Connections that broke, each with what was on its way.
    pub broken: u64,
    /// Connections that went silent.
    pub stalled: u64,
    /// Times when some nodes were cut off from the others.
    pub partitions: u64,
    /// Agents that stood still.
    pub paused: u64,
    /// Agents that died and started anew.
    pub crashed: u64,
    /// Store operations that failed.
    pub refused: u64,
    /// Store operations that took seconds.
    pub slow: u64,
    /// Store writes that were done after their agent had died.
    pub late: u64,
    /// Daemons that died, stood still, were cut off or forgot.
    pub daemons: u64,
    /// Orders to daemons that were not answered.
    pub lost_orders: u64,
    /// Orders that a daemon carried out after that.
    pub late_orders: u64,
    /// Entries that daemons gave to readers. Not a fault, but what makes the others matter.
    pub bank_hits: u64,
    /// Attributes that were found in daemons.
    pub bank_looks: u64,
}

impl Faults {
    /// Names and counts, for people and programs.
    pub fn named(&self) -> [(&'static str, u64); 17] {
        [
            ("files recovered", self.recovered),
            ("packets lost", self.lost),
            ("packets doubled", self.doubled),
            ("connections broken", self.broken),
            ("connections stalled", self.stalled),
            ("partitions", self.partitions),
            ("agents paused", self.paused),
            ("agents crashed", self.crashed),
            ("store errors", self.refused),
            ("store stalls", self.slow),
            ("late store writes", self.late),
            ("daemons troubled", self.daemons),
            ("bank orders lost", self.lost_orders),
            ("late bank orders", self.late_orders),
            ("bank hits", self.bank_hits),
            ("bank looks", self.bank_looks),
            ("views", self.views),
        ]
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Faults) {
        self.views += other.views;
        self.recovered += other.recovered;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.broken += other.broken;
        self.stalled += other.stalled;
        self.partitions += other.partitions;
        self.paused += other.paused;
        self.crashed += other.crashed;
        self.refused += other.refused;
        self.slow += other.slow;
        self.late += other.late;
        self.daemons += other.daemons;
        self.lost_orders += other.lost_orders;
        self.late_orders += other.late_orders;
        self.bank_hits += other.bank_hits;
        self.bank_looks += other.bank_looks;
    }
}

/// A packet that is lost is sent again after this long.
const RESEND: Span = Span::millis(200);

impl World {
    /// Puts a packet of a connection on its way.
    pub(crate) fn send_packet(&mut self, from: u32, to: u32, packet: (u32, u64), wait: Span) {
        let mut wait = wait;
        if self.plan.packet_faults && !self.healed {
            while self.rng.chance(2) {
                self.faults.lost += 1;
                wait = Span(wait.0 + RESEND.0);
            }
            if self.rng.chance(2) {
                self.faults.doubled += 1;
                let again = Span(wait.0 + self.rng.below(RESEND.0));
                self.after(again, Event::Arrives { from, to, packet });
            }
        }
        self.after(wait, Event::Arrives { from, to, packet });
    }

    /// Nodes below `first` are cut off from the others.
    pub(crate) fn part(&mut self, first: u32) {
        self.faults.partitions += 1;
        for a in 0..first {
            for b in first..self.plan.nodes {
                if self.rng.chance(50) {
                    self.stall_link(a, b);
                } else {
                    self.break_link(a, b);
                }
            }
        }
    }

    /// An agent stands still for a while.
    pub(crate) fn pause(&mut self, node: usize) {
        if self.hosts[node].is_alive() {
            self.faults.paused += 1;
            let span = Span::millis(self.rng.below(10_000));
            self.hosts[node].paused = self.now + span;
        }
    }

    /// Inputs that an agent that stands still would take in wait, in order.
    pub(crate) fn put_off(&mut self, event: Event) -> Option<Event> {
        let until = match event.taken_in_by() {
            Some(node) => self.hosts[node].paused,
            None => Time(0),
        };
        if until <= self.now || until == super::host::DEAD {
            return Some(event);
        }
        self.at(until, event);
        None
    }

    /// Breaks a connection between agents that live.
    pub(crate) fn break_link(&mut self, a: u32, b: u32) {
        self.parted |= self.links.state(a, b) != State::Broken;
        self.cut_link(a, b);
    }

    /// A connection is gone, and what is on its way with it; both sides learn of it.
    pub(super) fn cut_link(&mut self, a: u32, b: u32) {
        if self.links.state(a, b) == State::Broken {
            return;
        }
        self.links.cut(a, b);
        self.faults.broken += 1;
        self.part_histories();
        for (node, peer) in [(a, b), (b, a)] {
            let delay = self.local_delay();
            self.after(delay, Event::Down { node, peer });
        }
        // A script says itself when a connection is made again.
        if !self.scripted {
            let out = match (self.healed, self.plan.hurries) {
                (true, _) => Span::millis(50),
                (false, true) => Span::millis(5 + self.rng.below(100)),
                (false, false) => Span::millis(20 + self.rng.below(8_000)),
            };
            self.after(out, Event::Mend { a, b });
        }
    }

    /// Nodes have lost each other. If others have the bytes of homes before these are acknowledged, nothing
    /// acknowledged is lost.
    pub(crate) fn part_histories(&mut self) {
        self.apart = true;
        let kept = self.keeps_bytes();
        for object in &mut self.store.objects {
            object.history.parted = true;
            object.history.lossy |= !kept;
        }
    }

    /// Acknowledged bytes outlive the agents of nodes, and reads are held to them.
    pub(crate) fn keeps_bytes(&self) -> bool {
        self.plan.strict && matches!(self.plan.replicas, Replicas::Sync(_))
    }

    /// A kernel wants a connection cut.
    pub(crate) fn disconnect(&mut self, node: u32, peer: u32) {
        if self.links.state(node, peer) == State::Up && !self.plan.parts_nodes() {
            let what = format!("node {node} gives up {peer}, which is well");
            self.violate(crate::check::Violation::liveness(what));
        }
        self.break_link(node, peer);
    }

    /// A connection goes silent; it is reset later, if nobody gives it up before.
    pub(crate) fn stall_link(&mut self, a: u32, b: u32) {
        if self.links.state(a, b) != State::Up {
            return;
        }
        self.links.stall(a, b);
        self.faults.stalled += 1;
        let life = self.links.life(a, b);
        let span = Span::millis(self.rng.below(12_000));
        self.after(span, Event::Reset { a, b, life });
    }

    pub(crate) fn mend(&mut self, a: u32, b: u32) {
        let alive = |node: u32| self.hosts[node as usize].is_alive();
        if !(self.plan.returns || alive(a) && alive(b)) {
            return;
        }
        if alive(a) && alive(b) && self.links.mend(a, b) {
            self.note_link(a, b, "up");
            self.step(a as usize, Input::PeerUp(NodeId(b)));
            self.step(b as usize, Input::PeerUp(NodeId(a)));
        } else if self.links.state(a, b) == State::Broken {
            self.after(Span::millis(20), Event::Mend { a, b });
        }
    }

    /// Faults end: the store answers, connections come back.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.heal_bank();
        self.store.fault = None;
        for host in self.hosts.iter_mut().filter(|host| host.is_alive()) {
            host.paused = Time(0);
        }
        for (a, b) in self.links.troubled() {
            self.break_link(a, b);
        }
    }

    pub(crate) fn check_pace(&mut self, session: usize, doing: &Doing) {
        let took = self.now - doing.since;
        self.slowest = self.slowest.max(took);
        if let Some(violation) = liveness::slow(took) {
            let what = vec![format!("session {session}: {:?}", doing.action)];
            self.violate(violation.with(&what));
        }
    }

    pub(crate) fn note(&mut self, session: usize, action: &Action) {
        let node = self.sessions[session].node;
        self.write_down(|| format!("{node}  {action:?} (session {session})"));
    }

    pub(crate) fn note_answer(&mut self, session: usize, answer: &Answer) {
        let node = self.sessions[session].node;
        if self.scripted {
            self.story.push(crate::script::tell_answer(node, answer));
        }
        self.write_down(|| format!("{node}  = {answer:?} (session {session})"));
    }

    pub(crate) fn note_input(&mut self, node: usize, input: &Input) {
        match self.detail {
            Detail::Everything => self.write_down(|| format!("{node}  > {input:?}")),
            Detail::Story => {
                if let Some(line) = crate::script::tell_input(node, input) {
                    self.write_down(|| line);
                }
            }
        }
    }

    pub(crate) fn note_effect(&mut self, node: usize, effect: &Effect) {
        if self.scripted {
            self.story.extend(crate::script::tell(node, effect));
        }
        match self.detail {
            Detail::Everything => self.write_down(|| format!("{node}    {effect:?}")),
            Detail::Story => {
                if let Some(line) = crate::script::tell(node, effect) {
                    self.write_down(|| line);
                }
            }
        }
    }

    /// The bytes that the session of a script was given, if not by a direct answer.
    pub(crate) fn tell_read(&mut self, session: usize, bytes: &[u8]) {
        let Session { node, .. } = self.sessions[session];
        let kept = self.sessions[session].doing.as_ref().is_some_and(|doing| {
            matches!(doing.action, Action::Read { handle, .. }
                if self.sessions[session].handles[handle].keep && doing.fetched.is_empty())
        });
        if self.scripted && kept {
            let bytes = crate::script::runs(bytes);
            self.story
                .push(format!("{node} = {bytes}, kept by the kernel"));
        }
    }

    pub(crate) fn note_link(&mut self, a: u32, b: u32, what: &str) {
        self.write_down(|| format!("{a}  connection to {b} {what}"));
    }

    pub(crate) fn write_down(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.push(format!("{:>12} {}", now.0 / 1000, line()));
        }
    }
}
