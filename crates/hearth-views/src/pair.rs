//! The log of two hosts: agent 0 decides, and the other asks it.
//!
//! Two hosts have no majority that survives one of them. So the first decides for both, as a lone host does. If it
//! dies, the other reads on: it keeps the views that it knows, and each proposal and renewal of it ends with
//! [`Silence::NoDecider`]. Its lease runs out, so it writes nothing that the store would not take from a stranger.

use crate::alone::AloneLog;
use crate::history::ViewHistory;
use crate::log::{Deadline, LogError, Patience, Renewed, Silence, ViewLog};
use crate::membership::{MemberId, MemberKey, Membership, MembershipChange, ViewNumber};
use crate::wire::{AnswerSlot, ViewWire, WireClass, bytes, read};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the second agent asks for new views while somebody watches there.
pub const WATCH_ASK_SPAN: Duration = Duration::from_millis(100);

/// The log of two hosts, as one of them has it.
pub enum PairLog {
    /// The first decides.
    First(Box<AloneLog>),
    /// The second asks.
    Second(PairSecond),
}

/// The second of two hosts.
pub struct PairSecond {
    first: MemberId,
    wire: Arc<dyn ViewWire>,
    history: Arc<ViewHistory>,
    asked: Mutex<Option<Instant>>,
}

#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Propose(MembershipChange, ViewNumber),
    Views(ViewNumber),
    Renew(MemberKey),
}

type Proposed = Result<Membership, LogError>;
type Granted = Result<Renewed, LogError>;

impl PairLog {
    /// The log of the first agent.
    pub fn first(log: AloneLog) -> PairLog {
        PairLog::First(Box::new(log))
    }

    /// The log of the second agent, which begins with the view that both were started with.
    pub fn second(first: Membership, decider: MemberId, wire: Arc<dyn ViewWire>) -> PairLog {
        PairLog::Second(PairSecond {
            first: decider,
            wire,
            history: Arc::new(ViewHistory::new(Arc::new(first))),
            asked: Mutex::new(None),
        })
    }

    /// Takes a request of the other agent. One that makes no sense gets no answer.
    pub fn hear(&self, request: &[u8], answer: AnswerSlot) {
        let PairLog::First(log) = self else {
            return;
        };
        match postcard::from_bytes(request) {
            Ok(Request::Propose(change, at)) => {
                let proposed: Proposed = log.decide(&change, at).map(Arc::unwrap_or_clone);
                answer.put(bytes(&proposed));
            }
            Ok(Request::Views(after)) => answer.put(bytes(
                &log.after(after)
                    .iter()
                    .map(AsRef::as_ref)
                    .collect::<Vec<_>>(),
            )),
            Ok(Request::Renew(member)) => answer.put(bytes(&log.grant(member))),
            Err(_) => {}
        }
    }

    /// Forgets all views but the newest `keep`.
    pub fn compact(&self, keep: usize) {
        match self {
            PairLog::First(log) => log.compact(keep),
            PairLog::Second(log) => log.history.compact(keep),
        }
    }
}

impl PairSecond {
    fn ask<T: DeserializeOwned>(
        &self,
        request: &Request,
        deadline: &Deadline<'_>,
    ) -> Result<T, LogError> {
        let (sender, answers) = sync_channel(1);
        // A caller that has gone away needs no answer.
        let slot = AnswerSlot::new(move |answer| drop(sender.try_send(answer)));
        self.wire
            .ask(self.first, WireClass::Order, bytes(request), slot);
        let silent = LogError::Undecided(Silence::NoDecider(self.first));
        while let Some(slice) = deadline.slice().map_err(LogError::Undecided)? {
            match answers.recv_timeout(slice) {
                Ok(answer) => return read(&answer).ok_or(silent),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(silent),
            }
        }
        Err(silent)
    }

    /// Asks for new views, without waiting for them, and not more often than it should.
    fn look(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_some_and(|asked| asked.elapsed() < WATCH_ASK_SPAN) {
            return;
        }
        *asked = Some(Instant::now());
        let history = Arc::clone(&self.history);
        let slot = AnswerSlot::new(move |answer| {
            for view in read::<Vec<Membership>>(&answer).unwrap_or_default() {
                history.push(Arc::new(view));
            }
        });
        let newest = self.history.newest().number();
        self.wire.ask(
            self.first,
            WireClass::Order,
            bytes(&Request::Views(newest)),
            slot,
        );
    }
}

impl ViewLog for PairLog {
    fn propose(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
        patience: &Patience,
    ) -> Result<Arc<Membership>, LogError> {
        match self {
            PairLog::First(log) => log.propose(change, at, patience),
            PairLog::Second(log) => {
                let request = Request::Propose(change.clone(), at);
                let proposed: Proposed = log.ask(&request, &patience.deadline())?;
                proposed.map(Arc::new)
            }
        }
    }

    fn watch(
        &self,
        after: ViewNumber,
        patience: &Patience,
    ) -> Result<Vec<Arc<Membership>>, LogError> {
        match self {
            PairLog::First(log) => log.watch(after, patience),
            PairLog::Second(log) => log.history.wait_after(after, patience, || {
                log.look();
                None
            }),
        }
    }

    fn renew(&self, member: MemberKey, patience: &Patience) -> Result<Renewed, LogError> {
        match self {
            PairLog::First(log) => log.renew(member, patience),
            PairLog::Second(log) => {
                let granted: Granted = log.ask(&Request::Renew(member), &patience.deadline())?;
                granted
            }
        }
    }
}
