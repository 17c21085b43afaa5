//! The sending side of one connection: messages are cut into packets and sent as the pace allows. Packets are
//! kept until they are acknowledged, and sent again when they are lost. No I/O and no clock of its own.
//!
//! - Q1: packets are numbered without a gap in the order of the messages. At most [`WINDOW_MAX`] numbers are
//!   between the oldest that is not acknowledged and the next.
//! - Q2: a packet counts as lost when a later one by [`REORDER`] has arrived, once in a round trip. It also does
//!   when nothing was heard for a whole timeout.
//! - Q3: bytes leave [`Sender::queued_bytes`] when they are acknowledged, not when they are sent.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pace::{DatagramService, Pace, WINDOW_MAX};
use super::packet::{Ack, Data, Packet, Route};

/// How far packets may overtake each other before one counts as lost.
const REORDER: u64 = 8;
const RTT_FIRST: Duration = Duration::from_millis(20);
const TIMEOUT_MIN: Duration = Duration::from_millis(20);
const TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(crate) struct Sender {
    route: Route,
    part_len: usize,
    pace: Pace,
    /// Messages of which something has not been sent for the first time.
    waiting: VecDeque<Arc<Message>>,
    /// Bytes of the first of them that have.
    cut: usize,
    next_message: u64,
    flight: VecDeque<Part>,
    /// Number of the first packet of `flight`.
    base: u64,
    lost: BTreeSet<u64>,
    under_way: usize,
    queued_bytes: usize,
    rtt: Option<Rtt>,
    /// When something was last acknowledged, or the first packet after silence was sent.
    progress: Instant,
    timer_from: Instant,
    timeouts: u32,
}

struct Message {
    number: u64,
    prefix_len: u32,
    bytes: Box<[u8]>,
}

struct Part {
    message: Arc<Message>,
    offset: u32,
    len: u32,
    sent: Instant,
    again: bool,
    state: PartState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartState {
    UnderWay,
    Lost,
    Acked,
}

#[derive(Clone, Copy)]
struct Rtt {
    smooth: Duration,
    spread: Duration,
}

/// An acknowledgement of what was never sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("peer acknowledges packet {acked}, but only {sent} were sent")]
pub(crate) struct AckError {
    acked: u64,
    sent: u64,
}

impl Sender {
    /// A sender whose packets carry up to `part_len` bytes of a message.
    pub(crate) fn new(
        route: Route,
        service: DatagramService,
        part_len: usize,
        now: Instant,
    ) -> Sender {
        Sender {
            route,
            part_len,
            pace: Pace::new(service, now),
            waiting: VecDeque::new(),
            cut: 0,
            next_message: 0,
            flight: VecDeque::new(),
            base: 0,
            lost: BTreeSet::new(),
            under_way: 0,
            queued_bytes: 0,
            rtt: None,
            progress: now,
            timer_from: now,
            timeouts: 0,
        }
    }

    /// Bytes of messages that are not acknowledged (Q3).
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Since when packets have been under way without an answer.
    pub(crate) fn unanswered_since(&self) -> Option<Instant> {
        (!self.flight.is_empty()).then_some(self.progress)
    }

    /// Takes a message whose first `prefix_len` bytes are put together apart.
    pub(crate) fn push(&mut self, prefix_len: usize, bytes: Vec<u8>) {
        self.queued_bytes += bytes.len();
        let number = self.next_message;
        self.next_message += 1;
        self.waiting.push_back(Arc::new(Message {
            number,
            prefix_len: u32::try_from(prefix_len).expect("a frame is bounded"),
            bytes: bytes.into(),
        }));
    }

    /// Bytes of a message that the next packet would carry, if there is something to send.
    pub(crate) fn next_part_len(&self) -> Option<usize> {
        if let Some(packet) = self.lost.first() {
            return Some(self.flight[(packet - self.base) as usize].len as usize);
        }
        let message = self.waiting.front()?;
        Some(self.part_len.min(message.bytes.len() - self.cut))
    }

    /// Appends the next packet to `out`, if one may leave now; `below` acknowledges the other way.
    pub(crate) fn poll(&mut self, now: Instant, below: u64, out: &mut Vec<u8>) -> bool {
        let again = self.lost.first().copied();
        if again.is_none() && !self.may_send_new() {
            return false;
        }
        if self.under_way >= self.pace.window() || !self.pace.take(now, self.round_trip()) {
            return false;
        }
        if self.under_way == 0 {
            self.timer_from = now;
            if self.flight.is_empty() {
                self.progress = now;
            }
        }
        let packet = match again {
            Some(packet) => {
                self.lost.remove(&packet);
                packet
            }
            None => self.cut_next(now),
        };
        let part = &mut self.flight[(packet - self.base) as usize];
        part.again = again.is_some();
        part.sent = now;
        part.state = PartState::UnderWay;
        self.under_way += 1;
        part.encode(self.route, packet, below, out);
        true
    }

    fn may_send_new(&self) -> bool {
        !self.waiting.is_empty() && self.flight.len() < WINDOW_MAX
    }

    /// Cuts the next part off the first waiting message; returns its packet's number.
    fn cut_next(&mut self, now: Instant) -> u64 {
        let message = Arc::clone(self.waiting.front().expect("the caller has looked"));
        let len = self.part_len.min(message.bytes.len() - self.cut);
        let offset = self.cut;
        self.cut += len;
        if self.cut == message.bytes.len() {
            self.waiting.pop_front();
            self.cut = 0;
        }
        self.flight.push_back(Part {
            message,
            offset: offset as u32,
            len: len as u32,
            sent: now,
            again: false,
            state: PartState::UnderWay,
        });
        self.base + self.flight.len() as u64 - 1
    }

    /// Everything under `below` has arrived, as a data packet of the other direction says.
    pub(crate) fn on_below(&mut self, now: Instant, below: u64) -> Result<(), AckError> {
        let ack = Ack {
            below,
            end: below,
            delay: 0,
            rate: 0,
            gaps: Vec::new(),
        };
        self.on_ack(now, &ack)
    }

    /// Applies an acknowledgement; an old one says nothing new.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &Ack) -> Result<(), AckError> {
        let sent = self.base + self.flight.len() as u64;
        if ack.end > sent {
            let acked = ack.end;
            return Err(AckError { acked, sent });
        }
        self.measure(now, ack);
        let acked = self.settle(ack);
        if acked > 0 {
            self.progress = now;
            self.timer_from = now;
            self.timeouts = 0;
            let rtt = self.round_trip();
            self.pace.on_ack(now, acked, ack.rate, rtt);
        }
        self.find_lost(now, ack);
        Ok(())
    }

    /// Learns the round trip from the highest packet that has arrived, unless it was sent twice.
    fn measure(&mut self, now: Instant, ack: &Ack) {
        let Some(index) = ack.end.checked_sub(self.base + 1) else {
            return;
        };
        let Some(part) = self.flight.get(index as usize) else {
            return;
        };
        if part.again || part.state != PartState::UnderWay {
            return;
        }
        let delay = Duration::from_micros(ack.delay.into());
        let sample = now
            .saturating_duration_since(part.sent)
            .saturating_sub(delay);
        self.rtt = Some(self.rtt.map_or(Rtt::first(sample), |rtt| rtt.with(sample)));
    }

    /// Marks what has arrived; returns how many packets that is.
    fn settle(&mut self, ack: &Ack) -> usize {
        let mut acked = 0;
        let mut from = self.base;
        let gaps = ack
            .gaps
            .iter()
            .map(|(start, len)| (*start, start + u64::from(*len)));
        for (start, end) in gaps.chain([(ack.end, ack.end)]) {
            for packet in from..start {
                acked += usize::from(self.arrived(packet));
            }
            from = from.max(end);
        }
        while let Some(part) = self.flight.front()
            && part.state == PartState::Acked
        {
            self.flight.pop_front();
            self.base += 1;
        }
        acked
    }

    fn arrived(&mut self, packet: u64) -> bool {
        let Some(index) = packet.checked_sub(self.base) else {
            return false;
        };
        let Some(part) = self.flight.get_mut(index as usize) else {
            return false;
        };
        match std::mem::replace(&mut part.state, PartState::Acked) {
            PartState::Acked => return false,
            PartState::UnderWay => self.under_way -= 1,
            PartState::Lost => {
                self.lost.remove(&packet);
            }
        }
        self.queued_bytes -= part.len as usize;
        true
    }

    /// Finds the packets of the gaps that are lost (Q2).
    fn find_lost(&mut self, now: Instant, ack: &Ack) {
        let rtt = self.round_trip();
        for &(start, len) in &ack.gaps {
            let end = (start + u64::from(len)).min(ack.end.saturating_sub(REORDER));
            for packet in start.max(self.base)..end {
                let part = &self.flight[(packet - self.base) as usize];
                let overdue = !part.again || now.saturating_duration_since(part.sent) > rtt * 2;
                if part.state == PartState::UnderWay && overdue {
                    self.lose(packet);
                    let next = self.base + self.flight.len() as u64;
                    self.pace.on_loss(now, packet, next, rtt);
                }
            }
        }
    }

    fn lose(&mut self, packet: u64) {
        self.flight[(packet - self.base) as usize].state = PartState::Lost;
        self.under_way -= 1;
        self.lost.insert(packet);
    }

    /// Declares everything under way lost if the timeout has passed (Q2).
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.timeout_at().is_none_or(|at| at > now) {
            return;
        }
        let end = self.base + self.flight.len() as u64;
        for packet in self.base..end {
            if self.flight[(packet - self.base) as usize].state == PartState::UnderWay {
                self.lose(packet);
            }
        }
        self.timeouts += 1;
        self.timer_from = now;
        self.pace.on_timeout(self.timeouts, self.round_trip());
    }

    /// When something is to be done next: send, or give up waiting.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let ready = !self.lost.is_empty() || self.may_send_new();
        let send = (ready && self.under_way < self.pace.window())
            .then(|| self.pace.next(self.round_trip()));
        match (send, self.timeout_at()) {
            (Some(send), Some(timeout)) => Some(send.min(timeout)),
            (send, timeout) => send.or(timeout),
        }
    }

    fn timeout_at(&self) -> Option<Instant> {
        let wait = self
            .rtt
            .map_or(RTT_FIRST * 2, |rtt| rtt.smooth + rtt.spread * 4);
        let wait = wait.max(TIMEOUT_MIN) * (1 << self.timeouts.min(6));
        (self.under_way > 0).then(|| self.timer_from + wait.min(TIMEOUT_MAX))
    }

    fn round_trip(&self) -> Duration {
        self.rtt.map_or(RTT_FIRST, |rtt| rtt.smooth)
    }
}

impl Part {
    fn encode(&self, route: Route, packet: u64, below: u64, out: &mut Vec<u8>) {
        let message = &self.message;
        let data = Data {
            packet,
            below,
            message: message.number,
            message_len: message.bytes.len() as u32,
            prefix_len: message.prefix_len,
            offset: self.offset,
        };
        let start = self.offset as usize;
        let part = &message.bytes[start..start + self.len as usize];
        Packet::Data(data, part).encode(route, out);
    }
}

impl Rtt {
    fn first(sample: Duration) -> Rtt {
        Rtt {
            smooth: sample,
            spread: sample / 2,
        }
    }

    /// The usual weights: an eighth for the mean, a quarter for the spread.
    fn with(self, sample: Duration) -> Rtt {
        Rtt {
            smooth: self.smooth * 7 / 8 + sample / 8,
            spread: self.spread * 3 / 4 + sample.abs_diff(self.smooth) / 4,
        }
    }
}
