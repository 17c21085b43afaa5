//! Handles that programs have closed, and that they may open again.
//!
//! A handle for reading stays when its last descriptor is closed, as long as this node may keep the attributes of its
//! file. The next open asks the store for attributes alone. If they are as they were, the store would grant what it
//! granted before, so the handle serves again, and no other agent hears of it.
//!
//! Invariants:
//! - IDLE-1 (S11, S14): an open is served by an idle handle only if the store judges its caller as this process. Mode, owner,
//!   times, size and count of names of the file are those with which the handle was granted.
//! - IDLE-2: a revocation of anything of a file ends its idle handles before it is acknowledged. So a file that others
//!   write, rename or remove is not open here for nobody's sake.
//! - IDLE-3: a handle is idle only if its file is one of level `posix`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use fuser::OpenFlags;
use hearth_client::FileKey;

use crate::core::Core;
use crate::handles::{OpenHandle, Way};
use crate::identity::Caller;
use crate::open::Opened;
use crate::stat::Stat;

/// Idle handles at most: each is a descriptor, and a file that the session has open.
const IDLE_MAX: usize = 1 << 15;

/// Flags with which an open asks for nothing but to read.
const PLAIN: i32 =
    libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW | LARGE_FILE;
/// `O_LARGEFILE`, as the operating system adds it on all 64-bit machines. The C library calls it 0 there.
const LARGE_FILE: i32 = 0o100_000;

/// The idle handles of a mount.
#[derive(Default)]
pub(crate) struct IdleHandles {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By file, the latest last.
    files: HashMap<FileKey, Vec<(u64, Arc<OpenHandle>)>>,
    /// In the order in which they became idle.
    turns: BTreeMap<u64, FileKey>,
    next: u64,
}

impl IdleHandles {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Adds a handle. Beyond this many, the one that is idle for longest comes back.
    fn put(&self, handle: Arc<OpenHandle>, most: usize) -> Option<Arc<OpenHandle>> {
        let mut state = self.lock();
        let (turn, file) = (state.next, handle.node.file());
        state.next += 1;
        state.turns.insert(turn, file);
        state.files.entry(file).or_default().push((turn, handle));
        if state.turns.len() <= most {
            return None;
        }
        let (turn, file) = state.turns.pop_first()?;
        state.remove(file, |at| at == turn)
    }

    fn take(&self, file: FileKey) -> Option<Arc<OpenHandle>> {
        let mut state = self.lock();
        let turn = state.files.get(&file)?.last()?.0;
        state.turns.remove(&turn);
        state.remove(file, |at| at == turn)
    }

    /// All of a file.
    pub(crate) fn take_all(&self, file: FileKey) -> Vec<Arc<OpenHandle>> {
        let mut state = self.lock();
        let handles = state.files.remove(&file).unwrap_or_default();
        for (turn, _) in &handles {
            state.turns.remove(turn);
        }
        handles.into_iter().map(|(_, handle)| handle).collect()
    }

    /// All that there are.
    pub(crate) fn drain(&self) -> Vec<Arc<OpenHandle>> {
        let state = std::mem::take(&mut *self.lock());
        let handles = state.files.into_values().flatten();
        handles.map(|(_, handle)| handle).collect()
    }
}

impl State {
    fn remove(&mut self, file: FileKey, is_it: impl Fn(u64) -> bool) -> Option<Arc<OpenHandle>> {
        let handles = self.files.get_mut(&file)?;
        let at = handles.iter().position(|(turn, _)| is_it(*turn))?;
        let (_, handle) = handles.remove(at);
        if handles.is_empty() {
            self.files.remove(&file);
        }
        Some(handle)
    }
}

impl Core {
    /// Whether an open asks for what an idle handle may serve.
    pub(crate) fn may_be_idle(&self, caller: Caller, flags: OpenFlags) -> bool {
        let is_plain = flags.0 & !PLAIN == libc::O_RDONLY;
        is_plain && self.memory.is_on() && self.wardrobe.is_own(caller)
    }

    /// Opens a file by a handle of it that is idle (IDLE-1).
    pub(crate) fn open_idle(&self, caller: Caller, id: u64, flags: OpenFlags) -> Option<Opened> {
        if !self.may_be_idle(caller, flags) {
            return None;
        }
        self.close_unanswered(caller);
        let node = self.nodes.node(id).ok()?;
        let handle = self.idle.take(node.file())?;
        if !Arc::ptr_eq(&node, &handle.node) || !self.is_as_granted(&handle) {
            self.end(&handle);
            return None;
        }
        handle.is_used_again();
        Some(self.opened_again(caller, handle))
    }

    fn is_as_granted(&self, handle: &OpenHandle) -> bool {
        let look = |()| match self.options.client_lags {
            // The operating system would ask the same client once more.
            true => Stat::of(&handle.fd),
            false => Stat::now(&handle.fd),
        };
        let now = self.anchor(&handle.node, &handle.fd).and_then(look);
        let is_same = |was: &Stat| now.is_ok_and(|now| now.grants_like(was));
        handle.granted.as_ref().is_some_and(is_same)
    }

    /// The first open of a file that nobody has open says what is promised of it. An idle handle would keep a level which
    /// somebody outside of the job has changed: so it must be the one that promises most (IDLE-3).
    fn is_posix(&self, handle: &OpenHandle) -> bool {
        match handle.way {
            Way::Session(handle) => self.session.is_posix(handle),
            Way::Store => false,
        }
    }

    /// Keeps a handle that was closed, if it may serve again. Returns one that is not to stay.
    pub(crate) fn put_by(&self, handle: Arc<OpenHandle>) -> Option<Arc<OpenHandle>> {
        let file = handle.node.file();
        let serves_again = handle.granted.is_some() && self.memory.has_leave(file);
        if !serves_again || !self.is_posix(&handle) {
            return Some(handle);
        }
        handle.becomes_idle();
        let surplus = self.idle.put(handle, IDLE_MAX.min(self.nodes.idle_max()));
        // A revocation may have come between.
        if !self.memory.has_leave(file) {
            self.end_all(self.idle.take_all(file));
        }
        surplus
    }

    /// Ends handles.
    pub(crate) fn end_all(&self, handles: Vec<Arc<OpenHandle>>) {
        handles.iter().for_each(|handle| self.end(handle));
    }

    /// Ends a handle.
    pub(crate) fn end(&self, handle: &OpenHandle) {
        if let Way::Session(handle) = handle.way {
            self.session.close(handle);
        }
    }
}
