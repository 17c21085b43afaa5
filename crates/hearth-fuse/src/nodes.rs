//! Every inode that the kernel knows, and how to reach it in the store.
//!
//! A node holds an `O_PATH` descriptor, so renames by anybody do not matter. When the descriptors
//! come near the limit of open files, the least recently used are closed; such a node is found again
//! by its last known name, and is `ESTALE` if something else stands there. Each open file takes one descriptor
//! more, which serves its node as well: where there are few, an open file has no other.
//!
//! The node number of a file that is cached is the store's inode number where that is possible, because
//! fuser shows programs the one as the other. All others have numbers from [`SPARE_FIRST`] on, so that a
//! program which knows a cached page by its file's number never takes another file for it.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hearth_client::FileKey;
use rustix::fs::{FileType, Mode, OFlags};

use crate::descriptors::{Budget, Seat};
use crate::errors::raw;
use crate::ledger::{Fact, Ledger};
use crate::stat::Stat;
use turns::Turn;

/// The kernel's number for the root.
pub const ROOT: u64 = 1;
/// Entries for which there always is room.
const ROOM_LEAST: usize = 1 << 12;
/// Node numbers for inodes whose own number is taken start here.
const SPARE_FIRST: u64 = 1 << 63;
/// Names that are remembered of one inode, besides the last.
const OTHERS_MAX: usize = 8;
/// Identity of an inode in the store, over all its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreKey {
    /// Which device.
    pub dev: u64,
    /// Which inode of it.
    pub ino: u64,
}

/// One inode that the kernel knows. Holding it keeps its descriptor open.
#[derive(Debug)]
pub struct Inode {
    /// The number by which the kernel knows it.
    pub id: u64,
    pub(crate) key: StoreKey,
    pub(crate) kind: FileType,
    /// Tells the files apart that had this node number one after another.
    pub generation: u64,
    /// Its last name went; the number may come back as another file.
    gone: AtomicBool,
    /// Handles that programs have of it.
    pub(crate) handles: AtomicUsize,
    /// Those of them that are open for writing.
    pub(crate) writers: AtomicUsize,
    born: Option<i64>,
}

impl Inode {
    pub(crate) fn is_open(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 0
    }

    /// A program may store into a mapping of it.
    pub(crate) fn is_written(&self) -> bool {
        self.writers.load(Ordering::Relaxed) > 0
    }

    /// The name that the session knows the file by.
    pub(crate) fn file(&self) -> FileKey {
        FileKey { ino: self.key.ino }
    }

    fn fact(&self, lookups: u64) -> Fact<'static> {
        Fact::Node {
            id: self.id,
            generation: self.generation,
            key: (self.key.dev, self.key.ino),
            mode: self.kind.as_raw_mode(),
            born: self.born,
            lookups,
        }
    }

    pub(crate) fn is(&self, stat: &Stat) -> bool {
        self.is_same(stat) && !self.gone.load(Ordering::Relaxed)
    }

    /// The same, though its last name may have gone.
    pub(crate) fn is_same(&self, stat: &Stat) -> bool {
        self.key == stat.key()
            && self.kind == stat.kind()
            && !is_another_birth(self.born, stat.born())
    }
}

/// A moment among the revocations of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// The table of nodes.
pub struct Nodes {
    table: Mutex<Table>,
    /// Revocations that the kernel was told of.
    revocations: AtomicU64,
    /// The device of the store's root: only its regular files are cached.
    dev: u64,
}

struct Table {
    /// The device of the store's root.
    dev: u64,
    /// On the heap: a table that grows has room for twice as many, and is copied.
    entries: HashMap<u64, Box<Entry>>,
    ids: HashMap<StoreKey, u64>,
    spare_next: u64,
    /// The directory that the kernel believes at a name: it has one place for each.
    directories: HashMap<Place, u64>,
    /// Ticks at every use, for the order of closing.
    clock: u64,
    open: usize,
    budget: Budget,
    /// Open descriptors, those first whose turn it is to be closed. Some are of descriptors that are closed.
    turns: VecDeque<Turn>,
    /// Hears of whatever the kernel is about to learn.
    ledger: Option<Arc<Ledger>>,
}

struct Entry {
    node: Arc<Inode>,
    fd: Option<Arc<OwnedFd>>,
    /// Descriptors of its handles; some may be closed.
    lent: Vec<Weak<OwnedFd>>,
    /// The last name found.
    place: Option<Place>,
    /// Names by which it was found before; some may have gone.
    others: Vec<Place>,
    lookups: u64,
    used: u64,
    /// When its descriptor was opened.
    opened: u64,
    /// The size that the kernel was last told.
    told: Option<u64>,
    /// No revocation is known that has overtaken that answer: the kernel has taken it.
    taken: bool,
    /// The last revocation that the kernel was told of.
    revoked: Moment,
    /// It was last found in this node's memory and not in the store.
    remembered: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    parent: u64,
    name: Box<OsStr>,
}

impl Nodes {
    /// A table that knows the store's root. Raises the limit of open files as far as allowed.
    pub fn new(root: OwnedFd) -> io::Result<Nodes> {
        Nodes::noted_in(None, root)
    }

    /// The same, for a kernel whose next server will have this ledger.
    pub(crate) fn noted_in(ledger: Option<Arc<Ledger>>, root: OwnedFd) -> io::Result<Nodes> {
        let stat = Stat::of(&root)?;
        let mut table = Table {
            dev: stat.key().dev,
            entries: HashMap::new(),
            ids: HashMap::new(),
            spare_next: SPARE_FIRST,
            directories: HashMap::new(),
            clock: 0,
            open: 1,
            budget: Budget::raised(),
            turns: VecDeque::new(),
            ledger,
        };
        // The root is never forgotten.
        table.insert(
            ROOT,
            Entry::new(new_node(ROOT, &stat, 0), Some(root), None, u64::MAX / 2),
        );
        Ok(Nodes {
            table: Mutex::new(table),
            revocations: AtomicU64::new(0),
            dev: stat.key().dev,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nothing panics under this lock")
    }

    /// Whether a file's content goes through the session.
    pub(crate) fn is_cached(&self, node: &Inode) -> bool {
        node.kind == FileType::RegularFile && node.key.dev == self.dev
    }

    /// The same for a file that the kernel may not know.
    pub(crate) fn is_cacheable(&self, stat: &Stat) -> bool {
        stat.is_regular() && stat.key().dev == self.dev
    }

    pub(crate) fn node(&self, id: u64) -> io::Result<Arc<Inode>> {
        self.lock()
            .entries
            .get(&id)
            .map(|entry| Arc::clone(&entry.node))
            .ok_or(raw(libc::ESTALE))
    }

    /// The node number under which the kernel knows a cached file.
    pub(crate) fn id_of(&self, file: FileKey) -> Option<u64> {
        self.lock()
            .ids
            .get(&StoreKey {
                dev: self.dev,
                ino: file.ino,
            })
            .copied()
    }

    /// A descriptor of the node, opened again if it had to be closed.
    pub fn fd(&self, id: u64) -> io::Result<Arc<OwnedFd>> {
        let (node, place) = {
            let mut table = self.lock();
            let clock = table.tick();
            let entry = table.entries.get_mut(&id).ok_or(raw(libc::ESTALE))?;
            entry.used = clock;
            if let Some(fd) = entry.any_fd() {
                return Ok(fd);
            }
            (Arc::clone(&entry.node), entry.place.clone())
        };
        let place = place.ok_or(raw(libc::ESTALE))?;
        // The parent is a directory nearer to the root, so the recursion ends.
        let fd = open_path(self.fd(place.parent)?.as_fd(), &place.name)
            .map_err(|_| raw(libc::ESTALE))?;
        if !node.is(&Stat::of(&fd)?) {
            return Err(raw(libc::ESTALE));
        }
        Ok(self.lock().reopened(id, fd))
    }

    /// The names by which the kernel may still know a file that has lost its last one, each with its directory.
    pub(crate) fn names_of_gone(&self, id: u64) -> Vec<(u64, OsString)> {
        let (fd, places) = {
            let table = self.lock();
            let entry = table.entries.get(&id).map(|entry| &**entry);
            let Some(entry) = entry.filter(|entry| entry.node.kind == FileType::RegularFile) else {
                return Vec::new();
            };
            let places: Vec<Place> = entry.place.iter().chain(&entry.others).cloned().collect();
            (entry.any_fd(), places)
        };
        let is_gone =
            |fd: &OwnedFd| is_nameless(fd) && Stat::of(fd).is_ok_and(|stat| stat.links() == 0);
        match fd.is_some_and(|fd| is_gone(&fd)) {
            true => places
                .into_iter()
                .map(|place| (place.parent, place.name.into()))
                .collect(),
            false => Vec::new(),
        }
    }

    /// Handles that nobody uses, at most, as far as descriptors go.
    pub(crate) fn idle_max(&self) -> usize {
        self.lock().budget.idle
    }

    /// A handle of the node has a descriptor: it serves the node as well, while it is open.
    pub(crate) fn lend(&self, id: u64, fd: &Arc<OwnedFd>) -> Seat {
        let mut table = self.lock();
        if let Some(entry) = table.entries.get_mut(&id) {
            if entry.lent.len() == entry.lent.capacity() {
                entry.lent.retain(|fd| fd.strong_count() > 0);
            }
            entry.lent.push(Arc::downgrade(fd));
        }
        let seat = table.budget.seat();
        table.close_some();
        seat
    }

    /// A descriptor of the node by a name that it still has, if one is known. An agent tells others where
    /// a file is by the name of its descriptor; a file of several names may have lost that one.
    pub(crate) fn named_fd(&self, id: u64) -> io::Result<Arc<OwnedFd>> {
        let fd = self.fd(id)?;
        let (node, places) = {
            let table = self.lock();
            let entry = table.entries.get(&id).ok_or(raw(libc::ESTALE))?;
            if entry.others.is_empty() || !is_nameless(&fd) {
                return Ok(fd);
            }
            let places: Vec<Place> = entry.place.iter().chain(&entry.others).cloned().collect();
            (Arc::clone(&entry.node), places)
        };
        let by_name = |place: Place| {
            let found = open_path(self.fd(place.parent).ok()?, &place.name).ok()?;
            let is_it = Stat::of(&found).is_ok_and(|stat| node.is(&stat));
            is_it.then(|| (place, Arc::new(found)))
        };
        let Some((place, found)) = places.into_iter().find_map(by_name) else {
            return Ok(fd);
        };
        if let Some(entry) = self.lock().entries.get_mut(&id)
            && entry.fd.is_some()
            && Arc::ptr_eq(&entry.node, &node)
        {
            entry.find_at(place);
            entry.fd = Some(Arc::clone(&found));
        }
        Ok(found)
    }

    /// Records that the kernel is about to learn of an inode: counts one lookup.
    pub fn found(&self, parent: u64, name: &OsStr, fd: OwnedFd, stat: &Stat) -> Arc<Inode> {
        if let Some(node) = self.found_gone(&fd, stat) {
            return node;
        }
        let place = Place {
            parent,
            name: name.into(),
        };
        self.lock().found(place, Some(fd), stat)
    }

    /// A look that the end of the last name has overtaken found that file, and no other of its number: programs that have
    /// it open would else read no more.
    fn found_gone(&self, fd: &OwnedFd, stat: &Stat) -> Option<Arc<Inode>> {
        let id = {
            let table = self.lock();
            let entry = table.entries.get(table.ids.get(&stat.key())?)?;
            let is_gone = entry.node.gone.load(Ordering::Relaxed);
            is_gone.then_some(entry.node.id)?
        };
        let is_nameless = Stat::of(fd).is_ok_and(|now| now.links() == 0);
        is_nameless.then(|| self.found_nameless(id).ok()).flatten()
    }

    /// The same for an inode of which another look told.
    pub(crate) fn remembered(&self, parent: u64, name: &OsStr, stat: &Stat) -> Arc<Inode> {
        let place = Place {
            parent,
            name: name.into(),
        };
        self.lock().found(place, None, stat)
    }

    /// The same for a node that the kernel knows, which has lost that name again.
    pub(crate) fn found_nameless(&self, id: u64) -> io::Result<Arc<Inode>> {
        let mut table = self.lock();
        table.note(Fact::Found(id));
        let entry = table.entries.get_mut(&id).ok_or(raw(libc::ESTALE))?;
        entry.lookups += 1;
        Ok(Arc::clone(&entry.node))
    }

    /// Makes sure that a node which was found in memory is what the store has at its name, and says in
    /// which directory that is not so.
    pub(crate) fn confirm(&self, id: u64) -> Result<(), u64> {
        let (node, place) = {
            let table = self.lock();
            match table.entries.get(&id).map(|entry| &**entry) {
                Some(Entry {
                    remembered: true,
                    node,
                    place: Some(place),
                    ..
                }) => (Arc::clone(node), place.clone()),
                Some(_) | None => return Ok(()),
            }
        };
        let seen = self
            .fd(place.parent)
            .and_then(|dir| open_path(dir.as_fd(), &place.name))
            .and_then(|fd| Ok((Stat::of(&fd)?, fd)));
        match seen {
            Ok((stat, fd)) if node.is(&stat) => {
                self.lock().found_again(id, fd);
                Ok(())
            }
            Ok(_) | Err(_) => Err(place.parent),
        }
    }

    /// The session's key of a file or directory of the store's own device.
    pub(crate) fn leasable(&self, key: StoreKey, kind: FileType) -> Option<FileKey> {
        let kept = matches!(kind, FileType::RegularFile | FileType::Directory);
        (kept && key.dev == self.dev).then_some(FileKey { ino: key.ino })
    }

    /// The device of the store's root.
    pub fn dev(&self) -> u64 {
        self.dev
    }

    /// The kernel dropped `count` lookups of a node.
    pub fn forget(&self, id: u64, count: u64) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(&id) else {
            return;
        };
        entry.lookups = entry.lookups.saturating_sub(count);
        let left = entry.lookups;
        table.note(Fact::Forgotten(id, count));
        if left == 0 {
            let entry = table
                .entries
                .remove(&id)
                .expect("it was there under the same lock");
            table.ids.remove(&entry.node.key);
            table.is_away(id, entry.place.as_ref());
            table.open -= usize::from(entry.fd.is_some());
            table.shrink();
            // The store may take long to close it.
            drop(table);
            drop(entry);
        }
    }

    /// Records a new name of an inode.
    pub fn moved(&self, key: StoreKey, parent: u64, name: &OsStr) {
        let mut table = self.lock();
        let Some(id) = table.ids.get(&key).copied() else {
            return;
        };
        let name = name.into();
        table.is_at(id, Place { parent, name });
    }

    /// The directory that the kernel believes at a name.
    pub(crate) fn directory_at(&self, parent: u64, name: &OsStr) -> Option<StoreKey> {
        let name = name.into();
        let table = self.lock();
        let id = table.directories.get(&Place { parent, name })?;
        table.entries.get(id).map(|entry| entry.node.key)
    }

    /// The kernel is about to learn that there is nothing at a name.
    pub(crate) fn absent(&self, parent: u64, name: &OsStr) {
        let name = name.into();
        self.lock().directories.remove(&Place { parent, name });
    }

    /// The directory and name under which a node was last found.
    pub(crate) fn place_of(&self, id: u64) -> Option<(u64, OsString)> {
        let table = self.lock();
        let place = table.entries.get(&id)?.place.as_ref()?;
        Some((place.parent, place.name.clone().into()))
    }

    /// The name by which the operating system believes a directory that was now found by another.
    pub(crate) fn left_by(
        &self,
        stat: &Stat,
        parent: u64,
        name: &OsStr,
    ) -> Option<(u64, OsString)> {
        if stat.kind() != FileType::Directory {
            return None;
        }
        let table = self.lock();
        let entry = table.entries.get(table.ids.get(&stat.key())?)?;
        let place = entry.place.as_ref().filter(|_| entry.node.is(stat))?;
        let same = place.parent == parent && *place.name == *name;
        (!same).then(|| (place.parent, place.name.clone().into()))
    }

    /// Records that an inode lost its last name.
    pub fn gone(&self, key: StoreKey) {
        let mut table = self.lock();
        let Some(id) = table.ids.get(&key).copied() else {
            return;
        };
        if let Some(entry) = table.entries.get(&id) {
            entry.node.gone.store(true, Ordering::Relaxed);
            table.note(Fact::Gone(id));
            let place = entry.place.clone();
            table.is_away(id, place.as_ref());
        }
    }

    /// To be taken when a request for attributes comes.
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.revocations.load(Ordering::SeqCst))
    }

    /// Records the size that the kernel is being told, in answer to a request that came at a moment. The kernel ignores
    /// an answer that a revocation has overtaken.
    pub(crate) fn tell(&self, id: u64, size: u64, asked: Moment) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.tell(size, asked);
        }
    }

    /// The same for a size that may be of before bytes which wait in memory, and says what is to be told: never less
    /// than the kernel believes, as it would cut reads of whoever has the file open.
    pub(crate) fn tell_no_less(&self, id: u64, size: u64, asked: Moment) -> u64 {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(&id) else {
            return size;
        };
        let size = size.max(entry.told.unwrap_or(0));
        entry.tell(size, asked);
        size
    }

    /// Records that the kernel is about to be told of a revocation.
    pub(crate) fn revoked(&self, id: u64) {
        let last = self.revocations.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.revoked = entry.revoked.max(Moment(last));
            entry.taken = false;
        }
    }

    /// Whether the kernel was last told this size, and believes it.
    pub(crate) fn was_told(&self, id: u64, size: u64) -> bool {
        self.lock()
            .entries
            .get(&id)
            .is_some_and(|entry| entry.told == Some(size) && entry.taken)
    }
}

impl Entry {
    /// The descriptor of a handle that is open.
    fn lent(&self) -> Option<Arc<OwnedFd>> {
        self.lent.iter().find_map(Weak::upgrade)
    }

    fn any_fd(&self) -> Option<Arc<OwnedFd>> {
        self.fd.clone().or_else(|| self.lent())
    }

    fn new(node: Arc<Inode>, fd: Option<OwnedFd>, place: Option<Place>, lookups: u64) -> Entry {
        Entry {
            node,
            fd: fd.map(Arc::new),
            lent: Vec::new(),
            place,
            others: Vec::new(),
            lookups,
            used: 0,
            opened: 0,
            told: None,
            taken: false,
            revoked: Moment(0),
            remembered: false,
        }
    }

    fn tell(&mut self, size: u64, asked: Moment) {
        self.told = Some(size);
        self.taken = self.revoked <= asked;
    }

    /// The file has this name; those that it had before it may still have.
    fn find_at(&mut self, place: Place) {
        if self.place.as_ref() == Some(&place) {
            return;
        }
        self.others.retain(|other| *other != place);
        self.others.extend(self.place.replace(place));
        if self.others.len() > OTHERS_MAX {
            self.others.remove(0);
        }
    }
}

impl Table {
    /// Gives room back after many were forgotten.
    fn shrink(&mut self) {
        let count = self.entries.len();
        if self.entries.capacity() > (4 * count).max(ROOM_LEAST) {
            self.entries.shrink_to(2 * count);
            self.ids.shrink_to(2 * count);
            self.directories.shrink_to(2 * count);
        }
    }

    fn note(&self, fact: Fact<'_>) {
        if let Some(ledger) = &self.ledger {
            ledger.note(fact);
        }
    }

    /// The kernel learns that a node is at a name.
    fn is_at(&mut self, id: u64, place: Place) {
        let entry = self.entries.get(&id);
        if entry.is_some_and(|entry| entry.place.as_ref() != Some(&place)) {
            self.note(Fact::Named(id, place.parent, place.name.as_bytes()));
        }
        self.put_at(id, place);
    }

    fn put_at(&mut self, id: u64, place: Place) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.node.kind != FileType::Directory {
            self.directories.remove(&place);
            return entry.find_at(place);
        }
        let before = entry.place.clone();
        entry.find_at(place.clone());
        self.is_away(id, before.as_ref());
        self.directories.insert(place, id);
    }

    /// A directory is not at a name any more, or the kernel has forgotten it.
    fn is_away(&mut self, id: u64, place: Option<&Place>) {
        if let Some(place) = place
            && self.directories.get(place) == Some(&id)
        {
            self.directories.remove(place);
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn insert(&mut self, id: u64, entry: Entry) {
        self.ids.insert(entry.node.key, id);
        self.entries.insert(id, Box::new(entry));
    }

    fn found(&mut self, place: Place, fd: Option<OwnedFd>, stat: &Stat) -> Arc<Inode> {
        let remembered = fd.is_none();
        let clock = self.tick();
        let known = self.ids.get(&stat.key()).copied();
        let (id, lookups, generation) = match known.and_then(|id| self.entries.get_mut(&id)) {
            Some(entry) if entry.node.is(stat) => {
                entry.lookups += 1;
                entry.used = clock;
                entry.remembered = remembered;
                let (id, node) = (entry.node.id, Arc::clone(&entry.node));
                // The name may lead to another file by the time that this one is opened.
                let fd = fd.filter(|_| entry.fd.is_none());
                let is_opened = fd.is_some();
                entry.fd = fd.map(Arc::new).or(entry.fd.take());
                self.note(Fact::Found(id));
                if id != ROOT {
                    self.is_at(id, place);
                }
                if is_opened {
                    self.opened(id);
                }
                return node;
            }
            // The number was used again: the kernel's count goes on, under a new generation.
            Some(entry) => {
                self.open -= usize::from(entry.fd.is_some());
                let (before, id) = (entry.place.take(), entry.node.id);
                let next = (id, entry.lookups, entry.node.generation + 1);
                self.is_away(id, before.as_ref());
                next
            }
            None => (self.free_id(stat.key()), 0, 0),
        };
        let node = new_node(id, stat, generation);
        let mut entry = Entry::new(Arc::clone(&node), fd, None, lookups + 1);
        entry.used = clock;
        entry.remembered = remembered;
        self.note(node.fact(entry.lookups));
        self.insert(id, entry);
        self.is_at(id, place);
        if !remembered {
            self.opened(id);
        }
        node
    }

    fn found_again(&mut self, id: u64, fd: OwnedFd) {
        let had = match self.entries.get_mut(&id) {
            Some(entry) => {
                entry.remembered = false;
                entry.fd.replace(Arc::new(fd)).is_some()
            }
            None => true,
        };
        if !had {
            self.opened(id);
        }
    }

    fn free_id(&mut self, StoreKey { dev, ino }: StoreKey) -> u64 {
        let fits = (ROOT + 1..SPARE_FIRST).contains(&ino) && dev == self.dev;
        if fits && !self.entries.contains_key(&ino) {
            return ino;
        }
        loop {
            self.spare_next = self.spare_next.checked_add(1).unwrap_or(SPARE_FIRST);
            if !self.entries.contains_key(&self.spare_next) {
                return self.spare_next;
            }
        }
    }

    fn reopened(&mut self, id: u64, fd: OwnedFd) -> Arc<OwnedFd> {
        let fd = Arc::new(fd);
        let Some(entry) = self.entries.get_mut(&id) else {
            return fd;
        };
        if let Some(first) = &entry.fd {
            return Arc::clone(first);
        }
        entry.fd = Some(Arc::clone(&fd));
        self.opened(id);
        fd
    }
}

fn new_node(id: u64, stat: &Stat, generation: u64) -> Arc<Inode> {
    Arc::new(Inode {
        id,
        key: stat.key(),
        kind: stat.kind(),
        generation,
        gone: AtomicBool::new(false),
        handles: AtomicUsize::new(0),
        writers: AtomicUsize::new(0),
        born: stat.born(),
    })
}

/// Whether the name went by which a descriptor was opened. A name may look like that: then there is
/// something to be found by it.
fn is_nameless(fd: &OwnedFd) -> bool {
    let path = rustix::fs::readlink(proc_path(fd), Vec::new());
    path.is_ok_and(|path| path.as_bytes().ends_with(b" (deleted)"))
}

/// Whether two births are known and differ: who sees the store through a gateway sees none.
fn is_another_birth(one: Option<i64>, other: Option<i64>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

/// Opens a name for reference only, without following it.
pub fn open_path(dir: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// The path by which the kernel reaches whatever a descriptor of this process stands for.
pub fn proc_path(fd: impl AsFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

#[path = "nodes/restored.rs"]
mod restored;
#[cfg(test)]
mod tests;
#[path = "nodes/turns.rs"]
mod turns;
