//! Store operations by a node that has the file open.
//!
//! A home opens a file by a name, and the name may be wrong: the file was renamed or its last name is gone, or the home's
//! own client of the store still knows the inode that had the name a second ago. The descriptor of a node that has the
//! file open is always right. So a home that does not reach a file, or whose descriptor the store calls stale, asks the
//! other nodes who has it open ([`Opener`]), and has the first that can make the operation ([`Make`],
//! [`Made`]). The kernel does not know of it: to it the operation takes longer.
//!
//! Rules:
//! - A node that is asked uses descriptors that are open there, and asks nobody: no node waits for one that waits for it.
//! - No worker waits for an answer; the operation does, until the node answers or is gone.
//! - Bytes that another node writes are durable when it answers: a later fsync here would not cover them.
//! - If nobody has the file open the operation is tried once more, by the name that was told last, and then fails.

use crate::core::Core;
use crate::files::{Purpose, STALE, open_again};
use crate::making::{self, Made, Make, Opener, Work};
use crate::store::SyncKind;
use crate::trace::StoreSpan;
use crate::workers::{FileJob, Job, Outcome, finish, kernel_stamp};
use hearth_client::Errno;
use hearth_net::{PAYLOAD_LEN_MAX, PeerId};
use hearth_proto::{FileId, NodeId, StoreOk};
use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// An operation that this node has not made, and since when.
#[derive(Debug)]
pub(crate) struct Stuck {
    pub(crate) job: FileJob,
    pub(crate) span: StoreSpan,
}

/// Operations of homes here that other nodes make.
#[derive(Debug, Default)]
pub(crate) struct Openers {
    /// Files of which others were asked whether they have them open: who has not answered, and what waits for that.
    sought: HashMap<FileId, Sought>,
    /// Operations by the number under which another node makes them.
    made: HashMap<u64, (NodeId, Stuck)>,
    numbered: u64,
}

#[derive(Debug, Default)]
struct Sought {
    awaiting: Vec<NodeId>,
    waiting: Vec<Stuck>,
}

impl Openers {
    /// True if somebody has to be asked for it.
    fn seek(&mut self, stuck: Stuck, up: impl Iterator<Item = NodeId>) -> bool {
        let mut is_new = false;
        let sought = self.sought.entry(stuck.job.file).or_insert_with(|| {
            is_new = true;
            Sought {
                awaiting: up.collect(),
                waiting: Vec::new(),
            }
        });
        sought.waiting.push(stuck);
        is_new
    }

    /// A node has said what it has of a file: what it can make, and what nobody can.
    fn answered(&mut self, from: NodeId, opener: &Opener) -> (Vec<Stuck>, Vec<Stuck>) {
        let Some(sought) = self.sought.get_mut(&opener.file) else {
            return Default::default();
        };
        sought.awaiting.retain(|&node| node != from);
        let serves = |stuck: &mut Stuck| match stuck.job.task.purpose() {
            Purpose::Read => opener.reads || stuck.job.task.is_sync() && opener.writes,
            Purpose::Write => opener.writes,
        };
        let can = sought.waiting.extract_if(.., serves).collect();
        (can, self.end_search(opener.file))
    }

    /// What waits for a search that is over.
    fn end_search(&mut self, file: FileId) -> Vec<Stuck> {
        match self.sought.get(&file) {
            Some(sought) if sought.awaiting.is_empty() || sought.waiting.is_empty() => {
                self.sought.remove(&file).unwrap_or_default().waiting
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// What waits for nobody any more, as a node is gone.
    pub(crate) fn gone(&mut self, peer: NodeId) -> Vec<Stuck> {
        let lost = self.made.extract_if(|_, (node, _)| *node == peer);
        let mut stuck: Vec<Stuck> = lost.map(|(_, (_, stuck))| stuck).collect();
        let files: Vec<FileId> = self.sought.keys().copied().collect();
        for file in files {
            if let Some(sought) = self.sought.get_mut(&file) {
                sought.awaiting.retain(|&node| node != peer);
            }
            stuck.extend(self.end_search(file));
        }
        stuck
    }
}

impl Core {
    /// Looks for a node that can make an operation.
    pub(crate) fn seek_opener(&self, stuck: Stuck) {
        let file = stuck.job.file;
        let mut state = self.lock();
        let up: Vec<NodeId> = (0..)
            .zip(&state.up)
            .filter(|(_, up)| **up)
            .map(|(node, _)| NodeId(node))
            .collect();
        let is_new = state.openers.seek(stuck, up.iter().copied());
        let alone = state.openers.end_search(file);
        drop(state);
        self.try_alone(alone);
        if is_new {
            let head = making::encode_where(file);
            up.into_iter().for_each(|node| self.send_head(node, &head));
        }
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
    pub(crate) fn have_made(&self, by: NodeId, stuck: Stuck) {
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
                return self.try_alone(vec![stuck]);
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
        let waiting = self.lock().openers.made.remove(&made.number);
        let Some((_, stuck)) = waiting else {
            return;
        };
        match made.result {
            Err(errno) if errno == STALE.0 => self.try_alone(vec![stuck]),
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
