//! Readdirplus prefetch: reads names and attributes for this node's memory, under leave of the session.
//!
//! A few lookups in a directory go to the store. When more come, of one node or of a herd, the session has the
//! directory read as a whole, by one node for all. That node also reads attributes of its first files: of many if the
//! store sends both together, so that its client has them at hand, else of a few. It has leave to read them before
//! others hear the names, and tells some while it reads the next. Attributes of other files are asked for many at a
//! time, and read a few at a time, so that no lookup waits for many others. A herd that asks for the same files in the
//! same order shares that work. If another node is at the files that a node wants, the node reads some of a part of its
//! own of the directory, and then awaits those that the others read.
//!
//! A program that lists a directory is told names in the store's order. Attributes that go with an answer are asked for
//! in that order, and of no other files.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hearth_client::asking::{
    BATCH, BATCH_MAX, LOCATED_AT_ONCE, LOOKS_AT_ONCE, LOOKS_EACH, Question, READ_AT_ONCE,
    read_along,
};
use hearth_client::waits::{Asks, Holds};
use hearth_client::{AttributesLeave, AttributesRead, FileKey, NamesLeave, NamesRead};
use rustix::fs::{Mode, OFlags, RawDir};

use crate::attributes::Told;
use crate::core::Core;
use crate::directories::{Ahead, Item};
use crate::errors::{Sought, ask, ask_or, ask_soon, raw};
use crate::holding;
use crate::identity::Caller;
use crate::listing::Listing;
use crate::memory::{Known, Mark, OnItsWay};
use crate::names::{Entry, Name, Series};
use crate::nodes::{Inode, StoreKey, open_path, proc_path};
use crate::stat::Stat;

/// Names that one lookup looks at for files to ask for: a directory may have many more, of which all are known.
const LOOKED_AT_MAX: usize = 4096;
/// A directory with more names is not read as a whole.
const LISTED_MAX: usize = 1 << 18;
const LISTING_BYTES: usize = 64 * 1024;

/// The directory in which files are looked at.
#[derive(Clone, Copy)]
pub(crate) struct Within<'a> {
    pub(crate) dir: u64,
    pub(crate) listing: &'a Listing,
    /// Nodes that look at files of it at one time.
    pub(crate) readers: usize,
}

/// A lookup that was answered out of memory, or why not.
pub(crate) enum Remembered {
    Entry(Box<Entry>),
    Absent,
    /// Ask the store.
    No,
    /// Ask [`Core::lookup`], which may wait.
    Perhaps,
}

/// While it lives, nobody keeps what is being changed.
#[must_use = "dropping it ends the change"]
pub(crate) struct Changing<'a> {
    core: &'a Core,
    files: Vec<FileKey>,
    /// The status change time that the change of one of them led to, if somebody looked.
    pub(crate) ctime: Option<(FileKey, i64)>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        for &file in &self.files {
            let seen = self.ctime.filter(|&(of, _)| of == file);
            let ctime_ns = seen.map_or(0, |(_, ctime_ns)| ctime_ns);
            self.core.session.changed(file, ctime_ns);
            holding::note(|holds| holds.end_change(file.ino));
        }
    }
}

/// A question about files.
#[derive(Clone, Copy)]
enum Inquiry {
    /// For leave to keep attributes.
    Leave,
    /// For what others read, once they have.
    Known,
}

/// Files for which leave was asked, and what was answered of each.
struct Asked<'a> {
    batch: &'a [(FileKey, &'a OsStr)],
    marks: Vec<Mark>,
    leaves: Vec<AttributesLeave>,
}

impl Core {
    /// Has every node let go of names and attributes that are about to change.
    pub(crate) fn changing(&self, files: &[Option<FileKey>]) -> io::Result<Changing<'_>> {
        let mut files: Vec<FileKey> = files.iter().copied().flatten().collect();
        files.sort_unstable();
        files.dedup();
        let changing = Changing {
            core: self,
            files,
            ctime: None,
        };
        for &file in &changing.files {
            holding::asks(Asks::Change(file.ino));
            ask(|done| self.session.change(file, done))?;
            holding::note(|holds| holds.begin_change(file.ino));
        }
        Ok(changing)
    }

    /// The session's key of a directory whose names may be kept.
    pub(crate) fn directory(&self, id: u64) -> Option<FileKey> {
        let node = self.nodes.node(id).ok()?;
        self.nodes.leasable(node.key, node.kind)
    }

    /// A lookup out of memory alone: never waits.
    pub(crate) fn remember(&self, caller: Caller, at: Name<'_>) -> Remembered {
        // The store judges callers whose rights differ from those under which a directory was read.
        if !self.memory.is_on() || !self.wardrobe.is_own(caller) {
            return Remembered::No;
        }
        let Some(dir) = self.directory(at.parent) else {
            return Remembered::No;
        };
        match self.memory.name(dir, at.name) {
            Known::There(stat, ttl, way) => {
                Remembered::Entry(Box::new(self.entry_kept(caller, at, (stat, ttl, way))))
            }
            Known::Absent => Remembered::Absent,
            Known::Nothing => Remembered::No,
            Known::Unread(..) | Known::Burst => Remembered::Perhaps,
        }
    }

    /// An entry for attributes that nobody could call back, for this answer alone.
    fn entry_once(&self, caller: Caller, at: Name<'_>, once: Stat) -> Entry {
        let node = self.remembered(at, &once);
        let told = self.told_once(caller, &node, once);
        self.entry(&node, told)
    }

    /// Attributes of one file, from whoever has them; `None`: ask the store. May wait for the session.
    pub(crate) fn look_alone(&self, caller: Caller, node: &Inode) -> Option<Told> {
        let file = self.nodes.leasable(node.key, node.kind)?;
        let mark = self.memory.begin(file);
        let leave = *self.ask_for(&[file], Inquiry::Leave)?.first()?;
        if let AttributesLeave::Once(told) = leave {
            let once = Stat::told(self.nodes.dev(), file.ino, told);
            self.memory.keep(mark, None);
            return node.is(&once).then(|| self.told_once(caller, node, once));
        }
        let told = match leave {
            AttributesLeave::Known(told) => Ok(Stat::told(self.nodes.dev(), file.ino, told)),
            AttributesLeave::Read { floor_ns, .. } => self.stat_since(node, floor_ns),
            AttributesLeave::No | AttributesLeave::Later | AttributesLeave::Once(_) => {
                Err(raw(libc::ENODATA))
            }
        };
        let learned = self.settle_leave(file, leave, mark, told);
        self.tell_learned(learned.into_iter().collect());
        self.told_at_once(caller, node.id)
    }

    fn entry_kept(&self, caller: Caller, at: Name<'_>, kept: (Stat, Duration, OnItsWay)) -> Entry {
        let node = self.remembered(at, &kept.0);
        self.entry_from(caller, &node, kept)
    }

    fn remembered(&self, at: Name<'_>, stat: &Stat) -> Arc<Inode> {
        self.leave_old_place(at, stat);
        self.nodes.remembered(at.parent, at.name, stat)
    }

    /// A lookup for which memory is worth being filled. May wait for the session.
    pub(crate) fn prefetch(
        &self,
        caller: Caller,
        at: Name<'_>,
        series: &mut Series<'_>,
    ) -> io::Result<Option<Entry>> {
        let Some(dir) = self.directory(at.parent) else {
            return Ok(None);
        };
        let mut known = self.memory.name(dir, at.name);
        if let Known::Burst = known {
            let has = |once: &Listing| once.find(at.name).is_some();
            if !series.once.as_ref().is_some_and(has) {
                *series.once = self.list(at, dir, series.ahead);
            }
            if let Some(once) = series.once {
                return self.prefetch_once(caller, at, once, series.ahead);
            }
            known = self.memory.name(dir, at.name);
        }
        if let Known::Unread(file, listing) = known {
            if let Some(once) = self.prefetch_from(at, file, &listing, series.ahead) {
                return Ok(Some(self.entry_once(caller, at, once)));
            }
            known = self.memory.name(dir, at.name);
        }
        match known {
            Known::There(stat, ttl, way) => Ok(Some(self.entry_kept(caller, at, (stat, ttl, way)))),
            Known::Absent => Err(raw(libc::ENOENT)),
            Known::Nothing | Known::Burst | Known::Unread(..) => Ok(None),
        }
    }

    /// A lookup in names that serve it alone: nobody could call them back.
    fn prefetch_once(
        &self,
        caller: Caller,
        at: Name<'_>,
        once: &Listing,
        ahead: &Ahead,
    ) -> io::Result<Option<Entry>> {
        self.session.name_unheard();
        let file = match once.find(at.name) {
            None => return Err(raw(libc::ENOENT)),
            Some(None) => return Ok(None),
            Some(Some(file)) => file,
        };
        if let Some(stat) = self.prefetch_from(at, file, once, ahead) {
            return Ok(Some(self.entry_once(caller, at, stat)));
        }
        let kept = self.memory.attributes(file);
        Ok(kept.map(|kept| self.entry_kept(caller, at, kept)))
    }

    /// Prefetches the names of a directory, if there is leave to keep them: of another node, or of the store. Names
    /// that cannot be read are not kept, and lookups go to the store. Names that may not be kept come back.
    fn list(&self, at: Name<'_>, dir: FileKey, ahead: &Ahead) -> Option<Listing> {
        let (names, attributes) = (self.memory.begin(dir), self.memory.begin(dir));
        let told = self.ask_names(dir);
        let Some(NamesLeave { leave, names: told }) = told else {
            self.memory.keep_listing(names, None);
            self.memory.keep(attributes, None);
            return None;
        };
        if let (AttributesLeave::Once(_), Some(told)) = (leave, told.as_ref()) {
            self.memory.keep(names, None);
            self.memory.keep(attributes, None);
            return Some(Listing::new(told.clone()));
        }
        // Before the names: what the store's client shows of them is then not older.
        let stat = match leave {
            AttributesLeave::Read { .. } => self.nodes.fd(at.parent).and_then(|fd| Stat::of(&*fd)),
            AttributesLeave::Known(told) => Ok(Stat::told(self.nodes.dev(), dir.ino, told)),
            AttributesLeave::No | AttributesLeave::Later | AttributesLeave::Once(_) => {
                Err(raw(libc::ENODATA))
            }
        };
        let fresh = stat.as_ref().is_ok_and(|stat| is_fresh(leave, stat));
        let listing = match told {
            Some(told) => Some(Listing::new(told)),
            None if fresh => self.read_names(at.parent).ok().map(Listing::just_read),
            None => None,
        };
        if let (AttributesLeave::Read { number, .. }, Some(listing)) = (leave, &listing) {
            self.locate(listing);
            // Before the names are told, so that nobody asks for leave to read the same.
            let along = self.files_along(at, listing, ahead);
            let asked = self.ask_along(&along);
            self.session.listed(dir, number, Some(listing.told()));
            let within = Within {
                readers: 1,
                ..self.within(at.parent, listing)
            };
            for asked in asked {
                self.read_asked(within, asked);
            }
        }
        self.memory.keep_listing(names, listing.filter(|_| fresh));
        let learned = self.settle_leave(dir, leave, attributes, stat);
        if let AttributesLeave::Read { .. } = leave {
            holding::note(Holds::told_names);
        }
        self.session.learned(learned.into_iter().collect());
        None
    }

    /// Asks for the names of a directory. Leave to read them that comes too late is given back.
    fn ask_names(&self, dir: FileKey) -> Option<NamesLeave> {
        holding::asks(Asks::Names);
        let session = Arc::clone(&self.session);
        let background = self.background.queue();
        let told = ask_or(
            Sought::of("the names of a directory", dir),
            |done| self.session.names(dir, done),
            move |late: NamesLeave| {
                background.later(move || session.learned(unread(&[dir], &[late.leave])))
            },
        );
        let told = told.ok().flatten();
        if let Some(AttributesLeave::Read { .. }) = told.as_ref().map(|told| told.leave) {
            holding::note(Holds::given_names);
        }
        told
    }

    /// Finds out who manages the files of a directory: a node that reads it as a whole will ask for them.
    fn locate(&self, listing: &Listing) {
        let files: Vec<FileKey> = listing.all().map(|(file, _)| file).collect();
        for some in files.chunks(LOCATED_AT_ONCE) {
            // Only a way to ask less often.
            let sought = Sought::of("who manages files of a directory, the first", some[0]);
            holding::asks(Asks::AtOnce);
            let _ = ask_soon(sought, |done| self.session.locate(some.to_vec(), done));
        }
    }

    /// Files behind a name, of which this node reads the attributes along with the names.
    fn files_along<'a>(
        &self,
        at: Name<'_>,
        listing: &'a Listing,
        ahead: &'a Ahead,
    ) -> Vec<(FileKey, &'a OsStr)> {
        let most = match self.session.looks_alone() {
            true => 0,
            false => read_along(self.attributes_come_along),
        };
        if most <= READ_AT_ONCE && !ahead.is_empty() {
            return self.upcoming(listing, ahead, most);
        }
        let unread = listing.from(at.name).filter(|file| self.is_unread(file));
        unread.take(most).collect()
    }

    /// The next files of a program's listing that have to be read. Names do not come in the order of their bytes.
    fn upcoming<'a>(
        &self,
        listing: &Listing,
        ahead: &'a Ahead,
        most: usize,
    ) -> Vec<(FileKey, &'a OsStr)> {
        let file = |item: &'a Item| Some((listing.find(item.name())??, item.name()));
        let unread = ahead
            .iter()
            .filter_map(file)
            .filter(|file| self.is_unread(file));
        unread.take(most).collect()
    }

    fn is_unread(&self, (file, _): &(FileKey, &OsStr)) -> bool {
        !self.memory.has(*file)
    }

    /// Asks for leave to read them. Others wait for the names meanwhile, so it must not wait for attributes itself:
    /// it never asks for one file alone.
    fn ask_along<'a>(&self, files: &'a [(FileKey, &'a OsStr)]) -> Vec<Asked<'a>> {
        let batches = files.chunks(BATCH_MAX);
        let batches = batches.filter(|batch| batch.len() > 1);
        batches
            .map(|batch| self.ask_leaves(batch, Inquiry::Leave))
            .collect()
    }

    /// A directory in which each node of this job looks at files.
    fn within<'a>(&self, dir: u64, listing: &'a Listing) -> Within<'a> {
        let readers = self.session.share().parts;
        Within {
            dir,
            listing,
            readers,
        }
    }

    /// Prefetches the attributes of one file, and of some behind it. Returns what may not be kept of the first.
    fn prefetch_from(
        &self,
        at: Name<'_>,
        wanted: FileKey,
        listing: &Listing,
        ahead: &Ahead,
    ) -> Option<Stat> {
        if self.memory.is_stale(wanted) && self.read_again(at, wanted) {
            return None;
        }
        let (alone, within) = ([(wanted, at.name)], self.within(at.parent, listing));
        if self.session.looks_alone() {
            return match self.prefetch_batch(within, &alone) {
                Some(AttributesLeave::Once(told)) => {
                    Some(Stat::told(self.nodes.dev(), wanted.ino, told))
                }

                _ => None,
            };
        }
        let near = |count: usize| -> Vec<(FileKey, &OsStr)> {
            let other = |file: &(FileKey, &OsStr)| file.0 != wanted && self.is_unread(file);
            let near = listing.from(at.name).take(LOOKED_AT_MAX);
            let others = near.filter(other).take(count - 1);
            alone.into_iter().chain(others).collect()
        };
        let mut next = match ahead.is_empty() {
            true => Some(Question::first(listing.is_shared())),
            false if self.prefetch_ahead(within, ahead) => return None,
            false => Some(Question::Alone),
        };
        while let Some(question) = next {
            let first = match question {
                Question::Near => self.prefetch_batch(within, &near(listing.next_asked())),
                Question::Own => {
                    listing.share();
                    self.prefetch_own(within);
                    None
                }
                Question::Awaited => self.await_batch(within, &near(listing.next_asked())),
                Question::Unread => self.prefetch_batch(within, &near(BATCH)),
                Question::Alone => self.prefetch_batch(within, &alone),
            };
            next = question.next(first == Some(AttributesLeave::Later));
        }
        None
    }

    /// Prefetches attributes of the next files of a program's listing, and of no others. Says whether the first are known.
    fn prefetch_ahead(&self, within: Within<'_>, ahead: &Ahead) -> bool {
        let next = self.upcoming(within.listing, ahead, READ_AT_ONCE);
        let asked = self.ask_leaves(&next, Inquiry::Leave);
        let is_later = |leave: &AttributesLeave| *leave == AttributesLeave::Later;
        let given = next.iter().zip(&asked.leaves);
        let later: Vec<_> = given
            .filter(|(_, leave)| is_later(leave))
            .map(|(&file, _)| file)
            .collect();
        self.read_asked(within, asked);
        if !later.is_empty() {
            self.await_batch(within, &later);
        }
        next.first().is_some_and(|first| !self.is_unread(first))
    }

    /// Reads some of this node's part of a directory.
    fn prefetch_own(&self, within: Within<'_>) {
        let part = within.listing.part(self.session.share());
        let part = part.take(LOOKED_AT_MAX);
        let mut own = part.filter(|file| self.is_unread(file)).peekable();
        if own.peek().is_some() {
            let own: Vec<(FileKey, &OsStr)> = own.take(within.listing.next_own()).collect();
            self.prefetch_batch(within, &own);
        }
    }

    /// Asks for leave and attributes of several files; says what was answered of the first.
    fn prefetch_batch(
        &self,
        within: Within<'_>,
        batch: &[(FileKey, &OsStr)],
    ) -> Option<AttributesLeave> {
        self.prefetch_by(within, batch, Inquiry::Leave)
    }

    /// The same of what other nodes read, once they have read it.
    fn await_batch(
        &self,
        within: Within<'_>,
        batch: &[(FileKey, &OsStr)],
    ) -> Option<AttributesLeave> {
        self.prefetch_by(within, batch, Inquiry::Known)
    }

    fn prefetch_by(
        &self,
        within: Within<'_>,
        batch: &[(FileKey, &OsStr)],
        question: Inquiry,
    ) -> Option<AttributesLeave> {
        let asked = self.ask_leaves(batch, question);
        let first = asked.leaves.first().copied();
        self.read_asked(within, asked);
        first
    }

    fn ask_leaves<'a>(&self, batch: &'a [(FileKey, &'a OsStr)], question: Inquiry) -> Asked<'a> {
        let files: Vec<FileKey> = batch.iter().map(|(file, _)| *file).collect();
        let marks = files.iter().map(|&file| self.memory.begin(file)).collect();
        Asked {
            batch,
            marks,
            leaves: self.ask_for(&files, question).unwrap_or_default(),
        }
    }

    /// Asks about files, of which there is at least one.
    fn ask_for(&self, files: &[FileKey], question: Inquiry) -> Option<Vec<AttributesLeave>> {
        let (order, what) = match (question, files) {
            (Inquiry::Leave, [_, _, ..]) => (
                Asks::AtOnce,
                "leave to keep attributes of some files, the first",
            ),
            (Inquiry::Leave, _) => (Asks::Read, "leave to keep attributes"),
            (Inquiry::Known, _) => (Asks::Read, "attributes that another agent reads"),
        };
        holding::asks(order);
        let session = Arc::clone(&self.session);
        let asked = files.to_vec();
        let background = self.background.queue();
        // Without leave the store is asked: no reason to fail. Leave to read that comes too late is given back.
        let leaves = ask_or(
            Sought::of(what, *files.first()?),
            |done| match question {
                Inquiry::Leave => self.session.leave(files.to_vec(), done),
                Inquiry::Known => self.session.await_leave(files.to_vec(), done),
            },
            move |leaves: Vec<AttributesLeave>| {
                background.later(move || session.learned(unread(&asked, &leaves)))
            },
        );
        let leaves = leaves.ok().flatten()?;
        let reads = leaves
            .iter()
            .filter(|leave| matches!(leave, AttributesLeave::Read { .. }));
        holding::note(|holds| holds.given_files(reads.count()));
        Some(leaves)
    }

    /// Others hear of what this thread was to read.
    fn tell_learned(&self, learned: Vec<AttributesRead>) {
        if !learned.is_empty() {
            holding::note(|holds| holds.told_files(learned.len()));
            self.session.learned(learned);
        }
    }

    /// Keeps what was answered, and reads what may be read; others hear of some while the next are read.
    fn read_asked(&self, within: Within<'_>, asked: Asked<'_>) {
        let answers = asked
            .leaves
            .into_iter()
            .chain(std::iter::repeat(AttributesLeave::No));
        let mut each = asked.batch.iter().zip(asked.marks).zip(answers).peekable();
        let mut left = READ_AT_ONCE;
        while each.peek().is_some() {
            let some: Vec<_> = each.by_ref().take(READ_AT_ONCE).collect();
            let may_be_read =
                |leave: &AttributesLeave| matches!(leave, AttributesLeave::Read { .. });
            let reads = some.iter().filter(|(_, leave)| may_be_read(leave));
            let mut reads: Vec<&OsStr> = reads.map(|((file, _), _)| file.1).collect();
            // Attributes at hand may grow old between some and the next.
            if !self.prefetch_attributes(within, reads.len()) {
                reads.truncate(left);
                left -= reads.len();
            }
            let mut looks = self.look_at(within.dir, &reads).into_iter();
            let settled = some.into_iter().map(|((&(file, _), mark), leave)| {
                let told = match leave {
                    // Another node may read what is too much for now.
                    AttributesLeave::Read { .. } => {
                        looks.next().unwrap_or_else(|| Err(raw(libc::EAGAIN)))
                    }
                    AttributesLeave::Known(told) => {
                        Ok(Stat::told(self.nodes.dev(), file.ino, told))
                    }
                    AttributesLeave::No | AttributesLeave::Later | AttributesLeave::Once(_) => {
                        Err(raw(libc::ENODATA))
                    }
                };
                self.settle_leave(file, leave, mark, told)
            });
            let learned: Vec<AttributesRead> = settled.flatten().collect();
            self.tell_learned(learned);
        }
    }

    /// Attributes of several files, of which some are asked for at one time.
    fn look_at(&self, dir: u64, names: &[&OsStr]) -> Vec<io::Result<Stat>> {
        let look = |names: &[&OsStr]| -> Vec<io::Result<Stat>> {
            names.iter().map(|name| self.look(dir, name)).collect()
        };
        let each = names.len().div_ceil(LOOKS_AT_ONCE).max(LOOKS_EACH);
        let Some((first, others)) = names.split_at_checked(each) else {
            return look(names);
        };
        thread::scope(|scope| {
            let begin = |some| thread::Builder::new().spawn_scoped(scope, move || look(some));
            // Without another thread it only takes longer.
            let others: Vec<_> = others
                .chunks(each)
                .map(|some| (some, begin(some)))
                .collect();
            let mut stats = look(first);
            for (some, other) in others {
                let looked = other.map(|other| other.join().expect("a look does not panic"));
                stats.extend(looked.unwrap_or_else(|_| look(some)));
            }
            stats
        })
    }

    fn look(&self, dir: u64, name: &OsStr) -> io::Result<Stat> {
        Stat::of(open_path(&*self.nodes.fd(dir)?, name)?)
    }

    /// All names of a directory, from the store.
    pub(crate) fn read_names(&self, id: u64) -> io::Result<NamesRead> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(proc_path(&*self.nodes.fd(id)?), flags, Mode::empty())?;
        let dev = self.nodes.dev();
        let mut names = Vec::new();
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == LISTED_MAX {
                return Err(raw(libc::E2BIG));
            }
            let ino = entry.ino();
            // A mount below shows another number, under which nothing is found that could be kept.
            let file = self
                .nodes
                .leasable(StoreKey { dev, ino }, entry.file_type());
            names.push((name, file));
            if entries.is_buffer_empty() {
                // Linux has a client of FUSE or NFS send attributes along with the next names only if somebody has
                // looked at one of the last.
                let last = names.last().map(|(name, _)| OsStr::from_bytes(name));
                let _ = last.map(|name| open_path(&fd, name));
            }
        }
        Ok(names)
    }

    /// Keeps what was read under leave; returns what the session is to be told.
    fn settle_leave(
        &self,
        file: FileKey,
        leave: AttributesLeave,
        mark: Mark,
        told: io::Result<Stat>,
    ) -> Option<AttributesRead> {
        let told = told.ok().filter(|stat| {
            let kept = self.nodes.leasable(stat.key(), stat.kind());
            is_fresh(leave, stat) && stat.links() > 0 && stat.can_be_told() && kept == Some(file)
        });
        self.memory.keep(mark, told);
        match leave {
            AttributesLeave::Read { number, .. } => Some(AttributesRead {
                file,
                number,
                attributes: told.map(|stat| stat.attributes()),
            }),
            AttributesLeave::No
            | AttributesLeave::Later
            | AttributesLeave::Known(_)
            | AttributesLeave::Once(_) => None,
        }
    }

    /// Reads attributes anew for which there still is leave; true if they are kept.
    fn read_again(&self, at: Name<'_>, file: FileKey) -> bool {
        let mark = self.memory.begin(file);
        let still = self.memory.is_stale(file);
        let told = self
            .look(at.parent, at.name)
            .ok()
            .filter(|told| still && self.nodes.leasable(told.key(), told.kind()) == Some(file));
        self.memory.keep(mark, told);
        told.is_some()
    }

    /// Makes sure that a node found in memory is what the store has, before its bytes are used.
    pub(crate) fn confirm(&self, node: &Inode) -> io::Result<()> {
        self.nodes.confirm(node.id).map_err(|dir| {
            if let Some(dir) = self.directory(dir) {
                self.memory.distrust(dir);
            }
            // The kernel looks the name up again, once.
            raw(libc::ESTALE)
        })
    }
}

/// Word that this node reads nothing of what it was given to read.
fn unread(files: &[FileKey], leaves: &[AttributesLeave]) -> Vec<AttributesRead> {
    let void = |(&file, leave): (&FileKey, &AttributesLeave)| match *leave {
        AttributesLeave::Read { number, .. } => Some(AttributesRead {
            file,
            number,
            attributes: None,
        }),
        AttributesLeave::No
        | AttributesLeave::Later
        | AttributesLeave::Known(_)
        | AttributesLeave::Once(_) => None,
    };
    files.iter().zip(leaves).filter_map(void).collect()
}

/// Whether attributes may be kept under a leave: they are not older than a change that it knows of.
fn is_fresh(leave: AttributesLeave, stat: &Stat) -> bool {
    match leave {
        AttributesLeave::Read { floor_ns, .. } => stat.stamp().ctime_ns >= floor_ns,
        AttributesLeave::Known(_) => true,
        AttributesLeave::No | AttributesLeave::Later | AttributesLeave::Once(_) => false,
    }
}
