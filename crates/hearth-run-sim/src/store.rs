//! The store of a world: bytes in memory, with a thread's turn before each operation.

use hearth_proto::Stamp;
use std::collections::BTreeMap;
use std::plain::Mutex;
use std::thread::yield_now;

/// Files by number.
pub(crate) struct Store(Mutex<Files>);

struct Files {
    bytes: BTreeMap<u64, Vec<u8>>,
    changes: i64,
}

impl Store {
    /// Files of so many zeros, numbered from 1 on.
    pub(crate) fn new(files: u64, size: usize) -> Store {
        Store(Mutex::new(Files {
            bytes: (1..=files).map(|file| (file, vec![0; size])).collect(),
            changes: 1,
        }))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Files) -> T) -> T {
        yield_now();
        look(&mut self.0.lock().expect("nothing panics under this lock"))
    }

    /// Bytes of a file, fewer than asked for at its end.
    pub(crate) fn read(&self, file: u64, offset: u64, len: usize) -> Vec<u8> {
        self.with(|files| {
            let from = files.bytes[&file].iter().skip(offset as usize);
            from.take(len).copied().collect()
        })
    }

    /// Puts bytes into a file.
    pub(crate) fn write(&self, file: u64, offset: u64, bytes: &[u8]) {
        self.with(|files| {
            files.changes += 1;
            let all = files.bytes.get_mut(&file).expect("it is one of them");
            let end = offset as usize + bytes.len();
            all.resize(all.len().max(end), 0);
            all[offset as usize..end].copy_from_slice(bytes);
        });
    }

    /// The stamp of a file. Times of all of them go on together.
    pub(crate) fn stamp(&self, file: u64) -> Stamp {
        self.with(|files| Stamp {
            ctime_ns: files.changes,
            mtime_ns: files.changes,
            size: files.bytes[&file].len() as u64,
        })
    }
}
