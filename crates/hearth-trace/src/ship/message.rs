//! The messages between log clients and servers: a byte for the kind, and numbers.

use crate::file::SessionId;
use crate::file::fields::{Field, Malformed};

/// From a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask<'a> {
    /// First of all: whose frames will come, and the machine's name.
    Session(SessionId, &'a [u8]),
    /// The payload is the frames with these numbers, the second not among them.
    Frames(u64, u64),
    /// Asks for the server's time.
    Ping,
}

/// From a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// Which run of the server this is, and the first frame that it does not have.
    Welcome(u64, u64),
    /// All frames before this one are stored.
    Stored(u64),
    /// When a ping came, and when this answer was sent, by the server's clock.
    Pong(u64, u64),
}

impl<'a> Ask<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Ask::Session(session, host) => {
                out.push(1);
                session.0.put(&mut out);
                host.put(&mut out);
            }
            Ask::Frames(first, end) => {
                out.push(2);
                first.put(&mut out);
                end.put(&mut out);
            }
            Ask::Ping => out.push(3),
        }
        out
    }

    pub(super) fn decode(mut bytes: &'a [u8]) -> Result<Ask<'a>, Malformed> {
        let input = &mut bytes;
        let ask = match u8::take(input)? {
            1 => Ask::Session(SessionId(u64::take(input)?), Field::take(input)?),
            2 => Ask::Frames(u64::take(input)?, u64::take(input)?),
            3 => Ask::Ping,
            _ => return Err(Malformed),
        };
        if bytes.is_empty() {
            Ok(ask)
        } else {
            Err(Malformed)
        }
    }
}

impl Tell {
    pub(super) fn encode(self) -> Vec<u8> {
        let (tag, numbers) = match self {
            Tell::Welcome(server, next) => (1, [server, next]),
            Tell::Stored(next) => (2, [next, 0]),
            Tell::Pong(received, answered) => (3, [received, answered]),
        };
        let mut out = vec![tag];
        numbers.iter().for_each(|number| number.put(&mut out));
        out
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Result<Tell, Malformed> {
        let input = &mut bytes;
        let (tag, first, second) = (u8::take(input)?, u64::take(input)?, u64::take(input)?);
        let tell = match tag {
            1 => Tell::Welcome(first, second),
            2 => Tell::Stored(first),
            3 => Tell::Pong(first, second),
            _ => return Err(Malformed),
        };
        if bytes.is_empty() {
            Ok(tell)
        } else {
            Err(Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_others_are_errors() {
        for ask in [
            Ask::Session(SessionId(u64::MAX), b"n1"),
            Ask::Frames(0, 300),
            Ask::Ping,
        ] {
            let bytes = ask.encode();
            assert_eq!(Ask::decode(&bytes), Ok(ask));
            assert_eq!(Ask::decode(&bytes[..bytes.len() - 1]), Err(Malformed));
        }
        for tell in [Tell::Welcome(1 << 60, 2), Tell::Stored(9), Tell::Pong(7, 8)] {
            assert_eq!(Tell::decode(&tell.encode()), Ok(tell));
        }
        for first in 0..=255 {
            for len in 0..30 {
                let bytes: Vec<u8> = std::iter::once(first)
                    .chain((0..len).map(|at| at * 37))
                    .collect();
                let _ = (Ask::decode(&bytes), Tell::decode(&bytes));
            }
        }
    }
}
