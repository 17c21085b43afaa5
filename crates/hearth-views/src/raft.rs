//! The log of views: decided by a majority of a few of them, on one thread.
//!
//! ```text
//!  agent's threads ── call ──> thread of the log ── ViewWire::ask ──> other agents
//!                 <─ answer ─┘   openraft, in memory  <── Embedded::hear ─┘
//! ```
//!
//! Up to [`VOTERS_MAX`] agents vote. The others ask, and follow by watching. Only decided entries and
//! reads that a majority confirms are relied on, never the belief to be the coordinator. The log is in memory:
//! an agent that restarts is another incarnation, and so another voter.
//!
//! A voter that is excluded or leaves is replaced by the eldest member that does not vote. Nobody else is
//! excluded before that. A set that does not reach a majority of its voters decides no more: its members renew
//! each other's leases if all of them are there. If the missing are dead for certain, those left found another log.
//!
//! Reading order: `types` (the words), `store` and `machine` (a voter's log, and its views), `voter` (calls),
//! `hear` (requests of others), `leases` (when an exclusion may be proposed). Then `electorate` (the voters),
//! `elections` (when one of them asks to coordinate), `founding` (another log after this), `network`.

mod elections;
mod electorate;
mod founding;
mod hear;
mod leases;
mod machine;
mod network;
mod store;
#[cfg(test)]
mod testing;
mod types;
mod voter;

use crate::history::ViewHistory;
use crate::lease::LocalClock;
use crate::log::{LogError, Patience, Renewed, Silence, ViewLog};
use crate::membership::{MemberId, MemberKey, Membership, MembershipChange, ViewNumber};
use crate::wire::{AnswerSlot, ViewWire};
use founding::Part;
use network::Asking;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use types::{Answer, Request};
use voter::Voter;

pub use types::{EmbeddedConfig, LeaseProbe};

/// Most voters. More would make each decision slower and survive little more.
pub const VOTERS_MAX: usize = 5;

/// Calls and requests that wait for the thread. Further ones are not taken: the caller hears of silence.
pub const COMMANDS_MAX: usize = 256;

/// Calls and requests that the thread works on. Further ones are dropped: their callers hear of silence.
pub const TASKS_MAX: usize = 256;

/// How often an agent asks another for new views while somebody watches there.
const WATCH_ASK_SPAN: Duration = Duration::from_millis(100);

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The settings are not those of a set.
    #[error("a log needs 1 to {VOTERS_MAX} voters and a heartbeat, not {0} voters")]
    Settings(usize),
    /// The system gives no thread.
    #[error("cannot start the thread of the log of views")]
    Thread(#[source] io::Error),
}

enum Command {
    Propose(MembershipChange, ViewNumber, Duration, SyncSender<Answer>),
    Renew(MemberKey, Duration, SyncSender<Result<Renewed, LogError>>),
    Hear(Vec<u8>, AnswerSlot),
    FoundAnew(Vec<MemberKey>, SyncSender<Result<(), LogError>>),
    HasStopped(SyncSender<bool>),
    Broken(MemberId),
    Look(usize),
    Compact,
    Coordinator(Duration, SyncSender<Option<MemberKey>>),
    Voters(Duration, SyncSender<Option<BTreeSet<MemberKey>>>),
}

/// The log as one agent has it.
pub struct Embedded {
    history: Arc<ViewHistory>,
    /// None when it ends.
    commands: Option<mpsc::Sender<Command>>,
    looked: Mutex<(usize, Option<Instant>)>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Begins with a view: at voters the first of the set, at others any that was decided.
    pub fn start(
        config: EmbeddedConfig,
        first: Membership,
        wire: Arc<dyn ViewWire>,
        clock: Arc<dyn LocalClock>,
    ) -> Result<Embedded, EmbeddedError> {
        let seats = config.seats;
        let are_too_many = config.voters.len() > seats;
        if seats == 0 || seats > VOTERS_MAX || are_too_many || config.heartbeat.is_zero() {
            return Err(EmbeddedError::Settings(seats));
        }
        let history = Arc::new(ViewHistory::new(Arc::new(first)));
        let (commands, taken) = mpsc::channel(COMMANDS_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(EmbeddedError::Thread)?;
        let views = Arc::clone(&history);
        let thread = std::thread::Builder::new()
            .name("hearth-views".to_owned())
            .spawn(move || runtime.block_on(run(config, views, Asking(wire), clock, taken)))
            .map_err(EmbeddedError::Thread)?;
        Ok(Embedded {
            history,
            commands: Some(commands),
            looked: Mutex::new((0, None)),
            thread: Some(thread),
        })
    }

    /// The agent that coordinates, as far as this one knows: for people, never for a decision.
    pub fn coordinator(&self, patience: &Patience) -> Result<MemberKey, LogError> {
        let known = self.await_answer(patience, Command::Coordinator)?;
        known.ok_or(LogError::Undecided(Silence::NoMajority))
    }

    /// The agents that vote, once this one knows of no change of them that is not decided: for people, never for a
    /// decision.
    pub fn voters(&self, patience: &Patience) -> Result<BTreeSet<MemberKey>, LogError> {
        let known = self.await_answer(patience, Command::Voters)?;
        known.ok_or(LogError::Undecided(Silence::NoMajority))
    }

    /// Takes a request of another agent. Never blocks.
    pub fn hear(&self, request: Vec<u8>, answer: AnswerSlot) {
        self.command(Command::Hear(request, answer));
    }

    /// Founds another log without these members, which are dead for certain: if this agent is the first of those left, and
    /// all of those say so. Others go on to ask.
    pub fn found_anew(&self, dead: &[MemberKey], patience: &Patience) -> Result<(), LogError> {
        let dead = dead.to_vec();
        self.await_answer(patience, |_, sender| Command::FoundAnew(dead, sender))?
    }

    /// True if its log has ended, and no other has begun: [`found_anew`](Self::found_anew) is due.
    pub fn has_stopped(&self, patience: &Patience) -> bool {
        let stopped = self.await_answer(patience, |_, sender| Command::HasStopped(sender));
        stopped.unwrap_or(false)
    }

    /// The connection to another agent broke. If that coordinates, another does soon.
    pub fn broken(&self, member: MemberId) {
        self.command(Command::Broken(member));
    }

    /// Forgets all views but the newest `keep`, and the entries of the log that made them.
    pub fn compact(&self, keep: usize) {
        self.history.compact(keep);
        self.command(Command::Compact);
    }

    /// A command that is not taken is dropped, with the place for its answer.
    fn command(&self, command: Command) {
        let commands = self.commands.as_ref().expect("it is there until the end");
        let _ = commands.try_send(command);
    }

    fn look(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_soon = |at: Instant| at.elapsed() < WATCH_ASK_SPAN;
        if looked.1.is_some_and(is_soon) {
            return;
        }
        *looked = (looked.0 + 1, Some(Instant::now()));
        self.command(Command::Look(looked.0));
    }

    /// The answer of the thread, if it comes before the patience ends.
    fn await_answer<T>(
        &self,
        patience: &Patience,
        command: impl FnOnce(Duration, SyncSender<T>) -> Command,
    ) -> Result<T, LogError> {
        let deadline = patience.deadline();
        let (sender, answer) = sync_channel(1);
        let span = deadline.left().map_err(LogError::Undecided)?;
        self.command(command(span.unwrap_or_default(), sender));
        while let Some(slice) = deadline.slice().map_err(LogError::Undecided)? {
            match answer.recv_timeout(slice) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(LogError::Undecided(Silence::NoMajority))
    }
}

impl ViewLog for Embedded {
    fn propose(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
        patience: &Patience,
    ) -> Result<Arc<Membership>, LogError> {
        let change = change.clone();
        let command = |span, sender| Command::Propose(change, at, span, sender);
        match self.await_answer(patience, command)? {
            Answer::Decided(decided) => decided.map(|view| Arc::new(*view)),
            Answer::Granted(_) | Answer::Elsewhere(_) => {
                Err(LogError::Undecided(Silence::NoMajority))
            }
        }
    }

    fn watch(
        &self,
        after: ViewNumber,
        patience: &Patience,
    ) -> Result<Vec<Arc<Membership>>, LogError> {
        self.history.wait_after(after, patience, || {
            self.look();
            None
        })
    }

    fn renew(&self, member: MemberKey, patience: &Patience) -> Result<Renewed, LogError> {
        self.await_answer(patience, |span, sender| {
            Command::Renew(member, span, sender)
        })?
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// The thread's work, until the last sender of commands is gone.
async fn run(
    config: EmbeddedConfig,
    history: Arc<ViewHistory>,
    asking: Asking,
    clock: Arc<dyn LocalClock>,
    mut commands: mpsc::Receiver<Command>,
) {
    let Some(voter) = Voter::start(config, history, asking, clock).await else {
        return;
    };
    let mut part = Part::begin(voter);
    let tasks = Arc::new(tokio::sync::Semaphore::new(TASKS_MAX));
    loop {
        let anew = Arc::clone(&part.voter.anew);
        let command = tokio::select! {
            command = commands.recv() => command,
            () = anew.notified() => {
                match part.follow().await {
                    Some(next) => part = next,
                    None => return,
                }
                continue;
            }
        };
        let Some(command) = command else {
            break;
        };
        // Not waited for: what is dropped here is asked again, and others' words must go through.
        let Ok(turn) = Arc::clone(&tasks).try_acquire_owned() else {
            continue;
        };
        let voter = Arc::clone(&part.voter);
        tokio::spawn(async move {
            carry_out(&voter, command).await;
            drop(turn);
        });
    }
    part.end().await;
}

/// A term of waiting begins when the agent learns that it coordinates, so it should not learn late.
async fn follow_elections(voter: Arc<Voter>) {
    let mut metrics = voter.raft.metrics();
    while metrics.changed().await.is_ok() {
        voter.leases.follow(&voter);
    }
}

async fn carry_out(voter: &Arc<Voter>, command: Command) {
    match command {
        Command::Propose(change, at, span, sender) => {
            let until = tokio::time::Instant::now() + span;
            let answer = voter.coordinated(Request::Propose(change, at), until).await;
            // A caller whose patience ended is gone.
            let _ = sender.try_send(answer);
        }
        Command::Renew(member, span, sender) => {
            let _ = sender.try_send(voter.renew(member, span).await);
        }
        Command::Hear(request, answer) => voter.hear(&request, answer).await,
        Command::FoundAnew(dead, sender) => {
            let _ = sender.try_send(voter.found_anew(&dead).await);
        }
        Command::HasStopped(sender) => {
            let _ = sender.try_send(voter.has_stopped.load(Ordering::Acquire));
        }
        Command::Broken(member) => voter.elections.broken(&voter.raft, member),
        Command::Look(turn) => voter.look(turn, WATCH_ASK_SPAN).await,
        Command::Coordinator(span, sender) => {
            let known = tokio::time::timeout(span, voter.coordinator()).await;
            let _ = sender.try_send(known.ok().flatten());
        }
        Command::Voters(span, sender) => {
            let known = tokio::time::timeout(span, electorate::decided_voters(&voter.raft)).await;
            let _ = sender.try_send(known.ok().flatten());
        }
        Command::Compact => {
            // A log that ended has nothing to forget.
            let _ = voter.raft.trigger().snapshot().await;
        }
    }
}
