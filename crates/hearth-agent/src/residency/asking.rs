//! The residency of other agents: they are asked for it over the job's connections, and they are told this one's.
//!
//! It is no protocol: nobody waits for it but a command, and what is not told costs advice alone.
//!
//! - ASKING-1 A question has a number. An answer under another one, or from another agent than was asked, is left
//!   unread.
//! - ASKING-2 Nobody waits for longer than [`TELL_SPAN_MAX`], or for an agent that is gone.
//! - ASKING-3 No more is kept of an answer than one can have, and of questions no more than [`QUESTIONS_MAX`].
//! - ASKING-4 One thread at a time looks what is here, for all who have asked: never one that serves programs or peers.

use super::{Residency, told};
use crate::core::Core;
use crate::intro::{ASK_HELD, HELD};
use hearth_proto::NodeId;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// An agent that has not told all by then counts as silent.
const TELL_SPAN_MAX: Duration = Duration::from_secs(10);

/// Questions of others that wait; to more nothing is said.
const QUESTIONS_MAX: usize = 4096;

/// Why an agent's residency is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTold {
    /// There is no connection to it.
    #[error("agent {0} is not connected to agent {1}")]
    Away(u32, u32),
    /// It has not told all in time.
    #[error("agent {0} did not tell agent {1} what it holds within {span} s", span = TELL_SPAN_MAX.as_secs())]
    Silent(u32, u32),
}

/// Questions to others, and of others.
#[derive(Default)]
pub(crate) struct Asking {
    questions: Mutex<Questions>,
    /// A question is over.
    over: Condvar,
}

#[derive(Default)]
struct Questions {
    /// So many were asked.
    count: u64,
    asked: BTreeMap<u64, Asked>,
    owed: Vec<(NodeId, u64)>,
    /// A thread is at them.
    telling: bool,
}

/// A question to another agent.
struct Asked {
    of: NodeId,
    came: Vec<u8>,
    /// The bytes that are still to come, once something came.
    left: Option<usize>,
    gone: bool,
}

impl Asked {
    fn is_open(&self) -> bool {
        self.left != Some(0) && !self.gone
    }

    /// Takes a part; none if it does not go on where the last one ended.
    fn take(&mut self, left: usize, part: &[u8]) -> Option<()> {
        let whole = left.checked_add(part.len())?;
        let goes_on = match self.left {
            None => whole <= told::TOLD_BYTES_MAX,
            Some(expected) => whole == expected,
        };
        (goes_on && !part.is_empty()).then_some(())?;
        self.came.extend_from_slice(part);
        self.left = Some(left);
        Some(())
    }
}

impl Asking {
    fn lock(&self) -> MutexGuard<'_, Questions> {
        // Each change of it is whole by itself.
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, of: NodeId) -> u64 {
        let mut questions = self.lock();
        questions.count += 1;
        let number = questions.count;
        let asked = Asked {
            of,
            came: Vec::new(),
            left: None,
            gone: false,
        };
        questions.asked.insert(number, asked);
        number
    }

    /// Waits until a question is over, or for as long as anybody waits.
    fn end(&self, number: u64) -> Asked {
        let is_open =
            |questions: &mut Questions| questions.asked.get(&number).is_some_and(Asked::is_open);
        let waited = self
            .over
            .wait_timeout_while(self.lock(), TELL_SPAN_MAX, is_open);
        let (mut questions, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let asked = questions.asked.remove(&number);
        asked.expect("who began a question ends it, once")
    }

    /// A part came; none if it makes no sense.
    fn take(&self, from: NodeId, bytes: &[u8]) -> Option<()> {
        let (number, bytes) = bytes.split_first_chunk()?;
        let (left, part) = bytes.split_first_chunk()?;
        let left = u32::from_le_bytes(*left) as usize;
        let mut questions = self.lock();
        let number = u64::from_le_bytes(*number);
        let asked = questions.asked.get_mut(&number);
        if let Some(asked) = asked.filter(|asked| asked.of == from && asked.is_open()) {
            asked.take(left, part)?;
            self.over.notify_all();
        }
        Some(())
    }

    /// An agent that was asked is gone.
    pub(crate) fn is_gone(&self, node: NodeId) {
        let mut questions = self.lock();
        let asked = questions.asked.values_mut();
        asked
            .filter(|asked| asked.of == node)
            .for_each(|asked| asked.gone = true);
        questions.owed.retain(|(to, _)| *to != node);
        self.over.notify_all();
    }

    /// Notes a question of another; true if a thread is needed.
    fn owe(&self, to: NodeId, number: u64) -> bool {
        let mut questions = self.lock();
        if questions.owed.len() < QUESTIONS_MAX {
            questions.owed.push((to, number));
        }
        !std::mem::replace(&mut questions.telling, true)
    }

    /// Takes all that is owed; with nothing of it the thread is to end.
    fn owed(&self) -> Option<Vec<(NodeId, u64)>> {
        let mut questions = self.lock();
        let owed = std::mem::take(&mut questions.owed);
        questions.telling = !owed.is_empty();
        questions.telling.then_some(owed)
    }
}

impl Core {
    /// The residency of an agent of the job: this one, or another that is asked.
    pub(crate) fn residency_of(&self, node: NodeId) -> Result<Residency, NotTold> {
        let me = self.lock().node().config().me;
        if node == me {
            return Ok(self.residency());
        }
        let told = self.asked_of(ASK_HELD, node)?;
        told::decode(&told).ok_or(NotTold::Silent(node.0, me.0))
    }

    /// Another agent's answer to a question, of which this is the first byte of the head.
    pub(crate) fn asked_of(&self, question: u8, node: NodeId) -> Result<Vec<u8>, NotTold> {
        let me = self.lock().node().config().me;
        // Noted before it is seen that the agent is here: it may go at any moment.
        let number = self.asking.begin(node);
        if self.lock().up.get(node.0 as usize) != Some(&true) {
            self.asking.is_gone(node);
        }
        let mut head = vec![question];
        head.extend_from_slice(&number.to_le_bytes());
        self.send_head(node, &head);
        let asked = self.asking.end(number);
        match asked.left {
            Some(0) => Ok(asked.came),
            Some(_) | None if asked.gone => Err(NotTold::Away(node.0, me.0)),
            Some(_) | None => Err(NotTold::Silent(node.0, me.0)),
        }
    }

    /// Sends an answer in parts.
    pub(crate) fn tell_parts(&self, to: NodeId, number: u64, told: &[u8]) {
        for (left, part) in told::parts(told) {
            let mut head = vec![HELD];
            head.extend_from_slice(&number.to_le_bytes());
            head.extend_from_slice(&left.to_le_bytes());
            head.extend_from_slice(part);
            self.send_head(to, &head);
        }
    }

    /// Another agent asks what is here.
    pub(crate) fn owe_residency(&self, to: NodeId, question: &[u8]) {
        let Ok(number) = question.try_into() else {
            return self.disconnect(to, "it sent a torn question");
        };
        if !self.asking.owe(to, u64::from_le_bytes(number)) {
            return;
        }
        let core = self.arc();
        let named = thread::Builder::new().name("residency".to_owned());
        if let Err(error) = named.spawn(move || core.tell_residency()) {
            log::warn!("cannot tell others what is here: {error}");
            // The agents that have asked give up.
            while self.asking.owed().is_some() {}
        }
    }

    fn tell_residency(&self) {
        while let Some(owed) = self.asking.owed() {
            let told = told::encode(&self.residency());
            for (to, number) in owed {
                self.tell_parts(to, number, &told);
            }
        }
    }

    /// Another agent tells what it holds.
    pub(crate) fn take_residency(&self, from: NodeId, bytes: &[u8]) {
        if self.asking.take(from, bytes).is_none() {
            self.disconnect(from, "it told what it holds in parts that do not fit");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64, left: u32, bytes: &[u8]) -> Vec<u8> {
        [&number.to_le_bytes()[..], &left.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn parts_of_the_one_who_was_asked_make_an_answer() {
        let asking = Asking::default();
        let number = asking.begin(NodeId(1));
        for (from, part) in [
            (2, part(number, 0, b"xx")),
            (1, part(number, 2, b"ab")),
            (1, part(number + 1, 0, b"yy")),
            (1, part(number, 0, b"cd")),
            (1, part(number, 0, b"late")),
        ] {
            assert_eq!(asking.take(NodeId(from), &part), Some(()));
        }
        let asked = asking.end(number);
        assert_eq!((asked.left, &asked.came[..]), (Some(0), &b"abcd"[..]));
        assert!(asking.lock().asked.is_empty());
    }

    #[test]
    fn parts_that_do_not_fit_or_are_too_many_are_refused() {
        let asking = Asking::default();
        let number = asking.begin(NodeId(1));
        for wrong in [
            vec![1; 11],
            part(number, 5, b""),
            part(number, told::TOLD_BYTES_MAX as u32, b"a"),
            part(number, u32::MAX, b"a"),
        ] {
            assert_eq!(asking.take(NodeId(1), &wrong), None);
        }
        assert_eq!(asking.take(NodeId(1), &part(number, 4, b"a")), Some(()));
        assert_eq!(asking.take(NodeId(1), &part(number, 4, b"a")), None);
    }

    #[test]
    fn nobody_waits_for_an_agent_that_is_gone() {
        let asking = Asking::default();
        let numbers = [1, 2].map(|node| asking.begin(NodeId(node)));
        asking.is_gone(NodeId(1));
        assert!(asking.end(numbers[0]).gone);
        assert!(asking.lock().asked[&numbers[1]].is_open());
    }

    #[test]
    fn one_thread_tells_all_who_have_asked() {
        let asking = Asking::default();
        assert!(asking.owe(NodeId(1), 5));
        assert!(!asking.owe(NodeId(2), 6));
        assert_eq!(asking.owed(), Some(vec![(NodeId(1), 5), (NodeId(2), 6)]));
        assert!(!asking.owe(NodeId(1), 7));
        assert!(asking.owed().is_some());
        assert_eq!(asking.owed(), None);
        assert!(asking.owe(NodeId(1), 8));
        let many = 0..2 * QUESTIONS_MAX as u64;
        assert!(!many.into_iter().any(|number| asking.owe(NodeId(1), number)));
        assert_eq!(asking.lock().owed.len(), QUESTIONS_MAX);
    }
}
