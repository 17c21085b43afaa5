//! The one thread of a transport: waits for sockets and deadlines, and calls the handler.
//!
//! A turn: wait; serve the sockets that are ready; finish links that senders have broken; fire
//! timers. The wait has a timeout only while a deadline exists, so an idle node is never woken.
//! How connections begin and end is in `lifecycle`.

mod lifecycle;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mio::event::Event;
use mio::{Events, Poll, Token};

use super::conn::{Conn, Phase};
use super::memory::ring_bytes;
use super::reader::{SCRATCH_LEN, Socket};
use super::stream::Listeners;
use super::wire::Wire;
use crate::frame::HEADER_LEN;
use crate::handshake::Identity;
use crate::link::{Shared, WAKER};
use crate::retry::Retry;
use crate::timers::{Timer, Timers};
use crate::transport::Handler;
use crate::why::Why;

const LISTENER: Token = Token(0);
/// Tokens from here on name places in the table of connections; 1 is the waker.
const FIRST_CONN: usize = 2;
const _: () = assert!(WAKER.0 < FIRST_CONN && LISTENER.0 != WAKER.0);
/// Events taken per wait.
const EVENTS_MAX: usize = 256;
/// Reads of one connection per turn; then the others have theirs.
const READS_PER_TURN: usize = 16;

/// State of the thread.
pub(crate) struct EventLoop {
    who: Identity,
    poll: Poll,
    listeners: Listeners,
    /// Bytes of each ring that is shared, or why there are none; for members that are near.
    rings: Option<Result<usize, String>>,
    shared: Arc<Shared<Wire>>,
    handler: Arc<dyn Handler>,
    conns: Vec<Option<Box<Conn>>>,
    free: Vec<usize>,
    retries: Vec<Retry>,
    timers: Timers,
    /// Accepted connections that have not yet proved themselves.
    strangers: usize,
    /// Connections may be waiting in the listen queue, and no event will say so again.
    accept_pending: bool,
    /// Connections whose share of a turn was used up.
    unread: Vec<usize>,
    scratch: Vec<u8>,
}

/// The decision about a connection after it was served.
enum Verdict {
    Keep,
    /// It still has bytes to read.
    Again,
}

impl EventLoop {
    pub(crate) fn new(
        who: Identity,
        poll: Poll,
        mut listeners: Listeners,
        shared: Arc<Shared<Wire>>,
        handler: Arc<dyn Handler>,
    ) -> io::Result<EventLoop> {
        listeners.register(poll.registry(), LISTENER)?;
        let retries = shared.peers.iter().map(|_| Retry::default()).collect();
        let (members, most) = (shared.peers.len(), shared.limits.shared_bytes_max);
        let rings = listeners.shares.then(|| ring_bytes(members, most));
        Ok(EventLoop {
            who,
            poll,
            listeners,
            rings,
            shared,
            handler,
            conns: Vec::new(),
            free: Vec::new(),
            retries,
            timers: Timers::default(),
            strangers: 0,
            accept_pending: false,
            unread: Vec::new(),
            scratch: vec![0; SCRATCH_LEN],
        })
    }

    /// Runs until the transport is shut down.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.dial_all();
        while !self.shared.stop.load(Ordering::Acquire) {
            if let Err(error) = self.poll.poll(&mut events, self.wait_max())
                && error.kind() != io::ErrorKind::Interrupted
            {
                log::error!("the transport cannot wait for its sockets and stops: {error}");
                break;
            }
            self.shared.turns.fetch_add(1, Ordering::Relaxed);
            self.turn(&events);
        }
        self.close_all();
    }

    /// How long the next wait may take; `None` for as long as nothing happens.
    fn wait_max(&self) -> Option<std::time::Duration> {
        if !self.unread.is_empty() {
            return Some(std::time::Duration::ZERO);
        }
        let soonest = match (self.timers.next(), self.handler.deadline()) {
            (Some(ours), Some(theirs)) => ours.min(theirs),
            (ours, theirs) => ours.or(theirs)?,
        };
        Some(soonest.saturating_duration_since(Instant::now()))
    }

    fn turn(&mut self, events: &Events) {
        for index in std::mem::take(&mut self.unread) {
            self.serve(index, Ready::READ);
        }
        for event in events {
            match event.token() {
                LISTENER => self.accept_pending = true,
                WAKER => {}
                Token(token) => self.serve(token - FIRST_CONN, Ready::of(event)),
            }
        }
        self.retire_broken();
        self.accept_waiting();
        self.fire_timers();
    }

    /// Serves one connection. `ready` is a hint: it may be left over from an earlier connection at
    /// the same place, and then finds nothing to do.
    fn serve(&mut self, index: usize, ready: Ready) {
        // Out of the table while it is served, so that the rest of the loop can be used.
        let Some(mut conn) = self.conns.get_mut(index).and_then(Option::take) else {
            return;
        };
        match self.advance(index, &mut conn, ready) {
            Ok(verdict) => {
                self.conns[index] = Some(conn);
                // Once: it may have been served twice in this turn.
                if matches!(verdict, Verdict::Again) && !self.unread.contains(&index) {
                    self.unread.push(index);
                }
            }
            Err(why) => self.retire(index, *conn, &why),
        }
    }

    fn advance(&mut self, index: usize, conn: &mut Conn, ready: Ready) -> Result<Verdict, Why> {
        match &conn.phase {
            Phase::Connecting => {
                if !conn.connected()? {
                    return Ok(Verdict::Keep);
                }
                self.greet(conn)?;
            }
            Phase::Up(peer) if ready.write => self.shared.peers[peer.index()].link().flush()?,
            Phase::Up(_) | Phase::Greeting(_) => {}
        }
        if ready.read {
            self.read(index, conn, ready)
        } else {
            Ok(Verdict::Keep)
        }
    }

    fn read(&mut self, index: usize, conn: &mut Conn, ready: Ready) -> Result<Verdict, Why> {
        if ready.end {
            conn.intake.heed_end();
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut verdict = Ok(Verdict::Again);
        for _ in 0..READS_PER_TURN {
            match self.read_once(index, conn, &mut scratch) {
                Ok(Socket::MayHoldMore) => {}
                Ok(Socket::Emptied) if ready.end => {}
                Ok(Socket::Empty | Socket::Emptied) => {
                    verdict = Ok(Verdict::Keep);
                    break;
                }
                Err(why) => {
                    verdict = Err(why);
                    break;
                }
            }
        }
        self.scratch = scratch;
        verdict
    }

    fn read_once(
        &mut self,
        index: usize,
        conn: &mut Conn,
        scratch: &mut [u8],
    ) -> Result<Socket, Why> {
        let Conn {
            stream,
            intake,
            reader,
            phase,
            origin,
            memory,
            unshared,
            deadline,
            ..
        } = conn;
        let mut next = None;
        let from = (&**stream, &mut *intake);
        let read = reader.read(from, scratch, &mut |kind, head, payload| match phase {
            Phase::Up(peer) => {
                let bytes = (HEADER_LEN + head.len() + payload.len()) as u64;
                self.shared.peers[peer.index()]
                    .bytes_in
                    .fetch_add(bytes, Ordering::Relaxed);
                self.handler.on_frame(*peer, head, payload);
                Ok(None)
            }
            Phase::Greeting(handshake) => {
                let step = lifecycle::Greeting {
                    index,
                    stream,
                    origin: *origin,
                    memory,
                    unshared,
                };
                let (greeted, up) = self.shake(step, handshake, (kind, head))?;
                *phase = greeted;
                let Some((key, from)) = up else {
                    return Ok(None);
                };
                self.timers.remove(*deadline, Timer::Handshake(index));
                next = Some(from);
                Ok(Some(key))
            }
            Phase::Connecting => Err(crate::frame::FrameError::Place(kind).into()),
        });
        if let Some(next) = next {
            *intake = next;
        }
        read
    }

    fn fire_timers(&mut self) {
        let theirs = self.handler.deadline();
        if theirs.is_none() && self.timers.next().is_none() {
            return;
        }
        let now = Instant::now();
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Dial(peer) => self.dial(peer),
                Timer::Handshake(index) => self.expire(index),
                Timer::Accept => self.accept_pending = true,
            }
        }
        self.accept_waiting();
        if theirs.is_some_and(|at| at <= now) {
            self.handler.on_timer();
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
}

impl Drop for EventLoop {
    /// After a panic of the handler, sends must fail rather than queue for nobody.
    fn drop(&mut self) {
        self.shared.fail_all();
    }
}

/// The operations that a socket is ready for.
#[derive(Clone, Copy)]
struct Ready {
    read: bool,
    write: bool,
    /// The stream has an end that is to be read too.
    end: bool,
}

impl Ready {
    const READ: Ready = Ready {
        read: true,
        write: false,
        end: true,
    };

    fn of(event: &Event) -> Ready {
        let end = event.is_read_closed() || event.is_error();
        Ready {
            read: event.is_readable() || end,
            write: event.is_writable(),
            end,
        }
    }
}
