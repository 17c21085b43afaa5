//! The way from one agent's log to another's: a request's bytes go out, an answer's bytes come back.
//!
//! The log does not know connections. An agent lends it a [`ViewWire`] and hands it the requests of others.
//! Nothing here blocks: an answer comes later, on any thread, or never.

use crate::membership::{MemberId, Membership};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// Most bytes of a request and of an answer: a view of the most members, with room to spare.
pub const WIRE_BYTES_MAX: usize = 16 << 20;

/// The place for one answer. Dropped unused, it says that none comes.
pub struct AnswerSlot(Box<dyn FnOnce(Vec<u8>) + Send>);

impl AnswerSlot {
    /// A place that calls back.
    pub fn new(taken: impl FnOnce(Vec<u8>) + Send + 'static) -> AnswerSlot {
        AnswerSlot(Box::new(taken))
    }

    /// Puts the answer in.
    pub fn put(self, answer: Vec<u8>) {
        (self.0)(answer);
    }
}

impl fmt::Debug for AnswerSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnswerSlot")
    }
}

/// The kind of a request, for wires that give some of them a way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireClass {
    /// It belongs to the order of views.
    Order,
    /// A member asks another to vouch for it. Few bytes, and a lease hangs on them.
    Vouch,
}

/// Requests to other agents' logs.
pub trait ViewWire: Send + Sync {
    /// Sends a request, and keeps the slot until the answer comes or the connection breaks.
    ///
    /// A wire that has no room drops the slot at once, as one that has no connection does.
    fn ask(&self, to: MemberId, class: WireClass, request: Vec<u8>, answer: AnswerSlot);
}

/// The bytes of a view, for an agent that has no log yet.
pub fn view_bytes(view: &Membership) -> Vec<u8> {
    bytes(view)
}

/// The view of such bytes, if it is one.
pub fn read_view(view: &[u8]) -> Option<Membership> {
    read(view)
}

/// The bytes of a request or answer.
pub(crate) fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain values have a form in bytes")
}

/// The value of bytes from outside, if they have one.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let fits = bytes.len() <= WIRE_BYTES_MAX;
    fits.then(|| postcard::from_bytes(bytes).ok()).flatten()
}
