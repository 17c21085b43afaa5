//! One connection between two ends that wait for each other: the frames and the proofs of a
//! [`Transport`](crate::Transport), without its members and its thread.
//!
//! The end that accepts is number 0; ends that dial draw a number. Every call blocks, until the
//! stream's time limit if it has one; after an error a channel is of no use.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::auth::{FrameKey, Secret, nonce};
use crate::frame::{FIELDS_LEN, FrameError, HEADER_LEN, Header, Kind, MAC_LEN};
use crate::handshake::{Handshake, HandshakeFailure, Identity, Progress, Session, refusal};
use crate::socket::{Door, Socket};
use crate::transport::{PeerId, payload_len};

/// Time for each step of connecting and of the handshake.
const HANDSHAKE_SPAN_MAX: Duration = Duration::from_secs(5);
const ACCEPTOR: PeerId = PeerId(0);

/// The knowledge that both ends of a channel share.
#[derive(Clone, Debug)]
pub struct Party {
    /// The job of both ends; an end of another job is refused.
    pub job: String,
    /// The secret that both prove to know.
    pub secret: Secret,
}

/// Why a channel is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The connection failed or ended.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other end is not who it should be, or does not speak as it should.
    #[error("{0}")]
    Peer(String),
}

impl From<FrameError> for ChannelError {
    fn from(error: FrameError) -> ChannelError {
        ChannelError::Peer(error.to_string())
    }
}

impl From<HandshakeFailure> for ChannelError {
    fn from(error: HandshakeFailure) -> ChannelError {
        ChannelError::Peer(error.to_string())
    }
}

/// An authenticated connection.
pub struct Channel {
    stream: Socket,
    tx: FrameKey,
    rx: FrameKey,
}

impl Channel {
    /// Connects to an end that accepts at an address.
    pub fn dial(addr: SocketAddr, party: &Party) -> Result<Channel, ChannelError> {
        Channel::knock(&Door::Port(addr), party)
    }

    /// Connects to an end that accepts.
    pub fn knock(door: &Door, party: &Party) -> Result<Channel, ChannelError> {
        let stream = Socket::connect(door, HANDSHAKE_SPAN_MAX)?;
        prepare(&stream)?;
        let drawn = nonce().map_err(io::Error::other)?;
        let number = u32::from_le_bytes([drawn[0], drawn[1], drawn[2], drawn[3]]);
        let who = identity(party, PeerId(number.clamp(1, u32::MAX - 1)));
        let (greeted, hello) = Handshake::dial(&who, ACCEPTOR, drawn);
        (&stream).write_all(&hello)?;
        shake_hands(stream, &who, greeted)
    }

    /// Takes a connection that was accepted, if the other end proves itself.
    pub fn accept(stream: impl Into<Socket>, party: &Party) -> Result<Channel, ChannelError> {
        let stream = stream.into();
        prepare(&stream)?;
        let who = identity(party, ACCEPTOR);
        shake_hands(stream, &who, Handshake::Opened)
    }

    /// Sends one frame.
    pub fn send(&mut self, head: &[u8], payload: &[u8]) -> Result<(), ChannelError> {
        let payload_len = payload_len(head, &[IoSlice::new(payload)])
            .map_err(|error| ChannelError::Peer(error.to_string()))?;
        let header = Header {
            kind: Kind::Data,
            head_len: head.len(),
            payload_len,
        };
        let fields = header.fields();
        let mut start = Vec::with_capacity(HEADER_LEN + head.len());
        start.extend_from_slice(&fields);
        start.extend_from_slice(&self.tx.seal(&fields, head));
        start.extend_from_slice(head);
        let sent = (&self.stream).write_vectored(&[IoSlice::new(&start), IoSlice::new(payload)])?;
        let (in_start, in_payload) = (sent.min(start.len()), sent.saturating_sub(start.len()));
        (&self.stream).write_all(&start[in_start..])?;
        (&self.stream).write_all(&payload[in_payload..])?;
        Ok(())
    }

    /// Receives one frame: its head, and its payload in `payload`.
    pub fn receive(&mut self, payload: &mut Vec<u8>) -> Result<Vec<u8>, ChannelError> {
        let (header, bytes) = read_header(&self.stream)?;
        if header.kind != Kind::Data {
            return Err(FrameError::Place(header.kind).into());
        }
        let mut head = vec![0; header.head_len];
        (&self.stream).read_exact(&mut head)?;
        let fields: &[u8; FIELDS_LEN] = bytes.first_chunk().expect("a header has fields");
        let mac: &[u8; MAC_LEN] = bytes.last_chunk().expect("a header has a mac");
        // Before the payload: who does not know the key makes us take no memory.
        self.rx.open(fields, &head, mac)?;
        payload.resize(header.payload_len, 0);
        (&self.stream).read_exact(payload)?;
        Ok(head)
    }

    /// How long a call waits for the other end.
    pub fn limit(&self, span: Duration) -> io::Result<()> {
        self.stream.limit(span)
    }

    /// From now on calls wait for the other end as long as it takes.
    pub fn unlimit(&self) -> io::Result<()> {
        self.stream.unlimit()
    }

    /// Another handle of the connection, to end it from another thread.
    pub fn stream(&self) -> io::Result<Socket> {
        self.stream.try_clone()
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn prepare(stream: &Socket) -> io::Result<()> {
    stream.set_nodelay()?;
    stream.limit(HANDSHAKE_SPAN_MAX)
}

fn identity(party: &Party, me: PeerId) -> Identity {
    Identity {
        me,
        incarnation: 0,
        succeeds: 0,
        member_count: u32::MAX,
        job: party.job.clone(),
        secret: party.secret.clone(),
        met: Vec::new(),
    }
}

fn shake_hands(
    stream: Socket,
    who: &Identity,
    mut handshake: Handshake,
) -> Result<Channel, ChannelError> {
    loop {
        let (header, _) = read_header(&stream)?;
        let mut head = vec![0; header.head_len];
        (&stream).read_exact(&mut head)?;
        let nonce = nonce().map_err(io::Error::other)?;
        match handshake.step(who, (header.kind, &head), nonce) {
            Ok(Progress::Reply(next, frame)) => {
                (&stream).write_all(&frame)?;
                handshake = next;
            }
            Ok(Progress::Done(Session { tx, rx, .. }, frame)) => {
                (&stream).write_all(&frame.unwrap_or_default())?;
                return Ok(Channel { stream, tx, rx });
            }
            Err(failure) => {
                // Only so that the other end can say why; it may be gone.
                let _ = (&stream).write_all(&refusal(&failure.to_string()));
                return Err(failure.into());
            }
        }
    }
}

fn read_header(mut stream: &Socket) -> Result<(Header, [u8; HEADER_LEN]), ChannelError> {
    let mut bytes = [0; HEADER_LEN];
    stream.read_exact(&mut bytes)?;
    Ok((Header::decode(&bytes)?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    fn party(secret: u8, job: &str) -> Party {
        Party {
            job: job.to_owned(),
            secret: Secret::new([secret; 32]),
        }
    }

    /// Both ends of an attempt to connect.
    fn pair(
        dialer: Party,
        acceptor: &Party,
    ) -> (Result<Channel, ChannelError>, Result<Channel, ChannelError>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let dialing = thread::spawn(move || Channel::dial(addr, &dialer));
        let (stream, _) = listener.accept().unwrap();
        let accepted = Channel::accept(stream, acceptor);
        (dialing.join().unwrap(), accepted)
    }

    #[test]
    fn frames_pass_both_ways() {
        let (dialed, accepted) = pair(party(1, "a"), &party(1, "a"));
        let (mut dialed, mut accepted) = (dialed.unwrap(), accepted.unwrap());
        let payload = vec![7; 300_000];
        let sending = thread::spawn(move || {
            dialed.send(b"one", &[]).unwrap();
            dialed.send(b"two", &payload).unwrap();
            let mut payload = Vec::new();
            (dialed.receive(&mut payload).unwrap(), payload)
        });
        let mut got = Vec::new();
        assert_eq!(accepted.receive(&mut got).unwrap(), b"one");
        assert!(got.is_empty());
        assert_eq!(accepted.receive(&mut got).unwrap(), b"two");
        assert_eq!(got, vec![7; 300_000]);
        accepted.send(b"", b"back").unwrap();
        assert_eq!(sending.join().unwrap(), (vec![], b"back".to_vec()));
    }

    #[test]
    fn who_does_not_know_the_secret_or_is_of_another_job_is_refused_in_words() {
        let (dialed, accepted) = pair(party(1, "a"), &party(2, "a"));
        let said = dialed.err().unwrap().to_string();
        assert!(said.contains("does not know the secret"), "{said}");
        assert!(accepted.is_err());
        let (dialed, accepted) = pair(party(1, "a"), &party(1, "b"));
        let said = dialed.err().unwrap().to_string();
        assert!(
            said.contains("refused") && said.contains("job `a`"),
            "{said}"
        );
        assert!(accepted.is_err());
    }

    #[test]
    fn bytes_that_are_no_frame_end_the_channel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(&[9; 64]).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let error = Channel::accept(accepted, &party(1, "a")).err().unwrap();
        assert!(matches!(error, ChannelError::Peer(_)), "{error}");
    }
}
