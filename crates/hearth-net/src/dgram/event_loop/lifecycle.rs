//! How connections begin, become members, and end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::EventLoop;
use crate::auth;
use crate::dgram::conn::{Conn, Origin, Phase};
use crate::dgram::packet::{Packet, Route};
use crate::dgram::receiver::Receiver;
use crate::dgram::sender::Sender;
use crate::dgram::wire::{Out, Wire, part_len};
use crate::frame::{FrameError, HANDSHAKE_HEAD_LEN_MAX, HEADER_LEN, Kind};
use crate::handshake::{Handshake, HandshakeError, Progress, Session};
use crate::sync::lock;
use crate::timers::Timer;
use crate::transport::PeerId;
use crate::why::Why;

/// Bytes of unfinished messages of somebody who has proved nothing.
const STRANGER_BYTES_MAX: usize = HEADER_LEN + HANDSHAKE_HEAD_LEN_MAX;

impl EventLoop {
    /// Connects to every member with a lower id; those with a higher one connect to us.
    pub(super) fn dial_all(&mut self) {
        for peer in (0..self.who.me.0).map(PeerId) {
            self.dial(peer);
        }
    }

    pub(super) fn dial(&mut self, peer: PeerId) {
        self.retries[peer.index()].due = None;
        let addr = self.shared.peers[peer.index()].addr;
        if let Err(why) = self.greet(peer, addr) {
            self.report_failure((addr, Some(peer)), &why);
            self.plan_dial(peer);
        }
    }

    /// Says hello under a number of our choice.
    fn greet(&mut self, peer: PeerId, addr: SocketAddr) -> Result<(), Why> {
        let setup = |error: getrandom::Error| Why::Setup(error.to_string());
        let connection = getrandom::u64().map_err(setup)?;
        let (handshake, hello) = Handshake::dial(&self.who, peer, auth::nonce().map_err(setup)?);
        let route = Route {
            connection,
            from_dialer: true,
        };
        let phase = Phase::Greeting(handshake);
        let index = self.admit(Instant::now(), (addr, route), Origin::Dialed(peer), phase);
        self.say_whole(index, hello);
        Ok(())
    }

    fn plan_dial(&mut self, peer: PeerId) {
        let retry = &mut self.retries[peer.index()];
        let at = Instant::now() + retry.next_delay();
        if let Some(planned) = retry.due.replace(at) {
            self.timers.remove(planned, Timer::Dial(peer));
        }
        self.timers.add(at, Timer::Dial(peer));
    }

    /// The place of a connection that begins with `packet`; `None` if it does not begin one.
    pub(super) fn open(
        &mut self,
        now: Instant,
        addr: SocketAddr,
        route: Route,
        packet: &Packet<'_>,
    ) -> Option<usize> {
        let Packet::Data(data, _) = packet else {
            // An answer to a reset, or to what nobody sent, would go on for ever.
            if matches!(packet, Packet::Ping) {
                self.reset(addr, route);
            }
            return None;
        };
        if !route.from_dialer || data.packet != 0 {
            self.reset(addr, route);
            return None;
        }
        // The hello will be sent again; by then there may be room.
        if self.strangers >= self.shared.limits.strangers_max {
            return None;
        }
        self.strangers += 1;
        let ours = Route {
            from_dialer: false,
            ..route
        };
        let phase = Phase::Greeting(Handshake::Opened);
        Some(self.admit(now, (addr, ours), Origin::Accepted, phase))
    }

    /// Gives a new connection its place in the table.
    fn admit(
        &mut self,
        now: Instant,
        (addr, route): (SocketAddr, Route),
        origin: Origin,
        phase: Phase,
    ) -> usize {
        let limits = &self.shared.limits;
        let sender = Sender::new(route, self.service, part_len(limits.datagram_len), now);
        let out = Out::new(sender, route, super::lines(self), addr, now);
        let deadline = now + limits.handshake_span_max;
        let conn = Conn {
            route,
            addr,
            origin,
            phase,
            receiver: Receiver::new(STRANGER_BYTES_MAX, now),
            out: Arc::new(Mutex::new(out)),
            heard: now,
            deadline,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() - 1
        });
        self.timers.add(deadline, Timer::Handshake(index));
        self.routes.insert(route.connection, index);
        self.conns[index] = Some(Box::new(conn));
        index
    }

    /// Sends a frame of the handshake.
    fn say_whole(&mut self, index: usize, frame: Vec<u8>) {
        if let Some(conn) = &self.conns[index] {
            lock(&conn.out).push(frame.len(), frame);
        }
    }

    /// Applies one frame of the handshake.
    pub(super) fn shake(
        &mut self,
        index: usize,
        conn: &mut Conn,
        frame: (Kind, &[u8]),
    ) -> Result<(), Why> {
        let Phase::Greeting(handshake) = &conn.phase else {
            return Err(FrameError::Place(frame.0).into());
        };
        let nonce = auth::nonce().map_err(|error| Why::Setup(error.to_string()))?;
        match handshake.step(&self.who, frame, nonce)? {
            Progress::Reply(next, reply) => {
                lock(&conn.out).push(reply.len(), reply);
                conn.phase = Phase::Greeting(next);
                Ok(())
            }
            Progress::Done(session, reply) => {
                if let Some(reply) = reply {
                    lock(&conn.out).push(reply.len(), reply);
                }
                self.establish(index, conn, session)
            }
        }
    }

    /// Makes a proved connection the one of its peer.
    fn establish(&mut self, index: usize, conn: &mut Conn, session: Session) -> Result<(), Why> {
        let Session {
            peer,
            incarnation,
            tx,
            rx,
            shares: _,
            anew,
        } = session;
        if let Some(anew) = anew {
            if self.handler.on_anew(peer, anew) {
                self.who.forget(peer);
                self.retries[peer.index()].begin_anew();
            }
            return Err(HandshakeError::Anew(anew).into());
        }
        self.who.meet(peer, incarnation)?;
        let previous = self.shared.peers[peer.index()].link().current();
        if let Some(place) = previous {
            self.close(place, &Why::Replaced);
        }
        if conn.origin == Origin::Accepted {
            self.strangers -= 1;
        }
        let retry = &mut self.retries[peer.index()];
        if let Some(planned) = retry.due {
            self.timers.remove(planned, Timer::Dial(peer));
        }
        retry.reset();
        self.timers.remove(conn.deadline, Timer::Handshake(index));
        conn.receiver
            .set_unfinished_max(self.shared.limits.queued_bytes_max);
        conn.phase = Phase::Up(peer, rx);
        let wire = Wire {
            index,
            incarnation,
            key: tx,
            out: Arc::clone(&conn.out),
        };
        // Before on_up, so that the handler can send from there.
        self.shared.peers[peer.index()].link().set_up(wire);
        log::info!("{peer} is connected, incarnation {incarnation}");
        self.handler.on_up(peer, incarnation);
        Ok(())
    }

    /// The handshake at `index` took too long.
    pub(super) fn expire(&mut self, index: usize) {
        let span = self.shared.limits.handshake_span_max;
        self.close(index, &Why::HandshakeTime(span));
    }

    /// Ends a connection that is already out of the table.
    pub(super) fn retire(&mut self, index: usize, conn: Conn, why: &Why) {
        let text = why.to_string();
        self.free.push(index);
        self.routes.remove(&conn.route.connection);
        self.touched.remove(&index);
        self.tell(&conn, why, &text);
        let peer = super::member(&conn.phase);
        // The status first: whoever notices the end finds the reason there.
        match peer {
            Some(peer) => self.shared.peers[peer.index()].link().set_down(&text),
            None => self.give_up(index, &conn, why),
        }
        if let Origin::Dialed(peer) = conn.origin
            && !matches!(why, Why::Replaced | Why::Shutdown)
        {
            self.plan_dial(peer);
        }
        if let Some(peer) = peer {
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
        let absent = matches!(why, Why::HandshakeTime(_) | Why::Unreachable);
        self.shared.report_failure(whom, why, absent);
    }

    /// Tells the other side that the connection has ended, and why its handshake fails.
    fn tell(&self, conn: &Conn, why: &Why, text: &str) {
        if matches!(why, Why::Unknown | Why::Ended(_)) {
            return;
        }
        let mut out = lock(&conn.out);
        let refused = match conn.phase {
            Phase::Greeting(_) => why.refusal(),
            Phase::Up(..) => None,
        };
        match refused {
            Some(frame) => out.push(frame.len(), frame),
            None => out.say(Instant::now(), &Packet::Close(text.as_bytes())),
        }
    }
}

/// Outside bytes as text that is safe to log.
pub(super) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().filter(|c| !c.is_control()).collect()
}
