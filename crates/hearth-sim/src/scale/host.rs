//! One node of a large world: a kernel, versions in place of bytes, and one session.

use super::PageAccess;
use crate::rng::Rng;
use hearth_proto::{Buf, Handle, Node, Piece, Src};

/// The content of a buffer, in place of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A version of a page.
    Version(u32),
    /// The bytes that a node writes, until its home has given them a version.
    Written { by: u32 },
}

/// The operation that a session waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doing {
    /// Page, counted through all files.
    pub(super) page: usize,
    pub(super) write: bool,
    /// Latest version that was complete when it began.
    pub(super) floor: u32,
}

/// The operations of a node's session, one after another.
pub(super) enum List {
    /// So many at random pages of so many, and writes in a hundred.
    Drawn {
        rng: Rng,
        left: u64,
        pages: u32,
        write_percent: u32,
    },
    Given(std::vec::IntoIter<PageAccess>),
}

impl List {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            List::Given(rest) => rest.len() == 0,
            List::Drawn { left, .. } => *left == 0,
        }
    }

    pub(super) fn next(&mut self) -> Option<PageAccess> {
        match self {
            List::Given(rest) => rest.next(),
            List::Drawn { left: 0, .. } => None,
            List::Drawn {
                rng,
                left,
                pages,
                write_percent,
            } => {
                *left -= 1;
                let page = rng.below(u64::from(*pages)) as u32;
                let write = rng.chance(u64::from(*write_percent));
                Some(PageAccess { page, write })
            }
        }
    }
}

pub(super) struct Host {
    pub(super) node: Node,
    pub(super) frames: Vec<u32>,
    bufs: Vec<(Buf, Content)>,
    pub(super) list: List,
    pub(super) handle: Handle,
    pub(super) doing: Option<Doing>,
    /// Operations since the file was opened.
    pub(super) since_open: u32,
    /// The node has closed the file and waits for its open.
    pub(super) opening: bool,
    /// Versions of the file's pages that this node must see at least, where it need not see the latest.
    pub(super) floors: Vec<u32>,
    /// Pages that it has written since it opened the file, and their versions.
    pub(super) wrote: Vec<(usize, u32)>,
    /// Version that the node's last write was given.
    pub(super) given: u32,
    names: u64,
}

impl Host {
    pub(super) fn new(node: Node) -> Host {
        Host {
            frames: vec![0; node.config().frames as usize],
            node,
            bufs: Vec::new(),
            list: List::Given(Vec::new().into_iter()),
            handle: Handle(0),
            doing: None,
            since_open: 0,
            opening: false,
            floors: Vec::new(),
            wrote: Vec::new(),
            given: 0,
            names: 0,
        }
    }

    pub(super) fn new_name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    pub(super) fn hold(&mut self, content: Content) -> Buf {
        let buf = Buf(self.new_name());
        self.bufs.push((buf, content));
        buf
    }

    pub(super) fn stash(&mut self, buf: Buf, content: Content) {
        self.bufs.push((buf, content));
    }

    /// False if there is no such buffer.
    pub(super) fn free(&mut self, buf: Buf) -> bool {
        match self.bufs.iter().position(|&(held, _)| held == buf) {
            Some(at) => {
                self.bufs.swap_remove(at);
                true
            }
            None => false,
        }
    }

    /// The node's own writes have been done some other way.
    pub(super) fn let_go_of_writes(&mut self) {
        let written = |content: &Content| matches!(content, Content::Written { .. });
        self.bufs.retain(|(_, content)| !written(content));
    }

    pub(super) fn buffers(&self) -> usize {
        self.bufs.len()
    }

    pub(super) fn content(&self, piece: &Piece) -> Option<Content> {
        match piece.src {
            Src::Frame(frame) => self
                .frames
                .get(frame.0 as usize)
                .copied()
                .map(Content::Version),
            Src::Buf(buf) => {
                let found = self.bufs.iter().find(|&&(held, _)| held == buf);
                found.map(|&(_, content)| content)
            }
            Src::Zero => Some(Content::Version(0)),
        }
    }
}
