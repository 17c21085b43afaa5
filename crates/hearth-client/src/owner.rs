//! Words between the library in programs and the mount, as extended attributes that are in no list.
//!
//! The true owner of a file, for programs that the operating system cannot tell it.
//!
//! In a user namespace of an ordinary user the operating system knows one user and one group, and shows
//! all files of the mount as theirs. The library in programs asks the agent, which is outside, by an
//! extended attribute that is in no list.

/// The attribute of each inode of such a mount: an [`Owner`], to be read and to be set.
///
/// With a dot and a number after it, it is the owner of what the caller has open under that number.
pub const OWNER: &str = "system.hearth.owner";

/// The attribute that a program reads before it stores into a shared mapping of the file. It is empty.
pub const MAPPED: &str = "system.hearth.mapped";

/// A user and a group, by the numbers that the store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user; where it is set, the highest number leaves it.
    pub uid: u32,
    /// The same for the group.
    pub gid: u32,
}

impl Owner {
    /// How long the attribute is.
    pub const BYTES: usize = 8;

    /// As the attribute has it.
    pub fn to_bytes(self) -> [u8; Owner::BYTES] {
        (u64::from(self.uid) << 32 | u64::from(self.gid)).to_be_bytes()
    }

    /// The attribute's owner, if it has one's length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Owner> {
        let both = u64::from_be_bytes(bytes.try_into().ok()?);
        Some(Owner {
            uid: (both >> 32) as u32,
            gid: both as u32,
        })
    }
}
