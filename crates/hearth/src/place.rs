//! Whether a directory can be a store, or a mount can be made at it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use hearth_set::failure::{Failure, OrFail};
use hearth_set::job;
use hearth_set::mountinfo::{self, MountHealth, MountPoint, is_not_connected};
use hearth_set::set::{self, Set};

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
    check_mount_point(at, store)
        .map_err(|cause| Failure::new(format!("cannot mount at `{}`", at.display())).after(cause))
}

fn check_mount_point(at: &Path, store: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(at).unwrap_or_else(|_| at.to_owned());
    // Before it is looked at: the server of a mount there may not answer.
    check_not_ours(&absolute)?;
    let path = match directory(at) {
        // It need not be made there.
        Err(_) if absolute.starts_with(store) => absolute,
        found => found?,
    };
    check_not_ours(&path)?;
    let which = if path == store {
        "it is the store"
    } else if path.starts_with(store) {
        "it lies inside the store"
    } else if store.starts_with(&path) {
        "the store lies inside it"
    } else {
        return check_writable(path);
    };
    let store = store.display();
    Err(Failure::new(format!("{which}; the store is `{store}`")).hint(format!(
        "mkdir -p {store}.hearth, and mount there; or use `hearth run`, which needs no directory"
    )))
}

/// The true paths of directories that one store can be mounted at.
pub(crate) fn mount_points(all: &[PathBuf], store: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut points: Vec<PathBuf> = Vec::new();
    for at in all {
        let point = mount_point(at, store)?;
        let meets = |other: &&PathBuf| other.starts_with(&point) || point.starts_with(other);
        if let Some(other) = points.iter().find(meets) {
            return Err(Failure::new(format!("cannot mount at `{}`", at.display()))
                .cause(format!(
                    "another mount is to be at `{}`: one would hide the other",
                    other.display()
                ))
                .hint("give each agent a directory of its own"));
        }
        points.push(point);
    }
    Ok(points)
}

/// Fails if a mount of Hearth holds a place.
fn check_not_ours(path: &Path) -> Result<(), Failure> {
    let mount = mountinfo::holding(path).or_fail(|| "cannot list mounts".to_owned())?;
    let Some(mount) = mount.filter(MountPoint::is_hearth) else {
        return Ok(());
    };
    let at = mount.at.display();
    let (what, end) = match job_at(&mount.at) {
        Some(job) => (
            format!("the mount of job {job} at `{at}`"),
            format!("hearth down --force --job {job}"),
        ),
        None => (
            format!("the mount at `{at}`"),
            format!("umount -f {at} (as root) takes it away"),
        ),
    };
    Err(match mount.service() {
        MountHealth::Gone => gone(&mount.at),
        MountHealth::Silent => {
            Failure::new(format!("the agent that serves {what} does not answer")).hint(end)
        }
        MountHealth::Answers if mount.at != path => {
            Failure::new(format!("it lies inside of {what}"))
                .hint("choose a directory outside of it")
        }
        MountHealth::Answers => Failure::new(format!("a store is mounted there already: {what}"))
            .hint(format!("hearth umount {at}, or choose another directory")),
    })
}

/// The job that serves a mount, if it is of this user.
fn job_at(at: &Path) -> Option<String> {
    let sets = set::all(&job::base().ok()?).ok()?;
    let serves = |set: &Set| set.file.mounts.iter().any(|mount| mount.at == at);
    Some(sets.into_iter().find(serves)?.file.job)
}

/// An ordinary user may mount only where it may write.
fn check_writable(path: PathBuf) -> Result<PathBuf, Failure> {
    if geteuid().is_root() || access(&path, Access::WRITE_OK).is_ok() {
        return Ok(path);
    }
    Err(Failure::new("you may not write there").hint("choose a directory of your own"))
}

fn directory(path: &Path) -> Result<PathBuf, Failure> {
    let canonical = path.canonicalize().map_err(|error| words(path, &error))?;
    let kind = fs::metadata(&canonical).map_err(|error| words(path, &error))?;
    if kind.is_dir() {
        Ok(canonical)
    } else {
        Err(Failure::new("it is not a directory")
            .hint("name the directory that it is in, or another"))
    }
}

fn gone(at: &Path) -> Failure {
    Failure::new("the agent that served a mount there is gone").hint(format!(
        "hearth doctor --fix, or, when no program needs it, umount -l {}",
        at.display()
    ))
}

fn words(path: &Path, error: &io::Error) -> Failure {
    if is_not_connected(error) {
        return gone(path);
    }
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new("there is no such directory").hint(format!("mkdir -p {}", path.display()))
        }
        io::ErrorKind::NotADirectory => Failure::new("a part of the path is not a directory")
            .hint(format!("namei {} shows which", path.display())),
        io::ErrorKind::PermissionDenied => {
            Failure::new("you may not enter it, or a directory above it").hint(format!(
                "namei -l {} shows which; choose a directory of your own",
                path.display()
            ))
        }
        _ => Failure::new(error.to_string()),
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
        for at in [&store, &inside, &dir, &store.join("new")] {
            let text = mount_point(at, &store).unwrap_err().to_string();
            assert!(text.contains("mount there"), "{text}");
        }
    }
}
