//! Writes that are left in a write ring, beside sessions of the same and of another agent (S1, S24).

use super::*;
use hearth_shm::{LaneOutcome, PoolView, WriteRing, attach, attach_write_ring};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, connect, listen, recvmsg, socket_with,
};

const PAGE: usize = 4096;
const LEN: usize = 512;
const ROUNDS: u64 = 3000;
const LIMIT: Duration = Duration::from_secs(60);

/// A file that the first agent's session has open for writing, with what its programs are lent.
struct Fixture {
    set: Set,
    writer: SessionHandle,
    reader: SessionHandle,
    file: u64,
    /// Of a page whose home is the first agent.
    offset: u64,
    view: PoolView,
    write_ring: WriteRing,
}

/// Asks for something over a socket, which an agent answers.
fn lent<T: Send>(
    ask: impl FnOnce(&[u8]) -> std::io::Result<T> + Send,
    give: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> std::io::Result<()>,
) -> T {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("one");
    bind(&socket, &SocketAddrUnix::new(&path).expect("a path")).expect("binds");
    listen(&socket, 1).expect("listens");
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(path.as_os_str().as_bytes()).expect("it is lent"));
        give(accept(&socket).expect("a program").as_fd()).expect("lends");
        asked.join().expect("an answer")
    })
}

/// Tries again until it has worked.
fn until(what: &str, mut works: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !works() {
        assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
    }
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::under(Semantics::Posix)
    }

    fn under(semantics: Semantics) -> Fixture {
        let set = set(2, |config| {
            config.pool_bytes = 64 << 20;
            config.semantics = semantics;
        });
        std::fs::write(set.dir.path().join("f"), vec![0; 64 * PAGE]).expect("a file");
        let writer = set.open(0, "f", true).expect("opens").handle;
        let reader = set.open(1, "f", false).expect("opens").handle;
        let path = set.dir.path().join("f");
        let file = std::fs::metadata(path).expect("attributes").ino();
        set.agents[0].share().expect("shares");
        let (view, _) = lent(attach, |program| set.agents[0].lend(program));
        let write_ring = lent(attach_write_ring, |program| {
            set.agents[0].lend_write_ring(program)
        });
        let mut fixture = Fixture {
            set,
            writer,
            reader,
            file,
            offset: 0,
            view,
            write_ring,
        };
        let mut pages = (0..64).step_by(4).cycle();
        until("some page is offered", || {
            fixture.offset = pages.next().expect("they go round") * PAGE as u64;
            fixture.write(0);
            (0..1000).any(|_| {
                thread::yield_now();
                fixture.leave(0)
            })
        });
        fixture
    }

    fn bytes(value: u64) -> Vec<u8> {
        value.to_le_bytes().repeat(LEN / 8)
    }

    /// As a program does it whose call is passed by.
    fn write(&self, value: u64) {
        let place = Place::At(self.offset);
        self.set
            .write(0, self.writer, place, &Fixture::bytes(value))
            .expect("writes");
    }

    fn leave(&self, value: u64) -> bool {
        let bytes = Fixture::bytes(value);
        let left = self
            .write_ring
            .leave(&self.view, self.file, self.offset, &bytes);
        matches!(left, LaneOutcome::Done { .. })
    }

    /// The same once the gate is open, which it is soon after a write that came through the session.
    fn leave_soon(&self, value: u64) {
        self.soon(|| self.leave(value));
    }

    /// Tries again until a write is left.
    fn soon(&self, leave: impl Fn() -> bool) {
        let yielding = || {
            thread::yield_now();
            leave()
        };
        until("the page is offered again", || {
            let left = (0..1000).any(|_| yielding());
            if !left {
                self.write(0);
            }
            left
        });
    }

    /// As the library does it; true if it was left.
    fn pwrite(&self, value: u64) -> bool {
        let left = self.leave(value);
        if !left {
            self.write(value);
        }
        left
    }

    fn value(read: &[u8]) -> u64 {
        let value = u64::from_le_bytes(read[..8].try_into().expect("eight bytes"));
        assert_eq!(read, Fixture::bytes(value), "a read of two writes");
        value
    }

    fn read(&self, node: usize, handle: SessionHandle) -> u64 {
        let read = self.set.read(node, handle, self.offset, LEN as u32);
        Fixture::value(&read.expect("reads"))
    }
}

#[test]
fn what_was_left_is_read_on_every_node_and_is_in_the_store_after_a_sync() {
    let fixture = Fixture::new();
    for value in 1..50 {
        fixture.write(value * 10);
        fixture.leave_soon(value * 10 + 1);
        fixture.leave_soon(value * 10 + 2);
        let node = (value % 2) as usize;
        let handle = [fixture.writer, fixture.reader][node];
        assert_eq!(fixture.read(node, handle), value * 10 + 2, "node {node}");
    }
    fixture.write(7);
    fixture.leave_soon(8);
    fixture.set.sync(0, fixture.writer).expect("syncs");
    let store = std::fs::read(fixture.set.dir.path().join("f")).expect("the store");
    let from = fixture.offset as usize;
    assert_eq!(Fixture::value(&store[from..from + LEN]), 8);
}

#[test]
fn no_read_on_any_node_is_older_than_a_write_that_has_returned() {
    let fixture = Fixture::new();
    let (returned, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let read_all = |node: usize, handle: SessionHandle| {
        let mut last = 0;
        while !over.load(SeqCst) {
            let least = returned.load(SeqCst).max(last);
            last = fixture.read(node, handle);
            assert!(last >= least, "node {node} reads {last} after {least}");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| read_all(1, fixture.reader));
        scope.spawn(|| read_all(0, fixture.writer));
        for value in 1..=ROUNDS {
            fixture.pwrite(value);
            returned.store(value, SeqCst);
        }
        over.store(true, SeqCst);
    });
    // Readers may have had the page all along; now nobody takes it.
    fixture.leave_soon(ROUNDS + 1);
    assert_eq!(fixture.read(1, fixture.reader), ROUNDS + 1);
}

#[test]
fn of_two_threads_in_turns_the_last_one_wins() {
    let fixture = Fixture::new();
    let turn = AtomicU64::new(1);
    let take_turns = |mine: u64| {
        for value in (1..=ROUNDS).filter(|value| value % 2 == mine) {
            while turn.load(SeqCst) != value {
                thread::yield_now();
            }
            fixture.pwrite(value);
            if value % 64 < 2 {
                assert_eq!(fixture.read(0, fixture.writer), value, "the last write");
            }
            turn.store(value + 1, SeqCst);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| take_turns(0));
        take_turns(1);
    });
    assert_eq!(fixture.read(1, fixture.reader), ROUNDS);
}

#[test]
fn more_than_a_write_ring_holds_is_brought_by_itself_or_passed_by() {
    let fixture = Fixture::new();
    fixture.write(1);
    let left = (1..=20_000).filter(|&value| fixture.pwrite(value)).count();
    assert!(left > 1000, "only {left} were left");
    assert_eq!(fixture.read(1, fixture.reader), 20_000);
}

/// As a session writes it and then, once that gathers, a program leaves the next line of the page.
fn write_and_leave(fixture: &mut Fixture, page: u64, value: u64) {
    let began = page * PAGE as u64;
    until("a page is offered while it gathers", || {
        fixture.offset = began;
        fixture.write(value);
        // Beyond all that was written before.
        fixture.offset = began + LEN as u64;
        (0..10_000).any(|_| {
            thread::yield_now();
            fixture.leave(value + 1)
        })
    });
}

/// S24, S31.
#[test]
fn what_was_left_where_writes_gather_makes_the_file_longer() {
    let mut fixture = Fixture::under(Semantics::Mpi);
    // Of both agents' chunks, each beyond the end of the file.
    for page in (64..96).step_by(4) {
        write_and_leave(&mut fixture, page, page);
    }
    // Bytes that were read are kept for programs, and nothing of the file gathers here any more.
    let own = fixture.read(0, fixture.writer);
    assert_eq!(own, 93, "its own node sees it at once");
    fixture.offset = 100 * PAGE as u64;
    fixture.write(7);
    fixture.set.sync(0, fixture.writer).expect("syncs");
    let store = std::fs::read(fixture.set.dir.path().join("f")).expect("the store");
    assert_eq!(store.len(), 100 * PAGE + LEN);
    for page in (64..96).step_by(4) {
        let value = page as u64;
        let lines = &store[page * PAGE..][..2 * LEN];
        assert_eq!(Fixture::value(&lines[..LEN]), value, "page {page}");
        assert_eq!(Fixture::value(&lines[LEN..]), value + 1, "page {page}");
    }
}
/// A program whose clock is ahead of the agent's, as in a time namespace.
#[test]
fn what_was_left_by_a_clock_that_is_ahead_is_brought_before_it_is_read() {
    let fixture = Fixture::new();
    let place = (fixture.file, fixture.offset);
    for value in 1..50 {
        fixture.write(0);
        fixture.soon(|| {
            let (ahead, bytes) = (|| u64::MAX, Fixture::bytes(value));
            let left = fixture
                .write_ring
                .leave_by(ahead, &fixture.view, place, &bytes);
            matches!(left, LaneOutcome::Done { .. })
        });
        assert_eq!(fixture.read(0, fixture.writer), value);
    }
}

/// A program that asks again, and a thread of it that still has the write ring from before.
#[test]
fn a_write_ring_that_another_one_has_replaced_takes_nothing() {
    let mut fixture = Fixture::new();
    let agent = &fixture.set.agents[0];
    let next = lent(attach_write_ring, |program| agent.lend_write_ring(program));
    let before = std::mem::replace(&mut fixture.write_ring, next);
    // So the gate is open.
    fixture.write(1);
    fixture.leave_soon(2);
    for value in 3..1000 {
        let left = before.leave(
            &fixture.view,
            fixture.file,
            fixture.offset,
            &Fixture::bytes(value),
        );
        assert!(!matches!(left, LaneOutcome::Done { .. }), "nobody takes it");
    }
    assert_eq!(fixture.read(1, fixture.reader), 2);
}

/// A write ring as a file that can be scribbled into.
fn ring_as_file(path: &[u8]) -> std::io::Result<File> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut sent = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0; 8];
    let words = &mut [IoSliceMut::new(&mut word)];
    recvmsg(&socket, words, &mut sent, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = sent.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let file = files.next().ok_or(std::io::ErrorKind::UnexpectedEof)?;
    Ok(File::from(file))
}

/// A program that says to have left more than a ring can hold.
#[test]
fn a_write_ring_that_makes_no_sense_is_ended() {
    /// Bytes into a ring: how far the program is, and the agent.
    const TAIL_AT: u64 = 0;
    const HEAD_AT: u64 = 64;
    const NONSENSE: u64 = 1 << 40;
    let mut fixture = Fixture::new();
    let agent = &fixture.set.agents[0];
    let memory = lent(ring_as_file, |program| agent.lend_write_ring(program));
    let nonsense = NONSENSE.to_le_bytes();
    memory
        .write_all_at(&nonsense, TAIL_AT)
        .expect("it is memory");
    until("the ring takes nothing any more", || {
        fixture.write(1);
        let mut head = [0; 8];
        memory
            .read_exact_at(&mut head, HEAD_AT)
            .expect("it is memory");
        u64::from_le_bytes(head) > NONSENSE
    });
    fixture.write_ring = lent(attach_write_ring, |program| agent.lend_write_ring(program));
    fixture.write(2);
    fixture.leave_soon(3);
    assert_eq!(fixture.read(1, fixture.reader), 3);
}
