//! Extended attributes, as the store has them.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use hearth_client::{MAPPED, OWNER, Owner};
use rustix::fs::XattrFlags;

use crate::again::has_value;
use crate::core::Core;
use crate::errors::raw;
use crate::identity::Caller;
use crate::nodes::{ROOT, proc_path};
use crate::options::{Identity, ShownOwners};

/// The access control lists, as extended attributes.
const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// An answer whose length may have been all that was asked for.
pub(crate) enum Sized {
    Length(u32),
    Bytes(Vec<u8>),
}

/// A value to be set.
#[derive(Clone, Copy)]
pub(crate) struct NewValue<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) value: &'a [u8],
    pub(crate) flags: i32,
}

impl Core {
    pub(crate) fn getxattr(
        &self,
        caller: Caller,
        id: u64,
        name: &OsStr,
        size: u32,
    ) -> io::Result<Sized> {
        if name == MAPPED {
            self.session.stored_in_mapping(self.nodes.node(id)?.file());
            return whole(size, &[]);
        }
        let fd = self.nodes.fd(id)?;
        if let Some(owner) = self.owner(caller, &fd, name) {
            return whole(size, &owner?.to_bytes());
        }
        let _as = self.wardrobe.assume(caller)?;
        let path = proc_path(&*fd);
        let told = match size {
            0 => length(rustix::fs::getxattr_query(path, name)),
            _ => bytes(size, |buffer| rustix::fs::getxattr(path, name, buffer)),
        };
        // The kernel asks so who may do something. Part of a store may have no lists, though its root
        // has; an error would keep everybody out there.
        match told {
            Err(error) if is_unknown(&error) && self.judges_by(name) => Err(raw(libc::ENODATA)),
            told => told,
        }
    }

    /// The true owner, for a program in whose eyes all is its own.
    fn owner(&self, caller: Caller, fd: &OwnedFd, name: &OsStr) -> Option<io::Result<Owner>> {
        if self.options.ids != ShownOwners::Mine {
            return None;
        }
        let of = name.to_str()?.strip_prefix(OWNER)?;
        let seen = match of.strip_prefix('.').map(str::parse::<u32>) {
            None if of.is_empty() => rustix::fs::fstat(fd),
            Some(Ok(number)) if caller.tid != 0 => {
                rustix::fs::stat(format!("/proc/{}/fd/{number}", caller.tid))
            }
            None | Some(_) => return None,
        };
        Some(seen.map_err(io::Error::from).map(|seen| Owner {
            uid: seen.st_uid,
            gid: seen.st_gid,
        }))
    }

    fn judges_by(&self, name: &OsStr) -> bool {
        self.options.identity == Identity::AsCaller && LISTS.iter().any(|list| name == *list)
    }

    /// Whether the kernel is to judge rights by the store's access control lists.
    pub(crate) fn has_lists(&self) -> bool {
        if self.options.identity != Identity::AsCaller {
            return false;
        }
        let Ok(root) = self.nodes.fd(ROOT) else {
            return true;
        };
        let [list, _] = LISTS;
        match rustix::fs::getxattr_query(proc_path(&*root), list) {
            Err(error) => !is_unknown(&error.into()),
            Ok(_) => true,
        }
    }

    pub(crate) fn listxattr(&self, caller: Caller, id: u64, size: u32) -> io::Result<Sized> {
        let fd = self.nodes.fd(id)?;
        let _as = self.wardrobe.assume(caller)?;
        let path = proc_path(&*fd);
        match size {
            0 => length(rustix::fs::listxattr_query(path)),
            _ => bytes(size, |buffer| rustix::fs::listxattr(path, buffer)),
        }
    }

    pub(crate) fn setxattr(&self, caller: Caller, id: u64, new: NewValue<'_>) -> io::Result<()> {
        if self.options.ids == ShownOwners::Mine && new.name == OWNER {
            let owner = Owner::from_bytes(new.value).ok_or(raw(libc::EINVAL))?;
            return self.give(caller, &*self.nodes.node(id)?, owner);
        }
        let flags = XattrFlags::from_bits(new.flags as u32).ok_or(raw(libc::EINVAL))?;
        self.touch(&*self.nodes.node(id)?, |fd| {
            let set = || {
                let _as = self.wardrobe.assume(caller)?;
                let path = proc_path(fd);
                Ok(rustix::fs::setxattr(path, new.name, new.value, flags)?)
            };
            if !flags.contains(XattrFlags::CREATE) {
                return set();
            }
            self.at_most_once(caller, set, |code| {
                code == libc::EEXIST && has_value(fd, new.name, new.value)
            })
        })
    }

    pub(crate) fn removexattr(&self, caller: Caller, id: u64, name: &OsStr) -> io::Result<()> {
        self.touch(&*self.nodes.node(id)?, |fd| {
            let remove = || {
                let _as = self.wardrobe.assume(caller)?;
                Ok(rustix::fs::removexattr(proc_path(fd), name)?)
            };
            self.at_most_once(caller, remove, |code| code == libc::ENODATA)
        })
    }
}

/// The store has no attributes of that kind.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS))
}

/// All of a value, or how long it is.
fn whole(size: u32, value: &[u8]) -> io::Result<Sized> {
    match size as usize {
        0 => length(Ok(value.len())),
        room if room < value.len() => Err(raw(libc::ERANGE)),
        _ => Ok(Sized::Bytes(value.to_vec())),
    }
}

/// The answer to a caller who asks with size 0.
fn length(len: rustix::io::Result<usize>) -> io::Result<Sized> {
    u32::try_from(len?)
        .map(Sized::Length)
        .map_err(|_| raw(libc::E2BIG))
}

fn bytes(
    size: u32,
    read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<Sized> {
    let mut buffer = vec![0; size as usize];
    let len = read(&mut buffer)?;
    buffer.truncate(len);
    Ok(Sized::Bytes(buffer))
}
