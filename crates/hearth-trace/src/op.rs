//! Operations, and the layers of the way from a program to the store.

/// Defines [`Op`] with the word that people read for each.
macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $code:literal $word:literal,)+) => {
        /// One operation. The codes are part of the file format and never change their meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Op { $($(#[$doc])* $name = $code,)+ }

        impl Op {
            /// Every operation, in the order of the codes.
            pub const ALL: &'static [Op] = &[$(Op::$name,)+];

            /// The word that people read.
            pub fn name(self) -> &'static str {
                match self { $(Op::$name => $word,)+ }
            }

            /// The operation with this code, if there is one.
            pub fn from_code(code: u8) -> Option<Op> {
                match code { $($code => Some(Op::$name),)+ _ => None }
            }

            /// The operation with this name, if there is one.
            pub fn from_name(name: &str) -> Option<Op> {
                match name { $($word => Some(Op::$name),)+ _ => None }
            }
        }
    };
}

ops! {
    /// `open`, `creat` and their kin; `asked` holds the open flags.
    Open = 1 "open",
    /// `close`.
    Close = 2 "close",
    /// `read` and `fread`, at the descriptor's own offset.
    Read = 3 "read",
    /// `write` and `fwrite`, at the descriptor's own offset.
    Write = 4 "write",
    /// `pread`.
    Pread = 5 "pread",
    /// `pwrite`.
    Pwrite = 6 "pwrite",
    /// `readv` and `preadv`.
    Readv = 7 "readv",
    /// `writev` and `pwritev`.
    Writev = 8 "writev",
    /// `fsync`.
    Fsync = 9 "fsync",
    /// `fdatasync`, `sync_file_range` and `syncfs`.
    Fdatasync = 10 "fdatasync",
    /// `stat`, `lstat` and `statx` of a path.
    Stat = 11 "stat",
    /// `fstat` of a descriptor.
    Fstat = 12 "fstat",
    /// `access` and its kin.
    Access = 13 "access",
    /// `lseek` and `fseek`.
    Lseek = 14 "lseek",
    /// `truncate` and `ftruncate`; `offset` is the new size.
    Truncate = 15 "truncate",
    /// `fallocate`.
    Fallocate = 16 "fallocate",
    /// `mkdir`.
    Mkdir = 17 "mkdir",
    /// `rmdir`.
    Rmdir = 18 "rmdir",
    /// `unlink` and `remove`.
    Unlink = 19 "unlink",
    /// `rename`; the file is the old name.
    Rename = 20 "rename",
    /// `link`.
    Link = 21 "link",
    /// `symlink`.
    Symlink = 22 "symlink",
    /// `readlink`.
    Readlink = 23 "readlink",
    /// `opendir`.
    Opendir = 24 "opendir",
    /// `readdir` and `getdents`.
    Readdir = 25 "readdir",
    /// `closedir`.
    Closedir = 26 "closedir",
    /// `chmod`, `chown`, `utimens` and their kin.
    Setattr = 27 "setattr",
    /// `getxattr` and `listxattr`.
    Getxattr = 28 "getxattr",
    /// `setxattr` and `removexattr`.
    Setxattr = 29 "setxattr",
    /// `mmap` of a file.
    Mmap = 30 "mmap",
    /// `munmap` of a file.
    Munmap = 31 "munmap",
    /// `msync`.
    Msync = 32 "msync",
    /// `posix_fadvise`, `madvise` and `readahead`.
    Advise = 33 "advise",
    /// `flock`, `lockf` and the locks of `fcntl`; `result` is negative when refused.
    Lock = 34 "lock",
    /// `sendfile`, `copy_file_range` and `splice`; the file is the one that is read. For the other,
    /// a `Write` of no duration follows.
    Copy = 35 "copy",
    /// `statfs`.
    Statfs = 36 "statfs",
    /// `fflush`.
    Flush = 37 "flush",
    /// A page asked of a peer, at the asking agent.
    PeerGet = 64 "peer-get",
    /// Bytes sent to a peer, at the sending agent.
    PeerPut = 65 "peer-put",
    /// A page asked by a peer, at the agent that serves it.
    ServeGet = 66 "serve-get",
    /// Bytes taken from a peer, at the agent that takes them.
    ServePut = 67 "serve-put",
    /// Copies called back.
    Recall = 68 "recall",
    /// A page dropped for want of frames.
    Evict = 69 "evict",
    /// A read of the store by an agent.
    StoreRead = 70 "store-read",
    /// A write of the store by an agent.
    StoreWrite = 71 "store-write",
    /// An fsync of the store by an agent.
    StoreSync = 72 "store-sync",
    /// Any other request to the store by an agent.
    StoreOther = 73 "store-other",
    /// `MPI_File_open`; `asked` holds the mode.
    MpiOpen = 96 "mpi-open",
    /// `MPI_File_close`.
    MpiClose = 97 "mpi-close",
    /// `MPI_File_read` and its kin that a process calls alone.
    MpiRead = 98 "mpi-read",
    /// `MPI_File_write` and its kin that a process calls alone.
    MpiWrite = 99 "mpi-write",
    /// `MPI_File_read_all` and its kin that all processes call together.
    MpiReadAll = 100 "mpi-read-all",
    /// `MPI_File_write_all` and its kin that all processes call together.
    MpiWriteAll = 101 "mpi-write-all",
    /// `MPI_File_sync`.
    MpiSync = 102 "mpi-sync",
    /// `MPI_File_set_view`; `offset` is where the view begins.
    MpiView = 103 "mpi-set-view",
    /// `MPI_File_set_size`, `preallocate` and `get_size`; `asked` is the new size.
    MpiSize = 104 "mpi-size",
    /// `MPI_File_seek` and `seek_shared`.
    MpiSeek = 105 "mpi-seek",
    /// `MPI_File_delete`.
    MpiDelete = 106 "mpi-delete",
}

impl Op {
    /// Moves bytes from a file.
    pub fn is_read(self) -> bool {
        matches!(self, Op::Read | Op::Pread | Op::Readv | Op::StoreRead)
    }

    /// Moves bytes to a file.
    pub fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::Pwrite | Op::Writev | Op::StoreWrite)
    }

    /// Moves bytes of a file.
    pub fn moves_bytes(self) -> bool {
        self.is_read() || self.is_write() || self == Op::Copy
    }

    /// Waits until bytes are safe.
    pub fn is_sync(self) -> bool {
        matches!(self, Op::Fsync | Op::Fdatasync | Op::Msync | Op::StoreSync)
    }

    /// Asks or changes names and attributes.
    pub fn is_metadata(self) -> bool {
        matches!(
            self,
            Op::Open
                | Op::Close
                | Op::Stat
                | Op::Fstat
                | Op::Access
                | Op::Truncate
                | Op::Mkdir
                | Op::Rmdir
                | Op::Unlink
                | Op::Rename
                | Op::Link
                | Op::Symlink
                | Op::Readlink
                | Op::Opendir
                | Op::Readdir
                | Op::Closedir
                | Op::Setattr
                | Op::Getxattr
                | Op::Setxattr
                | Op::Statfs
        )
    }
}

/// The layer on the way from a program to the store in which a record was made. One request of a
/// program can leave a record in each, and they carry the same request number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Layer {
    /// A call of a program.
    App = 0,
    /// The agent that the program's request came to.
    Cache = 1,
    /// A request to a peer, seen by the agent that asks.
    PeerClient = 2,
    /// A request to a peer, seen by the agent that serves.
    PeerServer = 3,
    /// A request to the store.
    Store = 4,
    /// A call of MPI-IO. Its work on descriptors is in the calls of the program within it.
    Mpi = 5,
}

impl Layer {
    /// Every layer, from the program to the store.
    pub const ALL: [Layer; 6] = [
        Layer::App,
        Layer::Cache,
        Layer::PeerClient,
        Layer::PeerServer,
        Layer::Store,
        Layer::Mpi,
    ];

    /// The layer with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Layer> {
        Layer::ALL.get(usize::from(code)).copied()
    }

    /// The word that people read.
    pub fn name(self) -> &'static str {
        match self {
            Layer::App => "program",
            Layer::Cache => "cache",
            Layer::PeerClient => "peer",
            Layer::PeerServer => "peer-served",
            Layer::Store => "store",
            Layer::Mpi => "mpi",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_come_back() {
        for &op in Op::ALL {
            assert_eq!(Op::from_code(op as u8), Some(op));
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        for layer in Layer::ALL {
            assert_eq!(Layer::from_code(layer as u8), Some(layer));
        }
        assert_eq!(Op::from_code(0), None, "a record of zeroes is no record");
    }
}
