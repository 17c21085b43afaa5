//! The calls that a proxy mount makes of a gateway, and their answers: heads of frames, in postcard's form. Both ends
//! are of one job and so of one version.
//!
//! Inodes are named by their number in the store, open files and directories by numbers that the proxy mount
//! draws. A gateway that has forgotten one, or never knew it, says so ([`Refused`]), and is taught it anew:
//! so one gateway can take over from another, and each may forget when it likes.

use hearth_client::InodeAttributes;
use hearth_fuse::store::{Credentials, Stat};
use serde::{Deserialize, Serialize};

/// Which inode, by the number that the store gives it; the root is [`hearth_fuse::store::ROOT`].
pub(crate) type Ino = u64;

/// Which open file or directory.
pub(crate) type Open = u64;

/// The head of the first frame of a connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Which proxy mount, by a number that it has drawn.
    pub(crate) client: u64,
    /// Which of its connections; calls of one are made one after another.
    pub(crate) slot: u32,
}

/// The answer to it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// Which life of which gateway, by a number that it has drawn.
    pub(crate) gateway: u64,
}

/// One call. A write's bytes, and an attribute's, are the payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// Its number in its slot. The same number again is the same call: if it was made, its answer is told again.
    pub(crate) number: u64,
    /// On whose behalf.
    pub(crate) caller: Whom,
    /// The call itself.
    pub(crate) call: Call,
}

/// The caller whose rights count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Whom {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl From<Credentials> for Whom {
    fn from(all: Credentials) -> Whom {
        Whom {
            uid: all.uid,
            gid: all.gid,
            groups: all.groups,
        }
    }
}

impl Whom {
    pub(crate) fn credentials(self) -> Credentials {
        Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups,
        }
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Name {
    pub(crate) dir: Ino,
    #[serde(with = "bytes")]
    pub(crate) name: Vec<u8>,
}

/// A call that a gateway can be asked to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Nothing but a sign of life.
    Ping,
    /// These numbers mean nothing any more.
    Forget(Vec<Ino>),
    Lookup(Name),
    Attributes(Ino),
    Change(Ino, Change),
    ReadLink(Ino),
    MakeNode(Name, u32, u32),
    MakeDir(Name, u32),
    MakeLink(Name, #[serde(with = "bytes")] Vec<u8>),
    Link(Ino, Name),
    Unlink(Name),
    RemoveDir(Name),
    Rename(Name, Name, u32),
    Open(Ino, Open, i32),
    /// With mode and flags; the file is not to be there yet.
    Create(Name, Open, u32, i32),
    Read(Open, u64, u32),
    Write(Open, Place),
    Sync(Open, bool),
    Close(Open),
    OpenDir(Ino, Open),
    ReadDir(Open, u64, u32),
    SyncDir(Open),
    CloseDir(Open),
    Space(Ino),
    GetExtended(Ino, #[serde(with = "bytes")] Vec<u8>, u32),
    ListExtended(Ino, u32),
    SetExtended(Ino, #[serde(with = "bytes")] Vec<u8>, i32),
    RemoveExtended(Ino, #[serde(with = "bytes")] Vec<u8>),
    Access(Ino, i32),
    TestLock(Open, Lock),
    SetLock(Open, Lock),
    Allocate(Open, u64, u64, i32),
    Seek(Open, i64, i32),
}

impl Call {
    /// Whether it may be made twice, and by another gateway after one that may still make it: it changes
    /// nothing, or nothing that anybody else could see.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Call::Ping
            | Call::Forget(_)
            | Call::Lookup(_)
            | Call::Attributes(_)
            | Call::ReadLink(_)
            | Call::Read(..)
            | Call::Sync(..)
            | Call::Close(_)
            | Call::OpenDir(..)
            | Call::ReadDir(..)
            | Call::SyncDir(_)
            | Call::CloseDir(_)
            | Call::Space(_)
            | Call::GetExtended(..)
            | Call::ListExtended(..)
            | Call::Access(..)
            | Call::TestLock(..)
            | Call::Seek(..) => true,
            // An open empties nothing a second time that the first has not.
            Call::Open(_, _, flags) => flags & libc::O_TRUNC == 0,
            Call::Change(..)
            | Call::MakeNode(..)
            | Call::MakeDir(..)
            | Call::MakeLink(..)
            | Call::Link(..)
            | Call::Unlink(_)
            | Call::RemoveDir(_)
            | Call::Rename(..)
            | Call::Create(..)
            | Call::Write(..)
            | Call::SetExtended(..)
            | Call::RemoveExtended(..)
            | Call::SetLock(..)
            | Call::Allocate(..) => false,
        }
    }
}

/// The place of a write, and whether it is durable when it is answered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    /// `None`: the end.
    pub(crate) offset: Option<u64>,
    pub(crate) durable: bool,
}

/// The values of an inode that are to be changed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    /// The file is open: its descriptor gives the right to set the size.
    pub(crate) open: Option<Open>,
    pub(crate) atime: Option<Moment>,
    pub(crate) mtime: Option<Moment>,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Moment {
    Now,
    /// Seconds since 1970 and nanoseconds after that.
    At(i64, u32),
}

/// A lock, as `fcntl(2)` has it; the last byte is inclusive.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Lock {
    pub(crate) kind: i32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// An inode as it is told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    /// The number that the store shows for it; differs for the root.
    pub(crate) shown: u64,
    pub(crate) generation: u64,
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    size: u64,
    blocks: u64,
    block_bytes: u32,
    times_ns: [i64; 3],
    born_ns: Option<i64>,
    pub(crate) device: u32,
}

impl Inode {
    pub(crate) fn new(ino: Ino, generation: u64, stat: &Stat) -> Inode {
        let told = stat.attributes();
        Inode {
            ino,
            shown: stat.key().ino,
            generation,
            mode: told.mode,
            links: told.links,
            uid: told.uid,
            gid: told.gid,
            size: told.size,
            blocks: told.blocks,
            block_bytes: told.block_bytes,
            times_ns: [told.atime_ns, told.mtime_ns, told.ctime_ns],
            born_ns: told.born_ns,
            device: stat.device(),
        }
    }

    pub(crate) fn attributes(&self) -> InodeAttributes {
        let [atime_ns, mtime_ns, ctime_ns] = self.times_ns;
        InodeAttributes {
            mode: self.mode,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            blocks: self.blocks,
            block_bytes: self.block_bytes,
            atime_ns,
            mtime_ns,
            ctime_ns,
            born_ns: self.born_ns,
        }
    }

    /// The values that tell apart files which have had the same number, one after another.
    pub(crate) fn identity(&self) -> (u32, Option<i64>) {
        (self.mode & libc::S_IFMT, self.born_ns)
    }
}

/// One entry of a listing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Listed {
    #[serde(with = "bytes")]
    pub(crate) name: Vec<u8>,
    pub(crate) ino: u64,
    pub(crate) kind: u32,
    /// The place at which the entry behind it begins.
    pub(crate) next: u64,
}

/// Room in the store, as `statvfs(3)` has it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) blocks_free: u64,
    pub(crate) blocks_available: u64,
    pub(crate) files: u64,
    pub(crate) files_free: u64,
    pub(crate) block_bytes: u32,
    pub(crate) name_max: u32,
    pub(crate) fragment_bytes: u32,
}

/// An answer. Bytes that were read are the payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done,
    Inode(Inode),
    /// A number: of bytes, or a place in a file.
    Count(u64),
    /// The payload.
    Bytes,
    /// In the payload.
    Listing,
    Space(Space),
    Lock(Lock),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refused {
    /// The error of the store, as `errno(3)` has it.
    Errno(i32),
    /// The gateway does not know this inode.
    NoInode(Ino),
    /// Nor this open file or directory.
    NotOpen(Open),
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Refused {
        Refused::Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<rustix::io::Errno> for Refused {
    fn from(error: rustix::io::Errno) -> Refused {
        Refused::Errno(error.raw_os_error())
    }
}

/// The head of an answering frame.
pub(crate) type Told = Result<Answer, Refused>;

/// A head's bytes.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("there is room, and nothing in it has an unknown length")
}

/// The value in a head, if it holds one.
pub(crate) fn decode<'a, T: Deserialize<'a>>(head: &'a [u8]) -> Option<T> {
    postcard::from_bytes(head).ok()
}

/// Byte strings as such, and not as lists of numbers.
mod bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
        <&[u8]>::deserialize(from).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_comes_out_as_it_went_in_and_nonsense_does_not() {
        let name = |dir, name: &[u8]| Name {
            dir,
            name: name.to_vec(),
        };
        let asked = Asked {
            number: 7,
            caller: Whom {
                uid: 1000,
                gid: 1000,
                groups: vec![4, 27],
            },
            call: Call::Rename(name(1, b"\xff\0odd"), name(1 << 63, b""), 2),
        };
        let head = encode(&asked);
        let back: Asked = decode(&head).expect("a call");
        assert_eq!(format!("{back:?}"), format!("{asked:?}"));
        for len in 0..head.len() {
            assert!(decode::<Asked>(&head[..len]).is_none(), "{len}");
        }
    }
}
