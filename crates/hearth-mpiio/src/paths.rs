//! Which paths lead to files that are open through MPI.

use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

/// True paths, one for each time that MPI has a file open.
static OPEN: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// How many there are: most opens of a program look no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A path of a file that MPI has open; undone when it is dropped.
pub(crate) struct Registered(PathBuf);

impl Registered {
    /// Opens of this path are cached from now on.
    pub(crate) fn new(path: PathBuf) -> Registered {
        let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
        open.push(path.clone());
        COUNT.store(open.len(), Relaxed);
        Registered(path)
    }

    /// The true path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|path| *path == self.0) {
            open.swap_remove(at);
        }
        COUNT.store(open.len(), Relaxed);
    }
}

/// The true path of a file, if MPI has that open.
pub(crate) fn registered(dir: c_int, path: Option<&CStr>) -> Option<PathBuf> {
    if COUNT.load(Relaxed) == 0 || crate::fds::is_child() {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(path?.to_bytes()));
    let known = |path: &Path| {
        let open = OPEN.read().unwrap_or_else(PoisonError::into_inner);
        open.iter().any(|known| known == path)
    };
    if path.is_absolute() && known(path) {
        return Some(path.to_owned());
    }
    true_path(&from_directory(dir, path)?).filter(|path| known(path))
}

fn from_directory(dir: c_int, path: &Path) -> Option<PathBuf> {
    if path.is_absolute() || dir == libc::AT_FDCWD {
        return Some(path.to_owned());
    }
    let dir = std::fs::read_link(format!("/proc/self/fd/{dir}")).ok()?;
    Some(dir.join(path))
}

/// The path to which a path leads, without symlinks; its last part need not exist yet.
pub(crate) fn true_path(path: &Path) -> Option<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Some(path);
    }
    let name = path.file_name()?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    Some(dir.canonicalize().ok()?.join(name))
}

/// The path in a file name that MPI was given, which may begin with the kind of file system.
pub(crate) fn without_kind(name: &[u8]) -> &Path {
    let rest = name
        .iter()
        .position(|byte| *byte == b':')
        .filter(|&at| at > 1 && name[..at].iter().all(u8::is_ascii_alphanumeric))
        .map_or(name, |at| &name[at + 1..]);
    Path::new(OsStr::from_bytes(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_file_system_is_no_part_of_the_path() {
        assert_eq!(without_kind(b"ufs:/a/b"), Path::new("/a/b"));
        assert_eq!(without_kind(b"/a:b/c"), Path::new("/a:b/c"));
        assert_eq!(without_kind(b"b/c"), Path::new("b/c"));
        assert_eq!(without_kind(b"a:b"), Path::new("a:b"));
    }

    #[test]
    fn a_path_is_known_under_all_its_names_while_it_is_registered() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&root, root.join("link")).unwrap();
        let named = |path: PathBuf| {
            let text = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
            registered(libc::AT_FDCWD, Some(&text))
        };
        assert_eq!(named(root.join("f")), None);
        let open = Registered::new(root.join("f"));
        assert_eq!(named(root.join("f")), Some(root.join("f")));
        assert_eq!(named(root.join("link/f")), Some(root.join("f")));
        assert_eq!(named(root.join("g")), None);
        drop(open);
        assert_eq!(named(root.join("f")), None);
    }
}
