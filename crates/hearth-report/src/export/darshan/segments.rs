//! Every read and write of a file and rank: version 1 of the records of Darshan's extended tracing.

use std::io::{self, Write};
use std::path::Path;

use hearth_trace::Event;

use super::super::sorter::{SortItem, Sorter};
use super::times::since;

const HOSTNAME_BYTES: usize = 64;

/// One access. Ordered as the records have them: by record, writes before reads, by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Segment {
    record: u32,
    is_read: bool,
    start: i64,
    end: i64,
    offset: u64,
    length: u64,
}

impl SortItem for Segment {
    const SIZE: usize = 37;

    fn put(&self, to: &mut Vec<u8>) {
        to.extend(self.record.to_le_bytes());
        to.push(u8::from(self.is_read));
        to.extend(self.start.to_le_bytes());
        to.extend(self.end.to_le_bytes());
        to.extend(self.offset.to_le_bytes());
        to.extend(self.length.to_le_bytes());
    }

    fn take(from: &[u8]) -> Segment {
        let eight = |at: usize| from[at..at + 8].try_into().expect("eight bytes");
        Segment {
            record: u32::from_le_bytes(from[..4].try_into().expect("four bytes")),
            is_read: from[4] != 0,
            start: i64::from_le_bytes(eight(5)),
            end: i64::from_le_bytes(eight(13)),
            offset: u64::from_le_bytes(eight(21)),
            length: u64::from_le_bytes(eight(29)),
        }
    }
}

/// The head of a record, which stands before its accesses.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) id: u64,
    pub(super) rank: i64,
    pub(super) host: String,
    pub(super) writes: u64,
    pub(super) reads: u64,
}

/// All accesses, gathered in any order.
pub(super) struct Segments {
    sorter: Sorter<Segment>,
}

impl Segments {
    pub(super) fn new(dir: &Path) -> io::Result<Segments> {
        Ok(Segments {
            sorter: Sorter::new(dir)?,
        })
    }

    pub(super) fn push(&mut self, record: u32, event: &Event) -> io::Result<()> {
        self.sorter.push(Segment {
            record,
            is_read: event.op.is_read(),
            start: event.start,
            end: event.end(),
            offset: event.offset,
            length: event.bytes(),
        })
    }

    /// Writes the records; `heads` are numbered as they were at [`push`](Self::push).
    pub(super) fn put(self, heads: &[Head], begin: i64, out: &mut impl Write) -> io::Result<()> {
        let mut last = None;
        self.sorter.sorted(|segment| {
            if last != Some(segment.record) {
                last = Some(segment.record);
                put_head(&heads[segment.record as usize], out)?;
            }
            out.write_all(&segment.offset.to_le_bytes())?;
            out.write_all(&segment.length.to_le_bytes())?;
            out.write_all(&since(begin, segment.start).to_le_bytes())?;
            out.write_all(&since(begin, segment.end).to_le_bytes())
        })
    }
}

fn put_head(head: &Head, out: &mut impl Write) -> io::Result<()> {
    let mut host = [0; HOSTNAME_BYTES];
    let name = head.host.as_bytes();
    let length = name.len().min(HOSTNAME_BYTES - 1);
    host[..length].copy_from_slice(&name[..length]);
    out.write_all(&head.id.to_le_bytes())?;
    out.write_all(&head.rank.to_le_bytes())?;
    // Each rank has a record of its own.
    out.write_all(&0_i64.to_le_bytes())?;
    out.write_all(&host)?;
    out.write_all(&head.writes.to_le_bytes())?;
    out.write_all(&head.reads.to_le_bytes())
}
