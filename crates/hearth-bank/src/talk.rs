//! One connection's conversation, without a socket: orders in, bytes out; bytes in, answers out.
//!
//! - TALK-1: a daemon answers in the order in which it was asked, so a queue is all that is remembered.
//! - TALK-2: the first things said are the questions of the greeting; orders are taken only after it.
//! - TALK-3: whatever comes that the front of the queue does not expect is the end of the conversation.

use crate::item::{self, Seal};
use crate::order::{Answer, Expected, Order};
use crate::reply::{self, Nonsense, Reply};
use std::collections::VecDeque;
use std::time::Instant;

/// Answered orders and the like, in the order in which they came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The daemon can be used.
    Greeted,
    /// An order was carried out.
    Answered(u64, Answer),
}

/// Why a conversation is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Over {
    #[error("{0}")]
    Nonsense(#[from] Nonsense),
    #[error("it is no memcached of version 1.6 or later: it said `{0}`")]
    Old(String),
    #[error("its items end at {limit} bytes, and entries need {needed}: start it with -I {needed}")]
    Small { limit: usize, needed: usize },
    #[error("it refused an order: {0}")]
    Refused(String),
}

/// One conversation.
#[derive(Debug)]
pub(crate) struct Talk {
    seal: Seal,
    entry_bytes: usize,
    greeting: Option<Greeting>,
    waiting: VecDeque<Waiting>,
    out: Vec<u8>,
    input: Vec<u8>,
}

#[derive(Debug, Default)]
struct Greeting {
    version: Option<String>,
    item_limit: Option<usize>,
    understands: bool,
}

#[derive(Debug)]
struct Waiting {
    id: u64,
    since: Instant,
    expected: Expected,
}

/// The first questions: who it is, whether it speaks the meta protocol, how large an item may be.
const QUESTIONS: &[u8] = b"version\r\nmn\r\nstats settings\r\n";

impl Talk {
    /// Begins, with entries of at most `entry_bytes`.
    pub(crate) fn new(seal: Seal, entry_bytes: usize) -> Talk {
        Talk {
            seal,
            entry_bytes,
            greeting: Some(Greeting::default()),
            waiting: VecDeque::new(),
            out: QUESTIONS.to_vec(),
            input: Vec::new(),
        }
    }

    /// Gives an order, which must come after [`Event::Greeted`].
    pub(crate) fn order(&mut self, id: u64, order: Order, since: Instant) {
        assert!(self.greeting.is_none(), "orders come after the greeting");
        let expected = order.write(&self.seal, &mut self.out);
        self.waiting.push_back(Waiting {
            id,
            since,
            expected,
        });
    }

    /// Bytes that wait to be sent.
    pub(crate) fn output(&self) -> &[u8] {
        &self.out
    }

    /// So many of them were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.out.drain(..count);
    }

    /// When the oldest order was given.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.front().map(|waiting| waiting.since)
    }

    /// Orders without an answer.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|waiting| waiting.id)
    }

    /// Takes in bytes of the daemon.
    pub(crate) fn hear(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), Over> {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        let value_max = item::HEAD_BYTES + self.entry_bytes;
        while let Some((reply, len)) = reply::first(&input[at..], value_max)? {
            at += len;
            self.take(&reply, events)?;
        }
        self.input = input;
        self.input.drain(..at);
        Ok(())
    }

    fn take(&mut self, reply: &Reply<'_>, events: &mut Vec<Event>) -> Result<(), Over> {
        if let Some(greeting) = &mut self.greeting {
            if greeting.take(reply)? {
                greeting.check(item::room_for(self.entry_bytes))?;
                self.greeting = None;
                events.push(Event::Greeted);
            }
            return Ok(());
        }
        let Some(front) = self.waiting.front_mut() else {
            return Err(Nonsense::Unasked.into());
        };
        if let Some(answer) = front.expected.take(&self.seal, reply)? {
            events.push(Event::Answered(front.id, answer));
            self.waiting.pop_front();
        }
        Ok(())
    }
}

impl Greeting {
    /// True once all questions are answered.
    fn take(&mut self, reply: &Reply<'_>) -> Result<bool, Over> {
        match reply {
            Reply::Version(version) => self.version = Some((*version).to_owned()),
            Reply::End => self.understands = true,
            // An old daemon says this to `mn`; its version is the better thing to tell.
            Reply::Refused(_) => self.understands = false,
            Reply::Stat("item_size_max", value) => self.item_limit = value.parse().ok(),
            Reply::Stat(_, _) => {}
            Reply::StatEnd => return Ok(true),
            Reply::Failed(why) => return Err(Over::Refused((*why).to_owned())),
            Reply::Value { .. } | Reply::Done | Reply::NotStored | Reply::NotFound => {
                return Err(Nonsense::Unasked.into());
            }
        }
        Ok(false)
    }

    fn check(&self, needed: usize) -> Result<(), Over> {
        let Some(version) = self.version.as_ref().filter(|_| self.understands) else {
            let version = self.version.clone().unwrap_or_default();
            return Err(Over::Old(version));
        };
        match self.item_limit {
            Some(limit) if limit < needed => Err(Over::Small { limit, needed }),
            Some(_) => Ok(()),
            None => Err(Over::Old(version.clone())),
        }
    }
}

impl Expected {
    /// The answer, once the last reply of the order has come.
    fn take(&mut self, seal: &Seal, reply: &Reply<'_>) -> Result<Option<Answer>, Over> {
        match (self, reply) {
            (Expected::Items { keys, found }, Reply::Value { opaque, value }) => {
                let index = opaque.filter(|index| *index < keys.len());
                let index = index.ok_or(Nonsense::Unasked)?;
                found[index] = seal.open(&keys[index], value);
                Ok(None)
            }
            (Expected::Items { found, .. }, Reply::End) => {
                Ok(Some(Answer::Found(std::mem::take(found))))
            }
            (Expected::Stored, Reply::Done) => Ok(Some(Answer::Stored)),
            // It takes an older entry away when it has no room for the newer one.
            (Expected::Stored, Reply::NotStored | Reply::Failed(_)) => Ok(Some(Answer::NoRoom)),
            (Expected::Gone, Reply::NotFound) => Ok(None),
            (Expected::Gone, Reply::End) => Ok(Some(Answer::Deleted)),
            // A quiet deletion that says anything at all has not been carried out.
            (_, Reply::Failed(why) | Reply::Refused(why)) => Err(Over::Refused((*why).to_owned())),
            (
                Expected::Items { .. } | Expected::Stored | Expected::Gone,
                Reply::Value { .. }
                | Reply::Done
                | Reply::NotStored
                | Reply::NotFound
                | Reply::End
                | Reply::Version(_)
                | Reply::Stat(..)
                | Reply::StatEnd,
            ) => Err(Nonsense::Unasked.into()),
        }
    }
}

#[cfg(test)]
mod tests;
