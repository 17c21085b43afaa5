//! The warden's own loop.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearth_fuse::{Ledger, left};
use hearth_set::agent::AgentConfig;
use hearth_set::job::SetOwner;
use hearth_set::leftovers;
use hearth_set::membership::MembershipChoice;
use hearth_set::process::{Process, timespec};
use hearth_set::unmount::{abort, end_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::set_name;

use super::{Again, Held, Line, Run, Ways, Word};
use crate::os::{self, Half};

/// How often the warden looks whether its agent's first thread is dead. Others may wait for what never comes.
const LOOK_SPAN: Duration = Duration::from_secs(1);

/// Looks at which the first thread is dead before the agent counts as dead.
const LOOKS: u32 = 2;

/// Pause before the next agent is started, if the last one was never ready.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Agents that crashed one after another before they were ready. The mount is given up then.
const CRASHES_MAX: u32 = 8;

/// The facts that a warden knows of its agent.
pub(super) struct Guard {
    config: PathBuf,
    owner: Option<OwnedFd>,
    /// Another agent takes the place of a dead one.
    revives: bool,
    line: Line,
    /// The agent's ends of line and alarm.
    far: [RawFd; 2],
    /// Rings soon after the agent's lease is over.
    lease_alarm: OwnedFd,
    /// Drops pages of the mount.
    dropper: Option<Pid>,
    agent: OwnedFd,
    number: Pid,
    /// It is ready.
    is_ready: bool,
    /// The last one that was.
    last: Option<Run>,
    /// Nothing is left of that one, nor of any since, once the present one is dead as a whole.
    are_over: bool,
    held: Option<Held>,
    /// Ends the mount.
    end: Option<File>,
    ends: bool,
    crashes: u32,
}

/// How an agent died.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Death {
    /// Nothing of it is left.
    Whole,
    /// Some of its threads wait for the operating system.
    Partial,
}

impl Guard {
    /// Made by an agent, which then splits.
    pub(super) fn of_this_process(config: &Path, line: Line, far: &Ways) -> io::Result<Guard> {
        let number = getpid();
        let told =
            AgentConfig::read(config).map_err(|failure| io::Error::other(failure.in_a_line()))?;
        let owner = match told.owner {
            SetOwner::Nobody => None,
            SetOwner::Command(Process { pid, .. }) => Pid::from_raw(pid.cast_signed())
                .map(|pid| pidfd_open(pid, PidfdFlags::empty()))
                .transpose()?,
        };
        Ok(Guard {
            config: config.to_owned(),
            owner,
            revives: told.node.spec.membership == MembershipChoice::Embedded,
            line,
            far: [far.line.number(), far.lease_alarm.as_raw_fd()],
            lease_alarm: far.lease_alarm.try_clone()?,
            dropper: None,
            agent: pidfd_open(number, PidfdFlags::empty())?,
            number,
            is_ready: false,
            last: None,
            are_over: true,
            held: None,
            end: None,
            ends: false,
            crashes: 0,
        })
    }

    /// Another agent takes the place of one that dies.
    pub(super) fn revives(&self) -> bool {
        self.revives
    }

    /// The other process has it.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }

    /// Watches over one agent after the other. Returns in each that takes the place of another, and never in the warden.
    pub(super) fn keep(mut self) -> Again {
        name_process(leftovers::WARDEN);
        loop {
            let death = self.await_death();
            let Some(last) = self.last.filter(|_| !self.ends) else {
                self.end(death);
            };
            if self.gives_up() {
                self.end(death);
            }
            self.close_all_but_mount();
            self.are_over &= death == Death::Whole;
            let again = Again {
                held: self.held.clone(),
                last,
                are_over: self.are_over,
            };
            match os::split() {
                Ok(Half::Old(number)) => self.watch(number),
                Ok(Half::New) => {
                    self.forget();
                    name_process("hearth");
                    die_with_parent();
                    return again;
                }
                Err(error) => {
                    log::error!("cannot start an agent in the place of one that died: {error}");
                    self.end(death);
                }
            }
        }
    }

    /// Returns when the agent is dead.
    fn await_death(&mut self) -> Death {
        let mut looks = 0;
        loop {
            let own = [&self.agent, &self.lease_alarm].map(AsFd::as_fd);
            let owner = self.owner.as_ref().map(AsFd::as_fd);
            let all = [self.line.as_fd()].into_iter().chain(own).chain(owner);
            let fds: Vec<BorrowedFd<'_>> = all.collect();
            let mut polled: Vec<PollFd<'_>> = fds
                .iter()
                .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
                .collect();
            // It fails if a signal comes, which ends the warden unless it is ignored.
            let _ = poll(&mut polled, Some(&timespec(LOOK_SPAN)));
            let is_ready = |at: usize| polled.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (is_whole, has_lapsed, is_orphan) = (is_ready(1), is_ready(2), is_ready(3));
            while let Some(word) = self.line.hear() {
                self.hear(word);
            }
            if is_orphan {
                self.owner = None;
                // It is dead otherwise, which shows.
                let _ = pidfd_send_signal(&self.agent, Signal::TERM);
            }
            if has_lapsed {
                self.drop_pages();
            }
            if is_whole {
                return Death::Whole;
            }
            looks = if is_half_dead(self.number) {
                looks + 1
            } else {
                0
            };
            if looks >= LOOKS {
                return Death::Partial;
            }
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Ready(run) => {
                (self.is_ready, self.last) = (true, Some(run));
                (self.are_over, self.crashes) = (true, 0);
            }
            Word::Serves(held) => {
                self.end = held.connection.and_then(|number| end_of(number).ok());
                self.held = Some(held);
            }
            // Programs may still be inside.
            Word::ServesNone => self.held = None,
            Word::Ends => self.ends = true,
        }
    }

    /// True if nobody takes the place of the agent that has died. Waits a little if it was never ready.
    fn gives_up(&mut self) -> bool {
        if !self.revives || !self.config.exists() {
            return true;
        }
        if !std::mem::take(&mut self.is_ready) {
            self.crashes += 1;
            let pause = PAUSE_MIN * 2_u32.saturating_pow(self.crashes.min(8));
            let until = Instant::now() + pause.min(PAUSE_MAX);
            while Instant::now() < until {
                std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
            }
        }
        self.crashes > CRASHES_MAX
    }

    /// The agent's lease is over: others may write by now, and it does not hear of that. Pages that the operating system keeps
    /// of its mount go, in a process of its own: one that is being read waits for the agent.
    fn drop_pages(&mut self) {
        // It rings again after another lease.
        let _ = rustix::io::read(&self.lease_alarm, &mut [0; 8][..]);
        if let Some(dropper) = self.dropper {
            match waitpid(Some(dropper), WaitOptions::NOHANG) {
                Ok(None) => return,
                Ok(Some(_)) | Err(_) => self.dropper = None,
            }
        }
        let Some(held) = &self.held else {
            return;
        };
        log::warn!("the agent's lease is over: pages of its mount are dropped");
        let ledger = held.ledger;
        // It may be held up until another agent is there, whose descriptors are none of its own.
        match os::split_apart() {
            Ok(Half::Old(dropper)) => self.dropper = Some(dropper),
            Ok(Half::New) => {
                if let Err(error) = drop_all_pages(ledger) {
                    log::error!("programs may read old bytes: {error}");
                }
                leave();
            }
            Err(error) => log::error!("programs may read old bytes: {error}"),
        }
    }

    fn watch(&mut self, number: Pid) {
        // The last one was this process's child, or another's.
        let _ = waitpid(Some(self.number), WaitOptions::NOHANG);
        self.number = number;
        match pidfd_open(number, PidfdFlags::empty()) {
            Ok(agent) => self.agent = agent,
            // The last one's stays, and it is dead: so is this one to be.
            Err(error) => log::error!("cannot watch over agent process {number:?}: {error}"),
        }
    }

    /// Descriptors of the dead agent are closed: connections to peers and programs, memory, files that no program has open.
    fn close_all_but_mount(&self) {
        close_all_but(&self.kept());
    }

    fn kept(&self) -> BTreeSet<RawFd> {
        let alarm = self.lease_alarm.as_raw_fd();
        let own = [self.line.number(), self.agent.as_raw_fd(), alarm];
        let own = own.into_iter().chain(self.far);
        let owner = self.owner.iter().map(AsRawFd::as_raw_fd);
        let end = self.end.iter().map(AsRawFd::as_raw_fd);
        let mut kept: BTreeSet<RawFd> = own.chain(owner).chain(end).collect();
        if let Some(held) = &self.held {
            kept.insert(held.ledger);
            kept.extend(&held.namespaces);
            let named = os::copy_of(held.ledger)
                .and_then(Ledger::from_fd)
                .and_then(|ledger| ledger.descriptors());
            match named {
                Ok(named) => kept.extend(named),
                Err(error) => log::error!("files that programs have open are lost: {error}"),
            }
        }
        kept
    }

    /// Ends this process, and with it what programs wait for in a mount that nobody serves. A thread of the agent may wait
    /// for them, and they for the agent: then that does not end without this either.
    fn end(&self, death: Death) -> ! {
        if let Some(end) = &self.end
            && (death == Death::Partial || !self.ends)
            && let Err(error) = abort(end)
        {
            log::error!("cannot end a mount: {error}");
        }
        leave();
    }
}

/// Closes all descriptors but these and the three standard ones.
fn close_all_but(kept: &BTreeSet<RawFd>) {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let open: Vec<RawFd> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && !kept.contains(fd)) {
        // The listing's own is closed by now.
        drop(left::adopt(fd));
    }
}

fn drop_all_pages(ledger: RawFd) -> io::Result<()> {
    let device = left::devices()?.into_iter().next();
    let device = os::copy_of(device.ok_or(io::ErrorKind::NotFound)?)?;
    // Locks and files of programs must not last longer for this process.
    close_all_but(&BTreeSet::from([device.as_raw_fd(), ledger]));
    let ledger = Ledger::from_fd(os::copy_of(ledger)?)?;
    ledger.drop_pages(device.as_fd())
}

/// Ends this process.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing here is to be brought in order, and nothing here may be dropped: descriptors are not its own"
)]
fn leave() -> ! {
    std::process::exit(0);
}

/// True for a process whose first thread has ended.
fn is_half_dead(number: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", number.as_raw_nonzero()));
    let Ok(stat) = stat else {
        return true;
    };
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// For people who list processes, and for commands that look for agents.
fn name_process(name: &str) {
    let name = CString::new(name).unwrap_or_default();
    if let Err(error) = set_name(&name) {
        log::warn!("this process has another's name: {error}");
    }
}

/// A command that ends the warden ends an agent that it does not know yet, too.
fn die_with_parent() {
    let parent = getppid();
    let asked = set_parent_process_death_signal(Some(Signal::TERM));
    if let Err(error) = asked {
        log::warn!("this agent does not end with its warden while it starts: {error}");
    }
    if parent.is_none_or(|parent| parent.is_init()) {
        log::error!("the warden ended, so this agent does");
        leave();
    }
}
