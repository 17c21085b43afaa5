//! The identity of a member, its bounds, and the reason why it did not start: the same for every transport that joins
//! processes.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::Poll;

use crate::auth::{self, Secret};
use crate::handshake::{Identity, JOB_LEN_MAX};
use crate::link::{Shared, Wire};
use crate::transport::PeerId;

/// Bits of an incarnation that are drawn: runs that begin in one microsecond differ.
const DRAWN_BITS: u32 = 12;

/// This member, and the members that it talks to.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// This member.
    pub me: PeerId,
    /// Tells two runs of the same member apart: no run has that of another, and none has 0.
    pub incarnation: u64,
    /// The run of this member that this one takes the place of, if that is over for certain; 0 otherwise.
    pub succeeds: u64,
    /// The addresses at which members listen, in the order of their ids; the same list at every member.
    pub members: Vec<SocketAddr>,
    /// The secret that members prove to know.
    pub secret: Secret,
    /// Name of the job; members of another job are refused.
    pub job: String,
    /// Bounds, for tests and unusual networks.
    pub limits: Limits,
}

/// Bounds of a transport.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes queued for one peer; a peer that lets more pile up is dropped.
    pub queued_bytes_max: usize,
    /// Time from connecting to the end of the handshake.
    pub handshake_span_max: Duration,
    /// Accepted connections that have not yet proved themselves; more wait in the listen queue.
    pub strangers_max: usize,
    /// How long sent bytes may stay unacknowledged before the connection is given up.
    pub unacknowledged_span_max: Duration,
    /// Members that share memory only: bytes shared with all others together, but for 128 KiB that each has in any
    /// case; no more than 1 MiB are shared with one.
    pub shared_bytes_max: usize,
    /// Datagrams only: their length, so chosen that no network on the way has to split them.
    pub datagram_len: usize,
    /// Datagrams only: how long a peer may be silent, though it is asked every second.
    pub silence_span_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queued_bytes_max: 64 << 20,
            handshake_span_max: Duration::from_secs(5),
            strangers_max: 32,
            unacknowledged_span_max: Duration::from_secs(30),
            shared_bytes_max: 64 << 20,
            datagram_len: 1440,
            silence_span_max: Duration::from_secs(15),
        }
    }
}

/// A connection that ended before it belonged to a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The other end.
    pub addr: SocketAddr,
    /// The member it said it was, if it got that far.
    pub claimed: Option<PeerId>,
    /// The reason why it ended.
    pub why: String,
    /// The other end has another secret.
    pub is_about_secrets: bool,
}

/// Why a transport did not start.
#[derive(Debug, thiserror::Error)]
pub enum NoTransport {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {hint}")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// The advice for this address.
        hint: ListenHint,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The configuration contradicts itself.
    #[error("cannot start the transport: {0}")]
    Config(String),
    /// The operating system refused something the event loop needs.
    #[error("cannot start the event loop")]
    Loop(#[from] io::Error),
}

/// Advice to a person about an address that cannot be listened on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenHint {
    /// Something listens there.
    InUse,
    /// No interface has the address.
    NotHere,
    /// The port needs privileges.
    Privileged,
    /// The system's message says all that is known.
    Other,
}

impl ListenHint {
    pub(crate) fn of(error: &io::Error) -> ListenHint {
        use io::ErrorKind;
        let kind = error.kind();
        if kind == ErrorKind::AddrInUse {
            ListenHint::InUse
        } else if kind == ErrorKind::AddrNotAvailable {
            ListenHint::NotHere
        } else if kind == ErrorKind::PermissionDenied {
            ListenHint::Privileged
        } else {
            ListenHint::Other
        }
    }
}

impl fmt::Display for ListenHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ListenHint::InUse => {
                "another program listens there; stop that agent (`hearth down`) or choose another port"
            }
            ListenHint::NotHere => "no interface of this host has that address; check the member list",
            ListenHint::Privileged => "the port needs privileges; choose one above 1023",
            ListenHint::Other => "the system refused",
        })
    }
}

impl NetConfig {
    /// An incarnation that no other run has: greater than those of earlier runs, unless the clock was set back.
    pub fn own_incarnation() -> io::Result<u64> {
        let nonce = auth::nonce().map_err(io::Error::other)?;
        let (word, _) = nonce.split_first_chunk().expect("a nonce is longer");
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = now.map_or(0, |now| now.as_micros() as u64);
        let drawn = u64::from(u16::from_le_bytes(*word) >> (16 - DRAWN_BITS));
        Ok((micros << DRAWN_BITS | drawn).max(1))
    }

    /// The parts that every transport begins with, if the configuration makes sense.
    pub(crate) fn begin<W: Wire>(self) -> Result<(Identity, Poll, Arc<Shared<W>>), NoTransport> {
        let identity = self.identity()?;
        let poll = Poll::new()?;
        let shared = Shared::new(self.me, &self.members, self.limits, &poll)?;
        Ok((identity, poll, Arc::new(shared)))
    }

    fn identity(&self) -> Result<Identity, NoTransport> {
        Ok(Identity {
            me: self.me,
            incarnation: self.incarnation,
            succeeds: self.succeeds,
            member_count: check(self)?,
            job: self.job.clone(),
            secret: self.secret.clone(),
            met: vec![0; self.members.len()],
        })
    }
}

/// The number of members of a configuration that makes sense.
fn check(config: &NetConfig) -> Result<u32, NoTransport> {
    let count = config.members.len();
    let fault = if config.me.index() >= count {
        format!("{} is not in the list of {count} members", config.me)
    } else if config.job.len() > JOB_LEN_MAX {
        format!("the job's name has more than {JOB_LEN_MAX} bytes")
    } else if !(512..=60_000).contains(&config.limits.datagram_len) {
        "a datagram has 512 to 60000 bytes".into()
    } else if config.incarnation == 0 {
        "no run has incarnation 0".into()
    } else if config.limits.strangers_max == 0 {
        "no connection could ever be accepted with strangers_max = 0".into()
    } else {
        return u32::try_from(count)
            .map_err(|_| NoTransport::Config(format!("{count} members are too many")));
    };
    Err(NoTransport::Config(fault))
}
