//! The inodes that the operating system knows through a proxy mount, and how a gateway is taught them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_fuse::store::{Credentials, ROOT};

use super::link::{Link, Question};
use crate::call::{Answer, Call, Ino, Inode, Name, Open, Refused, Told, Whom};

/// Directories on the way to an inode that a gateway is taught at once.
const DEPTH_MAX: usize = 4096;
/// Numbers that a gateway is told of together, when nobody needs them any more.
const FORGOTTEN_MAX: usize = 64;

/// The store, as far as it is known here.
pub(super) struct Store {
    link: Link,
    own: Whom,
    tree: Mutex<Tree>,
    next_open: AtomicU64,
}

#[derive(Default)]
struct Tree {
    inodes: HashMap<Ino, Known>,
    opened: HashMap<Open, Opened>,
    forgotten: Vec<Ino>,
}

/// An inode that the operating system knows.
struct Known {
    /// The name at which it was last found.
    at: Name,
    identity: (u32, Option<i64>),
    lookups: u64,
    generation: u64,
}

/// An open file or directory.
#[derive(Clone)]
struct Opened {
    ino: Ino,
    /// `None`: a directory.
    flags: Option<i32>,
    whom: Whom,
    /// It may have locks.
    locked: bool,
}

impl Store {
    pub(super) fn new(link: Link) -> Store {
        let own = Credentials {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: Vec::new(),
        };
        Store {
            link,
            own: own.into(),
            tree: Mutex::default(),
            next_open: AtomicU64::new(1),
        }
    }

    /// Begins to watch whether gateways live.
    pub(super) fn pulse(self: &Arc<Store>) -> std::io::Result<()> {
        let store = Arc::clone(self);
        let thread = std::thread::Builder::new().name("proxy-pulse".to_owned());
        thread.spawn(move || store.link.watch()).map(drop)
    }

    /// Makes a call; what was read comes with the answer.
    pub(super) fn call(
        &self,
        whom: &Whom,
        call: &Call,
        payload: &[u8],
    ) -> Result<(Answer, Vec<u8>), i32> {
        let question = Question {
            whom,
            call,
            payload,
        };
        let mut bytes = Vec::new();
        for _ in 0..DEPTH_MAX {
            match self.link.ask(&question, &mut bytes) {
                Ok(answer) => return Ok((answer, bytes)),
                Err(Refused::Errno(errno)) => return Err(errno),
                Err(Refused::NoInode(ino)) => self.teach(ino)?,
                Err(Refused::NotOpen(open)) => self.open_again(open)?,
            }
        }
        Err(libc::EIO)
    }

    /// Teaches the gateway in use where an inode is (G3).
    fn teach(&self, mut ino: Ino) -> Result<(), i32> {
        let wanted = ino;
        for _ in 0..DEPTH_MAX {
            let Some((at, identity)) = self.place(ino) else {
                return Err(libc::ESTALE);
            };
            let parent = at.dir;
            match self.ask_own(&Call::Lookup(at)) {
                Ok(Answer::Inode(found)) if found.ino == ino && found.identity() == identity => {
                    if ino == wanted {
                        return Ok(());
                    }
                    ino = wanted;
                }
                // First its directory, then it again.
                Err(Refused::NoInode(dir)) if dir == parent && dir != ROOT => ino = dir,
                Ok(_) | Err(_) => return Err(libc::ESTALE),
            }
        }
        Err(libc::ESTALE)
    }

    fn place(&self, ino: Ino) -> Option<(Name, (u32, Option<i64>))> {
        let tree = self.lock();
        let known = tree.inodes.get(&ino)?;
        Some((known.at.clone(), known.identity))
    }

    fn ask_own(&self, call: &Call) -> Told {
        let question = Question {
            whom: &self.own,
            call,
            payload: &[],
        };
        self.link.ask(&question, &mut Vec::new())
    }

    /// Has the gateway in use open what another had open, as whoever opened it first. Locks are lost, and so
    /// is what was to be done under them (G4).
    fn open_again(&self, open: Open) -> Result<(), i32> {
        let opened = self.lock().opened.get(&open).cloned().ok_or(libc::EBADF)?;
        if opened.locked {
            log::error!("a file had locks at a gateway that is gone");
            return Err(libc::EIO);
        }
        let call = match opened.flags {
            Some(flags) => Call::Open(opened.ino, open, flags & !libc::O_TRUNC),
            None => Call::OpenDir(opened.ino, open),
        };
        self.call(&opened.whom, &call, &[]).map(drop)
    }

    /// A number for what is about to be opened.
    pub(super) fn draw(&self) -> Open {
        // Uniqueness is all that is asked of the counter.
        self.next_open.fetch_add(1, Ordering::Relaxed)
    }

    /// It is open.
    pub(super) fn opened(&self, open: Open, ino: Ino, flags: Option<i32>, whom: Whom) {
        let opened = Opened {
            ino,
            flags,
            whom,
            locked: false,
        };
        self.lock().opened.insert(open, opened);
    }

    /// It is about to be locked.
    pub(super) fn locking(&self, open: Open) {
        if let Some(opened) = self.lock().opened.get_mut(&open) {
            opened.locked = true;
        }
    }

    pub(super) fn close(&self, open: Open, call: &Call) {
        self.lock().opened.remove(&open);
        // A gateway that does not know it, or is gone, has closed it.
        let _ = self.ask_own(call);
    }

    /// The operating system is about to be told of an inode: counts one lookup. Its generation.
    pub(super) fn found(&self, at: Name, inode: &Inode) -> u64 {
        if inode.ino == ROOT {
            return 0;
        }
        let identity = inode.identity();
        let mut tree = self.lock();
        let known = tree.inodes.entry(inode.ino).or_insert_with(|| Known {
            at: at.clone(),
            identity,
            lookups: 0,
            generation: 0,
        });
        if known.identity != identity {
            // The number was used again: the count goes on, under a new generation.
            known.identity = identity;
            known.generation += 1;
        }
        known.at = at;
        known.lookups += 1;
        known.generation
    }

    /// An inode has another name.
    pub(super) fn moved(&self, ino: Ino, at: Name) {
        if let Some(known) = self.lock().inodes.get_mut(&ino) {
            known.at = at;
        }
    }

    /// The operating system dropped `count` lookups.
    pub(super) fn forget(&self, ino: Ino, count: u64) {
        let batch = {
            let mut tree = self.lock();
            let Some(known) = tree.inodes.get_mut(&ino) else {
                return;
            };
            known.lookups = known.lookups.saturating_sub(count);
            if known.lookups > 0 {
                return;
            }
            tree.inodes.remove(&ino);
            tree.forgotten.push(ino);
            if tree.forgotten.len() < FORGOTTEN_MAX {
                return;
            }
            std::mem::take(&mut tree.forgotten)
        };
        // A gateway that is gone has forgotten them.
        let _ = self.ask_own(&Call::Forget(batch));
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
