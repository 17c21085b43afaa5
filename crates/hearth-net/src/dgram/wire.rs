//! One connection as senders see it.
//!
//! A frame becomes a message of the connection's [`Sender`], and what the pace allows leaves at
//! once, from the thread that sends it. The rest leaves from the event loop, when acknowledgements
//! come or a deadline passes. Only one thing is to be told to the loop from here: that a deadline is
//! sooner than the one it sleeps until ([`Alarm`]).

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::packet::{CONTROL_LEN_MAX, DATA_LEN, Packet, Route};
use super::sender::Sender;
use super::socket::{Batch, Socket};
use crate::auth::FrameKey;
use crate::frame::HEADER_LEN;
use crate::link;
use crate::sync::lock;
use crate::why::Why;

/// The most that one call of the system takes.
const BATCH_LEN_MAX: usize = 60_000;

/// Wakes the loop for deadlines that it does not know yet.
pub(crate) struct Alarm {
    zero: Instant,
    /// Microseconds from `zero` until which the loop sleeps.
    until: AtomicU64,
    waker: Arc<mio::Waker>,
}

impl Alarm {
    pub(crate) fn new(waker: Arc<mio::Waker>) -> Alarm {
        Alarm {
            zero: Instant::now(),
            until: AtomicU64::new(0),
            waker,
        }
    }

    /// The loop is about to look at all deadlines: whoever sets one from now on wakes it.
    pub(crate) fn listen(&self) {
        self.until.store(u64::MAX, Ordering::SeqCst);
    }

    /// The loop has looked, and sleeps until then.
    pub(crate) fn sleep_until(&self, at: Instant) {
        self.until.fetch_min(self.micros(at), Ordering::SeqCst);
    }

    /// Somebody has set a deadline.
    pub(crate) fn set(&self, at: Instant) {
        let micros = self.micros(at);
        if self.until.fetch_min(micros, Ordering::SeqCst) > micros {
            self.waker
                .wake()
                .expect("an eventfd takes a write unless its counter is full, never here");
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        let span = at.saturating_duration_since(self.zero);
        u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
    }
}

/// The sending half of a connection, shared by its wire and the loop.
pub(crate) struct Out {
    pub(crate) sender: Sender,
    route: Route,
    socket: Arc<Socket>,
    alarm: Arc<Alarm>,
    to: SocketAddr,
    /// The receiving half has all packets below this number; travels with data.
    below: u64,
    /// Cut and refused by the system; leaves before anything else.
    held: Option<Batch>,
    spare: Batch,
    /// When the last datagram left.
    pub(crate) spoke: Instant,
}

impl Out {
    pub(crate) fn new(
        sender: Sender,
        route: Route,
        (socket, alarm): (Arc<Socket>, Arc<Alarm>),
        to: SocketAddr,
        now: Instant,
    ) -> Out {
        Out {
            sender,
            route,
            socket,
            alarm,
            to,
            below: 0,
            held: None,
            spare: Batch::default(),
            spoke: now,
        }
    }

    /// Queues a frame and sends what may leave now.
    pub(crate) fn push(&mut self, prefix_len: usize, bytes: Vec<u8>) {
        self.sender.push(prefix_len, bytes);
        self.transmit(Instant::now());
        self.arm();
    }

    /// Everything of the other direction under `below` is here.
    pub(crate) fn set_below(&mut self, below: u64) {
        self.below = below;
    }

    /// Sends all that may leave now; says whether that was anything.
    pub(crate) fn transmit(&mut self, now: Instant) -> bool {
        if let Some(held) = self.held.take()
            && !self.socket.send(self.to, &held)
        {
            self.held = Some(held);
            return false;
        }
        let segments_max = self.socket.segments_max();
        let mut spoken = false;
        loop {
            let mut batch = std::mem::take(&mut self.spare);
            self.gather(now, segments_max, &mut batch);
            if batch.bytes.is_empty() {
                self.spare = batch;
                return spoken;
            }
            self.spoke = now;
            spoken = true;
            if !self.socket.send(self.to, &batch) {
                self.held = Some(batch);
                return spoken;
            }
            self.spare = batch;
        }
    }

    /// Fills a batch with packets of one length and at most one shorter at its end.
    fn gather(&mut self, now: Instant, segments_max: usize, batch: &mut Batch) {
        batch.bytes.clear();
        batch.segment = 0;
        for _ in 0..segments_max {
            let len = match self.sender.next_part_len() {
                Some(len) => DATA_LEN + len,
                None => return,
            };
            if batch.segment == 0 {
                batch.segment = len;
            }
            let room = batch.bytes.len() + len <= BATCH_LEN_MAX;
            if !room
                || len > batch.segment
                || !self.sender.poll(now, self.below, &mut batch.bytes)
                || len < batch.segment
            {
                return;
            }
        }
    }

    /// Sends one packet that carries no data; it may be lost.
    pub(crate) fn say(&mut self, now: Instant, packet: &Packet<'_>) {
        self.spoke = now;
        say(&self.socket, self.to, self.route, packet);
    }

    /// Tells the loop of the next deadline if it would oversleep.
    fn arm(&self) {
        if let Some(at) = self.sender.deadline() {
            self.alarm.set(at);
        }
    }
}

/// Sends one packet that carries no data; it may be lost.
pub(crate) fn say(socket: &Socket, to: SocketAddr, route: Route, packet: &Packet<'_>) {
    let mut bytes = Vec::with_capacity(CONTROL_LEN_MAX);
    packet.encode(route, &mut bytes);
    let segment = bytes.len();
    socket.send(to, &Batch { bytes, segment });
}

/// Bytes of a message in a packet that is `datagram_len` long.
pub(crate) fn part_len(datagram_len: usize) -> usize {
    datagram_len.saturating_sub(DATA_LEN).max(1)
}

/// A connection that stands.
pub(crate) struct Wire {
    pub(crate) index: usize,
    pub(crate) incarnation: u64,
    pub(crate) key: FrameKey,
    pub(crate) out: Arc<Mutex<Out>>,
}

impl link::Wire for Wire {
    fn index(&self) -> usize {
        self.index
    }

    fn way(&self) -> String {
        "datagrams".into()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn queued_bytes(&self) -> usize {
        lock(&self.out).sender.queued_bytes()
    }

    fn send(
        &mut self,
        head: &[u8],
        (payload, payload_len): (&[IoSlice<'_>], usize),
        queued_max: usize,
    ) -> Result<(), Why> {
        let prefix_len = HEADER_LEN + head.len();
        let mut out = lock(&self.out);
        if out.sender.queued_bytes() + prefix_len + payload_len > queued_max {
            return Err(Why::QueueFull { max: queued_max });
        }
        let mut bytes = Vec::with_capacity(prefix_len + payload_len);
        bytes.extend_from_slice(&self.key.header(head, payload_len));
        bytes.extend_from_slice(head);
        for part in payload {
            bytes.extend_from_slice(part);
        }
        out.push(prefix_len, bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Why> {
        lock(&self.out).transmit(Instant::now());
        Ok(())
    }
}
