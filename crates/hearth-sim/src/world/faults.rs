//! Connections that stall, break and mend, and what of it all is written down for people.

use super::answers::Answer;
use super::links::State;
use super::session::{Action, Doing, Session};
use super::{Event, World};
use crate::check::liveness;
use hearth_proto::{Effect, Input, NodeId, Span};

impl World {
    /// Breaks a connection: what is on its way is gone, both sides learn of it.
    pub(crate) fn break_link(&mut self, a: u32, b: u32) {
        if self.links.state(a, b) == State::Broken {
            return;
        }
        self.links.cut(a, b);
        self.apart = true;
        for object in &mut self.store.objects {
            object.history.lossy = true;
        }
        for (node, peer) in [(a, b), (b, a)] {
            let delay = self.local_delay();
            self.after(delay, Event::Down { node, peer });
        }
        // A script says itself when a connection is made again.
        if !self.scripted {
            let out = match self.healed {
                true => Span::millis(50),
                false => Span::millis(20 + self.rng.below(8_000)),
            };
            self.after(out, Event::Mend { a, b });
        }
    }

    /// A kernel wants a connection cut.
    pub(crate) fn disconnect(&mut self, node: u32, peer: u32) {
        if self.links.state(node, peer) == State::Up && !self.plan.link_faults {
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
        let life = self.links.life(a, b);
        let span = Span::millis(self.rng.below(12_000));
        self.after(span, Event::Reset { a, b, life });
    }

    pub(crate) fn mend(&mut self, a: u32, b: u32) {
        if self.links.mend(a, b) {
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
        self.store.fault = None;
        for (a, b) in self.links.troubled() {
            self.break_link(a, b);
        }
    }

    pub(crate) fn check_pace(&mut self, session: usize, doing: &Doing) {
        let took = self.now - doing.since;
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
        self.write_down(|| format!("{node}  > {input:?}"));
    }

    pub(crate) fn note_effect(&mut self, node: usize, effect: &Effect) {
        if self.scripted {
            self.story.extend(crate::script::tell(node, effect));
        }
        self.write_down(|| format!("{node}    {effect:?}"));
    }

    /// What the session of a script was given, if not by a direct answer.
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

    fn write_down(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(log) = &mut self.log {
            log.push(format!("{:>12} {}", now.0 / 1000, line()));
        }
    }
}
