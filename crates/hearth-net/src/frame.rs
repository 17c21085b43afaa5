//! The frame header on the wire: 32 bytes, little endian, before every head and payload.
//!
//! ```text
//!  0       4         5      6          8          12            16    32
//!  | magic | version | kind | reserved | head len | payload len | mac |
//! ```
//!
//! Magic, version and kind keep their places in every version, so that two versions can at least
//! tell each other apart. The mac covers the first 16 bytes, the head, and the frame's number in
//! its connection; it is zero in frames of the handshake. The payload is not covered.

/// The version this crate speaks. Peers of another version are refused with a readable reason.
pub const PROTOCOL_VERSION: u8 = 22;
/// The longest head of a frame.
pub const HEAD_LEN_MAX: usize = 64 << 10;
/// The longest payload of a frame.
pub const PAYLOAD_LEN_MAX: usize = 16 << 20;

/// Length of the header.
pub(crate) const HEADER_LEN: usize = 32;
/// The part of the header that the mac covers.
pub(crate) const FIELDS_LEN: usize = 16;
/// Length of the mac.
pub(crate) const MAC_LEN: usize = HEADER_LEN - FIELDS_LEN;
/// The longest head before the peer has proved that it knows the secret.
pub(crate) const HANDSHAKE_HEAD_LEN_MAX: usize = 512;

const MAGIC: [u8; 4] = *b"hrth";
const _: () =
    assert!(HANDSHAKE_HEAD_LEN_MAX <= HEAD_LEN_MAX && PAYLOAD_LEN_MAX < u32::MAX as usize);

/// The purpose of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Hello,
    Challenge,
    Proof,
    Refuse,
    Data,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Hello => 1,
            Kind::Challenge => 2,
            Kind::Proof => 3,
            Kind::Refuse => 4,
            Kind::Data => 5,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        [
            Kind::Hello,
            Kind::Challenge,
            Kind::Proof,
            Kind::Refuse,
            Kind::Data,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }
}

/// A header that is within its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) head_len: usize,
    pub(crate) payload_len: usize,
}

/// Bytes that are not a header this version accepts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the bytes received are not a hearth frame")]
    Magic,
    #[error("peer speaks version {theirs}, this agent {PROTOCOL_VERSION}")]
    Version { theirs: u8 },
    #[error("unknown kind of frame {0}")]
    Kind(u8),
    #[error("reserved bits set in a frame header")]
    Reserved,
    #[error("head of {len} bytes is longer than {max}")]
    HeadLen { len: usize, max: usize },
    #[error("payload of {len} bytes is longer than {max}")]
    PayloadLen { len: usize, max: usize },
    #[error("frame of kind {0:?} out of its place")]
    Place(Kind),
    #[error("frame does not carry its mac: corrupted or forged")]
    Mac,
}

impl Header {
    /// The covered part of the header; both lengths must be within their bounds.
    pub(crate) fn fields(&self) -> [u8; FIELDS_LEN] {
        assert!(self.head_len <= HEAD_LEN_MAX && self.payload_len <= PAYLOAD_LEN_MAX);
        let mut out = [0; FIELDS_LEN];
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = PROTOCOL_VERSION;
        out[5] = self.kind.code();
        out[8..12].copy_from_slice(&(self.head_len as u32).to_le_bytes());
        out[12..16].copy_from_slice(&(self.payload_len as u32).to_le_bytes());
        out
    }

    /// Reads a header; a refusal is understood whatever its version.
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, FrameError> {
        check_magic(bytes)?;
        let kind = Kind::from_code(bytes[5]);
        if bytes[4] != PROTOCOL_VERSION && kind != Some(Kind::Refuse) {
            return Err(FrameError::Version { theirs: bytes[4] });
        }
        let kind = kind.ok_or(FrameError::Kind(bytes[5]))?;
        if bytes[6..8] != [0, 0] {
            return Err(FrameError::Reserved);
        }
        let header = Header {
            kind,
            head_len: len_at(bytes, 8),
            payload_len: len_at(bytes, 12),
        };
        header.check_bounds()?;
        Ok(header)
    }

    fn check_bounds(&self) -> Result<(), FrameError> {
        let (head_max, payload_max) = match self.kind {
            Kind::Hello | Kind::Challenge | Kind::Proof | Kind::Refuse => {
                (HANDSHAKE_HEAD_LEN_MAX, 0)
            }
            Kind::Data => (HEAD_LEN_MAX, PAYLOAD_LEN_MAX),
        };
        if self.head_len > head_max {
            return Err(FrameError::HeadLen {
                len: self.head_len,
                max: head_max,
            });
        }
        if self.payload_len > payload_max {
            return Err(FrameError::PayloadLen {
                len: self.payload_len,
                max: payload_max,
            });
        }
        Ok(())
    }
}

/// Fails on the first byte that no frame begins with; `bytes` may be shorter than a header.
pub(crate) fn check_magic(bytes: &[u8]) -> Result<(), FrameError> {
    let len = bytes.len().min(MAGIC.len());
    if bytes[..len] == MAGIC[..len] {
        Ok(())
    } else {
        Err(FrameError::Magic)
    }
}

/// A whole frame of the handshake.
pub(crate) fn handshake_frame(kind: Kind, head: &[u8]) -> Vec<u8> {
    let header = Header {
        kind,
        head_len: head.len(),
        payload_len: 0,
    };
    let mut out = Vec::with_capacity(HEADER_LEN + head.len());
    out.extend_from_slice(&header.fields());
    out.extend_from_slice(&[0; MAC_LEN]);
    out.extend_from_slice(head);
    out
}

fn len_at(bytes: &[u8; HEADER_LEN], at: usize) -> usize {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    u32::from_le_bytes(word) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(header: Header) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..FIELDS_LEN].copy_from_slice(&header.fields());
        out
    }

    fn xorshift(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn a_header_survives_the_wire() {
        for (head_len, payload_len) in [(0, 0), (1, 0), (64, 4096), (HEAD_LEN_MAX, PAYLOAD_LEN_MAX)]
        {
            let header = Header {
                kind: Kind::Data,
                head_len,
                payload_len,
            };
            assert_eq!(Header::decode(&bytes_of(header)), Ok(header));
        }
    }

    #[test]
    fn another_version_is_named_but_its_refusal_is_read() {
        let mut data = bytes_of(Header {
            kind: Kind::Data,
            head_len: 0,
            payload_len: 0,
        });
        let theirs = PROTOCOL_VERSION + 1;
        data[4] = theirs;
        assert_eq!(Header::decode(&data), Err(FrameError::Version { theirs }));
        let mut refusal = bytes_of(Header {
            kind: Kind::Refuse,
            head_len: 3,
            payload_len: 0,
        });
        refusal[4] = theirs;
        assert!(Header::decode(&refusal).is_ok());
    }

    #[test]
    fn lengths_beyond_their_bounds_are_refused() {
        let mut data = bytes_of(Header {
            kind: Kind::Data,
            head_len: 0,
            payload_len: 0,
        });
        data[12..16].copy_from_slice(&(PAYLOAD_LEN_MAX as u32 + 1).to_le_bytes());
        assert!(matches!(
            Header::decode(&data),
            Err(FrameError::PayloadLen { .. })
        ));
        data[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            Header::decode(&data),
            Err(FrameError::HeadLen { .. })
        ));
        let mut hello = bytes_of(Header {
            kind: Kind::Hello,
            head_len: 0,
            payload_len: 0,
        });
        hello[8..12].copy_from_slice(&(HANDSHAKE_HEAD_LEN_MAX as u32 + 1).to_le_bytes());
        assert!(matches!(
            Header::decode(&hello),
            Err(FrameError::HeadLen { .. })
        ));
    }

    #[test]
    fn random_bytes_decode_to_a_bounded_header_or_an_error() {
        let mut state = 0x9E37_79B9_7F4A_7C15;
        let mut accepted = 0;
        for round in 0..200_000 {
            let mut bytes = [0; HEADER_LEN];
            for word in bytes.chunks_mut(8) {
                word.copy_from_slice(&xorshift(&mut state).to_le_bytes());
            }
            if round % 2 == 0 {
                let valid = bytes_of(Header {
                    kind: Kind::Data,
                    head_len: 7,
                    payload_len: 7,
                });
                let broken = xorshift(&mut state) as usize % FIELDS_LEN;
                let byte = bytes[broken];
                bytes = valid;
                bytes[broken] = byte;
            }
            if let Ok(header) = Header::decode(&bytes) {
                accepted += 1;
                assert!(header.head_len <= HEAD_LEN_MAX);
                assert!(header.payload_len <= PAYLOAD_LEN_MAX);
            }
        }
        assert!(
            accepted > 0,
            "the generator must reach the accepting path too"
        );
    }
}
