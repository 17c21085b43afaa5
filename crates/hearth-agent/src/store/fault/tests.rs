use std::fs::File;
use std::os::fd::AsFd;

use super::*;
use crate::store::Posix;
use crate::store::testing::{EIO, ENOSPC, content, fd, file, part, pool};

fn fault(plan: &str) -> Fault<Posix> {
    Fault::new(Posix, plan.parse().unwrap())
}

fn put(store: &impl Store, file: &File, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    store.write_bytes(file.as_fd(), offset, bytes)
}

#[test]
fn the_planned_calls_fail_and_the_others_pass() {
    let (store, file) = (
        fault("write:enospc@2;sync:eio@1-2;truncate:eio@2-;read:eio@1"),
        file(b""),
    );
    assert_eq!(put(&store, &file, 0, b"one"), Ok(()));
    assert_eq!(put(&store, &file, 0, b"two"), Err(ENOSPC));
    assert_eq!(put(&store, &file, 3, b"three"), Ok(()));
    assert_eq!(content(&file), b"onethree");
    let syncs: Vec<_> = (0..3)
        .map(|_| store.sync(fd(&file), SyncKind::Data))
        .collect();
    assert_eq!(syncs, [Err(EIO), Err(EIO), Ok(())]);
    let cuts: Vec<_> = (0..3).map(|_| store.truncate(fd(&file), 1)).collect();
    assert_eq!(cuts, [Ok(()), Err(EIO), Err(EIO)]);
    assert_eq!(store.read_vec(fd(&file), 0, 9), Err(EIO));
    assert_eq!(store.read(fd(&file), 0, &[part(0, 0, 9)], &pool(1)), Ok(1));
}

#[test]
fn a_short_write_leaves_its_first_bytes() {
    let (store, pool, file) = (fault("write:eio@1-,after=3"), pool(1), file(b"......"));
    pool.write(part(0, 0, 0).frame, 0, b"abcd");
    let parts = [part(0, 0, 2), part(0, 2, 2)];
    assert_eq!(store.write(fd(&file), 0, &parts, &pool), Err(EIO));
    assert_eq!(content(&file), b"abc...");
    assert_eq!(put(&store, &file, 5, b"x"), Err(EIO));
    assert_eq!(content(&file), b"abc..x");
}

#[test]
fn a_budget_runs_out_in_the_middle_of_a_write_until_more_is_granted() {
    let (store, file) = (fault("write:budget=5"), file(b""));
    assert_eq!(put(&store, &file, 0, b"abc"), Ok(()));
    assert_eq!(put(&store, &file, 3, b"def"), Err(ENOSPC));
    assert_eq!(content(&file), b"abcde");
    assert_eq!(put(&store, &file, 0, b"x"), Err(ENOSPC));
    store.grant(3);
    assert_eq!(put(&store, &file, 3, b"def"), Ok(()));
    assert_eq!(content(&file), b"abcdef");
}

#[test]
fn a_stalled_call_waits_for_its_release_and_holds_up_nobody_else() {
    let (store, file) = (
        &fault("read:stall@1;read:stall@3;read:eio@3"),
        &file(b"bytes"),
    );
    let read = || store.read_vec(fd(file), 0, 5);
    std::thread::scope(|scope| {
        let first = scope.spawn(read);
        store.wait_stalled(1);
        assert_eq!(read(), Ok(b"bytes".to_vec()));
        assert_eq!(put(store, file, 0, b"B"), Ok(()));
        let third = scope.spawn(read);
        store.wait_stalled(2);
        assert!(!first.is_finished());
        store.release();
        assert_eq!(first.join().unwrap(), Ok(b"Bytes".to_vec()));
        assert_eq!(third.join().unwrap(), Err(EIO));
    });
}

#[test]
fn a_crash_takes_back_what_no_sync_has_covered() {
    let (store, kept, lost) = (
        fault("write:volatile;sync:eio@2"),
        file(b"0123456789"),
        file(b"old"),
    );
    put(&store, &kept, 8, b"synced").unwrap();
    store.sync(fd(&kept), SyncKind::Data).unwrap();
    put(&store, &kept, 0, b"xx").unwrap();
    put(&store, &kept, 1, b"yyy").unwrap();
    store.truncate(fd(&kept), 2).unwrap();
    put(&store, &kept, 6, b"zzz").unwrap();
    put(&store, &lost, 2, b"new").unwrap();
    assert_eq!(
        store.sync(fd(&lost), SyncKind::All),
        Err(EIO),
        "a failed sync covers nothing"
    );
    assert_eq!(content(&lost), b"olnew");

    store.crash().unwrap();
    assert_eq!(content(&kept), b"01234567synced");
    assert_eq!(content(&lost), b"old");

    put(&store, &lost, 0, b"O").unwrap();
    store.sync(fd(&lost), SyncKind::All).unwrap();
    store.crash().unwrap();
    assert_eq!(content(&lost), b"Old");
}

#[test]
fn a_crash_reaches_files_that_were_opened_for_writing_only_and_are_closed() {
    let (store, file) = (fault("write:volatile"), file(b"durable"));
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let write_only = File::options().write(true).open(path).unwrap();
    put(&store, &write_only, 0, b"gone").unwrap();
    drop(write_only);
    store.crash().unwrap();
    assert_eq!(content(&file), b"durable");
}

#[test]
fn without_volatile_a_crash_loses_nothing() {
    let (store, file) = (fault("sync:eio@1"), file(b""));
    put(&store, &file, 0, b"here").unwrap();
    store.crash().unwrap();
    assert_eq!(content(&file), b"here");
    assert_eq!(
        store.describe(),
        "a store with planned FAULTS (sync:eio@1), over posix"
    );
}
