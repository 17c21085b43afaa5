//! Arithmetic on lists of frame parts.

use hearth_shm::FramePart;

/// Bytes that `parts` hold.
pub(super) fn total(parts: &[FramePart]) -> usize {
    parts.iter().map(|part| part.len).sum()
}

/// The first `len` bytes of `parts`.
pub(super) fn first(parts: &[FramePart], len: usize) -> Vec<FramePart> {
    let mut left = len;
    let mut kept = Vec::new();
    for part in parts {
        let len = part.len.min(left);
        if len > 0 {
            kept.push(FramePart { len, ..*part });
        }
        left -= len;
    }
    kept
}

/// All but the first `len` bytes of `parts`.
pub(super) fn after(parts: &[FramePart], len: usize) -> Vec<FramePart> {
    let mut left = len;
    let mut kept = Vec::new();
    for part in parts {
        let skipped = part.len.min(left);
        if skipped < part.len {
            let (offset, len) = (part.offset + skipped, part.len - skipped);
            kept.push(FramePart {
                frame: part.frame,
                offset,
                len,
            });
        }
        left -= skipped;
    }
    kept
}

#[cfg(test)]
mod tests {
    use hearth_shm::FrameIndex;

    use super::*;

    #[test]
    fn a_cut_anywhere_leaves_two_lists_that_make_the_whole() {
        let part = |frame, offset, len| FramePart {
            frame: FrameIndex(frame),
            offset,
            len,
        };
        let parts = [part(1, 10, 3), part(0, 0, 0), part(2, 5, 2)];
        assert_eq!(total(&parts), 5);
        assert_eq!(first(&parts, 2), [part(1, 10, 2)]);
        assert_eq!(after(&parts, 2), [part(1, 12, 1), part(2, 5, 2)]);
        assert_eq!(first(&parts, 4), [part(1, 10, 3), part(2, 5, 1)]);
        assert_eq!(after(&parts, 4), [part(2, 6, 1)]);
        for cut in 0..=5 {
            assert_eq!(total(&first(&parts, cut)), cut);
            assert_eq!(total(&after(&parts, cut)), 5 - cut);
        }
    }
}
