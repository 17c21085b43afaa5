//! Trying requests that wait.

use super::range::Ahead;
use super::{Home, Verdict, Waiting};

impl Home<'_, '_> {
    /// Tries every waiting request, in order, until none can be answered.
    pub(super) fn pump(&mut self) {
        self.keep_gathered();
        self.finish_writes();
        self.settle_orphan();
        self.forget_hunger();
        self.file.ahead = Ahead::default();
        self.try_from(0);
    }

    /// Tries requests that have just come, and stand behind so many others. Those wait on: nothing else has changed
    /// since they were tried. So a request costs the same however many wait.
    pub(super) fn pump_from(&mut self, known: usize) {
        let writes = self.file.writes.len();
        self.keep_gathered();
        self.finish_writes();
        let is_quiet = self.file.bar.is_none() && self.file.orphaned.is_empty();
        let known = known.min(self.file.waiting.len());
        match is_quiet && self.file.writes.len() == writes && known > 0 {
            true => self.try_from(known),
            false => self.pump(),
        }
    }

    fn try_from(&mut self, known: usize) {
        let mut waiting = self.file.waiting.split_off(known);
        let mut ahead = core::mem::take(&mut self.file.ahead);
        let mut left = core::mem::take(&mut self.file.waiting);
        while let Some(mut ask) = waiting.pop_front() {
            let verdict = match &mut ask {
                Waiting::Read(read) => self.try_read(read),
                Waiting::Write(write) => self.try_write(write, &ahead),
                Waiting::Hold(hold) => self.try_hold(hold, &ahead),
                Waiting::Flush(flush) => self.try_flush(flush),
                Waiting::Peek(peek) => self.try_peek(peek),
            };
            if verdict == Verdict::Done {
                continue;
            }
            ahead.note(self.ctx, &ask);
            left.push_back(ask);
        }
        // Requests that have come in meanwhile are writes that wait for the store; messages to this node
        // itself wait.
        left.append(&mut self.file.waiting);
        self.file.waiting = left;
        self.file.ahead = ahead;
        self.send_lagging();
        if self.go_on_with_cut() {
            self.pump();
        }
    }
}
