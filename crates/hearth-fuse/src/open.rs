//! Opening regular files: the store judges, then the session takes over the content.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use fuser::{FileHandle, FopenFlags, OpenAccMode, OpenFlags};
use hearth_client::{Access, OpenFile, OpenedFile, Outcome};
use rustix::fs::{FileType, Mode, OFlags};

use crate::again::{Made, RequestNumber};
use crate::attributes::set_mode;
use crate::core::Core;
use crate::errors::{raw, served, wait};
use crate::handles::{OpenHandle, Way};
use crate::identity::Caller;
use crate::ledger::{self, Fact, Tried};
use crate::names::{Entry, Name};
use crate::nodes::{Inode, proc_path};
use crate::stat::Stat;
use crate::sys::put_on_mask;

const OWNER_READ_WRITE: u32 = 0o600;
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// A file that the store has opened for a caller.
pub(crate) struct StoreOpen {
    pub(crate) node: Arc<Inode>,
    /// The session has it, too: one descriptor for each open.
    fd: Arc<OwnedFd>,
    access: Access,
    private: bool,
    /// By this open.
    made: bool,
    /// It may serve again when it is closed.
    again: bool,
    /// The attributes with which it was granted.
    granted: Option<Stat>,
    /// The request that opens it.
    request: RequestNumber,
    /// Its number, if programs have had it since before this agent.
    number: Option<FileHandle>,
}

/// An open as the kernel is told about it.
pub(crate) struct Opened {
    pub(crate) handle: FileHandle,
    pub(crate) flags: FopenFlags,
}

/// A file made, or found, by `CREATE`.
pub(crate) struct Created {
    pub(crate) entry: Entry,
    pub(crate) open: StoreOpen,
    pub(crate) origin: Origin,
}

/// Whether `CREATE` made its file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Made,
    Found,
}

/// A file to be made by `CREATE`.
#[derive(Clone, Copy)]
pub(crate) struct NewFile<'a> {
    pub(crate) at: Name<'a>,
    pub(crate) mode: u32,
    /// The program's file creation mask, which is not taken off the mode yet.
    pub(crate) umask: u32,
    pub(crate) flags: OpenFlags,
}

pub(crate) fn truncates(flags: OpenFlags) -> bool {
    flags.0 & libc::O_TRUNC != 0
}

/// Tries for one name that others make and remove all the time.
const CREATIONS_MAX: u32 = 100;

/// The operating system opens a file to execute it.
fn executes(flags: OpenFlags) -> bool {
    const FMODE_EXEC: i32 = 0x20;
    flags.0 & FMODE_EXEC != 0
}

fn access(flags: OpenFlags) -> Access {
    match flags.acc_mode() {
        OpenAccMode::O_RDONLY => Access {
            read: true,
            write: false,
        },
        OpenAccMode::O_WRONLY => Access {
            read: false,
            write: true,
        },
        OpenAccMode::O_RDWR => Access {
            read: true,
            write: true,
        },
    }
}

impl Core {
    /// Opens a file in the store under the caller's rights.
    pub(crate) fn open_store(
        &self,
        caller: Caller,
        id: u64,
        flags: OpenFlags,
    ) -> io::Result<StoreOpen> {
        self.close_unanswered(caller);
        let node = self.nodes.node(id)?;
        self.confirm(&node)?;
        let access = access(flags);
        let fd = match access {
            Access { write: false, .. } => match self.open_node(caller, &node, OFlags::RDONLY) {
                Err(error) if executes(flags) && error.raw_os_error() == Some(libc::EACCES) => {
                    self.open_to_execute(caller, &node)
                }
                opened => opened,
            },
            Access { read: true, .. } => self.open_node(caller, &node, OFlags::RDWR),
            // The cache reads around a small write, so it wants to read as well.
            Access { .. } => match self.open_node(caller, &node, OFlags::RDWR) {
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                    self.open_node(caller, &node, OFlags::WRONLY)
                }
                opened => opened,
            },
        }?;
        self.anchor(&node, &fd)?;
        Ok(StoreOpen {
            node,
            fd: Arc::new(fd),
            access,
            private: false,
            made: false,
            again: self.may_be_idle(caller, flags),
            granted: None,
            request: caller.request,
            number: None,
        })
    }

    /// Opens an existing file and empties it. Waits for the session.
    pub(crate) fn open_truncated(
        self: &Arc<Self>,
        caller: Caller,
        open: StoreOpen,
    ) -> io::Result<Opened> {
        let node = Arc::clone(&open.node);
        let _truncation = self.truncation_begins(node.id);
        let opened = wait(|done| self.admit(open, done))??;
        let handle = self.files.find(opened.handle)?;
        let emptied = self
            .resize(caller, &node, Some(&handle), 0)
            .and_then(|()| self.drop_privileges(caller, &node));
        if let Err(error) = emptied {
            self.close(opened.handle);
            return Err(error);
        }
        self.bases.forget_from(node.id, 0);
        self.nodes.tell(node.id, 0, self.nodes.moment());
        Ok(opened)
    }

    /// `CREATE` as far as the store is concerned. The name may be there, and gone once it is looked up: then it is made.
    pub(crate) fn create_store(&self, caller: Caller, new: NewFile<'_>) -> io::Result<Created> {
        let is_code = |error: &io::Error, codes: &[i32]| {
            error
                .raw_os_error()
                .is_some_and(|code| codes.contains(&code))
        };
        let is_own = new.flags.0 & libc::O_EXCL != 0;
        self.close_unanswered(caller);
        if self.is_created(caller, new) {
            return self.open_found(caller, new);
        }
        for _ in 0..CREATIONS_MAX {
            match self.make_file(caller, new) {
                Err(error) if !is_own && is_code(&error, &[libc::EEXIST]) => {}
                made => return made,
            }
            match self.open_found(caller, new) {
                Err(error) if is_code(&error, &[libc::ENOENT, libc::ESTALE]) => {}
                found => return found,
            }
        }
        Err(raw(libc::ESTALE))
    }

    /// Whether the agent before has made the file.
    fn is_created(&self, caller: Caller, new: NewFile<'_>) -> bool {
        let made = Made::Inode(FileType::RegularFile, new.mode, 0);
        match self.before(caller) {
            Some(Tried::Done) => true,
            Some(Tried::Begun) => self.is_like(caller, new.at, made),
            Some(Tried::Refused) | None => false,
        }
    }

    /// Opens a file anew that programs have open since before this agent.
    pub(crate) fn reopen(
        self: &Arc<Self>,
        (node, fd): (Arc<Inode>, OwnedFd),
        (access, number): (Access, FileHandle),
        done: impl FnOnce(io::Result<Opened>) + Send + 'static,
    ) {
        let private = Stat::of(&fd).is_ok_and(|stat| is_shut(&stat, &fd));
        let open = StoreOpen {
            node,
            fd: Arc::new(fd),
            access,
            private,
            made: false,
            again: false,
            granted: None,
            request: RequestNumber::default(),
            number: Some(number),
        };
        self.admit(open, done);
    }

    fn open_found(&self, caller: Caller, new: NewFile<'_>) -> io::Result<Created> {
        let entry = self.look_up(caller, new.at)?;
        let id = entry.attr.ino.0;
        let open = self
            .open_store(caller, id, new.flags)
            .inspect_err(|_| self.nodes.forget(id, 1))?;
        Ok(Created {
            entry,
            open,
            origin: Origin::Found,
        })
    }

    fn make_file(&self, caller: Caller, new: NewFile<'_>) -> io::Result<Created> {
        let access = access(new.flags);
        let mode = new.mode & 0o7777;
        let dir = self.nodes.fd(new.at.parent)?;
        let changing = self.changing(&[self.directory(new.at.parent)])?;
        put_on_mask(new.umask)?;
        let (fd, path, stat, private) = {
            let _as = self.wardrobe.assume(caller)?;
            let fd = self.once(caller, || make_in(&*dir, new.at.name, access, mode))?;
            let path = rustix::fs::open(
                proc_path(&fd),
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let stat = Stat::of(&fd)?;
            let private = is_shut(&stat, &fd);
            (fd, path, stat, private)
        };
        drop(changing);
        let entry = self.enter(caller, new.at, (path, &stat), self.nodes.moment())?;
        if !access.write {
            // An open for writing calls back what is kept by itself.
            self.begin_life(&entry)?;
        }
        let node = self.nodes.node(entry.attr.ino.0)?;
        Ok(Created {
            entry,
            open: StoreOpen {
                node,
                fd: Arc::new(fd),
                access,
                private,
                made: true,
                again: false,
                granted: None,
                request: caller.request,
                number: None,
            },
            origin: Origin::Made,
        })
    }

    /// Hands an opened file to the session. `done` may run on another thread. A file without a name stays with the store:
    /// its homes have brought there what they had before the name went, and its number may soon be that of another.
    pub(crate) fn admit(
        self: &Arc<Self>,
        mut open: StoreOpen,
        done: impl FnOnce(io::Result<Opened>) + Send + 'static,
    ) {
        if !self.nodes.is_cached(&open.node) {
            return done(Ok(self.opened_past(open)));
        }
        let stat = match Stat::of(&open.fd) {
            Ok(stat) => stat,
            Err(error) => return done(Err(error)),
        };
        if stat.links() == 0 {
            return done(Ok(self.opened_past(open)));
        }
        open.granted = Some(stat).filter(|_| open.again);
        let own = Arc::clone(&open.fd);
        let request = OpenFile {
            file: open.node.file(),
            access: open.access,
            stamp: stat.stamp(),
            private: open.private,
            made: open.made,
        };
        let core = Arc::clone(self);
        let finish = move |outcome: Outcome<OpenedFile>| match outcome {
            Outcome::Serve(answer) if answer.left => {
                let own = Arc::clone(&core);
                own.background
                    .later(move || done(core.admitted_after_leave(open, answer)));
            }
            outcome => done(core.admitted(open, outcome)),
        };
        self.session.open(request, own, Box::new(finish));
    }

    /// Of a file without a name all go to the store, each by itself: its cache was given up with the last name.
    fn admitted_after_leave(&self, open: StoreOpen, answer: OpenedFile) -> io::Result<Opened> {
        if Stat::of(&open.fd).is_ok_and(|stat| stat.links() == 0) {
            self.session.close(answer.handle);
            return Ok(self.opened_past(open));
        }
        self.admitted(open, Outcome::Serve(answer))
    }

    fn admitted(&self, mut open: StoreOpen, outcome: Outcome<OpenedFile>) -> io::Result<Opened> {
        let Some(answer) = served(outcome)? else {
            return Ok(self.opened_past(open));
        };
        let mut flags = FopenFlags::empty();
        if open.access.write {
            // No folio of the kernel is ever locked by a write that is on its way.
            flags |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        }
        if answer.direct {
            open.granted = None;
            flags |= FopenFlags::FOPEN_DIRECT_IO;
        }
        if answer.kept_valid {
            flags |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        flags |= self.believed_size(&open.node, answer.size);
        Ok(self.opened(open, Way::Session(answer.handle), flags))
    }

    /// Reads out of the kernel's pages are cut at the size that it believes in. If it believes in another it is told to ask
    /// again, and ignores what it is then told if a revocation overtakes the answer: reads of that handle come here.
    fn believed_size(&self, node: &Inode, size: u64) -> FopenFlags {
        if self.nodes.was_told(node.id, size) {
            return FopenFlags::empty();
        }
        self.session.file_changed(node.file());
        self.revoker.drop_attributes(node.id);
        FopenFlags::FOPEN_DIRECT_IO
    }

    /// A handle serves once more. Bytes that the kernel keeps of its file were called back if they changed.
    pub(crate) fn opened_again(&self, caller: Caller, handle: Arc<OpenHandle>) -> Opened {
        let size = handle.granted.as_ref().map_or(0, Stat::size);
        let flags = FopenFlags::FOPEN_KEEP_CACHE | self.believed_size(&handle.node, size);
        let handle = self.number(handle, caller.request);
        Opened { handle, flags }
    }

    /// Gives a number to a handle, which the kernel is about to be told.
    fn number(&self, handle: Arc<OpenHandle>, request: RequestNumber) -> FileHandle {
        let number = self.files.insert_again(Arc::clone(&handle));
        handle.bytes.numbered(number);
        self.ledger.note(Fact::Opened(ledger::Opened {
            number: number.0,
            node: handle.node.id,
            fd: handle.fd.as_raw_fd(),
            reads: handle.access.read,
            writes: handle.access.write,
            request: request.number(),
        }));
        number
    }

    /// Reads and writes go past the cache.
    fn opened_past(&self, open: StoreOpen) -> Opened {
        let open = StoreOpen {
            granted: None,
            ..open
        };
        self.opened(open, Way::Store, FopenFlags::FOPEN_DIRECT_IO)
    }

    fn opened(&self, open: StoreOpen, way: Way, flags: FopenFlags) -> Opened {
        let seat = self.nodes.lend(open.node.id, &open.fd);
        let from = (way, open.granted);
        let handle = Arc::new(OpenHandle::new(
            (open.node, seat),
            open.fd,
            open.access,
            from,
        ));
        let handle = match open.number {
            None => self.number(handle, open.request),
            Some(number) => {
                handle.bytes.numbered(number);
                self.files.restore(number, handle);
                number
            }
        };
        Opened { handle, flags }
    }

    /// Ends a handle, unless it may serve again.
    pub(crate) fn close(&self, number: FileHandle) {
        // Its descriptor's number may be another's as soon as it is closed.
        self.ledger.note(Fact::Closed(number.0));
        let Some(handle) = self.files.remove(number) else {
            return;
        };
        let node = Arc::clone(&handle.node);
        if let Some(handle) = self.put_by(handle) {
            self.end(&handle);
        }
        if !node.is_written() {
            self.bases.forget_from(node.id, 0);
        }
    }

    /// Clears set-user-id and set-group-id bits as a write by an ordinary user does.
    pub(crate) fn drop_privileges(&self, caller: Caller, node: &Inode) -> io::Result<()> {
        if caller.uid == 0 {
            return Ok(());
        }
        let mode = Stat::of(&*self.nodes.fd(node.id)?)?.permissions();
        let group = if mode & GROUP_EXECUTE != 0 {
            SET_GID
        } else {
            0
        };
        let kept = mode & !(SET_UID | group);
        if kept == mode {
            return Ok(());
        }
        self.touch(node, |fd| set_mode(fd, kept))
    }
}

fn make_in(dir: impl AsFd, name: &OsStr, access: Access, mode: u32) -> io::Result<OwnedFd> {
    let how = if access.write {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    let flags = how | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(
        dir,
        name,
        flags,
        Mode::from_raw_mode(mode),
    )?)
}

/// Whether no other agent could open a file which this one has just opened.
fn is_shut(stat: &Stat, fd: impl AsFd) -> bool {
    stat.permissions() & OWNER_READ_WRITE != OWNER_READ_WRITE && !opens_again(fd)
}

/// Whether this identity could open the file for reading and writing by name.
fn opens_again(fd: impl AsFd) -> bool {
    rustix::fs::open(proc_path(fd), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).is_ok()
}
