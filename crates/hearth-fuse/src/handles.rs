//! The files and directories that the kernel has open.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use fuser::FileHandle;
use hearth_client::{Access, SessionHandle};

use crate::descriptors::Seat;
use crate::errors::raw;
use crate::nodes::Inode;
use crate::stat::Stat;
use crate::written::Bytes;

/// The source of the bytes of an open file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Through the session.
    Session(SessionHandle),
    /// Straight from the store's descriptor.
    Store,
}

/// One open file.
pub(crate) struct OpenHandle {
    pub(crate) node: Arc<Inode>,
    /// The store's descriptor. The session has it, too.
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) access: Access,
    pub(crate) way: Way,
    /// Set-user-id bits were looked for once since this handle was opened.
    pub(crate) privileges_dropped: AtomicBool,
    /// Counts its descriptor.
    pub(crate) _seat: Seat,
    /// Its largest size, once somebody had to know.
    pub(crate) largest: OnceLock<u64>,
    /// The attributes with which the store granted it, if it may serve again when it is closed.
    pub(crate) granted: Option<Stat>,
    /// The fate of the bytes that programs wrote through it.
    pub(crate) bytes: Bytes,
    /// No program has it.
    idle: AtomicBool,
}

impl OpenHandle {
    /// Its node counts as open until this is idle or dropped.
    pub(crate) fn new(
        (node, seat): (Arc<Inode>, Seat),
        fd: Arc<OwnedFd>,
        access: Access,
        (way, granted): (Way, Option<Stat>),
    ) -> OpenHandle {
        node.handles.fetch_add(1, Ordering::Relaxed);
        node.writers
            .fetch_add(usize::from(access.write), Ordering::Relaxed);
        OpenHandle {
            node,
            fd,
            access,
            way,
            privileges_dropped: AtomicBool::new(false),
            _seat: seat,
            largest: OnceLock::new(),
            granted,
            bytes: Bytes::default(),
            idle: AtomicBool::new(false),
        }
    }

    /// Its bytes go through the session.
    pub(crate) fn is_cached(&self) -> bool {
        matches!(self.way, Way::Session(_))
    }

    /// Its last program has closed it. Its node counts as open by others alone, if by any.
    pub(crate) fn becomes_idle(&self) {
        self.idle.store(true, Ordering::Relaxed);
        self.node.handles.fetch_sub(1, Ordering::Relaxed);
    }

    /// A program has it again.
    pub(crate) fn is_used_again(&self) {
        self.node.handles.fetch_add(1, Ordering::Relaxed);
        self.idle.store(false, Ordering::Relaxed);
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        let programs = usize::from(!self.idle.load(Ordering::Relaxed));
        self.node.handles.fetch_sub(programs, Ordering::Relaxed);
        let writers = usize::from(self.access.write);
        self.node.writers.fetch_sub(writers, Ordering::Relaxed);
    }
}

/// Handles of one kind, by the number that the kernel gives back.
pub(crate) struct Handles<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles {
            open: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }
}

impl<T> Handles<T> {
    pub(crate) fn insert(&self, handle: T) -> FileHandle {
        self.insert_again(Arc::new(handle))
    }

    /// Gives a number to a handle that had one before.
    pub(crate) fn insert_again(&self, handle: Arc<T>) -> FileHandle {
        // Uniqueness is all that is asked of the counter.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open
            .write()
            .expect("nothing panics under this lock")
            .insert(number, handle);
        FileHandle(number)
    }

    /// A handle that has had this number since before this agent.
    pub(crate) fn restore(&self, number: FileHandle, handle: Arc<T>) {
        let mut open = self.open.write().expect("nothing panics under this lock");
        open.insert(number.0, handle);
    }

    /// Numbers that are given from now on come after this one.
    pub(crate) fn go_on_after(&self, number: u64) {
        self.next.fetch_max(number + 1, Ordering::Relaxed);
    }

    pub(crate) fn find(&self, number: FileHandle) -> io::Result<Arc<T>> {
        let open = self.open.read().expect("nothing panics under this lock");
        open.get(&number.0).cloned().ok_or(raw(libc::EBADF))
    }

    pub(crate) fn remove(&self, number: FileHandle) -> Option<Arc<T>> {
        self.open
            .write()
            .expect("nothing panics under this lock")
            .remove(&number.0)
    }

    /// Takes all that is left, at the end.
    pub(crate) fn drain(&self) -> Vec<Arc<T>> {
        let mut open = self.open.write().expect("nothing panics under this lock");
        open.drain().map(|(_, handle)| handle).collect()
    }
}
