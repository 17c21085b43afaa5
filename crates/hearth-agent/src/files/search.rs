//! Files that were renamed and that nobody has open: looked for by their number, near the place where they were.
//!
//! A home that is gone had told others where its files were. Nobody tells them of a rename after that, and the bytes that
//! they keep for it have to go somewhere. Looked at are the directory of the old name, those below it, and those beside it.
//!
//! The store gives a number to another file once it is free. So only a file counts that was born before its number was told
//! here. A store that tells no birth times has none such.

use crate::store::Store;
use hearth_proto::FileId;
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Statx, StatxFlags};
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Names that one search looks at: it holds a worker of the store.
const LOOKED_AT_MAX: usize = 1 << 16;
const LISTING_BYTES: usize = 32 * 1024;

struct Search<'a> {
    store: &'a dyn Store,
    root: BorrowedFd<'a>,
    file: FileId,
    /// When the number was told.
    told: SystemTime,
    /// Names that may still be looked at.
    left: usize,
}

/// A path below the root by which a file can be found that was once at another.
pub(super) fn near(
    (store, root): (&dyn Store, BorrowedFd<'_>),
    old: &Path,
    (file, told): (FileId, SystemTime),
) -> Option<PathBuf> {
    let mut search = Search {
        store,
        root,
        file,
        told,
        left: LOOKED_AT_MAX,
    };
    let dir = old.parent().filter(|_| old.is_relative())?;
    let mut all = vec![dir.to_owned()];
    if let Some(above) = dir.parent() {
        all.push(above.to_owned());
    }
    for dir in all {
        let mut below = Vec::new();
        let found = search.look(&dir, &mut below);
        let found = found.or_else(|| {
            let mut below = below.iter();
            below.find_map(|dir| search.look(dir, &mut Vec::new()))
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

impl Search<'_> {
    /// Looks at the names of a directory, and notes the directories in it.
    fn look(&mut self, dir: &Path, below: &mut Vec<PathBuf>) -> Option<PathBuf> {
        if self.left == 0 {
            return None;
        }
        let at = match dir.as_os_str().is_empty() {
            true => Path::new("."),
            false => dir,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.store.open(self.root, at, flags).ok()?;
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            self.left = self.left.checked_sub(1)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            match entry.file_type() {
                FileType::Directory if name != "." && name != ".." => below.push(dir.join(name)),
                FileType::RegularFile | FileType::Unknown
                    if entry.ino() == self.file.0 && self.is_it(&fd, entry.file_name()) =>
                {
                    return Some(dir.join(name));
                }
                _ => {}
            }
        }
        None
    }

    /// Whether a name leads to the file of the store that had the number then.
    fn is_it(&self, dir: &OwnedFd, name: &CStr) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let of = |dir: BorrowedFd<'_>, name: &CStr| {
            rustix::fs::statx(dir, name, flags | AtFlags::EMPTY_PATH, wanted).ok()
        };
        let (Some(root), Some(found)) = (of(self.root, c""), of(dir.as_fd(), name)) else {
            return false;
        };
        let device = |of: &Statx| (of.stx_dev_major, of.stx_dev_minor);
        let told = self.told.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (born, tells) = (
            found.stx_btime,
            found.stx_mask & StatxFlags::BTIME.bits() != 0,
        );
        let born = (born.tv_sec, u64::from(born.tv_nsec));
        let told = (told.as_secs() as i64, u64::from(told.subsec_nanos()));
        found.stx_ino == self.file.0 && device(&root) == device(&found) && tells && born <= told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Posix;
    use rustix::fs::Mode;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    #[test]
    fn a_file_is_found_where_it_was_moved() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("a/b")).expect("made");
        fs::create_dir_all(dir.path().join("c/d")).expect("made");
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(dir.path(), flags, Mode::empty()).expect("it is there");
        let found = |old: &str, new: &str| {
            fs::write(dir.path().join(old), b"x").expect("written");
            let file = fs::metadata(dir.path().join(old)).expect("it is there");
            let file = FileId(file.ino());
            fs::rename(dir.path().join(old), dir.path().join(new)).expect("renamed");
            let at = |told| near((&Posix, root.as_fd()), Path::new(old), (file, told));
            let told = SystemTime::now();
            assert_eq!(at(told - Duration::from_secs(1)), None, "born later");
            at(told)
        };
        for (old, new) in [
            ("x", "y"),
            ("x", "a/y"),
            ("a/x", "a/y"),
            ("a/x", "a/b/y"),
            ("a/x", "c/y"),
            ("a/x", "y"),
        ] {
            assert_eq!(found(old, new), Some(PathBuf::from(new)), "{old}");
        }
        assert_eq!(found("a/b/x", "c/d/y"), None, "too far away");
    }
}
