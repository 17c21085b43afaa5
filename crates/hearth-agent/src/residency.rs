//! Which bytes of which files are at this node, in its memory and its tier.

mod asking;
pub(crate) mod told;

pub use asking::NotTold;

pub(crate) use asking::Asking;

use crate::core::Core;
use hearth_proto::FileId;
use rustix::fs::{AtFlags, statat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Files that are named, those with the most bytes first: the answer has to stay a line of a few MiB,
/// and the store is asked about each.
const FILES_MAX: usize = 4096;
/// Bytes of all names together, for the same reason.
const NAMES_BYTES_MAX: usize = 1 << 20;

/// The bytes of files that are at a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// The node, as the scheduler calls it, or else the host.
    pub node: String,
    /// The path of its mount, if it is in the common tree.
    pub mount: Option<String>,
    /// Bytes that its pool and its tier hold at most.
    pub memory: u64,
    /// Files of which some bytes are here, those with the most first.
    pub files: Vec<Resident>,
    /// Bytes here of files that are not named: nobody knows where they are, or there were too many.
    pub unnamed: u64,
}

/// The part of a file that is here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// The path of the file, relative to the store's root.
    pub path: String,
    /// Its bytes, as far as the store and this node know.
    pub size: u64,
    /// How many of them are here.
    pub held: u64,
}

/// The offsets at which runs of bytes begin and end in one file.
type Spans = Vec<(u64, u64)>;

impl Core {
    pub(crate) fn residency(&self) -> Residency {
        let tier = self.tier.as_ref();
        let limit = tier.map_or(0, |tier| tier.status().limit_bytes);
        let mut spans: BTreeMap<FileId, Spans> = BTreeMap::new();
        for (number, start, end) in tier.map(|tier| tier.held()).unwrap_or_default() {
            spans.entry(FileId(number)).or_default().push((start, end));
        }
        let state = self.lock();
        let page_bytes = u64::from(state.node().config().page_bytes);
        for (file, page, bytes) in state.node().held().filter(|(.., bytes)| *bytes > 0) {
            let start = page * page_bytes;
            let span = (start, start + u64::from(bytes));
            spans.entry(file).or_default().push(span);
        }
        let pool = state.node().config().pool_bytes();
        let residency = Residency {
            node: state.called.clone(),
            mount: state.mounted.clone(),
            memory: pool + limit,
            ..Residency::default()
        };
        let mut found: Vec<Found> = spans.into_iter().map(Found::new).collect();
        found.sort_by_key(|found| std::cmp::Reverse(found.held));
        for found in found.iter_mut().take(FILES_MAX) {
            found.path = state.files.whereabouts(found.file);
        }
        drop(state);
        self.name(residency, &found)
    }

    /// Looks in the store, without the lock, whether files are where they were last known to be.
    fn name(&self, mut residency: Residency, found: &[Found]) -> Residency {
        let mut names_bytes = 0;
        for found in found {
            let named = self.resident(found);
            let named = named.filter(|named| names_bytes + named.path.len() <= NAMES_BYTES_MAX);
            match named {
                Some(named) => {
                    names_bytes += named.path.len();
                    residency.files.push(named);
                }
                None => residency.unnamed += found.held,
            }
        }
        residency
    }

    fn resident(&self, found: &Found) -> Option<Resident> {
        let path = found.path.as_ref()?;
        let stat = statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_it = stat.st_ino == found.file.0;
        is_it.then_some(())?;
        let size = found.end.max(u64::try_from(stat.st_size).unwrap_or(0));
        Some(Resident {
            path: path.to_str()?.to_owned(),
            size,
            held: found.held,
        })
    }
}

/// A file of which something is here.
struct Found {
    file: FileId,
    held: u64,
    end: u64,
    path: Option<PathBuf>,
}

impl Found {
    fn new((file, mut spans): (FileId, Spans)) -> Found {
        let (held, end) = union(&mut spans);
        Found {
            file,
            held,
            end,
            path: None,
        }
    }
}

/// Bytes in any of these runs, and where the last one ends.
fn union(spans: &mut [(u64, u64)]) -> (u64, u64) {
    spans.sort_unstable();
    let count = |(held, reached): (u64, u64), &(start, end): &(u64, u64)| {
        let new = end.saturating_sub(start.max(reached));
        (held + new, reached.max(end))
    };
    spans.iter().fold((0, 0), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_memory_and_in_the_tier_count_once() {
        assert_eq!(union(&mut [(10, 20), (0, 5), (15, 30), (16, 18)]), (25, 30));
        assert_eq!(union(&mut []), (0, 0));
    }
}
