//! Which descriptors of the program are cached.
//!
//! A bit says quickly that a descriptor is not; then no lock is taken, and a call costs one load.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use hearth_client::FileKey;

use crate::file::Cached;

/// Descriptors with higher numbers cannot be cached.
const FDS_MAX: usize = 1 << 16;

const WORD_BITS: usize = u64::BITS as usize;

/// Set for descriptors that are in the table. Relaxed: a program that uses a number in one thread
/// before the call that made it has returned in another gets what it deserves.
static MARKED: [AtomicU64; FDS_MAX / WORD_BITS] =
    [const { AtomicU64::new(0) }; FDS_MAX / WORD_BITS];

/// How many are marked.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// In a forked child: its descriptors are plain ones, for no agent is in it.
static CHILD: AtomicBool = AtomicBool::new(false);

static TABLE: RwLock<BTreeMap<c_int, Arc<Cached>>> = RwLock::new(BTreeMap::new());

fn bit(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    let word = MARKED.get(number / WORD_BITS)?;
    Some((word, 1 << (number % WORD_BITS)))
}

/// The `Cached` that serves a descriptor, if it is cached.
#[inline]
pub(crate) fn find(fd: c_int) -> Option<Arc<Cached>> {
    let (word, bit) = bit(fd)?;
    if word.load(Relaxed) & bit == 0 || CHILD.load(Relaxed) {
        return None;
    }
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    table.get(&fd).cloned()
}

/// A descriptor is cached from now on.
pub(crate) fn insert(fd: c_int, cached: Arc<Cached>) -> io::Result<()> {
    let (word, bit) = bit(fd).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if table.insert(fd, cached).is_none() {
        COUNT.fetch_add(1, Relaxed);
    }
    word.fetch_or(bit, Relaxed);
    Ok(())
}

/// A descriptor is about to be closed, or is another one now.
pub(crate) fn remove(fd: c_int) -> Option<Arc<Cached>> {
    let (word, bit) = bit(fd)?;
    if word.load(Relaxed) & bit == 0 || CHILD.load(Relaxed) {
        return None;
    }
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    word.fetch_and(!bit, Relaxed);
    let removed = table.remove(&fd);
    if removed.is_some() {
        COUNT.fetch_sub(1, Relaxed);
    }
    removed
}

/// Whether any descriptor is cached.
#[inline]
pub(crate) fn any() -> bool {
    COUNT.load(Relaxed) > 0 && !CHILD.load(Relaxed)
}

/// The `Cached` that serves a file, by its number in the store.
pub(crate) fn of_file(file: FileKey) -> Option<Arc<Cached>> {
    first(|cached| cached.file() == file).map(|(_, cached)| cached)
}

/// A descriptor of a file that can be written, by its number in the store.
pub(crate) fn writable(file: FileKey) -> Option<(c_int, Arc<Cached>)> {
    first(|cached| cached.file() == file && cached.flags() & libc::O_ACCMODE != libc::O_RDONLY)
}

/// All descriptors of the file at a path.
pub(crate) fn at_path(path: &Path) -> Vec<(c_int, Arc<Cached>)> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let found = table.iter().filter(|(_, cached)| cached.path() == path);
    found
        .map(|(fd, cached)| (*fd, Arc::clone(cached)))
        .collect()
}

/// All descriptors.
pub(crate) fn all() -> Vec<(c_int, Arc<Cached>)> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let all = table.iter();
    all.map(|(fd, cached)| (*fd, Arc::clone(cached))).collect()
}

/// Whether this process is a forked child, in which there is no agent.
#[inline]
pub(crate) fn is_child() -> bool {
    CHILD.load(Relaxed)
}

/// This process is a forked child.
pub(crate) fn forget_in_child() {
    CHILD.store(true, Relaxed);
}

fn first(wanted: impl Fn(&Cached) -> bool) -> Option<(c_int, Arc<Cached>)> {
    if !any() {
        return None;
    }
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let mut found = table.iter().filter(|(_, cached)| wanted(cached));
    found.next().map(|(fd, cached)| (*fd, Arc::clone(cached)))
}
