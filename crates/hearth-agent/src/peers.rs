//! Frames from peers become messages of the kernel.

use crate::alarms::Cause;
use crate::core::Core;
use crate::intro::{
    ASK_FLUSHED, ASK_HELD, HELD, INTRODUCTION, Introduction, LEAVES, MADE, MAKE, MESSAGE, OPENER,
    VIEW_ANSWER, VIEW_ASK, VIEW_NEWEST, WHERE,
};
use hearth_net::{Anew, Handler, PeerId};
use hearth_proto::msg::{Body, Cut, Envelope};
use hearth_proto::{Input, NodeId, Time, wire};
use std::sync::Arc;
use std::time::Instant;

/// The transport's view of an agent.
pub(crate) struct Peers(pub(crate) Arc<Core>);

impl Handler for Peers {
    fn on_up(&self, peer: PeerId, incarnation: u64) {
        let node = NodeId(peer.0);
        let now = self.0.now();
        self.0.drive_with(|state| {
            state.up[peer.0 as usize] = true;
            state.absent[peer.0 as usize] = None;
            state.lives[peer.0 as usize] = incarnation;
            state.alarms.end(Cause::Gone(peer.0), now);
            state.alarms.end(Cause::Anew(peer.0), now);
            Input::PeerUp(node)
        });
        if let Some(views) = self.0.views.get() {
            views.up(node);
        }
        self.0.tell_newest_view(node);
    }

    fn on_anew(&self, peer: PeerId, who: Anew) -> bool {
        if self.0.has_views {
            return self.0.takes_anew(peer.0, who);
        }
        let mut state = self.0.lock();
        state.anew = Some((peer.0, who));
        let text = match who {
            // The start fails.
            Anew::Me => return false,
            Anew::Peer | Anew::Successor => format!(
                "agent {} was started again and is refused, as it has forgotten what it owed; end the set on all hosts, and start it on all",
                peer.0
            ),
        };
        state.alarms.raise(Cause::Anew(peer.0), text);
        false
    }

    fn on_down(&self, peer: PeerId, why: &str) {
        let node = NodeId(peer.0);
        let (mut lost, mut alone) = Default::default();
        let (now, has_views) = (self.0.now(), self.0.has_views);
        self.0.drive_with(|state| {
            state.up[peer.0 as usize] = false;
            let absent = state.absent[peer.0 as usize].get_or_insert(Absent::Died(now));
            if let Some(text) = absent.alarm(peer.0, why, has_views) {
                state.alarms.raise(Cause::Gone(peer.0), text);
            }
            state.newest_views[peer.0 as usize] = None;
            (lost, alone) = state.openers.gone(node);
            state.files.forget_introductions(node);
            Input::PeerDown(node)
        });
        if let Some(views) = self.0.views.get() {
            views.down(node);
        }
        self.0.try_alone(alone);
        lost.into_iter().for_each(|stuck| self.0.seek_opener(stuck));
        self.0.asking.is_gone(node);
    }

    fn on_frame(&self, from: PeerId, head: &[u8], payload: Vec<u8>) {
        let from = NodeId(from.0);
        match head.split_first() {
            Some((&MESSAGE, bytes)) => self.message(from, bytes, payload),
            Some((&INTRODUCTION, bytes)) => self.introduction(from, bytes),
            Some((&WHERE, bytes)) => self.0.tell_opener(from, bytes),
            Some((&OPENER, bytes)) => self.0.hear_opener(from, bytes),
            Some((&MAKE, bytes)) => self.0.owe_made(from, bytes, payload),
            Some((&MADE, bytes)) => self.0.take_made(from, bytes, payload),
            Some((&ASK_HELD, bytes)) => self.0.owe_residency(from, bytes),
            Some((&ASK_FLUSHED, bytes)) => self.0.tell_flushed(from, bytes),
            Some((&VIEW_ASK, bytes)) => {
                if let Some(views) = self.0.views.get() {
                    views.asked(&self.0, from, bytes, payload);
                }
            }
            Some((&VIEW_ANSWER, bytes)) => {
                if let Some(views) = self.0.views.get() {
                    views.answered(&self.0, from, bytes, payload);
                }
            }
            Some((&VIEW_NEWEST, _)) => self.0.hear_newest_view(from, &payload),
            Some((&LEAVES, _)) => {
                let left = Some(Absent::Left(self.0.now()));
                self.0.lock().absent[from.0 as usize] = left;
            }
            Some((&HELD, bytes)) => self.0.take_residency(from, bytes),
            Some(_) | None => self.0.disconnect(from, "it sent a frame of no known kind"),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.armed()
    }

    fn on_timer(&self) {
        self.0.tick();
    }
}

impl Peers {
    fn message(&self, from: NodeId, bytes: &[u8], payload: Vec<u8>) {
        let envelope = match wire::decode(bytes) {
            Ok(envelope) => envelope,
            Err(violation) => return self.0.disconnect(from, &violation.to_string()),
        };
        let page_bytes = self.0.pool.frame_bytes() as u64;
        if !sound(&envelope, payload.len() as u64, page_bytes) {
            return self
                .0
                .disconnect(from, "it sent a message beyond its bounds");
        }
        self.0.drive_with(|state| {
            let len = payload.len() as u32;
            state.trace_came(from, &envelope, (page_bytes, u64::from(len)));
            let data = (!payload.is_empty()).then(|| (state.buffers.add(payload), len));
            Input::Message {
                from,
                envelope,
                data,
            }
        });
    }

    fn introduction(&self, from: NodeId, bytes: &[u8]) {
        match Introduction::decode(bytes) {
            Some(Introduction { file, path }) => self.0.lock().files.introduce(file, path),
            None => self.0.disconnect(from, "it sent a torn introduction"),
        }
    }
}

/// How an agent went, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It was taken down, and has said so.
    Left(Time),
    /// Without a word.
    Died(Time),
}

impl Absent {
    /// When it went.
    pub(crate) fn since(self) -> Time {
        match self {
            Absent::Left(since) | Absent::Died(since) => since,
        }
    }

    /// The alarm about it. The others need nothing of one that left, if members may change.
    fn alarm(self, peer: u32, why: &str, may_change: bool) -> Option<String> {
        match self {
            Absent::Died(_) => Some(format!("agent {peer} is gone: {why}")),
            Absent::Left(_) if may_change => None,
            Absent::Left(_) => Some(format!(
                "agent {peer} is gone: it was taken down on its host; pages of which it is home cannot be written"
            )),
        }
    }
}

/// True if a payload is so many bytes of one page after another.
fn are_pages(lens: &[u32], payload: u64, page_bytes: u64) -> bool {
    let mut lens = lens.iter().map(|&len| u64::from(len));
    lens.clone().sum::<u64>() == payload && lens.all(|len| len <= page_bytes)
}

/// True if the numbers in a message stay within what the kernel may be given.
fn sound(envelope: &Envelope, payload: u64, page_bytes: u64) -> bool {
    let pages = wire::PAGES_MAX as u64;
    let last = u64::MAX / page_bytes / 2;
    match &envelope.body {
        Body::Grant {
            first, skip, lens, ..
        } => {
            let of_first = lens.first().copied().unwrap_or_default();
            let fits = u64::from(*skip) + u64::from(of_first) <= page_bytes;
            *first < last && fits && are_pages(lens, payload, page_bytes)
        }
        Body::Peeked { first, lens, .. } => *first < last && are_pages(lens, payload, page_bytes),
        Body::Write { offset, len, .. } | Body::Stage { offset, len, .. } => {
            *len > 0 && u64::from(*len) == payload && *offset < i64::MAX as u64
        }
        Body::Copy { offset, pieces, .. } => {
            let (pairs, rest) = pieces.as_chunks::<2>();
            let total: u64 = pairs.iter().map(|&[_, len]| u64::from(len)).sum();
            let ends = pairs
                .iter()
                .map(|&[at, len]| u64::from(at) + u64::from(len));
            let end = offset.checked_add(ends.max().unwrap_or(0));
            rest.is_empty() && total == payload && end.is_some_and(|end| end < i64::MAX as u64)
        }
        Body::Shard { pages, .. } => {
            payload > 0 && payload <= page_bytes && pages.iter().all(|&page| page < last)
        }
        Body::Gathered => payload > 0 && payload <= page_bytes,
        Body::Scatter { page, ranges } => *page < last && u64::from(ranges.bytes()) == payload,
        Body::Read { first, count, .. }
        | Body::Peek { first, count, .. }
        | Body::Hold { first, count, .. } => {
            *first < last && *count > 0 && u64::from(*count) <= pages
        }
        Body::Return { page, ranges, .. } => {
            let ranges = ranges.chunks(2);
            let mut total = 0;
            let whole = ranges.fold(true, |whole, range| match *range {
                [at, len] => {
                    total += u64::from(len);
                    whole && len > 0 && u64::from(at) + u64::from(len) <= page_bytes
                }
                _ => false,
            });
            *page < last && whole && total == payload
        }
        Body::Push { page, len, .. } => {
            *page < last && u64::from(*len) == payload && payload <= page_bytes
        }
        Body::Hand { page } => *page < last && payload > 0 && payload <= page_bytes,
        Body::PushNo { page, .. }
        | Body::WriteOwn { page, .. }
        | Body::TakeBack { page, .. }
        | Body::Claim { page, .. }
        | Body::Fetch { page, .. } => *page < last,
        Body::Elsewhere(pages) => pages.iter().all(|moved| moved.page < last),
        Body::Inval { first, .. } | Body::Cut(Cut::Window { first, .. }) => *first < last,
        Body::WindowGo { offset, .. } => *offset < i64::MAX as u64,
        _ => true,
    }
}
