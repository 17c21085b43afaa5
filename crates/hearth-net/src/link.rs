//! The sending side of one peer, shared by all threads.
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

use crate::config::{Limits, Refusal};
use crate::frame::HEADER_LEN;
use crate::sync::lock;
use crate::transport::{self, PeerId, PeerState};
use crate::why::Why;

/// The token that interrupts the loop's wait.
pub(crate) const WAKER: mio::Token = mio::Token(1);
/// Refusals remembered for the status.
const REFUSALS_MAX: usize = 32;

/// The line that carries the frames to one connected peer.
pub(crate) trait Wire: Send + 'static {
    /// The connection's place in the loop's table.
    fn index(&self) -> usize;
    /// Which run of the peer is on the other side.
    fn incarnation(&self) -> u64;
    /// The means that carries the frames, in words.
    fn way(&self) -> String;
    /// Bytes accepted and not yet taken by the network.
    fn queued_bytes(&self) -> usize;
    /// Sends a frame, or queues up to `queued_max` bytes of it; an error ends the connection.
    fn send(
        &mut self,
        head: &[u8],
        payload: (&[IoSlice<'_>], usize),
        queued_max: usize,
    ) -> Result<(), Why>;
    /// Sends what is queued, as far as the network takes it.
    fn flush(&mut self) -> Result<(), Why>;
}

/// The state that senders and the loop share.
pub(crate) struct Shared<W> {
    pub(crate) me: PeerId,
    pub(crate) limits: Limits,
    pub(crate) peers: Vec<Peer<W>>,
    pub(crate) stop: AtomicBool,
    pub(crate) turns: AtomicU64,
    /// Set after `broken` has grown. Pairs with the swap in `take_broken`.
    attention: AtomicBool,
    broken: Mutex<Vec<PeerId>>,
    refusals: Mutex<VecDeque<Refusal>>,
    pub(crate) waker: Arc<mio::Waker>,
}

impl<W: Wire> Shared<W> {
    pub(crate) fn new(
        me: PeerId,
        members: &[SocketAddr],
        limits: Limits,
        poll: &mio::Poll,
    ) -> io::Result<Shared<W>> {
        Ok(Shared {
            me,
            limits,
            peers: members.iter().map(|addr| Peer::new(*addr)).collect(),
            stop: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            attention: AtomicBool::new(false),
            broken: Mutex::default(),
            refusals: Mutex::default(),
            waker: Arc::new(mio::Waker::new(poll.registry(), WAKER)?),
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

    /// Tells people of a connection that did not become a member's. `absent`: there was nobody to
    /// refuse.
    pub(crate) fn report_failure(
        &self,
        (addr, claimed): (SocketAddr, Option<PeerId>),
        why: &Why,
        absent: bool,
    ) {
        let text = why.to_string();
        let is_about_secrets = matches!(why, Why::Handshake(error) if error.is_about_secrets());
        let Some(peer) = claimed else {
            log::warn!("refused a connection from {addr}: {text}");
            return self.remember_refusal(Refusal {
                addr,
                claimed,
                why: text,
                is_about_secrets,
            });
        };
        // The same news again, from an attempt that is repeated, would fill the log.
        if self.peers[peer.index()].link().note_failure(&text) {
            log::warn!("{peer} at {addr} cannot be connected: {text}");
        }
        if !absent {
            self.remember_refusal(Refusal {
                addr,
                claimed,
                why: text,
                is_about_secrets,
            });
        }
    }

    /// From now on sends fail rather than queue for nobody.
    pub(crate) fn fail_all(&self) {
        for peer in &self.peers {
            peer.link().set_down("shut down");
        }
    }

    fn remember_refusal(&self, refusal: Refusal) {
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
pub(crate) struct Peer<W> {
    pub(crate) addr: SocketAddr,
    pub(crate) bytes_in: AtomicU64,
    link: Mutex<PeerLink<W>>,
}

impl<W: Wire> Peer<W> {
    fn new(addr: SocketAddr) -> Peer<W> {
        let state = State::Down {
            why: "not connected yet".into(),
        };
        Peer {
            addr,
            bytes_in: AtomicU64::new(0),
            link: Mutex::new(PeerLink {
                state,
                way: String::new(),
                bytes_out: 0,
            }),
        }
    }

    pub(crate) fn link(&self) -> MutexGuard<'_, PeerLink<W>> {
        lock(&self.link)
    }

    pub(crate) fn state(&self, id: PeerId) -> PeerState {
        let link = self.link();
        let down = |why: String| (transport::Link::Down { why }, 0);
        let (shown, queued_bytes) = match &link.state {
            State::Down { why } => down(why.clone()),
            State::Broken { why, .. } => down(why.to_string()),
            State::Up(wire) => {
                let incarnation = wire.incarnation();
                let up = transport::Link::Up { incarnation };
                (up, wire.queued_bytes())
            }
        };
        PeerState {
            id,
            addr: Some(self.addr),
            link: shown,
            way: link.way.clone(),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: link.bytes_out,
            queued_bytes,
        }
    }
}

/// The connection to one peer as senders see it.
pub(crate) struct PeerLink<W> {
    state: State<W>,
    /// The means that carried the last connection's frames, in words.
    way: String,
    bytes_out: u64,
}

enum State<W> {
    Down { why: String },
    Up(W),
    Broken { index: usize, why: Why },
}

/// The outcome of sending a frame.
pub(crate) enum Sent {
    Taken,
    Down,
    /// It broke the link; the loop must be told.
    Broke,
}

impl<W: Wire> PeerLink<W> {
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

    /// Sends what is queued, as far as the network takes it.
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
            index: wire.index(),
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

    /// The place of the connection that `on_up` has reported last, if any.
    pub(crate) fn current(&self) -> Option<usize> {
        match &self.state {
            State::Up(wire) => Some(wire.index()),
            State::Broken { index, .. } => Some(*index),
            State::Down { .. } => None,
        }
    }

    pub(crate) fn set_up(&mut self, wire: W) {
        self.way = wire.way();
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
