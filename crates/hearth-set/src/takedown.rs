//! Ends a set: flush, unmount, flush, stop, look whether everything is gone, clear up.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use hearth_agent::{CloseRule, Policy};
use rustix::process::Signal;
use serde_json::Value;

use crate::agent::Health;
use crate::bank;
use crate::control::{Busy, CallError, ControlRequest, Peer, call, call_within, connect};
use crate::failure::{Failure, OrFail};
use crate::holders::{self, Holder};
use crate::job::{AgentEntry, MountEntry};
use crate::mountinfo::{self, MountHealth};
use crate::output::{progress, progress_over};
use crate::process::Process;
use crate::set::{Life, Set, ask_all, ask_all_within};
use crate::size::Size;
use crate::unmount::{abort, abort_at, connection_at, end_of, unmount_at};

/// The longest wait for one step of an agent, but for bytes on their way to the store, of which people hear then.
const STEP_MAX: Duration = Duration::from_secs(8);

/// The longest that all steps together take in a hurry.
const HURRY_MAX: Duration = Duration::from_secs(9);

/// Of that, what is kept for the end of processes.
const END_SPAN: Duration = Duration::from_secs(2);

/// Between two looks at how much is left.
const PROGRESS_SPAN: Duration = Duration::from_millis(500);

/// A program has started another after this.
const FORK_SPAN: Duration = Duration::from_millis(500);

/// Between two looks at the programs in a mount.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Programs that are named; there may be many.
const NAMED_MAX: usize = 5;

/// How a set is ended.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The treatment of bytes that the store does not have.
    pub dirty: Dirty,
    /// The treatment of programs that still use it.
    pub busy: Busy,
    /// Whether to end within ten seconds, be it that the set is still up.
    pub hurry: bool,
}

impl How {
    /// For a set that nobody has used yet.
    pub const AT_ONCE: How = How {
        dirty: Dirty::Discard,
        busy: Busy::Detach,
        hurry: true,
    };
}

/// The treatment of bytes that the store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirty {
    /// Flush them; if that fails, leave the set up.
    Flush,
    /// Forget them.
    Discard,
}

/// When a hurry is over.
#[derive(Clone, Copy)]
struct Clock(Option<Instant>);

impl Clock {
    fn of(how: How) -> Clock {
        Clock(how.hurry.then(|| Instant::now() + HURRY_MAX - END_SPAN))
    }

    /// How long the next step may take.
    fn left(self) -> Duration {
        self.0.map_or(STEP_MAX, |end| {
            end.saturating_duration_since(Instant::now())
                .max(END_SPAN / 10)
        })
    }
}

/// The end of a set, of which nothing is left.
#[derive(Clone, Debug, Default)]
pub struct TakenDown {
    /// Lines that people should know.
    pub notes: Vec<String>,
    /// Bytes that a close had confirmed may be lost, or those of another host.
    pub may_lack_bytes: bool,
}

impl TakenDown {
    /// The agents that are left know of lost bytes, and nobody will once they are gone.
    fn note_losses(&mut self, set: &Set) {
        let answers = ask_all_within(&set.peers(), &ControlRequest::Status, END_SPAN);
        let agents = answers.into_iter().flatten();
        let losses = agents.flat_map(|answer| health(answer).status().losses);
        let losses: BTreeSet<String> = losses.collect();
        self.may_lack_bytes |= !losses.is_empty();
        self.notes.extend(losses);
    }

    /// Agents were gone. They had bytes of open files alone, if a close brings bytes to the store.
    fn note_gone(&mut self, set: &Set, gone: Vec<String>) {
        self.may_lack_bytes |= !gone.is_empty() && !closes_bring(set);
        self.notes.extend(gone);
    }
}

/// Whether the bytes of files that were closed are in the store.
fn closes_bring(set: &Set) -> bool {
    let spec = &set.file.spec;
    spec.policy != Policy::Local && spec.close == CloseRule::Flushed
}

/// The bytes that go with an agent of a set.
fn lost(set: &Set) -> &'static str {
    match closes_bring(set) {
        true => "bytes that were neither closed nor synced are lost",
        false => "bytes that were not in the store are lost",
    }
}

/// Ends a set; comes back once nothing of it is left.
pub fn take_down(set: &Set, how: How) -> Result<TakenDown, Failure> {
    let mut ended = TakenDown::default();
    let clock = Clock::of(how);
    let set = &successors(set, clock.left())?;
    if set.life() != Life::Dead {
        if how.busy == Busy::Refuse {
            check_unused(set, clock)?;
        }
        check_mounts(set, how)?;
        if how.dirty == Dirty::Flush {
            ended = flush_set(set, clock).map_err(|failure| let_go(set, how, failure))?;
            ended.note_losses(set);
        }
        let ends = ends_of_mounts(set, how);
        unmount(set, how, clock)?;
        if how.dirty == Dirty::Flush {
            flush_by(set, clock)?;
        }
        stop(set, (how.dirty, &ends), clock)?;
    } else {
        let gone = format!("its agents were gone already; {}", lost(set));
        ended.note_gone(set, vec![gone]);
    }
    clear(set)?;
    Ok(ended)
}

/// The set with agents that can be asked: one that has died, and in whose place another is about to be, is waited for.
pub fn successors(set: &Set, limit: Duration) -> Result<Set, Failure> {
    let end = Instant::now() + limit;
    loop {
        let now = set.again()?;
        let is_awaited = |agent: &AgentEntry| {
            agent.is_guarded() && matches!(connect(&now.peer(agent)), Err(CallError::Starting(_)))
        };
        if !now.file.agents.iter().any(is_awaited) || Instant::now() > end {
            return Ok(now);
        }
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// All agents of a set flush before any of them ends, be they on other hosts.
fn flush_set(set: &Set, clock: Clock) -> Result<TakenDown, Failure> {
    let mut ended = TakenDown::default();
    ended.note_gone(set, flush_by(set, clock)?);
    if set.file.members.len() > set.file.agents.len() {
        let peer = set.peer_of_rank(0);
        let job = &set.file.job;
        let flushed = with_word(still_on_their_way(job), || match clock.0 {
            Some(_) => call_within(&peer, &ControlRequest::FlushOthers, clock.left() / 2),
            None => call(&peer, &ControlRequest::FlushOthers),
        });
        match flushed {
            Ok(_) | Err(CallError::Gone(_)) => {}
            Err(CallError::Refused(failure)) => return Err(failure.or_hint(way_out(set))),
            Err(CallError::Silent(_)) if clock.0.is_some() => {
                ended.may_lack_bytes = true;
                ended.notes.push(
                    "agents of other hosts did not say in time whether all they have is in the store"
                        .to_owned(),
                );
            }
            Err(silent) => return Err(silent.into_failure()),
        }
    }
    Ok(ended)
}

/// Says to people how to go on with bytes that the store does not have.
fn way_out(set: &Set) -> String {
    let job = &set.file.job;
    format!(
        "the set goes on: make room, or remove the files that are named, and try again; `hearth down --job {job} \
         --discard` gives these bytes up"
    )
}

/// Takes mounts away whose agents do not answer, where programs are to lose them in any case: they would wait for ever.
fn let_go(set: &Set, how: How, mut failure: Failure) -> Failure {
    if how.busy == Busy::Refuse {
        return failure;
    }
    for mount in &set.file.mounts {
        let mut agents = set.file.agents.iter();
        let agent = agents.find(|agent| agent.node == mount.node);
        let answer =
            agent.map(|agent| call_within(&set.peer(agent), &ControlRequest::Status, END_SPAN / 2));
        if !matches!(answer, Some(Err(CallError::Silent(_)))) {
            continue;
        }
        let at = mount.at.display();
        failure = match abort_at(&mount.at) {
            Ok(()) => failure.cause(format!(
                "programs in `{at}` get errors from now on, and wait no more"
            )),
            Err(error) => failure.cause(format!(
                "cannot end what programs in `{at}` wait for: {error}"
            )),
        };
    }
    failure
}

/// Brings everything to the store. Agents that are gone are named in the answer.
pub fn flush(set: &Set) -> Result<Vec<String>, Failure> {
    flush_by(set, Clock(None))
}

fn flush_by(set: &Set, clock: Clock) -> Result<Vec<String>, Failure> {
    let mut gone = Vec::new();
    let peers = set.peers();
    let answers = match clock.0 {
        Some(_) => ask_all_within(&peers, &ControlRequest::Flush, clock.left()),
        None => {
            let word = still_on_their_way(&set.file.job);
            with_progress(&peers, || {
                with_word(word, || ask_all(&peers, &ControlRequest::Flush))
            })
        }
    };
    let mut refused: Option<Failure> = None;
    for (peer, answer) in peers.iter().zip(answers) {
        match answer {
            Ok(_) => {}
            Err(CallError::Gone(who)) => {
                gone.push(format!("{who} was gone already; {}", lost(set)));
            }
            Err(CallError::Refused(failure)) => {
                let failure = Failure::new(format!("{peer} could not flush")).after(failure);
                refused = Some(match refused {
                    None => failure.hint(way_out(set)),
                    Some(first) => first.after(failure),
                });
            }
            Err(CallError::Silent(who)) if clock.0.is_some() => {
                return Err(Failure::new(format!(
                    "{who} has not brought all its bytes to the store"
                ))
                .hint("try again, or give these bytes up with --discard"));
            }
            Err(silent) => return Err(silent.into_failure()),
        }
    }
    refused.map_or(Ok(gone), Err)
}

fn still_on_their_way(job: &str) -> String {
    format!(
        "bytes of job {job} are still on their way to the store; `hearth down --job {job} --discard` gives them up"
    )
}

/// Shows on a terminal how much is left while bytes go to the store.
fn with_progress<T>(peers: &[Peer], work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let (working, done) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while done.recv_timeout(PROGRESS_SPAN) == Err(RecvTimeoutError::Timeout) {
                let answers = ask_all_within(peers, &ControlRequest::Status, PROGRESS_SPAN);
                let agents = answers.into_iter().flatten();
                let left = agents.map(|answer| health(answer).status().dirty_bytes);
                progress(&format!(
                    "{} are on their way to the store",
                    Size(left.sum())
                ));
            }
            progress_over();
        });
        let result = work();
        drop(working);
        result
    })
}

/// Says a word to people if something takes long.
fn with_word<T>(word: String, work: impl FnOnce() -> T) -> T {
    let (working, done) = channel::<()>();
    let watch = thread::spawn(move || {
        if done.recv_timeout(STEP_MAX) == Err(RecvTimeoutError::Timeout) {
            hearth_client::say!("note: {word}");
        }
    });
    let result = work();
    drop(working);
    // It only prints.
    let _ = watch.join();
    result
}

/// Removes what a set left whose agents are all gone.
pub fn clear(set: &Set) -> Result<(), Failure> {
    assert!(set.life() == Life::Dead, "a living set is not cleared");
    for mount in &set.file.mounts {
        detach_stale(&mount.at)?;
    }
    bank::end(&set.file.bank)?;
    set.dir.remove()
}

/// Takes a mount away that nobody serves; anything else stays.
pub fn detach_stale(at: &Path) -> Result<(), Failure> {
    let what = || format!("cannot unmount `{}`", at.display());
    let mounts = mountinfo::read().or_fail(what)?;
    let is_ours = |mount: &&mountinfo::MountPoint| mount.at == at && mount.is_hearth();
    match mounts.iter().rfind(is_ours) {
        Some(mount) if mount.service() == MountHealth::Gone => {
            unmount_at(at, Busy::Detach).or_fail(what)
        }
        _ => Ok(()),
    }
}

/// Fails if commands are inside of namespaces that an agent serves.
fn check_unused(set: &Set, clock: Clock) -> Result<(), Failure> {
    let answers = ask_all_within(&set.peers(), &ControlRequest::Status, clock.left());
    for health in answers.into_iter().flatten().map(health) {
        if let Some(user) = health.users.first() {
            let what = format!(
                "job {} is in use by `hearth run` (pid {user})",
                set.file.job
            );
            return Err(Failure::new(what).hint("let it end, or end the set under it with --force"));
        }
    }
    Ok(())
}

/// An agent's answer about itself, as far as it can be read.
pub fn health(value: Value) -> Health {
    serde_json::from_value(value).unwrap_or_default()
}

/// Fails if programs use a mount, unless it is to be taken away under them; then it says so.
fn check_mounts(set: &Set, how: How) -> Result<(), Failure> {
    let mut mounts = set.file.mounts.iter();
    mounts.try_for_each(|mount| check_mount(&mount.at, busy(how)))
}

/// The same of one mount.
pub fn check_mount(at: &Path, busy: Busy) -> Result<(), Failure> {
    let held = holders_for_a_while(at);
    let names = held.iter().take(NAMED_MAX).map(ToString::to_string);
    let at = at.display();
    if busy == Busy::Detach {
        names.for_each(|name| hearth_client::say!("note: taking `{at}` away under {name}"));
    } else if !held.is_empty() {
        let what = Failure::new(format!("cannot unmount `{at}`: programs use it"));
        return Err(names.fold(what, Failure::cause).hint(
            "let them end, or take it away under them with --force: they lose what they write from then on",
        ));
    }
    Ok(())
}

/// Programs that are about to start others have what these will not have, for a moment.
fn holders_for_a_while(at: &Path) -> Vec<Holder> {
    let end = Instant::now() + FORK_SPAN;
    loop {
        let held = holders::of(at);
        if held.is_empty() || Instant::now() > end {
            return held;
        }
        thread::park_timeout(LOOK_AGAIN);
    }
}

fn busy(how: How) -> Busy {
    match how.dirty {
        Dirty::Flush => how.busy,
        // Their bytes are given up; so is their mount.
        Dirty::Discard => Busy::Detach,
    }
}

fn unmount(set: &Set, how: How, clock: Clock) -> Result<(), Failure> {
    for mount in &set.file.mounts {
        let agents = &set.file.agents;
        if let Some(agent) = agents.iter().find(|agent| agent.node == mount.node) {
            unmount_one(&set.peer(agent), mount, how, clock)?;
        }
    }
    Ok(())
}

fn unmount_one(peer: &Peer, mount: &MountEntry, how: How, clock: Clock) -> Result<(), Failure> {
    if how.dirty == Dirty::Flush {
        write_back(&mount.at, clock);
    }
    let busy = busy(how);
    let answer = match how.hurry || how.dirty == Dirty::Discard {
        true => {
            let at = mount.at.clone();
            call_within(peer, &ControlRequest::Unmount { at, busy }, clock.left())
        }
        false => unmount_by(peer, &mount.at, busy),
    };
    match answer {
        Ok(_) => Ok(()),
        // Nothing is mounted there any more.
        Err(CallError::Refused(failure)) if failure.exit_code() == 1 => Ok(()),
        Err(CallError::Gone(_)) => detach_stale(&mount.at),
        Err(CallError::Silent(_)) if how.dirty == Dirty::Discard => {
            // Its agent is killed next; programs are let go be it that this does not end it.
            abort_at(&mount.at).or_fail(|| format!("cannot unmount `{}`", mount.at.display()))
        }
        Err(CallError::Silent(_)) if how.hurry => {
            let what = format!("{peer} has not unmounted `{}` in time", mount.at.display());
            Err(Failure::new(what).hint("it goes on: try again"))
        }
        Err(error) => Err(error.into_failure()),
    }
}

/// Has an agent take a mount away. That takes the operating system some microseconds for each file that it remembers there,
/// be it a million. So it takes as long as the agent says that it is at work.
pub fn unmount_by(peer: &Peer, at: &Path, busy: Busy) -> Result<Value, CallError> {
    let word = format!(
        "`{}` is still being unmounted: the operating system gives up all that it remembers of it",
        at.display()
    );
    let at = at.to_owned();
    with_word(word, || call(peer, &ControlRequest::Unmount { at, busy }))
}

/// Has the operating system give back the bytes that programs wrote to mapped files. It would do so with the mount's
/// last copy, but other mount namespaces may have one. In a process of its own, which may have to be left behind.
fn write_back(at: &Path, clock: Clock) {
    let mut sync = Command::new("sync");
    let sync = sync.arg("--file-system").arg(at).stdin(Stdio::null());
    let Ok(mut child) = sync.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return;
    };
    let gone = Process::of(child.id()).map(|process| process.wait_gone(clock.left() / 2));
    if matches!(gone, None | Some(Ok(true))) {
        // Its word on how it went changes nothing.
        let _ = child.wait();
    }
}

/// Ways to end mounts that are taken away under programs: these and the agent may wait for each other.
fn ends_of_mounts(set: &Set, how: How) -> Vec<(u32, File)> {
    let mounts = set.file.mounts.iter().filter(|_| busy(how) == Busy::Detach);
    let end = |mount: &MountEntry| {
        let connection = connection_at(&mount.at).ok().flatten()?;
        Some((mount.node, end_of(connection).ok()?))
    };
    mounts.filter_map(end).collect()
}

fn stop(set: &Set, (dirty, ends): (Dirty, &[(u32, File)]), clock: Clock) -> Result<(), Failure> {
    let peers = set.peers();
    if dirty == Dirty::Flush {
        let request = match set.file.members.len() > set.file.agents.len() {
            true => ControlRequest::Stop,
            false => ControlRequest::StopWithAll,
        };
        // Whether they have heard it shows below.
        drop(ask_all_within(&peers, &request, clock.left()));
    }
    for agent in &set.file.agents {
        let mut own = ends.iter().filter(|(node, _)| *node == agent.node);
        end(set, agent, (dirty, clock), own.next().map(|(_, end)| end))?;
    }
    Ok(())
}

/// An agent that does not end is killed: all that it had is in the store by now, or given up.
fn end(
    set: &Set,
    agent: &AgentEntry,
    (dirty, clock): (Dirty, Clock),
    mount: Option<&File>,
) -> Result<(), Failure> {
    let peer = set.peer(agent);
    let what = || format!("cannot end {peer}");
    let last = clock.0.map_or(STEP_MAX, |_| END_SPAN);
    let flushes = dirty == Dirty::Flush;
    let in_order = if mount.is_some() {
        END_SPAN
    } else {
        clock.left()
    };
    let mut is_gone = flushes && agent.process.wait_gone(in_order).or_fail(what)?;
    if let Some(mount) = mount.filter(|_| !is_gone) {
        // Programs inside have lost it already.
        if let Err(error) = abort(mount) {
            log::debug!("cannot end a mount: {error}");
        }
        is_gone = flushes && agent.process.wait_gone(clock.left()).or_fail(what)?;
    }
    if flushes && !is_gone {
        hearth_client::say!(
            "note: {peer} had brought its bytes to the store, did not end, and is killed"
        );
    }
    if let Some(warden) = agent.warden
        && !(is_gone && warden.wait_gone(END_SPAN).or_fail(what)?)
    {
        // First, or another agent would take its place.
        warden.signal(Signal::KILL).or_fail(what)?;
        warden.wait_gone(last).or_fail(what)?;
    }
    if is_gone {
        return Ok(());
    }
    // Another one may have taken its place before that.
    let now = set.dir.set()?;
    let mut agents = now.agents.iter().chain([agent]);
    agents.try_for_each(|other| match other.node == agent.node {
        true => kill(other.process, last).map_err(|failure| Failure::new(what()).after(failure)),
        false => Ok(()),
    })
}

fn kill(process: Process, limit: Duration) -> Result<(), Failure> {
    let what = || "cannot kill it".to_owned();
    process.signal(Signal::KILL).or_fail(what)?;
    match process.wait_gone(limit).or_fail(what)? {
        true => Ok(()),
        false => Err(Failure::new(
            "the kernel holds it in a call that does not end",
        )),
    }
}
