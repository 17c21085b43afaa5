//! Nodes that are gone.
//!
//! Nobody beats a heart while nothing is owed. A peer that owes an answer and has been silent for a
//! while is asked whether it lives; one that stays silent is cut off. A request to a peer that is
//! gone is answered here in its place, so that every machine sees one kind of end.
//!
//! From the question on, silence counts only while this node itself runs: it looks each second, and a look that
//! comes late counts as one second. On a host that is too busy for this node, or that stood still, the answers may
//! have come long ago and wait here to be read.

use crate::config::Config;
use crate::ctx::Ctx;
use crate::effect::Effect;
use crate::errno::EHOSTDOWN;
use crate::ids::{FileId, Gen, NodeId, ReqId};
use crate::msg::{Body, Envelope, Fate, Held, Here};
use crate::nodeset::NodeSet;
use crate::time::{Span, Time};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Silence after the question is looked at as often, and a look counts for no more.
const LOOK: Span = Span::secs(1);

/// An answer that a peer owes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owed {
    seq: u64,
    sent: Time,
    file: FileId,
    generation: Gen,
    instead: Body,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Peer {
    /// By request number, which only grows.
    owed: VecDeque<Owed>,
    heard: Time,
    probed: Option<Probe>,
}

/// A question whether a peer lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Probe {
    /// How long the peer has been silent while this node ran.
    silent: Span,
    looked: Time,
}

/// The state of the others, as this node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Peers {
    peers: BTreeMap<NodeId, Peer>,
    down: NodeSet,
}

/// The answer that a peer that is gone is taken to have given. `None` if no answer is due, and for
/// `BankOver`: a client that cannot be reached may ask daemons until its lease has run out.
pub(crate) fn in_its_place(body: &Body) -> Option<Body> {
    match body {
        Body::Inval { .. } => Some(Body::InvalOk),
        Body::Forget { .. } | Body::Recall | Body::Collect { .. } => Some(Body::ForgetOk(None)),
        Body::Cut(_) => Some(Body::CutOk(Ok(()))),
        Body::Date => Some(Body::DateIs(None)),
        Body::Whois
        | Body::WhoisEach(_)
        | Body::AskLeave { .. }
        | Body::AwaitLeave(_)
        | Body::AskNames(_)
        | Body::Change
        | Body::Open { .. }
        | Body::Size { .. }
        | Body::Extend { .. }
        | Body::Append(_)
        | Body::HomeOf { .. }
        | Body::Truncate(_)
        | Body::Truncated(_)
        | Body::Window { .. }
        | Body::Detach
        | Body::HasLeft
        | Body::Settle { .. }
        | Body::Laminate(_)
        | Body::HandOver(_)
        | Body::Read { .. }
        | Body::Write { .. }
        | Body::Claim { .. }
        | Body::Scatter { .. }
        | Body::Flush(_)
        | Body::BankAsk
        | Body::Stage { .. }
        | Body::Apply { .. }
        | Body::Hold { .. }
        | Body::Yield { .. } => Some(Body::Failed(EHOSTDOWN)),
        Body::WindowGo { .. } => Some(Body::WindowOver(Err(EHOSTDOWN))),
        Body::Peek { first, .. } => Some(nothing_of(*first)),
        Body::Fetch { page, .. } => Some(Body::none_of(*page)),
        Body::TakeBack { page, grant, .. } => Some(Body::nothing_back(*page, *grant)),
        Body::WriteOwn { .. } | Body::WriteHere | Body::Elsewhere(_) | Body::Return { .. } => None,
        Body::Push { .. } | Body::PushNo { .. } => None,
        Body::Copy { .. } | Body::Mark | Body::Shard { .. } => Some(Body::Kept(false)),
        Body::Over { .. } | Body::Gather { .. } => Some(Body::OverIs(Fate::Unknown)),
        Body::Trim { count, .. } => (*count == u32::MAX).then_some(Body::Kept(true)),
        Body::Rescue { .. } | Body::Orphaned { .. } => Some(Body::Rescued(Here::Nothing)),
        Body::Hand { .. } => Some(Body::Handed { taken: false }),
        Body::Ping => Some(Body::Pong),
        #[rustfmt::skip]
        Body::WhoisOk(_) | Body::WhoisEachOk(_) | Body::Leaves(_) | Body::Learned(_)
          | Body::Names { .. } | Body::Listed(_)
          | Body::ChangeGo | Body::Changed(_) | Body::OpenOk { .. } | Body::Close { .. }
          | Body::SizeIs { .. } | Body::ExtendOk(_) | Body::AppendAt(_) | Body::HomeIs { .. }
          | Body::TruncateGo | Body::TruncateOk | Body::WindowOk(_) | Body::WindowOver(_)
          | Body::Peeked { .. } | Body::DetachGo | Body::Detached(_) | Body::Left | Body::SettleOk | Body::LaminateOk
          | Body::Restamp { .. } | Body::ForgetOk(_) | Body::DateIs(_) | Body::CutOk(_) | Body::Resume { .. }
          | Body::Grant { .. } | Body::WriteOk | Body::FlushOk(_) | Body::InvalOk
          | Body::Staged { .. } | Body::Release { .. } | Body::Wound { .. }
          | Body::BankOver { .. } | Body::BankIs(_) | Body::BankOverOk | Body::Failed(_)
          | Body::Kept(_) | Body::Rescued(_) | Body::OldGeneration | Body::Pong
          | Body::Reached(_) | Body::OverIs(_) | Body::Gathered | Body::Sealed
          | Body::HandedOver | Body::Handed { .. } | Body::Inherit { .. } => None,
    }
}

fn nothing_of(first: u64) -> Body {
    Body::Peeked {
        first,
        lens: Vec::new(),
        held: Held::default(),
    }
}

impl Peers {
    /// Those of a view that some nodes are not in.
    pub(crate) fn without(strangers: impl Iterator<Item = NodeId>) -> Peers {
        Peers {
            down: strangers.collect(),
            ..Peers::default()
        }
    }

    /// Notes a message that is about to be sent. An answer is returned in place of a peer that is
    /// gone; the message then must not be sent.
    pub(crate) fn sending(&mut self, now: Time, to: NodeId, envelope: &Envelope) -> Sending {
        let instead = in_its_place(&envelope.body);
        if self.down.contains(to) {
            return instead.map_or(Sending::Drop, Sending::Answer);
        }
        if let Some(instead) = instead {
            let Envelope {
                file,
                generation,
                req,
                ..
            } = *envelope;
            let peer = self.peers.entry(to).or_default();
            peer.owed.push_back(Owed {
                seq: req.seq,
                sent: now,
                file,
                generation,
                instead,
            });
        }
        Sending::Go
    }

    /// Notes a message that came.
    pub(crate) fn heard(&mut self, me: NodeId, now: Time, from: NodeId, envelope: &Envelope) {
        let peer = self.peers.entry(from).or_default();
        peer.heard = now;
        peer.probed = None;
        if envelope.req.node == me && in_its_place(&envelope.body).is_none() {
            let seq = envelope.req.seq;
            if let Ok(at) = peer.owed.binary_search_by_key(&seq, |owed| owed.seq) {
                peer.owed.remove(at);
            }
        }
    }

    /// A peer has been granted a lock and owes its end: whether it lives is asked while it is silent.
    pub(crate) fn lent(&mut self, now: Time, to: NodeId, seq: u64) {
        self.peers.entry(to).or_default().owed.push_back(Owed {
            seq,
            sent: now,
            file: FileId::default(),
            generation: Gen::default(),
            instead: Body::Pong,
        });
    }

    /// The lock is given back.
    pub(crate) fn returned(&mut self, from: NodeId, seq: u64) {
        if let Some(peer) = self.peers.get_mut(&from)
            && let Ok(at) = peer.owed.binary_search_by_key(&seq, |owed| owed.seq)
        {
            peer.owed.remove(at);
        }
    }

    pub(crate) fn up(&mut self, now: Time, peer: NodeId) {
        self.down.remove(peer);
        self.peers.entry(peer).or_default().heard = now;
    }

    /// The peer is gone; returns the answers that stand in for those it owed.
    pub(crate) fn gone(&mut self, config: &Config, peer: NodeId) -> Vec<Envelope> {
        self.down.insert(peer);
        let owed = self.peers.remove(&peer).map(|p| p.owed).unwrap_or_default();
        owed.into_iter()
            .map(|owed| Envelope {
                view: config.view,
                file: owed.file,
                generation: owed.generation,
                req: ReqId {
                    node: config.me,
                    inc: config.incarnation,
                    seq: owed.seq,
                },
                body: owed.instead,
            })
            .collect()
    }

    /// Answers that others owe this node, each with the file that it is about, and since when.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (NodeId, FileId, Time)> + '_ {
        let peers = self.peers.iter();
        peers.flat_map(|(&id, peer)| peer.owed.iter().map(move |owed| (id, owed.file, owed.sent)))
    }

    pub(crate) fn are_all_up(&self) -> bool {
        self.down.is_empty()
    }

    pub(crate) fn is_down(&self, peer: NodeId) -> bool {
        self.down.contains(peer)
    }

    /// Asks a peer whether it lives, unless it owes an answer already.
    pub(crate) fn want(ctx: &mut Ctx<'_>, peer: NodeId) {
        let is_up = !ctx.peers.is_down(peer);
        let known = ctx.peers.peers.get(&peer);
        if is_up && known.is_none_or(|peer| peer.owed.is_empty()) {
            ctx.ask(peer, FileId::default(), Gen::default(), Body::Ping);
        }
    }

    /// Asks the silent, cuts off those silent for too long.
    pub(crate) fn tick(ctx: &mut Ctx<'_>) {
        let (now, probe, give_up) = (ctx.now, ctx.config.probe_after, ctx.config.give_up_after);
        let mut ask = Vec::new();
        for (&id, peer) in &mut ctx.peers.peers {
            let Some(silent_since) = peer.silent_since() else {
                peer.probed = None;
                continue;
            };
            match &mut peer.probed {
                None if silent_since + probe <= now => {
                    peer.probed = Some(Probe {
                        silent: probe,
                        looked: now,
                    });
                    ask.push(id);
                }
                None => {}
                Some(probed) => {
                    probed.look(now);
                    if probed.silent >= give_up {
                        ctx.out.push(Effect::Disconnect { peer: id });
                        peer.heard = now;
                        peer.probed = None;
                    }
                }
            }
        }
        for id in ask {
            ctx.ask(id, FileId::default(), Gen::default(), Body::Ping);
        }
    }

    pub(crate) fn deadline(&self, probe: Span, give_up: Span) -> Option<Time> {
        let due = |peer: &Peer| {
            let since = peer.silent_since()?;
            Some(match &peer.probed {
                None => since + probe,
                Some(probed) => probed.looked + LOOK.min(Span(give_up.0 - probed.silent.0)),
            })
        };
        self.peers.values().filter_map(due).min()
    }
}

impl Probe {
    fn look(&mut self, now: Time) {
        let since = Span(now.0.saturating_sub(self.looked.0));
        self.silent = Span(self.silent.0 + since.min(LOOK).0);
        self.looked = now;
    }
}

/// The handling of a message.
pub(crate) enum Sending {
    Go,
    Drop,
    Answer(Body),
}

impl Peer {
    /// Since when the peer owes something and has said nothing.
    fn silent_since(&self) -> Option<Time> {
        let oldest = self.owed.front()?.sent;
        Some(oldest.max(self.heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::node::Node;
    use crate::{Input, Outbox, Request, Ticket};
    use alloc::vec;

    const BEGIN: Time = Time(1_000_000_000_000);

    fn secs(count: u64) -> Time {
        BEGIN + Span::secs(count)
    }

    /// Node 0, to which node 1 owes an answer since `BEGIN`.
    fn waiting() -> Node {
        let mut node = Node::new(Config::new(NodeId(0), 2));
        let mut out = Outbox::new();
        // Of so many files node 1 is the registrar of some.
        let files = (1..64).map(FileId).collect();
        node.step(
            BEGIN,
            Input::Request(Ticket(1), Request::Locate(files)),
            &mut out,
        );
        let asked = |effect: &Effect| matches!(effect, Effect::Send { .. });
        assert!(out.iter().any(asked), "something is asked");
        node
    }

    fn tick(node: &mut Node, at: Time) -> Outbox {
        let mut out = Outbox::new();
        node.step(at, Input::Tick, &mut out);
        out
    }

    fn gives_up(out: &Outbox) -> bool {
        out.contains(&Effect::Disconnect { peer: NodeId(1) })
    }

    #[test]
    fn a_silent_peer_is_given_up_in_time() {
        let mut node = waiting();
        let mut given_up = vec![];
        let mut looks = 0;
        while let Some(due) = node.deadline().filter(|&due| due <= secs(20)) {
            looks += 1;
            assert!(looks < 100, "each look brings the end nearer");
            if gives_up(&tick(&mut node, due)) {
                given_up.push(due);
                break;
            }
        }
        assert_eq!(given_up, [secs(7)]);
    }

    #[test]
    fn a_peer_is_not_given_up_by_a_node_that_did_not_run() {
        let mut node = waiting();
        // Each look is a minute late.
        for minute in 1..=5 {
            assert!(
                !gives_up(&tick(&mut node, secs(60 * minute))),
                "minute {minute}"
            );
        }
        assert!(gives_up(&tick(&mut node, secs(360))));
    }

    #[test]
    fn a_silent_peer_of_which_the_driver_wants_something_is_given_up_in_time() {
        let mut node = Node::new(Config::new(NodeId(0), 2));
        let mut out = Outbox::new();
        for second in 0..=6 {
            node.step(secs(second), Input::Wanted(NodeId(1)), &mut out);
            out.extend(tick(&mut node, secs(second)));
            assert!(!gives_up(&out), "second {second}");
        }
        let asks = |effect: &&Effect| matches!(effect, Effect::Send { .. });
        let asked = out.iter().filter(asks).count();
        assert!(asked <= 2, "it is asked no more while it owes an answer");
        assert!(gives_up(&tick(&mut node, secs(7))));
    }
}
