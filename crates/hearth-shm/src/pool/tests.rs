use std::fs;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;

use super::*;

const FRAME: usize = 4096;

fn pool(frames: u32) -> Pool {
    Pool::new(PoolConfig::new(FRAME, frames)).unwrap()
}

fn part(frame: u32, offset: usize, len: usize) -> FramePart {
    FramePart {
        frame: FrameIndex(frame),
        offset,
        len,
    }
}

fn bytes(pool: &Pool, part: FramePart) -> Vec<u8> {
    pool.with(part.frame, part.range(), <[u8]>::to_vec)
}

fn memory_named(name: &str) -> bool {
    let fds = fs::read_dir("/proc/self/fd")
        .unwrap()
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok());
    let in_fds = fds
        .into_iter()
        .any(|to| to.to_string_lossy().contains(name));
    in_fds
        || fs::read_to_string("/proc/self/maps")
            .unwrap()
            .contains(name)
}

#[test]
fn frames_start_as_zeros_and_keep_what_is_written() {
    let pool = pool(2);
    pool.write(FrameIndex(1), 100, b"page");
    assert_eq!(bytes(&pool, part(1, 98, 8)), b"\0\0page\0\0");
    assert_eq!(bytes(&pool, part(0, 0, FRAME)), vec![0; FRAME]);
    pool.zero(FrameIndex(1), 101..103);
    let mut out = [0; 4];
    pool.read(FrameIndex(1), 100, &mut out);
    assert_eq!(&out, b"p\0\0e");
}

#[test]
fn a_copy_works_within_a_frame_and_between_frames_in_both_directions() {
    let pool = pool(2);
    pool.write(FrameIndex(0), 0, b"abcd");
    pool.copy(part(0, 0, 4), FrameIndex(0), 2);
    assert_eq!(bytes(&pool, part(0, 0, 6)), b"ababcd");
    pool.copy(part(0, 0, 6), FrameIndex(1), 10);
    pool.copy(part(1, 12, 4), FrameIndex(0), 0);
    assert_eq!(bytes(&pool, part(0, 0, 6)), b"abcdcd");
}

#[test]
fn a_pool_larger_than_a_segment_has_a_smaller_last_segment() {
    let frame_bytes = 4 << 20;
    let pool = Pool::new(PoolConfig::new(frame_bytes, 33)).unwrap();
    let sizes: Vec<i64> = pool
        .segments()
        .map(|fd| rustix::fs::fstat(fd).unwrap().st_size)
        .collect();
    assert_eq!(sizes, [64 << 20, 64 << 20, 4 << 20]);
    pool.write(FrameIndex(32), frame_bytes - 4, b"last");
    pool.copy(
        FramePart {
            frame: FrameIndex(32),
            offset: frame_bytes - 4,
            len: 4,
        },
        FrameIndex(15),
        0,
    );
    assert_eq!(bytes(&pool, part(15, 0, 4)), b"last");
}

#[test]
fn frames_that_fit_no_segment_are_refused() {
    for (frame_bytes, frames) in [(0, 1), (1000, 1), (128, 1), (8 << 20, 1), (FRAME, 0)] {
        let refused = Pool::new(PoolConfig::new(frame_bytes, frames)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
#[should_panic(expected = "is not in a pool of 2 frames")]
fn a_frame_outside_the_pool_is_a_bug() {
    pool(2).zero(FrameIndex(2), 0..1);
}

#[test]
#[should_panic(expected = "leaves the frame")]
fn a_flush_never_reaches_into_the_next_frame() {
    let file = tempfile::tempfile().unwrap();
    let _ = pool(2).pwritev(file.as_fd(), &[part(0, FRAME - 1, 2)], 0);
}

#[test]
#[should_panic(expected = "leaves the frame")]
fn a_fill_never_reaches_into_the_next_frame() {
    let file = tempfile::tempfile().unwrap();
    let _ = pool(2).preadv(file.as_fd(), &[part(0, FRAME - 1, 2)], 0);
}

#[test]
fn parts_are_flushed_and_filled_in_order() {
    let pool = pool(4);
    pool.write(FrameIndex(3), 7, b"hello ");
    pool.write(FrameIndex(0), 0, b"world");
    let mut file = tempfile::tempfile().unwrap();
    assert_eq!(
        pool.pwritev(file.as_fd(), &[part(3, 7, 6), part(0, 0, 5)], 2)
            .unwrap(),
        11
    );
    let mut text = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut text).unwrap();
    assert_eq!(text, b"\0\0hello world");

    // The same frame twice, and frames out of order; the file ends one byte early.
    let parts = [part(2, 100, 3), part(1, 0, 4), part(2, 0, 5)];
    assert_eq!(pool.preadv(file.as_fd(), &parts, 2).unwrap(), 11);
    assert_eq!(bytes(&pool, parts[0]), b"hel");
    assert_eq!(bytes(&pool, parts[1]), b"lo w");
    assert_eq!(bytes(&pool, parts[2]), b"orld\0");
}

#[test]
fn more_parts_than_the_kernel_takes_are_a_short_call() {
    let pool = pool(1);
    let file = tempfile::tempfile().unwrap();
    let parts = vec![part(0, 0, 1); PIECES_MAX + 5];
    assert_eq!(pool.pwritev(file.as_fd(), &parts, 0).unwrap(), PIECES_MAX);
    assert_eq!(pool.preadv(file.as_fd(), &parts, 0).unwrap(), PIECES_MAX);
}

#[test]
fn errors_of_the_file_come_back() {
    let pool = pool(1);
    let (read_end, write_end) = std::io::pipe().unwrap();
    let on_pipe = pool
        .preadv(read_end.as_fd(), &[part(0, 0, 1)], 0)
        .unwrap_err();
    assert_eq!(on_pipe.raw_os_error(), Some(libc::ESPIPE));
    assert_eq!(
        pool.pwritev(write_end.as_fd(), &[part(0, 0, 1)], 0)
            .unwrap_err()
            .raw_os_error(),
        Some(libc::ESPIPE)
    );
    let far = tempfile::tempfile().unwrap();
    assert!(
        pool.preadv(far.as_fd(), &[part(0, 0, 1)], u64::MAX)
            .is_err()
    );
}

#[test]
fn a_segment_can_neither_be_resized_nor_written_by_anybody_else() {
    let pool = pool(4);
    pool.write(FrameIndex(0), 0, b"kept");
    let fd = pool.segments().next().unwrap();
    for len in [0, FRAME as u64, 1 << 20] {
        assert_eq!(rustix::fs::ftruncate(fd, len), Err(rustix::io::Errno::PERM));
    }
    let mut file = fs::File::from(fd.try_clone_to_owned().unwrap());
    assert_eq!(
        file.write(b"lost").unwrap_err().kind(),
        io::ErrorKind::PermissionDenied
    );
    let mut seen = [0; 4];
    file.read_exact(&mut seen).unwrap();
    assert_eq!(
        &seen, b"kept",
        "another holder of the descriptor reads the pool's bytes"
    );
}

#[test]
fn a_dropped_pool_leaves_no_memory_and_no_descriptor() {
    let name = "pool-that-is-dropped";
    let pool = Pool::new(PoolConfig {
        frame_bytes: FRAME,
        frames: 8,
        name: name.to_owned(),
    })
    .unwrap();
    assert!(memory_named(name));
    drop(pool);
    assert!(!memory_named(name));
}

// Writers fill a whole frame with one byte; nobody may ever see a mixture.
#[test]
fn concurrent_use_never_tears_a_frame() {
    const ROUNDS: u8 = 200;
    let pool = &pool(3);
    std::thread::scope(|scope| {
        for seed in 0..2_u8 {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    pool.write(
                        FrameIndex(u32::from(seed)),
                        0,
                        &[round.wrapping_add(seed); FRAME],
                    );
                    let (from, to) = (u32::from(seed), (u32::from(seed) + 1) % 3);
                    pool.copy(part(from, 0, FRAME), FrameIndex(to), 0);
                    pool.copy(part(to, 0, FRAME), FrameIndex(from), 0);
                }
            });
        }
        scope.spawn(move || {
            for round in 0..u32::from(ROUNDS) * 3 {
                let seen = bytes(pool, part(round % 3, 0, FRAME));
                assert!(
                    seen.iter().all(|&byte| byte == seen[0]),
                    "frame {} is torn",
                    round % 3
                );
            }
        });
    });
}

// The lock order keeps fills of overlapping sets of frames, named in any order, from a deadlock.
#[test]
fn concurrent_fills_of_the_same_frames_end() {
    let pool = &pool(4);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 4 * FRAME]).unwrap();
    let file = &file;
    std::thread::scope(|scope| {
        for turn in 0..4_u32 {
            scope.spawn(move || {
                let parts: Vec<_> = (0..4).map(|i| part((i + turn) % 4, 0, FRAME)).collect();
                for _ in 0..200 {
                    assert_eq!(pool.preadv(file.as_fd(), &parts, 0).unwrap(), 4 * FRAME);
                    assert_eq!(pool.pwritev(file.as_fd(), &parts, 0).unwrap(), 4 * FRAME);
                }
            });
        }
    });
    assert_eq!(bytes(pool, part(2, 0, FRAME)), vec![7; FRAME]);
}
