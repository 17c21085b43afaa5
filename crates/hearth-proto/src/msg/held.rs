//! Which pages a node holds, as nodes tell each other.

/// Pages that one [`Held`] tells of.
pub const HELD_PAGES: u64 = 512;

/// Which pages a node holds, out of one aligned run of [`HELD_PAGES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held(pub [u64; HELD_PAGES as usize / 64]);

impl Held {
    /// Adds a page of the run that it falls into.
    pub fn insert(&mut self, page: u64) {
        let at = page % HELD_PAGES;
        self.0[at as usize / 64] |= 1 << (at % 64);
    }

    /// True if the page is held.
    pub fn contains(&self, page: u64) -> bool {
        let at = page % HELD_PAGES;
        self.0[at as usize / 64] & (1 << (at % 64)) != 0
    }
}
