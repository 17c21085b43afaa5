use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::protocol::TAIL;
use super::*;

const SMALL: usize = PIPE_BYTES_MIN;

/// A pipe of which this process has both sides.
fn both(capacity: usize) -> [(PipeWriter, PipeReader); 2] {
    let (fd, writer, reader) = make_pipe("test", capacity).expect("memory is there");
    let other = join_pipe(fd.as_fd()).expect("it was made for that");
    [(writer, reader), other]
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(next).collect()
}

#[test]
fn what_is_written_is_read_on_the_other_side_both_ways() {
    let [(mut ours, mut back), (mut theirs, mut there)] = both(SMALL);
    let parts = [
        IoSlice::new(b"one"),
        IoSlice::new(b""),
        IoSlice::new(b"two"),
    ];
    assert_eq!(ours.write(&parts, || ()), Ok(6));
    assert_eq!(theirs.write(&[IoSlice::new(b"back")], || ()), Ok(4));
    let mut got = [0; 16];
    assert_eq!(there.read(&mut got[..4], || ()), Ok(4));
    assert_eq!(&got[..4], b"onet");
    let mut rest = b"x".to_vec();
    assert_eq!(there.append(&mut rest, 16, || ()), Ok(2));
    assert_eq!(rest, b"xwo");
    assert_eq!(back.read(&mut got, || ()), Ok(4));
}

#[test]
fn a_full_ring_takes_no_more_until_half_of_it_is_free() {
    let [(mut ours, _), (_, mut there)] = both(SMALL);
    let bytes = pattern(SMALL + 1, 1);
    assert_eq!(ours.write(&[IoSlice::new(&bytes)], || ()), Ok(SMALL));
    assert_eq!(ours.write(&[IoSlice::new(&bytes)], || ()), Ok(0));
    let woken = std::cell::Cell::new(0);
    let wake = || woken.set(woken.get() + 1);
    let mut got = vec![0; SMALL];
    assert_eq!(
        there.read(&mut got[..SMALL / 2 - 1], wake),
        Ok(SMALL / 2 - 1)
    );
    assert_eq!(woken.get(), 0, "it would sleep again at once");
    assert_eq!(
        there.read(&mut got[SMALL / 2 - 1..], wake),
        Ok(SMALL / 2 + 1)
    );
    assert_eq!(woken.get(), 1, "once is enough");
    assert!(got == bytes[..SMALL]);
}

#[test]
fn a_reader_is_woken_once_for_all_that_comes_while_it_sleeps() {
    let [(mut ours, _), (_, mut there)] = both(SMALL);
    let woken = std::cell::Cell::new(0);
    let wake = || woken.set(woken.get() + 1);
    for _ in 0..3 {
        ours.write(&[IoSlice::new(b"a")], wake)
            .expect("it is sound");
    }
    assert_eq!(woken.get(), 1, "a new pipe's reader sleeps");
    let mut got = [0; 3];
    assert_eq!(there.read(&mut got, || ()), Ok(3));
    ours.write(&[IoSlice::new(b"b")], wake)
        .expect("it is sound");
    assert_eq!(
        woken.get(),
        1,
        "it got all that it asked for, so it will ask again"
    );
    assert_eq!(there.read(&mut got, || ()), Ok(1));
    ours.write(&[IoSlice::new(b"c")], wake)
        .expect("it is sound");
    assert_eq!(woken.get(), 2, "it got less, so it sleeps");
}

fn doorbell() -> (impl Fn(), Receiver<()>) {
    let (sender, receiver): (Sender<()>, _) = channel();
    // After its end nobody sleeps any more.
    (move || _ = sender.send(()), receiver)
}

#[test]
fn bytes_pass_between_threads_that_sleep_in_between() {
    const ALL: usize = 3 << 20;
    let [(mut ours, _), (_, mut there)] = both(16 << 10);
    let (wake_reader, reader_woken) = doorbell();
    let (wake_writer, writer_woken) = doorbell();
    let sent = pattern(ALL, 7);
    let bytes = sent.clone();
    let writing = thread::spawn(move || {
        let mut rest = &bytes[..];
        let mut length = 1;
        while !rest.is_empty() {
            let now = &rest[..rest.len().min(length)];
            let done = ours.write(&[IoSlice::new(now)], &wake_reader);
            let done = done.expect("it is sound");
            rest = &rest[done..];
            length = length * 3 % 70_001 + 1;
            if done < now.len() {
                writer_woken.recv().expect("the reader is there");
            }
        }
    });
    let mut got = Vec::new();
    while got.len() < ALL {
        let asked = 1 + got.len() % 9000;
        let done = there.append(&mut got, asked, &wake_writer);
        if done.expect("it is sound") < asked && got.len() < ALL {
            reader_woken.recv().expect("the writer is there");
        }
    }
    writing.join().expect("it does not panic");
    assert!(got == sent);
}

#[test]
fn positions_that_cannot_be_are_noticed() {
    for wrong in [SMALL as u64 + 1, u64::MAX] {
        let [_, (_, mut there)] = both(SMALL);
        there.0.store(TAIL, wrong, Ordering::Relaxed);
        assert_eq!(
            there.read(&mut [0; 8], || ()),
            Err(Spoiled),
            "more than fits"
        );
    }
    for wrong in [1, SMALL as u64] {
        let [(mut ours, _), _] = both(SMALL);
        ours.0.store(protocol::HEAD, wrong, Ordering::Relaxed);
        let written = ours.write(&[IoSlice::new(b"x")], || ());
        assert_eq!(written, Err(Spoiled), "more was read than written");
    }
}

#[test]
fn memory_that_can_be_taken_away_is_not_joined() {
    let len = RINGS * (HEAD_BYTES + SMALL);
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("test", flags).expect("memory is there");
    rustix::fs::ftruncate(&fd, len as u64).expect("it can grow");
    assert!(join_pipe(fd.as_fd()).is_err());
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).expect("it can be sealed");
    assert!(join_pipe(fd.as_fd()).is_ok());
    rustix::fs::ftruncate(&fd, len as u64 + 8).expect("it can grow");
    assert!(join_pipe(fd.as_fd()).is_err(), "no ring has that length");
}
