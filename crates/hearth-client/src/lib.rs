//! The part that all front ends share: one session interface to the agent.
//!
//! A *front end* (FUSE today) turns what a program asks for into calls of [`Session`]. The agent
//! implements it. Neither side sees the other's internals: a front end knows nothing of peers, homes or
//! the store's data path; an agent knows nothing of kernel requests, names or directories.
//!
//! Programs that can be helped from inside have a second, shorter way: [`local::Local`], which copies
//! out of the agent's memory what is there, and leaves all else to the mount.
//!
//! Calls never block. Each takes a completion that is called exactly once, perhaps before the call
//! returns, perhaps from a thread of the agent. A completion must be short and must not call back
//! into the session, but for [`Session::file_changed`]: the agent may hold its lock.

#![forbid(unsafe_code)]

pub mod asking;
pub mod belief;
pub mod caller;
pub mod extent;
pub mod local;
mod owner;
mod types;
pub mod waits;
pub mod words;

pub use owner::{MAPPED, OWNER, Owner};
pub use types::{
    Access, AttributesLeave, AttributesRead, Bypass, Done, Errno, FileKey, FileSize, FileStamp,
    InodeAttributes, Keep, NamesLeave, NamesRead, OpenFile, OpenedFile, Outcome, PageRange, Place,
    ReadDone, SessionHandle, Share, Written,
};

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use local::AttributeTicket;

/// One agent, as a front end sees it.
///
/// All offsets and lengths are bytes. Every operation on one handle may be issued concurrently.
pub trait Session: Send + Sync + 'static {
    /// Registers the front end's revoker. Called once, before the first `open`.
    fn attach(&self, revoker: Arc<dyn Revoker>);

    /// Opens a file that the front end has already opened in the store (so the store has judged the
    /// caller's rights). `fd` is that descriptor; the agent keeps it until [`Session::close`], or longer if
    /// bytes that were written are not in the store by then. The front end may keep it too.
    fn open(&self, open: OpenFile, fd: Arc<OwnedFd>, done: Done<OpenedFile>);

    /// Ends a handle. Buffered bytes stay with the cache; callers that need them in the store use
    /// [`Session::flush`] first.
    fn close(&self, handle: SessionHandle);

    /// Reads `len` bytes at `offset`. Fewer come back only at the end of the file.
    fn read(&self, handle: SessionHandle, offset: u64, len: u32, keep: Keep, done: ReadDone);

    /// Writes `data`, all or nothing. When it completes, every other node sees it, or once it is closed,
    /// synced or exchanged, if no more is promised of the file.
    fn write(&self, handle: SessionHandle, place: Place, data: Vec<u8>, done: Done<Written>);

    /// Bytes that the agent keeps of all files. A call for more is better cut into parts that are
    /// [`Place::Aside`] and kept by [`Keep::Nobody`].
    fn pool_bytes(&self) -> u64 {
        u64::MAX
    }

    /// The promise of `close(2)`: every byte written through this node's handles is in the store. An error that befell
    /// earlier buffered writes of the file is reported once per handle.
    fn flush(&self, handle: SessionHandle, done: Done<()>);

    /// The promise of `fsync(2)`: [`Session::flush`], then the store's own fsync.
    fn sync(&self, handle: SessionHandle, done: Done<()>);

    /// True if what is written through a handle may show on other nodes later than it completes.
    fn gathers(&self, _handle: SessionHandle) -> bool {
        false
    }

    /// True if the file of a handle keeps all promises of level `posix`.
    fn is_posix(&self, _handle: SessionHandle) -> bool {
        true
    }

    /// The promise of a lock: other nodes can see every byte written through this node's handles, and later reads here
    /// see theirs. There is nothing to do if that is so all the time.
    fn exchange(&self, _handle: SessionHandle, done: Done<()>) {
        done(Outcome::Serve(()));
    }

    /// The true size and modification time of a file, as far as the cache knows better than the store.
    ///
    /// With `ask`, other nodes are consulted (exact). Without, only what this node knows is used and
    /// the call completes before it returns.
    fn size(&self, file: FileKey, ask: bool, done: Done<FileSize>);

    /// True if bytes of a file that nobody has open any more may be in memory alone: what the store says of its size is
    /// then worth nothing, however old it may be. Costs no message.
    fn store_is_behind(&self) -> bool {
        false
    }

    /// Sets the size of a file, in the cache and in the store.
    ///
    /// `fd` is open for writing on the file.
    fn truncate(&self, file: FileKey, fd: OwnedFd, size: u64, done: Done<()>);

    /// Empties the cache of a file whose last name is about to go (unlink, rename over it). Dirty bytes reach the
    /// store, and copies are dropped everywhere. Handles that are still open are served straight from the store through
    /// their own descriptors from then on.
    ///
    /// They are served so once [`Session::detached`] says that the name is gone. It has to be called after this is
    /// done, even if the name stays. Until then every request for the file waits.
    fn detach(&self, file: FileKey, done: Done<()>);

    /// The fate of the name after [`Session::detach`]: it is `gone`, and was the last, or the file still has a name.
    fn detached(&self, file: FileKey, gone: bool);

    /// Brings every dirty byte of a file, of any node, to the store; used before an operation whose
    /// result depends on the store's own view (setting times, reflinks, preallocation).
    fn settle(&self, file: FileKey, done: Done<()>);

    /// Tells the cache that the store lets nobody write the file any more, since `stamp`. If files are published so
    /// (`commit`), every byte is in the store when this completes, and the file changes no more.
    fn laminate(&self, file: FileKey, stamp: FileStamp, done: Done<()>);

    /// The front end is about to look at a file's attributes, to tell them to who keeps them for a time.
    /// `None` if no program could make use of that.
    fn looking(&self, file: FileKey) -> Option<AttributeTicket> {
        let _ = file;
        None
    }

    /// It tells attributes of this digest, which are kept for so long.
    fn told(&self, file: FileKey, ticket: AttributeTicket, digest: u64, ttl: Duration) {
        let _ = (file, ticket, digest, ttl);
    }

    /// It has changed a file's attributes, and told nobody yet.
    fn file_changed(&self, file: FileKey) {
        let _ = file;
    }

    /// A program stores into a mapping of the file that others see, or is about to. Until nobody has it open, reads and
    /// writes of it have to come through the front end, which keeps such mappings as they should be.
    fn stored_in_mapping(&self, file: FileKey) {
        let _ = file;
    }

    /// It has changed a name or a directory, and told nobody yet.
    fn names_changed(&self) {}

    /// It is about to tell what a name leads to without leave to keep that, so a change may go unheard.
    fn name_unheard(&self) {}

    /// Those who keep what it tells them keep names, too.
    fn names_are_kept(&self) {}

    /// Tells the cache that this node changed the file's attributes in the store on purpose, so that
    /// the change is not taken for an outside writer. `before` and `after` are the store's stamps.
    fn restamp(&self, file: FileKey, before: FileStamp, after: FileStamp);

    /// This node's part of what all nodes may begin to do at the same time.
    fn share(&self) -> Share {
        Share::ALL
    }

    /// Asks for leave to keep the attributes of files, and the names of directories, until they are
    /// revoked; answers in the same order. A revocation that comes before the attributes have been read
    /// ends the leave all the same. A question about one file alone waits for another node that reads its
    /// attributes, so whoever asks it has told before what came of every [`AttributesLeave::Read`].
    fn leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>);

    /// True if leave is better asked for one file alone: what is told of others could not be kept.
    fn looks_alone(&self) -> bool {
        false
    }

    /// As [`Session::leave`], but waits for another node that reads attributes of the first of them, and gives no
    /// leave to read: what is not known comes [`AttributesLeave::Later`].
    fn await_leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>);

    /// Asks for leave to keep names and attributes of a directory, and for both. Waits for another node that
    /// reads them. [`AttributesLeave::Later`] where they are not worth being read yet: nobody else asks.
    fn names(&self, dir: FileKey, done: Done<NamesLeave>);

    /// Says what names were read under the [`AttributesLeave::Read`] of this number; `None` if other nodes are to read
    /// them by themselves. The attributes follow with [`Session::learned`].
    fn listed(&self, dir: FileKey, number: u64, names: Option<NamesRead>);

    /// Leave for these will be asked for, some at a time: finds out whom to ask, for all at once.
    fn locate(&self, files: Vec<FileKey>, done: Done<()>);

    /// Says what came of each [`AttributesLeave::Read`]. Until then other nodes are told [`AttributesLeave::Later`].
    fn learned(&self, learned: Vec<AttributesRead>);

    /// Has every node let go of what it keeps of a file's attributes, or a directory's attributes and
    /// names. Until [`Session::changed`] nobody is given leave to keep them.
    fn change(&self, file: FileKey, done: Done<()>);

    /// The change is over. `ctime_ns` is the status change time that it led to; 0 if nobody looked.
    fn changed(&self, file: FileKey, ctime_ns: i64);
}

/// The front end's side: drops what it keeps when the agent says so.
pub trait Revoker: Send + Sync + 'static {
    /// Drops kept bytes in `pages` (all of the file if `None`) and kept attributes, then calls
    /// `done`. Must return at once: the work belongs to a thread of the front end, because dropping
    /// kernel pages can wait for requests that the calling thread has yet to answer.
    fn revoke(&self, file: FileKey, pages: Option<PageRange>, done: Box<dyn FnOnce() + Send>);

    /// Forgets attributes that the front end itself keeps. A revocation of them follows, which may come after answers to
    /// requests that void them: the agent holds its locks here. Must not wait, and not call the session.
    fn forget(&self, _file: FileKey) {}

    /// Calls of programs that the front end has had for at least this span without an answer, oldest first.
    fn late(&self, _span: Duration) -> Vec<LateCall> {
        Vec::new()
    }
}

/// A call of a program that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCall {
    /// The call, in words.
    pub what: &'static str,
    /// Its file or directory, if that is still known.
    pub file: Option<FileKey>,
    /// Since it began.
    pub waited: Duration,
}
