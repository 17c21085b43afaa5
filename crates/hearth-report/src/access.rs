//! Accesses of each thread to each file: its place in the file, and their cost by cause.

use hearth_trace::{Event, Flags, Op, TracedFileId};

use crate::mix::MixMap;
use crate::profile::{
    Alignment, CAUSES, Cause, DATA_ROWS, Order, Table, data_row, op_sort, size_sort,
};

/// Pairs of thread and file that are told apart; what comes later is only summed by thread.
const PAIRS_MAX: usize = 1 << 20;
/// Stands for the files that are not told apart.
const REST: u32 = u32::MAX;
/// A smaller write is tiny.
pub(crate) const TINY: u64 = 16 << 10;
/// Accesses begin and end at multiples of this, if they are aligned.
pub(crate) const BLOCK: u64 = 4096;
/// A sync after at most so many writes or bytes is a sync per record.
const RECORD_WRITES: u32 = 4;
const RECORD_BYTES: u64 = 1 << 20;

/// Facts about a file, known before it is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kin {
    pub(crate) system: u8,
    pub(crate) class: u16,
    /// Each block that a request touches may cost.
    pub(crate) is_remote: bool,
}

/// The accesses of a thread to a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) stream: u32,
    file: u32,
    pub(crate) system: u8,
    pub(crate) class: u16,
    is_remote: bool,
    /// Nanoseconds in all.
    pub(crate) took: u64,
    /// Nanoseconds and calls by [`Cause`].
    pub(crate) costs: [u64; CAUSES],
    pub(crate) calls: [u32; CAUSES],
    pub(crate) reads: Flow,
    pub(crate) writes: Flow,
    /// The metadata operations seen, by code.
    seen: u64,
    pub(crate) opens: u32,
    unsynced: Option<(u32, u64)>,
    pending: Option<Pending>,
    modified: Option<(u64, u64)>,
    /// The page of the last access; see `reuse`.
    pub(crate) page: u64,
}

/// One direction of a thread's accesses to a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    pub(crate) took: u64,
    /// By [`Order`].
    pub(crate) orders: [u32; 3],
    pub(crate) unaligned: u32,
    /// From the first byte to the last.
    pub(crate) span: Option<(u64, u64)>,
    next: u64,
    last: u64,
    stride: i64,
}

/// A read whose cause depends on what comes next.
#[derive(Clone, Copy, Debug)]
struct Pending {
    cause: Option<Cause>,
    offset: u64,
    bytes: u64,
    took: u64,
}

/// All of them, and what calls cost.
#[derive(Debug)]
pub(crate) struct Accesses {
    index: MixMap<u64, u32>,
    pub(crate) all: Vec<Access>,
    /// By thread the access that it used last.
    last: Vec<u32>,
    /// Costs by cause.
    pub(crate) causes: Table,
    /// Costs of all reads and writes, by [`data_row`].
    pub(crate) data: Table,
    /// Whether some files were not told apart.
    pub(crate) is_cut: bool,
}

impl Access {
    /// The file, unless it is one of those that are not told apart.
    pub(crate) fn file(&self) -> Option<TracedFileId> {
        (self.file != REST).then_some(TracedFileId(self.file))
    }

    pub(crate) fn cost(&self, cause: Cause) -> u64 {
        self.costs[cause as usize]
    }

    /// Whether the thread alone reads so much of what lies between its first and its last byte.
    pub(crate) fn reads_share(&self, share: f64) -> bool {
        let span = self.reads.span.map_or(0, |(low, high)| high - low);
        self.reads.bytes as f64 >= share * span as f64
    }

    pub(crate) fn count(&self, cause: Cause) -> u32 {
        self.calls[cause as usize]
    }

    fn charge(&mut self, table: &mut Table, cause: Cause, sort: usize, took: u64) {
        self.costs[cause as usize] += took;
        self.calls[cause as usize] += 1;
        table.at(cause as usize, self.system, sort).add(took);
    }

    fn charge_bytes(&mut self, table: &mut Table, cause: Cause, bytes: u64, took: u64) {
        let sort = size_sort(bytes);
        self.charge(table, cause, sort, took);
        table.at(cause as usize, self.system, sort).bytes += bytes;
    }

    /// Settles the last read, now that it is known what came after it.
    fn settle(&mut self, table: &mut Table) {
        let Some(read) = self.pending.take() else {
            return;
        };
        if let Some(cause) = read.cause {
            self.charge_bytes(table, cause, read.bytes, read.took);
        }
    }

    fn metadata(&mut self, table: &mut Table, event: &Event) {
        if event.op == Op::Close && self.unsynced.take().is_some() {
            // It may have written what was written before: bytes, not names.
            return;
        }
        let bit = 1u64 << (event.op as u64 & 63);
        let is_again = self.file != REST && self.seen & bit != 0;
        self.seen |= bit;
        self.opens += u32::from(event.op == Op::Open);
        let cause = if is_again {
            Cause::MetadataAgain
        } else {
            Cause::Metadata
        };
        self.charge(table, cause, op_sort(event.op), event.took);
    }

    fn sync(&mut self, table: &mut Table, event: &Event) {
        let Some((writes, bytes)) = self.unsynced.take() else {
            return;
        };
        if writes <= RECORD_WRITES && bytes <= RECORD_BYTES {
            self.charge_bytes(table, Cause::Sync, bytes, event.took);
        }
    }

    fn read(&mut self, table: &mut Table, event: &Event, order: Order, alignment: Alignment) {
        self.settle(table);
        let cause = match (order, alignment) {
            (Order::Random, _) => Some(Cause::RandomRead),
            (_, Alignment::Unaligned) if event.bytes() >= TINY => Some(Cause::Unaligned),
            (Order::Strided, _) => Some(Cause::StridedRead),
            (Order::Sequential, _) => None,
        };
        self.pending = Some(Pending {
            cause,
            offset: event.offset,
            bytes: event.bytes(),
            took: event.took,
        });
    }

    fn write(&mut self, table: &mut Table, event: &Event, order: Order, alignment: Alignment) {
        let bytes = event.bytes();
        let (writes, total) = self.unsynced.unwrap_or_default();
        self.unsynced = Some((writes.saturating_add(1), total + bytes));
        if let Some(read) = self.pending.take_if(|read| read.covers(event)) {
            let block = (read.offset, read.bytes);
            let again = self.modified.replace(block) == Some(block);
            let cause = if again {
                Cause::ModifyAgain
            } else {
                Cause::ModifyWrite
            };
            self.charge_bytes(table, Cause::ModifyRead, read.bytes, read.took);
            self.charge_bytes(table, cause, bytes, event.took);
            return;
        }
        self.settle(table);
        let cause = match (order, alignment) {
            _ if event.flags.has(Flags::SYNC) && bytes <= RECORD_BYTES => Cause::Sync,
            (Order::Random, _) => Cause::RandomWrite,
            _ if bytes < TINY => Cause::TinyWrite,
            (_, Alignment::Unaligned) => Cause::Unaligned,
            (_, Alignment::Aligned) => return,
        };
        self.charge_bytes(table, cause, bytes, event.took);
    }
}

impl Pending {
    fn covers(&self, write: &Event) -> bool {
        let end = self.offset.saturating_add(self.bytes);
        let write_end = write.offset.saturating_add(write.bytes());
        self.offset <= write.offset && write_end <= end
    }
}

impl Flow {
    fn add(&mut self, event: &Event) -> (Order, Alignment) {
        let (offset, bytes) = (event.offset, event.bytes());
        let end = offset.saturating_add(bytes);
        let stride = offset.wrapping_sub(self.last) as i64;
        let order = if self.calls == 0 || offset == self.next {
            Order::Sequential
        } else if stride > 0 && (stride == self.stride || self.calls == 1) {
            Order::Strided
        } else {
            Order::Random
        };
        let is_aligned = offset.is_multiple_of(BLOCK) && end.is_multiple_of(BLOCK);
        let alignment = if is_aligned {
            Alignment::Aligned
        } else {
            Alignment::Unaligned
        };
        self.calls += 1;
        self.bytes += bytes;
        self.took += event.took;
        let count = &mut self.orders[order as usize];
        *count = count.saturating_add(1);
        self.unaligned = self.unaligned.saturating_add(u32::from(!is_aligned));
        let (low, high) = self.span.unwrap_or((offset, end));
        self.span = Some((low.min(offset), high.max(end)));
        (self.next, self.last, self.stride) = (end, offset, stride);
        (order, alignment)
    }
}

impl Accesses {
    pub(crate) fn new(streams: usize) -> Accesses {
        Accesses {
            index: MixMap::default(),
            all: Vec::new(),
            last: vec![u32::MAX; streams],
            causes: Table::new(CAUSES),
            data: Table::new(DATA_ROWS),
            is_cut: false,
        }
    }

    /// The place in `all` for a thread and a file. `describe` says the file system and the class
    /// of a file that is new.
    pub(crate) fn find(
        &mut self,
        stream: usize,
        file: TracedFileId,
        describe: impl FnOnce() -> Kin,
    ) -> usize {
        let last = self.last[stream] as usize;
        if self
            .all
            .get(last)
            .is_some_and(|access| access.file == file.0)
        {
            return last;
        }
        let key = |file: u32| (stream as u64) << 32 | u64::from(file);
        let mut key_wanted = key(file.0);
        let mut file = file.0;
        if self.all.len() >= PAIRS_MAX && !self.index.contains_key(&key_wanted) {
            self.is_cut = true;
            (key_wanted, file) = (key(REST), REST);
        }
        let place = *self.index.entry(key_wanted).or_insert_with(|| {
            let kin = describe();
            self.all.push(Access {
                stream: stream as u32,
                file,
                system: kin.system,
                class: kin.class,
                is_remote: kin.is_remote,
                page: u64::MAX,
                ..Access::default()
            });
            self.all.len() as u32 - 1
        });
        self.last[stream] = place;
        place as usize
    }

    /// Takes one operation of a program; `place` is from [`Accesses::find`].
    pub(crate) fn add(&mut self, place: usize, event: &Event) {
        let access = &mut self.all[place];
        access.took += event.took;
        if event.op == Op::Lock {
            access.charge(&mut self.causes, Cause::Lock, 0, event.took);
        } else if event.op.is_metadata() {
            access.metadata(&mut self.causes, event);
        } else if event.failed() || access.file == REST {
        } else if event.op.is_sync() {
            access.sync(&mut self.causes, event);
        } else if event.op.is_read() || event.op.is_write() {
            self.move_bytes(place, event);
        }
    }

    fn move_bytes(&mut self, place: usize, event: &Event) {
        let access = &mut self.all[place];
        let is_write = event.op.is_write();
        let flow = if is_write {
            &mut access.writes
        } else {
            &mut access.reads
        };
        let (order, mut alignment) = flow.add(event);
        let row = data_row(is_write, order, alignment);
        let sort = size_sort(event.bytes());
        let known = self.data.at(row, access.system, sort);
        known.add(event.took);
        known.bytes += event.bytes();
        // A page cache hides the edges of blocks from whoever goes through it in order.
        let is_direct = event.flags.has(Flags::DIRECT) || event.flags.has(Flags::SYNC);
        if !access.is_remote && !is_direct {
            alignment = Alignment::Aligned;
        }
        if is_write {
            access.write(&mut self.causes, event, order, alignment);
        } else {
            access.read(&mut self.causes, event, order, alignment);
        }
    }

    /// Counts a write as contested, on top of its cause.
    pub(crate) fn contest(&mut self, place: usize, event: &Event) {
        let access = &mut self.all[place];
        access.charge_bytes(
            &mut self.causes,
            Cause::Contested,
            event.bytes(),
            event.took,
        );
    }

    /// Settles what waited for a next call.
    pub(crate) fn finish(&mut self) {
        for access in &mut self.all {
            access.settle(&mut self.causes);
        }
    }
}
