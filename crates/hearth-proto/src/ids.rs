//! Names of things. Each is a type of its own, so that one cannot stand where another is meant.

use alloc::vec::Vec;
/// A node of the job: its place in the launcher's member list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Version of the membership. Fixed at 1 while the launcher gives the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(pub u32);

/// A file of the store, by inode number. A number that the store uses again is told apart by its
/// generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// Generation of a file, ordered by life, then by cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gen {
    /// Which of the files that had this number; the manager gives it.
    pub life: u64,
    /// Grows at every truncation and outside change.
    pub cut: u32,
}

/// Version of page content, ordered by view, then by the authority's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ver {
    /// View in which it was assigned.
    pub view: View,
    /// The authority's count; never goes back within a view.
    pub seq: u64,
}

/// One request between nodes; its answer carries the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReqId {
    /// The asker.
    pub node: NodeId,
    /// In which life of that node.
    pub inc: u64,
    /// The asker's count.
    pub seq: u64,
}

/// When an operation over several homes began: the older goes first. Clocks of nodes follow each other
/// (Lamport's), so that an operation that keeps losing is the oldest at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age {
    /// The node's clock when it began.
    pub clock: u64,
    /// Its node.
    pub node: NodeId,
}

/// One request of a local session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// Set in the names of writes that the kernel makes itself, so that they never meet the driver's.
    pub const KERNEL: u64 = 1 << 63;
}

/// One open of one file by a local session; it is the ticket of that open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// A place for one page in the node's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

/// Bytes outside of the pool that the driver holds under a name: a message's payload, a local
/// write's data, or a copy that the kernel asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Buf(pub u64);

impl Buf {
    /// Set in the names that the kernel itself gives, so that they never meet the driver's.
    pub const KERNEL: u64 = 1 << 63;
}

/// One operation on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreOpId(pub u64);

/// One revocation of what a way in keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevokeId(pub u64);

/// The numbers after which a node counts its names.
///
/// An agent counts from nothing. A program that compares states of many kernels gives every kind of name a
/// range of its own. So it can tell in a stream of numbers which of them are names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdStarts {
    /// Of requests.
    pub request: u64,
    /// Of store operations.
    pub op: u64,
    /// Of buffers.
    pub buf: u64,
    /// Of revocations.
    pub revoke: u64,
    /// Of versions.
    pub version: u64,
    /// Of copies given.
    pub copy: u64,
    /// Of orders to daemons.
    pub bank: u64,
}

/// The store's word on a file's content at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Status change time, nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Size in bytes.
    pub size: u64,
}

impl Stamp {
    /// True if the store's content changed between `self` and `seen`. A `seen` that is older than
    /// `self` comes from an attribute cache of the store's own client and says nothing. Within one tick
    /// of the store's clock the shorter of two is taken for the older: between two store writes of what the
    /// job wrote an opener sees the end of the first.
    pub fn changed_by(&self, seen: &Stamp) -> bool {
        seen.ctime_ns > self.ctime_ns || (seen.ctime_ns == self.ctime_ns && seen.size > self.size)
    }

    /// True if a node that made this of `before` has set the time at which the file was written: what is known of
    /// earlier writes no longer tells it.
    pub(crate) fn sets_time(&self, before: &Stamp) -> bool {
        self.mtime_ns != before.mtime_ns
    }
}

/// The store's word on an inode, as ways in want it. The kernel only hands it on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Kind and permissions.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// A good size of one request.
    pub block_bytes: u32,
    /// Access time, nanoseconds since 1970, like all of them.
    pub atime_ns: i64,
    /// Modification time.
    pub mtime_ns: i64,
    /// Status change time.
    pub ctime_ns: i64,
    /// Time of birth, where the store keeps one.
    pub born_ns: Option<i64>,
}

/// Whether attributes may be kept until they are called back, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leave {
    /// No: ask the store each time.
    No,
    /// Not yet: somebody else is reading them from the store.
    Later,
    /// Yes. Read them from the store, and tell the manager under this number; what was changed before
    /// this time is from an old copy of the store's own client.
    Read {
        /// Number of the leave.
        number: u64,
        /// Latest status change that the manager knows of.
        floor_ns: i64,
    },
    /// Yes: these.
    Known(Attributes),
    /// No, but at a moment since they were asked for they were these.
    Once(Attributes),
}

/// A name of a directory, as nodes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    /// The name.
    pub name: Vec<u8>,
    /// The file or directory that it leads to, if attributes of that may be kept; 0 for all else.
    pub file: FileId,
    /// The manager of that, if the teller knew.
    pub manager: Option<NodeId>,
}

/// Some names of a directory, as they were read under a [`Leave::Read`] of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// Number of the leave.
    pub number: u64,
    /// How many were told before.
    pub first: u32,
    /// These; `None` if there are more than are told, so that every node reads them by itself.
    pub names: Option<Vec<Named>>,
    /// There are more.
    pub more: bool,
}

/// The outcome of reading attributes from the store under a [`Leave::Read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Learned {
    /// Of which file or directory.
    pub file: FileId,
    /// Number of the leave.
    pub number: u64,
    /// The attributes; `None` if they could not be read.
    pub attributes: Option<Attributes>,
}
