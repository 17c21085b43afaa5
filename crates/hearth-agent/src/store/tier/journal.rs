//! The memory of a tier: records that are only ever appended, each with a checksum.
//!
//! A record is its length, a CRC-32C and one fact:
//!
//! | bytes | what |
//! |---|---|
//! | 0-3 | length of what follows the checksum |
//! | 4-7 | CRC-32C of that |
//! | 8   | kind |
//! | 9-  | numbers, little endian, as the kind has them |
//!
//! Reading ends at the first record that is short or whose checksum is wrong: that is where the agent
//! died. J1: a record is appended after the bytes that it speaks of are in their place. J2: nothing stands behind the last
//! record when one is appended: what a write that failed half way has left would hide all that comes later.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hearth_client::FileStamp;
use hearth_proto::ranges::Ranges;

use super::block::{BLOCK, Block, Place, Stand};

/// Bytes of records after which the tier is emptied, and the journal with it.
pub(super) const JOURNAL_MAX: u64 = 64 << 20;

/// Longest path and longest list of ranges fit.
const RECORD_MAX: usize = 1 << 20;

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A file of this number, and where it is in the store.
    File { ino: u64, path: PathBuf },
    /// A block as it is now.
    Block { ino: u64, number: u64, block: Block },
    /// Blocks from `first`, `count` of them, stand so now.
    Stands {
        ino: u64,
        first: u64,
        count: u64,
        stand: Stand,
    },
    /// Bytes of the file are about to go to the store.
    Opens { ino: u64 },
    /// They have; this is what the store says of the file.
    Closes {
        ino: u64,
        stamp: FileStamp,
        /// Any write since then has left another modification time.
        is_sure: bool,
    },
    /// Nothing of the file is here any more.
    Drops { ino: u64 },
    /// A block is not here any more.
    DropsOne { ino: u64, number: u64 },
}

/// The file.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// How long it is, up to the last record.
    bytes: u64,
    /// A write has failed, and what it left may be there still.
    torn: bool,
}

impl Journal {
    /// Reads what is there, and goes on behind it.
    pub(super) fn open(path: &Path) -> io::Result<(Journal, Vec<Record>)> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut records = Vec::new();
        let mut at = 0;
        while let Some((record, len)) = decode(&bytes[at..]) {
            records.push(record);
            at += len;
        }
        let mut journal = Journal {
            file,
            bytes: at as u64,
            torn: true,
        };
        journal.trim()?;
        Ok((journal, records))
    }

    /// Appends records with one write: all of them, or none if it fails.
    pub(super) fn append(&mut self, records: &[Record]) -> io::Result<()> {
        self.trim()?;
        let mut bytes = Vec::new();
        for record in records {
            encode(record, &mut bytes);
        }
        if let Err(error) = self.file.write_all_at(&bytes, self.bytes) {
            self.torn = true;
            // If that fails too, the next record finds it so.
            let _ = self.trim();
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Cuts off all bytes behind the last record (J2).
    fn trim(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.bytes)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Makes all records durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// How long it is.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Nothing is kept any more, so nothing has to be remembered.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        (self.bytes, self.torn) = (0, true);
        self.trim()
    }
}

fn encode(record: &Record, out: &mut Vec<u8>) {
    let mut body = Vec::with_capacity(48);
    match record {
        Record::File { ino, path } => {
            put(&mut body, 1, &[*ino]);
            body.extend(path.as_os_str().as_bytes());
        }
        Record::Block { ino, number, block } => {
            let kind = [place_code(block.place), stand_code(block.stand)];
            put(&mut body, 2, &[*ino, *number, u64::from(block.crc)]);
            body.extend(kind);
            for (start, end) in block.valid.iter() {
                body.extend(start.to_le_bytes());
                body.extend(end.to_le_bytes());
            }
        }
        Record::Stands {
            ino,
            first,
            count,
            stand,
        } => {
            put(&mut body, 3, &[*ino, *first, *count]);
            body.push(stand_code(*stand));
        }
        Record::Opens { ino } => put(&mut body, 4, &[*ino]),
        Record::Closes {
            ino,
            stamp,
            is_sure,
        } => {
            let (ctime, mtime) = (
                stamp.ctime_ns.cast_unsigned(),
                stamp.mtime_ns.cast_unsigned(),
            );
            let sure = u64::from(*is_sure);
            put(&mut body, 5, &[*ino, ctime, mtime, stamp.size, sure]);
        }
        Record::Drops { ino } => put(&mut body, 6, &[*ino]),
        Record::DropsOne { ino, number } => put(&mut body, 7, &[*ino, *number]),
    }
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(crc32c::crc32c(&body).to_le_bytes());
    out.extend(body);
}

fn put(body: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    body.push(kind);
    for number in numbers {
        body.extend(number.to_le_bytes());
    }
}

/// A record and its length, if there is a whole one.
fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    if len > RECORD_MAX {
        return None;
    }
    let body = bytes.get(8..8 + len)?;
    if crc32c::crc32c(body) != crc {
        return None;
    }
    let number = |at: usize| -> Option<u64> {
        let at = 1 + 8 * at;
        Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?))
    };
    let ino = number(0)?;
    let record = match body.first()? {
        1 => Record::File {
            ino,
            path: PathBuf::from(OsStr::from_bytes(&body[9..])),
        },
        2 => Record::Block {
            ino,
            number: number(1)?,
            block: decode_block(u32::try_from(number(2)?).ok()?, body.get(25..)?)?,
        },
        3 => Record::Stands {
            ino,
            first: number(1)?,
            count: number(2)?,
            stand: stand_of(*body.get(25)?)?,
        },
        4 => Record::Opens { ino },
        5 => Record::Closes {
            ino,
            stamp: FileStamp {
                ctime_ns: number(1)?.cast_signed(),
                mtime_ns: number(2)?.cast_signed(),
                size: number(3)?,
            },
            // Earlier builds did not say, and took every one for sure.
            is_sure: number(4).is_none_or(|sure| sure == 1),
        },
        6 => Record::Drops { ino },
        7 => Record::DropsOne {
            ino,
            number: number(1)?,
        },
        _ => return None,
    };
    Some((record, 8 + len))
}

fn decode_block(crc: u32, rest: &[u8]) -> Option<Block> {
    let (kind, ranges) = rest.split_at_checked(2)?;
    let mut valid = Ranges::default();
    for pair in ranges.chunks_exact(8) {
        let start = u32::from_le_bytes(pair[..4].try_into().ok()?);
        let end = u32::from_le_bytes(pair[4..].try_into().ok()?);
        if start >= end || end as usize > BLOCK {
            return None;
        }
        valid.insert(start, end);
    }
    Some(Block {
        place: match kind[0] {
            0 => Place::Main,
            1 => Place::Other,
            _ => return None,
        },
        stand: stand_of(kind[1])?,
        valid,
        crc,
    })
}

fn place_code(place: Place) -> u8 {
    match place {
        Place::Main => 0,
        Place::Other => 1,
    }
}

fn stand_code(stand: Stand) -> u8 {
    match stand {
        Stand::Dirty => 0,
        Stand::Written => 1,
        Stand::Clean => 2,
        Stand::Lost => 3,
    }
}

fn stand_of(code: u8) -> Option<Stand> {
    [Stand::Dirty, Stand::Written, Stand::Clean, Stand::Lost]
        .get(usize::from(code))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::TinyFs;

    fn records() -> Vec<Record> {
        let mut valid = Ranges::default();
        valid.insert(3, 9);
        valid.insert(100, BLOCK as u32);
        let block = Block {
            place: Place::Other,
            stand: Stand::Dirty,
            valid,
            crc: 0xDEAD_BEEF,
        };
        let stamp = FileStamp {
            ctime_ns: -1,
            mtime_ns: 5,
            size: 9,
        };
        vec![
            Record::File {
                ino: 7,
                path: PathBuf::from("a/b c"),
            },
            Record::Block {
                ino: 7,
                number: 2,
                block,
            },
            Record::Opens { ino: 7 },
            Record::Stands {
                ino: 7,
                first: 2,
                count: 1,
                stand: Stand::Clean,
            },
            Record::Closes {
                ino: 7,
                stamp,
                is_sure: true,
            },
            Record::DropsOne { ino: 7, number: 2 },
            Record::Drops { ino: 7 },
        ]
    }

    #[test]
    fn what_was_appended_is_read_back_up_to_where_the_agent_died() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, found) = Journal::open(&path).unwrap();
        assert_eq!(found, []);
        journal.append(&records()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(journal.bytes(), whole.len() as u64);
        let (_, found) = Journal::open(&path).unwrap();
        assert_eq!(found, records());
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (journal, found) = Journal::open(&path).unwrap();
            assert!(found.len() < records().len());
            assert_eq!(found, records()[..found.len()]);
            assert!(journal.bytes() <= cut as u64);
        }
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0x10;
            std::fs::write(&path, broken).unwrap();
            let (_, found) = Journal::open(&path).unwrap();
            assert_eq!(found, records()[..found.len()], "byte {at}");
            assert!(found.len() < records().len(), "byte {at}");
        }
    }

    #[test]
    fn a_stamp_of_an_earlier_build_is_read() {
        let stamp = FileStamp {
            ctime_ns: 4,
            mtime_ns: 5,
            size: 9,
        };
        let mut body = Vec::new();
        put(&mut body, 5, &[7, 4, 5, 9]);
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend(crc32c::crc32c(&body).to_le_bytes());
        bytes.extend(&body);
        let closes = Record::Closes {
            ino: 7,
            stamp,
            is_sure: true,
        };
        assert_eq!(decode(&bytes), Some((closes, bytes.len())));
    }

    #[test]
    fn an_append_that_found_no_room_hides_nothing_and_is_not_read_back() {
        let disk = match TinyFs::new("12k") {
            Ok(disk) => disk,
            Err(missing) => return eprintln!("skipped: {missing}"),
        };
        let long = |ino| Record::File {
            ino,
            path: PathBuf::from("x".repeat(5000)),
        };
        let path = disk.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.append(&[long(1)]).unwrap();
        let filler = disk.path().join("filler");
        std::fs::write(&filler, [0; 4096]).unwrap();
        // The first record fits, so that it is there whole.
        let refused = journal.append(&[Record::Drops { ino: 2 }, long(2)]);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
        std::fs::remove_file(&filler).unwrap();
        journal.append(&[Record::Drops { ino: 3 }]).unwrap();
        journal.append(&[Record::Drops { ino: 4 }]).unwrap();
        let (_, found) = Journal::open(&path).unwrap();
        let later = [3, 4].map(|ino| Record::Drops { ino });
        assert_eq!(found[0], long(1));
        assert_eq!(found[1..], later);
    }
}
