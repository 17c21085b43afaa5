//! The files of a replay, below one directory.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::plan::Before;

/// The place of a traced path in a replay. Nothing leads out of the directory.
pub(crate) fn place(root: &Path, traced: &str) -> PathBuf {
    let mut place = root.to_owned();
    for part in Path::new(traced).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::ParentDir => place.push("dot-dot"),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    place
}

/// The files that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Makes every file and directory that must be there before, sparse. Directories that files are to
/// be created in are made too, unless the trace makes them.
pub(crate) fn make(places: &[PathBuf], files: &[Before]) -> Result<Made, (PathBuf, io::Error)> {
    let known = || places.iter().map(PathBuf::as_path).zip(files);
    let made_later: HashSet<&Path> = known()
        .filter(|(_, before)| before.is_directory && before.there == Some(false))
        .map(|(place, _)| place)
        .collect();
    // A path that something succeeded below is a directory, whatever was asked of itself.
    let mut directories: HashSet<&Path> = HashSet::new();
    for (place, _) in known().filter(|(_, before)| before.succeeded) {
        directories.extend(place.ancestors().skip(1));
    }
    let mut made = Made::default();
    for (place, before) in known().filter(|(_, before)| before.succeeded) {
        let failed = |error| (place.to_owned(), error);
        if place.ancestors().any(|above| made_later.contains(above)) {
            continue;
        }
        let is_directory = before.is_directory || directories.contains(place);
        if is_directory && before.there != Some(false) {
            fs::create_dir_all(place).map_err(failed)?;
            continue;
        }
        fs::create_dir_all(place.parent().unwrap_or(place)).map_err(failed)?;
        if before.there == Some(true) {
            let file = fs::File::create(place).map_err(failed)?;
            file.set_len(before.bytes).map_err(failed)?;
            made.files += 1;
            made.bytes += before.bytes;
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_directory() {
        let at = |traced| place(Path::new("/copy"), traced);
        assert_eq!(at("/data/in"), Path::new("/copy/data/in"));
        assert_eq!(at("../../etc/x"), Path::new("/copy/dot-dot/dot-dot/etc/x"));
        assert_eq!(at(""), Path::new("/copy"));
    }

    fn before(there: Option<bool>, is_directory: bool, bytes: u64) -> Before {
        Before {
            there,
            is_directory,
            bytes,
            succeeded: true,
            ..Before::default()
        }
    }

    #[test]
    fn only_what_was_there_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let places = ["/d", "/d/in", "/new/out", "/later", "/later/x", "/gone"];
        let places = places.map(|traced| place(root, traced));
        let files = [
            // Somebody asked for its attributes only; what is in it tells that it is a directory.
            before(Some(true), false, 0),
            before(Some(true), false, 5 << 30),
            before(None, false, 0),
            before(Some(false), true, 0),
            before(None, false, 0),
            Before::default(),
        ];
        let made = make(&places, &files).unwrap();
        assert_eq!(made.files, 1);
        assert_eq!(made.bytes, 5 << 30);
        assert_eq!(fs::metadata(&places[1]).unwrap().len(), 5 << 30);
        assert!(root.join("new").is_dir() && !places[2].exists());
        assert!(!places[3].exists() && !places[5].exists());
    }
}
