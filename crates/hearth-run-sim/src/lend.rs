//! Memory that agents lend: its descriptors wait at the connection of the program until it takes them.

use real_rustix::event::{EventfdFlags, eventfd};
use real_rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use real_rustix::io::{dup, write};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;

::std::thread_local! {
    static SENT: RefCell<BTreeMap<i32, Vec<OwnedFd>>> = RefCell::default();
    /// Programs by their connections. The operating system's numbers depend on other worlds.
    static PROGRAMS: RefCell<BTreeMap<i32, i32>> = RefCell::default();
    static CONNECTED: Cell<i32> = const { Cell::new(0) };
}

/// The connection of a new program.
pub(crate) fn connect() -> OwnedFd {
    let connection = eventfd(0, EventfdFlags::CLOEXEC).expect("there are descriptors");
    CONNECTED.set(CONNECTED.get() + 1);
    let fd = connection.as_raw_fd();
    PROGRAMS.with_borrow_mut(|all| all.insert(fd, CONNECTED.get()));
    connection
}

/// The program has ended: its connection is readable.
pub(crate) fn end(connection: &OwnedFd) {
    write(connection, &1_u64.to_ne_bytes()).expect("it counts");
}

/// Sends descriptors to a program.
pub(crate) fn send(program: BorrowedFd<'_>, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let copies = fds.iter().map(dup).collect::<Result<Vec<_>, _>>()?;
    SENT.with_borrow_mut(|sent| {
        let waiting = sent.entry(program.as_raw_fd()).or_default();
        waiting.extend(copies);
    });
    Ok(())
}

/// Takes what was sent.
pub(crate) fn take(program: BorrowedFd<'_>) -> Vec<OwnedFd> {
    let taken = SENT.with_borrow_mut(|sent| sent.remove(&program.as_raw_fd()));
    taken.unwrap_or_default()
}

/// As in `hearth-shm`.
pub fn send_write_ring(program: BorrowedFd<'_>, write_ring: &OwnedFd) -> io::Result<()> {
    send(program, &[write_ring.as_fd()])
}

/// The program at the other end of a connection: its number, and what is readable once it has ended.
pub fn program(connection: BorrowedFd<'_>) -> io::Result<(i32, OwnedFd)> {
    let number = PROGRAMS.with_borrow(|all| all[&connection.as_raw_fd()]);
    Ok((number, dup(connection)?))
}
