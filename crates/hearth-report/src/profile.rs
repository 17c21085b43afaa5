//! The cost of each sort of call in this very trace: the measure of every prediction.

use hearth_trace::{Op, TracedFile};

use crate::latency::Latency;

/// File systems told apart; further ones share the last place.
pub(crate) const SYSTEMS_MAX: usize = 8;
/// Sizes by power of two, or metadata operations by code.
const SORTS: usize = 64;

/// How an access lies to the one before it by the same thread in the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It begins where the other ended.
    Sequential,
    /// As far on as the one before.
    Strided,
    /// Neither.
    Random,
}

/// Why time might be saved. A call counts for one cause at most, but for contested writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A small write that continues the one before.
    TinyWrite,
    /// An access in order that begins or ends inside of a block.
    Unaligned,
    /// A read in no order.
    RandomRead,
    /// A write in no order.
    RandomWrite,
    /// A read that skips bytes, always as many.
    StridedRead,
    /// A read of what the next call of the thread writes.
    ModifyRead,
    /// A write of what the thread wrote the time before in the same way.
    ModifyAgain,
    /// A write of what was read just before, for the first time.
    ModifyWrite,
    /// A sync of a few small writes, or such a write to a descriptor that is always in sync.
    Sync,
    /// A lock.
    Lock,
    /// A write to a place that another process writes to as well.
    Contested,
    /// A metadata call that the thread has not made on that file.
    Metadata,
    /// One that it has made before.
    MetadataAgain,
}

pub(crate) const CAUSES: usize = 13;

/// Costs of calls by cause, file system, and size or operation.
#[derive(Debug)]
pub(crate) struct Table {
    cells: Vec<Option<Box<Latency>>>,
}

impl Table {
    pub(crate) fn new(sorts: usize) -> Table {
        let mut cells = Vec::new();
        cells.resize_with(sorts * SYSTEMS_MAX * SORTS, || None);
        Table { cells }
    }

    pub(crate) fn at(&mut self, row: usize, system: u8, sort: usize) -> &mut Latency {
        let index = (row * SYSTEMS_MAX + usize::from(system)) * SORTS + sort.min(SORTS - 1);
        self.cells[index].get_or_insert_default()
    }

    pub(crate) fn get(&self, row: usize, system: u8, sort: usize) -> Option<&Latency> {
        let index = (row * SYSTEMS_MAX + usize::from(system)) * SORTS + sort.min(SORTS - 1);
        self.cells[index].as_deref()
    }

    /// The cells of one row and file system that hold anything, with their sorts.
    pub(crate) fn row(&self, row: usize, system: u8) -> impl Iterator<Item = (usize, &Latency)> {
        let from = (row * SYSTEMS_MAX + usize::from(system)) * SORTS;
        let cells = self.cells[from..from + SORTS].iter().enumerate();
        cells.filter_map(|(sort, cell)| Some((sort, cell.as_deref()?)))
    }
}

/// The sort of a call that moves so many bytes.
pub(crate) fn size_sort(bytes: u64) -> usize {
    bytes.max(1).ilog2() as usize
}

/// A size in the middle of its sort.
pub(crate) fn sort_size(sort: usize) -> f64 {
    f64::powi(2.0, sort as i32) * std::f64::consts::SQRT_2
}

/// Rows of the table of all reads and writes.
pub(crate) fn data_row(is_write: bool, order: Order, alignment: Alignment) -> usize {
    usize::from(is_write) * 6 + order as usize * 2 + alignment as usize
}

pub(crate) const DATA_ROWS: usize = 12;

/// Whether an access begins and ends at the edges of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alignment {
    Aligned,
    Unaligned,
}

/// Which of a few file systems each file is on.
#[derive(Debug, Default)]
pub(crate) struct Systems {
    pub(crate) names: Vec<String>,
}

/// File systems whose requests leave the machine's kernel.
const REMOTE: &[&str] = &[
    "fuse", "nfs", "lustre", "gpfs", "beegfs", "ceph", "pvfs", "orangefs", "gluster", "cifs",
    "smb", "9p", "afs", "wekafs", "panfs",
];

impl Systems {
    pub(crate) fn of(&mut self, file: &TracedFile) -> u8 {
        let known = self.names.iter().position(|name| *name == file.fs);
        let place = known.unwrap_or_else(|| {
            if self.names.len() < SYSTEMS_MAX {
                self.names.push(file.fs.clone());
            }
            self.names.len() - 1
        });
        place as u8
    }

    /// Whether somebody else than the kernel of this machine answers, so that each block that a
    /// request touches may cost.
    pub(crate) fn is_remote(&self, system: u8) -> bool {
        let name = self
            .names
            .get(usize::from(system))
            .map_or("", String::as_str);
        REMOTE.iter().any(|remote| name.starts_with(remote))
    }
}

/// The sort of a metadata call.
pub(crate) fn op_sort(op: Op) -> usize {
    op as usize
}
