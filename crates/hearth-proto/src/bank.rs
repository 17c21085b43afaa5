//! The bank: unmodified memcached daemons that hold blocks beside the job.
//!
//! A page of the policy `bank` is a *block*, and its home is a *gateway*, the one node that touches
//! the store for it. A reader asks the block's daemon first ([`lease`]), and the gateway where that has
//! nothing. The gateway answers from its frames or the store and then *populates* the daemon. A write
//! goes to the gateway, which has the daemon delete the entry while the store takes the bytes, answers
//! when both are done, and populates again (`authority/bank.rs`).
//!
//! ```text
//! reader                daemon               gateway                store
//!   get ────────────────▶│                      │                     │
//!   ◀──────────── bytes or miss                 │                     │
//!   Read ──────────────────────────────────────▶│ read ──────────────▶│
//!   ◀──────────────────────────────────── Grant │◀────────────────────│
//!                        │◀───────────────── set│
//!   Write ─────────────────────────────────────▶│ write ─────────────▶│
//!                        │◀────────────── delete│                     │
//!   ◀────────────────────────────────── WriteOk │ both done           │
//!                        │◀───────────────── set│
//! ```
//!
//! A daemon knows neither versions nor leases, and forgets entries when it likes. So nothing that a
//! promise needs is kept in it. To its gateway a daemon is one more reader of the block, with these
//! rules in place of a floor that the daemon would have to remember:
//!
//! - BANK-1: only the gateway writes entries, and it has at most one order about a block under way. So a
//!   set that is late meets no delete that has already been answered.
//! - BANK-2: an entry is noted at the gateway before the set is sent, and until a delete is answered.
//! - BANK-3: a key carries its gateway, and the *epoch* in which that gateway trusts the daemon. An order
//!   of the gateway that is not answered ends the epoch: what the order may still do, it does to keys
//!   that nobody asks for. A daemon that comes back, with old memory or without, gets a new epoch,
//!   above every one before it, also of earlier lives of the gateway.
//! - BANK-4: a client asks a daemon only under the epoch that the gateway told it, while its *lease* from
//!   that gateway lasts. An epoch is *over* when each client that holds a lease has confirmed that it
//!   knows, or its lease has run out on the gateway's clock. The lease of a client that cannot be
//!   reached runs out as well.
//! - BANK-5: a write, or a cut, that touches a noted entry waits until the entry is deleted or its epoch is
//!   over (I12). From there on it is safe to answer: a get that is issued afterwards finds nothing
//!   older, and one that was issued before belongs to reads that began before the answer.
//! - BANK-6: bytes from a daemon serve the reads that waited when the get was issued, and are not kept.
//!   Ways in are never given bytes to keep from a daemon, for nobody could call them back.
//!
//! Attributes of files, and names of directories with them, are entries of the same kind where the
//! configuration says so: their manager is the gateway of such an entry (`manager/entry.rs`), whoever looks is
//! its client (`client/look.rs`). One entry has both, so that one order takes back both. A directory whose names
//! do not fit has its attributes there alone.
//!
//! Why no version is compared: by BANK-1 to BANK-5 an entry that can be found is the block's latest, or a write
//! of it is under way. The version goes along so that a checker can see that.

pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod place;

pub use place::BankPlacement;

use crate::config::BankAttributes;
use crate::effect::Piece;
use crate::ids::{Attributes, Buf, FileId, Named, NodeId, Ver};
use alloc::vec::Vec;

/// A daemon of the bank: its place in the list that all nodes were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Daemon(pub u32);

/// One order to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BankOp(pub u64);

/// A time in which a gateway trusts a daemon; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The gateway does not trust the daemon.
    pub const NONE: Epoch = Epoch(0);
}

/// Name of an entry in a daemon. The driver writes it as text behind the job's name, so that other
/// data in the daemon is never taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The gateway that writes it.
    pub gateway: NodeId,
    /// The epoch in which it does.
    pub epoch: Epoch,
    /// Which file.
    pub file: FileId,
    /// Which block of it.
    pub block: u64,
}

impl core::fmt::Display for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (gateway, epoch) = (self.gateway.0, self.epoch.0);
        let (file, block) = (self.file.0, self.block);
        write!(f, "{gateway:x}:{epoch:x}:{file:x}:{block:x}")
    }
}

impl Key {
    /// In place of a block: the file's attributes, and a directory's names. Its gateway is then the file's manager.
    pub const ATTRIBUTES: u64 = u64::MAX;
}

/// Names of a directory that take more are in no entry, as each lookup brings all of them.
pub(crate) const NAMES_BYTES: usize = 16 << 10;

/// Bytes of an entry beside names, at most.
const ATTRIBUTES_BYTES: usize = 128;

/// The content of an entry of a file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// Its attributes.
    pub attributes: Attributes,
    /// Of a directory, all of its names, if they were told and fit into an entry.
    pub names: Option<Vec<Named>>,
}

impl BankAttributes {
    /// Bytes of the largest entry, where blocks have so many.
    pub fn entry_bytes(self, block_bytes: usize) -> usize {
        match self {
            BankAttributes::Leave => block_bytes,
            BankAttributes::Daemons => block_bytes.max(NAMES_BYTES + ATTRIBUTES_BYTES),
        }
    }
}

/// An order to a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BankOrder {
    /// Look for entries; the answer is [`BankOk::Found`].
    Get(Vec<Key>),
    /// Make an entry; the answer is [`BankOk::Done`], also from a daemon that had no room for it. A
    /// frame that is named stays as it is until the answer.
    Set {
        /// Its name.
        key: Key,
        /// Version of the bytes.
        ver: Ver,
        /// The bytes, one run after another; what follows in the block is zero.
        data: Vec<Piece>,
    },
    /// Take entries away, whether they are there or not; the answer is [`BankOk::Done`].
    Delete(Vec<Key>),
    /// Look for entries with attributes and names; the answer is [`BankOk::Looked`].
    Look(Vec<Key>),
    /// Make an entry with attributes; the answer is [`BankOk::Done`], also from a daemon that had no room.
    Tell {
        /// Its name.
        key: Key,
        /// Its content.
        told: Told,
    },
}

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// Version of the bytes.
    pub ver: Ver,
    /// How many bytes there are; what follows in the block is zero.
    pub len: u32,
}

/// An order that the daemon has answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BankOk {
    /// It was carried out.
    Done,
    /// For each key the entry, if there is one.
    Found {
        /// In the order of the keys.
        items: Vec<Option<Item>>,
        /// The bytes of those that are there, one after another, and how many that is.
        data: Option<(Buf, u32)>,
    },
    /// For each key the attributes, if there is an entry.
    Looked(Vec<Option<Told>>),
}

/// There is no answer, and there will be none: no connection, or it broke, or too much time went by.
/// The daemon may carry out the order all the same, at any later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BankLost;
