//! The values that cross the session interface.

/// Identity of a file in the store. Paths never identify a file: they change under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// Inode number in the store. Only files on the store root's own device are cached.
    pub ino: u64,
}

/// One open of one file through one front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionHandle(pub u64);

/// The operations that a handle may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Opened for reading.
    pub read: bool,
    /// Opened for writing.
    pub write: bool,
}

/// The store's word on a file's content at one moment. A change of it that the cache did not cause means that somebody
/// outside wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileStamp {
    /// Status change time in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Size in bytes.
    pub size: u64,
}

/// An open that the store has already granted.
#[derive(Clone, Copy, Debug)]
pub struct OpenFile {
    /// Which file.
    pub file: FileKey,
    /// The operations that the handle may do.
    pub access: Access,
    /// The store's stamp, read after the store's open succeeded.
    pub stamp: FileStamp,
    /// Other nodes could not open this file the same way (created with a mode that forbids it), so
    /// the cache must keep its home here.
    pub private: bool,
    /// The open has made the file: nobody has said yet what is promised of it.
    pub made: bool,
}

/// Answer to an open.
#[derive(Clone, Copy, Debug)]
pub struct OpenedFile {
    /// Names the open from now on.
    pub handle: SessionHandle,
    /// The front end must keep no bytes for this handle: every read must ask.
    pub direct: bool,
    /// Bytes kept from earlier opens of this file are still good.
    pub kept_valid: bool,
    /// Size of the file now.
    pub size: u64,
    /// The file may have lost its last name before it was opened: the front end looks, and goes to the store if so.
    pub left: bool,
}

/// Size and modification time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSize {
    /// Size in bytes while the cache knows better than the store; `None`: as the store says.
    pub size: Option<u64>,
    /// Modification time in nanoseconds since 1970, if a buffered write moved it.
    pub mtime_ns: Option<i64>,
    /// The answer may be kept for the attribute time-to-live; a change will be revoked.
    pub keep: bool,
}

/// The place to which a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this offset.
    At(u64),
    /// At this offset, as part of a call that is larger than the pool: what takes it keeps nothing of it.
    Aside(u64),
    /// At the end of the file, wherever that is (`O_APPEND`).
    End,
}

/// The place that keeps bytes that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The caller, who serves later reads from them without asking (the kernel's page cache): the agent
    /// revokes them before they go stale.
    FrontEnd,
    /// The agents' pools.
    Pool,
    /// Nobody who does not have them already: they are part of a call that is larger than the pool.
    Nobody,
}

/// Answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The offset at which the bytes are.
    pub offset: u64,
    /// The size of the file is at least this.
    pub size: u64,
}

/// A run of bytes, aligned to the cache's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// First byte.
    pub offset: u64,
    /// Length in bytes; `u64::MAX` means to the end.
    pub len: u64,
}

/// A system error number, as `errno(3)` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        let broken = rustix::io::Errno::IO.raw_os_error();
        Errno(error.raw_os_error().unwrap_or(broken))
    }
}

/// Why a call is not for the cache; the front end then does it on the store itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// The file's policy keeps nothing.
    Policy,
    /// A rule of the set keeps this file out of the cache.
    ByRule,
    /// No agent can serve the call, and it reads only.
    NoAgent,
    /// Not all of the bytes are in this node's memory, or the file ends before.
    NotHere,
    /// Somebody wrote to a page while it was being copied.
    CalledBack,
    /// It touches more pages than are copied at once.
    TooLong,
}

/// How every call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The cache did it.
    Serve(T),
    /// Do it on the store.
    Bypass(Bypass),
    /// It failed; the program gets this error.
    Fail(Errno),
}

/// Completion of a call.
pub type Done<T> = Box<dyn FnOnce(Outcome<T>) + Send>;

/// Completion of a read: the bytes are lent for the duration of the call, in order, in pieces.
pub type ReadDone = Box<dyn FnOnce(Outcome<&[&[u8]]>) + Send>;

/// The attributes of an inode in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeAttributes {
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

/// A node's part of work that all nodes of a job may begin at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    pub part: usize,
    /// How many there are; at least 1.
    pub parts: usize,
}

impl Share {
    /// There is nobody to share with.
    pub const ALL: Share = Share { part: 0, parts: 1 };
}

/// Whether attributes may be kept until they are revoked, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributesLeave {
    /// No: ask the store each time.
    No,
    /// Not yet: another node is reading them from the store.
    Later,
    /// Yes. Read them from the store, and say what came of it; what was changed before this time is an
    /// old copy that the store's own client has kept.
    Read {
        /// Number of the leave.
        number: u64,
        /// Latest status change that is known.
        floor_ns: i64,
    },
    /// Yes: these.
    Known(InodeAttributes),
    /// No, but at a moment since they were asked for they were these.
    Once(InodeAttributes),
}

/// Names of a directory, in any order, each with what it leads to, if that is a file or directory whose
/// attributes may be kept.
pub type NamesRead = Vec<(Vec<u8>, Option<FileKey>)>;

/// Whether names of a directory may be kept until they are revoked, and what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamesLeave {
    /// The same for the directory's attributes. It is [`AttributesLeave::Later`] if neither is worth being read yet. With
    /// [`AttributesLeave::Read`] the names are to be read, too, and said before the attributes.
    pub leave: AttributesLeave,
    /// They are known; `None` if they are to be read here.
    pub names: Option<NamesRead>,
}

/// The outcome of reading attributes under a [`AttributesLeave::Read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributesRead {
    /// Of which file or directory.
    pub file: FileKey,
    /// Number of the leave.
    pub number: u64,
    /// The attributes themselves; `None` if they could not be read.
    pub attributes: Option<InodeAttributes>,
}
