//! A store that does not answer for an inode without names, and knows no extended attributes.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use common::{Pages, Passthrough, Timing, attr, errno, ledger};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Generation, INodeNo,
    MountOption, RenameFlags, ReplyAttr, ReplyEmpty, ReplyEntry, Request, SessionACL,
};
use hearth_fuse::{Identity, Mount, MountOptions, OtherUsers};
use rustix::fs::{CWD, Mode, mknodat};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

const AT_ONCE: Duration = Duration::ZERO;
const SOMEBODY: u32 = 54_321;

/// One directory of names, each of which is an inode's number.
#[derive(Default)]
struct Plain {
    names: Mutex<Names>,
}

#[derive(Default)]
struct Names {
    inodes: BTreeMap<OsString, u64>,
    kinds: BTreeMap<u64, (FileType, u16, u32)>,
}

impl Names {
    fn attr(&self, ino: u64) -> Option<FileAttr> {
        let links = self.inodes.values().filter(|other| **other == ino).count();
        let (kind, perm, uid) = match self.kinds.get(&ino) {
            Some(known) if links > 0 => *known,
            _ if ino == 1 => (FileType::Directory, 0o777, 0),
            _ => return None,
        };
        Some(FileAttr {
            nlink: links.max(1) as u32,
            uid,
            gid: uid,
            ..attr(ino, kind, perm)
        })
    }

    fn make(&mut self, name: &OsStr, made: (FileType, u16, u32)) -> FileAttr {
        let ino = 2 + self.kinds.len() as u64;
        self.kinds.insert(ino, made);
        self.inodes.insert(name.to_owned(), ino);
        self.attr(ino).unwrap()
    }
}

fn enter(attr: Option<FileAttr>, reply: ReplyEntry) {
    match attr {
        Some(attr) => reply.entry(&AT_ONCE, &attr, Generation(0)),
        None => reply.error(Errno::ENOENT),
    }
}

impl fuser::Filesystem for Plain {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let names = self.names.lock().unwrap();
        let attr = names.inodes.get(name).and_then(|ino| names.attr(*ino));
        enter(attr, reply);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.names.lock().unwrap().attr(ino.0) {
            Some(attr) => reply.attr(&AT_ONCE, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        _parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = match mode & libc::S_IFMT {
            libc::S_IFIFO => FileType::NamedPipe,
            _ => FileType::RegularFile,
        };
        let made = (kind, (mode & 0o7777 & !umask) as u16, request.uid());
        enter(Some(self.names.lock().unwrap().make(name, made)), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _target: &Path,
        reply: ReplyEntry,
    ) {
        let made = (FileType::Symlink, 0o777, request.uid());
        enter(Some(self.names.lock().unwrap().make(name, made)), reply);
    }

    fn link(
        &self,
        _request: &Request,
        ino: INodeNo,
        _parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let mut names = self.names.lock().unwrap();
        names.inodes.insert(name.to_owned(), ino.0);
        enter(names.attr(ino.0), reply);
    }

    fn unlink(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.names.lock().unwrap().inodes.remove(name) {
            Some(_) => reply.ok(),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn rename(
        &self,
        _request: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _to: INodeNo,
        to: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut names = self.names.lock().unwrap();
        match names.inodes.remove(name) {
            Some(ino) => {
                names.inodes.insert(to.to_owned(), ino);
                reply.ok();
            }
            None => reply.error(Errno::ENOENT),
        }
    }
}

/// The plain store, and a mount of it.
struct Rig {
    mount: Option<Mount>,
    store: Option<BackgroundSession>,
    at: TempDir,
    stored: TempDir,
}

impl Rig {
    fn new(options: MountOptions) -> Option<Rig> {
        if !rustix::process::geteuid().is_root() || File::open("/dev/fuse").is_err() {
            eprintln!("skipped: only root can mount a store for everybody");
            return None;
        }
        let (at, stored) = (open_dir(), open_dir());
        let mut config = Config::default();
        config.mount_options = vec![MountOption::DefaultPermissions];
        config.acl = SessionACL::All;
        let store = fuser::Session::new(Plain::default(), stored.path(), &config)
            .unwrap()
            .spawn()
            .unwrap();
        let session = Passthrough::new(Timing::Later, Pages::Kept);
        let root = OwnedFd::from(File::open(stored.path()).unwrap());
        let mount = Mount::at(at.path(), ledger(), root, session, options).unwrap();
        Some(Rig {
            mount: Some(mount),
            store: Some(store),
            at,
            stored,
        })
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.mount.take());
        let _ = unmount(self.stored.path(), UnmountFlags::DETACH);
        drop(self.store.take());
    }
}

fn open_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
fn names_of_special_files_go_and_are_replaced() {
    let Some(rig) = Rig::new(MountOptions::default()) else {
        return;
    };
    let at = |name: &str| rig.at.path().join(name);
    let pipe = |name| mknodat(CWD, at(name), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    symlink("x", at("l")).unwrap();
    fs::remove_file(at("l")).unwrap();
    pipe("p");
    pipe("q");
    fs::rename(at("p"), at("q")).unwrap();
    fs::hard_link(at("q"), at("r")).unwrap();
    fs::remove_file(at("q")).unwrap();
    fs::symlink_metadata(at("r")).unwrap();
    fs::remove_file(at("r")).unwrap();
    assert_eq!(errno(fs::symlink_metadata(at("r"))), libc::ENOENT);
}

/// A store without access control lists has modes alone.
#[test]
fn modes_alone_count_where_the_store_has_no_lists() {
    let options = MountOptions {
        identity: Identity::AsCaller,
        others: OtherUsers::Allowed,
        ..MountOptions::default()
    };
    let Some(rig) = Rig::new(options) else { return };
    let shell = |user: u32, script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("ROOT", rig.at.path());
        let shell = shell.current_dir("/").stderr(Stdio::null());
        shell.uid(user).gid(user).status().unwrap().success()
    };
    assert!(shell(SOMEBODY, "umask 027; mkfifo $ROOT/p"));
    assert!(shell(0, "test -r $ROOT/p && test -w $ROOT/p"));
    assert!(shell(SOMEBODY, "test -r $ROOT/p && test -w $ROOT/p"));
    assert!(!shell(SOMEBODY + 1, "test -r $ROOT/p"));
}
