//! One node of a small world: its kernel, and what its agent holds for it.

use super::bank::BankRequest;
use crate::explore::scope::Scope;
use crate::explore::words::{NameKind, Words};
use crate::model::Tick;
use hearth_proto::config::BankConfig;
use hearth_proto::ids::IdStarts;
use hearth_proto::{
    Buf, Config, FileId, Handle, Node, NodeId, Piece, Ranges, RawErrno, ReadInto, RevokeId, Span,
    Src, StoreOk, StoreOpId, Ticket, Time, home_of_slot, slot_of,
};
use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::rc::Rc;

/// Frames of a node: enough that none must go but by choice.
const FRAMES: u32 = 4;

/// A byte that nobody writes.
const JUNK: u8 = 0xEE;

/// Stands for the ticket of an answer that a front end gives out of its own memory.
pub(super) const NO_TICKET: Ticket = Ticket(0);

/// The operation of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Read { page: u8, keep: bool },
    Write { at: u8, change: usize, buf: Buf },
    Sync,
    Open,
}

#[derive(Clone, Debug)]
pub(super) struct Doing {
    pub(super) ticket: Ticket,
    pub(super) what: What,
    pub(super) began: Tick,
}

impl Doing {
    pub(super) fn new(ticket: Ticket, what: What, began: Tick) -> Doing {
        Doing {
            ticket,
            what,
            began,
        }
    }
}

/// An answer with its bytes.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Opened { handle: Handle, direct: bool },
    Data { bytes: Vec<u8>, cached: bool },
    Written,
    Done,
    Failed(RawErrno),
}

/// The party that waits for a store operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Who {
    Kernel(StoreOpId),
    Session(Ticket),
    /// An agent that has died since.
    Nobody,
}

/// An order to the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Order {
    Read {
        offset: u64,
        into: ReadInto,
    },
    /// Bytes of frames are taken when it takes effect, as agents do.
    Write {
        offset: u64,
        data: Vec<Piece>,
    },
    WriteBytes {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Bytes of frames with gaps between them, and what is left of that when its agent ends.
    Pieces(Vec<(u64, Piece)>),
    PieceBytes(Vec<(u64, Vec<u8>)>),
    Sync,
    DirectRead {
        offset: u64,
        len: u32,
    },
    DirectWrite {
        offset: u64,
        bytes: Vec<u8>,
    },
}

/// A store operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) who: Who,
    pub(super) order: Order,
    /// It has taken effect.
    pub(super) done: Option<StoreOk>,
}

/// An order to the front end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Revoke {
    pub(super) id: RevokeId,
    pub(super) pages: Option<(u64, u32)>,
}

/// One node.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) node: Node,
    pub(super) now: Time,
    pub(super) alive: bool,
    page_bytes: u32,
    frames: Vec<u8>,
    bufs: BTreeMap<Buf, Vec<u8>>,
    names: u64,
    pub(super) jobs: Vec<Job>,
    pub(super) requests: Vec<BankRequest>,
    pub(super) revokes: VecDeque<Revoke>,
    pub(super) revoked: Vec<RevokeId>,
    pub(super) kept: Vec<Option<Vec<u8>>>,
    /// The handle for reading, and whether the front end keeps what it reads.
    pub(super) reading: (Handle, bool),
    pub(super) writing: Handle,
    pub(super) handles: Vec<Handle>,
    pub(super) doing: Option<Doing>,
    /// The canonical form, as long as nothing has changed.
    pub(super) words: Option<Rc<Words>>,
}

/// A file whose first page has node 0 as its home; the second has node 1, if it is not in the same chunk.
pub(super) fn file_of_node_0(nodes: u32) -> FileId {
    let home = |file: FileId, chunk| home_of_slot(slot_of(file, chunk), nodes);
    let at_home = |&file: &FileId| home(file, 0) == NodeId(0) && home(file, 1) == NodeId(1);
    (1..)
        .map(FileId)
        .find(at_home)
        .expect("a hash spreads files")
}

fn config(scope: &Scope, me: u32, far: u64) -> Config {
    Config {
        policy: scope.policy,
        page_bytes: scope.page_bytes,
        chunk_pages: match scope.ranges {
            Ranges::Apart => 1 << 10,
            Ranges::SeqHome | Ranges::WoundWait => 1,
        },
        ranges: scope.ranges,
        frames: FRAMES,
        readahead_bytes: 0,
        ahead_bytes: 0,
        flush_age: Span(far),
        probe_after: Span(far),
        give_up_after: Span(far * 2),
        bank: BankConfig {
            daemons: 1,
            gateways: vec![NodeId(0)],
            lease: Span(far * 8),
            ..BankConfig::default()
        },
        #[cfg(feature = "canary")]
        without: scope.without,
        ..Config::new(NodeId(me), scope.nodes)
    }
}

impl Host {
    pub(super) fn new(scope: &Scope, me: u32, far: u64) -> Host {
        let config = config(scope, me, far);
        let names = IdStarts {
            request: NameKind::Request.base_of(me),
            version: NameKind::Version.base_of(me),
            op: NameKind::Op.base(),
            revoke: NameKind::Revoke.base(),
            copy: NameKind::Copy.base(),
            bank: NameKind::Bank.base(),
            buf: NameKind::KernelBuf.base(),
        };
        Host {
            page_bytes: config.page_bytes,
            frames: vec![JUNK; (config.frames * config.page_bytes) as usize],
            node: Node::naming_after(config, &names),
            now: Time(NameKind::Time.base()),
            alive: true,
            bufs: BTreeMap::new(),
            names: 0,
            jobs: Vec::new(),
            requests: Vec::new(),
            revokes: VecDeque::new(),
            revoked: Vec::new(),
            kept: vec![None; scope.pages as usize],
            reading: (Handle(0), false),
            writing: Handle(0),
            handles: Vec::new(),
            doing: None,
            words: None,
        }
    }

    /// Nothing of it is left, but store writes that may come late.
    pub(super) fn die(&mut self) {
        let jobs = std::mem::take(&mut self.jobs);
        let late = jobs.into_iter().filter(|job| job.done.is_none());
        self.jobs = late.filter_map(|job| self.outlives(job)).collect();
        self.alive = false;
        self.requests.retain_mut(BankRequest::is_late);
        self.node = Node::new(self.node.config().clone());
        self.now = Time(0);
        self.bufs.clear();
        self.revokes.clear();
        self.revoked.clear();
        self.kept.fill(None);
        self.handles.clear();
        self.doing = None;
    }

    fn outlives(&self, job: Job) -> Option<Job> {
        let order = match job.order {
            Order::Write { offset, data } => Order::WriteBytes {
                offset,
                bytes: self.gather(&data).ok()?,
            },
            Order::Pieces(pieces) => {
                let bytes = |(offset, piece)| Some((offset, self.gather(&[piece]).ok()?));
                Order::PieceBytes(pieces.into_iter().map(bytes).collect::<Option<_>>()?)
            }
            Order::WriteBytes { .. } | Order::PieceBytes(_) | Order::DirectWrite { .. } => {
                job.order
            }
            Order::Read { .. } | Order::Sync | Order::DirectRead { .. } => return None,
        };
        let (who, done) = (Who::Nobody, None);
        Some(Job { who, order, done })
    }

    pub(super) fn new_ticket(&mut self) -> Ticket {
        self.names += 1;
        Ticket(NameKind::Ticket.base() + self.names)
    }

    /// Holds bytes under a name of the driver.
    pub(super) fn hold(&mut self, bytes: Vec<u8>) -> Buf {
        self.names += 1;
        let buf = Buf(NameKind::Buf.base() + self.names);
        self.bufs.insert(buf, bytes);
        buf
    }

    /// Holds bytes under a name of the kernel.
    pub(super) fn stash(&mut self, buf: Buf, bytes: Vec<u8>) -> Result<(), String> {
        match self.bufs.insert(buf, bytes) {
            None => Ok(()),
            Some(_) => Err(format!("{buf:?} is made twice")),
        }
    }

    pub(super) fn free(&mut self, buf: Buf) -> Result<Vec<u8>, String> {
        let bytes = self.bufs.remove(&buf);
        bytes.ok_or_else(|| format!("{buf:?} is not there to be freed"))
    }

    pub(super) fn bufs(&self) -> usize {
        self.bufs.len()
    }

    /// The bytes of some pieces, one after another.
    pub(super) fn gather(&self, pieces: &[Piece]) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for piece in pieces {
            let (from, len) = (piece.at as usize, piece.len as usize);
            let found = match piece.src {
                Src::Zero => {
                    bytes.resize(bytes.len() + len, 0);
                    continue;
                }
                Src::Frame(frame) => {
                    let start = (frame.0 * self.page_bytes) as usize;
                    self.frames.get(start + from..start + from + len)
                }
                Src::Buf(buf) => self.bufs.get(&buf).and_then(|b| b.get(from..from + len)),
            };
            bytes.extend(found.ok_or_else(|| format!("{piece:?} is not there"))?);
        }
        Ok(bytes)
    }

    /// Puts bytes into a frame.
    pub(super) fn fill(&mut self, frame: u32, at: u32, bytes: &[u8]) -> Result<(), String> {
        let start = (frame * self.page_bytes + at) as usize;
        let fits = at as usize + bytes.len() <= self.page_bytes as usize;
        let place = self.frames.get_mut(start..start + bytes.len());
        let place = place.filter(|_| fits);
        let place = place.ok_or_else(|| format!("frame {frame} has no place at {at}"))?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Bytes that are left in a frame that nobody has must not matter: they are nothing that anybody wrote.
    pub(super) fn clear_free_frames(&mut self) {
        let mut used = [false; FRAMES as usize];
        for frame in self.node.frames_in_use() {
            used[frame.0 as usize] = true;
        }
        let frames = self.frames.chunks_mut(self.page_bytes as usize);
        for (frame, _) in frames.zip(used).filter(|&(_, used)| !used) {
            frame.fill(JUNK);
        }
    }

    /// The page that a read which the front end will keep has locked.
    fn locked(&self) -> Option<u64> {
        match self.doing.as_ref()?.what {
            What::Read { page, keep: true } => Some(u64::from(page)),
            What::Read { .. } | What::Write { .. } | What::Sync | What::Open => None,
        }
    }

    fn names_page(pages: Option<(u64, u32)>, page: u64) -> bool {
        let within = |(first, count): (u64, u32)| page >= first && page - first < u64::from(count);
        pages.is_some_and(within)
    }

    /// True unless the next revocation waits for a locked page.
    pub(super) fn can_revoke(&self) -> bool {
        let free = |revoke: &Revoke| {
            let locked = self.locked();
            locked.is_none_or(|page| !Host::names_page(revoke.pages, page))
        };
        self.revokes.front().is_some_and(free)
    }

    pub(super) fn revoke(&mut self) {
        if let Some(Revoke { id, pages }) = self.revokes.pop_front() {
            for (page, kept) in (0..).zip(&mut self.kept) {
                if Host::names_page(pages, page) {
                    *kept = None;
                }
            }
            self.revoked.push(id);
        }
    }

    /// Writes all that later steps depend on. A frame's bytes count while it is in use.
    pub(super) fn write_down(&self, words: &mut Words) {
        (self.alive, &self.jobs, &self.requests).hash(words);
        if !self.alive {
            return;
        }
        self.node.hash_state(words);
        let bytes = self.page_bytes as usize;
        for frame in self.node.frames_in_use() {
            let start = frame.0 as usize * bytes;
            self.frames[start..start + bytes].hash(words);
        }
        (self.now, &self.bufs, &self.revokes, &self.revoked).hash(words);
        (&self.kept, self.reading, self.writing).hash(words);
        let doing = self.doing.as_ref();
        doing.map(|doing| (doing.ticket, &doing.what)).hash(words);
    }
}
