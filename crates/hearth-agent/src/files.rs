//! Descriptors: how this agent reaches the files of the store.
//!
//! A handle has the descriptor that its front end opened. A home has one of its own per file: that of a local handle if
//! there was one, else one opened by the path that the introducer gave. It is checked against the file's number, so
//! that a path that has come to mean another file is never used. A home that cannot reach the file so has a node that
//! has it open make the store operation ([`crate::openers`]).
//!
//! Bytes of the store that other nodes have written are read through a descriptor that was opened after them: a client
//! of a network file system may keep older bytes of a file until the file is opened.
//!
//! Invariant: while this node is a home of the file, a descriptor that was open for writing here stays,
//! though its handle is closed. A name may be wrong by then, or gone; the descriptor is right.

mod search;

use crate::store::Store;
use hearth_client::Errno;
use hearth_proto::{FileId, Handle, NodeId, Stamp};
use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::Errno as Sys;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Share of the process's descriptors that homes may keep open, as a divisor.
const OPEN_SHARE: u64 = 8;
/// Files that are known at most, however many descriptors there may be: each takes memory.
const FILES_MAX: u64 = 1 << 15;
/// Files that are looked at for some to let go of, when there are too many.
const LOOKS_AT_ONCE: usize = 16;
/// Descriptors of one file that are asked for its name: thousands may be open of a file that has lost it.
const ASKED_FOR_NAME: usize = 64;

/// A file that was searched for is not for so long.
const SEARCH_PAUSE: Duration = Duration::from_secs(10);

/// The direction in which a store operation moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

/// One file of the store, as a home reaches it.
#[derive(Debug, Default)]
pub(crate) struct StoreFile {
    inner: Mutex<Reach>,
    /// When the file was searched for last, and whether it was found.
    searched: Mutex<Option<(Instant, bool)>>,
}

#[derive(Debug, Default)]
struct Reach {
    path: Option<PathBuf>,
    /// When a peer told the path last: the file was there by then.
    told: Option<SystemTime>,
    reader: Option<Arc<OwnedFd>>,
    writer: Option<Arc<OwnedFd>>,
    stamp: Option<Stamp>,
    /// How often other nodes have changed the file in the store, as far as this home knows.
    changes: u64,
    /// The value of `changes` when this home opened `reader`; 0 for a descriptor of a handle.
    reader_since: u64,
    /// How often another node has written the file for this home: this node's client may not know of it.
    overtaken: u64,
    /// The value of `overtaken` when this node's client last looked at the file anew.
    renewed: u64,
}

/// All files and handles of one agent.
#[derive(Debug)]
pub(crate) struct Files {
    root: Arc<OwnedFd>,
    /// As the operating system calls it, and what its descriptors' paths begin with.
    root_path: PathBuf,
    /// As people call it.
    shown_path: PathBuf,
    handles: HashMap<Handle, FileId>,
    /// The same by file, as homes look for them.
    held: BTreeMap<(FileId, Handle), Held>,
    files: HashMap<FileId, (Arc<StoreFile>, u64)>,
    /// The same in the order of their last uses.
    by_use: BTreeMap<u64, FileId>,
    introduced: BTreeSet<(FileId, NodeId)>,
    uses: u64,
    files_max: usize,
    /// Descriptors that nobody uses any more, to be closed when nothing is locked.
    unused: Vec<Arc<OwnedFd>>,
}

/// The descriptor of an open handle.
#[derive(Debug)]
struct Held {
    fd: Arc<OwnedFd>,
    write: bool,
    /// How often other nodes had changed the file in the store when this node's client looked at it anew.
    seen: Arc<AtomicU64>,
}

/// The descriptor of a handle whose file is read past the cache.
#[derive(Debug)]
pub(crate) struct PastCache {
    fd: Arc<OwnedFd>,
    seen: Arc<AtomicU64>,
    changes: u64,
}

impl PastCache {
    /// Shows what other nodes have changed as far as it was known when this was asked for. May block.
    pub(crate) fn up_to_date(&self, store: &dyn Store) -> Result<BorrowedFd<'_>, Errno> {
        let fd = self.fd.as_fd();
        if self.seen.load(Ordering::Acquire) < self.changes {
            store.renew(fd)?;
            self.seen.fetch_max(self.changes, Ordering::AcqRel);
        }
        Ok(fd)
    }
}

impl Files {
    /// Over the store behind `root`, which people call `shown`.
    pub(crate) fn new(root: OwnedFd, shown: PathBuf) -> io::Result<Files> {
        let root_path = path_of(root.as_fd())?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files_max = (limit.unwrap_or(1 << 20) / OPEN_SHARE).clamp(64, FILES_MAX) as usize;
        Ok(Files {
            root: Arc::new(root),
            root_path,
            shown_path: shown,
            handles: HashMap::new(),
            held: BTreeMap::new(),
            files: HashMap::new(),
            by_use: BTreeMap::new(),
            introduced: BTreeSet::new(),
            uses: 0,
            files_max,
            unused: Vec::new(),
        })
    }

    /// The root's true path, or `/` if it is in no tree.
    pub(crate) fn root_path(&self) -> PathBuf {
        self.root_path.clone()
    }

    pub(crate) fn root(&self) -> &Arc<OwnedFd> {
        &self.root
    }

    /// A handle was opened; its descriptor also serves this node as a home.
    pub(crate) fn opened(&mut self, handle: Handle, file: FileId, fd: Arc<OwnedFd>, write: bool) {
        self.handles.insert(handle, file);
        let held = Held {
            fd: Arc::clone(&fd),
            write,
            seen: Arc::default(),
        };
        self.held.insert((file, handle), held);
        if let Some((known, _)) = self.files.get(&file) {
            known.offer(fd, write);
        }
    }

    /// A descriptor of a file passed by; it tells where the file is.
    pub(crate) fn seen(&mut self, file: FileId, fd: &Arc<OwnedFd>) {
        self.file(file).offer(Arc::clone(fd), true);
    }

    /// True if the store's stamp is what it was when the file was last opened here.
    pub(crate) fn same_stamp(&mut self, file: FileId, stamp: Stamp) -> bool {
        self.file(file).lock().stamp.replace(stamp) == Some(stamp)
    }

    /// A handle was closed. A home here goes on with its descriptor.
    pub(crate) fn closed(&mut self, handle: Handle, is_home: bool) {
        let Some(file) = self.handles.remove(&handle) else {
            return;
        };
        let held = self.held.remove(&(file, handle));
        if is_home && let Some(held) = held {
            self.file(file).offer(held.fd, held.write);
        } else if !is_home {
            self.unused.extend(held.map(|held| held.fd));
            self.forget(file);
        }
    }

    pub(crate) fn handle(&self, handle: Handle) -> Option<Arc<OwnedFd>> {
        let held = self.held.get(&(self.file_of(handle)?, handle));
        held.map(|held| Arc::clone(&held.fd))
    }

    /// The same for reads past the cache.
    pub(crate) fn past_cache(&self, handle: Handle) -> Option<PastCache> {
        let file = self.file_of(handle)?;
        let held = self.held.get(&(file, handle))?;
        let known = self.files.get(&file);
        Some(PastCache {
            fd: Arc::clone(&held.fd),
            seen: Arc::clone(&held.seen),
            changes: known.map_or(0, |(known, _)| known.lock().changes),
        })
    }

    /// The file that a handle is of.
    pub(crate) fn file_of(&self, handle: Handle) -> Option<FileId> {
        self.handles.get(&handle).copied()
    }

    /// Handles that are open of a file.
    fn held_of(&self, file: FileId) -> impl Iterator<Item = &Held> {
        let of_it = self
            .held
            .range((file, Handle(0))..=(file, Handle(u64::MAX)));
        of_it.map(|(_, held)| held)
    }

    /// A descriptor that is open here and serves the purpose.
    pub(crate) fn opener(&self, file: FileId, purpose: Purpose) -> Option<Arc<OwnedFd>> {
        let serves = |held: &&Held| match purpose {
            Purpose::Read => readable(&held.fd),
            Purpose::Write => held.write,
        };
        let held = self
            .held_of(file)
            .find(serves)
            .map(|held| Arc::clone(&held.fd));
        held.or_else(|| self.files.get(&file)?.0.lock().open(purpose))
    }

    /// The path of a file, from the root of all; a path that a peer said will do.
    pub(crate) fn whole_path(&mut self, file: FileId) -> Option<PathBuf> {
        let heard = |files: &mut Files| files.file(file).lock().path.clone();
        let place = self.place(file).or_else(|| heard(self))?;
        Some(self.shown_path.join(place))
    }

    /// A file by its number.
    pub(crate) fn file(&mut self, file: FileId) -> Arc<StoreFile> {
        self.uses += 1;
        let uses = self.uses;
        self.by_use.insert(uses, file);
        if let Some((found, used)) = self.files.get_mut(&file) {
            self.by_use.remove(&std::mem::replace(used, uses));
            return Arc::clone(found);
        }
        let found = Arc::new(StoreFile::default());
        for held in self.held_of(file) {
            found.offer(Arc::clone(&held.fd), held.write);
        }
        self.files.insert(file, (Arc::clone(&found), uses));
        found
    }

    /// A peer said where a file is.
    pub(crate) fn introduce(&mut self, file: FileId, path: PathBuf) {
        let file = self.file(file);
        let mut reach = file.lock();
        // The number may have been another file's before.
        reach.told = Some(SystemTime::now());
        reach.path = Some(path);
    }

    /// This home has nothing of the file any more: its descriptors go, so that a file without a name takes no room in
    /// the store. Its path stays known, for a sync that may still come.
    pub(crate) fn forget(&mut self, file: FileId) {
        if self.held_of(file).next().is_some() || !self.files.contains_key(&file) {
            return;
        }
        let place = self.place(file);
        let found = self.file(file);
        let mut reach = found.lock();
        reach.path = place.or_else(|| reach.path.take());
        let gone = [reach.reader.take(), reach.writer.take()];
        drop(reach);
        self.unused.extend(gone.into_iter().flatten());
    }

    /// Descriptors that nobody uses any more. The store may take long to close them.
    #[must_use = "to be dropped when nothing is locked"]
    pub(crate) fn unused(&mut self) -> Vec<Arc<OwnedFd>> {
        std::mem::take(&mut self.unused)
    }

    /// Other nodes have changed the file in the store: descriptors that are open serve no read from now on.
    pub(crate) fn reopen(&mut self, file: FileId) {
        let is_open = self.files.contains_key(&file) || self.held_of(file).next().is_some();
        if is_open {
            self.file(file).lock().changes += 1;
        }
    }

    /// Peers are to be told anew where the file is: its number may have been another's.
    pub(crate) fn forget_telling(&mut self, file: FileId) {
        let told = (file, NodeId(0))..=(file, NodeId(u32::MAX));
        let told: Vec<_> = self.introduced.range(told).copied().collect();
        told.iter().for_each(|one| {
            self.introduced.remove(one);
        });
    }

    /// The path to introduce a file to a peer by, if the peer does not know it yet.
    pub(crate) fn introduction(&mut self, peer: NodeId, file: FileId) -> Option<PathBuf> {
        if self.introduced.contains(&(file, peer)) {
            return None;
        }
        let path = self.place(file)?;
        self.introduced.insert((file, peer));
        Some(path)
    }

    /// The path of a file, relative to the root, by a descriptor that is open here: the only word that others may be
    /// given, for a path alone may have come to mean another file. A file of several names may have lost the one by
    /// which a descriptor was opened.
    pub(crate) fn place(&mut self, file: FileId) -> Option<PathBuf> {
        let found = self.file(file);
        self.place_by(file, &found.lock())
    }

    /// The path at which a file was last known to be, relative to the root. Asking for it lets go of no other file.
    pub(crate) fn whereabouts(&self, file: FileId) -> Option<PathBuf> {
        match self.files.get(&file) {
            Some((found, _)) => {
                let reach = found.lock();
                self.place_by(file, &reach).or_else(|| reach.path.clone())
            }
            None => self.place_by(file, &Reach::default()),
        }
    }

    fn place_by(&self, file: FileId, reach: &Reach) -> Option<PathBuf> {
        let kept = reach.writer.iter().chain(&reach.reader);
        let mut descriptors = kept.chain(self.held_of(file).map(|held| &held.fd));
        descriptors.by_ref().take(ASKED_FOR_NAME).find_map(|fd| {
            let path = path_of(fd.as_fd()).ok()?;
            let place = path.strip_prefix(&self.root_path).ok()?;
            is_named(self.root.as_fd(), place, file).then(|| place.to_owned())
        })
    }

    /// An open file as people called it when it was opened, or its number. Asks nothing of the store.
    pub(crate) fn called(&self, file: FileId) -> String {
        let mut open = self.held_of(file);
        let path = open.find_map(|held| path_of(held.fd.as_fd()).ok());
        let place = path.and_then(|path| Some(path.strip_prefix(&self.root_path).ok()?.to_owned()));
        match place {
            Some(place) => format!("`{}`", place.display()),
            None => format!("inode {}", file.0),
        }
    }

    /// The name of a file, for people.
    pub(crate) fn name(&mut self, file: FileId) -> String {
        let heard = |files: &mut Files| files.file(file).lock().path.clone();
        match self.place(file).or_else(|| heard(self)) {
            Some(path) => format!("`{}`", path.display()),
            None => format!("file {}", file.0),
        }
    }

    /// The peer is gone: a later life of it must be told anew.
    pub(crate) fn forget_introductions(&mut self, peer: NodeId) {
        self.introduced.retain(|&(_, told)| told != peer);
    }

    /// True if more files have descriptors than may.
    pub(crate) fn is_crowded(&self) -> bool {
        self.files.len() > self.files_max
    }

    /// Lets go of some of the files that were used longest ago, but not of those of which a home here has bytes that
    /// the store lacks: these count as used. It looks at a few, however many there are. The returned files close
    /// descriptors when they are dropped, for which the store may take long.
    #[must_use = "to be dropped when nothing is locked"]
    pub(crate) fn let_go(&mut self, owes: impl Fn(FileId) -> bool) -> Vec<Arc<StoreFile>> {
        let mut gone = Vec::new();
        for _ in 0..LOOKS_AT_ONCE {
            if !self.is_crowded() {
                break;
            }
            let Some((_, id)) = self.by_use.pop_first() else {
                break;
            };
            // A handle's descriptor may be older than the last change that this home was told of.
            let is_held = self.held_of(id).next().is_some();
            let Some((file, used)) = self.files.get_mut(&id) else {
                continue;
            };
            if is_held || Arc::strong_count(file) > 1 || owes(id) {
                self.uses += 1;
                *used = self.uses;
                self.by_use.insert(self.uses, id);
                continue;
            }
            gone.extend(self.files.remove(&id).map(|(file, _)| file));
            self.forget_telling(id);
        }
        gone
    }
}

impl StoreFile {
    fn lock(&self) -> std::sync::MutexGuard<'_, Reach> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, fd: Arc<OwnedFd>, write: bool) {
        let mut reach = self.lock();
        if write {
            reach.writer.get_or_insert(fd);
        } else if reach.reader.is_none() {
            (reach.reader, reach.reader_since) = (Some(fd), 0);
        }
    }

    /// The descriptor that bytes are written through, if one is open.
    pub(crate) fn writer(&self) -> Option<Arc<OwnedFd>> {
        self.lock().writer.clone()
    }

    /// Closes what this home reaches the file by: the store calls it stale.
    pub(crate) fn lose(&self) {
        let gone = self.lock().lose();
        // The store may take long to close them.
        drop(gone);
    }

    /// Looks for a file that is not where it was known to be. True if it was found, by this search or by one a moment ago.
    /// May block.
    pub(crate) fn search(&self, store: (&dyn Store, BorrowedFd<'_>), file: FileId) -> bool {
        let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = *searched
            && at.elapsed() < SEARCH_PAUSE
        {
            return found;
        }
        let (old, told) = {
            let reach = self.lock();
            (reach.path.clone(), reach.told)
        };
        let known = old.zip(told);
        let found = known.and_then(|(old, told)| search::near(store, &old, (file, told)));
        *searched = Some((Instant::now(), found.is_some()));
        let Some(path) = found else {
            return false;
        };
        self.lock().path = Some(path);
        true
    }

    /// Another client has written the file. This node's may keep old pages until it opens the file anew, and an old size
    /// until it has looked at it once more.
    pub(crate) fn overtake(&self) {
        let gone = {
            let mut reach = self.lock();
            // Under one lock: a descriptor that is opened between the two would pass for a new one.
            reach.overtaken += 1;
            reach.lose()
        };
        drop(gone);
    }

    /// A descriptor that is open, or one opened where the file was last known to be; `ESTALE` if it is not there. May
    /// block. No lock is held while the store opens or closes it: a store that hangs must hold up its worker alone.
    pub(crate) fn reach(
        &self,
        store: (&dyn Store, BorrowedFd<'_>),
        file: FileId,
        purpose: Purpose,
    ) -> Result<Arc<OwnedFd>, Errno> {
        let (known, is_old, changes, overtaken, renewed) = {
            let reach = self.lock();
            let known = reach.open(purpose);
            let is_old = purpose == Purpose::Read && reach.is_old();
            let Reach {
                changes,
                overtaken,
                renewed,
                ..
            } = *reach;
            (known, is_old, changes, overtaken, renewed)
        };
        let renew = |fd: &OwnedFd| store.0.renew(fd.as_fd());
        let opened = match known {
            Some(fd) if !is_old => return Ok(fd),
            // A descriptor that may not be opened again, or whose nameless file is not found so, serves on.
            Some(fd) => match open_again(store, &fd).filter(|again| renew(again).is_ok()) {
                Some(again) => Arc::new(again),
                None => return renew(&fd).map(|()| fd),
            },
            None => {
                let path = self.lock().place();
                let opened = open_checked(store, path.as_deref(), file, purpose)?;
                if is_old || overtaken > renewed {
                    renew(&opened)?;
                }
                Arc::new(opened)
            }
        };
        let replaced = {
            let mut reach = self.lock();
            reach.keep_unless_overtaken(Arc::clone(&opened), purpose, (changes, overtaken))
        };
        drop(replaced);
        Ok(opened)
    }
}

/// The file of a descriptor, opened for reading once more; `None` if that is refused.
pub(crate) fn open_again(
    (store, root): (&dyn Store, BorrowedFd<'_>),
    fd: &OwnedFd,
) -> Option<OwnedFd> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    store.open(root, &path, OFlags::RDONLY).ok()
}

impl Reach {
    fn open(&self, purpose: Purpose) -> Option<Arc<OwnedFd>> {
        match purpose {
            Purpose::Read => {
                let writer = || self.writer.clone().filter(readable);
                self.reader.clone().or_else(writer)
            }
            Purpose::Write => self.writer.clone(),
        }
    }

    /// The path by which to open the file.
    fn place(&self) -> Option<PathBuf> {
        let fd = self.reader.as_ref().or(self.writer.as_ref());
        fd.map(|fd| PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())))
            .or_else(|| self.path.clone())
    }

    /// True if the reader may be older than what other nodes have changed.
    fn is_old(&self) -> bool {
        self.reader_since < self.changes
    }

    /// Keeps a descriptor that was opened when the file had been changed so often. The descriptor that it replaces is
    /// to be closed when nothing is locked.
    fn lose(&mut self) -> [Option<Arc<OwnedFd>>; 2] {
        [self.reader.take(), self.writer.take()]
    }

    /// Keeps a descriptor that was opened after so many changes and writes of other nodes. One that another write
    /// overtook meanwhile serves its own operation alone.
    fn keep_unless_overtaken(
        &mut self,
        fd: Arc<OwnedFd>,
        purpose: Purpose,
        (changes, overtaken): (u64, u64),
    ) -> Option<Arc<OwnedFd>> {
        self.renewed = self.renewed.max(overtaken);
        match self.overtaken == overtaken {
            true => self.keep(fd, purpose, changes),
            false => None,
        }
    }

    fn keep(&mut self, fd: Arc<OwnedFd>, purpose: Purpose, changes: u64) -> Option<Arc<OwnedFd>> {
        match purpose {
            Purpose::Read => {
                self.reader_since = changes;
                self.reader.replace(fd)
            }
            Purpose::Write => self.writer.replace(fd),
        }
    }
}

pub(crate) const STALE: Errno = Errno(hearth_proto::errno::ESTALE);

/// True if the descriptor may be read; a front end may have been granted writing alone.
fn readable(fd: &Arc<OwnedFd>) -> bool {
    rustix::fs::fcntl_getfl(fd.as_fd()).is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::WRONLY)
}

/// Opens what a path names if that is the file. Whatever else the path has come to name, be it a
/// directory or a device, is looked at and not opened.
fn open_checked(
    (store, root): (&dyn Store, BorrowedFd<'_>),
    path: Option<&Path>,
    file: FileId,
    purpose: Purpose,
) -> Result<OwnedFd, Errno> {
    let path = path.ok_or(STALE)?;
    let found = store
        .open(root, path, OFlags::PATH)
        .map_err(|errno| match errno {
            Sys::NOENT | Sys::LOOP | Sys::NOTDIR | Sys::XDEV => STALE,
            other => Errno(other.raw_os_error()),
        })?;
    let stat = rustix::fs::fstat(&found).map_err(|errno| Errno(errno.raw_os_error()))?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if stat.st_ino != file.0 || !is_regular {
        return Err(STALE);
    }
    let again = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
    let opened = match purpose {
        Purpose::Read => store.open(root, &again, OFlags::RDONLY),
        Purpose::Write => store
            .open(root, &again, OFlags::RDWR)
            .or_else(|_| store.open(root, &again, OFlags::WRONLY)),
    };
    opened.map_err(|errno| match errno {
        // Its last name has gone since.
        Sys::NOENT => STALE,
        other => Errno(other.raw_os_error()),
    })
}

/// The path of a descriptor's file now.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// The mark that the kernel appends to the path of a descriptor whose name went.
const NAMELESS: &[u8] = b" (deleted)";

/// Whether a descriptor's path is a name of its file. A name may end like the mark of those that went:
/// only then the store is asked.
fn is_named(root: BorrowedFd<'_>, place: &Path, file: FileId) -> bool {
    let marked = place.as_os_str().as_bytes().ends_with(NAMELESS);
    let found = || rustix::fs::statat(root, place, AtFlags::SYMLINK_NOFOLLOW);
    !marked || found().is_ok_and(|stat| stat.st_ino == file.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Lagging, Posix, Seconds};
    use rustix::fs::Mode;
    use std::os::unix::fs::MetadataExt;

    fn root_of(dir: &Path) -> OwnedFd {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::empty()).expect("the directory is there")
    }

    fn number_of(path: &Path) -> FileId {
        FileId(std::fs::metadata(path).expect("the file is there").ino())
    }

    /// A home that heard where a file was does not reach another that is there now, and reaches it where it is.
    fn reached_after(change: impl FnOnce(&Path), purpose: Purpose) {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        std::fs::write(&old, b"x").expect("written");
        let file = number_of(&old);
        std::fs::rename(&old, &new).expect("renamed");
        change(&old);
        let root = root_of(dir.path());
        let home = StoreFile::default();
        home.lock().path = Some(PathBuf::from("old"));
        let there = home.reach((&Posix, root.as_fd()), file, purpose);
        assert_eq!(there.map(drop), Err(STALE));
        home.lock().path = Some(PathBuf::from("new"));
        let fd = home.reach((&Posix, root.as_fd()), file, purpose);
        let fd = fd.expect("found where it is now");
        assert_eq!(rustix::fs::fstat(&fd).expect("open").st_ino, file.0);
    }

    #[test]
    fn a_home_does_not_open_a_directory_for_its_file() {
        for purpose in [Purpose::Read, Purpose::Write] {
            reached_after(|old| std::fs::create_dir(old).expect("made"), purpose);
        }
    }

    #[test]
    fn a_home_does_not_open_a_pipe_for_its_file() {
        let pipe = |old: &Path| {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, old, FileType::Fifo, mode, 0).expect("made");
        };
        for purpose in [Purpose::Read, Purpose::Write] {
            reached_after(pipe, purpose);
        }
    }

    #[test]
    fn a_home_reads_what_another_node_has_written_for_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        std::fs::write(&path, b"").expect("made");
        let (root, file) = (root_of(dir.path()), number_of(&path));
        let client = Lagging::new(Seconds::default());
        let home = StoreFile::default();
        home.lock().path = Some(PathBuf::from("f"));
        let read = || {
            let fd = home.reach((&client, root.as_fd()), file, Purpose::Read);
            client.read_vec(fd.expect("it is there").as_fd(), 0, 9)
        };
        assert_eq!(read(), Ok(Vec::new()));
        std::fs::write(&path, b"bytes").expect("written");
        assert_eq!(read(), Ok(Vec::new()), "its client lags");
        home.overtake();
        assert_eq!(read(), Ok(b"bytes".to_vec()));
    }

    #[test]
    fn a_descriptor_that_a_write_overtook_while_it_was_opened_is_not_kept() {
        let opened = || Arc::new(OwnedFd::from(tempfile::tempfile().expect("a file")));
        let home = StoreFile::default();
        let seen = (0, home.lock().overtaken);
        home.overtake();
        let replaced = home
            .lock()
            .keep_unless_overtaken(opened(), Purpose::Read, seen);
        assert!(replaced.is_none() && home.lock().open(Purpose::Read).is_none());
        let Reach {
            overtaken, renewed, ..
        } = *home.lock();
        assert!(overtaken > renewed, "the next open looks anew");
        let seen = (0, home.lock().overtaken);
        home.lock()
            .keep_unless_overtaken(opened(), Purpose::Read, seen);
        assert!(home.lock().open(Purpose::Read).is_some());
    }

    #[test]
    fn a_file_is_where_it_has_a_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("it is there");
        let (first, second) = (dir.join("first"), dir.join("second (deleted)"));
        std::fs::write(&first, b"x").expect("written");
        std::fs::hard_link(&first, &second).expect("linked");
        let file = number_of(&first);
        let open = |path: &Path| Arc::new(OwnedFd::from(std::fs::File::open(path).expect("open")));
        let mut files = Files::new(root_of(&dir), dir.to_path_buf()).expect("its path is read");
        files.seen(file, &open(&first));
        assert_eq!(files.place(file).as_deref(), Some(Path::new("first")));
        files.opened(Handle(1), file, open(&second), true);
        std::fs::remove_file(&first).expect("removed");
        let place = files.place(file);
        assert_eq!(place.as_deref(), Some(Path::new("second (deleted)")));
        std::fs::remove_file(&second).expect("removed");
        assert_eq!(files.place(file), None);
    }

    #[test]
    fn a_home_goes_on_with_the_descriptor_of_a_handle_that_was_closed() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("it is there");
        let path = dir.join("file");
        std::fs::write(&path, b"x").expect("written");
        let file = number_of(&path);
        let fd = std::fs::File::options().write(true).open(&path);
        let fd = Arc::new(OwnedFd::from(fd.expect("open")));
        let mut files = Files::new(root_of(&dir), dir.to_path_buf()).expect("its path is read");
        files.opened(Handle(1), file, fd, true);
        files.closed(Handle(1), true);
        std::fs::rename(&path, dir.join("other")).expect("renamed");
        let root = Arc::clone(files.root());
        let reached = files
            .file(file)
            .reach((&Posix, root.as_fd()), file, Purpose::Write);
        assert!(reached.is_ok());
        files.files_max = 0;
        drop(files.let_go(|_| true));
        assert!(
            files.opener(file, Purpose::Write).is_some(),
            "its bytes are owed"
        );
        assert_eq!(files.let_go(|_| false).len(), 1);
        assert!(
            files.opener(file, Purpose::Write).is_none(),
            "nothing is owed"
        );
    }

    /// A crowd of files costs only a look at those that were used longest ago, a few at a time.
    #[test]
    fn a_few_files_go_at_a_time_the_oldest_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("it is there");
        let mut files = Files::new(root_of(&dir), dir).expect("its path is read");
        files.files_max = 100;
        (1..=1000).for_each(|file| drop(files.file(FileId(file))));
        drop(files.file(FileId(1)));
        let owed = |file: FileId| file.0 < 10;
        assert_eq!(files.let_go(owed).len(), LOOKS_AT_ONCE - 8);
        assert!(files.files.contains_key(&FileId(1)) && !files.files.contains_key(&FileId(10)));
        while files.is_crowded() {
            drop(files.let_go(owed));
        }
        assert_eq!((files.files.len(), files.by_use.len()), (100, 100));
        assert!((1..10).all(|file| files.files.contains_key(&FileId(file))));
    }
}
