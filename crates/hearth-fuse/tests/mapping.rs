//! Mappings of files (S10).
//!
//! The kernel waits for pages while it holds the address space of the program that maps them. A
//! process that both serves a mount and maps its files would wait for itself, so programs that map
//! are processes of their own here.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{Pages, Rig, Timing, child_work, everywhere_until_dropped, start_child};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

const SIZE: usize = 256 * 1024;
const ROUNDS: usize = 200;

fn pattern() -> Vec<u8> {
    (0..SIZE).map(|n| (n * 7 + n / 251) as u8).collect()
}

fn read_write(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

fn map_elsewhere(task: &str, rig: &Rig) {
    assert!(
        start_child("child_maps", task, &rig.at("a"))
            .wait()
            .unwrap()
            .success()
    );
}

#[test]
fn a_shared_mapping_reads_the_file() {
    everywhere_until_dropped(|rig| {
        fs::write(rig.at("a"), pattern()).unwrap();
        map_elsewhere("read", &rig);
    });
}

#[test]
fn stores_into_a_shared_mapping_reach_the_file() {
    everywhere_until_dropped(|rig| {
        fs::write(rig.at("a"), pattern()).unwrap();
        map_elsewhere("write", &rig);
        let mut expected = pattern();
        expected[100..103].fill(b'x');
        assert_eq!(fs::read(rig.stored("a")).unwrap(), expected);
        assert_eq!(fs::read(rig.at("a")).unwrap(), expected);
    });
}

#[test]
fn a_file_is_truncated_though_pages_of_its_mapping_are_dirty() {
    for timing in [Timing::AtOnce, Timing::Later] {
        let Some(rig) = Rig::new(timing, Pages::Revoked) else {
            return;
        };
        fs::write(rig.at("a"), pattern()).unwrap();
        map_elsewhere("truncate", &rig);
        assert_eq!(fs::metadata(rig.stored("a")).unwrap().len(), 1000);
        rig.unmount();
    }
}

#[test]
fn dirty_shared_mappings_do_not_wait_for_their_own_revocation() {
    for timing in [Timing::AtOnce, Timing::Later] {
        let Some(rig) = Rig::new(timing, Pages::Revoked) else {
            return;
        };
        fs::write(rig.at("a"), pattern()).unwrap();
        let tasks = ["dirty", "dirty", "overwrite", "scan"];
        let start = |task| start_child("child_maps", task, &rig.at("a"));
        let children: Vec<_> = tasks.into_iter().map(start).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
    }
}

/// Runs in a process of its own, started by [`start_child`].
#[test]
fn child_maps() {
    let Some((task, path)) = child_work() else {
        return;
    };
    let both = ProtFlags::READ | ProtFlags::WRITE;
    match task.as_str() {
        "read" => {
            let file = File::open(&path).unwrap();
            with_map(&file, ProtFlags::READ, |map| assert_eq!(map, pattern()));
            with_map(&read_write(&path), ProtFlags::READ, |map| {
                assert_eq!(map, pattern())
            });
        }
        "write" => with_map(&read_write(&path), both, |map| map[100..103].fill(b'x')),
        "truncate" => with_map(&read_write(&path), both, |map| {
            (map[600], map[10_000]) = (b'x', b'x');
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(1000)
                .unwrap();
        }),
        "dirty" => {
            let file = read_write(&path);
            for round in 0..ROUNDS {
                with_map(&file, both, |map| {
                    map.iter_mut()
                        .step_by(4096)
                        .for_each(|byte| *byte = round as u8);
                });
            }
        }
        "overwrite" => {
            let file = read_write(&path);
            for round in 0..ROUNDS {
                file.write_all_at(&[round as u8; 100], (round * 1000 % SIZE) as u64)
                    .unwrap();
            }
        }
        "scan" => (0..ROUNDS).for_each(|_| assert_eq!(fs::read(&path).unwrap().len(), SIZE)),
        other => panic!("no such task: {other}"),
    }
}

/// Maps a file shared, lets a test play with it, and writes it back.
fn with_map(file: &File, protection: ProtFlags, test: impl FnOnce(&mut [u8])) {
    // SAFETY: a fresh mapping at an address of the kernel's choice, inside the file's size, which
    // nobody changes. It is not used after it is unmapped below. Other processes may store to it:
    // these tests then look at no bytes.
    unsafe {
        let map = mmap(
            std::ptr::null_mut(),
            SIZE,
            protection,
            MapFlags::SHARED,
            file,
            0,
        )
        .unwrap();
        test(std::slice::from_raw_parts_mut(map.cast(), SIZE));
        if protection.contains(ProtFlags::WRITE) {
            msync(map, SIZE, MsyncFlags::SYNC).unwrap();
        }
        munmap(map, SIZE).unwrap();
    }
}
