//! Pages that programs read in the pool themselves.
//!
//! To the kernel, programs that map the pool are one more place that keeps what was read here. A page is shown when a
//! read of it is answered that may be kept. It is hidden as soon as the kernel orders a revocation, which is before
//! anybody hears of it. Whole pages are shown, of which the read may have asked for a part.

use crate::core::{Core, State};
use hearth_proto::{FileId, Handle, Piece};
use hearth_shm::{FrameIndex, PageName};

impl Core {
    /// Shows the pages of bytes that were read.
    pub(crate) fn show(&self, state: &State, handle: Handle, offset: u64, pieces: &[Piece]) {
        let len: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        if !self.pool.is_shared() || len == 0 {
            return;
        }
        let Some(file) = state.files.file_of(handle) else {
            return;
        };
        let page_bytes = self.pool.frame_bytes() as u64;
        for page in offset / page_bytes..=(offset + len - 1) / page_bytes {
            if let Some((frame, extent)) = state.node().readable(file, page) {
                let name = PageName { file: file.0, page };
                self.pool
                    .publish(name, FrameIndex(frame.0), extent as usize);
            }
        }
    }

    /// Hides pages, given as first and count, and what was told of the file.
    pub(crate) fn hide(&self, file: FileId, pages: Option<(u64, u32)>) {
        self.pool.file_changed(file.0);
        let Some((first, count)) = pages else { return };
        let end = match count {
            u32::MAX => u64::MAX,
            count => first.saturating_add(u64::from(count)),
        };
        self.pool.hide(file.0, first..end);
    }
}
