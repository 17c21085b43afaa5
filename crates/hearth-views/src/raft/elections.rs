//! The times at which a voter asks to coordinate.
//!
//! openraft's own timer draws one span for good, so two voters with like spans would each vote for themselves again and
//! again. Here each voter has a turn of its own, by its place among the voters. All spans are in beats of the coordinator:
//!
//! ```text
//!   last heard ── LEASE ──┬─ BROKEN ─> first voter ── TURN ──> second ── TURN ──> third     its connection broke
//!                         └─ SILENT ─────> first voter ── TURN ──> second ...               nothing is heard of it
//! ```
//!
//! An election that was not needed costs no operation: it only delays exclusions.

use super::electorate::voters;
use super::types::Raft;
use super::voter::Voter;
use crate::membership::{MemberId, MemberKey};
use openraft::ServerState;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// For so long after they have heard of a coordinator, voters vote for no other.
pub(super) const LEASE_BEATS: u32 = 4;

/// Without a coordinator that is connected, the first voter asks after this.
const BROKEN_BEATS: u32 = 5;

/// With one that is connected and silent.
const SILENT_BEATS: u32 = 10;

/// Between the turns of two voters. Votes take less, as a rule.
const TURN_BEATS: u32 = 2;

/// Facts about the last coordinator.
struct Heard {
    /// When it was heard of, or this voter asked or voted.
    at: Instant,
    /// A coordinator to which the connection broke, and nothing was heard since.
    broken: Option<MemberKey>,
}

/// One voter's sense of time.
pub(super) struct Elections(Mutex<Heard>);

impl Elections {
    pub(super) fn new() -> Elections {
        Elections(Mutex::new(Heard {
            at: Instant::now(),
            broken: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A coordinator was heard of, or one was voted for.
    pub(super) fn heard(&self) {
        *self.lock() = Heard {
            at: Instant::now(),
            broken: None,
        };
    }

    /// The connection to an agent broke.
    pub(super) fn broken(&self, raft: &Raft, member: MemberId) {
        if let Some(leader) = leader(raft).filter(|leader| leader.id == member) {
            self.lock().broken = Some(leader);
        }
    }

    /// When this voter is to ask, if nothing is heard before.
    fn due(&self, raft: &Raft, me: MemberKey, beat: Duration) -> Option<Instant> {
        let place = place(raft, me)?;
        let heard = self.lock();
        let leader = leader(raft);
        let is_connected = leader.is_some() && leader != heard.broken;
        let beats = if is_connected {
            SILENT_BEATS
        } else {
            BROKEN_BEATS
        };
        Some(heard.at + beat * (beats + TURN_BEATS * place))
    }
}

/// The agent that coordinates, as far as this one knows.
fn leader(raft: &Raft) -> Option<MemberKey> {
    raft.metrics().borrow().current_leader
}

/// The place of this agent among the voters; none if it is no voter, or coordinates.
fn place(raft: &Raft, me: MemberKey) -> Option<u32> {
    if raft.metrics().borrow().state == ServerState::Leader {
        return None;
    }
    let voters = voters(raft);
    let place = voters.iter().position(|voter| *voter == me)?;
    u32::try_from(place).ok()
}

/// Asks whenever it is this voter's turn.
pub(super) async fn take_turns(voter: Arc<Voter>) {
    let (raft, me, beat) = (&voter.raft, voter.config.me, voter.config.heartbeat);
    loop {
        let now = Instant::now();
        match voter.elections.due(raft, me, beat) {
            Some(due) if due <= now => {
                voter.elections.heard();
                if raft.trigger().elect().await.is_err() {
                    return;
                }
            }
            // It may be later by then, as something was heard, or earlier, as a connection broke.
            Some(due) => tokio::time::sleep_until(due.min(now + beat)).await,
            None => {
                voter.elections.heard();
                tokio::time::sleep(beat).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ViewHistory;
    use crate::lease::{LeaseTerms, LocalClock, LocalTime};
    use crate::membership::{LossesBorne, Membership};
    use crate::raft::network::Asking;
    use crate::raft::testing::record;
    use crate::raft::types::EmbeddedConfig;
    use crate::wire::{AnswerSlot, ViewWire, WireClass};
    use std::sync::Weak;

    const BEAT: Duration = Duration::from_millis(100);
    const VOTERS: u32 = 3;
    const ROUNDS: u32 = 20;

    /// Words arrive at once, but those from and to a voter that is cut off.
    #[derive(Default)]
    struct Net {
        voters: Mutex<Vec<Weak<Voter>>>,
        cut_off: Mutex<Option<u32>>,
    }

    struct Way(u32, Arc<Net>);

    struct NoClock;

    impl LocalClock for NoClock {
        fn now(&self) -> LocalTime {
            LocalTime(0)
        }
    }

    impl ViewWire for Way {
        fn ask(&self, to: MemberId, _: WireClass, request: Vec<u8>, answer: AnswerSlot) {
            let cut_off = *self.1.cut_off.lock().unwrap();
            let voter = self.1.voters.lock().unwrap()[to.0 as usize].upgrade();
            if let Some(voter) = voter.filter(|_| cut_off != Some(to.0) && cut_off != Some(self.0))
            {
                tokio::spawn(async move { voter.hear(&request, answer).await });
            }
        }
    }

    async fn start(net: &Arc<Net>) -> Vec<Arc<Voter>> {
        let records: Vec<_> = (0..VOTERS).map(record).collect();
        let first = Arc::new(Membership::found_with(&records, LossesBorne(1)).unwrap());
        net.voters
            .lock()
            .unwrap()
            .resize_with(VOTERS as usize, Weak::new);
        let mut voters = Vec::new();
        for me in 0..VOTERS {
            let config = EmbeddedConfig {
                me: record(me).key,
                voters: first.keys().into_iter().collect(),
                seats: VOTERS as usize,
                terms: LeaseTerms::USUAL,
                heartbeat: BEAT,
                holds: crate::raft::LeaseProbe(Arc::new(|| true)),
            };
            let history = Arc::new(ViewHistory::new(Arc::clone(&first)));
            let asking = Asking(Arc::new(Way(me, Arc::clone(net))));
            let voter = Voter::start(config, history, asking, Arc::new(NoClock)).await;
            let voter = voter.unwrap();
            net.voters.lock().unwrap()[me as usize] = Arc::downgrade(&voter);
            tokio::spawn(take_turns(Arc::clone(&voter)));
            voters.push(voter);
        }
        voters
    }

    /// The voter that coordinates, once all but one agree on it, and the beats until then.
    async fn coordinator(voters: &[Arc<Voter>], but: Option<u32>) -> (u32, u32) {
        let others = (0..).zip(voters).filter(|(id, _)| Some(*id) != but);
        let others: Vec<_> = others.map(|(_, voter)| voter).collect();
        for beats in 0.. {
            let leaders = others
                .iter()
                .map(|voter| voter.raft.metrics().borrow().current_leader);
            let leaders: std::collections::BTreeSet<_> = leaders.collect();
            match leaders.into_iter().collect::<Vec<_>>()[..] {
                [Some(leader)] if Some(leader.id.0) != but => return (leader.id.0, beats),
                _ => tokio::time::sleep(BEAT).await,
            }
        }
        unreachable!("it waits for ever")
    }

    /// Cuts off each coordinator in turn, and says how many beats its replacement took at most.
    async fn replace_all(are_told: impl Fn(&Voter, MemberId)) -> u32 {
        let net = Arc::<Net>::default();
        let voters = start(&net).await;
        let mut worst = 0;
        for _ in 0..ROUNDS {
            let (gone, _) = coordinator(&voters, None).await;
            *net.cut_off.lock().unwrap() = Some(gone);
            voters
                .iter()
                .for_each(|voter| are_told(voter, MemberId(gone)));
            let (_, beats) = coordinator(&voters, Some(gone)).await;
            worst = worst.max(beats);
            *net.cut_off.lock().unwrap() = None;
        }
        worst
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(work)
    }

    #[test]
    fn coordinator_whose_connections_break_is_replaced_soon() {
        let told = |voter: &Voter, gone| voter.elections.broken(&voter.raft, gone);
        let beats = run(replace_all(told));
        assert!(beats <= BROKEN_BEATS + 2 * TURN_BEATS + 1, "{beats} beats");
    }

    #[test]
    fn coordinator_that_is_silent_is_replaced_later() {
        let beats = run(replace_all(|_, _| {}));
        assert!(beats > BROKEN_BEATS + 2 * TURN_BEATS, "{beats} beats");
        assert!(beats <= SILENT_BEATS + 2 * TURN_BEATS + 1, "{beats} beats");
    }
}
