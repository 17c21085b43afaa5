//! One node with what its agent holds for it: the pool, named buffers, open tickets.
//!
//! Every use of a name is checked against the driver's contract; a breach comes back as a sentence.

use super::kernel::Kernel;
use super::session::Call;
use super::store_client::StoreClient;
use super::tier::Tier;
use hearth_proto::effect::TierGone;
use hearth_proto::{
    Buf, FileId, Handle, LocalWrite, Member, Node, NodeId, Piece, Src, Ticket, Time,
};
use std::collections::{BTreeMap, BTreeSet};

/// A breach of the contract between kernel and driver.
pub(crate) type Breach = String;

/// The end of a pause that does not end by itself.
pub(crate) const DEAD: Time = Time(u64::MAX);

/// One node and its agent's hands.
pub(crate) struct Host {
    pub(crate) id: NodeId,
    pub(crate) member: Member,
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) bufs: BTreeMap<Buf, Vec<u8>>,
    freed: BTreeSet<Buf>,
    names: u64,
    pub(crate) calls: BTreeMap<Ticket, Call>,
    pub(crate) answered: BTreeSet<Ticket>,
    /// Handles that the kernel has not released, and the object that each was opened on.
    pub(crate) handles: BTreeMap<Handle, usize>,
    /// Files whose descriptor the agent holds for this home, from the first request until
    /// [`hearth_proto::Effect::Forgotten`]: their numbers are not given to other files.
    pub(crate) held: BTreeSet<FileId>,
    pub(crate) kernel: Kernel,
    /// Writes of programs that have not been brought to the kernel.
    pub(crate) left: Vec<LocalWrite>,
    pub(crate) tier: Tier,
    pub(crate) store_client: StoreClient,
    /// The agent stands still until then; one that died, for ever.
    pub(crate) paused: Time,
}

impl Host {
    pub(crate) fn new(node: Node) -> Host {
        let config = node.config();
        Host {
            id: config.me,
            frames: vec![vec![0xEE; config.page_bytes as usize]; config.frames as usize],
            bufs: BTreeMap::new(),
            freed: BTreeSet::new(),
            names: 0,
            calls: BTreeMap::new(),
            answered: BTreeSet::new(),
            handles: BTreeMap::new(),
            held: BTreeSet::new(),
            kernel: Kernel::default(),
            left: Vec::new(),
            tier: Tier::default(),
            store_client: StoreClient::default(),
            paused: Time(0),
            member: Member::new(node),
        }
    }

    /// The kernel of its present view.
    pub(crate) fn node(&self) -> &Node {
        self.member.node()
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.paused != DEAD
    }

    /// When the agent wants to be woken.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let due = self.member.deadline().filter(|_| self.is_alive())?;
        Some(due.max(self.paused))
    }

    /// A name that was never used on this node, for a ticket or a buffer.
    pub(crate) fn new_name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// Holds bytes under a name of the driver.
    pub(crate) fn hold(&mut self, bytes: Vec<u8>) -> Buf {
        let buf = Buf(self.new_name());
        self.bufs.insert(buf, bytes);
        buf
    }

    /// This home has nothing of a file any more.
    pub(crate) fn forget(&mut self, file: FileId) {
        self.held.remove(&file);
        // Bytes that are left there are a copy that nobody will call back.
        self.tier.cut(file, 0, TierGone::Copies);
    }

    /// Holds bytes under a name that the kernel gave.
    pub(crate) fn stash(&mut self, buf: Buf, bytes: Vec<u8>) -> Result<(), Breach> {
        if buf.0 & Buf::KERNEL == 0 {
            return Err(format!("{buf:?} is a name of the driver"));
        }
        match self.bufs.insert(buf, bytes) {
            None => Ok(()),
            Some(_) => Err(format!("{buf:?} is made twice")),
        }
    }

    pub(crate) fn free(&mut self, buf: Buf) -> Result<(), Breach> {
        if self.bufs.remove(&buf).is_some() {
            self.freed.insert(buf);
            return Ok(());
        }
        let what = if self.freed.contains(&buf) {
            "is freed twice"
        } else {
            "was never held"
        };
        Err(format!("{buf:?} {what}"))
    }

    /// The bytes of some pieces, one after another.
    pub(crate) fn gather(&self, pieces: &[Piece]) -> Result<Vec<u8>, Breach> {
        let mut bytes = Vec::new();
        for piece in pieces {
            bytes.extend(self.piece(piece)?);
        }
        Ok(bytes)
    }

    fn piece(&self, piece: &Piece) -> Result<Vec<u8>, Breach> {
        let whole = match piece.src {
            Src::Zero => return Ok(vec![0; piece.len as usize]),
            Src::Frame(frame) => self.frames.get(frame.0 as usize),
            Src::Buf(buf) if self.freed.contains(&buf) => {
                return Err(format!("{buf:?} is used after it was freed"));
            }
            Src::Buf(buf) => self.bufs.get(&buf),
        };
        let range = piece.at as usize..piece.at as usize + piece.len as usize;
        whole
            .and_then(|whole| whole.get(range))
            .map(<[u8]>::to_vec)
            .ok_or_else(|| format!("{piece:?} is not there"))
    }

    /// Puts bytes into a frame.
    pub(crate) fn fill(&mut self, frame: u32, at: u32, bytes: &[u8]) -> Result<(), Breach> {
        let range = at as usize..at as usize + bytes.len();
        let place = self
            .frames
            .get_mut(frame as usize)
            .and_then(|frame| frame.get_mut(range))
            .ok_or_else(|| format!("frame {frame} has no place at {at}"))?;
        place.copy_from_slice(bytes);
        Ok(())
    }
}
