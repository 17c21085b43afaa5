//! A store whose client believes in names and attributes that others have changed, as that of GlusterFS does.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Pages, Passthrough, Timing, attr, errno, ledger};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyXattr,
    Request,
};
use hearth_client::FileKey;
use hearth_fuse::{Mount, MountOptions};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

/// Longer than any test: nothing is looked at anew by itself.
const BELIEVED: Duration = Duration::from_secs(3600);

/// One directory, as the servers have it, and what their client believes.
#[derive(Default)]
struct Servers {
    /// Names, each of which is a file's number.
    names: BTreeMap<OsString, u64>,
    /// The bytes that each file has.
    bytes: Vec<u8>,
    /// How often it was asked for names, and for attributes that no client keeps.
    asked: (u32, u32),
    /// Sizes and links of files that the client has seen.
    believed: BTreeMap<u64, (u64, u32)>,
}

impl Servers {
    fn links(&self, ino: u64) -> u32 {
        self.names.values().filter(|named| **named == ino).count() as u32
    }

    fn attr(&mut self, ino: u64) -> FileAttr {
        if ino == 1 {
            return attr(ino, FileType::Directory, 0o777);
        }
        let now = (self.bytes.len() as u64, self.links(ino));
        let (size, nlink) = *self.believed.entry(ino).or_insert(now);
        FileAttr {
            size,
            nlink,
            ..attr(ino, FileType::RegularFile, 0o666)
        }
    }
}

struct Believing(Arc<Mutex<Servers>>);

impl fuser::Filesystem for Believing {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut servers = self.0.lock().unwrap();
        servers.asked.0 += 1;
        match servers.names.get(name).copied() {
            Some(ino) => reply.entry(&BELIEVED, &servers.attr(ino), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVED, &self.0.lock().unwrap().attr(ino.0));
    }

    fn getxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: ReplyXattr,
    ) {
        let mut servers = self.0.lock().unwrap();
        servers.asked.1 += 1;
        if ino.0 == 1 || servers.links(ino.0) > 0 {
            return reply.error(Errno::ENODATA);
        }
        servers.believed.remove(&ino.0);
        reply.error(Errno::ESTALE);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut servers = self.0.lock().unwrap();
        let end = servers.attr(ino.0).size.min(offset + u64::from(size)) as usize;
        reply.data(&servers.bytes[(offset as usize).min(end)..end]);
    }

    fn lseek(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        _whence: i32,
        reply: ReplyLseek,
    ) {
        let end = self.0.lock().unwrap().bytes.len() as i64;
        match offset < end {
            true => reply.offset(end),
            false => reply.error(Errno::ENXIO),
        }
    }

    fn fsync(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().unwrap().believed.remove(&ino.0);
        reply.ok();
    }
}

/// The store, and a mount of it.
struct Rig {
    mount: Option<Mount>,
    store: Option<BackgroundSession>,
    servers: Arc<Mutex<Servers>>,
    session: Arc<Passthrough>,
    at: TempDir,
    stored: TempDir,
}

impl Rig {
    fn new() -> Option<Rig> {
        Rig::keeping(Duration::ZERO)
    }

    /// A rig in which names and attributes that may be kept are kept for so long.
    fn keeping(attr_ttl: Duration) -> Option<Rig> {
        if File::open("/dev/fuse").is_err() {
            eprintln!("skipped: /dev/fuse cannot be opened");
            return None;
        }
        let (at, stored) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let servers = Arc::<Mutex<Servers>>::default();
        let double = Believing(Arc::clone(&servers));
        let store = fuser::Session::new(double, stored.path(), &Config::default());
        let store = store.unwrap().spawn().unwrap();
        let root = OwnedFd::from(File::open(stored.path()).unwrap());
        let options = MountOptions {
            attr_ttl,
            name_ttl: Duration::ZERO,
            client_lags: true,
            ..MountOptions::default()
        };
        let session = Passthrough::new(Timing::AtOnce, Pages::Direct);
        let mount = Mount::at(at.path(), ledger(), root, session.clone(), options).unwrap();
        Some(Rig {
            mount: Some(mount),
            store: Some(store),
            servers,
            session,
            at,
            stored,
        })
    }

    /// Another client changes what a name stands for.
    fn elsewhere(&self, name: &str, ino: Option<u64>) {
        let names = &mut self.servers.lock().unwrap().names;
        match ino {
            Some(ino) => names.insert(name.into(), ino),
            None => names.remove(OsStr::new(name)),
        };
    }

    /// Another client writes the files.
    fn grow(&self, size: usize) {
        self.servers.lock().unwrap().bytes = vec![7; size];
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

/// Each request waits for a network.
#[test]
fn a_name_that_is_looked_up_asks_the_servers_no_more_than_it_must() {
    let Some(rig) = Rig::new() else { return };
    let asked = |name: &str| {
        rig.servers.lock().unwrap().asked = (0, 0);
        let _ = rig.number(name);
        rig.servers.lock().unwrap().asked
    };
    assert_eq!(asked("f"), (1, 0), "nobody believes in it");
    rig.elsewhere("f", Some(5));
    assert_eq!(asked("f"), (1, 1), "its client has not seen it");
    assert_eq!(asked("f"), (0, 1), "its client believes in it");
}

#[test]
fn a_name_that_may_be_kept_is_not_asked_for() {
    let Some(rig) = Rig::keeping(BELIEVED) else {
        return;
    };
    rig.elsewhere("f", Some(5));
    *rig.session.names.lock().unwrap() = Some(vec![(b"f".to_vec(), Some(FileKey { ino: 5 }))]);
    // Names of a directory are read when many are looked up.
    (0..100).for_each(|_| drop(rig.number("f")));
    rig.servers.lock().unwrap().asked = (0, 0);
    assert_eq!(rig.number("f").unwrap(), 5);
    assert_eq!(rig.servers.lock().unwrap().asked, (0, 0));
}

#[test]
fn a_read_past_the_cache_ends_where_the_servers_say() {
    let Some(rig) = Rig::new() else { return };
    rig.grow(100);
    rig.elsewhere("f", Some(5));
    rig.session.bypasses.store(true, Ordering::Relaxed);
    let file = File::open(rig.at.path().join("f")).unwrap();
    let read = || {
        let mut bytes = vec![0; 20_000];
        let len = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(len);
        bytes
    };
    assert_eq!(read(), [7; 100]);
    rig.grow(9000);
    let believed = fs::read(rig.stored.path().join("f")).unwrap();
    assert_eq!(believed.len(), 100, "the client believes in it");
    assert!(read() == [7; 9000]);
}

#[test]
fn an_open_file_without_a_name_is_as_long_as_the_servers_say() {
    let Some(rig) = Rig::new() else { return };
    rig.elsewhere("f", Some(5));
    let file = File::open(rig.at.path().join("f")).unwrap();
    rig.grow(9000);
    rig.elsewhere("f", None);
    let seen = file.metadata().unwrap();
    assert_eq!((seen.len(), seen.nlink()), (9000, 0));
}
