//! Pages in memory whose home this node is.

use super::{Authority, Page};
use crate::frames::Frames;
use crate::ids::FileId;

impl Authority {
    /// Pages of a file that are here.
    pub(crate) fn pages_of(&self, id: FileId) -> u32 {
        let pages = self.files.get(&id).map_or(0, |file| file.pages.len());
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    /// True if somebody is known to keep a page of the file.
    pub(crate) fn is_kept(&self, id: FileId) -> bool {
        let pages = self
            .files
            .get(&id)
            .into_iter()
            .flat_map(|file| file.pages.values());
        pages.into_iter().any(|page| !page.readers.is_empty())
    }

    /// Pages in frames, with the bytes known of each.
    pub(crate) fn held<'a>(
        &'a self,
        frames: &'a Frames,
    ) -> impl Iterator<Item = (FileId, u64, u32)> + 'a {
        let files = self.files.iter();
        files.flat_map(move |(&id, file)| {
            let pages = file.pages.iter();
            pages.filter_map(move |(&number, page)| Some((id, number, page.held(frames)?)))
        })
    }
}

impl Page {
    /// Bytes known, if the page is in its frame.
    fn held(&self, frames: &Frames) -> Option<u32> {
        self.slot.filter(|slot| frames.valid(*slot))?;
        Some(match self.filled {
            true => self.extent,
            false => self.valid.bytes(),
        })
    }
}
