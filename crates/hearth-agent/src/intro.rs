//! Introductions: before a node first asks a home about a file, it says where the file is.
//!
//! Files are named by number; a home needs a path to open one. The path is read off a descriptor
//! that is open here, so it is true even after a rename. An introduction goes ahead of the request
//! on the same connection and is not answered. A home that has lost the place asks who has the file open
//! ([`crate::openers`]).

use hearth_proto::FileId;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// First byte of a head that carries a message of the kernel.
pub(crate) const MESSAGE: u8 = 0;
/// First byte of a head that carries an introduction.
pub(crate) const INTRODUCTION: u8 = 1;
/// First byte of a head that asks who has a file open.
pub(crate) const WHERE: u8 = 2;
/// First byte of a head that asks what a node holds.
pub(crate) const ASK_HELD: u8 = 3;
/// First byte of a head that tells a part of it, or of what [`ASK_FLUSHED`] asks for.
pub(crate) const HELD: u8 = 4;
/// First byte of a head that says what a node has of a file.
pub(crate) const OPENER: u8 = 5;
/// First byte of a head that has a node make a store operation.
pub(crate) const MAKE: u8 = 6;
/// First byte of a head that says how that went.
pub(crate) const MADE: u8 = 7;
/// First byte of a head that has a node flush, and asks what is left.
pub(crate) const ASK_FLUSHED: u8 = 8;

/// First byte of a head that carries a question of the log of views.
pub(crate) const VIEW_ASK: u8 = 9;
/// First byte of a head that carries its answer.
pub(crate) const VIEW_ANSWER: u8 = 10;
/// First byte of a head that says that a node is taken down in order.
pub(crate) const LEAVES: u8 = 12;
/// First byte of a head that says which view is the newest; without a payload if the log has not begun.
pub(crate) const VIEW_NEWEST: u8 = 11;

/// The path of a file, relative to the store's root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    pub(crate) file: FileId,
    pub(crate) path: PathBuf,
}

impl Introduction {
    pub(crate) fn encode(file: FileId, path: &Path) -> Vec<u8> {
        let mut head = vec![INTRODUCTION];
        head.extend_from_slice(&file.0.to_le_bytes());
        head.extend_from_slice(path.as_os_str().as_bytes());
        head
    }

    /// Reads what follows the first byte.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Introduction> {
        let (file, path) = bytes.split_first_chunk::<8>()?;
        let path = PathBuf::from(OsStr::from_bytes(path));
        path.is_relative().then_some(Introduction {
            file: FileId(u64::from_le_bytes(*file)),
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_survives_the_wire() {
        let head = Introduction::encode(FileId(7), Path::new("a/b"));
        assert_eq!(head[0], INTRODUCTION);
        let read = Introduction::decode(&head[1..]).expect("whole");
        assert_eq!(
            read,
            Introduction {
                file: FileId(7),
                path: PathBuf::from("a/b")
            }
        );
        assert_eq!(Introduction::decode(&[1, 2]), None);
    }
}
