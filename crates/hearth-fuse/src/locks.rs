//! Locks of programs become locks in the store, so that they hold between mounts and nodes.
//!
//! For every inode, lock owner and family of locks there is one open file description in the store, opened when the
//! owner first locks so. `fcntl(2)` locks are open-file-description locks on it, `flock(2)` locks are `flock(2)` locks on
//! it; closing it releases them.
//!
//! fuser does not say whether a lock request comes from `fcntl` or `flock`. Only requests for a whole file can be either:
//! then the system call that the requesting thread is in decides. If that cannot be seen (Yama) it is of the
//! family that the owner has locks of, or `fcntl`. Such an `flock` then excludes other such `flock`s, as on NFS.
//!
//! The kernel does not say that the owner of an open-file-description lock of a program goes away. Its descriptor does,
//! so each description goes with the handle through which its owner first locked.
//!
//! Deadlocks between owners are not detected (`EDEADLK` never comes).

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use fuser::{FileHandle, LockOwner, ReplyEmpty};
use hearth_client::{Session, SessionHandle};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::background::Queue;
use crate::calls::Call;
use crate::core::Core;
use crate::errors::{raw, served};
use crate::handles::{OpenHandle, Way};
use crate::identity::Caller;
use crate::ledger::{Fact, Family, Ledger, Lock};
use crate::nodes::proc_path;
use crate::replies::reply_empty;
use crate::sys::{RangeLock, set_lock, test_lock};

const WHOLE_FILE_END: u64 = i64::MAX as u64;

/// The descriptions that hold locks.
pub(crate) struct Locks {
    held: Mutex<HashMap<Lock, Holder>>,
    ledger: Arc<Ledger>,
}

#[derive(Clone)]
struct Holder {
    family: Family,
    fd: Arc<OwnedFd>,
    /// The owner's handle.
    through: FileHandle,
}

/// A lock that a program wants, ready to be tried.
pub(crate) struct Attempt {
    holder: Holder,
    lock: RangeLock,
    bytes: Option<Ordered>,
}

/// The open file whose bytes a lock orders.
#[derive(Clone)]
struct Ordered {
    session: Arc<dyn Session>,
    handle: SessionHandle,
    queue: Arc<Queue>,
}

impl Ordered {
    /// Brings out what was written here and takes in what others wrote, then goes on where the store may be used.
    fn exchange(self, then: impl FnOnce(io::Result<()>) + Send + 'static) {
        let queue = self.queue;
        let done = move |outcome| queue.later(move || then(served(outcome).map(drop)));
        self.session.exchange(self.handle, Box::new(done));
    }
}

/// A lock request.
#[derive(Clone, Copy)]
pub(crate) struct LockRequest {
    pub(crate) handle: FileHandle,
    pub(crate) owner: LockOwner,
    pub(crate) lock: RangeLock,
}

/// Whether the program waits until it gets the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Try,
    Wait,
}

impl Attempt {
    /// Never waits; `EAGAIN` if somebody else has the lock.
    pub(crate) fn make(&self) -> io::Result<()> {
        match self.holder.family {
            Family::Ranges => match set_lock(self.holder.fd.as_fd(), self.lock) {
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => Err(raw(libc::EAGAIN)),
                result => result,
            },
            Family::Flock => Ok(flock(&*self.holder.fd, flock_operation(self.lock.kind))?),
        }
    }

    /// Answers the program. A program that has a lock sees what was written under it before; one that cannot gets none.
    pub(crate) fn answer(self, result: io::Result<()>, reply: ReplyEmpty) {
        let Some(bytes) = self.bytes.clone().filter(|_| result.is_ok()) else {
            return reply_empty(result, reply);
        };
        bytes.exchange(move |exchanged| {
            if exchanged.is_err() {
                // The first failure is the one to tell.
                let _ = self.unlocked().make();
            }
            reply_empty(exchanged, reply);
        });
    }

    /// Lets a lock go, once others can see what was written under it. It goes also where they cannot, and that is told.
    fn unlock(self, reply: ReplyEmpty) {
        let Some(bytes) = self.bytes.clone() else {
            return reply_empty(self.make(), reply);
        };
        bytes.exchange(move |exchanged| reply_empty(self.make().and(exchanged), reply));
    }

    fn unlocked(self) -> Attempt {
        let kind = libc::F_UNLCK;
        let lock = RangeLock { kind, ..self.lock };
        Attempt { lock, ..self }
    }
}

fn flock_operation(kind: i32) -> FlockOperation {
    match kind {
        libc::F_RDLCK => FlockOperation::NonBlockingLockShared,
        libc::F_WRLCK => FlockOperation::NonBlockingLockExclusive,
        _ => FlockOperation::NonBlockingUnlock,
    }
}

impl Locks {
    pub(crate) fn new(ledger: Arc<Ledger>) -> Locks {
        let held = Mutex::default();
        Locks { held, ledger }
    }

    /// The locks that an owner has had since before this agent.
    pub(crate) fn restore(&self, of: Lock, fd: OwnedFd, through: FileHandle) {
        let holder = Holder {
            family: of.family,
            fd: Arc::new(fd),
            through,
        };
        self.lock().insert(of, holder);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Lock, Holder>> {
        self.held.lock().expect("nothing panics under this lock")
    }

    /// The holder of an owner's locks of a family, or of any if the family is not known.
    fn holder(&self, node: u64, owner: LockOwner, family: Option<Family>) -> Option<Holder> {
        let held = self.lock();
        let mut asked = Family::ALL
            .into_iter()
            .filter(|one| family.is_none_or(|family| family == *one));
        asked.find_map(|family| held.get(&family.of(node, owner.0)).cloned())
    }

    /// Releases an owner's `fcntl(2)` locks on a file, as any `close(2)` of it does.
    pub(crate) fn release_ranges(&self, node: u64, owner: LockOwner) {
        let holder = self.remove(Family::Ranges.of(node, owner.0));
        holder.iter().for_each(release);
    }

    /// Releases every lock of an owner that is going away.
    pub(crate) fn release_all(&self, node: u64, owner: LockOwner) {
        let holders = Family::ALL.map(|family| self.remove(family.of(node, owner.0)));
        holders.iter().flatten().for_each(release);
    }

    fn remove(&self, of: Lock) -> Option<Holder> {
        let holder = self.lock().remove(&of)?;
        // Before its descriptor is closed, whose number may be another's then.
        self.ledger.note(Fact::Unlocked(of));
        Some(holder)
    }

    /// The holder of an owner's locks: this one, unless there is one already.
    fn hold(&self, of: Lock, fresh: Holder) -> Holder {
        let mut held = self.lock();
        let holder = held.entry(of).or_insert_with(|| {
            let fact = Fact::Locked(of, fresh.fd.as_raw_fd(), fresh.through.0);
            self.ledger.note(fact);
            fresh
        });
        holder.clone()
    }

    /// Releases the locks of owners that locked through a handle: nobody has it open any more.
    pub(crate) fn release_through(&self, handle: FileHandle) {
        let mut held = self.lock();
        let gone = held.extract_if(|_, holder| holder.through == handle);
        let noted = |(of, holder)| {
            self.ledger.note(Fact::Unlocked(of));
            holder
        };
        let gone: Vec<Holder> = gone.map(noted).collect();
        drop(held);
        gone.iter().for_each(release);
    }
}

/// Unlocks by hand: a waiter may still share the description.
fn release(holder: &Holder) {
    let lock = RangeLock {
        kind: libc::F_UNLCK,
        start: 0,
        end: WHOLE_FILE_END,
    };
    if let Err(error) = (Attempt {
        holder: holder.clone(),
        lock,
        bytes: None,
    })
    .make()
    {
        log::warn!("cannot release a lock in the store: {error}");
    }
}

impl Core {
    /// `GETLK`, which only `fcntl(2)` has.
    pub(crate) fn getlk(&self, request: LockRequest) -> io::Result<RangeLock> {
        let open = self.files.find(request.handle)?;
        let (node, ranges) = (open.node.id, Some(Family::Ranges));
        let fd = match self.locks.holder(node, request.owner, ranges) {
            Some(holder) => holder.fd,
            None => Arc::new(open_description(&open)?),
        };
        test_lock(fd.as_fd(), request.lock)
    }

    /// `SETLK` and `SETLKW`.
    pub(crate) fn setlk(
        self: &Arc<Self>,
        (caller, call): (Caller, Call),
        request: LockRequest,
        patience: Patience,
        reply: ReplyEmpty,
    ) {
        let attempt = match self.attempt(caller, request) {
            Ok(Some(attempt)) => attempt,
            Ok(None) => return reply.ok(),
            Err(error) => return reply_empty(Err::<(), _>(error), reply),
        };
        if attempt.lock.kind == libc::F_UNLCK {
            return attempt.unlock(reply);
        }
        match attempt.make() {
            Err(error)
                if error.raw_os_error() == Some(libc::EAGAIN) && patience == Patience::Wait =>
            {
                self.lock_waiter.wait((caller, call), attempt, reply);
            }
            result => attempt.answer(result, reply),
        }
    }

    /// `None` if there is nothing to unlock.
    fn attempt(&self, caller: Caller, request: LockRequest) -> io::Result<Option<Attempt>> {
        let open = self.files.find(request.handle)?;
        let (node, owner, lock) = (open.node.id, request.owner, request.lock);
        let bytes = match open.way {
            Way::Session(handle) if self.session.gathers(handle) => Some(Ordered {
                session: Arc::clone(&self.session),
                handle,
                queue: self.background.queue(),
            }),
            Way::Session(_) | Way::Store => None,
        };
        let seen = family(caller, lock);
        if let Some(holder) = self.locks.holder(node, owner, seen) {
            return Ok(Some(Attempt {
                holder,
                lock,
                bytes,
            }));
        }
        if lock.kind == libc::F_UNLCK {
            return Ok(None);
        }
        let family = seen.unwrap_or(Family::Ranges);
        let fresh = Holder {
            family,
            fd: Arc::new(open_description(&open)?),
            through: request.handle,
        };
        // Two threads of one owner may come here at once: the first description stands.
        let holder = self.locks.hold(family.of(node, owner.0), fresh);
        Ok(Some(Attempt {
            holder,
            lock,
            bytes,
        }))
    }
}

/// A description of its own for an owner. A write lock needs one that is open for writing; the
/// kernel has already checked that the program's is.
fn open_description(open: &OpenHandle) -> io::Result<OwnedFd> {
    let path = proc_path(&*open.fd);
    let ways = [OFlags::RDWR, OFlags::RDONLY, OFlags::WRONLY];
    let mut last = raw(libc::EACCES);
    for way in ways {
        match rustix::fs::open(&path, way | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => return Ok(fd),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// The family of a request; `None` if it cannot be seen.
fn family(caller: Caller, lock: RangeLock) -> Option<Family> {
    let whole = lock.start == 0 && lock.end >= WHOLE_FILE_END;
    if !whole {
        return Some(Family::Ranges);
    }
    // The thread is inside of its call until it is answered.
    let text = fs::read_to_string(format!("/proc/{}/syscall", caller.tid)).ok()?;
    let number = text.split(' ').next()?.parse::<libc::c_long>().ok()?;
    Some(match number == libc::SYS_flock {
        true => Family::Flock,
        false => Family::Ranges,
    })
}
