//! The size of a file: told, extended, appended to.

use super::control::Control;
use super::{Ask, Seat};
use crate::guard::Guard;
use crate::ids::Gen;
use crate::msg::Body;

/// An append between its place and its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Append {
    from: crate::ids::NodeId,
    generation: crate::ids::Gen,
    end: u64,
    /// The writer's last word, once its bytes are at their homes.
    done: Option<Ask>,
}

impl Seat<'_, '_> {
    pub(super) fn tell_size(&mut self, ask: &Ask) {
        let at_rest = self.file.writers() == 0 && self.file.stamp.is_some();
        let free = matches!(self.file.control, None | Some(Control::Settling { .. }));
        let keep = free && self.file.leaves.is_idle() && (at_rest || !self.file.known);
        if keep && !self.file.openers.contains_key(&ask.from) {
            self.file.holders.insert(ask.from);
        }
        let size = match &self.file.control {
            Some(Control::Shortening { size, .. } | Control::Truncating { size, .. }) => {
                self.file.size.min(*size)
            }
            Some(_) | None => self.file.size,
        };
        let size = self.file.known.then_some(size);
        let mtime_ns = self.file.mtime_ns.filter(|_| !at_rest);
        self.answer(
            ask,
            Body::SizeIs {
                size,
                mtime_ns,
                keep,
            },
        );
    }

    pub(super) fn extend(&mut self, ask: &Ask, end: u64, append: Option<u64>, mtime_ns: i64) {
        if ask.generation < self.file.floor {
            return self.outdated(ask);
        }
        self.learn_date(Some(mtime_ns));
        let Some(start) = append else {
            self.file.size = self.file.size.max(end);
            return self.answer(ask, Body::ExtendOk(self.file.size));
        };
        match self.file.appends.get_mut(&start) {
            // Withdrawn: nobody waits for it, and its place must not be taken for that of the next.
            Some(append)
                if end == start
                    && (append.from, append.generation) == (ask.from, ask.generation) =>
            {
                self.file.appends.remove(&start);
                self.answer(ask, Body::ExtendOk(self.file.size));
            }
            Some(append) if (append.from, append.generation) == (ask.from, ask.generation) => {
                append.end = end;
                append.done = Some(ask.clone());
            }
            Some(_) | None => return self.outdated(ask),
        }
        self.end_appends();
    }

    /// Ends the appends from the front, as long as they are done (MANAGER-3).
    fn end_appends(&mut self) {
        while let Some(first) = self.file.appends.first_entry() {
            if first.get().done.is_none() && self.ctx.config.keeps(Guard::AppendsInOrder) {
                return;
            }
            let append = first.remove();
            self.file.size = self.file.size.max(append.end);
            if let Some(ask) = append.done {
                self.answer(&ask, Body::ExtendOk(self.file.size));
            }
        }
    }

    pub(super) fn append(&mut self, ask: &Ask, len: u64) {
        if self.refuse_laminated(ask) {
            return;
        }
        if ask.generation.life < self.file.generation.life {
            return self.outdated(ask);
        }
        let tail = self
            .file
            .appends
            .values()
            .map(|append| append.end)
            .max()
            .unwrap_or(0);
        let tail = if self.ctx.config.keeps(Guard::AppendsApart) {
            tail
        } else {
            0
        };
        let start = self.file.size.max(tail);
        let append = Append {
            from: ask.from,
            generation: self.file.generation,
            end: start + len,
            done: None,
        };
        self.file.appends.insert(start, append);
        self.answer(ask, Body::AppendAt(start));
    }

    /// The peer's unfinished appends end where they began.
    pub(super) fn drop_appends(&mut self, peer: crate::ids::NodeId) {
        self.file
            .appends
            .retain(|_, append| append.from != peer || append.done.is_some());
        self.end_appends();
    }

    /// A cut took place: what was taken before belongs before it, appends on their way too.
    pub(super) fn cut_done(&mut self) {
        self.file.floor = self.file.generation;
        for append in core::mem::take(&mut self.file.appends).into_values() {
            if let Some(ask) = append.done {
                self.outdated(&ask);
            }
        }
    }

    /// A request is of another generation than the file's. If the file's life has not begun here nobody is
    /// told of one: the life that does begin may be another, elsewhere, and a node that had heard of this one
    /// would go by it. No other life begins if a view follows.
    fn outdated(&mut self, ask: &Ask) {
        let config = self.ctx.config;
        let begun = self.file.has_begun() || !config.has_replicas() || config.goes_on;
        let known = match begun || !self.ctx.config.keeps(Guard::BegunTold) {
            true => self.file.generation,
            false => Gen::default(),
        };
        let (to, req) = (ask.from, ask.req);
        self.ctx
            .answer(to, self.id, known, req, Body::OldGeneration);
    }
}
