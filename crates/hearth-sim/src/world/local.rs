//! Writes of programs that do not ask first: what they left waits until the next input of their agent.

use super::{Event, World};
use crate::tamper::Tamper;
use hearth_proto::{Input, LocalWrite, Span, WriteAt};

/// Entries are brought within this time though nobody asks.
const WAIT: Span = Span::millis(100);

/// Of so many writes that could be left, one is not.
const ASKS: u64 = 4;

impl World {
    /// Leaves a write where the agent finds it, if the page is offered. The session is done with it.
    pub(crate) fn leave_write(
        &mut self,
        session: usize,
        handle: usize,
        (at, len): (WriteAt, u32),
        value: u8,
    ) -> bool {
        let (node, mtime_ns) = (self.sessions[session].node, self.now.0 as i64);
        let open = &self.sessions[session].handles[handle];
        let file = self.store.objects[open.object].file;
        let (WriteAt::Offset(offset), false) = (at, self.scripted) else {
            return false;
        };
        let host = &mut self.hosts[node];
        let config = host.node().config();
        let (page, count) = config.pages_of(offset, u64::from(len));
        let end = offset + u64::from(len) - config.page_start(page);
        let limit = host.node().offered(file, page).map_or(0, u64::from);
        let waiting: u64 = host.left.iter().map(|write| u64::from(write.len)).sum();
        let fits = count == 1 && end <= limit && host.node().has_room(waiting + u64::from(len));
        if !fits || host.paused > self.now || self.rng.below(ASKS) == 0 {
            return false;
        }
        let buf = host.hold(vec![value; len as usize]);
        let is_first = host.left.is_empty();
        host.left.push(LocalWrite {
            file,
            offset,
            len,
            buf,
            mtime_ns,
        });
        if is_first {
            let wait = Span(self.rng.below(WAIT.0));
            self.after(wait, Event::Brings { node });
        }
        true
    }

    /// Brings what was left, before the agent hears of anything else.
    pub(crate) fn bring(&mut self, node: usize) {
        if self.hosts[node].left.is_empty() || self.tampers(Tamper::LateLocals, 2) {
            return;
        }
        let left = std::mem::take(&mut self.hosts[node].left);
        let bufs: Vec<_> = left.iter().map(|write| write.buf).collect();
        self.step_once(node, Input::Locals(left));
        for buf in bufs {
            if let Err(breach) = self.hosts[node].free(buf) {
                self.violate(crate::check::Violation::contract(breach));
            }
        }
    }
}
