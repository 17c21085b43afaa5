//! Memory of the program that a call fills or takes bytes from: one piece, or several in a row.

use std::ffi::{c_int, c_void};

use libc::iovec;

use crate::sys;

/// Pieces of the program's memory. The program leaves them alone until the call has ended, as it
/// would for the real call.
pub(crate) struct Memory {
    pieces: Vec<Piece>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Piece {
    start: *mut u8,
    len: usize,
}

// SAFETY: the pieces are no thread's in particular, and calls that share them use parts that do not
// overlap.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// One piece.
    pub(crate) fn one(start: *const c_void, len: usize) -> Memory {
        let start = start.cast::<u8>().cast_mut();
        Memory {
            pieces: vec![Piece { start, len }],
            len,
        }
    }

    /// Pieces that a vector lists.
    pub(crate) fn many(vector: *const iovec, count: c_int) -> Memory {
        let pieces: Vec<Piece> = sys::many(vector, count)
            .iter()
            .map(|piece| Piece {
                start: piece.iov_base.cast(),
                len: piece.iov_len,
            })
            .collect();
        let len = pieces.iter().map(|piece| piece.len).sum();
        Memory { pieces, len }
    }

    /// Bytes of all pieces.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Copies `bytes` to `from` and on; what has no place there is left out.
    pub(crate) fn put(&self, from: usize, bytes: &[u8]) {
        let mut done = 0;
        for (start, len) in self.within(from, bytes.len()) {
            // SAFETY: the program gave this memory to be filled, and waits for that.
            unsafe { start.copy_from_nonoverlapping(bytes[done..].as_ptr(), len) };
            done += len;
        }
    }

    /// A copy of `len` bytes from `from` on.
    pub(crate) fn take(&self, from: usize, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        for (start, len) in self.within(from, len) {
            // SAFETY: the program gave this memory to be read, and waits for that.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, len) });
        }
        bytes
    }

    fn within(&self, from: usize, len: usize) -> impl Iterator<Item = (*mut u8, usize)> {
        let mut before = 0;
        self.pieces.iter().filter_map(move |piece| {
            let begin = from.max(before);
            let end = (from + len).min(before + piece.len);
            let at = begin - before;
            before += piece.len;
            // In bounds: `at` is within the piece where the range is not empty.
            (begin < end).then(|| (piece.start.wrapping_add(at), end - begin))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_through_the_pieces_in_order() {
        let mut parts = [[0_u8; 3], [0; 3]];
        let vector = parts.each_mut().map(|part| iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        });
        let memory = Memory::many(vector.as_ptr(), 2);
        assert_eq!(memory.len(), 6);
        memory.put(1, &[1, 2, 3, 4]);
        assert_eq!(memory.take(0, 6), [0, 1, 2, 3, 4, 0]);
        assert_eq!(memory.take(3, 2), [3, 4]);
        memory.put(5, &[9, 9]);
        assert_eq!(parts, [[0, 1, 2], [3, 4, 9]]);
    }
}
