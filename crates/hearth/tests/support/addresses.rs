//! Addresses that no other process takes, so that a port may be named before somebody listens there.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The next port of the loopback address that has this process's number, but for ports that somebody has of all addresses.
/// Nothing else listens at that address, and connections do not come from there.
pub(crate) fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(2000);
    // Numbers of processes have 22 bits at most; the first byte keeps clear of 127.0.0.1.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 100 + high, middle, low);
    loop {
        let at = SocketAddr::from((own, NEXT.fetch_add(1, Relaxed)));
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return at;
        }
    }
}
