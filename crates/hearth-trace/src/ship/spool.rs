//! Chunks that the server does not have yet: in memory, and then in a file.
//!
//! 1. Chunks leave in the order they came, when they are acknowledged.
//! 2. The file holds whole frames only, so it is itself a trace of what was not delivered.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Frames, by the numbers of the first and of the one after the last.
pub(super) struct Chunk {
    pub(super) first: u64,
    pub(super) end: u64,
    place: Place,
}

/// A chunk to be sent.
pub(super) struct Parcel {
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) frames: Arc<Vec<u8>>,
}

enum Place {
    Memory(Arc<Vec<u8>>),
    File { at: u64, len: usize },
}

/// The chunks.
pub(super) struct Spool {
    chunks: VecDeque<Chunk>,
    /// How many of them were sent on this connection.
    sent: usize,
    memory_max: usize,
    file_max: u64,
    memory: usize,
    path: PathBuf,
    file: Option<File>,
    file_len: u64,
    in_file: usize,
    /// Memory of a chunk that is gone, for the next one: fresh pages cost more than what is in them.
    spare: Vec<u8>,
    waiting: u64,
    waiting_max: u64,
}

impl Spool {
    pub(super) fn new(path: &Path, memory_max: usize, file_max: u64) -> Spool {
        Spool {
            chunks: VecDeque::new(),
            sent: 0,
            memory_max,
            file_max,
            memory: 0,
            path: path.to_owned(),
            file: None,
            file_len: 0,
            in_file: 0,
            spare: Vec::new(),
            waiting: 0,
            waiting_max: 0,
        }
    }

    /// Takes a chunk; also one beyond the bounds, if there is nowhere else for it to go.
    pub(super) fn push(&mut self, frames: &[u8], (first, end): (u64, u64)) {
        self.waiting += frames.len() as u64;
        self.waiting_max = self.waiting_max.max(self.waiting);
        let spilled = if self.memory + frames.len() > self.memory_max {
            self.spill(frames).ok()
        } else {
            None
        };
        let place = spilled.unwrap_or_else(|| {
            self.memory += frames.len();
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.clear();
            bytes.extend_from_slice(frames);
            Place::Memory(Arc::new(bytes))
        });
        self.chunks.push_back(Chunk { first, end, place });
    }

    fn spill(&mut self, frames: &[u8]) -> io::Result<Place> {
        let file = match &mut self.file {
            Some(file) => file,
            file @ None => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(true);
                file.insert(options.mode(0o600).open(&self.path)?)
            }
        };
        file.write_all_at(frames, self.file_len)?;
        let place = Place::File {
            at: self.file_len,
            len: frames.len(),
        };
        self.file_len += frames.len() as u64;
        self.in_file += 1;
        Ok(place)
    }

    /// Whether no more should be taken until the server has taken some.
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= self.memory_max as u64 + self.file_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Most bytes that ever waited.
    pub(super) fn waiting_max(&self) -> u64 {
        self.waiting_max
    }

    /// Chunks that were sent and not acknowledged.
    pub(super) fn under_way(&self) -> usize {
        self.sent
    }

    /// A new connection: nothing is under way.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
    }

    /// The next chunk to send, now taken as sent.
    pub(super) fn next(&mut self) -> Option<io::Result<Parcel>> {
        let chunk = self.chunks.get(self.sent)?;
        self.sent += 1;
        let frames = match &chunk.place {
            Place::Memory(bytes) => Ok(Arc::clone(bytes)),
            Place::File { at, len } => self.read(*at, *len).map(Arc::new),
        };
        Some(frames.map(|frames| Parcel {
            first: chunk.first,
            end: chunk.end,
            frames,
        }))
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let file = self.file.as_ref();
        let file = file.expect("a chunk in the file means that there is one");
        file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Forgets what the server has.
    pub(super) fn stored(&mut self, next: u64) {
        while self.chunks.front().is_some_and(|chunk| chunk.end <= next) {
            let Some(chunk) = self.chunks.pop_front() else {
                break;
            };
            self.sent = self.sent.saturating_sub(1);
            match chunk.place {
                Place::Memory(bytes) => {
                    self.memory -= bytes.len();
                    self.waiting -= bytes.len() as u64;
                    self.spare = Arc::into_inner(bytes).unwrap_or_default();
                }
                Place::File { len, .. } => {
                    self.in_file -= 1;
                    self.waiting -= len as u64;
                }
            }
        }
        if self.in_file == 0 && self.file_len > 0 {
            self.file_len = 0;
            if let Some(file) = &self.file {
                // Bytes that stay are overwritten, or read again as bytes that are stored already.
                let _ = file.set_len(0);
            }
        }
    }

    /// Leaves what was not delivered in the file, or no file.
    pub(super) fn close(mut self) -> io::Result<Option<PathBuf>> {
        if self.chunks.is_empty() {
            if self.file.take().is_some() {
                std::fs::remove_file(&self.path)?;
            }
            return Ok(None);
        }
        for chunk in std::mem::take(&mut self.chunks) {
            if let Place::Memory(bytes) = chunk.place {
                self.spill(&bytes)?;
            }
        }
        Ok(Some(self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_leave_in_their_order_wherever_they_waited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spill.htrace");
        let mut spool = Spool::new(&path, 10, 10);
        for number in 0..5 {
            spool.push(&[number as u8; 4], (number, number + 1));
        }
        assert!(spool.is_full());
        let mut sent = || spool.next().map(|chunk| chunk.unwrap().frames[0]);
        assert_eq!([sent(), sent()], [Some(0), Some(1)]);
        spool.rewind();
        spool.stored(1);
        let order: Vec<u8> = std::iter::from_fn(|| spool.next())
            .map(|chunk| chunk.unwrap().frames[0])
            .collect();
        assert_eq!(order, [1, 2, 3, 4]);
        assert_eq!(spool.under_way(), 4);
        spool.stored(5);
        assert!(spool.is_empty() && !spool.is_full());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(spool.close().unwrap(), None);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_not_delivered_stays_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spill.htrace");
        let mut spool = Spool::new(&path, 5, 100);
        for number in 0..3 {
            spool.push(&[number as u8; 4], (number, number + 1));
        }
        assert_eq!(spool.close().unwrap(), Some(path.clone()));
        assert_eq!(
            std::fs::read(path).unwrap(),
            [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0]
        );
    }
}
