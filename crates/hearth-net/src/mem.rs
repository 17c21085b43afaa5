//! Transports inside one process, for tests.
//!
//! All members of a [`MemNet`] share one lock. Each has an inbox of events in the order in which
//! they happened, and a thread that hands them to its handler. Two members are connected when both
//! run and nobody has cut them apart.

use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::sync::lock;
use crate::transport::{Anew, Handler, Link, PeerId, PeerState, SendError, Transport, payload_len};

/// A network of `n` members inside one process.
#[derive(Clone)]
pub struct MemNet(Arc<Mutex<State>>);

/// A member of a [`MemNet`].
pub struct MemTransport {
    me: PeerId,
    net: Arc<Mutex<State>>,
    doorbell: Arc<Condvar>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    queued_bytes_max: usize,
    members: Vec<Option<Member>>,
    /// Pairs that were cut apart, the lower id first.
    cuts: BTreeSet<(PeerId, PeerId)>,
}

struct Member {
    incarnation: u64,
    doorbell: Arc<Condvar>,
    /// Changed since the thread last asked for its deadline.
    woken: bool,
    inbox: VecDeque<Event>,
    peers: Vec<Counters>,
    /// The incarnation of each member that was connected.
    met: Vec<Option<u64>>,
}

#[derive(Clone)]
struct Counters {
    link: Link,
    bytes_in: u64,
    bytes_out: u64,
    /// Bytes from this peer that lie in the inbox.
    waiting: usize,
}

enum Event {
    Up(PeerId, u64),
    Down(PeerId, String),
    Anew(PeerId, Anew),
    Frame(PeerId, Vec<u8>, Vec<u8>),
}

impl MemNet {
    /// A network whose members are not started yet.
    pub fn new(n: u32) -> MemNet {
        MemNet::with_queued_bytes_max(n, 64 << 20)
    }

    /// A network that drops a connection when more bytes than these wait in one direction.
    pub fn with_queued_bytes_max(n: u32, queued_bytes_max: usize) -> MemNet {
        let members = (0..n).map(|_| None).collect();
        let state = State {
            queued_bytes_max,
            members,
            cuts: BTreeSet::new(),
        };
        MemNet(Arc::new(Mutex::new(state)))
    }

    /// Starts member `me`, in place of an earlier incarnation if there is one, by whose peers it is refused.
    pub fn start(
        &self,
        me: PeerId,
        incarnation: u64,
        handler: Arc<dyn Handler>,
    ) -> Arc<MemTransport> {
        let doorbell = Arc::new(Condvar::new());
        let mut state = lock(&self.0);
        state.stop(me, "peer started anew");
        state.begin(me, incarnation, Arc::clone(&doorbell));
        drop(state);
        let place = Place {
            me,
            incarnation,
            net: Arc::clone(&self.0),
            doorbell: Arc::clone(&doorbell),
        };
        let thread = thread::spawn(move || place.run(&*handler));
        let thread = Mutex::new(Some(thread));
        Arc::new(MemTransport {
            me,
            net: Arc::clone(&self.0),
            doorbell,
            thread,
        })
    }

    /// Cuts two members apart until they are joined again.
    pub fn cut(&self, a: PeerId, b: PeerId) {
        let mut state = lock(&self.0);
        state.disconnect(a, b, "cut apart");
        state.cuts.insert((a.min(b), a.max(b)));
    }

    /// Lets two members connect again.
    pub fn join(&self, a: PeerId, b: PeerId) {
        let mut state = lock(&self.0);
        if state.cuts.remove(&(a.min(b), a.max(b))) {
            state.connect(a, b);
        }
    }
}

impl State {
    fn member(&mut self, id: PeerId) -> Option<&mut Member> {
        self.members.get_mut(id.index())?.as_mut()
    }

    fn ids(&self) -> impl Iterator<Item = PeerId> + use<> {
        (0u32..).map(PeerId).take(self.members.len())
    }

    fn begin(&mut self, me: PeerId, incarnation: u64, doorbell: Arc<Condvar>) {
        let link = Link::Down {
            why: "not connected yet".into(),
        };
        let counters = Counters {
            link,
            bytes_in: 0,
            bytes_out: 0,
            waiting: 0,
        };
        let peers = vec![counters; self.members.len()];
        let member = Member {
            incarnation,
            doorbell,
            woken: false,
            inbox: VecDeque::new(),
            peers,
            met: vec![None; self.members.len()],
        };
        self.members[me.index()] = Some(member);
        for peer in self.ids() {
            self.connect(me, peer);
        }
    }

    /// Ends a member; its thread finds the place empty, and its peers hear of it.
    fn stop(&mut self, me: PeerId, why: &str) {
        for peer in self.ids() {
            self.break_link(me, peer, why);
        }
        if let Some(member) = self.members[me.index()].take() {
            member.doorbell.notify_all();
        }
    }

    /// Connects two members if both run and nothing keeps them apart.
    fn connect(&mut self, a: PeerId, b: PeerId) {
        let running = |id: PeerId| Some(self.members.get(id.index())?.as_ref()?.incarnation);
        let (Some(inc_a), Some(inc_b)) = (running(a), running(b)) else {
            return;
        };
        if a == b || self.cuts.contains(&(a.min(b), a.max(b))) {
            return;
        }
        let ends = [(a, b, inc_b), (b, a, inc_a)];
        if self.refuse(ends) {
            return;
        }
        for (me, peer, incarnation) in ends {
            let member = self.member(me).expect("found running above");
            member.met[peer.index()] = Some(incarnation);
            member.peers[peer.index()].link = Link::Up { incarnation };
            member.push(Event::Up(peer, incarnation));
        }
    }

    /// Tells two members that one of them runs anew, if that is so.
    fn refuse(&mut self, ends: [(PeerId, PeerId, u64); 2]) -> bool {
        let known = ends.map(|(me, peer, incarnation)| {
            let met = self.member(me).and_then(|member| member.met[peer.index()]);
            met.is_some_and(|met| met != incarnation)
        });
        if known == [false, false] {
            return false;
        }
        for ((me, peer, _), by_peer) in ends.into_iter().zip([known[1], known[0]]) {
            let who = if by_peer { Anew::Me } else { Anew::Peer };
            let member = self.member(me).expect("found running by the caller");
            let why = who.to_string();
            member.peers[peer.index()].link = Link::Down { why };
            member.push(Event::Anew(peer, who));
        }
        true
    }

    /// One member forgets that it has met another, and both try once more.
    fn forget(&mut self, me: PeerId, peer: PeerId) {
        if let Some(member) = self.member(me) {
            member.met[peer.index()] = None;
            self.connect(me, peer);
        }
    }

    /// Breaks a connection for good; frames that were under way are lost.
    fn break_link(&mut self, a: PeerId, b: PeerId, why: &str) {
        for (me, peer) in [(a, b), (b, a)] {
            let Some(member) = self.member(me) else {
                continue;
            };
            let Some(counters) = member.peers.get_mut(peer.index()) else {
                continue;
            };
            if matches!(counters.link, Link::Up { .. }) {
                counters.link = Link::Down { why: why.into() };
                counters.waiting = 0;
                member
                    .inbox
                    .retain(|e| !matches!(e, Event::Frame(from, ..) if *from == peer));
                member.push(Event::Down(peer, why.into()));
            }
        }
    }

    /// Breaks a connection, which then comes back by itself.
    fn disconnect(&mut self, a: PeerId, b: PeerId, why: &str) {
        let up = self.member(a).is_some_and(|member| member.is_up(b));
        if up {
            self.break_link(a, b, why);
            self.connect(a, b);
        }
    }

    fn send(
        &mut self,
        from: PeerId,
        to: PeerId,
        head: &[u8],
        body: Vec<u8>,
    ) -> Result<(), SendError> {
        let bytes = head.len() + body.len();
        let max = self.queued_bytes_max;
        let sender = self.member(from).ok_or(SendError::Down(to))?;
        if !sender.is_up(to) {
            return Err(SendError::Down(to));
        }
        sender.peers[to.index()].bytes_out += bytes as u64;
        let receiver = self
            .member(to)
            .expect("a running member has links to running ones only");
        let counters = &mut receiver.peers[from.index()];
        if counters.waiting + bytes > max {
            let why = format!("peer reads too slowly: more than {max} bytes queued");
            self.disconnect(from, to, &why);
            return Err(SendError::Down(to));
        }
        counters.waiting += bytes;
        receiver.push(Event::Frame(from, head.to_vec(), body));
        Ok(())
    }

    fn states(&self, me: PeerId) -> Vec<PeerState> {
        let Some(member) = self.members[me.index()].as_ref() else {
            return Vec::new();
        };
        let others = self.ids().filter(|id| *id != me);
        others
            .map(|id| {
                let Counters {
                    link,
                    bytes_in,
                    bytes_out,
                    ..
                } = member.peers[id.index()].clone();
                let receiver = self.members[id.index()].as_ref();
                let queued_bytes = receiver.map_or(0, |peer| peer.peers[me.index()].waiting);
                PeerState {
                    id,
                    addr: None,
                    link,
                    way: "memory of this process".into(),
                    bytes_in,
                    bytes_out,
                    queued_bytes,
                }
            })
            .collect()
    }
}

impl Member {
    fn is_up(&self, peer: PeerId) -> bool {
        self.peers
            .get(peer.index())
            .is_some_and(|entry| matches!(entry.link, Link::Up { .. }))
    }

    fn push(&mut self, event: Event) {
        self.inbox.push_back(event);
        self.doorbell.notify_all();
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.inbox.pop_front()?;
        if let Event::Frame(from, head, payload) = &event {
            let counters = &mut self.peers[from.index()];
            counters.waiting -= head.len() + payload.len();
            counters.bytes_in += (head.len() + payload.len()) as u64;
        }
        Some(event)
    }
}

impl Transport for MemTransport {
    fn send(&self, to: PeerId, head: &[u8], payload: &[IoSlice<'_>]) -> Result<(), SendError> {
        if to == self.me {
            return Err(SendError::Myself(to));
        }
        let mut body = Vec::with_capacity(payload_len(head, payload)?);
        for part in payload {
            body.extend_from_slice(part);
        }
        let mut state = lock(&self.net);
        if to.index() >= state.members.len() {
            return Err(SendError::Unknown(to));
        }
        state.send(self.me, to, head, body)
    }

    fn disconnect(&self, peer: PeerId, why: &str) {
        lock(&self.net).disconnect(self.me, peer, &format!("disconnected: {why}"));
    }

    fn peers(&self) -> Vec<PeerState> {
        lock(&self.net).states(self.me)
    }

    fn wake(&self) {
        if let Some(member) = lock(&self.net).member(self.me) {
            member.woken = true;
        }
        self.doorbell.notify_all();
    }

    fn shutdown(&self) {
        let mut state = lock(&self.net);
        // A later incarnation in the same place is not ours to stop.
        let doorbell = state.member(self.me).map(|member| &member.doorbell);
        if doorbell.is_some_and(|doorbell| Arc::ptr_eq(doorbell, &self.doorbell)) {
            state.stop(self.me, "shut down");
        }
        drop(state);
        let thread = lock(&self.thread).take();
        let Some(thread) = thread else { return };
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            log::error!("the transport's thread had panicked");
        }
    }
}

impl Drop for MemTransport {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The state that the thread of one incarnation of a member needs.
struct Place {
    me: PeerId,
    incarnation: u64,
    net: Arc<Mutex<State>>,
    doorbell: Arc<Condvar>,
}

enum Turn {
    Deliver(Event),
    AskAgain,
    Stop,
}

impl Place {
    fn run(&self, handler: &dyn Handler) {
        let mut up = BTreeSet::new();
        loop {
            let deadline = handler.deadline();
            if deadline.is_some_and(|at| at <= Instant::now()) {
                handler.on_timer();
            }
            match self.wait(deadline) {
                Turn::AskAgain => {}
                Turn::Stop => break,
                Turn::Deliver(Event::Frame(from, head, payload)) => {
                    handler.on_frame(from, &head, payload);
                }
                Turn::Deliver(Event::Up(peer, incarnation)) => {
                    up.insert(peer);
                    handler.on_up(peer, incarnation);
                }
                Turn::Deliver(Event::Anew(peer, who)) => {
                    if handler.on_anew(peer, who) {
                        lock(&self.net).forget(self.me, peer);
                    }
                }
                Turn::Deliver(Event::Down(peer, why)) => {
                    up.remove(&peer);
                    handler.on_down(peer, &why);
                }
            }
        }
        for peer in up {
            handler.on_down(peer, "shut down");
        }
    }

    fn wait(&self, deadline: Option<Instant>) -> Turn {
        let mut state = lock(&self.net);
        loop {
            let Some(member) = state.member(self.me) else {
                return Turn::Stop;
            };
            if !Arc::ptr_eq(&member.doorbell, &self.doorbell)
                || member.incarnation != self.incarnation
            {
                return Turn::Stop;
            }
            if let Some(event) = member.pop() {
                return Turn::Deliver(event);
            }
            if std::mem::take(&mut member.woken) {
                return Turn::AskAgain;
            }
            let Some(at) = deadline else {
                state = self
                    .doorbell
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Turn::AskAgain;
            }
            let waited = self.doorbell.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
