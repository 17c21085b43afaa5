use std::os::fd::AsFd;

use super::super::testing::{FRAME, Scratch, file, part, pool};
use super::super::{Counted, Lagging, Posix, Seconds};
use super::*;

/// A client that lags, over a file of so many bytes that it knows, and has since been given others.
fn grown(known: usize, now: usize) -> (Doubting<Counted<Lagging>>, std::fs::File) {
    let file = file(&vec![1; known]);
    let client = Counted::new(Lagging::new(Seconds::default()));
    client.stamp(file.as_fd()).unwrap();
    client.read_vec(file.as_fd(), 0, 1 << 20).unwrap();
    Posix.write_bytes(file.as_fd(), 0, &vec![2; now]).unwrap();
    (Doubting(client), file)
}

impl CachingClient for Counted<Lagging> {
    fn reaches(&self, file: BorrowedFd<'_>, offset: u64) -> bool {
        self.inner().reaches(file, offset)
    }

    fn look_anew(&self, file: BorrowedFd<'_>) -> std::io::Result<()> {
        self.inner().look_anew(file)
    }
}

#[test]
fn a_read_that_ends_before_the_file_does_is_made_again() {
    for known in [0, 100, FRAME, 5000] {
        let (client, file) = grown(known, 9000);
        let short = client.0.read_vec(file.as_fd(), 0, 9000).unwrap();
        assert_eq!(short, vec![1; known], "the client lags");
        let whole = client.read_vec(file.as_fd(), 0, 9000).unwrap();
        assert_eq!(whole, vec![2; 9000]);
    }
}

#[test]
fn frames_are_filled_as_far_as_the_file_goes() {
    let (client, file) = grown(100, 5000);
    let (parts, pool) = ([part(0, 0, FRAME), part(1, 0, FRAME)], pool(2));
    let read = client.read(file.as_fd(), 0, &parts, &pool).unwrap();
    assert_eq!(read, 5000);
    let mut bytes = [0; 1000];
    pool.read(part(1, 0, 1).frame, 0, &mut bytes);
    assert_eq!((bytes[0], bytes[903], bytes[904]), (2, 2, 0));
}

#[test]
fn an_end_that_the_servers_confirm_is_not_read_past() {
    let dir = Scratch::new();
    let path = dir.path().join("f");
    std::fs::write(&path, vec![1; 100]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let client = Doubting(Counted::new(Lagging::new(Seconds::default())));
    for offset in [0, 50, 100, 5000] {
        let read = client.read_vec(file.as_fd(), offset, 300).unwrap();
        assert_eq!(read, vec![1; 100_usize.saturating_sub(offset as usize)]);
    }
    assert_eq!(client.counts().read_requests, 4, "none was made again");
}

/// A client whose servers have no name any more for what it has opened, and not used yet.
#[derive(Debug)]
struct Late;

const NO_SUCH_FILE: Errno = Errno(rustix::io::Errno::NOENT.raw_os_error());

impl CachingClient for Late {
    fn reaches(&self, _file: BorrowedFd<'_>, _offset: u64) -> bool {
        true
    }

    fn look_anew(&self, _file: BorrowedFd<'_>) -> std::io::Result<()> {
        Err(rustix::io::Errno::NOENT.into())
    }
}

impl Store for Late {
    fn read(&self, _: BorrowedFd<'_>, _: u64, _: &[FramePart], _: &Pool) -> Result<usize, Errno> {
        Err(NO_SUCH_FILE)
    }

    fn read_vec(&self, _: BorrowedFd<'_>, _: u64, _: usize) -> Result<Vec<u8>, Errno> {
        Err(NO_SUCH_FILE)
    }

    fn write(&self, _: BorrowedFd<'_>, _: u64, _: &[FramePart], _: &Pool) -> Result<(), Errno> {
        Err(NO_SUCH_FILE)
    }

    fn write_bytes(&self, _: BorrowedFd<'_>, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(NO_SUCH_FILE)
    }

    fn append(&self, _: BorrowedFd<'_>, _: &[u8]) -> Result<u64, Errno> {
        Err(NO_SUCH_FILE)
    }

    fn sync(&self, _: BorrowedFd<'_>, _: SyncKind) -> Result<(), Errno> {
        Err(NO_SUCH_FILE)
    }

    fn truncate(&self, _: BorrowedFd<'_>, _: u64) -> Result<(), Errno> {
        Err(NO_SUCH_FILE)
    }

    fn stamp(&self, _: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        Err(NO_SUCH_FILE)
    }

    fn renew(&self, _: BorrowedFd<'_>) -> Result<(), Errno> {
        Err(NO_SUCH_FILE)
    }

    fn counts(&self) -> StoreCounts {
        StoreCounts::default()
    }

    fn describe(&self) -> String {
        "late".to_owned()
    }
}

/// To a program `ENOENT` would say that a name does not exist which others rename over.
#[test]
fn a_descriptor_whose_file_has_no_name_any_more_is_stale() {
    let (late, held, pool) = (Doubting(Late), file(b"held"), pool(1));
    let (fd, parts) = (held.as_fd(), [part(0, 0, FRAME)]);
    assert_eq!(late.renew(fd), Err(STALE));
    assert_eq!(late.read(fd, 0, &parts, &pool), Err(STALE));
    assert_eq!(late.read_vec(fd, 0, 1), Err(STALE));
    assert_eq!(late.write(fd, 0, &parts, &pool), Err(STALE));
    assert_eq!(late.write_bytes(fd, 0, b"1"), Err(STALE));
    assert_eq!(late.append(fd, b"1"), Err(STALE));
    assert_eq!(late.sync(fd, SyncKind::Data), Err(STALE));
    assert_eq!(late.truncate(fd, 0), Err(STALE));
    assert_eq!(late.stamp(fd).map(drop), Err(STALE));
}
