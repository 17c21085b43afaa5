//! Changes in a store that a file's stamps show.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Makes a change until the file's status has another time than before: file systems count time in ticks, and
/// two changes within one look like one.
pub(crate) fn until_it_shows(file: &Path, change: impl Fn()) {
    let stamp = || {
        let meta = fs::metadata(file).expect("it is there");
        (meta.ctime(), meta.ctime_nsec())
    };
    let before = stamp();
    while stamp() == before {
        change();
    }
}
