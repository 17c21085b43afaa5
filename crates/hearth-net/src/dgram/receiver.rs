//! The receiving side of one connection: parts are put in their places, whole messages come out in
//! order, and what is missing is told to the sender. No I/O and no clock of its own.
//!
//! - RECEIVER-1: a packet is taken once; a message comes out once, in the order of the numbers.
//! - RECEIVER-2: packets further than the window above the first missing one, parts that contradict their
//!   message, and more unfinished bytes than the bound end the connection.
//! - RECEIVER-3: what has arrived is acknowledged within [`ACK_DELAY`], by data or by itself; a new gap at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::pace::WINDOW_MAX;
use super::packet::{Ack, Data, GAPS_MAX};

/// How long an acknowledgement waits for data to travel with.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(2);
/// Packets that are acknowledged without waiting.
const ACK_EVERY: u32 = 32;
/// The rate of arrival is counted over spans of this length.
const RATE_SPAN: Duration = Duration::from_millis(10);

/// A message that is complete.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Whole {
    pub(crate) prefix: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

/// Packets that no sender of this protocol sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error("peer sends beyond the window")]
    Window,
    #[error("parts of one message contradict each other")]
    Part,
    #[error("peer has more than {max} bytes of messages unfinished")]
    Unfinished { max: usize },
}

/// See the module's documentation.
pub(crate) struct Receiver {
    /// The first packet that is missing.
    below: u64,
    /// Packets above, as runs from start to end.
    above: BTreeMap<u64, u64>,
    messages: BTreeMap<u64, Assembly>,
    next_message: u64,
    unfinished: usize,
    unfinished_max: usize,
    acks: Acks,
    rate: Rate,
}

/// A message some of whose parts are here.
struct Assembly {
    whole: Whole,
    missing: usize,
}

/// The news that the sender has not been told.
struct Acks {
    due: Option<Instant>,
    untold: u32,
    newest: Instant,
}

struct Rate {
    since: Instant,
    count: u32,
    last: u32,
}

impl Receiver {
    /// A receiver of messages that are unfinished by no more than `unfinished_max` bytes together.
    pub(crate) fn new(unfinished_max: usize, now: Instant) -> Receiver {
        Receiver {
            below: 0,
            above: BTreeMap::new(),
            messages: BTreeMap::new(),
            next_message: 0,
            unfinished: 0,
            unfinished_max,
            acks: Acks {
                due: None,
                untold: 0,
                newest: now,
            },
            rate: Rate {
                since: now,
                count: 0,
                last: 0,
            },
        }
    }

    /// From now on, other bounds hold: the peer has proved who it is.
    pub(crate) fn set_unfinished_max(&mut self, max: usize) {
        self.unfinished_max = max;
    }

    /// The first packet that is missing; to be told with data.
    pub(crate) fn below(&self) -> u64 {
        self.below
    }

    /// Takes one packet.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        data: &Data,
        part: &[u8],
    ) -> Result<(), ReceiveError> {
        if data.packet >= self.below + 2 * WINDOW_MAX as u64 {
            return Err(ReceiveError::Window);
        }
        if !self.is_new(data.packet) {
            // Its acknowledgement was lost, or is late.
            self.acks.due = Some(now);
            return Ok(());
        }
        self.place(data, part)?;
        let gap = data.packet > self.end();
        self.note(data.packet);
        self.rate.count(now);
        self.acks.note(now, gap);
        Ok(())
    }

    fn is_new(&self, packet: u64) -> bool {
        let held = self.above.range(..=packet).next_back();
        packet >= self.below && held.is_none_or(|(_, end)| packet >= *end)
    }

    /// One past the highest packet that is here.
    fn end(&self) -> u64 {
        self.above
            .last_key_value()
            .map_or(self.below, |(_, end)| *end)
    }

    /// Joins a new packet to the runs.
    fn note(&mut self, packet: u64) {
        let (mut start, mut end) = (packet, packet + 1);
        if let Some((before, at)) = self.above.range(..=packet).next_back()
            && *at == packet
        {
            start = *before;
        }
        if let Some(after) = self.above.remove(&end) {
            end = after;
        }
        self.above.insert(start, end);
        if start == self.below {
            self.above.remove(&start);
            self.below = end;
        }
    }

    /// Copies a part to its place in its message.
    fn place(&mut self, data: &Data, part: &[u8]) -> Result<(), ReceiveError> {
        if data.message < self.next_message {
            return Err(ReceiveError::Part);
        }
        if !self.messages.contains_key(&data.message) {
            let (max, len) = (self.unfinished_max, data.message_len as usize);
            if self.unfinished + len > max {
                return Err(ReceiveError::Unfinished { max });
            }
            self.unfinished += len;
            self.messages.insert(data.message, Assembly::new(data));
        }
        let assembly = self
            .messages
            .get_mut(&data.message)
            .expect("just put there");
        assembly.place(data, part).ok_or(ReceiveError::Part)
    }

    /// The next message in order, if it is complete (RECEIVER-1).
    pub(crate) fn next(&mut self) -> Option<Whole> {
        let entry = self.messages.first_entry()?;
        if *entry.key() != self.next_message || entry.get().missing > 0 {
            return None;
        }
        self.next_message += 1;
        let whole = entry.remove().whole;
        self.unfinished -= whole.prefix.len() + whole.payload.len();
        Some(whole)
    }

    /// When an acknowledgement is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.acks.due
    }

    /// The acknowledgement, if one is due.
    pub(crate) fn ack(&mut self, now: Instant) -> Option<Ack> {
        (self.acks.due? <= now).then(|| self.state(now))
    }

    /// Data that carries `below` is about to leave: it says all there is to say, unless there are gaps.
    pub(crate) fn told_with_data(&mut self) {
        if self.above.is_empty() {
            self.acks.told();
        }
    }

    /// The packets that are here, and the gaps between them.
    pub(crate) fn state(&mut self, now: Instant) -> Ack {
        self.acks.told();
        let mut gaps = Vec::new();
        let mut from = self.below;
        for (start, end) in self.above.iter().take(GAPS_MAX) {
            gaps.push((from, (start - from) as u32));
            from = *end;
        }
        // Of more gaps than fit, the sender hears when the first are closed.
        let delay = now.saturating_duration_since(self.acks.newest).as_micros();
        Ack {
            below: self.below,
            end: from,
            delay: u32::try_from(delay).unwrap_or(u32::MAX),
            rate: self.rate.last,
            gaps,
        }
    }
}

impl Assembly {
    fn new(data: &Data) -> Assembly {
        let prefix = data.prefix_len as usize;
        let payload = (data.message_len - data.prefix_len) as usize;
        Assembly {
            whole: Whole {
                prefix: vec![0; prefix],
                payload: vec![0; payload],
            },
            missing: prefix + payload,
        }
    }

    /// `None` if the part contradicts what is known of the message.
    fn place(&mut self, data: &Data, part: &[u8]) -> Option<()> {
        let Whole { prefix, payload } = &mut self.whole;
        let same = prefix.len() == data.prefix_len as usize
            && prefix.len() + payload.len() == data.message_len as usize;
        if !same {
            return None;
        }
        let offset = data.offset as usize;
        let in_prefix = prefix.len().saturating_sub(offset).min(part.len());
        if in_prefix > 0 {
            prefix[offset..offset + in_prefix].copy_from_slice(&part[..in_prefix]);
        }
        if in_prefix < part.len() {
            let at = (offset + in_prefix).checked_sub(prefix.len())?;
            let rest = &part[in_prefix..];
            payload.get_mut(at..at + rest.len())?.copy_from_slice(rest);
        }
        self.missing = self.missing.checked_sub(part.len())?;
        Some(())
    }
}

impl Acks {
    fn note(&mut self, now: Instant, gap: bool) {
        self.newest = now;
        self.untold += 1;
        let due = if gap || self.untold >= ACK_EVERY {
            now
        } else {
            now + ACK_DELAY
        };
        self.due = Some(self.due.map_or(due, |planned| planned.min(due)));
    }

    fn told(&mut self) {
        self.due = None;
        self.untold = 0;
    }
}

impl Rate {
    fn count(&mut self, now: Instant) {
        self.count += 1;
        let span = now.saturating_duration_since(self.since);
        if span >= RATE_SPAN {
            // A pause is not a rate: only a span that was about full counts.
            if span < RATE_SPAN * 2 {
                self.last = (f64::from(self.count) / span.as_secs_f64()) as u32;
            }
            self.since = now;
            self.count = 0;
        }
    }
}
