//! Traces of virtual disks, as CloudPhysics published them. Numbers are little-endian.
//!
//! | version | bytes | length at | command at | version at | sector at |
//! |---|---|---|---|---|---|
//! | 1 | 32 | 4 | 12 | 14 | 16 |
//! | 2 | 40 | 8 | 0 | 2 | 16 |
//!
//! The upper byte of the version's field is the version. Lengths are bytes, sectors have 512.

use std::io::Read;

use super::{Span, Wrong, blocks, fill};
use crate::sim::cache::trace::{Builder, Trace};
use hearth_set::size::Size;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// Commands of SCSI that read or write bytes; others are passed over.
const COMMANDS: [u16; 8] = [0x08, 0x28, 0xa8, 0x88, 0x0a, 0x2a, 0xaa, 0x8a];

/// The longest record.
const RECORD_MAX: usize = 40;

/// Length of a record, and offsets of its fields.
struct Layout {
    bytes: usize,
    len: usize,
    command: usize,
}

impl Layout {
    /// That of a trace which begins so.
    fn of(begin: &[u8]) -> Option<Layout> {
        match (begin.get(15)?, begin.get(3)?) {
            (1, _) => Some(Layout {
                bytes: 32,
                len: 4,
                command: 12,
            }),
            (_, 2) => Some(Layout {
                bytes: RECORD_MAX,
                len: 8,
                command: 0,
            }),
            _ => None,
        }
    }
}

/// Reads up to `requests` records; `begin` is what the input begins with.
pub(super) fn read(
    mut input: impl Read,
    begin: &[u8],
    block: Size,
    requests: u64,
) -> Result<Trace, Wrong> {
    let layout = Layout::of(begin)
        .ok_or_else(|| Wrong::Content("its first record has no version 1 or 2".to_owned()))?;
    let mut trace = Builder::new();
    let mut record = [0; RECORD_MAX];
    for number in 0..requests {
        let record = &mut record[..layout.bytes];
        match fill(&mut input, record)? {
            0 => break,
            len if len < record.len() => {
                let all = record.len();
                let why = format!("record {number} is cut off: {len} of {all} bytes");
                return Err(Wrong::Content(why));
            }
            _ => {}
        }
        let u16_at = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let u32_at = |at: usize| u64::from(u16_at(at)) | u64::from(u16_at(at + 2)) << 16;
        if !COMMANDS.contains(&u16_at(layout.command)) {
            trace.skipped += 1;
            continue;
        }
        let sector = u32_at(16) | u32_at(20) << 32;
        let offset = sector.saturating_mul(SECTOR);
        let len = u32_at(layout.len);
        blocks(&mut trace, "disk", Span { offset, len }, block, number)?;
    }
    Ok(trace.done())
}

#[cfg(test)]
mod tests {
    use super::super::Wrong;
    use super::*;
    use hearth_plan::{Bytes, FileIndex};

    /// Command, bytes, sector.
    type Request = (u16, u32, u64);

    fn first(&(command, len, sector): &Request) -> Vec<u8> {
        let (command, sector) = (command.to_le_bytes(), sector.to_le_bytes());
        let parts: [&[u8]; 7] = [
            &[9; 4],
            &len.to_le_bytes(),
            &[9; 4],
            &command,
            &[7, 1],
            &sector,
            &[9; 8],
        ];
        parts.concat()
    }

    fn second(&(command, len, sector): &Request) -> Vec<u8> {
        let (command, sector) = (command.to_le_bytes(), sector.to_le_bytes());
        let parts: [&[u8]; 7] = [
            &command,
            &[7, 2],
            &[9; 4],
            &len.to_le_bytes(),
            &[9; 4],
            &sector,
            &[9; 16],
        ];
        parts.concat()
    }

    const REQUESTS: [Request; 4] = [
        (0x28, 4096, 1),
        (0x2a, 512, 16),
        (0x00, 512, 0),
        (0x88, 1, 0),
    ];

    #[test]
    fn records_of_both_versions_are_read() {
        for layout in [first, second] {
            let bytes = REQUESTS.iter().flat_map(layout).collect::<Vec<u8>>();
            let trace = read(bytes.as_slice(), &bytes, Size(4096), u64::MAX);
            let trace = trace.unwrap_or_else(|_| panic!("it is a trace"));
            let queue = &trace.queue;
            // Sector 1 for 4096 bytes: blocks 0 and 1; sector 16: block 2; sector 0: block 0.
            let files: Vec<FileIndex> = (0..queue.len()).map(|at| queue.file(at)).collect();
            assert_eq!(files, [0, 1, 2, 0].map(FileIndex));
            assert_eq!((queue.size_at(0), trace.skipped), (Bytes(4096), 1));
            let cut = read(&bytes[..bytes.len() - 1], &bytes, Size(4096), u64::MAX);
            assert!(matches!(cut, Err(Wrong::Content(why)) if why.contains("record 3 is cut off")));
        }
        let none = read([0; 64].as_slice(), &[0; 64], Size(4096), u64::MAX);
        assert!(matches!(none, Err(Wrong::Content(_))));
    }
}
