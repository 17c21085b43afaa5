//! A store whose client believes in names and attributes that others have changed, as that of GlusterFS does.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use common::{Pages, Passthrough, Timing, errno};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Generation, INodeNo,
    ReplyAttr, ReplyEntry, ReplyXattr, Request,
};
use hearth_fuse::{Mount, MountOptions};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

/// Longer than any test: nothing is looked at anew by itself.
const BELIEVED: Duration = Duration::from_secs(3600);

/// One directory of names, each of which is a file's number, as the servers have it.
type Names = Arc<Mutex<BTreeMap<OsString, u64>>>;

struct Believing(Names);

fn attr(ino: u64) -> FileAttr {
    let (kind, perm) = match ino {
        1 => (FileType::Directory, 0o777),
        _ => (FileType::RegularFile, 0o666),
    };
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl fuser::Filesystem for Believing {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.0.lock().unwrap().get(name) {
            Some(&ino) => reply.entry(&BELIEVED, &attr(ino), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVED, &attr(ino.0));
    }

    fn getxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        let names = self.0.lock().unwrap();
        let has_a_name = ino.0 == 1 || names.values().any(|named| *named == ino.0);
        reply.error(match has_a_name {
            true => Errno::ENODATA,
            false => Errno::ESTALE,
        });
    }
}

/// The store, and a mount of it.
struct Rig {
    mount: Option<Mount>,
    store: Option<BackgroundSession>,
    names: Names,
    at: TempDir,
    stored: TempDir,
}

impl Rig {
    fn new() -> Option<Rig> {
        if File::open("/dev/fuse").is_err() {
            eprintln!("skipped: /dev/fuse cannot be opened");
            return None;
        }
        let (at, stored) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let names = Names::default();
        let double = Believing(Arc::clone(&names));
        let store = fuser::Session::new(double, stored.path(), &Config::default());
        let store = store.unwrap().spawn().unwrap();
        let root = OwnedFd::from(File::open(stored.path()).unwrap());
        let options = MountOptions {
            attr_ttl: Duration::ZERO,
            name_ttl: Duration::ZERO,
            client_lags: true,
            ..MountOptions::default()
        };
        let session = Passthrough::new(Timing::AtOnce, Pages::Direct);
        let mount = Mount::at(at.path(), root, session, options).unwrap();
        Some(Rig {
            mount: Some(mount),
            store: Some(store),
            names,
            at,
            stored,
        })
    }

    /// Another client changes what a name stands for.
    fn elsewhere(&self, name: &str, ino: Option<u64>) {
        let mut names = self.names.lock().unwrap();
        match ino {
            Some(ino) => names.insert(name.into(), ino),
            None => names.remove(OsStr::new(name)),
        };
    }

    fn number(&self, name: &str) -> std::io::Result<u64> {
        fs::metadata(self.at.path().join(name)).map(|seen| seen.ino())
    }

    fn believed(&self, name: &str) -> std::io::Result<u64> {
        fs::metadata(self.stored.path().join(name)).map(|seen| seen.ino())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.mount.take());
        let _ = unmount(self.stored.path(), UnmountFlags::DETACH);
        drop(self.store.take());
    }
}

#[test]
fn a_name_that_another_client_has_given_away_stands_for_the_new_file() {
    let Some(rig) = Rig::new() else { return };
    rig.elsewhere("f", Some(5));
    assert_eq!(rig.number("f").unwrap(), 5);
    rig.elsewhere("f", Some(6));
    assert_eq!(rig.believed("f").unwrap(), 5, "the client believes in it");
    assert_eq!(rig.number("f").unwrap(), 6);
}

#[test]
fn a_name_that_another_client_has_removed_is_gone() {
    let Some(rig) = Rig::new() else { return };
    rig.elsewhere("f", Some(5));
    assert_eq!(rig.number("f").unwrap(), 5);
    rig.elsewhere("f", None);
    assert_eq!(rig.believed("f").unwrap(), 5, "the client believes in it");
    assert_eq!(errno(rig.number("f")), libc::ENOENT);
}
