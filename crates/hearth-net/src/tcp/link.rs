//! The sending side of one peer, shared by all threads.
//!
//! A frame is written at once from the thread that sends it. What the socket does not take is
//! copied into the queue, and everything after it queues behind it; the event loop writes the queue
//! out as the socket drains. Sockets are registered for writing once and edge-triggered, and each
//! writer goes on until the kernel says "would block", so no edge is missed and nothing is
//! registered again.
//!
//! ```text
//!            set_up              break_up, failed write             set_down
//!   Down  ------------>  Up  ----------------------------> Broken -----------> Down
//!    ^                    |                                                     (loop)
//!    +--- set_down (loop)-+
//! ```
//!
//! Only the loop calls `on_up` and `on_down`. `Broken` is the time between a sender's bad news and
//! the loop's report of it: sends fail already.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use mio::net::TcpStream;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::why::Why;
use super::{Limits, Refusal};
use crate::auth::FrameKey;
use crate::frame::{FIELDS_LEN, HEADER_LEN, Header, Kind};
use crate::sync::lock;
use crate::transport::{self, PeerId, PeerState};

/// The token that interrupts the loop's wait.
pub(crate) const WAKER: mio::Token = mio::Token(1);
/// Pieces that one write may have; the kernel's own bound.
const IOV_MAX: usize = 1024;
/// Pieces of a frame that need no allocation.
const IOV_SHORT: usize = 16;
/// An empty queue above this capacity gives its memory back.
const QUEUE_KEPT_BYTES: usize = 1 << 20;
/// Refusals remembered for the status.
const REFUSALS_MAX: usize = 32;

/// What senders and the loop share.
pub(crate) struct Shared {
    pub(crate) me: PeerId,
    pub(crate) limits: Limits,
    pub(crate) peers: Vec<Peer>,
    pub(crate) stop: AtomicBool,
    pub(crate) turns: AtomicU64,
    /// Set after `broken` has grown. Pairs with the swap in `take_broken`.
    attention: AtomicBool,
    broken: Mutex<Vec<PeerId>>,
    refusals: Mutex<VecDeque<Refusal>>,
    waker: mio::Waker,
}

impl Shared {
    pub(crate) fn new(
        me: PeerId,
        members: &[SocketAddr],
        limits: Limits,
        poll: &mio::Poll,
    ) -> io::Result<Shared> {
        Ok(Shared {
            me,
            limits,
            peers: members.iter().map(|addr| Peer::new(*addr)).collect(),
            stop: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            attention: AtomicBool::new(false),
            broken: Mutex::default(),
            refusals: Mutex::default(),
            waker: mio::Waker::new(poll.registry(), WAKER)?,
        })
    }

    pub(crate) fn wake(&self) {
        self.waker
            .wake()
            .expect("an eventfd takes a write unless its counter is full, never here");
    }

    /// Tells the loop that the link to `peer` is broken.
    pub(crate) fn report_broken(&self, peer: PeerId) {
        lock(&self.broken).push(peer);
        self.attention.store(true, Ordering::Release);
        self.wake();
    }

    /// The peers reported since the last call.
    pub(crate) fn take_broken(&self) -> Vec<PeerId> {
        // Pairs with the Release in report_broken.
        if !self.attention.load(Ordering::Relaxed) || !self.attention.swap(false, Ordering::Acquire)
        {
            return Vec::new();
        }
        std::mem::take(&mut lock(&self.broken))
    }

    pub(crate) fn remember_refusal(&self, refusal: Refusal) {
        let mut refusals = lock(&self.refusals);
        if refusals.len() == REFUSALS_MAX {
            refusals.pop_front();
        }
        refusals.push_back(refusal);
    }

    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        lock(&self.refusals).iter().cloned().collect()
    }
}

/// One member of the list.
pub(crate) struct Peer {
    pub(crate) addr: SocketAddr,
    pub(crate) bytes_in: AtomicU64,
    link: Mutex<PeerLink>,
}

impl Peer {
    fn new(addr: SocketAddr) -> Peer {
        let state = State::Down {
            why: "not connected yet".into(),
        };
        Peer {
            addr,
            bytes_in: AtomicU64::new(0),
            link: Mutex::new(PeerLink {
                state,
                bytes_out: 0,
            }),
        }
    }

    pub(crate) fn link(&self) -> MutexGuard<'_, PeerLink> {
        lock(&self.link)
    }

    pub(crate) fn state(&self, id: PeerId) -> PeerState {
        let link = self.link();
        let (shown, queued_bytes) = match &link.state {
            State::Down { why } => (transport::Link::Down { why: why.clone() }, 0),
            State::Broken { why, .. } => (
                transport::Link::Down {
                    why: why.to_string(),
                },
                0,
            ),
            State::Up(wire) => (
                transport::Link::Up {
                    incarnation: wire.incarnation,
                },
                wire.queue.len(),
            ),
        };
        PeerState {
            id,
            addr: Some(self.addr),
            link: shown,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: link.bytes_out,
            queued_bytes,
        }
    }
}

/// The connection to one peer as senders see it.
pub(crate) struct PeerLink {
    state: State,
    bytes_out: u64,
}

enum State {
    Down { why: String },
    Up(Wire),
    Broken { index: usize, why: Why },
}

/// A connection that stands.
pub(crate) struct Wire {
    /// The connection's place in the loop's table.
    pub(crate) index: usize,
    pub(crate) incarnation: u64,
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) key: FrameKey,
    pub(crate) queue: VecDeque<u8>,
}

/// What became of a frame.
pub(crate) enum Sent {
    Taken,
    Down,
    /// It broke the link; the loop must be told.
    Broke,
}

impl PeerLink {
    pub(crate) fn send(
        &mut self,
        head: &[u8],
        (payload, payload_len): (&[IoSlice<'_>], usize),
        limits: &Limits,
    ) -> Sent {
        let State::Up(wire) = &mut self.state else {
            return Sent::Down;
        };
        match wire.send(head, (payload, payload_len), limits.queued_bytes_max) {
            Ok(()) => {
                self.bytes_out += (HEADER_LEN + head.len() + payload_len) as u64;
                Sent::Taken
            }
            Err(why) => {
                self.break_up(why);
                Sent::Broke
            }
        }
    }

    /// Writes what is queued, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> Result<(), Why> {
        match &mut self.state {
            State::Up(wire) => wire.flush(),
            State::Down { .. } | State::Broken { .. } => Ok(()),
        }
    }

    /// Makes sends fail from now on; true if the link was up, and the loop must be told.
    pub(crate) fn break_up(&mut self, why: Why) -> bool {
        let State::Up(wire) = &self.state else {
            return false;
        };
        self.state = State::Broken {
            index: wire.index,
            why,
        };
        true
    }

    /// The broken connection's place in the loop's table, and why it broke.
    pub(crate) fn broken(&self) -> Option<(usize, Why)> {
        match &self.state {
            State::Broken { index, why } => Some((*index, why.clone())),
            State::Down { .. } | State::Up(_) => None,
        }
    }

    /// The place and incarnation of the connection that `on_up` has reported last, if any.
    pub(crate) fn current(&self) -> Option<(usize, Option<u64>)> {
        match &self.state {
            State::Up(wire) => Some((wire.index, Some(wire.incarnation))),
            State::Broken { index, .. } => Some((*index, None)),
            State::Down { .. } => None,
        }
    }

    pub(crate) fn set_up(&mut self, wire: Wire) {
        self.state = State::Up(wire);
    }

    pub(crate) fn set_down(&mut self, why: &str) {
        self.state = State::Down { why: why.into() };
    }

    /// Notes why an attempt to connect failed; says whether that is news.
    pub(crate) fn note_failure(&mut self, failure: &str) -> bool {
        match &mut self.state {
            State::Down { why } if why != failure => {
                *why = failure.into();
                true
            }
            State::Down { .. } | State::Up(_) | State::Broken { .. } => false,
        }
    }
}

impl Wire {
    fn send(
        &mut self,
        head: &[u8],
        (payload, payload_len): (&[IoSlice<'_>], usize),
        queued_max: usize,
    ) -> Result<(), Why> {
        let frame = Header {
            kind: Kind::Data,
            head_len: head.len(),
            payload_len,
        };
        let fields = frame.fields();
        let mut header = [0; HEADER_LEN];
        header[..FIELDS_LEN].copy_from_slice(&fields);
        header[FIELDS_LEN..].copy_from_slice(&self.key.seal(&fields, head));

        let mut short = [IoSlice::new(&[]); IOV_SHORT];
        let mut long = Vec::new();
        let count = 2 + payload.len();
        let parts = if count <= IOV_SHORT {
            &mut short[..count]
        } else {
            long.resize(count, IoSlice::new(&[]));
            &mut long[..]
        };
        parts[0] = IoSlice::new(&header);
        parts[1] = IoSlice::new(head);
        parts[2..].copy_from_slice(payload);
        self.write_or_queue(parts, HEADER_LEN + head.len() + payload_len, queued_max)
    }

    fn write_or_queue(
        &mut self,
        parts: &[IoSlice<'_>],
        len: usize,
        queued_max: usize,
    ) -> Result<(), Why> {
        let idle = self.queue.is_empty();
        let mut skip = if idle { write(&self.stream, parts)? } else { 0 };
        if skip == len {
            return Ok(());
        }
        if self.queue.len() + (len - skip) > queued_max {
            return Err(Why::QueueFull { max: queued_max });
        }
        for part in parts {
            let taken = skip.min(part.len());
            skip -= taken;
            self.queue.extend(&part[taken..]);
        }
        // A short write is not yet "would block", and only that one arms the next edge.
        if idle { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Why> {
        while !self.queue.is_empty() {
            let (front, back) = self.queue.as_slices();
            let taken = write(&self.stream, &[IoSlice::new(front), IoSlice::new(back)])?;
            if taken == 0 {
                return Ok(());
            }
            self.queue.drain(..taken);
        }
        if self.queue.capacity() > QUEUE_KEPT_BYTES {
            self.queue = VecDeque::new();
        }
        Ok(())
    }
}

/// Writes what the socket takes now; zero when that is nothing.
pub(crate) fn write(stream: &TcpStream, parts: &[IoSlice<'_>]) -> Result<usize, Why> {
    let parts = &parts[..parts.len().min(IOV_MAX)];
    // No signal: the agent may run inside a program that keeps the default action of SIGPIPE.
    let flags = SendFlags::NOSIGNAL;
    let sent = retry_on_intr(|| sendmsg(stream, parts, &mut SendAncillaryBuffer::default(), flags));
    match sent {
        Ok(taken) => Ok(taken),
        Err(Errno::AGAIN) => Ok(0),
        Err(error) => Err(Why::Write(io::Error::from(error).to_string())),
    }
}
