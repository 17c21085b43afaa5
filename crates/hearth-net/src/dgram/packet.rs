//! Packets on the wire: what one datagram carries, little endian.
//!
//! ```text
//!  0      1         2       4        8            16
//!  | kind | version | flags | offset | connection | ...
//!
//!  data     ... | packet 8 | below 8 | message 8 | message len 4 | prefix len 4 | bytes of the part
//!
//!  ack      ... | below 8 | end 8 | delay 4 | rate 4 | gaps: (start 8, len 4) ...
//!
//!  ping, reset, close       nothing more; a close carries its reason as text
//! ```
//!
//! A *message* is one frame: header, head and payload. It is cut into *parts*, one to a packet. The
//! prefix, header and head, is put together apart from the payload, so that the payload needs no
//! second copy. Packets are numbered over the connection, and a part that is sent again keeps its
//! number. `below` says that all packets of the other direction under it have arrived.

/// The version of packets; another one is not understood.
pub(crate) const VERSION: u8 = 1;
/// Bytes before the part of a data packet.
pub(crate) const DATA_LEN: usize = 48;
/// Gaps that one acknowledgement names; more are told by the next.
pub(crate) const GAPS_MAX: usize = 64;
/// The longest reason of a close.
const REASON_LEN_MAX: usize = 200;

const HEAD_LEN: usize = 16;
const ACK_LEN: usize = 40;
const GAP_LEN: usize = 12;
/// The packet comes from the side that dialed.
const FROM_DIALER: u16 = 1;

/// The first bytes of every packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// Chosen by the dialer, at random.
    pub(crate) connection: u64,
    pub(crate) from_dialer: bool,
}

/// A packet that is within its bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Packet<'a> {
    Data(Data, &'a [u8]),
    Ack(Ack),
    /// Asks for an acknowledgement: is anybody there?
    Ping,
    /// The sender does not know the connection.
    Reset,
    /// The sender has ended the connection.
    Close(&'a [u8]),
}

/// The place of one part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Data {
    pub(crate) packet: u64,
    pub(crate) below: u64,
    pub(crate) message: u64,
    pub(crate) message_len: u32,
    pub(crate) prefix_len: u32,
    pub(crate) offset: u32,
}

/// The packets that a receiver has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    /// Every packet under this one is here.
    pub(crate) below: u64,
    /// One past the highest packet that is here.
    pub(crate) end: u64,
    /// Microseconds since the highest packet came.
    pub(crate) delay: u32,
    /// Packets a second that came lately; 0 when unknown.
    pub(crate) rate: u32,
    /// Runs of missing packets between `below` and `end`, ascending.
    pub(crate) gaps: Vec<(u64, u32)>,
}

impl Packet<'_> {
    /// Appends the packet to `out`.
    pub(crate) fn encode(&self, route: Route, out: &mut Vec<u8>) {
        let (kind, offset) = match self {
            Packet::Data(data, _) => (1, data.offset),
            Packet::Ack(_) => (2, 0),
            Packet::Ping => (3, 0),
            Packet::Reset => (4, 0),
            Packet::Close(_) => (5, 0),
        };
        let flags = if route.from_dialer { FROM_DIALER } else { 0 };
        out.extend_from_slice(&[kind, VERSION]);
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&route.connection.to_le_bytes());
        match self {
            Packet::Data(data, part) => {
                for word in [data.packet, data.below, data.message] {
                    out.extend_from_slice(&word.to_le_bytes());
                }
                out.extend_from_slice(&data.message_len.to_le_bytes());
                out.extend_from_slice(&data.prefix_len.to_le_bytes());
                out.extend_from_slice(part);
            }
            Packet::Ack(ack) => ack.encode(out),
            Packet::Ping | Packet::Reset => {}
            Packet::Close(reason) => {
                out.extend_from_slice(&reason[..reason.len().min(REASON_LEN_MAX)]);
            }
        }
    }

    /// Reads a datagram; `None` for what no packet of this version looks like.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Route, Packet<'_>)> {
        let mut words = Words(bytes);
        let [kind, version] = words.take()?;
        let flags = words.take().map(u16::from_le_bytes)?;
        let offset = words.u32()?;
        let connection = words.u64()?;
        if version != VERSION || flags & !FROM_DIALER != 0 {
            return None;
        }
        let packet = match kind {
            1 => {
                let data = Data {
                    packet: words.u64()?,
                    below: words.u64()?,
                    message: words.u64()?,
                    message_len: words.u32()?,
                    prefix_len: words.u32()?,
                    offset,
                };
                let part = words.0;
                let end = u64::from(offset) + part.len() as u64;
                let within = !part.is_empty()
                    && end <= u64::from(data.message_len)
                    && data.prefix_len <= data.message_len;
                within.then_some(Packet::Data(data, part))?
            }
            2 => Packet::Ack(Ack::decode(words)?),
            3 => Packet::Ping,
            4 => Packet::Reset,
            5 => Packet::Close(&words.0[..words.0.len().min(REASON_LEN_MAX)]),
            _ => return None,
        };
        let from_dialer = flags & FROM_DIALER != 0;
        Some((
            Route {
                connection,
                from_dialer,
            },
            packet,
        ))
    }
}

impl Ack {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.below.to_le_bytes());
        out.extend_from_slice(&self.end.to_le_bytes());
        out.extend_from_slice(&self.delay.to_le_bytes());
        out.extend_from_slice(&self.rate.to_le_bytes());
        for (start, len) in self.gaps.iter().take(GAPS_MAX) {
            out.extend_from_slice(&start.to_le_bytes());
            out.extend_from_slice(&len.to_le_bytes());
        }
    }

    fn decode(mut words: Words<'_>) -> Option<Ack> {
        let mut ack = Ack {
            below: words.u64()?,
            end: words.u64()?,
            delay: words.u32()?,
            rate: words.u32()?,
            gaps: Vec::new(),
        };
        let mut free_from = ack.below;
        while !words.0.is_empty() {
            let (start, len) = (words.u64()?, words.u32()?);
            let end = start.checked_add(u64::from(len))?;
            // Ascending, apart, and inside: so a receiver of this does bounded work.
            if len == 0 || start < free_from || end > ack.end || ack.gaps.len() == GAPS_MAX {
                return None;
            }
            free_from = end;
            ack.gaps.push((start, len));
        }
        (ack.below <= ack.end).then_some(ack)
    }
}

const _: () = assert!(DATA_LEN == HEAD_LEN + 32 && ACK_LEN == HEAD_LEN + 24);
/// The longest packet that is not data.
pub(crate) const CONTROL_LEN_MAX: usize = ACK_LEN + GAPS_MAX * GAP_LEN;

/// Reads from the front; outside bytes never panic.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*word)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: Route = Route {
        connection: 0x0102_0304_0506_0708,
        from_dialer: true,
    };

    fn data() -> Data {
        Data {
            packet: 9,
            below: 4,
            message: 3,
            message_len: 2000,
            prefix_len: 96,
            offset: 1000,
        }
    }

    fn survives(packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(ROUTE, &mut bytes);
        assert_eq!(Packet::decode(&bytes), Some((ROUTE, packet.clone())));
        for len in 0..bytes.len().min(HEAD_LEN) {
            assert_eq!(Packet::decode(&bytes[..len]), None, "cut to {len}");
        }
    }

    #[test]
    fn every_packet_survives_the_wire() {
        survives(&Packet::Data(data(), &[7; 1000]));
        survives(&Packet::Ping);
        survives(&Packet::Reset);
        survives(&Packet::Close(b"shut down"));
        survives(&Packet::Ack(Ack {
            below: 5,
            end: 90,
            delay: 17,
            rate: 1000,
            gaps: vec![(5, 1), (8, 70)],
        }));
    }

    #[test]
    fn a_part_outside_of_its_message_is_refused() {
        let mut bytes = Vec::new();
        Packet::Data(data(), &[7; 1001]).encode(ROUTE, &mut bytes);
        assert_eq!(Packet::decode(&bytes), None);
    }

    #[test]
    fn gaps_out_of_order_or_out_of_range_are_refused() {
        for gaps in [vec![(8, 2), (5, 1)], vec![(5, 90)], vec![(u64::MAX, 2)]] {
            let (below, end) = (5, 90);
            let ack = Ack {
                below,
                end,
                delay: 0,
                rate: 0,
                gaps,
            };
            let mut bytes = Vec::new();
            Packet::Ack(ack).encode(ROUTE, &mut bytes);
            assert_eq!(Packet::decode(&bytes), None);
        }
    }

    #[test]
    fn random_bytes_never_panic_and_what_is_read_is_bounded() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut read = 0;
        for round in 0..100_000_usize {
            let mut bytes = vec![0; round % 200];
            for byte in &mut bytes {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state as u8;
            }
            if let [kind, version, low, high, ..] = &mut bytes[..] {
                (*kind, *version, *low, *high) = (1 + *kind % 5, VERSION, *low & 1, 0);
            }
            if let Some((_, packet)) = Packet::decode(&bytes) {
                read += 1;
                if let Packet::Data(data, part) = packet {
                    assert!(data.offset as usize + part.len() <= data.message_len as usize);
                }
            }
        }
        assert!(read > 1000, "the generator must reach the accepting path");
    }
}
