//! Orders of the kernel, in the order in which they must happen.

use crate::RawErrno;
use crate::bank::{BankOp, BankOrder, Daemon};
use crate::config::Synced;
use crate::ids::{Buf, FileId, FrameId, Handle, Leave, NodeId, RevokeId, StoreOpId, Ticket};
use crate::msg::Envelope;
use alloc::vec::Vec;

/// Orders of one step; the driver carries them out in order, before the next step.
pub type Outbox = Vec<Effect>;

/// The source of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Src {
    /// A frame of the pool.
    Frame(FrameId),
    /// A buffer.
    Buf(Buf),
    /// Nowhere: they are zero.
    Zero,
}

/// A run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Their source.
    pub src: Src,
    /// First byte within the source.
    pub at: u32,
    /// How many.
    pub len: u32,
}

/// The target of a store read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadInto {
    /// Into these frames, one after another.
    Frames(Vec<Piece>),
    /// Into a new buffer of this many bytes; what the file does not have is zero.
    Buf(Buf, u32),
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send a message; `data` is its payload.
    Send {
        /// To whom; never this node.
        to: NodeId,
        /// The message.
        envelope: Envelope,
        /// The payload.
        data: Vec<Piece>,
    },
    /// Copy bytes into a frame.
    Fill {
        /// The frame.
        frame: FrameId,
        /// First byte in the frame.
        at: u32,
        /// The bytes.
        from: Piece,
    },
    /// Make a buffer of these bytes.
    Stash {
        /// Its name.
        buf: Buf,
        /// The bytes, one run after another.
        data: Vec<Piece>,
    },
    /// The buffer is no longer needed.
    Free(Buf),
    /// Make buffers of the parity shards of a stripe.
    Encode {
        /// Bytes of each data shard, all as many, one run after another.
        data: Vec<Vec<Piece>>,
        /// A buffer for each parity shard.
        parity: Vec<Buf>,
    },
    /// Make data shards of a stripe again out of as many others as it has data shards.
    Restore {
        /// How many data and parity shards it has.
        shards: (u32, u32),
        /// How long they are.
        len: u32,
        /// Places and frames of those at hand.
        at_hand: Vec<(u32, FrameId)>,
        /// Places and frames of those to be made.
        lost: Vec<(u32, FrameId)>,
    },
    /// Read the store; answer with [`crate::Input::StoreDone`].
    StoreRead {
        /// Names the answer.
        op: StoreOpId,
        /// Which file.
        file: FileId,
        /// First byte in the file.
        offset: u64,
        /// Its target.
        into: ReadInto,
    },
    /// Write contiguous bytes to the store; answer with [`crate::Input::StoreDone`].
    StoreWrite {
        /// Names the answer.
        op: StoreOpId,
        /// Which file.
        file: FileId,
        /// First byte in the file.
        offset: u64,
        /// The bytes, one run after another.
        data: Vec<Piece>,
    },
    /// Write pieces with gaps between them to the store, and nothing between; answer with
    /// [`crate::Input::StoreDone`] when all are written, or with the first failure.
    StorePieces {
        /// Names the answer.
        op: StoreOpId,
        /// Which file.
        file: FileId,
        /// Frames' bytes and the place of each in the file, ascending.
        data: Vec<(u64, Piece)>,
    },
    /// Write a buffer to the store through the handle of a local write, free it, and take the file's
    /// stamp; answer with [`crate::Input::StoreDone`].
    StoreThrough {
        /// Names the answer.
        op: StoreOpId,
        /// The local write.
        ticket: Ticket,
        /// First byte in the file.
        offset: u64,
        /// The bytes.
        buf: Buf,
    },
    /// Take the stamp of a file, after an fsync where `sync` says. One that ends at the tier has no stamp.
    StoreSync {
        /// Names the answer.
        op: StoreOpId,
        /// Which file.
        file: FileId,
        /// The end of the fsync, if there is one.
        sync: Option<Synced>,
    },
    /// Bytes of the file at and above `from` are gone from this node's tier; at once.
    TierCut {
        /// Which file.
        file: FileId,
        /// First byte that is gone.
        from: u64,
        /// Which bytes.
        gone: TierGone,
    },
    /// Bring to the store what an earlier life of this agent left in its tier; answer with
    /// [`crate::Input::Recovered`].
    Recover,
    /// Truncate through the descriptor that came with the ticket.
    StoreTruncate {
        /// Names the answer.
        op: StoreOpId,
        /// The local request.
        ticket: Ticket,
        /// To this size.
        size: u64,
    },
    /// Have a daemon of the bank do something; answer with [`crate::Input::BankDone`], always, and
    /// within a second or so: what takes longer is lost. Orders of one node may overtake each other.
    Bank {
        /// Names the answer.
        op: BankOp,
        /// Which daemon.
        daemon: Daemon,
        /// The order.
        order: BankOrder,
    },
    /// Answer a local request.
    Reply {
        /// Which.
        ticket: Ticket,
        /// With what.
        reply: Reply,
    },
    /// Do the local read or write on the store, through its handle's own descriptor, and answer it.
    Direct {
        /// Which.
        ticket: Ticket,
    },
    /// Take the stamp of a file that is being opened once more, and ask again under the same ticket: it may be older than
    /// what members of an earlier view have written.
    Restamp {
        /// Which open.
        ticket: Ticket,
    },
    /// Make the ways in drop what they keep; answer with [`crate::Input::Revoked`].
    Revoke {
        /// Names the answer.
        id: RevokeId,
        /// Which file.
        file: FileId,
        /// First page and count; `None` for attributes alone.
        pages: Option<(u64, u32)>,
    },
    /// The handle is closed: its descriptor may go once no operation uses it.
    Release {
        /// Which.
        handle: Handle,
    },
    /// This node is home of nothing of the file any more.
    Forgotten {
        /// Which.
        file: FileId,
    },
    /// Other nodes may have changed the file in the store: each later read of it goes through a descriptor that is opened
    /// after this, for the node's client of the store may keep older bytes until a file is opened.
    Reopen {
        /// Which.
        file: FileId,
    },
    /// Programs of this node may write the first bytes of a page by themselves; what they write comes
    /// as [`crate::Input::Locals`]. Said again of a page that is offered already.
    Offer {
        /// Which file.
        file: FileId,
        /// Which page.
        page: u64,
        /// Its frame.
        frame: FrameId,
        /// So many bytes.
        limit: u32,
    },
    /// They may no longer, from before the next input on.
    TakeBack {
        /// Which file.
        file: FileId,
        /// Which page.
        page: u64,
        /// Its frame.
        frame: FrameId,
    },
    /// A local write was not to a page that is offered: nothing of it was taken.
    Refused(Buf),
    /// Cut the connection: the peer does not answer.
    Disconnect {
        /// The peer.
        peer: NodeId,
    },
    /// Something that a person should know.
    Alarm(Alarm),
}

/// The part of a tier that a cut takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TierGone {
    /// Copies of what the store has; what it lacks wins over whoever wrote to it.
    Copies,
    /// All; what the store lacked is lost, and people are told.
    All,
}

/// An event that a person should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alarm {
    /// Background flushing fails; the bytes are kept and tried again.
    FlushFails(FileId, RawErrno),
    /// Bytes that could not be written were given up after their last writer was told; how many does
    /// not include what a tier had of them.
    BytesDropped(FileId, u64),
    /// A home died with bytes that this node had written to it.
    BytesLost(FileId, NodeId),
    /// A home died, and has had bytes that neither the store nor another node may have.
    HomeLost(FileId, NodeId),
    /// A node died that may have been the home of files, and nobody knows which bytes of them the store lacks.
    NodeLost(NodeId),
}

/// Answer to a local request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The file is open.
    Opened {
        /// Names it.
        handle: Handle,
        /// Keep nothing for this handle.
        direct: bool,
        /// Bytes that were kept before are still good.
        kept_valid: bool,
        /// Size now.
        size: u64,
        /// The file may have lost its last name before it was opened: if it has none, nobody else goes through the
        /// cache for it, and who opened it must not either.
        left: bool,
    },
    /// The bytes read.
    Data(Vec<Piece>),
    /// The bytes are written.
    Written {
        /// The offset that they went to.
        offset: u64,
        /// The file is at least so long.
        size: u64,
    },
    /// The size, if the cache knows better than the store.
    Size {
        /// Size in bytes.
        size: Option<u64>,
        /// Time of the last write that moved the end.
        mtime_ns: Option<i64>,
        /// The answer may be kept.
        keep: bool,
    },
    /// For each file that was asked for, in that order.
    Leaves(Vec<Leave>),
    /// Of a directory.
    Names {
        /// Its attributes. With [`Leave::Read`] names are to be read, too, and told before these.
        leave: Leave,
        /// Its names, each with what it leads to; `None` if they are to be read here.
        names: Option<Vec<(Vec<u8>, FileId)>>,
    },
    /// Done.
    Done,
    /// It failed.
    Failed(RawErrno),
}
