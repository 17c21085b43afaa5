//! Frames over TCP, one connection per pair of members.
//!
//! One thread runs the [`event_loop`]: it accepts, connects, reads and keeps the timers. Any thread
//! may send: it writes to the socket itself when nothing is queued for the peer ([`link`]), so a
//! request costs no hop to another thread. The member with the higher id connects.

mod conn;
mod event_loop;
mod link;
mod reader;
mod retry;
mod timers;
mod why;

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::auth::Secret;
use crate::handshake::{Identity, JOB_LEN_MAX};
use crate::sync::lock;
use crate::transport::{Handler, PeerId, PeerState, SendError, Transport, payload_len};

use event_loop::EventLoop;
use link::Shared;
use why::Why;

/// Who this member is and whom it talks to.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// This member.
    pub me: PeerId,
    /// Tells two runs of the same member apart; a later run has a greater one.
    pub incarnation: u64,
    /// Where each member listens, in the order of their ids; the same list at every member.
    pub members: Vec<SocketAddr>,
    /// What members prove to know.
    pub secret: Secret,
    /// Name of the job; members of another job are refused.
    pub job: String,
    /// Bounds, for tests and unusual networks.
    pub limits: Limits,
}

/// Bounds of a [`TcpTransport`].
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
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            queued_bytes_max: 64 << 20,
            handshake_span_max: Duration::from_secs(5),
            strangers_max: 32,
            unacknowledged_span_max: Duration::from_secs(30),
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
    /// What was wrong.
    pub why: String,
}

/// Why a transport did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {hint}")]
    Listen {
        /// The address asked for.
        addr: SocketAddr,
        /// What to do about it.
        hint: ListenHint,
        /// What the operating system said.
        source: io::Error,
    },
    /// The configuration contradicts itself.
    #[error("cannot start the transport: {0}")]
    Config(String),
    /// The operating system refused something the event loop needs.
    #[error("cannot start the event loop")]
    Loop(#[from] io::Error),
}

/// What a person can do about an address that cannot be listened on.
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
    fn of(error: &io::Error) -> ListenHint {
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

/// A [`Transport`] over TCP.
pub struct TcpTransport {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl TcpTransport {
    /// Listens on `addr`; the error says what to do when that is not possible.
    pub fn listen(addr: SocketAddr) -> Result<TcpListener, StartError> {
        TcpListener::bind(addr).map_err(|source| StartError::Listen {
            addr,
            hint: ListenHint::of(&source),
            source,
        })
    }

    /// Starts to accept, and to connect to every member with a lower id.
    pub fn start(
        config: TcpConfig,
        listener: TcpListener,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<TcpTransport>, StartError> {
        let member_count = check(&config)?;
        let identity = Identity {
            me: config.me,
            incarnation: config.incarnation,
            member_count,
            job: config.job,
            secret: config.secret,
        };
        let poll = mio::Poll::new()?;
        let shared = Arc::new(Shared::new(
            config.me,
            &config.members,
            config.limits,
            &poll,
        )?);
        let event_loop = EventLoop::new(identity, poll, listener, Arc::clone(&shared), handler)?;
        let thread = thread::Builder::new()
            .name("hearth-net".into())
            .spawn(move || event_loop.run())?;
        Ok(Arc::new(TcpTransport {
            shared,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Turns of the event loop so far; stands still on an idle transport (N5).
    pub fn turns(&self) -> u64 {
        self.shared.turns.load(Ordering::Relaxed)
    }

    /// The last connections that did not become members, oldest first.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.shared.refusals()
    }
}

/// The number of members of a configuration that makes sense.
fn check(config: &TcpConfig) -> Result<u32, StartError> {
    let count = config.members.len();
    let fault = if config.me.index() >= count {
        format!("{} is not in the list of {count} members", config.me)
    } else if config.job.len() > JOB_LEN_MAX {
        format!("the job's name has more than {JOB_LEN_MAX} bytes")
    } else if config.limits.strangers_max == 0 {
        "no connection could ever be accepted with strangers_max = 0".into()
    } else {
        return u32::try_from(count)
            .map_err(|_| StartError::Config(format!("{count} members are too many")));
    };
    Err(StartError::Config(fault))
}

impl Transport for TcpTransport {
    fn send(&self, to: PeerId, head: &[u8], payload: &[IoSlice<'_>]) -> Result<(), SendError> {
        if to == self.shared.me {
            return Err(SendError::Myself(to));
        }
        let peer = self
            .shared
            .peers
            .get(to.index())
            .ok_or(SendError::Unknown(to))?;
        let len = payload_len(head, payload)?;
        let sent = peer.link().send(head, (payload, len), &self.shared.limits);
        match sent {
            link::Sent::Taken => Ok(()),
            link::Sent::Down => Err(SendError::Down(to)),
            link::Sent::Broke => {
                self.shared.report_broken(to);
                Err(SendError::Down(to))
            }
        }
    }

    fn disconnect(&self, peer: PeerId, why: &str) {
        let Some(entry) = self.shared.peers.get(peer.index()) else {
            return;
        };
        let broke = entry.link().break_up(Why::Disconnected(why.into()));
        if broke {
            self.shared.report_broken(peer);
        }
    }

    fn peers(&self) -> Vec<PeerState> {
        let ids = (0u32..).map(PeerId).zip(&self.shared.peers);
        ids.filter(|(id, _)| *id != self.shared.me)
            .map(|(id, peer)| peer.state(id))
            .collect()
    }

    fn wake(&self) {
        self.shared.wake();
    }

    fn shutdown(&self) {
        // Pairs with the Acquire in EventLoop::run.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        // The lock is not held while waiting: a handler may be in here too.
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        if thread.thread().id() == thread::current().id() {
            // The loop cannot wait for itself; it ends when the handler returns.
            *lock(&self.thread) = Some(thread);
        } else if thread.join().is_err() {
            log::error!("the transport's thread had panicked");
        }
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        self.shutdown();
    }
}
