//! Calls that a gateway makes on names.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use hearth_fuse::store::{Credentials, ROOT, Stat, device_number, open_path, proc_path};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};

use super::{Client, Shared};
use crate::call::{Answer, Call, Ino, Inode, Name, Open, Refused, Told};

impl Shared {
    /// Makes a call about names; `None` if it is none.
    pub(super) fn make_name(
        &self,
        client: &Client,
        whom: &Credentials,
        call: &Call,
    ) -> Option<Told> {
        let by = ByName {
            shared: self,
            client,
            whom,
        };
        Some(match call {
            Call::Lookup(name) => by.lookup(name),
            Call::MakeNode(name, mode, device) => by.make(name, |dir, at| {
                let kind = FileType::from_raw_mode(*mode);
                let mode = Mode::from_raw_mode(mode & 0o7777);
                rustix::fs::mknodat(dir, at, kind, mode, device_number(*device))
            }),
            Call::MakeDir(name, mode) => by.make(name, |dir, at| {
                rustix::fs::mkdirat(dir, at, Mode::from_raw_mode(mode & 0o7777))
            }),
            Call::MakeLink(name, target) => by.make(name, |dir, at| {
                rustix::fs::symlinkat(target.as_slice(), dir, at)
            }),
            Call::Link(ino, name) => by.link(*ino, name),
            Call::Unlink(name) => by.remove(name, AtFlags::empty()),
            Call::RemoveDir(name) => by.remove(name, AtFlags::REMOVEDIR),
            Call::Rename(from, to, flags) => by.rename(from, to, *flags),
            Call::Create(name, open, mode, flags) => by.create(name, *open, *mode, *flags),
            _ => return None,
        })
    }
}

/// On whose behalf.
struct ByName<'a> {
    shared: &'a Shared,
    client: &'a Client,
    whom: &'a Credentials,
}

impl ByName<'_> {
    fn lookup(&self, name: &Name) -> Told {
        let dir = self.shared.reach(name.dir)?;
        let found = {
            let _as = self.shared.wardrobe.assume_all(self.whom)?;
            open_path(&*dir, at(name)?)?
        };
        self.tell(name, found)
    }

    /// Tells of what was found, or made, at a name.
    fn tell(&self, name: &Name, found: OwnedFd) -> Told {
        let stat = Stat::of(&found)?;
        if stat.key().dev != self.shared.nodes.dev() {
            // Its numbers would be taken for those of files of the store.
            log::warn!(
                "something else is mounted at {:?}: it is not served",
                at(name)?
            );
            return Err(Refused::Errno(libc::EXDEV));
        }
        let node = self.shared.nodes.found(name.dir, at(name)?, found, &stat);
        if node.id != ROOT {
            self.client.opened.tell(node.id);
        }
        Ok(Answer::Inode(Inode::new(node.id, node.generation, &stat)))
    }

    fn make(
        &self,
        name: &Name,
        make: impl FnOnce(&OwnedFd, &OsStr) -> rustix::io::Result<()>,
    ) -> Told {
        let dir = self.shared.reach(name.dir)?;
        let found = {
            let _as = self.shared.wardrobe.assume_all(self.whom)?;
            make(&dir, at(name)?)?;
            open_path(&*dir, at(name)?)?
        };
        self.tell(name, found)
    }

    fn link(&self, ino: Ino, name: &Name) -> Told {
        let fd = self.shared.reach(ino)?;
        self.make(name, |dir, at| {
            let flags = AtFlags::SYMLINK_FOLLOW;
            rustix::fs::linkat(CWD, proc_path(&*fd), dir, at, flags)
        })
    }

    fn remove(&self, name: &Name, flags: AtFlags) -> Told {
        let dir = self.shared.reach(name.dir)?;
        // Held over the removal, so that the number is not given to another file before it is known to be gone.
        let victim = open_path(&*dir, at(name)?).ok();
        {
            let _as = self.shared.wardrobe.assume_all(self.whom)?;
            rustix::fs::unlinkat(&*dir, at(name)?, flags)?;
        }
        if let Some(stat) = victim.and_then(|victim| Stat::of(&victim).ok())
            && (stat.links() == 0 || flags == AtFlags::REMOVEDIR)
        {
            self.shared.nodes.gone(stat.key());
        }
        Ok(Answer::Done)
    }

    fn rename(&self, from: &Name, to: &Name, flags: u32) -> Told {
        let (old, new) = (self.shared.reach(from.dir)?, self.shared.reach(to.dir)?);
        let victim = open_path(&*new, at(to)?).ok();
        {
            let _as = self.shared.wardrobe.assume_all(self.whom)?;
            let (before, after) = (at(from)?, at(to)?);
            match RenameFlags::from_bits_retain(flags) {
                // Old kernels and some stores know only the call without flags.
                flags if flags.is_empty() => rustix::fs::renameat(&*old, before, &*new, after)?,
                flags => rustix::fs::renameat_with(&*old, before, &*new, after, flags)?,
            }
        }
        if let Some(stat) = victim.and_then(|victim| Stat::of(&victim).ok())
            && stat.links() == 0
        {
            self.shared.nodes.gone(stat.key());
        }
        let moved = open_path(&*new, at(to)?)?;
        let stat = Stat::of(&moved)?;
        self.shared.nodes.moved(stat.key(), to.dir, at(to)?);
        Ok(Answer::Inode(Inode::new(stat.key().ino, 0, &stat)))
    }

    fn create(&self, name: &Name, open: Open, mode: u32, flags: i32) -> Told {
        let dir = self.shared.reach(name.dir)?;
        let kept = flags & (libc::O_ACCMODE | libc::O_APPEND);
        let how = OFlags::from_bits_retain(kept.cast_unsigned())
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let (made, found) = {
            let _as = self.shared.wardrobe.assume_all(self.whom)?;
            let mode = Mode::from_raw_mode(mode & 0o7777);
            let made = rustix::fs::openat(&*dir, at(name)?, how, mode)?;
            let path = OFlags::PATH | OFlags::CLOEXEC;
            let found = rustix::fs::open(proc_path(&made), path, Mode::empty())?;
            (made, found)
        };
        let told = self.tell(name, found)?;
        self.client.opened.add(open, made);
        Ok(told)
    }
}

/// The name, if it is one: a path must not lead anywhere else.
fn at(name: &Name) -> Result<&OsStr, Refused> {
    let text = OsStr::from_bytes(&name.name);
    match name.name.as_slice() {
        b"" | b"." | b".." => Err(Refused::Errno(libc::EINVAL)),
        bytes if bytes.contains(&b'/') || bytes.contains(&0) => Err(Refused::Errno(libc::EINVAL)),
        _ => Ok(text),
    }
}
