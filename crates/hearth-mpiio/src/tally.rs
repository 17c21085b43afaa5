//! Calls of a session that belong to one call of the program.
//!
//! The pieces of a large request are under way together. The program gets the bytes up to the first
//! piece that came back short or failed, as from one call.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Pieces of one request.
#[derive(Default)]
pub(crate) struct Tally {
    inner: Mutex<Pieces>,
    changed: Condvar,
}

#[derive(Default)]
struct Pieces {
    asked: Vec<usize>,
    results: Vec<Option<Result<usize, i32>>>,
    under_way: usize,
}

/// The place for one piece's result. One that is dropped unused stands for an agent that ended.
pub(crate) struct Slot {
    tally: Arc<Tally>,
    number: Option<usize>,
}

impl Tally {
    /// Adds a piece of `len` bytes.
    pub(crate) fn add(self: &Arc<Tally>, len: usize) -> Slot {
        let mut pieces = self.lock();
        pieces.asked.push(len);
        pieces.results.push(None);
        pieces.under_way += 1;
        Slot {
            tally: Arc::clone(self),
            number: Some(pieces.asked.len() - 1),
        }
    }

    /// Waits until fewer than `count` pieces are under way.
    pub(crate) fn wait_below(&self, count: usize) {
        let waited = self
            .changed
            .wait_while(self.lock(), |pieces| pieces.under_way >= count);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for all pieces, at most for `span`; true if all are there.
    pub(crate) fn wait_for(&self, span: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), span, |pieces| pieces.under_way > 0);
        let (pieces, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pieces.under_way == 0
    }

    /// Waits for all pieces and says what they make together.
    pub(crate) fn finish(&self) -> io::Result<usize> {
        self.wait_below(1);
        self.result().unwrap_or(Ok(0))
    }

    /// The result of all pieces together; `None` while some are under way.
    pub(crate) fn result(&self) -> Option<io::Result<usize>> {
        let pieces = self.lock();
        if pieces.under_way > 0 {
            return None;
        }
        let mut total = 0;
        for (asked, result) in pieces.asked.iter().zip(&pieces.results) {
            match result {
                Some(Ok(len)) if len == asked => total += len,
                Some(Ok(len)) => return Some(Ok(total + len)),
                Some(Err(number)) if total == 0 => {
                    return Some(Err(io::Error::from_raw_os_error(*number)));
                }
                Some(Err(_)) | None => return Some(Ok(total)),
            }
        }
        Some(Ok(total))
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Says how the piece ended.
    pub(crate) fn fill(mut self, result: Result<usize, i32>) {
        self.put(result);
    }

    fn put(&mut self, result: Result<usize, i32>) {
        let Some(number) = self.number.take() else {
            return;
        };
        let mut pieces = self.tally.lock();
        pieces.results[number] = Some(result);
        pieces.under_way -= 1;
        drop(pieces);
        self.tally.changed.notify_all();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.put(Err(libc::EIO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(results: &[Result<usize, i32>]) -> io::Result<usize> {
        let tally = Arc::new(Tally::default());
        let slots: Vec<Slot> = results.iter().map(|_| tally.add(10)).collect();
        // Answers come in any order.
        for (slot, result) in slots.into_iter().zip(results).rev() {
            assert!(tally.result().is_none());
            slot.fill(*result);
        }
        tally.finish()
    }

    #[test]
    fn bytes_count_up_to_the_first_piece_that_is_short() {
        assert_eq!(tally(&[Ok(10), Ok(10)]).unwrap(), 20);
        assert_eq!(tally(&[Ok(10), Ok(3), Ok(10)]).unwrap(), 13);
        assert_eq!(tally(&[Ok(10), Err(5), Ok(10)]).unwrap(), 10);
        assert_eq!(
            tally(&[Err(28), Ok(10)]).unwrap_err().raw_os_error(),
            Some(28)
        );
        assert_eq!(tally(&[]).unwrap(), 0);
    }

    #[test]
    fn a_piece_that_nobody_answers_is_an_error() {
        let tally = Arc::new(Tally::default());
        drop(tally.add(10));
        assert_eq!(tally.finish().unwrap_err().raw_os_error(), Some(libc::EIO));
    }
}
