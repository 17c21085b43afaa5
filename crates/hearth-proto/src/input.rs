//! Facts that the kernel is told, in the order in which they happened.

use crate::RawErrno;
use crate::bank::{BankLost, BankOk, BankOp, Daemon};
use crate::ids::{Buf, FileId, Handle, Learned, NodeId, RevokeId, Stamp, StoreOpId, Ticket, View};
use crate::msg::Envelope;
use crate::semantics::Semantics;
use alloc::vec::Vec;

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A local session asks.
    Request(Ticket, Request),
    /// A message came; `data` names its payload and tells its length.
    Message {
        /// From whom.
        from: NodeId,
        /// The message.
        envelope: Envelope,
        /// The payload, if it had one.
        data: Option<(Buf, u32)>,
    },
    /// A store operation ended.
    StoreDone(StoreOpId, Result<StoreOk, RawErrno>),
    /// A daemon of the bank answered an order, or will not.
    BankDone(BankOp, Result<BankOk, BankLost>),
    /// The daemon can be reached. Told after a start, and again after each [`Input::BankDone`] that
    /// says [`BankLost`] and each [`Input::BankDown`].
    BankUp(Daemon),
    /// The connection to the daemon broke while no order was under way.
    BankDown(Daemon),
    /// The ways in have dropped what a [`crate::Effect::Revoke`] named.
    Revoked(RevokeId),
    /// A connection to a peer stands.
    PeerUp(NodeId),
    /// It broke.
    PeerDown(NodeId),
    /// Programs have written pages that were offered to them, in this order. Before any other input that
    /// comes after such a write has returned.
    Locals(Vec<LocalWrite>),
    /// The driver waits for something of a peer that the kernel does not know of. Told each second for as long as it
    /// waits: a peer that stays silent is given up, as for an answer to the kernel.
    Wanted(NodeId),
    /// The view ends: programs write nothing by themselves until the kernel is renewed.
    Hush,
    /// Bring to the store, and sync there, all that this node has or wrote. Told again until [`crate::Node::is_settled`].
    Settle,
    /// Go over to this view. To a [`crate::Node`]: begin anew in it.
    View {
        /// Its number.
        view: View,
        /// Its members, ascending.
        members: Vec<NodeId>,
        /// Nodes that were members and leave in order.
        leaving: Vec<NodeId>,
        /// Nodes whose agents are gone since the last view that this member was told of, though they may have started
        /// anew and be members.
        gone: Vec<NodeId>,
    },
    /// The tier is recovered, as [`crate::Effect::Recover`] ordered, as far as it can be. A [`crate::Member`] alone needs to know.
    Recovered,
    /// The driver has done what [`crate::Effect::Direct`] ordered. A [`crate::Member`] alone needs to know.
    Directed(Ticket),
    /// Memory is wanted: the clean page that was used longest ago must go.
    Shed,
    /// Nothing; the deadline came.
    Tick,
}

/// A write of a program that did not ask first: bytes of one page that was offered. The driver keeps the
/// buffer until the end of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalWrite {
    /// Which file.
    pub file: FileId,
    /// To here.
    pub offset: u64,
    /// So many bytes.
    pub len: u32,
    /// The bytes.
    pub buf: Buf,
    /// Wall clock, nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// A store operation that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreOk {
    /// Bytes read; fewer than asked only at the end of the file.
    pub bytes: u32,
    /// Stamp after a sync or truncation.
    pub stamp: Stamp,
}

/// The place that a write goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteAt {
    /// At this offset.
    Offset(u64),
    /// At the end.
    End,
}

/// The rest of a write of which homes took a part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rest {
    /// The place that its program asked for.
    pub at: WriteAt,
    /// The place of the whole write.
    pub offset: u64,
    /// Runs of missing bytes: the first and how many, ascending.
    pub missing: Vec<(u64, u32)>,
    /// Runs that homes took, and which.
    pub taken: Vec<(NodeId, (u64, u32))>,
}

impl Rest {
    /// A home is gone, and may not have brought its part to the store.
    pub(crate) fn lose(&mut self, home: NodeId) {
        let lost = self.taken.extract_if(.., |(taker, _)| *taker == home);
        self.missing.extend(lost.map(|(_, run)| run));
        self.missing.sort_unstable();
    }

    /// True if the byte is missing.
    pub(crate) fn lacks(&self, at: u64) -> bool {
        let holds = |&(first, len): &(u64, u32)| (first..first + u64::from(len)).contains(&at);
        self.missing.iter().any(holds)
    }
}

/// An open that the store granted already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenRequest {
    /// Which file.
    pub file: FileId,
    /// For writing.
    pub write: bool,
    /// The store's stamp.
    pub stamp: Stamp,
    /// No other node could open it the same way.
    pub private: bool,
    /// The view in which the stamp was taken: [`crate::Member::stamp_view`] before that.
    pub view: View,
    /// The semantics that its opener wants; `Laminated` for `Commit` if the store lets nobody write.
    pub semantics: Semantics,
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Open; the ticket becomes the handle.
    Open(OpenRequest),
    /// Close; answered by [`crate::Effect::Release`] alone.
    Close(Handle),
    /// Read.
    Read {
        /// Through this handle.
        handle: Handle,
        /// From here.
        offset: u64,
        /// So much.
        len: u32,
        /// The way in will keep the bytes.
        keep: bool,
        /// It is part of a call that is larger than the pool; a way in that keeps bytes has none.
        aside: bool,
    },
    /// Write the bytes of a buffer; the kernel frees it.
    Write {
        /// Through this handle.
        handle: Handle,
        /// To here.
        at: WriteAt,
        /// The bytes.
        buf: Buf,
        /// How many; not 0.
        len: u32,
        /// Wall clock, nanoseconds since 1970.
        mtime_ns: i64,
        /// They are part of a call that is larger than the pool.
        aside: bool,
    },
    /// Write the rest of a write, of which a kernel of an earlier view has brought a part to homes.
    Finish {
        /// Through this handle.
        handle: Handle,
        /// The bytes of the whole write.
        buf: Buf,
        /// How many.
        len: u32,
        /// Wall clock, nanoseconds since 1970.
        mtime_ns: i64,
        /// The bytes that are left.
        rest: Rest,
    },
    /// Do what close promises.
    Flush(Handle),
    /// Do what fsync promises.
    Sync(Handle),
    /// Do what a lock promises: homes have what was written here, later reads see what they have.
    Exchange(Handle),
    /// The size; `ask` others, or say what is known here.
    Size {
        /// Which file.
        file: FileId,
        /// Ask others.
        ask: bool,
    },
    /// Set the size.
    Truncate {
        /// Which file.
        file: FileId,
        /// To this.
        size: u64,
    },
    /// The last name is about to go: it may once this is answered. [`Request::Detached`] has to follow then.
    Detach(FileId),
    /// It is gone, or stays; not answered.
    Detached {
        /// Of which file.
        file: FileId,
        /// It is gone, and no other is left.
        gone: bool,
    },
    /// Every dirty byte of any node to the store.
    Settle(FileId),
    /// The store lets nobody write any more: under `Commit`, that laminates the file.
    Laminate {
        /// Which file.
        file: FileId,
        /// Stamp after.
        stamp: Stamp,
    },
    /// Nobody has the file open, of which this node is the home: this one is to be that instead, with the pages that
    /// are here. Fails with `EBUSY` where that cannot be.
    HandOver {
        /// Which file.
        file: FileId,
        /// The next home.
        heir: NodeId,
    },
    /// Attributes were changed on purpose; not answered.
    Restamp {
        /// Which file.
        file: FileId,
        /// Stamp before.
        before: Stamp,
        /// Stamp after.
        after: Stamp,
    },
    /// A program of this node stores into a mapping that others see: nothing of the file is offered until
    /// all handles are closed. Not answered.
    Mapped(FileId),
    /// May the attributes of these be kept until they are called back? A question about one file alone is
    /// not answered with [`crate::Leave::Later`].
    Leave(Vec<FileId>),
    /// The same once no other node reads any of them; gives no leave to read.
    Await(Vec<FileId>),
    /// May attributes and names of a directory be kept, and what are the names? Waits for another node that
    /// reads them.
    Names(FileId),
    /// Names that were read under a [`crate::Leave::Read`] of this number, each with what it leads to; not
    /// answered. `None` if there are too many. To be told before [`Request::Learned`]; those of a large directory
    /// a part at a time, in order, so that no step takes long.
    Listed {
        /// The directory.
        dir: FileId,
        /// The number.
        number: u64,
        /// So many were told before.
        first: u32,
        /// Names of this part.
        names: Option<Vec<(Vec<u8>, FileId)>>,
        /// There are more behind them.
        more: bool,
    },
    /// There will be such questions about these: who manages them?
    Locate(Vec<FileId>),
    /// The store's word on some for which there was leave; not answered.
    Learned(Vec<Learned>),
    /// Attributes of a file, or attributes and names of a directory, are about to be changed.
    Change(FileId),
    /// They are, or will not be; not answered.
    Changed {
        /// Of which.
        file: FileId,
        /// The status change time afterwards, if it was looked at.
        ctime_ns: i64,
    },
    /// Bring every dirty byte that this node is home of to the store.
    FlushAll,
}

impl Request {
    /// False for one that only tells something about a file.
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(
            self,
            Request::Restamp { .. }
                | Request::Mapped(_)
                | Request::Detached { .. }
                | Request::Changed { .. }
        )
    }
}
