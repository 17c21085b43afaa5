//! Recovery of the bytes that an earlier life of the agent left in its tier.
//!
//! Blocks count if their checksums hold. Those that the store lacks go there now; copies stay, and are
//! compared with the store's stamp at their first use. Bytes are put aside, and named, if the file is not where it was,
//! is another one, or was written by somebody later than the tier last knew. Only the store's own clock says what is
//! later, because this node's may be off by hours. A modification time that went back is one that was set by hand, as
//! `cp -p` does, and says nothing.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use hearth_client::FileStamp;
use hearth_client::words::counted;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::block::BLOCK;
use super::journal::Record;
use super::kept::{Durable, Kept};
use super::{Entry, Tier};

impl Tier {
    /// Brings to the store what an earlier life left here and it lacks; the second time there is nothing.
    pub fn recover(&self, root: BorrowedFd<'_>) -> io::Result<()> {
        let records =
            std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        if records.is_empty() {
            return Ok(());
        }
        let mut files: HashMap<u64, Kept> = HashMap::new();
        for record in records {
            replay(&mut files, record);
        }
        for (ino, mut kept) in files {
            if kept.blocks.is_empty() {
                continue;
            }
            self.shelf.count(kept.blocks.len() as u64 * BLOCK as u64);
            if kept.is_dirty() {
                match self.found(root, &kept) {
                    Ok(fd) => {
                        kept.write_again();
                        self.has_store(&mut kept, fd);
                    }
                    Err(why) if kept.dirty_bytes() > 0 => {
                        self.put_aside(&mut kept, &why)?;
                        continue;
                    }
                    // The store had all of it, and has something newer now.
                    Err(_) => {
                        kept.drop_where(&self.shelf, |_, _| true);
                        continue;
                    }
                }
            }
            let entry = Arc::new(Entry::default());
            *entry.kept() = kept;
            self.files().insert(ino, Arc::clone(&entry));
            let settled = self.settle_entry(&entry, Durable::Yes);
            self.note_lost(&entry.kept());
            if let Err(errno) = settled {
                let kept = entry.kept();
                let why = io::Error::from_raw_os_error(errno.0);
                let path = kept.path.display();
                self.note(format!(
                    "cannot bring `{path}` from the tier to the store: {why}"
                ));
            }
        }
        let entries: Vec<_> = self.files().values().cloned().collect();
        let records = entries.iter().flat_map(|entry| entry.kept().records());
        self.shelf.rewrite(&records.collect::<Vec<_>>())
    }

    /// The file in the store, if it is still the one that the tier has bytes of.
    fn found(&self, root: BorrowedFd<'_>, kept: &Kept) -> Result<OwnedFd, String> {
        let fd = open(root, &kept.path).map_err(|error| format!("it cannot be opened: {error}"))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| error.to_string())?;
        if stat.st_ino != kept.ino {
            return Err("another file has its name now".to_owned());
        }
        let now = self.inner.stamp(fd.as_fd());
        let now = now.map_err(|errno| format!("error {}", errno.0))?;
        match kept.stamp {
            Some(known) if self.knows(kept) && self.is_later(now, known, kept.is_sure) => {
                Err("somebody has written to it since".to_owned())
            }
            Some(_) | None => Ok(fd),
        }
    }

    /// True if a stamp that is later than the known one is somebody else's. An agent that died while it wrote to the
    /// store may have made it itself; but where others keep what it has, they have brought that, and newer bytes may
    /// have come since.
    fn knows(&self, kept: &Kept) -> bool {
        !kept.is_open || self.config.kept_elsewhere
    }

    /// True if a file was written after the tier knew it. Within the same tick of the store's clock those may have done
    /// so that keep what it has: what they have brought, or the tier's, is newer, and the tier's is not lost.
    fn is_later(&self, now: FileStamp, known: FileStamp, is_sure: bool) -> bool {
        let same = now.mtime_ns == known.mtime_ns;
        now.mtime_ns > known.mtime_ns || same && !is_sure && self.config.kept_elsewhere
    }

    fn put_aside(&self, kept: &mut Kept, why: &str) -> io::Result<()> {
        let (ino, path) = (kept.ino, kept.path.display().to_string());
        let bytes = kept.dirty_bytes();
        let place = match self.shelf.put_aside(ino) {
            Ok(place) => format!("they are in `{}`", place.display()),
            Err(error) => format!("and they could not be put aside: {error}"),
        };
        kept.drop_where(&self.shelf, |_, _| true);
        self.note(format!(
            "{} of `{path}` cannot go to the store, {why}; {place}",
            counted(bytes, "byte")
        ));
        Ok(())
    }
}

fn open(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
}

fn replay(files: &mut HashMap<u64, Kept>, record: Record) {
    match record {
        Record::File { ino, path } => {
            let kept = Kept {
                ino,
                path,
                ..Kept::default()
            };
            files.insert(ino, kept);
        }
        Record::Block { ino, number, block } => {
            of(files, ino).blocks.insert(number, block);
        }
        Record::Stands {
            ino,
            first,
            count,
            stand,
        } => {
            let blocks = first..first.saturating_add(count);
            for (_, block) in of(files, ino).blocks.range_mut(blocks) {
                block.stand = stand;
            }
        }
        Record::Opens { ino } => of(files, ino).is_open = true,
        Record::Closes {
            ino,
            stamp,
            is_sure,
        } => {
            let kept = of(files, ino);
            (kept.stamp, kept.is_sure) = (Some(stamp), is_sure);
            kept.is_open = false;
        }
        Record::Drops { ino } => of(files, ino).blocks.clear(),
        Record::DropsOne { ino, number } => {
            of(files, ino).blocks.remove(&number);
        }
    }
}

fn of(files: &mut HashMap<u64, Kept>, ino: u64) -> &mut Kept {
    let kept = files.entry(ino).or_default();
    kept.ino = ino;
    kept
}
