//! What a trace's reads and writes would be to a pool of another size, or under another policy: the
//! simulator does them page by page.
//!
//! Each host of the trace is a node. A node does one page after another, in the order in which its
//! calls began, and never waits between: what is counted are messages and store requests, not time
//! that programs think. Pages are read and written whole.

use std::collections::HashMap;

use hearth_sim::scale::Access;
use hearth_trace::{Event, FileId, Layer, Source, StreamId};

/// Pages that are read or written, at most: beyond, memory would grow with the trace.
const ACCESSES_MAX: usize = 1 << 23;

/// What each node does.
pub(crate) struct Lists {
    pub(crate) lists: Vec<Vec<Access>>,
    /// Different pages.
    pub(crate) pages: usize,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListsError<E: std::error::Error + 'static> {
    /// The trace cannot be read on.
    #[error("cannot read the trace on")]
    Read(#[source] E),
    /// It is longer than can be held.
    #[error("it reads and writes more than {ACCESSES_MAX} pages; a larger --page-size makes fewer")]
    Long,
}

/// What is gathered while a trace is read.
struct Gathering {
    page_bytes: u64,
    /// Number of each page that was met.
    numbers: HashMap<(FileId, u64), u32>,
    /// By node, with the time of its call.
    lists: Vec<Vec<(i64, Access)>>,
    count: usize,
}

impl Lists {
    /// The pages that a trace's programs read and wrote.
    pub(crate) fn of<S: Source>(
        source: &mut S,
        page_bytes: u64,
    ) -> Result<Lists, ListsError<S::Error>>
    where
        S::Error: std::error::Error + 'static,
    {
        let tables = source.tables();
        let streams = (0..tables.streams.len() as u32).map(StreamId);
        let nodes: Vec<usize> = streams
            .map(|stream| tables.process_of(stream).host.0 as usize)
            .collect();
        let mut gathering = Gathering {
            page_bytes,
            numbers: HashMap::new(),
            lists: vec![Vec::new(); tables.hosts.len()],
            count: 0,
        };
        let mut take = |stream: StreamId, events: &[Event]| {
            let node = nodes[stream.0 as usize];
            events.iter().for_each(|event| gathering.add(node, event));
        };
        source.each_run(&mut take).map_err(ListsError::Read)?;
        if gathering.count > ACCESSES_MAX {
            return Err(ListsError::Long);
        }
        let lists = gathering.lists.into_iter().map(|mut list| {
            list.sort_by_key(|(start, _)| *start);
            list.into_iter().map(|(_, access)| access).collect()
        });
        Ok(Lists {
            lists: lists.collect(),
            pages: gathering.numbers.len(),
        })
    }
}

impl Gathering {
    fn add(&mut self, node: usize, event: &Event) {
        let write = event.op.is_write();
        let (Some(file), Layer::App, 1..) = (event.file, event.layer, event.bytes()) else {
            return;
        };
        let first = event.offset / self.page_bytes;
        let last = event.offset.saturating_add(event.bytes() - 1) / self.page_bytes;
        for page in first..=last {
            self.count += 1;
            if self.count > ACCESSES_MAX {
                return;
            }
            let next = self.numbers.len() as u32;
            let page = *self.numbers.entry((file, page)).or_insert(next);
            self.lists[node].push((event.start, Access { page, write }));
        }
    }
}
