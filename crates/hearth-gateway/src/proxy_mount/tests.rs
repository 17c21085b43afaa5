//! A proxy mount's calls over gateways and connections that fail, without its mount.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hearth_fuse::store::ROOT;
use hearth_net::{Door, Party, Secret};
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use super::link::Link;
use super::tree::Store;
use crate::call::{Answer, Call, Inode, Lock, Name, Whom};
use crate::gateway::Gateway;

/// A store, and doors of gateways to it.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("store")).expect("a directory");
        Fixture { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("store").join(name)
    }

    fn door(&self, name: &str) -> Door {
        Door::Path(self.dir.path().join(name))
    }

    /// A gateway at a door, in place of any that was there.
    fn gateway(&self, name: &str) -> Gateway {
        let _ = std::fs::remove_file(self.dir.path().join(name));
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(self.path(""), flags, Mode::empty()).expect("a directory");
        Gateway::start(&self.door(name), party(), root).expect("it listens")
    }

    fn store(&self, doors: &[&str]) -> Arc<Store> {
        let doors = doors.iter().map(|name| self.door(name)).collect();
        let link = Link::new(doors, party()).expect("a number");
        link.connect(Duration::from_secs(60)).expect("a gateway");
        let store = Arc::new(Store::new(link));
        store.pulse().expect("a thread");
        store
    }
}

fn party() -> Party {
    Party {
        job: "test".to_owned(),
        secret: Secret::new([7; 32]),
    }
}

fn own() -> Whom {
    let all = hearth_fuse::store::Credentials {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: Vec::new(),
    };
    all.into()
}

fn name(dir: u64, name: &str) -> Name {
    Name {
        dir,
        name: name.as_bytes().to_vec(),
    }
}

fn ask(store: &Store, call: &Call) -> Result<Answer, i32> {
    store.call(&own(), call, &[]).map(|(answer, _)| answer)
}

/// Looks a name up as the operating system does.
fn look_up(store: &Store, at: Name) -> Inode {
    match ask(store, &Call::Lookup(at.clone())) {
        Ok(Answer::Inode(inode)) => {
            store.found(at, &inode);
            inode
        }
        other => panic!("{at:?}: {other:?}"),
    }
}

fn read(store: &Store, open: u64) -> Result<Vec<u8>, i32> {
    let call = Call::Read(open, 0, 100);
    store.call(&own(), &call, &[]).map(|(_, bytes)| bytes)
}

fn open(store: &Store, inode: &Inode) -> u64 {
    let open = store.draw();
    let flags = libc::O_RDWR;
    ask(store, &Call::Open(inode.ino, open, flags)).expect("it opens");
    store.opened(open, inode.ino, Some(flags), own());
    open
}

/// Passes on what it gets between a proxy mount and a gateway, but for some answers.
struct Relay {
    /// Answers until one is swallowed, and the connection with it.
    left: Arc<AtomicUsize>,
}

impl Relay {
    fn start(fixture: &Fixture, from: &str, to: &str) -> Relay {
        let (from, to) = (fixture.dir.path().join(from), fixture.dir.path().join(to));
        let listener = UnixListener::bind(from).expect("a socket");
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let shared = Arc::clone(&left);
        thread::spawn(move || {
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                let Ok(far) = UnixStream::connect(&to) else {
                    continue;
                };
                let ends = (
                    near.try_clone().expect("a handle"),
                    far.try_clone().expect("a handle"),
                );
                thread::spawn(move || pass(near, far, || true));
                let left = Arc::clone(&shared);
                thread::spawn(move || {
                    pass(ends.1, ends.0, move || {
                        left.fetch_sub(1, Ordering::SeqCst) > 0
                    })
                });
            }
        });
        Relay { left }
    }

    /// The next answer gets lost.
    fn swallow(&self) {
        self.left.store(0, Ordering::SeqCst);
    }

    fn is_done(&self) -> bool {
        self.left.load(Ordering::SeqCst) != 0
    }
}

/// Passes bytes on until `go_on` says no; then both connections end.
fn pass(mut from: UnixStream, mut to: UnixStream, go_on: impl Fn() -> bool) {
    let mut bytes = [0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if !go_on() || to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

#[test]
fn a_call_whose_answer_got_lost_is_not_made_twice() {
    let fixture = Fixture::new();
    let gateway = fixture.gateway("g");
    let relay = Relay::start(&fixture, "r", "g");
    let store = fixture.store(&["r"]);
    let calls: [(Call, &str); 3] = [
        (Call::MakeDir(name(ROOT, "d"), 0o755), "a directory"),
        (
            Call::Rename(name(ROOT, "d"), name(ROOT, "e"), 0),
            "another name",
        ),
        (Call::RemoveDir(name(ROOT, "e")), "no name"),
    ];
    for (call, what) in calls {
        relay.swallow();
        let before = gateway.calls();
        let made = ask(&store, &call);
        assert!(made.is_ok(), "{what}: {made:?}");
        assert!(relay.is_done(), "{what}: no answer was lost");
        assert_eq!(gateway.calls(), before + 1, "{what}");
    }
    assert!(!fixture.path("d").exists() && !fixture.path("e").exists());
}

#[test]
fn nobody_knows_what_came_of_a_call_of_a_gateway_that_died() {
    let fixture = Fixture::new();
    let first = fixture.gateway("g");
    let relay = Relay::start(&fixture, "r", "g");
    let store = fixture.store(&["r"]);
    relay.swallow();
    drop(first);
    let _second = fixture.gateway("g");
    // The line was broken before the call: another gateway's word on it is worth nothing.
    let made = ask(&store, &Call::MakeDir(name(ROOT, "d"), 0o755)).map(drop);
    assert_eq!(made, Err(libc::EIO));
    relay.left.store(usize::MAX, Ordering::SeqCst);
    ask(&store, &Call::MakeDir(name(ROOT, "e"), 0o755)).expect("the next call is made");
    assert!(matches!(
        ask(&store, &Call::Attributes(ROOT)),
        Ok(Answer::Inode(_))
    ));
}

#[test]
fn what_takes_over_finds_files_by_their_names_and_knows_others_for_others() {
    let fixture = Fixture::new();
    let first = fixture.gateway("a");
    let _second = fixture.gateway("b");
    let store = fixture.store(&["a", "b"]);
    std::fs::create_dir_all(fixture.path("d/e")).expect("made");
    for file in ["f", "g", "h"] {
        std::fs::write(fixture.path("d/e").join(file), file).expect("written");
    }
    let d = look_up(&store, name(ROOT, "d"));
    let e = look_up(&store, name(d.ino, "e"));
    let [f, g, h] = ["f", "g", "h"].map(|file| look_up(&store, name(e.ino, file)));
    let [to_f, to_h] = [&f, &h].map(|inode| open(&store, inode));
    let lock = Lock {
        kind: libc::F_WRLCK,
        start: 0,
        end: i64::MAX as u64,
    };
    store.locking(to_h);
    ask(&store, &Call::SetLock(to_h, lock)).expect("nobody else has it");
    drop(first);
    assert_eq!(read(&store, to_f), Ok(b"f".to_vec()));
    assert!(matches!(
        ask(&store, &Call::Attributes(e.ino)),
        Ok(Answer::Inode(_))
    ));
    // Another file at the name of one that the second gateway has not heard of.
    std::fs::write(fixture.path("other"), "other").expect("written");
    std::fs::rename(fixture.path("other"), fixture.path("d/e/g")).expect("renamed");
    assert_eq!(
        ask(&store, &Call::Attributes(g.ino)).map(drop),
        Err(libc::ESTALE)
    );
    // A lock that is gone protects nothing.
    assert_eq!(read(&store, to_h), Err(libc::EIO));
}

#[test]
fn a_gateway_that_is_silent_is_given_up() {
    let fixture = Fixture::new();
    let _second = fixture.gateway("b");
    let listener = UnixListener::bind(fixture.dir.path().join("a")).expect("a socket");
    let store = {
        let first = fixture_gateway_behind(&fixture, listener);
        let store = fixture.store(&["a", "b"]);
        assert!(matches!(
            ask(&store, &Call::Attributes(ROOT)),
            Ok(Answer::Inode(_))
        ));
        first.silence();
        store
    };
    assert!(matches!(
        ask(&store, &Call::Attributes(ROOT)),
        Ok(Answer::Inode(_))
    ));
    ask(&store, &Call::MakeDir(name(ROOT, "d"), 0o755)).expect("the second makes it");
    assert!(Path::new(&fixture.path("d")).exists());
}

/// A gateway behind a relay that can stop to pass anything on, connections kept.
struct Mute {
    _gateway: Gateway,
    passing: Arc<AtomicUsize>,
}

impl Mute {
    fn silence(&self) {
        self.passing.store(0, Ordering::SeqCst);
    }
}

fn fixture_gateway_behind(fixture: &Fixture, listener: UnixListener) -> Mute {
    let gateway = fixture.gateway("behind");
    let to = fixture.dir.path().join("behind");
    let passing = Arc::new(AtomicUsize::new(1));
    let shared = Arc::clone(&passing);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for near in listener.incoming() {
            let Ok(near) = near else { return };
            if shared.load(Ordering::SeqCst) == 0 {
                kept.push(near);
                continue;
            }
            let far = UnixStream::connect(&to).expect("the gateway is there");
            let ends = (
                near.try_clone().expect("a handle"),
                far.try_clone().expect("a handle"),
            );
            for (from, to) in [(near, far), (ends.1, ends.0)] {
                let passing = Arc::clone(&shared);
                thread::spawn(move || hold_back(from, to, &passing));
            }
        }
    });
    Mute {
        _gateway: gateway,
        passing,
    }
}

/// Passes bytes on while that is wanted, and swallows them after.
fn hold_back(mut from: UnixStream, mut to: UnixStream, passing: &AtomicUsize) {
    let mut bytes = [0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if passing.load(Ordering::SeqCst) == 1 && to.write_all(&bytes[..len]).is_err() {
            return;
        }
    }
}

#[test]
fn a_name_is_no_path_and_a_stranger_is_refused() {
    let fixture = Fixture::new();
    let _gateway = fixture.gateway("g");
    let store = fixture.store(&["g"]);
    std::fs::create_dir(fixture.path("d")).expect("made");
    for bad in ["..", ".", "", "d/..", "/etc", "a\0b"] {
        let found = ask(&store, &Call::Lookup(name(ROOT, bad))).map(drop);
        assert_eq!(found, Err(libc::EINVAL), "{bad:?}");
    }
    let stranger = Party {
        secret: Secret::new([8; 32]),
        ..party()
    };
    let link = Link::new(vec![fixture.door("g")], stranger).expect("a number");
    let refused = link
        .connect(Duration::ZERO)
        .expect_err("it does not know the secret");
    assert!(refused.to_string().contains("secret"), "{refused}");
}
