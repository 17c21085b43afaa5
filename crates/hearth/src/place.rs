//! Whether a directory can be a store, or a mount can be made at it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, OrFail};
use crate::mountinfo::{self, is_not_connected};

/// What to type when the process behind a mount is gone.
const STALE_HINT: &str = "hearth doctor --fix";

/// The true path of a directory that can be a store.
pub(crate) fn store(path: &Path) -> Result<PathBuf, Failure> {
    let what = || format!("cannot use `{}` as a store", path.display());
    let path = directory(path).map_err(|cause| Failure::new(what()).after(cause))?;
    let mount = mountinfo::holding(&path).or_fail(what)?;
    if mount.is_some_and(|mount| mount.is_hearth()) {
        return Err(Failure::new(what())
            .cause("Hearth already serves it: it lies inside a mount of Hearth")
            .hint("run the command as it is, or name the store behind the mount"));
    }
    File::open(&path)
        .and_then(|dir| dir.metadata())
        .and_then(|_| fs::read_dir(&path))
        .or_fail(what)?;
    Ok(path)
}

/// The path of a store that other hosts have: what it is called here, too.
pub(crate) fn store_elsewhere(path: &Path) -> Result<PathBuf, Failure> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let what = format!("cannot use `{}` as a store of other hosts", path.display());
    Err(Failure::new(what).hint("its path there, from the root"))
}

/// The true path of a directory that a store can be mounted at.
pub(crate) fn mount_point(at: &Path, store: &Path) -> Result<PathBuf, Failure> {
    let what = || format!("cannot mount at `{}`", at.display());
    let path = directory(at).map_err(|cause| Failure::new(what()).after(cause))?;
    if path.starts_with(store) || store.starts_with(&path) {
        let which = if path.starts_with(store) {
            "it lies inside the store"
        } else {
            "the store lies inside it"
        };
        return Err(Failure::new(what())
            .cause(format!("{which} `{}`", store.display()))
            .hint("choose a directory beside it, or use `hearth run`, which needs none"));
    }
    let mount = mountinfo::holding(&path).or_fail(what)?;
    if mount.is_some_and(|mount| mount.is_hearth() && mount.at == path) {
        return Err(Failure::new(what())
            .cause("something of Hearth is mounted there")
            .hint(format!("hearth umount {}", path.display())));
    }
    Ok(path)
}

fn directory(path: &Path) -> Result<PathBuf, Failure> {
    let canonical = path.canonicalize().map_err(|error| words(path, &error))?;
    let kind = fs::metadata(&canonical).map_err(|error| words(path, &error))?;
    if kind.is_dir() {
        Ok(canonical)
    } else {
        Err(Failure::new("it is not a directory"))
    }
}

fn words(path: &Path, error: &io::Error) -> Failure {
    if is_not_connected(error) {
        Failure::new("the agent that served a mount there is gone").hint(STALE_HINT)
    } else if error.kind() == io::ErrorKind::NotFound {
        Failure::new("there is no such directory").hint(format!("mkdir -p {}", path.display()))
    } else {
        Failure::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_directory_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            store(dir.path()).unwrap(),
            dir.path().canonicalize().unwrap()
        );
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let text = store(&file).unwrap_err().to_string();
        assert!(text.contains("it is not a directory"), "{text}");
        let text = store(&dir.path().join("none")).unwrap_err().to_string();
        assert!(text.contains("there is no such directory"), "{text}");
    }

    #[test]
    fn store_and_mount_point_lie_apart() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (store, inside, beside) = (dir.join("s"), dir.join("s/i"), dir.join("b"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir(&beside).unwrap();
        assert_eq!(mount_point(&beside, &store).unwrap(), beside);
        for at in [&store, &inside, &dir] {
            assert!(mount_point(at, &store).is_err(), "{}", at.display());
        }
    }
}
