//! Requests between logs, as frames between agents.

use crate::core::Core;
use crate::intro::{VIEW_ANSWER, VIEW_ASK, VIEW_NEWEST};
use hearth_net::PeerId;
use hearth_proto::NodeId;
use hearth_views::membership::MemberId;
use hearth_views::wire::{AnswerSlot, ViewWire, WireClass};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Most requests that wait for an answer. Further ones are dropped.
const ASKED_MAX: usize = 1024;

/// Requests that wait for an answer, by number.
#[derive(Default)]
struct Asked {
    numbered: u64,
    waiting: BTreeMap<u64, (u32, AnswerSlot)>,
}

/// The way to the logs of others.
pub(super) struct Wire {
    core: Weak<Core>,
    asked: Mutex<Asked>,
}

impl Wire {
    pub(super) fn new(core: &Arc<Core>) -> Wire {
        Wire {
            core: Arc::downgrade(core),
            asked: Mutex::default(),
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No answer comes over a connection that broke.
    pub(super) fn broken(&self, peer: u32) {
        let mut asked = self.asked();
        let kept = std::mem::take(&mut asked.waiting).into_iter();
        let (lost, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
            kept.partition(|(_, (of, _))| *of == peer);
        asked.waiting = kept;
        // A slot that is dropped may call back.
        drop(asked);
        drop(lost);
    }

    pub(super) fn answered(&self, from: u32, number: u64, answer: Vec<u8>) {
        let known = self.asked().waiting.remove(&number);
        if let Some((_, slot)) = known.filter(|(of, _)| *of == from) {
            slot.put(answer);
        }
    }
}

impl ViewWire for Wire {
    fn ask(&self, to: MemberId, _class: WireClass, request: Vec<u8>, answer: AnswerSlot) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let number = {
            let mut asked = self.asked();
            if asked.waiting.len() >= ASKED_MAX {
                return;
            }
            asked.numbered += 1;
            let number = asked.numbered;
            asked.waiting.insert(number, (to.0, answer));
            number
        };
        if !send(&core, to.0, (VIEW_ASK, number), &request) {
            let unsent = self.asked().waiting.remove(&number);
            drop(unsent);
        }
    }
}

/// Tells an agent which view is the newest.
pub(super) fn tell(core: &Core, to: u32, view: &[u8]) {
    if let Some(transport) = core.transport.get() {
        // One that cannot be reached hears of it when it is connected.
        let _ = transport.send(PeerId(to), &[VIEW_NEWEST], &[IoSlice::new(view)]);
    }
}

fn send(core: &Core, to: u32, (kind, number): (u8, u64), payload: &[u8]) -> bool {
    let mut head = vec![kind];
    head.extend_from_slice(&number.to_le_bytes());
    let transport = core.transport.get();
    let sent =
        transport.map(|transport| transport.send(PeerId(to), &head, &[IoSlice::new(payload)]));
    matches!(sent, Some(Ok(())))
}

/// The place for the answer to a question of another agent.
pub(super) fn answer_to(core: &Arc<Core>, from: NodeId, number: u64) -> AnswerSlot {
    let core = Arc::downgrade(core);
    AnswerSlot::new(move |answer: Vec<u8>| {
        if let Some(core) = core.upgrade() {
            send(&core, from.0, (VIEW_ANSWER, number), &answer);
        }
    })
}
