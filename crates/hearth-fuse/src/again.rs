//! Requests that come again, because the agent that had read them is gone.
//!
//! Most are simply done again. A change of names cannot be: the name that is to be made is there, or the one that is to go
//! is gone. So each is noted before the store is asked, and again when it has answered. Only a change that was with the
//! store when the agent died is judged by what is found.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use fuser::FileHandle;
use rustix::fs::{FileType, RenameFlags};

use crate::core::Core;
use crate::identity::Caller;
use crate::ledger::{Fact, Known, KnownHandle, Tried};
use crate::names::Name;
use crate::nodes::proc_path;
use crate::options::Identity;
use crate::stat::device_number;

/// Set in the number of a request that the operating system sends again.
const AGAIN: u64 = 1 << 63;

/// How far the agent before came with requests, by their numbers.
#[derive(Default)]
pub(crate) struct Before {
    tried: BTreeMap<u64, Tried>,
    /// The handles that they opened.
    files: HashMap<u64, FileHandle>,
    directories: HashMap<u64, FileHandle>,
}

impl Before {
    pub(crate) fn of(known: &Known) -> Before {
        let file = |one: &KnownHandle| (one.opened.request, FileHandle(one.opened.number));
        let directory = |(number, (_, request)): (&u64, &(_, u64))| (*request, FileHandle(*number));
        Before {
            tried: known.tried.clone(),
            files: known.handles.values().map(file).collect(),
            directories: known.directories.iter().map(directory).collect(),
        }
    }
}

/// The number of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestNumber(u64);

impl RequestNumber {
    pub(crate) fn of(request: &fuser::Request) -> RequestNumber {
        RequestNumber(request.unique().into())
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & !AGAIN
    }

    fn is_again(self) -> bool {
        self.0 & AGAIN != 0
    }
}

/// A thing that a request makes.
#[derive(Clone, Copy)]
pub(crate) enum Made<'a> {
    /// A file, directory, pipe, socket or device of this mode, with its number if it is a device.
    Inode(FileType, u32, u32),
    /// A symbolic link with this target.
    Link(&'a Path),
    /// Another name of this node.
    Name(u64),
}

impl Core {
    /// How far the agent before came with this request.
    pub(crate) fn before(&self, caller: Caller) -> Option<Tried> {
        let is_again = caller.request.is_again();
        let tried = || self.before.tried.get(&caller.request.number()).copied();
        is_again.then(tried).flatten()
    }

    /// An open that comes again gets a handle of its own. Nobody was told of the one before.
    pub(crate) fn close_unanswered(&self, caller: Caller) {
        if !caller.request.is_again() {
            return;
        }
        let number = caller.request.number();
        if let Some(&handle) = self.before.files.get(&number) {
            self.close(handle);
        }
        if let Some(&handle) = self.before.directories.get(&number) {
            self.closedir(handle);
        }
    }

    /// Has the store make a change that cannot be made twice.
    pub(crate) fn once<T>(
        &self,
        caller: Caller,
        change: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let number = caller.request.number();
        self.ledger.note(Fact::Tried(number, Tried::Begun));
        let done = change();
        let how = match done {
            Ok(_) => Tried::Done,
            Err(_) => Tried::Refused,
        };
        self.ledger.note(Fact::Tried(number, how));
        done
    }

    /// As [`Self::once`], unless the agent before has made the change. An error means that as well, if that agent had asked
    /// the store and `looks_done` says so.
    pub(crate) fn at_most_once(
        &self,
        caller: Caller,
        change: impl FnOnce() -> io::Result<()>,
        looks_done: impl FnOnce(i32) -> bool,
    ) -> io::Result<()> {
        let before = self.before(caller);
        if before == Some(Tried::Done) {
            return Ok(());
        }
        let code = |error: &io::Error| error.raw_os_error().unwrap_or(0);
        match self.once(caller, change) {
            Err(error) if before == Some(Tried::Begun) && looks_done(code(&error)) => Ok(()),
            done => done,
        }
    }

    /// Whether a name leads to what a request was to make.
    pub(crate) fn is_like(&self, caller: Caller, at: Name<'_>, made: Made<'_>) -> bool {
        let Ok(found) = self.find(caller, at) else {
            return false;
        };
        let stat = &found.stat;
        let is_owner = self.options.identity == Identity::SingleUser || stat.is_of(caller.uid);
        match made {
            Made::Inode(kind, mode, device) => {
                let more = stat.permissions() & !mode & 0o777;
                let is_device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
                let same_device = !is_device || u64::from(stat.device()) == device_number(device);
                let is_empty = kind != FileType::RegularFile || stat.size() == 0;
                is_owner && stat.kind() == kind && more == 0 && same_device && is_empty
            }
            Made::Link(target) => {
                let told = rustix::fs::readlinkat(&found.fd, "", Vec::new());
                let target = target.as_os_str().as_encoded_bytes();
                is_owner && told.is_ok_and(|told| told.as_bytes() == target)
            }
            Made::Name(id) => self.nodes.node(id).is_ok_and(|node| node.is(stat)),
        }
    }

    /// Whether the agent before has taken a name away, as this request asks for.
    pub(crate) fn is_taken_away(&self, caller: Caller, at: Name<'_>) -> bool {
        match self.before(caller) {
            Some(Tried::Done) => true,
            Some(Tried::Begun) => self.is_absent(caller, at),
            Some(Tried::Refused) | None => false,
        }
    }

    /// Whether the agent before has made a rename. An exchange that was with the store when it died is made once more:
    /// nobody can tell.
    pub(crate) fn is_renamed(
        &self,
        caller: Caller,
        (from, to): (Name<'_>, Name<'_>),
        flags: RenameFlags,
    ) -> bool {
        match self.before(caller) {
            Some(Tried::Done) => true,
            Some(Tried::Begun) if !flags.contains(RenameFlags::EXCHANGE) => {
                self.is_absent(caller, from) && self.find(caller, to).is_ok()
            }
            Some(Tried::Begun | Tried::Refused) | None => false,
        }
    }

    fn is_absent(&self, caller: Caller, at: Name<'_>) -> bool {
        let found = self.find(caller, at);
        found.is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT))
    }
}

/// Whether an inode has an extended attribute of this value.
pub(crate) fn has_value(fd: impl AsFd, name: &OsStr, value: &[u8]) -> bool {
    let mut told = vec![0; value.len() + 1];
    let len = rustix::fs::getxattr(proc_path(fd), name, &mut told);
    len.is_ok_and(|len| told[..len] == *value)
}
