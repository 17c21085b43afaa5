//! The file operations that a client of a store is told, and its answers.

use serde::{Deserialize, Serialize};

/// One operation. Open files are known by numbers that the teller chooses.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Op {
    /// Makes a directory.
    MakeDir(String),
    /// Removes a directory and all in it.
    Clear(String),
    /// Opens a file.
    Open(u32, String, Mode),
    Close(u32),
    /// Reads this many bytes at an offset.
    Read(u32, u64, usize),
    /// Writes at an offset.
    Write(u32, u64, String),
    /// Writes where the descriptor stands: at the end, if it was opened so.
    Append(u32, String),
    Fsync(u32),
    SetSize(u32, u64),
    FactsOf(u32),
    Facts(String),
    /// Whether a listing of a directory has a name.
    Lists(String, String),
    Rename(String, String, How),
    Unlink(String),
    Link(String, String),
    Symlink(String, String),
    ReadLink(String),
    MakeFifo(String),
    Chmod(String, u32),
    /// Sets the modification time, in nanoseconds.
    Touch(String, u64),
    SetAttribute(String, String, Vec<u8>),
    Attribute(String, String),
    /// Takes or returns a lock of the whole file, without waiting.
    Lock(u32, Kind, bool),
    /// Maps the first bytes of a file shared, and says what they are; with `Some`, stores these first.
    Map(u32, usize, Option<String>),
    /// Offset of the first hole.
    Hole(u32),
    /// Asks for a handle, and opens the file by it.
    Handle(String),
    /// Free bytes.
    Space(String),
    /// The magic number of the file system.
    Magic(String),
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mode {
    Read,
    /// Reads and writes a file that is there.
    Update,
    /// Makes a file that must not be there.
    Create,
    /// Writes at the end; makes it if need be.
    Append,
    /// Past the operating system's pages.
    Direct,
    /// A file without a name.
    Nameless,
}

/// How a rename treats the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum How {
    Over,
    Exchange,
    Noreplace,
}

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// `fcntl`, of a process.
    Process,
    /// `fcntl`, of an open file description.
    Description,
    Flock,
}

/// The result of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Done,
    Number(u64),
    Text(String),
    Bytes(Vec<u8>),
    Facts(Facts),
    /// The error's number.
    Failed(i32),
}

/// Attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) ino: u64,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) links: u64,
    /// In 512 bytes.
    pub(super) blocks: u64,
    /// In nanoseconds.
    pub(super) mtime: u64,
    /// In nanoseconds.
    pub(super) ctime: u64,
}
