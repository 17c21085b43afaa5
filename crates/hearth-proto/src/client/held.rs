//! Pages in memory whose homes are elsewhere.

use super::Client;
use crate::frames::Frames;
use crate::ids::FileId;

impl Client {
    /// Copies in frames and pages that this node writes by itself, with the bytes known of each.
    pub(crate) fn held<'a>(
        &'a self,
        frames: &'a Frames,
    ) -> impl Iterator<Item = (FileId, u64, u32)> + 'a {
        let files = self.files.iter();
        let copies = files.flat_map(move |(&id, file)| {
            let copies = file.copies.iter();
            let copies = copies.filter(|(_, copy)| frames.valid(copy.slot));
            copies.map(move |(&page, copy)| (id, page, copy.extent))
        });
        copies.chain(self.owned.held(frames))
    }
}
