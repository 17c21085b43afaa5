//! Cuts the bytes of one connection into frames.
//!
//! Small frames are read together into a buffer that all connections share; between two reads a
//! connection keeps only the incomplete header and head. As soon as
//! a head is complete and its mac is right, the payload goes straight into the `Vec` that the
//! handler receives.

use super::intake::Intake;
use super::stream::Stream;
use crate::auth::FrameKey;
use crate::frame::{FIELDS_LEN, FrameError, HEAD_LEN_MAX, HEADER_LEN, Header, Kind, check_magic};
use crate::why::Why;

/// Bytes asked of the socket when no payload is being received: many small frames, or one with a
/// page of the smallest size; more would only be copied out again.
const READ_LEN: usize = 16 << 10;
/// An idle connection keeps no more memory than this for its next incomplete head.
const PARTIAL_KEPT_LEN: usize = 1 << 10;
/// Length of the shared buffer: an incomplete head and one read.
pub(crate) const SCRATCH_LEN: usize = HEADER_LEN + HEAD_LEN_MAX + READ_LEN;

/// Which frames are acceptable now.
pub(crate) enum Gate {
    /// Only frames of the handshake.
    Handshake,
    /// Only data under this key.
    Data(FrameKey),
}

/// The state of the socket, as a read shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Socket {
    /// It held nothing.
    Empty,
    /// It gave less than was asked for: the next byte makes a new edge. An end of the stream that
    /// was there already does not.
    Emptied,
    MayHoldMore,
}

/// Takes whole frames; the frame that ends a handshake returns the key of those after it.
pub(crate) type Sink<'a> = dyn FnMut(Kind, &[u8], Vec<u8>) -> Result<Option<FrameKey>, Why> + 'a;

/// The receiving side of one connection.
pub(crate) struct Reader {
    gate: Gate,
    partial: Vec<u8>,
    body: Option<Body>,
}

/// A frame whose payload is still arriving.
struct Body {
    head: Vec<u8>,
    payload: Vec<u8>,
    payload_len: usize,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        Reader {
            gate: Gate::Handshake,
            partial: Vec::new(),
            body: None,
        }
    }

    /// Reads once from the connection and passes on the frames that are complete.
    pub(crate) fn read(
        &mut self,
        from: (&Stream, &mut Intake),
        scratch: &mut [u8],
        sink: &mut Sink<'_>,
    ) -> Result<Socket, Why> {
        match self.body.take() {
            Some(body) => self.read_body(from, body, sink),
            None => self.read_frames(from, scratch, sink),
        }
    }

    fn read_body(
        &mut self,
        (stream, intake): (&Stream, &mut Intake),
        mut body: Body,
        sink: &mut Sink<'_>,
    ) -> Result<Socket, Why> {
        let asked = body.payload.capacity() - body.payload.len();
        let got = intake.append(stream, &mut body.payload)?;
        if got == Some(0) {
            return Err(Why::Truncated);
        }
        if body.payload.len() < body.payload_len {
            self.body = Some(body);
        } else {
            // An allocator may give more room than asked for; what came in there comes after.
            self.partial
                .extend_from_slice(&body.payload[body.payload_len..]);
            body.payload.truncate(body.payload_len);
            sink(Kind::Data, &body.head, body.payload)?;
        }
        Ok(socket_after(got, asked))
    }

    fn read_frames(
        &mut self,
        (stream, intake): (&Stream, &mut Intake),
        scratch: &mut [u8],
        sink: &mut Sink<'_>,
    ) -> Result<Socket, Why> {
        let kept = self.partial.len();
        scratch[..kept].copy_from_slice(&self.partial);
        let got = intake.fill(stream, &mut scratch[kept..kept + READ_LEN])?;
        if got == Some(0) {
            return Err(if kept == 0 {
                Why::Closed
            } else {
                Why::Truncated
            });
        }
        let bytes = &scratch[..kept + got.unwrap_or(0)];
        let used = self.cut(bytes, sink)?;
        self.keep(&bytes[used..]);
        Ok(socket_after(got, READ_LEN))
    }

    /// Passes on the frames at the front of `bytes`; returns how many bytes are done with.
    fn cut(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<usize, Why> {
        let mut used = 0;
        while let Some(frame) = self.next(&bytes[used..])? {
            let Frame {
                header,
                head,
                payload,
            } = frame;
            if payload.len() < header.payload_len {
                let mut room = Vec::with_capacity(header.payload_len);
                room.extend_from_slice(payload);
                let payload_len = header.payload_len;
                self.body = Some(Body {
                    head: head.to_vec(),
                    payload: room,
                    payload_len,
                });
                return Ok(bytes.len());
            }
            used += HEADER_LEN + header.head_len + header.payload_len;
            if let Some(key) = sink(header.kind, head, payload.to_vec())? {
                self.gate = Gate::Data(key);
            }
        }
        Ok(used)
    }

    fn keep(&mut self, rest: &[u8]) {
        self.partial.clear();
        if rest.is_empty() && self.partial.capacity() > PARTIAL_KEPT_LEN {
            self.partial = Vec::new();
        }
        self.partial.extend_from_slice(rest);
    }

    /// The frame at the front of `bytes`, if its header and head are complete.
    fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, FrameError> {
        let Some((raw, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            check_magic(bytes)?;
            return Ok(None);
        };
        let header = Header::decode(raw)?;
        let Some((head, rest)) = rest.split_at_checked(header.head_len) else {
            self.gate.check_kind(header.kind)?;
            return Ok(None);
        };
        self.gate.check(&header, raw, head)?;
        let payload = &rest[..rest.len().min(header.payload_len)];
        Ok(Some(Frame {
            header,
            head,
            payload,
        }))
    }
}

/// A frame with as much of its payload as has arrived.
struct Frame<'a> {
    header: Header,
    head: &'a [u8],
    payload: &'a [u8],
}

impl Gate {
    fn check_kind(&self, kind: Kind) -> Result<(), FrameError> {
        let in_place = match self {
            Gate::Handshake => kind != Kind::Data,
            Gate::Data(_) => kind == Kind::Data,
        };
        if in_place {
            Ok(())
        } else {
            Err(FrameError::Place(kind))
        }
    }

    fn check(
        &mut self,
        header: &Header,
        raw: &[u8; HEADER_LEN],
        head: &[u8],
    ) -> Result<(), FrameError> {
        self.check_kind(header.kind)?;
        match self {
            Gate::Handshake => Ok(()),
            Gate::Data(key) => {
                let (fields, mac) = raw.split_at(FIELDS_LEN);
                let fields = fields.try_into().expect("split at this very length");
                let mac = mac.try_into().expect("the rest of a header is its mac");
                key.open(fields, head, mac)
            }
        }
    }
}

fn socket_after(got: Option<usize>, asked: usize) -> Socket {
    match got {
        None => Socket::Empty,
        Some(got) if got < asked => Socket::Emptied,
        Some(_) => Socket::MayHoldMore,
    }
}
