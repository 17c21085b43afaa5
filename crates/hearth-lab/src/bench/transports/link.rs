//! A link of limited rate, made by a relay in this process.
//!
//! A relay takes what comes, waits until the link would have passed it on, and sends it. Bytes that wait
//! meanwhile lie in the queue of the relay's socket; a datagram that finds it full is lost, as at a
//! real bottleneck. Relays end with the process.

use hearth_agent::net::Carrier;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that a relay of a stream takes at once.
const PIECE_LEN: usize = 16 << 10;
/// Shorter waits are not worth a sleep; they add up to one that is.
const SLEEP_MIN: Duration = Duration::from_micros(100);

/// The link between two members.
#[derive(Clone, Copy)]
pub(super) struct Link {
    rate: Option<f64>,
    /// One datagram in so many is lost; 0 for none.
    loss_every: u32,
}

impl Link {
    /// Nothing between them.
    pub(super) const OPEN: Link = Link {
        rate: None,
        loss_every: 0,
    };

    /// A link that passes on `rate` bytes a second in each direction.
    pub(super) const fn of(rate: f64, loss_every: u32) -> Link {
        Link {
            rate: Some(rate),
            loss_every,
        }
    }

    pub(super) fn rate(self) -> Option<f64> {
        self.rate
    }

    pub(super) fn loses(self) -> bool {
        self.loss_every > 0
    }

    /// Lays the link, and returns the address for bytes that are sent to `there`.
    pub(super) fn lay(self, carrier: Carrier, there: SocketAddr) -> io::Result<SocketAddr> {
        let Some(rate) = self.rate else {
            return Ok(there);
        };
        match carrier {
            Carrier::Tcp | Carrier::Unix | Carrier::Shm => lay_stream(rate, there),
            Carrier::Datagrams(_) => lay_datagrams(rate, self.loss_every, there),
        }
    }
}

/// Tells a relay when it may pass on the next bytes.
struct Meter {
    rate: f64,
    free_at: Instant,
}

impl Meter {
    fn new(rate: f64) -> Meter {
        Meter {
            rate,
            free_at: Instant::now(),
        }
    }

    /// Waits until `len` bytes have passed.
    #[expect(
        clippy::disallowed_methods,
        reason = "a link of limited rate is nothing but time that passes"
    )]
    fn pass(&mut self, len: usize) {
        let now = Instant::now();
        self.free_at = self.free_at.max(now) + Duration::from_secs_f64(len as f64 / self.rate);
        let wait = self.free_at - now;
        if wait >= SLEEP_MIN {
            thread::sleep(wait);
        }
    }
}

fn lay_stream(rate: f64, there: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let here = listener.local_addr()?;
    thread::spawn(move || {
        while let Ok((near, _)) = listener.accept() {
            if let Err(error) = join_streams(rate, near, there) {
                log::warn!("the relay of a benchmark ends: {error}");
            }
        }
    });
    Ok(here)
}

fn join_streams(rate: f64, near: TcpStream, there: SocketAddr) -> io::Result<()> {
    let far = TcpStream::connect(there)?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        thread::spawn(move || pass_stream(rate, from, to));
    }
    Ok(())
}

fn pass_stream(rate: f64, mut from: TcpStream, mut to: TcpStream) {
    let mut meter = Meter::new(rate);
    let mut bytes = vec![0; PIECE_LEN];
    while let Ok(len) = from.read(&mut bytes)
        && len > 0
    {
        meter.pass(len);
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    // The other side sees the end, or has ended already.
    let _ = to.shutdown(Shutdown::Write);
}

fn lay_datagrams(rate: f64, loss_every: u32, there: SocketAddr) -> io::Result<SocketAddr> {
    let near = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
    let here = near.local_addr()?;
    // The first sender on this side gets the answers.
    let caller = Arc::new(OnceLock::new());
    let (from, to, known) = (Arc::clone(&near), Arc::clone(&far), Arc::clone(&caller));
    thread::spawn(move || {
        pass_datagrams(rate, loss_every, &from, |bytes, source| {
            known.get_or_init(|| source);
            to.send_to(bytes, there)
        });
    });
    thread::spawn(move || {
        pass_datagrams(rate, loss_every, &far, |bytes, _| match caller.get() {
            Some(caller) => near.send_to(bytes, caller),
            None => Ok(0),
        });
    });
    Ok(here)
}

fn pass_datagrams(
    rate: f64,
    loss_every: u32,
    from: &UdpSocket,
    send: impl Fn(&[u8], SocketAddr) -> io::Result<usize>,
) {
    let mut meter = Meter::new(rate);
    let mut bytes = vec![0; 64 << 10];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    loop {
        // An error is the news that the other side has gone; the next pair has relays of its own.
        let Ok((len, source)) = from.recv_from(&mut bytes) else {
            continue;
        };
        meter.pass(len);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let lost = loss_every > 0 && state.is_multiple_of(u64::from(loss_every));
        if !lost && let Err(error) = send(&bytes[..len], source) {
            log::debug!("a datagram of the relay was lost: {error}");
        }
    }
}
