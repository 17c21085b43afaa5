//! The way from one agent's log to another's: a request's bytes go out, an answer's bytes come back.
//!
//! The log does not know connections. An agent lends it a [`ViewWire`] and hands it the requests of others.
//! Nothing here blocks: an answer comes later, on any thread, or never.

use crate::membership::MemberId;
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

/// Requests to other agents' logs.
pub trait ViewWire: Send + Sync {
    /// Sends a request, and keeps the slot until the answer comes or the connection breaks.
    ///
    /// A wire that has no room drops the slot at once, as one that has no connection does.
    fn ask(&self, to: MemberId, request: Vec<u8>, answer: AnswerSlot);
}
