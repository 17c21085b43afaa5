//! The one thread of a datagram transport: waits for the socket and for deadlines, and calls the
//! handler.
//!
//! A turn: wait; take in what the socket has; give every connection that heard something its answer;
//! finish links that senders have broken; keep the deadlines. How connections begin and end is in
//! `lifecycle`.

mod lifecycle;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::conn::{Conn, Phase};
use super::pace::DatagramService;
use super::packet::{Packet, Route};
use super::receiver::Whole;
use super::sender::AckError;
use super::socket::{Inbox, Socket};
use super::wire::{Alarm, Wire, say};
use crate::frame::{FIELDS_LEN, FrameError, HEADER_LEN, Header, Kind, check_magic};
use crate::handshake::Identity;
use crate::link::Shared;
use crate::retry::Retry;
use crate::sync::lock;
use crate::timers::{Timer, Timers};
use crate::transport::{Handler, PeerId};
use crate::why::Why;

const SOCKET: Token = Token(0);
const _: () = assert!(crate::link::WAKER.0 != SOCKET.0);
const EVENTS_MAX: usize = 8;
/// Batches of datagrams per turn; then the deadlines have their turn.
const BATCHES_PER_TURN: usize = 32;
/// How long a connection may be silent before it is asked whether it lives.
const PING_AFTER: Duration = Duration::from_secs(1);

/// State of the thread.
pub(crate) struct EventLoop {
    who: Identity,
    service: DatagramService,
    poll: Poll,
    socket: Arc<Socket>,
    shared: Arc<Shared<Wire>>,
    alarm: Arc<Alarm>,
    handler: Arc<dyn Handler>,
    conns: Vec<Option<Box<Conn>>>,
    free: Vec<usize>,
    /// Places of connections by their number.
    routes: BTreeMap<u64, usize>,
    retries: Vec<Retry>,
    timers: Timers,
    /// Accepted connections that have not yet proved themselves.
    strangers: usize,
    /// Connections that heard something in this turn.
    touched: BTreeSet<usize>,
    inbox: Option<Inbox>,
    /// The socket may hold more, and no event will say so again.
    unread: bool,
}

impl EventLoop {
    pub(crate) fn new(
        (who, service): (Identity, DatagramService),
        poll: Poll,
        socket: Arc<Socket>,
        shared: Arc<Shared<Wire>>,
        handler: Arc<dyn Handler>,
    ) -> io::Result<EventLoop> {
        use std::os::fd::AsRawFd;
        let fd = socket.udp().as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut SourceFd(&fd), SOCKET, interest)?;
        let alarm = Arc::new(Alarm::new(Arc::clone(&shared.waker)));
        let retries = shared.peers.iter().map(|_| Retry::default()).collect();
        Ok(EventLoop {
            who,
            service,
            poll,
            socket,
            shared,
            alarm,
            handler,
            conns: Vec::new(),
            free: Vec::new(),
            routes: BTreeMap::new(),
            retries,
            timers: Timers::default(),
            strangers: 0,
            touched: BTreeSet::new(),
            inbox: Some(Inbox::new()),
            unread: false,
        })
    }

    /// Runs until the transport is shut down.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.dial_all();
        while !self.shared.stop.load(Ordering::Acquire) {
            let wait = self.wait_max();
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                log::error!("the transport cannot wait for its socket and stops: {error}");
                break;
            }
            self.shared.turns.fetch_add(1, Ordering::Relaxed);
            let writable = events.iter().any(mio::event::Event::is_writable);
            self.turn(writable);
        }
        self.close_all();
    }

    /// How long the next wait may take; `None` for as long as nothing happens.
    fn wait_max(&self) -> Option<Duration> {
        if self.unread {
            return Some(Duration::ZERO);
        }
        self.alarm.listen();
        let theirs = self.handler.deadline();
        let conns = self.conns.iter().flatten();
        let ours = conns.map(|conn| conn.next()).chain(self.timers.next());
        let soonest = ours.chain(theirs).min()?;
        self.alarm.sleep_until(soonest);
        Some(soonest.saturating_duration_since(Instant::now()))
    }

    fn turn(&mut self, writable: bool) {
        self.take_in();
        for index in std::mem::take(&mut self.touched) {
            self.answer(index);
        }
        self.hear_of_unreachable();
        self.retire_broken();
        self.keep_deadlines(writable);
    }

    /// Takes in what the socket has.
    fn take_in(&mut self) {
        let mut inbox = self.inbox.take().unwrap_or_else(Inbox::new);
        let socket = Arc::clone(&self.socket);
        let now = Instant::now();
        let emptied = socket.receive(&mut inbox, BATCHES_PER_TURN, |addr, datagram| {
            if let Some((route, packet)) = Packet::decode(datagram) {
                self.route(now, addr, route, packet);
            }
        });
        self.unread = !emptied;
        self.inbox = Some(inbox);
    }

    /// Gives a packet to its connection, or says that there is none.
    fn route(&mut self, now: Instant, addr: SocketAddr, route: Route, packet: Packet<'_>) {
        let index = match self.routes.get(&route.connection) {
            Some(index) => *index,
            None => match self.open(now, addr, route, &packet) {
                Some(index) => index,
                None => return,
            },
        };
        let Some(mut conn) = self.conns[index].take() else {
            return;
        };
        // From somewhere else, or an echo of our own: not of this connection.
        if conn.addr != addr || conn.route.from_dialer == route.from_dialer {
            self.conns[index] = Some(conn);
            return;
        }
        conn.heard = now;
        match self.hear(now, index, &mut conn, packet) {
            Ok(()) => {
                self.conns[index] = Some(conn);
                self.touched.insert(index);
            }
            Err(why) => self.retire(index, *conn, &why),
        }
    }

    fn hear(
        &mut self,
        now: Instant,
        index: usize,
        conn: &mut Conn,
        packet: Packet<'_>,
    ) -> Result<(), Why> {
        match packet {
            Packet::Data(data, part) => {
                let told = lock(&conn.out).sender.on_below(now, data.below);
                self.check_told(conn, told)?;
                let taken = conn.receiver.on_data(now, &data, part);
                taken.map_err(|error| Why::Packets(error.to_string()))?;
                while let Some(whole) = conn.receiver.next() {
                    self.deliver(index, conn, whole)?;
                }
                Ok(())
            }
            Packet::Ack(ack) => {
                let told = lock(&conn.out).sender.on_ack(now, &ack);
                self.check_told(conn, told)
            }
            Packet::Ping => {
                let state = conn.receiver.state(now);
                lock(&conn.out).say(now, &Packet::Ack(state));
                Ok(())
            }
            Packet::Reset => Err(Why::Unknown),
            Packet::Close(reason) => Err(Why::Ended(lifecycle::readable(reason))),
        }
    }

    /// Ends a connection whose peer has heard what was never said. Before the handshake is done
    /// that was said by an earlier run of this member, and the peer is told that it is gone.
    fn check_told(&self, conn: &Conn, told: Result<(), AckError>) -> Result<(), Why> {
        match (told, &conn.phase) {
            (Ok(()), _) => Ok(()),
            (Err(_), Phase::Greeting(_)) => {
                lock(&conn.out).say(Instant::now(), &Packet::Reset);
                Err(Why::Unknown)
            }
            (Err(error), Phase::Up(..)) => Err(Why::Packets(error.to_string())),
        }
    }

    /// Applies one whole frame.
    fn deliver(&mut self, index: usize, conn: &mut Conn, whole: Whole) -> Result<(), Why> {
        let Whole { prefix, payload } = whole;
        check_magic(&prefix)?;
        let (header, head) = prefix
            .split_first_chunk::<HEADER_LEN>()
            .ok_or_else(|| Why::Packets("a frame without its header".into()))?;
        let frame = Header::decode(header)?;
        if frame.head_len != head.len() || frame.payload_len != payload.len() {
            return Err(Why::Packets(
                "a frame and its message differ in length".into(),
            ));
        }
        match &mut conn.phase {
            Phase::Up(peer, key) => {
                if frame.kind != Kind::Data {
                    return Err(FrameError::Place(frame.kind).into());
                }
                let (fields, mac) = header.split_at(FIELDS_LEN);
                let fields = fields.try_into().expect("split there");
                let mac = mac.try_into().expect("the rest of a header is its mac");
                key.open(fields, head, mac)?;
                let bytes = (prefix.len() + payload.len()) as u64;
                self.shared.peers[peer.index()]
                    .bytes_in
                    .fetch_add(bytes, Ordering::Relaxed);
                self.handler.on_frame(*peer, head, payload);
                Ok(())
            }
            Phase::Greeting(_) => self.shake(index, conn, (frame.kind, head)),
        }
    }

    /// Lets a connection speak after it has heard something.
    fn answer(&mut self, index: usize) {
        let Some(conn) = self.conns[index].as_mut() else {
            return;
        };
        conn.speak(Instant::now());
    }

    fn keep_deadlines(&mut self, writable: bool) {
        let now = Instant::now();
        for index in 0..self.conns.len() {
            let Some(conn) = self.conns[index].as_mut() else {
                continue;
            };
            if !writable && conn.next() > now {
                continue;
            }
            let over = conn.overdue(now, &self.shared.limits);
            conn.speak(now);
            if let Some(why) = over {
                self.close(index, &why);
            }
        }
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Dial(peer) => self.dial(peer),
                Timer::Handshake(index) => self.expire(index),
                Timer::Accept => {}
            }
        }
        if self
            .handler
            .deadline()
            .is_some_and(|at| at <= Instant::now())
        {
            self.handler.on_timer();
        }
    }

    /// Ends the connections to where the network does not reach.
    fn hear_of_unreachable(&mut self) {
        for addr in self.socket.undelivered() {
            let at = |conn: &Option<Box<Conn>>| conn.as_ref().is_some_and(|conn| conn.addr == addr);
            while let Some(index) = self.conns.iter().position(at) {
                self.close(index, &Why::Unreachable);
            }
        }
    }

    /// Finishes the links that senders have found broken.
    fn retire_broken(&mut self) {
        for peer in self.shared.take_broken() {
            // Unless the loop has noticed by itself in the meantime.
            let broken = self.shared.peers[peer.index()].link().broken();
            if let Some((index, why)) = broken {
                self.close(index, &why);
            }
        }
    }

    fn close(&mut self, index: usize, why: &Why) {
        if let Some(conn) = self.conns[index].take() {
            self.retire(index, *conn, why);
        }
    }

    fn close_all(&mut self) {
        for index in 0..self.conns.len() {
            self.close(index, &Why::Shutdown);
        }
    }

    fn reset(&self, addr: SocketAddr, route: Route) {
        let back = Route {
            from_dialer: !route.from_dialer,
            ..route
        };
        say(&self.socket, addr, back, &Packet::Reset);
    }
}

impl Drop for EventLoop {
    /// After a panic of the handler, sends must fail rather than queue for nobody.
    fn drop(&mut self) {
        self.shared.fail_all();
    }
}

impl Conn {
    /// When this connection has something to do.
    fn next(&self) -> Instant {
        let out = lock(&self.out);
        let ping = self.heard.max(out.spoke) + PING_AFTER;
        let soonest = out
            .sender
            .deadline()
            .into_iter()
            .chain(self.receiver.deadline());
        soonest.min().map_or(ping, |at| at.min(ping))
    }

    /// Sends what is due: data, else an acknowledgement, else a ping.
    fn speak(&mut self, now: Instant) {
        let mut out = lock(&self.out);
        out.sender.expire(now);
        out.set_below(self.receiver.below());
        if out.transmit(now) {
            self.receiver.told_with_data();
        }
        if let Some(ack) = self.receiver.ack(now) {
            out.say(now, &Packet::Ack(ack));
        }
        if now >= self.heard.max(out.spoke) + PING_AFTER {
            out.say(now, &Packet::Ping);
        }
    }

    /// Why the connection is to be given up, if it has waited too long for its peer.
    fn overdue(&self, now: Instant, limits: &crate::config::Limits) -> Option<Why> {
        let Phase::Up(..) = self.phase else {
            return None;
        };
        let since = |at: Instant| now.saturating_duration_since(at);
        if since(self.heard) > limits.silence_span_max {
            return Some(Why::Silent(limits.silence_span_max));
        }
        let unanswered = lock(&self.out).sender.unanswered_since();
        let span = limits.unacknowledged_span_max;
        unanswered
            .is_some_and(|at| since(at) > span)
            .then_some(Why::Silent(span))
    }
}

/// The member behind a connection that stands.
fn member(phase: &Phase) -> Option<PeerId> {
    match phase {
        Phase::Up(peer, _) => Some(*peer),
        Phase::Greeting(_) => None,
    }
}

/// The socket and the alarm through which a new connection speaks.
fn lines(event_loop: &EventLoop) -> (Arc<Socket>, Arc<Alarm>) {
    (
        Arc::clone(&event_loop.socket),
        Arc::clone(&event_loop.alarm),
    )
}
