//! Another log after one whose voters are gone for good.
//!
//! A majority of the voters may be dead for certain at once: the one voter of a pair, two of three, or one while voters
//! change. Then nobody decides, and nobody is excluded. The members that are left found another log, if each says so.
//!
//! ```text
//!   founder, the first of the living                every other of the living
//!      would your log end in view n? ──────────────>  yes: it knows no later view, and holds its lease
//!      it ends ────────────────────────────────────>  its log ends, it decides nothing more, and still knows no later view
//!      view n + 1024, without the dead ────────────>  follows the other log
//! ```
//!
//! - LOG-5: a log is founded by the word of every member that is not dead for certain. So nobody decides in the one before,
//!   and no living member knows a view that the other log lacks.
//! - LOG-6: each gives its word under its lease. Nobody excludes a member that holds one, so the dead have not gone on
//!   without it.
//!
//! A founder that stops halfway leaves agents without a log. They hold their leases until those run out, and ask again.

use super::types::{Request, Stop};
use super::voter::{ANSWER_SPAN_MAX, Voter, undecided_yet};
use crate::log::LogError;
use crate::membership::{MemberKey, Membership, ViewNumber};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;

impl Voter {
    /// Founds another log without these members, which are dead for certain, if it is this agent's turn.
    pub(super) async fn found_anew(&self, dead: &[MemberKey]) -> Result<(), LogError> {
        let view = self.history.newest();
        let dead: Vec<MemberKey> = dead.iter().copied().filter(|key| view.has(*key)).collect();
        let Some(others) = self.others_left(&view, &dead) else {
            return Err(undecided_yet());
        };
        let at = view.number();
        self.all_stop(&others, at, Stop::Asked).await?;
        if !self.hear_stop(at, Stop::Done).await {
            return Err(undecided_yet());
        }
        self.all_stop(&others, at, Stop::Done).await?;
        let founded = view.founded_anew(self.config.me, &dead)?;
        self.learn([founded.clone()]);
        // Those that do not hear it now ask for later views.
        for other in others {
            let (asking, founded) = (self.asking.clone(), Box::new(founded.clone()));
            tokio::spawn(async move {
                let request = Request::Founded(founded);
                asking
                    .ask::<bool>(other.id, &request, ANSWER_SPAN_MAX)
                    .await
            });
        }
        Ok(())
    }

    /// The other living members, if this agent is the first of all and there are dead. Voters change one after another, so
    /// one that is dead may have been needed for a majority.
    fn others_left(&self, view: &Membership, dead: &[MemberKey]) -> Option<Vec<MemberKey>> {
        let is_over = !dead.is_empty() || self.has_stopped.load(Ordering::Acquire);
        let living = view.keys().into_iter().filter(|key| !dead.contains(key));
        let mut living: Vec<MemberKey> = living.collect();
        let is_first = living.first() == Some(&self.config.me);
        (is_over && is_first).then(|| living.split_off(1))
    }

    async fn all_stop(
        &self,
        others: &[MemberKey],
        at: ViewNumber,
        how: Stop,
    ) -> Result<(), LogError> {
        let mut asked = JoinSet::new();
        for other in others {
            let (asking, id) = (self.asking.clone(), other.id);
            asked.spawn(async move {
                let request = Request::Stop(at, how);
                asking.ask::<bool>(id, &request, STOP_SPAN).await
            });
        }
        while let Some(word) = asked.join_next().await {
            if !matches!(word, Ok(Some(true))) {
                return Err(undecided_yet());
            }
        }
        Ok(())
    }

    /// This agent's word on the end of its log in a view, and the deed.
    pub(super) async fn hear_stop(&self, at: ViewNumber, how: Stop) -> bool {
        let agrees = || self.history.newest().number() == at && (self.config.holds.0)();
        if !agrees() || how == Stop::Asked {
            return agrees();
        }
        // Pairs with the Acquire of those that look whether it decides.
        self.has_stopped.store(true, Ordering::Release);
        // It can only fail if it has ended already. All that it decided before is known then.
        let _ = self.raft.shutdown().await;
        agrees()
    }
}

/// Patience for one word: an agent that works answers at once.
const STOP_SPAN: Duration = Duration::from_millis(500);

/// A log of the same agent, with what takes the place of its voter.
pub(super) struct Part {
    pub(super) voter: Arc<Voter>,
    helpers: [tokio::task::JoinHandle<()>; 3],
}

impl Part {
    pub(super) fn begin(voter: Arc<Voter>) -> Part {
        let [a, b, c] = [&voter, &voter, &voter].map(Arc::clone);
        let helpers = [
            tokio::spawn(super::follow_elections(a)),
            tokio::spawn(super::electorate::tend(b)),
            tokio::spawn(super::elections::take_turns(c)),
        ];
        Part { voter, helpers }
    }

    /// The part of the same agent in the log that the newest view is of.
    pub(super) async fn follow(self) -> Option<Part> {
        let old = self.end().await;
        let founding = old.history.newest().founding();
        let mut config = old.config.clone();
        config.voters = { [founding.by] }
            .into_iter()
            .filter(|by| *by == config.me)
            .collect();
        let (history, clock) = (Arc::clone(&old.history), Arc::clone(&old.clock));
        let voter = Voter::start(config, history, old.asking.clone(), clock).await?;
        Some(Part::begin(voter))
    }

    /// Ends it.
    pub(super) async fn end(self) -> Arc<Voter> {
        self.helpers.iter().for_each(|helper| helper.abort());
        // It can only fail if it has ended already.
        let _ = self.voter.raft.shutdown().await;
        self.voter
    }
}
