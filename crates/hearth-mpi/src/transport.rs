//! Frames over MPI, between ranks that are members.
//!
//! A frame is a message of MPI; a *doorbell* beside it says that it is there. MPI has no way to sleep until something
//! comes: whoever waits for it asks again and again. So nobody asks before a doorbell has rung. Doorbells are small
//! frames of a transport over sockets, or memory of the host, which also says who is there: its connections are ours,
//! begin and end with the same reasons, and prove the same secret. Its thread makes all calls of the handler.
//!
//! While a message is under way that thread asks MPI without a pause for [`EAGER`] after the last progress, giving
//! its processor away in between, and then every [`LATE`], until it has arrived. An idle transport sleeps (N5).

mod doorbell;
mod lines;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use hearth_net::{
    Anew, Carry, Endpoint, HEAD_LEN_MAX, Handler, NetConfig, NoTransport, PAYLOAD_LEN_MAX, PeerId,
    PeerState, SendError, Transport,
};

use crate::comm::CommError;
use doorbell::Doorbell;
pub use lines::Lines;
use lines::Sent;

/// How long MPI is asked without a pause.
const EAGER: Duration = Duration::from_millis(2);
/// The pause between two questions after that.
const LATE: Duration = Duration::from_millis(1);

/// A rank that can be a member: where doorbells reach it, and its lines.
#[derive(Debug)]
pub struct MpiEndpoint {
    doorbells: Endpoint,
    lines: Arc<Lines>,
}

impl MpiEndpoint {
    /// Ranks that listen for doorbells somewhere.
    pub fn new(doorbells: Endpoint, lines: Arc<Lines>) -> MpiEndpoint {
        MpiEndpoint { doorbells, lines }
    }
}

impl Carry for MpiEndpoint {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.doorbells.local_addr()
    }

    fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        self.doorbells.sockets()
    }

    fn into_fd(self: Box<Self>) -> OwnedFd {
        self.doorbells.into_fd()
    }

    fn start(
        self: Box<Self>,
        mut config: NetConfig,
        handler: Arc<dyn Handler>,
    ) -> Result<Arc<dyn Transport>, NoTransport> {
        let MpiEndpoint { doorbells, lines } = *self;

        let (ranks, members) = (lines.ranks() as usize, config.members.len());
        if members > ranks || lines.rank() != config.me.0 {
            return Err(NoTransport::Config(format!(
                "the {members} members are not the first of the {ranks} ranks of MPI"
            )));
        }
        let queued_max = config.limits.queued_bytes_max;
        // Doorbells are small.
        config.limits.shared_bytes_max = 0;
        let front = Arc::new(Front {
            me: config.me,
            members: members as u32,
            lines,
            handler,
            queued_max,
            doorbells: OnceLock::new(),
            looks: Mutex::default(),
        });
        let doorbells = doorbells.start(config, Arc::clone(&front) as Arc<dyn Handler>)?;
        let known = front.doorbells.set(Arc::downgrade(&doorbells));
        assert!(known.is_ok(), "doorbells were started once");
        Ok(Arc::new(MpiTransport { front, doorbells }))
    }
}

impl From<MpiEndpoint> for Endpoint {
    fn from(endpoint: MpiEndpoint) -> Endpoint {
        Endpoint::Other(Box::new(endpoint))
    }
}

/// The running transport.
struct MpiTransport {
    front: Arc<Front>,
    doorbells: Arc<dyn Transport>,
}

/// Between doorbells and the handler.
struct Front {
    me: PeerId,
    /// The first ranks.
    members: u32,
    lines: Arc<Lines>,
    handler: Arc<dyn Handler>,
    queued_max: usize,
    doorbells: OnceLock<Weak<dyn Transport>>,
    looks: Mutex<Looks>,
}

/// When MPI is asked.
#[derive(Debug, Default)]
struct Looks {
    /// The last progress, or the begin of what is under way.
    progress: Option<Instant>,
    next: Option<Instant>,
}

impl Front {
    /// The transport of doorbells. Its thread may be here before its owner knows it.
    fn doorbells(&self) -> Option<Arc<dyn Transport>> {
        self.doorbells.wait().upgrade()
    }

    fn ring(&self, peer: PeerId, doorbell: Doorbell) -> bool {
        let doorbells = self.doorbells();
        doorbells.is_some_and(|doorbells| doorbells.send(peer, &doorbell.encode(), &[]).is_ok())
    }

    fn break_up(&self, peer: PeerId, why: &str) {
        if let Some(doorbells) = self.doorbells() {
            doorbells.disconnect(peer, why);
        }
    }

    fn heed(&self, peer: PeerId, doorbell: &[u8]) -> Result<(), CommError> {
        let index = peer.index();
        match Doorbell::decode(doorbell) {
            Some(Doorbell::Message {
                first,
                lens: [head, payload],
            }) if head <= HEAD_LEN_MAX && payload <= PAYLOAD_LEN_MAX => {
                self.lines.expect(index, first, [head, payload])
            }
            Some(Doorbell::Passed(count)) => {
                let ring = |doorbell| self.ring(peer, doorbell);
                self.lines.heed_passed(index, count, &ring)
            }
            Some(Doorbell::Message { .. }) | None => Err(CommError::doorbell()),
        }
    }

    /// Hands over what has come from one rank, and forgets what has gone there; whether that was something.
    fn serve(&self, peer: PeerId) -> Result<bool, CommError> {
        let mut some = self.lines.reap(peer.index())?;
        while let Some(frame) = self.lines.next(peer.index())? {
            self.handler.on_frame(peer, &frame.head, frame.payload);
            // After the call: a handler that takes its time holds the sender up.
            if let Some(doorbell) = frame.passed {
                self.ring(peer, doorbell);
            }
            some = true;
        }
        Ok(some)
    }

    /// Asks MPI once, and says when to ask again.
    fn look(&self) {
        let mut some = false;
        for peer in (0..self.members).map(PeerId) {
            match self.serve(peer) {
                Ok(done) => some |= done,
                Err(error) => self.break_up(peer, &error.to_string()),
            }
        }
        let mut looks = self.looks();
        if !self.lines.is_busy() {
            *looks = Looks::default();
            return;
        }
        let now = Instant::now();
        let progress = looks.progress.filter(|_| !some).unwrap_or(now);
        looks.progress = Some(progress);
        let is_eager = now.duration_since(progress) < EAGER;
        looks.next = (!is_eager).then_some(now + LATE);
        drop(looks);
        if is_eager && !some {
            std::thread::yield_now();
        }
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Front {
    fn on_up(&self, peer: PeerId, incarnation: u64) {
        self.lines.set_up(peer.index());
        self.handler.on_up(peer, incarnation);
    }

    fn on_anew(&self, peer: PeerId, who: Anew) -> bool {
        self.handler.on_anew(peer, who)
    }

    fn on_down(&self, peer: PeerId, why: &str) {
        self.lines.set_down(peer.index());
        self.handler.on_down(peer, why);
    }

    fn on_frame(&self, from: PeerId, doorbell: &[u8], _: Vec<u8>) {
        match self.heed(from, doorbell) {
            Ok(()) => self.look(),
            Err(error) => self.break_up(from, &error.to_string()),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let ours = self.lines.is_busy().then(|| {
            let next = self.looks().next;
            next.unwrap_or_else(Instant::now)
        });
        ours.into_iter().chain(self.handler.deadline()).min()
    }

    fn on_timer(&self) {
        let theirs = self.handler.deadline();
        if theirs.is_some_and(|at| at <= Instant::now()) {
            self.handler.on_timer();
        }
        if self.lines.is_busy() {
            self.look();
        }
    }
}

impl Transport for MpiTransport {
    fn send(&self, to: PeerId, head: &[u8], payload: &[IoSlice<'_>]) -> Result<(), SendError> {
        if to == self.front.me {
            return Err(SendError::Myself(to));
        }
        if to.0 >= self.front.members {
            return Err(SendError::Unknown(to));
        }
        let len: usize = payload.iter().map(|part| part.len()).sum();
        if head.len() > HEAD_LEN_MAX || len > PAYLOAD_LEN_MAX {
            let (head, payload) = (head.len(), len);
            return Err(SendError::TooLong { head, payload });
        }
        let mut bytes = Vec::with_capacity(len);
        payload
            .iter()
            .for_each(|part| bytes.extend_from_slice(part));
        let ring = |doorbell| self.front.ring(to, doorbell);
        let (parts, most) = ([head.to_vec(), bytes], self.front.queued_max);
        match self.front.lines.send(to.index(), parts, most, &ring) {
            Sent::Done => return Ok(()),
            Sent::Slow => {
                self.doorbells.wake();
                return Ok(());
            }
            Sent::Down => {}
            Sent::Full => self.front.break_up(to, &too_slow(most)),
            Sent::Failed(error) => self.front.break_up(to, &error.to_string()),
        }
        Err(SendError::Down(to))
    }

    fn disconnect(&self, peer: PeerId, why: &str) {
        self.doorbells.disconnect(peer, why);
    }

    fn peers(&self) -> Vec<PeerState> {
        let mut states = self.doorbells.peers();
        for state in &mut states {
            let counts = &self.front.lines.counts[state.id.index()];
            state.bytes_in = counts.bytes_in.load(Relaxed);
            state.bytes_out = counts.bytes_out.load(Relaxed);
            state.queued_bytes = self.front.lines.queued_bytes(state.id.index());
            if !state.way.is_empty() {
                state.way = format!("MPI, and bells over: {}", state.way);
            }
        }
        states
    }

    fn wake(&self) {
        self.doorbells.wake();
    }

    fn shutdown(&self) {
        self.doorbells.shutdown();
    }
}

fn too_slow(most: usize) -> String {
    format!("peer reads too slowly: more than {most} bytes queued")
}
