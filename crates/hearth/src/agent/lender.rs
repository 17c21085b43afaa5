//! The socket at which programs ask for the pool. It is one of its own, because they must ask without a word of JSON.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

use super::service::Service;

/// Programs that may wait for an answer at once; more are not served, and use the mount.
const WAITING_MAX: i32 = 128;

/// A socket that programs connect to.
pub(super) struct Lender(OwnedFd);

impl Lender {
    /// Listens at a path inside a directory that nobody else may enter.
    pub(super) fn bind(path: &Path) -> io::Result<Lender> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, WAITING_MAX)?;
        Ok(Lender(socket))
    }

    /// Takes one connection, if one waits, and lends it the pool. Never waits.
    pub(super) fn accept(&self, service: &Service) {
        self.take(|program| service.lend(program));
    }

    /// The same for a write ring.
    pub(super) fn accept_write_ring(&self, service: &Service) {
        self.take(|program| service.lend_write_ring(program));
    }

    fn take(&self, lend: impl FnOnce(BorrowedFd<'_>)) {
        if let Ok(program) = accept_with(&self.0, SocketFlags::CLOEXEC) {
            lend(program.as_fd());
        }
    }
}

impl AsFd for Lender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
