//! The cells that programs write, and the versions that reads may return.
//!
//! Every block, the modification time of every file of a second kind, and the one name of each directory is a
//! cell. A read may return the version of the last write that was over when the read began, or of one that began
//! before the read was over. While no gateway is killed it may not return an older one than a read that was over
//! before, either.

use super::{LEASE, SLACK};
use crate::bench::cells::{BLOCK, Cell, Dice, Wrong, filled, in_store, version_of};
use hearth_set::failure::{Failure, OrFail};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FILES: usize = 4;
const BLOCKS: usize = 8;

/// The versions that a read must not be older than.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strict {
    /// Those of acknowledged writes.
    Acknowledged,
    /// Those too that another read has returned.
    Seen,
}

/// Results of the load.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) stats: u64,
    pub(super) changes: u64,
    pub(super) renames: u64,
    pub(super) lookups: u64,
    pub(super) listings: u64,
    /// Refused after a gateway was killed.
    pub(super) refused: u64,
    pub(super) wrong: Wrong,
    /// Writes and changes that took more than a lease.
    pub(super) past_lease: u64,
    pub(super) longest_write: Duration,
}

impl Found {
    pub(super) fn add(&mut self, other: Found) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.stats += other.stats;
        self.changes += other.changes;
        self.renames += other.renames;
        self.lookups += other.lookups;
        self.listings += other.listings;
        self.refused += other.refused;
        self.past_lease += other.past_lease;
        self.longest_write = self.longest_write.max(other.longest_write);
        self.wrong.join(other.wrong);
    }
}

/// All cells, and the checker.
#[derive(Default)]
pub(super) struct Board {
    blocks: [[Cell; BLOCKS]; FILES],
    times: [Cell; FILES],
    names: [Cell; FILES],
    done: AtomicU64,
    lenient: AtomicBool,
    /// An agent is dead, or about to be.
    mourned: AtomicBool,
    /// It is dead, and all others have heard of it.
    heard: AtomicBool,
    /// A hand has ended before it was told to.
    over: AtomicBool,
    found: Mutex<Found>,
}

impl Board {
    /// Makes the files, each cell of version 0.
    pub(super) fn lay_out(at: &Path) -> Result<(), Failure> {
        let made = (0..FILES).try_for_each(|file| {
            std::fs::write(at.join(content(file)), vec![0; BLOCKS * BLOCK])?;
            std::fs::write(at.join(dated(file)), b"")?;
            set_time(&at.join(dated(file)), 0)?;
            std::fs::create_dir(at.join(named(file)))?;
            std::fs::write(at.join(named(file)).join(name_of(0)), b"")
        });
        made.or_fail(|| "cannot make the files".to_owned())
    }

    pub(super) fn begin(&self, strict: Strict) {
        let lenient = strict == Strict::Acknowledged;
        self.lenient.store(lenient, Ordering::SeqCst);
        self.mourned.store(false, Ordering::SeqCst);
        self.heard.store(false, Ordering::SeqCst);
    }

    /// An agent is about to be killed. From then on what only it could decide is refused. Names and attributes that
    /// it managed, or alone knew who does, change without a word, and who has not heard of its end may tell what he
    /// keeps (S13).
    pub(super) fn mourn(&self) {
        self.mourned.store(true, Ordering::SeqCst);
    }

    /// All others have heard of it: whatever looks at names and attributes from now on finds what was acknowledged.
    pub(super) fn hear(&self) {
        self.heard.store(true, Ordering::SeqCst);
    }

    fn have_all_heard(&self) -> bool {
        self.heard.load(Ordering::SeqCst)
    }

    /// Whether a look at a name or at attributes is judged that is over now, and before which all had heard or not.
    fn is_judged(&self, heard: bool) -> bool {
        heard || !self.is_mourned()
    }

    fn is_mourned(&self) -> bool {
        self.mourned.load(Ordering::SeqCst)
    }

    /// Reads and writes that are over.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// The load has ended by itself.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Results since the last call of this.
    pub(super) fn take_found(&self) -> Found {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One program: hands 0 and 1 write and change files of their own, 2 and 3 read and look at all.
    pub(super) fn work(&self, done: &AtomicBool, at: &Path, hand: usize, seed: u64) {
        let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(hand as u64));
        let writes = hand / 2 == 0;
        let opened: io::Result<Vec<File>> = (0..FILES)
            .map(|file| match writes && file / 2 == hand {
                true => File::options()
                    .read(true)
                    .write(true)
                    .open(at.join(content(file))),
                false => File::open(at.join(content(file))),
            })
            .collect();
        let files = match opened {
            Ok(files) => files,
            Err(error) => {
                self.wrong(format!("hand {hand} cannot open its files: {error}"));
                return self.over.store(true, Ordering::Relaxed);
            }
        };
        while !done.load(Ordering::Relaxed) {
            let (kind, block) = (dice.roll(8), dice.roll(BLOCKS));
            let file = match writes {
                true => 2 * hand + dice.roll(2),
                false => dice.roll(FILES),
            };
            match (writes, kind) {
                (true, 0..=4) => self.write(&files[file], file, block),
                (true, 5 | 6) => self.change(at, file),
                (true, _) => self.rename(at, file),
                (false, 0..=3) => self.read(&files[file], file, block),
                (false, 4) => self.look(at, file),
                (false, 5) => self.list(at, file),
                (false, _) => self.look_up(at, file, dice.roll(4)),
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A program that reads blocks until its agent is gone; nobody waits for it.
    pub(super) fn visit(&self, done: &AtomicBool, at: &Path, hand: usize, seed: u64) {
        let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(hand as u64));
        let opened: io::Result<Vec<File>> = (0..FILES)
            .map(|file| File::open(at.join(content(file))))
            .collect();
        let files = match opened {
            Ok(files) => files,
            Err(error) => return self.refused("the guest's open", &error),
        };
        while !done.load(Ordering::Relaxed) {
            let (file, block) = (dice.roll(FILES), dice.roll(BLOCKS));
            match self.read_block(&files[file], file, block) {
                Ok(()) => {}
                Err(error) if is_gone(&error) => return,
                Err(error) => self.refused("the guest's read", &error),
            }
        }
    }

    fn rename(&self, at: &Path, file: usize) {
        let cell = &self.names[file];
        let version = cell.begin();
        let (dir, begun) = (at.join(named(file)), Instant::now());
        let moved = std::fs::rename(dir.join(name_of(version - 1)), dir.join(name_of(version)));
        self.wrote(cell, version, begun, moved, |found| &mut found.renames);
    }

    /// Looks for one of the names that were there or will be: one that went may not be found any more, and the
    /// one that is there may not be missed.
    fn look_up(&self, at: &Path, file: usize, back: usize) {
        let (cell, heard) = (&self.names[file], self.have_all_heard());
        let least = cell.least();
        let version = (least + 1).saturating_sub(back as u64);
        let found = std::fs::symlink_metadata(at.join(named(file)).join(name_of(version)));
        let most = cell.most();
        self.note(|found| found.lookups += 1);
        if !self.is_judged(heard) {
            return;
        }
        let what = || format!("{} of {}", name_of(version), named(file));
        match found {
            Ok(_) => self.check_name(cell, (least, version), what),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if version == least && most == least {
                    self.wrong(format!("{} is missed", what()));
                }
            }
            Err(error) => self.refused("a lookup", &error),
        }
    }

    /// A directory has one name at a time; while it is renamed a listing may show both or none.
    fn list(&self, at: &Path, file: usize) {
        let (cell, heard) = (&self.names[file], self.have_all_heard());
        let least = cell.least();
        let listed = std::fs::read_dir(at.join(named(file))).and_then(|entries| {
            let names = entries.map(|entry| entry.map(|entry| version_named(&entry.file_name())));
            names.collect::<io::Result<Vec<Option<u64>>>>()
        });
        let most = cell.most();
        self.note(|found| found.listings += 1);
        if !self.is_judged(heard) {
            return;
        }
        match listed.as_deref() {
            Ok([Some(version)]) => self.check_name(cell, (least, *version), || {
                format!("the name in {}", named(file))
            }),
            Ok(names) if most == least => {
                self.wrong(format!(
                    "{} has {} names, not one",
                    named(file),
                    names.len()
                ));
            }
            Ok(_) => {}
            Err(error) => self.refused("a listing", error),
        }
    }

    fn write(&self, open: &File, file: usize, block: usize) {
        let cell = &self.blocks[file][block];
        let version = cell.begin();
        let (bytes, begun) = (filled(version), Instant::now());
        let written = open.write_all_at(&bytes, (block * BLOCK) as u64);
        self.wrote(cell, version, begun, written, |found| &mut found.writes);
    }

    fn change(&self, at: &Path, file: usize) {
        let cell = &self.times[file];
        let version = cell.begin();
        let begun = Instant::now();
        let changed = set_time(&at.join(dated(file)), version);
        self.wrote(cell, version, begun, changed, |found| &mut found.changes);
    }

    fn wrote(
        &self,
        cell: &Cell,
        version: u64,
        begun: Instant,
        written: io::Result<()>,
        count: fn(&mut Found) -> &mut u64,
    ) {
        let took = begun.elapsed();
        match written {
            Ok(()) => {
                cell.end(version);
            }
            Err(error) => self.refused("a write", &error),
        }
        self.note(|found| {
            *count(found) += 1;
            found.past_lease += u64::from(took > LEASE + SLACK);
            found.longest_write = found.longest_write.max(took);
        });
    }

    fn read(&self, open: &File, file: usize, block: usize) {
        if let Err(error) = self.read_block(open, file, block) {
            self.refused("a read", &error);
        }
    }

    fn read_block(&self, open: &File, file: usize, block: usize) -> io::Result<()> {
        let cell = &self.blocks[file][block];
        let least = cell.least();
        let mut bytes = [0; BLOCK];
        let read = open.read_exact_at(&mut bytes, (block * BLOCK) as u64);
        self.note(|found| found.reads += 1);
        read?;
        let what = || format!("block {block} of {}", content(file));
        match version_of(&bytes) {
            Some(version) => self.check(cell, (least, version), what),
            None => self.wrong(format!("{} is torn", what())),
        }
        Ok(())
    }

    fn look(&self, at: &Path, file: usize) {
        let (cell, heard) = (&self.times[file], self.have_all_heard());
        let least = cell.least();
        let seen = std::fs::metadata(at.join(dated(file)));
        self.note(|found| found.stats += 1);
        if !self.is_judged(heard) {
            return;
        }
        match seen {
            Ok(seen) => self.check_name(cell, (least, seen.mtime().cast_unsigned()), || {
                format!("the time of {}", dated(file))
            }),
            Err(error) => self.refused("a look", &error),
        }
    }

    fn check(&self, cell: &Cell, (least, version): (u64, u64), what: impl Fn() -> String) {
        let most = cell.most();
        if version < least || version > most {
            let what = what();
            self.wrong(format!(
                "{what}: version {version}, though {least} was there and {most} was the last"
            ));
        } else if !self.lenient.load(Ordering::Relaxed) {
            cell.end(version);
        }
    }

    /// As [`Self::check`], of names and attributes: the store says what they are, whichever agent dies, so none that
    /// was seen is followed by an older one.
    fn check_name(&self, cell: &Cell, (least, version): (u64, u64), what: impl Fn() -> String) {
        self.check(cell, (least, version), what);
        if version <= cell.most() {
            cell.end(version);
        }
    }

    /// Before an agent is killed everything is served.
    fn refused(&self, what: &str, error: &io::Error) {
        match self.is_mourned() {
            true => self.note(|found| found.refused += 1),
            false => self.wrong(format!("{what} was refused: {error}")),
        }
    }

    fn wrong(&self, line: String) {
        self.note(|found| found.wrong.add(line));
    }

    fn note(&self, note: impl FnOnce(&mut Found)) {
        note(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Looks for what was acknowledged, in the store itself.
    pub(super) fn look_into(&self, store: &Path) -> Result<(), Failure> {
        (0..FILES).for_each(|file| {
            self.look(store, file);
            self.list(store, file);
        });
        for (file, cells) in self.blocks.iter().enumerate() {
            let versions = in_store(store, &content(file), BLOCKS)?;
            for (block, (cell, version)) in cells.iter().zip(versions).enumerate() {
                let least = cell.least();
                let what = || format!("block {block} of {} in the store", content(file));
                match version {
                    Some(version) => self.check(cell, (least, version), what),
                    None => self.wrong(format!("{} is torn or not there", what())),
                }
            }
        }
        Ok(())
    }
}

fn content(file: usize) -> String {
    format!("content-{file}")
}

fn named(file: usize) -> String {
    format!("named-{file}")
}

fn name_of(version: u64) -> String {
    format!("v{version}")
}

fn version_named(name: &std::ffi::OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix('v')?.parse().ok()
}

/// Whether an agent is not there any more.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOTCONN, Errno::CONNABORTED];
    Errno::from_io_error(error).is_some_and(|errno| gone.contains(&errno))
}

fn dated(file: usize) -> String {
    format!("dated-{file}")
}

fn set_time(path: &Path, version: u64) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT as _,
        },
        last_modification: Timespec {
            tv_sec: version.cast_signed(),
            tv_nsec: 0,
        },
    };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_fires_on_an_old_version_and_on_one_of_the_future() {
        let board = Board::default();
        let cell = Cell::default();
        for _ in 0..5 {
            cell.begin();
        }
        for (least, version, wrong) in [(3, 3, 0), (3, 5, 0), (3, 2, 1), (3, 6, 1)] {
            board.check(&cell, (least, version), String::new);
            assert_eq!(board.take_found().wrong.count, wrong, "{version}");
        }
        assert_eq!(cell.least(), 5);
    }
}
