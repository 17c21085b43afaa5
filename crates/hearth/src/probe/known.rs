//! Judges a store by the type of its file system, before anything is measured.
//!
//! Files are known by their inode numbers. A file system that makes numbers up as it goes gives one
//! file several, or one number to several files, and a cache would mix their bytes.

use std::path::Path;

use hearth_set::failure::Failure;
use hearth_set::mountinfo;

/// How much of Hearth a store breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Every set.
    Always,
    /// Sets with agents on several hosts.
    SeveralHosts,
}

/// Types that are known to break sets, and why.
const KNOWN: &[(&str, Broken, &str)] = &[
    ("vfat", Broken::Always, MADE_UP),
    ("msdos", Broken::Always, MADE_UP),
    ("exfat", Broken::Always, MADE_UP),
    ("proc", Broken::Always, NO_FILES),
    ("sysfs", Broken::Always, NO_FILES),
    ("cgroup2", Broken::Always, NO_FILES),
    ("debugfs", Broken::Always, NO_FILES),
    ("tracefs", Broken::Always, NO_FILES),
    ("fuse.sshfs", Broken::SeveralHosts, OWN_NUMBERS),
    ("fuse.s3fs", Broken::SeveralHosts, OWN_NUMBERS),
    ("fuse.rclone", Broken::SeveralHosts, OWN_NUMBERS),
    ("fuse.gcsfuse", Broken::SeveralHosts, OWN_NUMBERS),
];

const MADE_UP: &str = "it gives a file another inode number each time that it is loaded anew";
const NO_FILES: &str = "its files are not kept anywhere: each read makes their bytes";
const OWN_NUMBERS: &str = "each of its mounts gives files inode numbers of its own";

/// Fails if agents over this directory, on several hosts or one, would mix files.
///
/// Asks the table of mounts alone, so it costs a start less than a millisecond.
pub(crate) fn check(store: &Path, is_on_several_hosts: bool) -> Result<(), Failure> {
    // A set whose file system cannot be known starts, as it would without this check.
    let Ok(Some(mount)) = mountinfo::holding(store) else {
        return Ok(());
    };
    match refusal(&mount.kind, is_on_several_hosts) {
        None => Ok(()),
        Some(why) => {
            let what = format!("cannot use `{}` as a store", store.display());
            let failure = Failure::new(what).cause(format!("it is of type {}: {why}", mount.kind));
            Err(failure.hint("hearth doctor --store DIR says what a store must do"))
        }
    }
}

fn refusal(kind: &str, is_on_several_hosts: bool) -> Option<&'static str> {
    let (_, broken, why) = KNOWN.iter().find(|(known, ..)| *known == kind)?;
    match broken {
        Broken::Always => Some(why),
        Broken::SeveralHosts => is_on_several_hosts.then_some(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_mix_files_are_refused() {
        assert!(refusal("vfat", false).is_some());
        assert!(refusal("fuse.sshfs", true).is_some());
        assert_eq!(refusal("fuse.sshfs", false), None);
        assert_eq!(refusal("fuse.glusterfs", true), None);
    }

    #[test]
    fn a_store_without_files_is_refused_by_name() {
        let text = check(Path::new("/proc"), false).unwrap_err().to_string();
        assert!(text.contains("it is of type proc"), "{text}");
    }
}
