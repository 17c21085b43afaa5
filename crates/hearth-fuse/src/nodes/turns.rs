//! The order in which descriptors of nodes are closed.

use std::sync::Arc;

use super::{Entry, Table};

/// Descriptors that are looked at for some to close, when one is opened.
const LOOKS_AT_ONCE: usize = 8;

/// A descriptor's place in the order of closing.
pub(super) struct Turn {
    id: u64,
    opened: u64,
    /// When it was last used, when it was given this place.
    used: u64,
}

impl Entry {
    /// Its descriptor is the one that was given this place.
    fn is_of(&self, turn: &Turn) -> bool {
        self.fd.is_some() && self.opened == turn.opened
    }
}

impl Table {
    /// Accounts for one more descriptor. Beyond the limit it closes those unused for longest whose nodes nobody holds; it
    /// looks at a few, however many there are.
    pub(super) fn opened(&mut self, id: u64) {
        self.open += 1;
        let clock = self.tick();
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.opened = clock;
            let (opened, used) = (clock, entry.used);
            self.turns.push_back(Turn { id, opened, used });
        }
        self.close_some();
        if self.turns.len() > 2 * self.open + LOOKS_AT_ONCE {
            let entries = &self.entries;
            self.turns
                .retain(|turn| entries.get(&turn.id).is_some_and(|entry| entry.is_of(turn)));
        }
    }

    pub(super) fn close_some(&mut self) {
        for _ in 0..LOOKS_AT_ONCE {
            if self.open <= self.budget.left() {
                break;
            }
            let Some(turn) = self.turns.pop_front() else {
                break;
            };
            self.close_or_keep(turn);
        }
    }

    /// Closes a descriptor that was not used since its last turn, or gives it another.
    fn close_or_keep(&mut self, turn: Turn) {
        let Some(entry) = self
            .entries
            .get_mut(&turn.id)
            .filter(|entry| entry.is_of(&turn))
        else {
            return;
        };
        let is_served = Arc::strong_count(&entry.node) == 1 || entry.lent().is_some();
        let idle = entry.place.is_some() && is_served;
        if idle && entry.used == turn.used {
            entry.fd = None;
            self.open -= 1;
        } else {
            let used = entry.used;
            self.turns.push_back(Turn { used, ..turn });
        }
    }
}
