//! Store operations by a node that has the file open.
//!
//! A home opens a file by a name, and the name may be wrong. The file was renamed or its last name is gone, or the
//! home's own client of the store still knows the inode that had the name a second ago. The descriptor of a node that
//! has the file open is always right. So a home that does not reach a file, or whose descriptor the store calls stale,
//! asks the other nodes who has it open ([`Opener`]). The first node that can do so makes the operation for it
//! ([`Make`], [`Made`]). The kernel does not know of it: to it the operation takes longer.
//!
//! Rules:
//! - A node that is asked uses descriptors that are open there, and asks nobody: no node waits for one that waits for it.
//! - No worker waits for an answer; the operation does, until the node answers or is gone. The kernel is told each second
//!   from which nodes something is wanted, and gives up those that stay silent.
//! - Bytes that another node writes are durable when it answers: a later fsync here would not cover them.
//! - A node that has let go of the file since it was asked is asked no more, and the search begins anew: another may have
//!   the file open all the same.
//! - If nobody has the file open the operation is tried once more, by the name that was told last, and then fails.

use crate::core::{Core, State};
use crate::files::{Purpose, STALE, open_again};
use crate::late::LOOK;
use crate::making::{self, Made, Make, Opener, Work};
use crate::store::SyncKind;
use crate::trace::StoreSpan;
use crate::workers::{FileJob, Job, Outcome, finish, kernel_stamp};
use hearth_client::Errno;
use hearth_net::{PAYLOAD_LEN_MAX, PeerId};
use hearth_proto::{FileId, Input, NodeId, StoreOk, Time};
use std::collections::{BTreeSet, HashMap};
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// An operation that this node has not made, and since when.
#[derive(Debug)]
pub(crate) struct Stuck {
    pub(crate) job: FileJob,
    pub(crate) span: StoreSpan,
    /// Nodes that were to make it and did not.
    tried: Vec<NodeId>,
}

impl Stuck {
    pub(crate) fn new(job: FileJob, span: StoreSpan) -> Stuck {
        Stuck {
            job,
            span,
            tried: Vec::new(),
        }
    }

    fn can_be_made(&self, by: NodeId, opener: &Opener) -> bool {
        let has = match self.job.task.purpose() {
            Purpose::Read => opener.reads || self.job.task.is_sync() && opener.writes,
            Purpose::Write => opener.writes,
        };
        has && !self.tried.contains(&by)
    }
}

/// Operations of homes here that other nodes make.
#[derive(Debug, Default)]
pub(crate) struct Openers {
    /// Files of which others were asked whether they have them open: who has not answered, and what waits for that.
    sought: HashMap<FileId, Sought>,
    /// Operations by the number under which another node makes them.
    made: HashMap<u64, (NodeId, Stuck)>,
    numbered: u64,
    /// When the kernel was last told of the nodes that owe something of this.
    told: Time,
}

#[derive(Debug, Default)]
struct Sought {
    awaiting: Vec<NodeId>,
    /// The nodes that have answered, with their answers. One of them makes an operation that comes later, too.
    heard: Vec<(NodeId, Opener)>,
    waiting: Vec<Stuck>,
}

/// How a search goes on with one more operation.
#[derive(Debug, Default)]
struct Search {
    /// Nodes that are to be asked now.
    asked: Vec<NodeId>,
    /// The node that can make the operation, as is known already.
    found: Option<(NodeId, Stuck)>,
    /// Operations that nobody can make.
    alone: Vec<Stuck>,
}

impl Openers {
    /// Looks for a node that can make an operation, of those that are up.
    fn seek(&mut self, stuck: Stuck, up: impl Iterator<Item = NodeId>) -> Search {
        let file = stuck.job.file;
        let mut search = Search::default();
        let sought = self.sought.entry(file).or_insert_with(|| {
            search.asked.extend(up);
            Sought {
                awaiting: search.asked.clone(),
                ..Sought::default()
            }
        });
        let can = |(node, opener): &&(NodeId, Opener)| stuck.can_be_made(*node, opener);
        match sought.heard.iter().find(can) {
            Some(&(node, _)) => search.found = Some((node, stuck)),
            None => sought.waiting.push(stuck),
        }
        search.alone = self.end_search(file);
        search
    }

    /// A node has said what it has of a file: what it can make, and what nobody can.
    fn answered(&mut self, from: NodeId, opener: &Opener) -> (Vec<Stuck>, Vec<Stuck>) {
        let Some(sought) = self.sought.get_mut(&opener.file) else {
            return Default::default();
        };
        sought.awaiting.retain(|&node| node != from);
        sought.heard.push((from, opener.clone()));
        let can = |stuck: &mut Stuck| stuck.can_be_made(from, opener);
        let can = sought.waiting.extract_if(.., can).collect();
        (can, self.end_search(opener.file))
    }

    /// The nodes that owe an answer or an operation.
    fn owing(&self) -> BTreeSet<NodeId> {
        let asked = self.sought.values().flat_map(|sought| &sought.awaiting);
        let making = self.made.values().map(|(node, _)| node);
        asked.chain(making).copied().collect()
    }

    /// When the kernel is to be told of them again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let is_idle = self.sought.is_empty() && self.made.is_empty();
        (!is_idle).then(|| self.told + LOOK)
    }

    /// Those nodes, if it is time to tell the kernel of them.
    pub(crate) fn due(&mut self, now: Time) -> BTreeSet<NodeId> {
        if self.deadline().is_none_or(|due| due > now) {
            return BTreeSet::new();
        }
        self.told = now;
        self.owing()
    }

    /// Takes the operations that wait for a search, if it is over.
    fn end_search(&mut self, file: FileId) -> Vec<Stuck> {
        match self.sought.get(&file) {
            Some(sought) if sought.awaiting.is_empty() || sought.waiting.is_empty() => {
                self.sought.remove(&file).unwrap_or_default().waiting
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Takes back an operation that another node was to make, and has not.
    fn not_made(&mut self, by: NodeId, number: u64) -> Option<Stuck> {
        let (_, mut stuck) = self.made.remove(&number)?;
        stuck.tried.push(by);
        Some(stuck)
    }

    /// A node is gone: what it was to make, and what nobody else can.
    pub(crate) fn gone(&mut self, peer: NodeId) -> (Vec<Stuck>, Vec<Stuck>) {
        let its = self.made.iter().filter(|(_, (node, _))| *node == peer);
        let numbers: Vec<u64> = its.map(|(number, _)| *number).collect();
        let lost = numbers
            .into_iter()
            .filter_map(|number| self.not_made(peer, number));
        let lost = lost.collect();
        let mut alone = Vec::new();
        let files: Vec<FileId> = self.sought.keys().copied().collect();
        for file in files {
            if let Some(sought) = self.sought.get_mut(&file) {
                sought.awaiting.retain(|&node| node != peer);
                sought.heard.retain(|&(node, _)| node != peer);
            }
            alone.extend(self.end_search(file));
        }
        (lost, alone)
    }
}

impl Core {
    /// Looks for a node that can make an operation.
    pub(crate) fn seek_opener(&self, stuck: Stuck) {
        let file = stuck.job.file;
        let search = {
            let mut state = self.lock();
            let up = (0..).zip(&state.up).filter(|(_, up)| **up);
            let up = up.map(|(node, _)| NodeId(node));
            let up: Vec<NodeId> = up.filter(|&node| !state.node().is_gone(node)).collect();
            state.openers.seek(stuck, up.into_iter())
        };
        self.try_alone(search.alone);
        if let Some((node, stuck)) = search.found {
            self.queue.push(Job::ByOpener(node, stuck));
        }
        let head = making::encode_where(file);
        for &node in &search.asked {
            self.send_head(node, &head);
        }
        self.drive_each(
            search
                .asked
                .into_iter()
                .map(|node| move |_: &mut State| Input::Wanted(node)),
        );
    }

    /// Operations that nobody else makes.
    pub(crate) fn try_alone(&self, stuck: Vec<Stuck>) {
        stuck
            .into_iter()
            .map(Job::Alone)
            .for_each(|job| self.queue.push(job));
    }

    /// A node asks what this one has of a file.
    pub(crate) fn tell_opener(&self, to: NodeId, bytes: &[u8]) {
        let Some(file) = making::decode_where(bytes) else {
            return self.disconnect(to, "it sent a torn question");
        };
        let opener = {
            let mut state = self.lock();
            Opener {
                file,
                reads: state.files.opener(file, Purpose::Read).is_some(),
                writes: state.files.opener(file, Purpose::Write).is_some(),
                path: state.files.place(file),
            }
        };
        self.send_head(to, &opener.encode());
    }

    /// A node has said what it has of a file.
    pub(crate) fn hear_opener(&self, from: NodeId, bytes: &[u8]) {
        let Some(opener) = Opener::decode(bytes) else {
            return self.disconnect(from, "it sent a torn answer");
        };
        let mut state = self.lock();
        if let Some(path) = opener.path.clone() {
            state.files.introduce(opener.file, path);
        }
        let (can, alone) = state.openers.answered(from, &opener);
        drop(state);
        for stuck in can {
            self.queue.push(Job::ByOpener(from, stuck));
        }
        self.try_alone(alone);
    }

    /// Has a node make an operation. A worker does so, as the bytes of a write are copied.
    pub(crate) fn have_made(&self, by: NodeId, mut stuck: Stuck) {
        let (work, offset, len) = stuck.job.task.work();
        let bytes = stuck.job.task.bytes(self);
        let transport = self.transport.get();
        let Some(transport) = transport.filter(|_| len as usize <= PAYLOAD_LEN_MAX) else {
            return finish(self, stuck, Err(STALE));
        };
        let make = {
            let mut state = self.lock();
            if !state.up[by.0 as usize] {
                drop(state);
                stuck.tried.push(by);
                return self.seek_opener(stuck);
            }
            let file = stuck.job.file;
            state.openers.numbered += 1;
            let number = state.openers.numbered;
            state.openers.made.insert(number, (by, stuck));
            Make {
                number,
                file,
                work,
                offset,
                len,
            }
        };
        let sent = transport.send(PeerId(by.0), &make.encode(), &[IoSlice::new(&bytes)]);
        if let Err(error) = sent {
            log::debug!("{error}");
        }
        self.drive(Input::Wanted(by));
    }

    /// A home elsewhere has this node make an operation.
    pub(crate) fn owe_made(&self, to: NodeId, bytes: &[u8], payload: Vec<u8>) {
        let make = Make::decode(bytes).filter(|make| make.is_sound(payload.len()));
        let Some(make) = make else {
            return self.disconnect(to, "it asked for an operation beyond its bounds");
        };
        let fd = self.lock().files.opener(make.file, make.work.purpose());
        self.queue.push(Job::ForHome {
            to,
            make,
            fd,
            bytes: payload,
        });
    }

    /// Makes an operation for a home elsewhere.
    pub(crate) fn make_for(&self, to: NodeId, make: &Make, fd: Option<Arc<OwnedFd>>, bytes: &[u8]) {
        let result = fd.ok_or(STALE).and_then(|fd| self.make(make, &fd, bytes));
        let (result, bytes) = match result {
            Ok(Outcome { ok, bytes }) => (Ok(ok), bytes.unwrap_or_default()),
            Err(errno) => (Err(errno.0), Vec::new()),
        };
        let made = Made {
            number: make.number,
            result,
        };
        if let Some(transport) = self.transport.get()
            && let Err(error) =
                transport.send(PeerId(to.0), &made.encode(), &[IoSlice::new(&bytes)])
        {
            log::debug!("{error}");
        }
    }

    fn make(&self, make: &Make, fd: &OwnedFd, bytes: &[u8]) -> Result<Outcome, Errno> {
        let (store, file, fd) = (&self.store, fd, fd.as_fd());
        match make.work {
            Work::Read => {
                // Nobody tells this node of the writes of others.
                let again = open_again((store.as_ref(), self.root.as_fd()), file);
                let again = again.filter(|again| store.renew(again.as_fd()).is_ok());
                let fd = again.as_ref().map_or(fd, AsFd::as_fd);
                if again.is_none() {
                    store.renew(fd)?;
                }
                let bytes = store.read_vec(fd, make.offset, make.len as usize)?;
                return Ok(Outcome::of_bytes(bytes));
            }
            Work::Write => {
                store.write_bytes(fd, make.offset, bytes)?;
                store.settle(fd)?;
                store.sync(fd, SyncKind::Data)?;
            }
            Work::Pieces => {
                let torn = Errno(hearth_proto::errno::EIO);
                for (offset, piece) in making::pieces(bytes).ok_or(torn)? {
                    store.write_bytes(fd, offset, piece)?;
                }
                store.settle(fd)?;
                store.sync(fd, SyncKind::Data)?;
            }
            Work::Stamp => store.settle(fd)?,
            Work::Sync => {
                store.settle(fd)?;
                store.sync(fd, SyncKind::All)?;
            }
        }
        let stamp = kernel_stamp(store.stamp(fd)?);
        Ok(Outcome::from(StoreOk { bytes: 0, stamp }))
    }

    /// A node has made an operation, or could not.
    pub(crate) fn take_made(&self, from: NodeId, bytes: &[u8], payload: Vec<u8>) {
        let Some(made) = Made::decode(bytes) else {
            return self.disconnect(from, "it sent a torn answer");
        };
        let waiting = self.lock().openers.not_made(from, made.number);
        let Some(stuck) = waiting else {
            return;
        };
        match made.result {
            Err(errno) if errno == STALE.0 => self.seek_opener(stuck),
            Err(errno) => finish(self, stuck, Err(Errno(errno))),
            Ok(ok) => {
                if stuck.job.task.purpose() == Purpose::Write {
                    stuck.job.at.overtake();
                }
                let outcome = stuck.job.task.take(self, ok, payload);
                finish(self, stuck, outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests;
