//! Files that nodes tell each other of.

use crate::nodes::proc_path;
use real_rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Descriptors of files that somebody has opened: agents tell each other where a file is.
#[derive(Default)]
pub(crate) struct Opened(std::plain::Mutex<std::collections::BTreeMap<u64, Arc<OwnedFd>>>);

impl Opened {
    pub(crate) fn seen(&self, file: u64, fd: &Arc<OwnedFd>) {
        let mut all = self.0.lock().expect("nothing panics under this lock");
        all.entry(file).or_insert_with(|| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            let open = real_rustix::fs::open(proc_path(fd), flags, Mode::empty());
            open.map_or_else(|_| Arc::clone(fd), Arc::new)
        });
    }

    pub(crate) fn of(&self, file: u64) -> Option<Arc<OwnedFd>> {
        let all = self.0.lock().expect("nothing panics under this lock");
        all.get(&file).cloned()
    }
}
