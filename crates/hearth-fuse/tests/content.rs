//! The content of files: every system call that reads, writes, sizes or maps.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use common::{Pages, Rig, Timing, errno, everywhere};
use rustix::fs::{AtFlags, FallocateFlags, StatxFlags, fallocate};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

fn read_write(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

#[test]
fn what_is_written_is_read_back_and_is_in_the_store() {
    everywhere(|rig| {
        let bytes = pattern(3 << 20);
        fs::write(rig.at("a"), &bytes).unwrap();
        assert_eq!(fs::read(rig.at("a")).unwrap(), bytes);
        assert_eq!(fs::read(rig.stored("a")).unwrap(), bytes);
        assert_eq!(fs::metadata(rig.at("a")).unwrap().len(), bytes.len() as u64);
    });
}

#[test]
fn reads_at_and_beyond_the_end_are_short() {
    everywhere(|rig| {
        fs::write(rig.at("a"), b"0123456789").unwrap();
        let file = File::open(rig.at("a")).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(file.read_at(&mut buffer, 6).unwrap(), 4);
        assert_eq!(&buffer[..4], b"6789");
        assert_eq!(file.read_at(&mut buffer, 10).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, 1 << 30).unwrap(), 0);
    });
}

/// S8: an operating system that kept the first answer would repeat it.
#[test]
fn each_look_at_a_size_is_new_where_nobody_tells_of_changes() {
    let Some(rig) = Rig::untold() else {
        return;
    };
    fs::write(rig.at("a"), pattern(100)).unwrap();
    let file = File::open(rig.at("a")).unwrap();
    for len in [100, 40, 0, 70] {
        let stored = OpenOptions::new().write(true).open(rig.stored("a"));
        stored.unwrap().set_len(len).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len);
        assert_eq!(fs::metadata(rig.at("a")).unwrap().len(), len);
    }
}

#[test]
fn appends_of_two_descriptors_do_not_overwrite_each_other() {
    everywhere(|rig| {
        let open = || {
            OpenOptions::new()
                .append(true)
                .create(true)
                .open(rig.at("log"))
                .unwrap()
        };
        let (mut one, mut two) = (open(), open());
        for _ in 0..10 {
            one.write_all(b"one\n").unwrap();
            two.write_all(b"two\n").unwrap();
        }
        assert_eq!(
            fs::read_to_string(rig.at("log")).unwrap(),
            "one\ntwo\n".repeat(10)
        );
    });
}

#[test]
fn truncation_cuts_and_grows_with_zeros() {
    everywhere(|rig| {
        fs::write(rig.at("a"), pattern(10_000)).unwrap();
        let file = read_write(&rig.at("a"));
        file.set_len(5000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 5000);
        file.set_len(6000).unwrap();
        let bytes = fs::read(rig.at("a")).unwrap();
        assert_eq!(bytes[..5000], pattern(10_000)[..5000]);
        assert_eq!(bytes[5000..], [0; 1000]);
        drop(file);
        truncate_by_name(&rig.at("a"), 7);
        assert_eq!(fs::metadata(rig.at("a")).unwrap().len(), 7);
    });
}

/// `truncate(2)` by path. Not through a child: one that is about to start has copies of all the
/// descriptors of this process, and keeps other tests from unmounting.
fn truncate_by_name(path: &Path, size: i64) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a live, terminated string.
    assert_eq!(unsafe { libc::truncate(path.as_ptr(), size) }, 0);
}

#[test]
fn opening_with_truncation_empties_the_file_for_everybody() {
    everywhere(|rig| {
        fs::write(rig.at("a"), pattern(100_000)).unwrap();
        let mut reader = File::open(rig.at("a")).unwrap();
        let mut some = [0; 100];
        reader.read_exact(&mut some).unwrap();
        File::create(rig.at("a")).unwrap();
        assert_eq!(fs::metadata(rig.at("a")).unwrap().len(), 0);
        assert_eq!(fs::metadata(rig.stored("a")).unwrap().len(), 0);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"");
    });
}

#[test]
fn an_unlinked_file_lives_while_it_is_open() {
    everywhere(|rig| {
        let mut file = read_write(&rig.at("a"));
        file.write_all(b"before").unwrap();
        fs::remove_file(rig.at("a")).unwrap();
        assert!(!rig.at("a").exists());
        file.write_all(b" and after").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before and after");
        assert_eq!(file.metadata().unwrap().nlink(), 0);
    });
}

#[test]
fn a_file_replaced_while_open_keeps_its_old_content_for_its_reader() {
    everywhere(|rig| {
        fs::write(rig.at("old"), b"old").unwrap();
        fs::write(rig.at("new"), b"new").unwrap();
        let mut reader = File::open(rig.at("old")).unwrap();
        fs::rename(rig.at("new"), rig.at("old")).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "old");
        assert_eq!(fs::read(rig.at("old")).unwrap(), b"new");
    });
}

#[test]
fn holes_are_found_and_space_is_preallocated() {
    everywhere(|rig| {
        let file = read_write(&rig.at("a"));
        file.write_all_at(b"x", 1 << 20).unwrap();
        let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap();
        assert_eq!(data, 1 << 20);
        assert_eq!(
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap(),
            0
        );
        assert_eq!(fs::read(rig.at("a")).unwrap()[..1 << 20], vec![0; 1 << 20]);

        fallocate(&file, FallocateFlags::empty(), 0, 4 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4 << 20);
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 8 << 20).unwrap();
        assert_eq!(fs::metadata(rig.at("a")).unwrap().len(), 4 << 20);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert_eq!(errno(fallocate(&file, punch, 0, 4096)), libc::EOPNOTSUPP);
    });
}

#[test]
fn set_times_stay_when_the_file_is_closed() {
    everywhere(|rig| {
        let mut file = read_write(&rig.at("a"));
        file.write_all(b"x").unwrap();
        let when = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        file.set_modified(when).unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), when);
        drop(file);
        assert_eq!(fs::metadata(rig.at("a")).unwrap().modified().unwrap(), when);
        let before = UNIX_EPOCH - Duration::new(10, 500_000_000);
        File::open(rig.at("a"))
            .unwrap()
            .set_modified(before)
            .unwrap();
        assert_eq!(
            fs::metadata(rig.at("a")).unwrap().modified().unwrap(),
            before
        );
    });
}

#[test]
fn synchronous_writes_and_syncs_succeed() {
    use std::os::unix::fs::OpenOptionsExt;
    everywhere(|rig| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).custom_flags(libc::O_SYNC);
        let mut file = options.open(rig.at("a")).unwrap();
        file.write_all(b"kept").unwrap();
        file.sync_all().unwrap();
        File::open(rig.root()).unwrap().sync_all().unwrap();
        assert_eq!(fs::read(rig.stored("a")).unwrap(), b"kept");
    });
}

#[test]
fn revoking_makes_the_kernel_ask_again() {
    for timing in [Timing::AtOnce, Timing::Later] {
        let Some(rig) = Rig::new(timing, Pages::Kept) else {
            return;
        };
        fs::write(rig.at("a"), b"old content").unwrap();
        assert_eq!(fs::read(rig.at("a")).unwrap(), b"old content");
        let file = hearth_client::FileKey {
            ino: fs::metadata(rig.at("a")).unwrap().ino(),
        };

        fs::write(rig.stored("a"), b"new content").unwrap();
        assert_eq!(
            fs::read(rig.at("a")).unwrap(),
            b"old content",
            "the kernel kept the page"
        );
        let first = hearth_client::PageRange {
            offset: 0,
            len: 4096,
        };
        rig.session.revoke(file, Some(first));
        assert_eq!(fs::read(rig.at("a")).unwrap(), b"new content");

        let longer = pattern(20_000);
        fs::write(rig.stored("a"), &longer).unwrap();
        rig.session.revoke(file, None);
        assert_eq!(
            fs::metadata(rig.at("a")).unwrap().len(),
            20_000,
            "attributes went as well"
        );
        assert_eq!(fs::read(rig.at("a")).unwrap(), longer);
        rig.session
            .revoke(hearth_client::FileKey { ino: u64::MAX }, None);
    }
}

#[test]
fn an_open_file_that_grew_elsewhere_is_read_to_its_new_end_by_the_next_open() {
    let Some(rig) = Rig::new(Timing::AtOnce, Pages::Kept) else {
        return;
    };
    fs::write(rig.at("a"), b"short").unwrap();
    assert_eq!(fs::metadata(rig.at("a")).unwrap().len(), 5);
    fs::write(rig.stored("a"), pattern(9000)).unwrap();
    rig.session.revoke(
        hearth_client::FileKey {
            ino: fs::metadata(rig.stored("a")).unwrap().ino(),
        },
        None,
    );
    assert_eq!(fs::read(rig.at("a")).unwrap(), pattern(9000));
}

#[test]
fn a_file_is_read_to_its_end_though_the_kernel_ignores_every_answer_about_its_size() {
    let Some(rig) = Rig::new(Timing::AtOnce, Pages::Kept) else {
        return;
    };
    fs::write(rig.stored("a"), b"short").unwrap();
    let ino = fs::metadata(rig.at("a")).unwrap().ino();
    fs::write(rig.stored("a"), pattern(9000)).unwrap();
    let file = hearth_client::FileKey { ino };
    rig.session.revoke(file, None);
    rig.session.overtakes.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(fs::read(rig.at("a")).unwrap(), pattern(9000));
    }
    rig.session.overtakes.store(false, Ordering::Relaxed);
    assert_eq!(fs::metadata(rig.at("a")).unwrap().len(), 9000);
    let reads = rig.session.reads.load(Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(fs::read(rig.at("a")).unwrap(), pattern(9000));
    }
    assert_eq!(
        rig.session.reads.load(Ordering::Relaxed),
        reads + 1,
        "pages are kept again"
    );
}

#[test]
fn a_lookup_tells_the_kernel_a_size_that_the_store_has_not_heard_of() {
    let Some(rig) = Rig::lagging(9000) else {
        return;
    };
    fs::write(rig.stored("a"), b"short").unwrap();
    let believed = rustix::fs::statx(
        rustix::fs::CWD,
        rig.at("a"),
        AtFlags::STATX_DONT_SYNC,
        StatxFlags::SIZE,
    );
    assert_eq!(believed.unwrap().stx_size, 9000);
}
