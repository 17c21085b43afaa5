//! How homes ask who has a file open, and have an operation made by that node: the heads of such frames.

use crate::files::Purpose;
use crate::intro::{MADE, MAKE, OPENER, WHERE};
use hearth_net::PAYLOAD_LEN_MAX;
use hearth_proto::{FileId, Stamp, StoreOk};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Largest offset at which a payload still fits into a file.
const OFFSET_MAX: u64 = i64::MAX as u64 - PAYLOAD_LEN_MAX as u64;

/// The question who has a file open.
pub(crate) fn encode_where(file: FileId) -> Vec<u8> {
    let mut head = vec![WHERE];
    head.extend_from_slice(&file.0.to_le_bytes());
    head
}

/// Reads what follows the first byte of a question.
pub(crate) fn decode_where(bytes: &[u8]) -> Option<FileId> {
    Some(FileId(u64::from_le_bytes(bytes.try_into().ok()?)))
}

/// The descriptors that a node has of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opener {
    pub(crate) file: FileId,
    /// A descriptor that can be read.
    pub(crate) reads: bool,
    /// One that can be written.
    pub(crate) writes: bool,
    /// The path of the file, relative to the store's root, if it has a name.
    pub(crate) path: Option<PathBuf>,
}

impl Opener {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut head = vec![OPENER];
        head.extend_from_slice(&self.file.0.to_le_bytes());
        head.push(u8::from(self.reads) | u8::from(self.writes) << 1);
        let path = self.path.as_ref().map(|path| path.as_os_str().as_bytes());
        head.extend_from_slice(path.unwrap_or_default());
        head
    }

    /// Reads what follows the first byte.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Opener> {
        let (file, rest) = bytes.split_first_chunk::<8>()?;
        let (&flags, path) = rest.split_first()?;
        let named = (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)));
        (flags < 4).then_some(Opener {
            file: FileId(u64::from_le_bytes(*file)),
            reads: flags & 1 != 0,
            writes: flags & 2 != 0,
            path: named,
        })
    }
}

/// The operation that is to be made on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
    /// Take the stamp.
    Stamp,
    /// The same, after an fsync.
    Sync,
    /// Write pieces that have gaps between them.
    Pieces,
}

/// Bytes before those of each piece: its offset and length.
pub(crate) const PIECE_HEAD: usize = 12;

/// Says where the piece is whose bytes follow.
pub(crate) fn begin_piece(bytes: &mut Vec<u8>, offset: u64, len: usize) {
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
}

/// The pieces in a payload; `None` if it is torn.
pub(crate) fn pieces(mut bytes: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (piece, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        let offset = u64::from_le_bytes(*offset);
        if offset > OFFSET_MAX {
            return None;
        }
        pieces.push((offset, piece));
        bytes = rest;
    }
    Some(pieces)
}

impl Work {
    fn of(code: u8) -> Option<Work> {
        use Work::{Pieces, Read, Stamp, Sync, Write};
        let all = [Read, Write, Stamp, Sync, Pieces];
        all.into_iter().find(|work| *work as u8 == code)
    }

    pub(crate) fn purpose(self) -> Purpose {
        match self {
            Work::Read | Work::Stamp | Work::Sync => Purpose::Read,
            Work::Write | Work::Pieces => Purpose::Write,
        }
    }
}

/// An operation that another node is to make. The payload is what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Make {
    pub(crate) number: u64,
    pub(crate) file: FileId,
    pub(crate) work: Work,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Make {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut head = vec![MAKE];
        head.extend_from_slice(&self.number.to_le_bytes());
        head.extend_from_slice(&self.file.0.to_le_bytes());
        head.push(self.work as u8);
        head.extend_from_slice(&self.offset.to_le_bytes());
        head.extend_from_slice(&self.len.to_le_bytes());
        head
    }

    /// Reads what follows the first byte.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Make> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (file, rest) = rest.split_first_chunk::<8>()?;
        let (&work, rest) = rest.split_first()?;
        let (offset, len) = rest.split_first_chunk::<8>()?;
        Some(Make {
            number: u64::from_le_bytes(*number),
            file: FileId(u64::from_le_bytes(*file)),
            work: Work::of(work)?,
            offset: u64::from_le_bytes(*offset),
            len: u32::from_le_bytes(len.try_into().ok()?),
        })
    }

    /// True if its numbers stay within what the store may be asked for.
    pub(crate) fn is_sound(&self, payload: usize) -> bool {
        let len = self.len as usize;
        let fits = match self.work {
            Work::Write | Work::Pieces => len == payload,
            Work::Read => len <= PAYLOAD_LEN_MAX && payload == 0,
            Work::Stamp | Work::Sync => len == 0 && payload == 0,
        };
        fits && self.offset <= OFFSET_MAX
    }
}

/// How it went. The payload is what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) number: u64,
    pub(crate) result: Result<StoreOk, i32>,
}

impl Made {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let ok = self.result.unwrap_or_default();
        let mut head = vec![MADE];
        head.extend_from_slice(&self.number.to_le_bytes());
        head.extend_from_slice(&self.result.err().unwrap_or(0).to_le_bytes());
        head.extend_from_slice(&ok.bytes.to_le_bytes());
        head.extend_from_slice(&ok.stamp.ctime_ns.to_le_bytes());
        head.extend_from_slice(&ok.stamp.mtime_ns.to_le_bytes());
        head.extend_from_slice(&ok.stamp.size.to_le_bytes());
        head
    }

    /// Reads what follows the first byte.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Made> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (errno, rest) = rest.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (ctime_ns, rest) = rest.split_first_chunk::<8>()?;
        let (mtime_ns, size) = rest.split_first_chunk::<8>()?;
        let stamp = Stamp {
            ctime_ns: i64::from_le_bytes(*ctime_ns),
            mtime_ns: i64::from_le_bytes(*mtime_ns),
            size: u64::from_le_bytes(size.try_into().ok()?),
        };
        let ok = StoreOk {
            bytes: u32::from_le_bytes(*count),
            stamp,
        };
        Some(Made {
            number: u64::from_le_bytes(*number),
            result: match i32::from_le_bytes(*errno) {
                0 => Ok(ok),
                errno => Err(errno),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_has_survives_the_wire() {
        for path in [None, Some(PathBuf::from("a/b"))] {
            let opener = Opener {
                file: FileId(7),
                reads: true,
                writes: false,
                path,
            };
            assert_eq!(Opener::decode(&opener.encode()[1..]), Some(opener));
        }
        assert_eq!(Opener::decode(&[0; 8]), None);
    }

    #[test]
    fn an_operation_survives_the_wire() {
        for work in [
            Work::Read,
            Work::Write,
            Work::Stamp,
            Work::Sync,
            Work::Pieces,
        ] {
            let make = Make {
                number: 1,
                file: FileId(7),
                work,
                offset: 9,
                len: 3,
            };
            assert_eq!(Make::decode(&make.encode()[1..]), Some(make));
        }
        assert_eq!(Make::decode(&[0; 9]), None);
    }

    #[test]
    fn how_it_went_survives_the_wire() {
        let stamp = Stamp {
            ctime_ns: -1,
            mtime_ns: 2,
            size: 3,
        };
        for result in [Ok(StoreOk { bytes: 4, stamp }), Err(5)] {
            let made = Made { number: 6, result };
            assert_eq!(Made::decode(&made.encode()[1..]), Some(made));
        }
    }

    #[test]
    fn an_operation_beyond_its_bounds_is_refused() {
        let make = Make {
            number: 1,
            file: FileId(7),
            work: Work::Write,
            offset: 0,
            len: 3,
        };
        assert!(make.is_sound(3));
        assert!(!make.is_sound(2));
        let far = Make {
            offset: u64::MAX,
            ..make
        };
        assert!(!far.is_sound(3));
    }

    #[test]
    fn pieces_survive_the_wire() {
        let mut bytes = Vec::new();
        for (offset, piece) in [(3, b"one".as_slice()), (9, b"")] {
            begin_piece(&mut bytes, offset, piece.len());
            bytes.extend_from_slice(piece);
        }
        let read = pieces(&bytes).expect("whole");
        assert_eq!(read, [(3, b"one".as_slice()), (9, b"")]);
        assert_eq!(pieces(&bytes[..bytes.len() - 1]), None);
        begin_piece(&mut bytes, u64::MAX, 0);
        assert_eq!(pieces(&bytes), None);
    }
}
