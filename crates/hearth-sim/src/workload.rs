//! The work of sessions: chosen at random, from the plan's seed.

use crate::plan::delay;
use crate::rng::Rng;
use crate::world::session::{Action, Open};
use crate::world::{Event, World};
use hearth_proto::{BankAttributes, Delegates};
use hearth_proto::{FileId, NodeId, Semantics, Span, WriteAt, errno};
use std::collections::BTreeMap;

/// The stream of choices of a run, and how many are left.
pub(crate) struct Choices {
    rng: Rng,
    left: u32,
    /// The page that each session used last.
    used: BTreeMap<usize, u64>,
}

impl Choices {
    pub(crate) fn new(seed: u64, steps: u32) -> Choices {
        Choices {
            rng: Rng::new(seed, 3),
            left: steps,
            used: BTreeMap::new(),
        }
    }
}

impl World {
    /// Makes the files and the sessions, and sets them off.
    pub(crate) fn set_off(&mut self) {
        for file in 1..=u64::from(self.plan.files) {
            let size = self.choices.rng.below(self.most_bytes() + 1);
            self.create(FileId(file), size);
            if self.choices.rng.chance(8) {
                let owner = self.choices.rng.below(u64::from(self.plan.nodes)) as u32;
                self.private.insert(FileId(file), owner);
            }
        }
        for number in 0..self.plan.sessions {
            let session =
                self.add_session((number % (self.plan.nodes - self.plan.spares)) as usize);
            self.rest(session);
        }
        self.begin_views();
    }

    fn most_bytes(&self) -> u64 {
        self.plan.file_pages * u64::from(self.plan.page_bytes)
    }

    /// The session has nothing to wait for; it thinks for a while.
    pub(crate) fn rest(&mut self, session: usize) {
        if self.scripted {
            return;
        }
        let rng = &mut self.choices.rng;
        let span = match rng.below(100) {
            0..30 => Span(0),
            30..96 => delay(rng, Span::millis(3)),
            96..99 => Span::millis(rng.below(300)),
            _ => Span::millis(rng.below(8_000)),
        };
        self.after(span, Event::Think { session });
    }

    /// The session chooses what to do next.
    pub(crate) fn think(&mut self, session: usize) {
        if self.sessions[session].doing.is_some() {
            return;
        }
        if !self.hosts[self.sessions[session].node].is_alive() {
            return match self.plan.returns {
                true => self.after(Span::millis(100), Event::Think { session }),
                false => self.ends(session),
            };
        }
        if self.choices.left == 0 {
            return self.wind_up(session);
        }
        self.choices.left -= 1;
        self.last_begun = self.now;
        self.trouble();
        if !self.hosts[self.sessions[session].node].is_alive() {
            match (self.plan.returns, self.plan.has_views()) {
                (false, _) => return self.ends(session),
                (true, true) => return self.after(Span::millis(100), Event::Think { session }),
                (true, false) => {}
            }
        }
        let action = self.choose(session);
        self.begin(session, action);
    }

    /// No operations are left: closes, and ends all faults with the last session.
    fn wind_up(&mut self, session: usize) {
        self.last_begun = self.now;
        let open = self.sessions[session].handles.len();
        if let Some(handle) = open.checked_sub(1) {
            let flushed = std::mem::replace(&mut self.sessions[session].finished, false);
            let action = if flushed {
                Action::Close(handle)
            } else {
                self.sessions[session].finished = true;
                Action::Flush(handle)
            };
            return self.begin(session, action);
        }
        self.ends(session);
    }

    /// A session does no more; the last one ends all faults.
    fn ends(&mut self, session: usize) {
        self.sessions[session].finished = true;
        let all = |session: &crate::world::session::Session| {
            session.finished && session.handles.is_empty() && session.doing.is_none()
        };
        if self.sessions.iter().all(all) && !self.healed {
            self.heal();
        }
    }

    /// Something goes wrong around the nodes.
    fn trouble(&mut self) {
        let rng = &mut self.choices.rng;
        if self.plan.store_faults && rng.chance(4) {
            let errno = *rng.pick(&[errno::EIO, 28]);
            let span = Span::millis(rng.below(2_500));
            self.fail_store(errno, span);
        }
        let nodes = u64::from(self.plan.nodes);
        if self.plan.link_faults && nodes > 1 && self.choices.rng.chance(2) {
            let rng = &mut self.choices.rng;
            let a = rng.below(nodes);
            let b = (a + 1 + rng.below(nodes - 1)) % nodes;
            let (a, b) = (a as u32, b as u32);
            if rng.chance(30) {
                self.stall_link(a, b);
            } else {
                self.break_link(a, b);
            }
        }
        if self.plan.bank_faults && self.has_bank() && self.choices.rng.chance(6) {
            self.trouble_bank();
        }
        if self.plan.partitions && nodes > 1 && self.choices.rng.chance(1) {
            let first = 1 + self.choices.rng.below(nodes - 1) as u32;
            self.part(first);
        }
        if self.plan.pauses && self.choices.rng.chance(2) {
            let node = self.choices.rng.below(nodes) as usize;
            self.pause(node);
        }
        if self.plan.crashes && self.choices.rng.chance(2) {
            let node = self.choices.rng.below(nodes) as usize;
            self.crash(node);
        }
    }

    /// Nearly all that sessions do is to look at files that nobody has open, in daemons if these know.
    fn only_looks(&self) -> bool {
        let daemons = self.plan.bank.attributes == BankAttributes::Daemons;
        self.plan.only_looks && daemons && self.has_bank()
    }

    fn choose(&mut self, session: usize) -> Action {
        let looks = match self.only_looks() {
            true => 95,
            false => 30,
        };
        if self.plan.looks && self.choices.rng.chance(looks) {
            let file = self.choose_file(session);
            return match self.choices.rng.chance(75) {
                true => Action::Look(file),
                false => Action::Restamp(file),
            };
        }
        if self.plan.hands && self.choices.rng.chance(35) {
            return self.choose_heir(session);
        }
        let handles = self.sessions[session].handles.clone();
        let roll = self.choices.rng.below(100);
        let few = handles.len() < 4;
        match (roll, handles.as_slice()) {
            (0..70, []) => self.choose_open(session),
            (_, []) => self.choose_without_handle(session),
            (0..36, open) => self.choose_read(session, open),
            (36..66, open) => self.choose_write(session, open),
            (66..68, open) if self.plan.semantics.gathers() => {
                Action::Exchange(self.choices.rng.below(open.len() as u64) as usize)
            }
            (66..=70, open) => Action::Flush(self.choices.rng.below(open.len() as u64) as usize),
            (71..75, open) => Action::Sync(self.choices.rng.below(open.len() as u64) as usize),
            (75..81, open) => Action::Close(self.choices.rng.below(open.len() as u64) as usize),
            (81..88, _) if few => self.choose_open(session),
            _ => self.choose_without_handle(session),
        }
    }

    /// A file that the session may name.
    fn choose_file(&mut self, session: usize) -> FileId {
        let node = self.sessions[session].node as u32;
        let file = FileId(1 + self.choices.rng.below(u64::from(self.plan.files)));
        match self.private.get(&file) {
            // Nobody else can open it; a number that no file has stands for the refusal.
            Some(&owner) if owner != node => FileId(99),
            _ => file,
        }
    }

    /// A file of which the session's node has something as its home goes to any node.
    fn choose_heir(&mut self, session: usize) -> Action {
        // Files that somebody has open stay.
        let open = self.sessions[session].handles.len();
        if open > 0 {
            return Action::Close(self.choices.rng.below(open as u64) as usize);
        }
        let node = &self.hosts[self.sessions[session].node].node();
        let files = (1..=u64::from(self.plan.files)).map(FileId);
        let here: Vec<FileId> = files.filter(|&file| node.is_home_of(file)).collect();
        if here.is_empty() {
            return self.choose_open(session);
        }
        let rng = &mut self.choices.rng;
        Action::HandOver {
            file: *rng.pick(&here),
            heir: NodeId(rng.below(u64::from(self.plan.nodes)) as u32),
        }
    }

    fn choose_open(&mut self, session: usize) -> Action {
        let file = self.choose_file(session);
        let write = self.choices.rng.chance(50);
        Action::Open { file, write }
    }

    fn choose_place(&mut self) -> (u64, u32) {
        let page = u64::from(self.plan.page_bytes);
        let (most, pages) = (self.most_bytes(), self.plan.file_pages);
        let rng = &mut self.choices.rng;
        match rng.below(10) {
            0..4 => (rng.below(pages) * page, page as u32),
            4..6 => (rng.below(pages) * page, (page * rng.within(1, 4)) as u32),
            _ => (rng.below(most), rng.within(1, page * 5 / 2) as u32),
        }
    }

    /// A place of a session, where a policy delegates often one in the page that it used last.
    fn choose_place_of(&mut self, session: usize) -> (u64, u32) {
        let delegates = self.plan.policy.rules().delegates;
        if delegates == Delegates::Never || !self.plan.stays {
            return self.choose_place();
        }
        let page = u64::from(self.plan.page_bytes);
        let used = self.choices.used.get(&session).copied();
        let stays = self.choices.rng.chance(80);
        let Some(used) = used.filter(|_| stays) else {
            let (offset, len) = self.choose_place();
            self.choices.used.insert(session, offset / page);
            return (offset, len);
        };
        let rng = &mut self.choices.rng;
        if delegates == Delegates::Overwriter && rng.chance(80) {
            return (used * page, page as u32);
        }
        let at = rng.below(page);
        (used * page + at, rng.within(1, page - at) as u32)
    }

    fn choose_read(&mut self, session: usize, open: &[Open]) -> Action {
        let handle = self.choices.rng.below(open.len() as u64) as usize;
        let (offset, len) = self.choose_place_of(session);
        Action::Read {
            handle,
            offset,
            len,
        }
    }

    fn choose_write(&mut self, session: usize, open: &[Open]) -> Action {
        let mut writers = (0..open.len()).filter(|&handle| open[handle].write);
        let Some(handle) = writers.next() else {
            return match self.choices.rng.chance(70) {
                true => self.choose_read(session, open),
                false => self.choose_open(session),
            };
        };
        let (offset, len) = self.choose_place_of(session);
        let at = if self.choices.rng.chance(20) {
            WriteAt::End
        } else {
            WriteAt::Offset(offset)
        };
        Action::Write { handle, at, len }
    }

    fn choose_without_handle(&mut self, session: usize) -> Action {
        let file = self.choose_file(session);
        let most = self.most_bytes();
        let rng = &mut self.choices.rng;
        match rng.below(20) {
            0..7 => {
                let ask = rng.chance(85);
                Action::Stat { file, ask }
            }
            7..10 => {
                let size = rng.below(most + 1);
                Action::Truncate { file, size }
            }
            10..12 => Action::Unlink(file),
            12..14 => {
                let size = rng.below(most + 1);
                Action::Create { file, size }
            }
            14 if self.plan.semantics == Semantics::Commit => Action::Laminate(file),
            14..16 => Action::Settle(file),
            16 => Action::Restamp(file),
            17 => Action::FlushAll,
            // Under `job` nobody looks for changes from outside, and nothing is promised of such a file (S33).
            _ if self.plan.outside && self.plan.semantics != Semantics::Job => {
                let (offset, len) = self.choose_place();
                Action::Outside { file, offset, len }
            }
            _ => self.choose_open(session),
        }
    }
}
