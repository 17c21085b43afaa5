//! Many programs at once, while the session revokes before it answers: nothing waits for itself.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;

use common::{Pages, Rig, Timing};

const ROUNDS: usize = 200;
const SIZE: usize = 256 * 1024;

fn revoking(timing: Timing) -> Option<Rig> {
    Rig::new(timing, Pages::Revoked)
}

fn read_write(rig: &Rig, name: &str) -> File {
    File::options()
        .read(true)
        .write(true)
        .open(rig.at(name))
        .unwrap()
}

#[test]
fn readers_see_whole_writes_in_order_while_others_write() {
    for timing in [Timing::AtOnce, Timing::Later] {
        let Some(rig) = revoking(timing) else { return };
        fs::write(rig.at("a"), vec![0; SIZE]).unwrap();
        thread::scope(|threads| {
            threads.spawn(|| {
                let writer = read_write(&rig, "a");
                for round in 1..=ROUNDS {
                    writer.write_all_at(&vec![round as u8; 4096], 0).unwrap();
                    let mut back = [0; 1];
                    File::open(rig.at("a"))
                        .unwrap()
                        .read_at(&mut back, 4095)
                        .unwrap();
                    assert_eq!(
                        back[0], round as u8,
                        "what was written is read through the kernel"
                    );
                }
            });
            for _ in 0..3 {
                threads.spawn(|| {
                    let reader = File::open(rig.at("a")).unwrap();
                    let mut last = 0;
                    for _ in 0..ROUNDS {
                        let mut byte = [0; 1];
                        reader.read_at(&mut byte, 100).unwrap();
                        assert!(byte[0] >= last, "time does not run backwards");
                        last = byte[0];
                    }
                });
            }
        });
        rig.unmount();
    }
}

#[test]
fn truncating_unlinking_and_reading_at_once_comes_to_an_end() {
    for timing in [Timing::AtOnce, Timing::Later] {
        let Some(rig) = revoking(timing) else { return };
        thread::scope(|threads| {
            for worker in 0..8 {
                let rig = &rig;
                threads.spawn(move || disturb(rig, &format!("file-{}", worker % 3)));
            }
        });
        rig.unmount();
    }
}

/// Does everything that revokes and everything that locks folios. Others may remove the file.
fn disturb(rig: &Rig, name: &str) {
    for round in 0..ROUNDS {
        let path = rig.at(name);
        // Any of these may find the file gone; that they all return is the point.
        let _ = fs::write(&path, vec![round as u8; SIZE]);
        let _ = fs::read(&path);
        if let Ok(file) = File::options().write(true).open(&path) {
            let _ = file.set_len((round * 1000) as u64);
        }
        if round % 5 == 0 {
            let _ = fs::remove_file(&path);
        }
        let _ = fs::metadata(&path);
    }
}
