use std::fs::File;

use rustix::io::Errno as Sys;

use super::*;
use crate::store::testing::{ENOSPC, FRAME, TinyFs, content, fd, file, part, pipe_end, pool};

#[test]
fn a_read_is_short_only_at_the_end_of_the_file() {
    let (pool, file) = (pool(3), file(b"0123456789"));
    let parts = [part(2, 5, 4), part(0, 0, 100)];
    pool.write(parts[1].frame, 6, b"kept");
    assert_eq!(Posix.read(fd(&file), 0, &parts, &pool), Ok(10));
    pool.with(parts[0].frame, 5..9, |bytes| assert_eq!(bytes, b"0123"));
    pool.with(parts[1].frame, 0..10, |bytes| {
        assert_eq!(bytes, b"456789kept")
    });

    assert_eq!(Posix.read(fd(&file), 7, &[part(1, 0, 3)], &pool), Ok(3));
    assert_eq!(Posix.read(fd(&file), 10, &parts, &pool), Ok(0));
    assert_eq!(Posix.read(fd(&file), 1 << 40, &parts, &pool), Ok(0));
    assert_eq!(Posix.read_vec(fd(&file), 8, 5), Ok(b"89".to_vec()));
    assert_eq!(Posix.read_vec(fd(&file), 11, 5), Ok(Vec::new()));
}

#[test]
fn a_write_puts_parts_in_order_and_keeps_holes() {
    let (pool, file) = (pool(2), file(b""));
    pool.write(part(1, 0, 0).frame, 0, b"world");
    pool.write(part(0, 0, 0).frame, 9, b"hello ");
    Posix
        .write(fd(&file), 3, &[part(0, 9, 6), part(1, 0, 5)], &pool)
        .unwrap();
    assert_eq!(content(&file), b"\0\0\0hello world");
}

#[test]
fn a_call_of_more_pieces_than_the_kernel_takes_is_completed() {
    let (pool, file) = (pool(2), file(b""));
    let bytes: Vec<u8> = (0..FRAME).map(|i| (i % 251) as u8).collect();
    pool.write(part(0, 0, 0).frame, 0, &bytes);
    let pieces = |frame| (0..3000).map(|i| part(frame, i, 1)).collect::<Vec<_>>();
    Posix.write(fd(&file), 0, &pieces(0), &pool).unwrap();
    assert_eq!(content(&file), bytes[..3000]);
    assert_eq!(Posix.read(fd(&file), 0, &pieces(1), &pool), Ok(3000));
    pool.with(part(1, 0, 0).frame, 0..3000, |read| {
        assert_eq!(read, &bytes[..3000])
    });
}

#[test]
fn interrupted_and_short_steps_are_repeated() {
    let mut steps = [Ok(3), Err(Sys::INTR), Ok(1), Ok(4)].into_iter();
    let mut seen = Vec::new();
    let done = transfer(8, |done| {
        seen.push(done);
        Ok(steps.next().unwrap()?)
    });
    assert_eq!((done, seen), (Ok(8), vec![0, 3, 3, 4]));
    assert_eq!(
        transfer(8, |_| Err(Sys::STALE.into())),
        Err(from_rustix(Sys::STALE))
    );
    assert_eq!(all_of(8, 7), Err(from_rustix(Sys::IO)));
}

#[test]
fn the_errors_of_the_kernel_come_back() {
    let (pool, pipe) = (pool(1), pipe_end());
    let espipe = from_rustix(Sys::SPIPE);
    assert_eq!(
        Posix.write(fd(&pipe), 0, &[part(0, 0, 1)], &pool),
        Err(espipe)
    );
    assert_eq!(Posix.write_bytes(fd(&pipe), 0, b"x"), Err(espipe));
    assert_eq!(Posix.truncate(fd(&pipe), 0), Err(from_rustix(Sys::INVAL)));
    assert_eq!(
        Posix.sync(fd(&pipe), SyncKind::Data),
        Err(from_rustix(Sys::INVAL))
    );
    let read_only = File::open("/proc/self/exe").unwrap();
    assert_eq!(
        Posix.write_bytes(fd(&read_only), 0, b"x"),
        Err(from_rustix(Sys::BADF))
    );
    let far = file(b"");
    assert_eq!(
        Posix.read(fd(&far), u64::MAX, &[part(0, 0, 1)], &pool),
        Err(from_rustix(Sys::INVAL))
    );
}

#[test]
fn a_stamp_tells_size_and_changes() {
    let file = file(b"four");
    let before = Posix.stamp(fd(&file)).unwrap();
    assert_eq!(before.size, 4);
    assert!(
        before.mtime_ns > 1_500_000_000_000_000_000,
        "{before:?} is not in nanoseconds"
    );
    Posix.truncate(fd(&file), 9).unwrap();
    Posix.sync(fd(&file), SyncKind::All).unwrap();
    let after = Posix.stamp(fd(&file)).unwrap();
    assert_eq!(after.size, 9);
    assert!(after.ctime_ns >= before.ctime_ns);
}

#[test]
fn a_full_file_system_fails_the_write_that_does_not_fit() {
    let tiny = match TinyFs::new("16k") {
        Ok(tiny) => tiny,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let (pool, file) = (pool(1), tiny.create("full"));
    let parts = [part(0, 0, FRAME); 3];
    pool.write(parts[0].frame, 0, &[7; FRAME]);
    Posix.write(fd(&file), 0, &parts, &pool).unwrap();
    // One of three frames still fits: the write stops half way, and that is an error.
    assert_eq!(
        Posix.write(fd(&file), 3 * FRAME as u64, &parts, &pool),
        Err(ENOSPC)
    );
    assert_eq!(content(&file), vec![7; 4 * FRAME]);
    assert_eq!(
        Posix.write_bytes(fd(&file), 4 * FRAME as u64, b"x"),
        Err(ENOSPC)
    );
    Posix.truncate(fd(&file), 0).unwrap();
    Posix.write(fd(&file), 0, &parts, &pool).unwrap();
}
