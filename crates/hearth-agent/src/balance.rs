//! Files go from agents whose memory is full to others with room.
//!
//! Under policy `local` a file stays where it was written or first read. So one node can drop what will be read again
//! while another's memory is empty: HyCache+ ("Data Movement") has that evened out from time to time. Here it is done
//! where it counts: when few frames are free, the file of the page that would go next is handed to a node that has some
//! ([`hearth_proto::Request::HandOver`]), if nobody has it open or keeps anything of it. When all memory is full nothing
//! moves any more.
//!
//! One file is on its way at a time. Which node has room is found by trying: one that has is given more, after one that
//! has not the next is tried. When all have refused the next round comes later each time.

use hearth_proto::{FileId, Node, NodeId, Reply, Span, Time, errno};
use std::collections::VecDeque;

/// Pages that would go next, of which the files are considered.
const CONSIDERED: usize = 512;

/// Files that are passed by after they could not be moved: open, or not all in the store.
const PASSED_MAX: usize = 256;

/// Part of the pool that is to be free, as a divisor.
const FREE: u32 = 16;

/// Part of the pool that a file may fill which is moved, as a divisor: an heir sets no more aside than a quarter.
const SHARE: u32 = 8;

/// Pause after a file that could not be moved.
const NEXT_FILE: Span = Span::millis(10);

/// First and longest pause after no node had room, or no file could be moved.
const NEXT_ROUND: Span = Span::millis(100);
const NEXT_ROUND_MAX: Span = Span::secs(60);

/// The part of one agent in this.
#[derive(Debug)]
pub(crate) struct Balance {
    is_on: bool,
    /// A file is on its way.
    moving: bool,
    /// Nothing is done before this.
    next: Time,
    pause: Span,
    /// Steps from this node to the one that is tried, from 0 on.
    step: u32,
    /// Nodes that had no room, one after another.
    refused: u32,
    passed: VecDeque<FileId>,
}

impl Balance {
    pub(crate) fn new(is_on: bool) -> Balance {
        Balance {
            is_on,
            moving: false,
            next: Time(0),
            pause: NEXT_ROUND,
            step: 0,
            refused: 0,
            passed: VecDeque::new(),
        }
    }

    /// The file that is to be handed over now, and to whom. Answered by [`Balance::over`].
    pub(crate) fn due(
        &mut self,
        clock: impl FnOnce() -> Time,
        node: &Node,
    ) -> Option<(FileId, NodeId)> {
        // After every turn of an agent: without a look at the clock where nothing is to be done.
        let room = || node.frames_free() > node.config().frames / FREE;
        if !self.is_on || self.moving || room() {
            return None;
        }
        let now = clock();
        if now < self.next {
            return None;
        }
        let others = node.config().nodes.saturating_sub(1);
        if self.refused >= others {
            self.refused = 0;
            self.rest(now);
            return None;
        }
        let heir = self.heir(node)?;
        let most = node.config().frames / SHARE;
        let fits = |file, pages| pages <= most && !self.passed.contains(&file);
        let Some(file) = node.coldest(CONSIDERED, fits) else {
            self.passed.clear();
            self.rest(now);
            return None;
        };
        self.moving = true;
        Some((file, heir))
    }

    /// The node that is tried now, if there is one that is not gone.
    fn heir(&mut self, node: &Node) -> Option<NodeId> {
        let config = node.config();
        let others = config.nodes.saturating_sub(1);
        let at = |step: u32| NodeId((config.me.0 + 1 + step % others) % config.nodes);
        let step = (0..others).find(|more| !node.is_gone(at(self.step + more)))?;
        self.step = (self.step + step) % others;
        Some(at(self.step))
    }

    fn rest(&mut self, now: Time) {
        self.next = now + self.pause;
        self.pause = Span((self.pause.0 * 2).min(NEXT_ROUND_MAX.0));
    }

    /// Ends the move of a file, with its answer.
    pub(crate) fn over(&mut self, now: Time, file: FileId, reply: &Reply) {
        self.moving = false;
        match reply {
            Reply::Done => (self.pause, self.refused) = (NEXT_ROUND, 0),
            Reply::Failed(errno::ENOSPC) => {
                self.step += 1;
                self.refused += 1;
            }
            _ => {
                self.passed.push_back(file);
                if self.passed.len() > PASSED_MAX {
                    self.passed.pop_front();
                }
                self.next = now + NEXT_FILE;
            }
        }
    }
}
