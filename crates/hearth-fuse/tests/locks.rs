//! Locks hold between two mounts of one store, as between two nodes (S12).

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;

use common::{Pages, Rig, Timing, child_work, errno, start_child};
use rustix::fs::{FlockOperation, fcntl_lock, flock};

fn two_mounts() -> Option<(Rig, Rig)> {
    let here = Rig::new(Timing::AtOnce, Pages::Direct)?;
    let there = here.beside();
    fs::write(here.at("a"), b"x").unwrap();
    Some((here, there))
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn fcntl_locks_exclude_each_other_across_mounts() {
    let Some((here, there)) = two_mounts() else {
        return;
    };
    let (mine, theirs) = (open(&here.at("a")), open(&there.at("a")));
    fcntl_lock(&mine, FlockOperation::NonBlockingLockExclusive).unwrap();
    let attempt = || fcntl_lock(&theirs, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(errno(attempt()), libc::EAGAIN);
    fcntl_lock(&mine, FlockOperation::NonBlockingUnlock).unwrap();
    attempt().unwrap();
    fcntl_lock(&theirs, FlockOperation::NonBlockingLockShared).unwrap();
    fcntl_lock(&mine, FlockOperation::NonBlockingLockShared).unwrap();
}

/// Takes, tries and lets go of an open-file-description lock of five bytes, and of a lock of the whole file.
const BOTH_KINDS: &str = "import fcntl, os, struct, sys
mine, theirs = (os.open(path, os.O_RDWR) for path in sys.argv[1:3])
def ofd(file, kind, start):
    F_OFD_SETLK = 37
    fcntl.fcntl(file, F_OFD_SETLK, struct.pack('hhqqi4x', kind, 0, start, 5, 0))
def refused(call, *args):
    try:
        call(*args)
    except BlockingIOError:
        return
    sys.exit(f'{call.__name__}{args} is granted')
EX = fcntl.LOCK_EX | fcntl.LOCK_NB
ofd(theirs, fcntl.F_WRLCK, 0)
ofd(theirs, fcntl.F_UNLCK, 0)
fcntl.flock(mine, EX)
refused(fcntl.flock, theirs, EX)
ofd(mine, fcntl.F_RDLCK, 0)
ofd(mine, fcntl.F_UNLCK, 0)
refused(fcntl.flock, theirs, EX)
fcntl.flock(mine, fcntl.LOCK_UN)
ofd(mine, fcntl.F_WRLCK, 0)
refused(ofd, theirs, fcntl.F_WRLCK, 0)
ofd(theirs, fcntl.F_WRLCK, 10)
fcntl.flock(theirs, EX)";

/// S12
#[test]
fn locks_of_both_kinds_through_one_description_are_apart() {
    let Some((here, there)) = two_mounts() else {
        return;
    };
    let mut program = Command::new("python3");
    program.arg("-c").arg(BOTH_KINDS);
    let output = program
        .arg(here.at("a"))
        .arg(there.at("a"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
}

#[test]
fn closing_any_descriptor_releases_fcntl_locks() {
    let Some((here, there)) = two_mounts() else {
        return;
    };
    let (mine, theirs) = (open(&here.at("a")), open(&there.at("a")));
    fcntl_lock(&mine, FlockOperation::NonBlockingLockExclusive).unwrap();
    drop(open(&here.at("a")));
    fcntl_lock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap();
}

/// Takes such a lock of a file, waiting until it is free, and ends with it.
const LOCK_AND_END: &str = "import fcntl, os, struct, sys
file = os.open(sys.argv[1], os.O_RDWR)
whole = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
F_OFD_SETLKW = 38
fcntl.fcntl(file, F_OFD_SETLKW, whole)";

#[test]
fn locks_of_a_description_end_with_it() {
    let Some((here, there)) = two_mounts() else {
        return;
    };
    for mount in [&here, &there, &here] {
        let mut program = Command::new("timeout");
        program.args(["30", "python3", "-c", LOCK_AND_END]);
        let ended = program.arg(mount.at("a")).status().unwrap();
        assert!(ended.success(), "{ended}: the lock of before is still held");
    }
}

#[test]
fn flocks_exclude_each_other_across_mounts_until_the_last_close() {
    let Some((here, there)) = two_mounts() else {
        return;
    };
    let (mine, theirs) = (File::open(here.at("a")).unwrap(), open(&there.at("a")));
    flock(&mine, FlockOperation::NonBlockingLockExclusive).unwrap();
    let attempt = || flock(&theirs, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(errno(attempt()), libc::EAGAIN);
    let also_mine = mine.try_clone().unwrap();
    drop(mine);
    assert_eq!(errno(attempt()), libc::EAGAIN);
    flock(&also_mine, FlockOperation::NonBlockingUnlock).unwrap();
    attempt().unwrap();
    drop(theirs);
    // The release of a descriptor is not waited for by close(2), so this lock waits.
    flock(&also_mine, FlockOperation::LockExclusive).unwrap();
}

#[test]
fn the_two_families_do_not_know_of_each_other() {
    let Some((here, there)) = two_mounts() else {
        return;
    };
    let (mine, theirs) = (open(&here.at("a")), open(&there.at("a")));
    flock(&mine, FlockOperation::NonBlockingLockExclusive).unwrap();
    fcntl_lock(&mine, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(
        errno(flock(&theirs, FlockOperation::NonBlockingLockShared)),
        libc::EAGAIN
    );
    flock(&mine, FlockOperation::NonBlockingUnlock).unwrap();
    flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap();
    let fcntl = fcntl_lock(&theirs, FlockOperation::NonBlockingLockShared);
    assert_eq!(errno(fcntl), libc::EAGAIN);
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    for call in ["fcntl", "flock"] {
        let Some((here, there)) = two_mounts() else {
            return;
        };
        let mine = open(&here.at("a"));
        lock_as(call, &mine);
        let mut child = start_waiter(call, &there.at("a"));
        drop(mine);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_waiter_can_be_killed() {
    for call in ["fcntl", "flock"] {
        let Some((here, there)) = two_mounts() else {
            return;
        };
        let mine = open(&here.at("a"));
        lock_as(call, &mine);
        let mut child = start_waiter(call, &there.at("a"));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        drop(mine);
        // The dead waiter did not take the lock with it.
        lock_as(call, &open(&here.at("a")));
    }
}

fn lock_as(call: &str, file: &File) {
    match call {
        "fcntl" => fcntl_lock(file, FlockOperation::LockExclusive).unwrap(),
        "flock" => flock(file, FlockOperation::LockExclusive).unwrap(),
        other => panic!("no such call: {other}"),
    }
}

/// Runs in a process of its own, started by [`start_waiter`].
#[test]
fn child_waits_for_a_lock() {
    let Some((call, path)) = child_work() else {
        return;
    };
    lock_as(&call, &open(&path));
}

/// A process that is blocked inside the locking call when this returns.
fn start_waiter(call: &str, path: &Path) -> Child {
    let mut child = start_child("child_waits_for_a_lock", call, path);
    let number = if call == "fcntl" {
        libc::SYS_fcntl
    } else {
        libc::SYS_flock
    };
    while !is_in(child.id(), number) {
        assert!(child.try_wait().unwrap().is_none(), "the child must wait");
        thread::yield_now();
    }
    child
}

fn is_in(process: u32, call: libc::c_long) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return false;
    };
    threads.flatten().any(|thread| {
        let text = fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
        // F_SETLKW is 7; other fcntl calls are over before they can be seen twice.
        text.starts_with(&format!("{call} ")) && (call == libc::SYS_flock || text.contains(" 0x7 "))
    })
}
