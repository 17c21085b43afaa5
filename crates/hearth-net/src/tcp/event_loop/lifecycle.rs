//! How connections begin, become members, and end.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Token};

use super::{EventLoop, FIRST_CONN};
use crate::auth::{self, FrameKey};
use crate::frame::Kind;
use crate::handshake::{self, Handshake, HandshakeError, Progress, Session};
use crate::tcp::conn::{Conn, Origin, Phase};
use crate::tcp::intake::{Inlet, Intake};
use crate::tcp::memory::Memory;
use crate::tcp::reader::Reader;
use crate::tcp::stream::Stream;
use crate::tcp::wire::{Outlet, Wire};
use crate::timers::Timer;
use crate::transport::PeerId;
use crate::why::Why;

/// The wait after the system refused to accept, when it lacks descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// The wait before a member's name is tried again that nobody has.
const NAME_RETRY: Duration = Duration::from_millis(50);

/// The connection whose handshake advances.
pub(super) struct Greeting<'a> {
    pub(super) index: usize,
    pub(super) stream: &'a Arc<Stream>,
    pub(super) origin: Origin,
    pub(super) memory: &'a mut Option<Memory>,
    pub(super) unshared: &'a mut Option<String>,
}

/// The values that a finished handshake gives to the reader: the key of the frames that follow, and their source.
pub(super) type Up = (FrameKey, Intake);

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
        let is_near = self.listeners.is_near() && addr.ip() == own.ip() && retry.takes_name();
        let dialed = match is_near {
            true => match Stream::dial_near(addr) {
                Err(_) if retry.waits_for_name() => return self.plan_dial_in(peer, NAME_RETRY),
                dialed => dialed.or_else(|_| Stream::dial(addr)),
            },
            false => Stream::dial(addr),
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
        let delay = self.retries[peer.index()].next_delay();
        self.plan_dial_in(peer, delay);
    }

    fn plan_dial_in(&mut self, peer: PeerId, delay: Duration) {
        let at = Instant::now() + delay;
        let retry = &mut self.retries[peer.index()];
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
        let intake = match stream.is_near() {
            true => Intake::Greeting,
            false => Intake::Socket,
        };
        let stream = Arc::new(stream);
        let conn = Conn {
            stream,
            addr,
            origin,
            phase,
            intake,
            reader: Reader::new(),
            memory: None,
            unshared: None,
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
        conn.stream.greet(&hello, &[])
    }

    /// Applies one frame of the handshake.
    pub(super) fn shake(
        &mut self,
        greeting: Greeting<'_>,
        handshake: &Handshake,
        frame: (Kind, &[u8]),
    ) -> Result<(Phase, Option<Up>), Why> {
        let nonce = auth::nonce().map_err(|error| Why::Setup(error.to_string()))?;
        match handshake.step(&self.who, frame, nonce)? {
            Progress::Reply(next, reply) => {
                let rights = self.offer(greeting.stream, greeting.memory, greeting.unshared);
                greeting.stream.greet(&reply, &rights)?;
                Ok((Phase::Greeting(next), None))
            }
            Progress::Done(session, reply) => {
                if let Some(proof) = reply {
                    self.take_offer(&mut *greeting.memory, greeting.stream, greeting.unshared);
                    let proof = match greeting.memory {
                        Some(_) => handshake::sharing(&proof),
                        None => proof,
                    };
                    greeting.stream.greet(&proof, &[])?;
                } else if !session.shares && greeting.memory.take().is_some() {
                    *greeting.unshared = Some("the peer could not, or would not".into());
                } else if session.shares && greeting.memory.is_none() {
                    return Err(HandshakeError::Malformed.into());
                }
                let peer = session.peer;
                let up = self.establish(greeting, session)?;
                Ok((Phase::Up(peer), Some(up)))
            }
        }
    }

    /// The acceptor's side: offers memory to a near member, if it can.
    fn offer(
        &self,
        stream: &Stream,
        memory: &mut Option<Memory>,
        unshared: &mut Option<String>,
    ) -> Vec<OwnedFd> {
        let Some(rings) = self.rings.as_ref().filter(|_| stream.is_near()) else {
            return Vec::new();
        };
        let made = match rings {
            Ok(_) if !stream.is_own_users() => Err("the peer is another user's".into()),
            Ok(bytes) => Memory::make(*bytes).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match made {
            Ok((made, rights)) => {
                *memory = Some(made);
                rights.into()
            }
            Err(why) => {
                *unshared = Some(why);
                Vec::new()
            }
        }
    }

    /// The dialer's side: takes memory that was offered, if it can.
    fn take_offer(
        &self,
        memory: &mut Option<Memory>,
        stream: &Stream,
        unshared: &mut Option<String>,
    ) {
        let rights = stream.take_rights();
        let Some(rings) = self.rings.as_ref().filter(|_| stream.is_near()) else {
            return;
        };
        let taken = match rings {
            _ if rights.is_empty() => Err("the peer offers none".into()),
            Ok(_) if !stream.is_own_users() => Err("the peer is another user's".into()),
            Ok(_) => Memory::join(rights).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        match taken {
            Ok(taken) => *memory = Some(taken),
            Err(why) => *unshared = Some(why),
        }
    }

    /// Makes a proved connection the one of its peer.
    fn establish(&mut self, greeting: Greeting<'_>, session: Session) -> Result<Up, Why> {
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
        let (intake, outlet) = self.sides(greeting.memory.take(), greeting.index)?;
        let previous = self.shared.peers[peer.index()].link().current();
        if let Some(index) = previous {
            self.close(index, &Why::Replaced);
        }
        if greeting.origin == Origin::Accepted {
            self.strangers -= 1;
        }
        let retry = &mut self.retries[peer.index()];
        if let Some(planned) = retry.due {
            self.timers.remove(planned, Timer::Dial(peer));
        }
        retry.reset();
        let wire = Wire {
            index: greeting.index,
            incarnation,
            stream: Arc::clone(greeting.stream),
            outlet,
            unshared: greeting.unshared.take(),
            key: tx,
            queue: VecDeque::new(),
        };
        // Before on_up, so that the handler can send from there.
        self.shared.peers[peer.index()].link().set_up(wire);
        log::info!("{peer} is connected, incarnation {incarnation}");
        self.handler.on_up(peer, incarnation);
        Ok((rx, intake))
    }

    /// The source of a connection's frames, and their destination if that is not the socket.
    fn sides(&self, memory: Option<Memory>, index: usize) -> Result<(Intake, Option<Outlet>), Why> {
        let Some(memory) = memory else {
            return Ok((Intake::Socket, None));
        };
        let Memory {
            writer,
            reader,
            own,
            theirs,
        } = memory;
        own.listen(self.poll.registry(), Token(FIRST_CONN + index))
            .map_err(|error| Why::Setup(error.to_string()))?;
        let outlet = Outlet {
            writer,
            theirs: Arc::clone(&theirs),
        };
        let inlet = Inlet {
            reader,
            own,
            theirs,
            ends: false,
        };
        Ok((Intake::Memory(inlet), Some(outlet)))
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
        conn.intake.forget(self.poll.registry());
        // The descriptor closes with its last reference, here, and so leaves the event loop. A
        // forked child may still hold it; the peer must not wait for that one.
        if let Err(error) = conn.stream.shutdown() {
            log::debug!("shutdown of a socket that is closed already: {error}");
        }
        if let Origin::Dialed(peer) = conn.origin
            && !matches!(why, Why::Replaced | Why::Shutdown)
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
        if let Err(error) = conn.stream.greet(&frame, &[]) {
            log::debug!("a refusal did not reach {}: {error}", conn.addr);
        }
    }
}
