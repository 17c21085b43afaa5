//! How connections begin, become members, and end.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Token};

use super::{EventLoop, FIRST_CONN};
use crate::auth::{self, FrameKey};
use crate::frame::Kind;
use crate::handshake::{Handshake, Progress, Session};
use crate::tcp::conn::{Conn, Origin, Phase};
use crate::tcp::reader::Reader;
use crate::tcp::stream::Stream;
use crate::tcp::wire::{Wire, write};
use crate::timers::Timer;
use crate::transport::PeerId;
use crate::why::Why;

/// The wait after the system refused to accept, when it lacks descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// The connection whose handshake advances.
pub(super) struct Greeting<'a> {
    pub(super) index: usize,
    pub(super) stream: &'a Arc<Stream>,
    pub(super) origin: Origin,
}

impl EventLoop {
    /// Connects to every member with a lower id; those with a higher one connect to us.
    pub(super) fn dial_all(&mut self) {
        for peer in (0..self.who.me.0).map(PeerId) {
            self.dial(peer);
        }
    }

    pub(super) fn dial(&mut self, peer: PeerId) {
        let (addr, own) = (self.shared.peers[peer.index()].addr, self.own_addr());
        let retry = &mut self.retries[peer.index()];
        retry.due = None;
        let is_near = self.listeners.is_near() && addr.ip() == own.ip() && retry.is_even();
        let dialed = if is_near {
            Stream::dial_near(addr)
        } else {
            Stream::dial(addr)
        };
        let admitted = dialed
            .map_err(|error| Why::Connect(error.to_string()))
            .and_then(|stream| self.admit(stream, addr, Origin::Dialed(peer)));
        if let Err(why) = admitted {
            self.report_failure((addr, Some(peer)), &why);
            self.plan_dial(peer);
        }
    }

    fn own_addr(&self) -> SocketAddr {
        self.shared.peers[self.who.me.index()].addr
    }

    fn plan_dial(&mut self, peer: PeerId) {
        let retry = &mut self.retries[peer.index()];
        let at = Instant::now() + retry.next_delay();
        if let Some(planned) = retry.due.replace(at) {
            self.timers.remove(planned, Timer::Dial(peer));
        }
        self.timers.add(at, Timer::Dial(peer));
    }

    /// Accepts what waits in the listen queue, as long as there is room for strangers.
    pub(super) fn accept_waiting(&mut self) {
        while self.accept_pending && self.strangers < self.shared.limits.strangers_max {
            match self.listeners.accept(self.own_addr()) {
                Ok((stream, addr)) => {
                    if let Err(why) = self.admit(stream, addr, Origin::Accepted) {
                        self.report_failure((addr, None), &why);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accept_pending = false;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    log::warn!("cannot accept connections: {error}");
                    self.accept_pending = false;
                    self.timers
                        .add(Instant::now() + ACCEPT_RETRY, Timer::Accept);
                }
            }
        }
    }

    /// Gives a new connection its place in the table.
    fn admit(&mut self, mut stream: Stream, addr: SocketAddr, origin: Origin) -> Result<(), Why> {
        let index = self.free.last().copied().unwrap_or(self.conns.len());
        // Both interests once and for all: with edges, writability costs nothing until it is lost.
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(FIRST_CONN + index), interest)
            .map_err(|error| Why::Setup(error.to_string()))?;
        let phase = match origin {
            Origin::Dialed(_) => Phase::Connecting,
            Origin::Accepted => Phase::Greeting(Handshake::Opened),
        };
        let deadline = Instant::now() + self.shared.limits.handshake_span_max;
        let stream = Arc::new(stream);
        let conn = Conn {
            stream,
            addr,
            origin,
            phase,
            reader: Reader::new(),
            deadline,
        };
        conn.configure(self.shared.limits.unacknowledged_span_max)?;

        self.timers.add(deadline, Timer::Handshake(index));
        if self.free.pop().is_none() {
            self.conns.push(None);
        }
        self.conns[index] = Some(Box::new(conn));
        if origin == Origin::Accepted {
            self.strangers += 1;
        }
        Ok(())
    }

    /// Says hello on a connection that the system has just made.
    pub(super) fn greet(&mut self, conn: &mut Conn) -> Result<(), Why> {
        let Origin::Dialed(peer) = conn.origin else {
            return Ok(());
        };
        let nonce = auth::nonce().map_err(|error| Why::Setup(error.to_string()))?;
        let (handshake, hello) = Handshake::dial(&self.who, peer, nonce);
        conn.phase = Phase::Greeting(handshake);
        write_whole(&conn.stream, &hello)
    }

    /// Applies one frame of the handshake; the key is that of the frames that follow.
    pub(super) fn shake(
        &mut self,
        greeting: Greeting<'_>,
        handshake: &Handshake,
        frame: (Kind, &[u8]),
    ) -> Result<(Phase, Option<FrameKey>), Why> {
        let nonce = auth::nonce().map_err(|error| Why::Setup(error.to_string()))?;
        match handshake.step(&self.who, frame, nonce)? {
            Progress::Reply(next, reply) => {
                if let Handshake::Challenged { peer, .. } = &next {
                    // Here, because now it can still be told.
                    self.shared.check_fresh(peer.id, peer.incarnation)?;
                }
                write_whole(greeting.stream, &reply)?;
                Ok((Phase::Greeting(next), None))
            }
            Progress::Done(session, reply) => {
                if let Some(reply) = reply {
                    write_whole(greeting.stream, &reply)?;
                }
                let peer = session.peer;
                let key = self.establish(greeting, session)?;
                Ok((Phase::Up(peer), Some(key)))
            }
        }
    }

    /// Makes a proved connection the one of its peer.
    fn establish(&mut self, greeting: Greeting<'_>, session: Session) -> Result<FrameKey, Why> {
        let Session {
            peer,
            incarnation,
            tx,
            rx,
        } = session;
        self.shared.check_fresh(peer, incarnation)?;
        let previous = self.shared.peers[peer.index()].link().current();
        if let Some((index, _)) = previous {
            self.close(index, &Why::Replaced { incarnation });
        }
        if greeting.origin == Origin::Accepted {
            self.strangers -= 1;
        }
        let retry = &mut self.retries[peer.index()];
        if let Some(planned) = retry.due {
            self.timers.remove(planned, Timer::Dial(peer));
        }
        retry.reset();
        let stream = Arc::clone(greeting.stream);
        let wire = Wire {
            index: greeting.index,
            incarnation,
            stream,
            key: tx,
            queue: VecDeque::new(),
        };
        // Before on_up, so that the handler can send from there.
        self.shared.peers[peer.index()].link().set_up(wire);
        log::info!("{peer} is connected, incarnation {incarnation}");
        self.handler.on_up(peer, incarnation);
        Ok(rx)
    }

    /// The handshake at `index` took too long.
    pub(super) fn expire(&mut self, index: usize) {
        self.close(
            index,
            &Why::HandshakeTime(self.shared.limits.handshake_span_max),
        );
    }

    /// Ends a connection that is already out of the table.
    pub(super) fn retire(&mut self, index: usize, conn: Conn, why: &Why) {
        let text = why.to_string();
        self.free.push(index);
        self.tell(&conn, why);
        // The status first: whoever notices the end finds the reason there.
        match conn.phase {
            Phase::Up(peer) => self.shared.peers[peer.index()].link().set_down(&text),
            Phase::Connecting | Phase::Greeting(_) => self.give_up(index, &conn, why),
        }
        // The descriptor closes with its last reference, here, and so leaves the event loop. A
        // forked child may still hold it; the peer must not wait for that one.
        if let Err(error) = conn.stream.shutdown() {
            log::debug!("shutdown of a socket that is closed already: {error}");
        }
        if let Origin::Dialed(peer) = conn.origin
            && !matches!(why, Why::Replaced { .. } | Why::Shutdown)
        {
            self.plan_dial(peer);
        }
        if let Phase::Up(peer) = conn.phase {
            log::info!("{peer} is disconnected: {text}");
            self.handler.on_down(peer, &text);
        }
    }

    /// Undoes what `admit` did for a connection that did not become a member's.
    fn give_up(&mut self, index: usize, conn: &Conn, why: &Why) {
        self.timers.remove(conn.deadline, Timer::Handshake(index));
        if conn.origin == Origin::Accepted {
            self.strangers -= 1;
        }
        self.report_failure((conn.addr, conn.claimed()), why);
    }

    fn report_failure(&self, whom: (SocketAddr, Option<PeerId>), why: &Why) {
        let absent = matches!(why, Why::Connect(_));
        self.shared.report_failure(whom, why, absent);
    }

    /// Tells the other side why its handshake fails, if it can understand.
    fn tell(&self, conn: &Conn, why: &Why) {
        if !matches!(conn.phase, Phase::Greeting(_)) {
            return;
        }
        let Some(frame) = why.refusal() else {
            return;
        };
        if let Err(error) = write_whole(&conn.stream, &frame) {
            log::debug!("a refusal did not reach {}: {error}", conn.addr);
        }
    }
}

/// Writes a frame of the handshake. It fits: a fresh socket takes far more than these few bytes.
fn write_whole(stream: &Stream, frame: &[u8]) -> Result<(), Why> {
    if write(stream, &[IoSlice::new(frame)])? == frame.len() {
        return Ok(());
    }
    Err(Why::Write("the handshake did not fit the socket".into()))
}
