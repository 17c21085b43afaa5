//! Networks to test on, and handlers that tell the test what they saw.

use std::io::IoSlice;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use hearth_net::{
    Anew, DatagramService, DatagramTransport, Handler, Limits, MemNet, Near, NetConfig, PeerId,
    Secret, SendError, TcpTransport, Transport,
};

/// The bytes that each test lets pile up for one peer.
pub(crate) const QUEUED_BYTES_MAX: usize = 40 << 20;
/// How long a test waits for what must come; only a failing test takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A network with members that can be started.
pub(crate) trait Rig {
    fn new(members: u32) -> Self;
    fn start(&self, me: u32, incarnation: u64, handler: Arc<dyn Handler>) -> Arc<dyn Transport>;
}

pub(crate) struct MemRig(MemNet);

impl Rig for MemRig {
    fn new(members: u32) -> MemRig {
        MemRig(MemNet::with_queued_bytes_max(members, QUEUED_BYTES_MAX))
    }

    fn start(&self, me: u32, incarnation: u64, handler: Arc<dyn Handler>) -> Arc<dyn Transport> {
        self.0.start(PeerId(me), incarnation, handler)
    }
}

pub(crate) struct TcpRig(Vec<TcpListener>);

impl Rig for TcpRig {
    fn new(members: u32) -> TcpRig {
        let listen = |_| TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        TcpRig((0..members).map(listen).collect())
    }

    fn start(&self, me: u32, incarnation: u64, handler: Arc<dyn Handler>) -> Arc<dyn Transport> {
        self.start_tcp(self.config(me, incarnation), handler)
    }
}

impl TcpRig {
    pub(crate) fn config(&self, me: u32, incarnation: u64) -> NetConfig {
        let addr = |listener: &TcpListener| listener.local_addr().expect("it is bound");
        net_config(me, incarnation, self.0.iter().map(addr).collect())
    }

    /// Starts a member on a copy of its listener, so that a later run finds the port still bound.
    pub(crate) fn start_tcp(
        &self,
        config: NetConfig,
        handler: Arc<dyn Handler>,
    ) -> Arc<TcpTransport> {
        let listener = self.0[config.me.index()]
            .try_clone()
            .expect("descriptors are left");
        TcpTransport::start(config, listener, handler).expect("the configuration is right")
    }
}

/// Members of one host, which are near to each other, and may share memory.
pub(crate) struct HostRig<const SHARES: bool>(pub(crate) Vec<Near>);

pub(crate) type NearRig = HostRig<false>;
pub(crate) type ShmRig = HostRig<true>;

impl<const SHARES: bool> Rig for HostRig<SHARES> {
    fn new(members: u32) -> Self {
        let listen = |_| TcpListener::bind("127.0.0.1:0").and_then(Near::new);
        let near = (0..members).map(|me| listen(me).expect("names are free"));
        HostRig(near.collect())
    }

    fn start(&self, me: u32, incarnation: u64, handler: Arc<dyn Handler>) -> Arc<dyn Transport> {
        self.start_near(self.config(me, incarnation), handler)
    }
}

impl<const SHARES: bool> HostRig<SHARES> {
    pub(crate) fn config(&self, me: u32, incarnation: u64) -> NetConfig {
        let addr = |near: &Near| near.local_addr().expect("it is bound");
        net_config(me, incarnation, self.0.iter().map(addr).collect())
    }

    /// Starts a member on copies of its listeners, so that a later run finds them still bound.
    pub(crate) fn start_near(
        &self,
        config: NetConfig,
        handler: Arc<dyn Handler>,
    ) -> Arc<TcpTransport> {
        let near = self.0[config.me.index()].try_clone();
        let near = near.expect("descriptors are left");
        let near = if SHARES { near.sharing() } else { near };
        TcpTransport::start_near(config, near, handler).expect("the configuration is right")
    }
}

/// Members over UDP, under one of the two services.
pub(crate) struct DatagramRig<const UDT: bool>(Vec<UdpSocket>);

pub(crate) type UdpRig = DatagramRig<false>;
pub(crate) type UdtRig = DatagramRig<true>;

impl<const UDT: bool> Rig for DatagramRig<UDT> {
    fn new(members: u32) -> Self {
        let bind = |_| UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
        DatagramRig((0..members).map(bind).collect())
    }

    fn start(&self, me: u32, incarnation: u64, handler: Arc<dyn Handler>) -> Arc<dyn Transport> {
        self.start_datagram(self.config(me, incarnation), handler)
    }
}

impl<const UDT: bool> DatagramRig<UDT> {
    pub(crate) fn config(&self, me: u32, incarnation: u64) -> NetConfig {
        let addr = |socket: &UdpSocket| socket.local_addr().expect("it is bound");
        net_config(me, incarnation, self.0.iter().map(addr).collect())
    }

    /// Starts a member on a copy of its socket, so that a later run finds the port still bound.
    pub(crate) fn start_datagram(
        &self,
        config: NetConfig,
        handler: Arc<dyn Handler>,
    ) -> Arc<DatagramTransport> {
        let socket = self.0[config.me.index()]
            .try_clone()
            .expect("descriptors are left");
        let service = if UDT {
            DatagramService::Udt
        } else {
            DatagramService::Udp
        };
        DatagramTransport::start(config, service, socket, handler)
            .expect("the configuration is right")
    }
}

pub(crate) fn net_config(me: u32, incarnation: u64, members: Vec<SocketAddr>) -> NetConfig {
    NetConfig {
        me: PeerId(me),
        incarnation,
        succeeds: 0,
        members,
        secret: Secret::new([7; 32]),
        job: "conformance".into(),
        limits: Limits {
            queued_bytes_max: QUEUED_BYTES_MAX,
            ..Limits::default()
        },
    }
}

/// An event that a handler saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Up(u32, u64),
    Down(u32, String),
    Anew(u32, Anew),
    Frame(u32, Vec<u8>, Vec<u8>),
    Timer,
}

type OnFrame = dyn Fn(&dyn Transport, PeerId, &[u8], &[u8]) + Send + Sync;

/// Reports all it sees; may answer frames, and has a deadline that tests set.
pub(crate) struct Recorder {
    seen: Mutex<Sender<Seen>>,
    deadline: Mutex<Option<Instant>>,
    /// Earlier runs of others are over.
    forgets: AtomicBool,
    answer: Option<Box<OnFrame>>,
    transport: OnceLock<Arc<dyn Transport>>,
}

impl Recorder {
    pub(crate) fn set_deadline(&self, at: Option<Instant>) {
        *self.deadline.lock().expect("no test panics with it") = at;
    }

    pub(crate) fn forget_earlier_runs(&self) {
        self.forgets.store(true, Ordering::Release);
    }

    fn report(&self, seen: Seen) {
        // A test that has seen enough is gone; what comes after is of no interest.
        let _ = self.seen.lock().expect("no test panics with it").send(seen);
    }
}

impl Handler for Recorder {
    fn on_up(&self, peer: PeerId, incarnation: u64) {
        self.report(Seen::Up(peer.0, incarnation));
    }

    fn on_anew(&self, peer: PeerId, who: Anew) -> bool {
        self.report(Seen::Anew(peer.0, who));
        who == Anew::Peer && self.forgets.load(Ordering::Acquire)
    }

    fn on_down(&self, peer: PeerId, why: &str) {
        self.report(Seen::Down(peer.0, why.into()));
    }

    fn on_frame(&self, from: PeerId, head: &[u8], payload: Vec<u8>) {
        if let Some(answer) = &self.answer {
            answer(&**self.transport.wait(), from, head, &payload);
        }
        self.report(Seen::Frame(from.0, head.to_vec(), payload));
    }

    fn deadline(&self) -> Option<Instant> {
        *self.deadline.lock().expect("no test panics with it")
    }

    fn on_timer(&self) {
        self.set_deadline(None);
        self.report(Seen::Timer);
    }
}

/// A running member and what it sees.
pub(crate) struct Node<T: ?Sized = dyn Transport> {
    pub(crate) handler: Arc<Recorder>,
    seen: Receiver<Seen>,
    pub(crate) transport: Arc<T>,
}

pub(crate) fn node<R: Rig>(rig: &R, me: u32, incarnation: u64) -> Node {
    let (handler, seen) = recorder(None);
    let transport = rig.start(me, incarnation, handler.clone());
    Node {
        handler,
        seen,
        transport,
    }
}

/// A member that calls `answer` inside `on_frame`.
pub(crate) fn answering_node<R: Rig>(
    rig: &R,
    me: u32,
    answer: impl Fn(&dyn Transport, PeerId, &[u8], &[u8]) + Send + Sync + 'static,
) -> Node {
    let (handler, seen) = recorder(Some(Box::new(answer)));
    let transport = rig.start(me, 1, handler.clone());
    assert!(handler.transport.set(transport.clone()).is_ok());
    Node {
        handler,
        seen,
        transport,
    }
}

pub(crate) fn tcp_node(rig: &TcpRig, config: NetConfig) -> Node<TcpTransport> {
    let (handler, seen) = recorder(None);
    let transport = rig.start_tcp(config, handler.clone());
    Node {
        handler,
        seen,
        transport,
    }
}

/// Nobody's loop turns once what is under way has settled, which a first span without a turn says (N5).
pub(crate) fn are_not_woken(nodes: &[Node<TcpTransport>]) {
    let turns = || nodes.iter().map(|node| node.transport.turns()).sum::<u64>();
    let quiet = |span| nodes.iter().all(|node| node.quiet(span));
    let mut before = turns();
    for _ in 0..100 {
        assert!(quiet(Duration::from_millis(20)));
        let now = turns();
        if std::mem::replace(&mut before, now) == now {
            break;
        }
    }
    assert!(quiet(Duration::from_millis(100)));
    assert_eq!(turns(), before, "turns of idle transports");
}

/// A member that `start` starts.
pub(crate) fn over<T: Transport + ?Sized>(
    start: impl FnOnce(Arc<dyn Handler>) -> Arc<T>,
) -> Node<T> {
    let (handler, seen) = recorder(None);
    let transport = start(handler.clone());
    Node {
        handler,
        seen,
        transport,
    }
}

/// Members 0 and 1, connected.
pub(crate) fn pair<R: Rig>() -> (Node, Node) {
    pair_on(&R::new(2))
}

/// Members 0 and 1 of `rig`, connected.
pub(crate) fn pair_on<R: Rig>(rig: &R) -> (Node, Node) {
    let (a, b) = (node(rig, 0, 1), node(rig, 1, 1));
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    (a, b)
}

pub(crate) fn recorder(answer: Option<Box<OnFrame>>) -> (Arc<Recorder>, Receiver<Seen>) {
    let (seen, receiver) = channel();
    let recorder = Recorder {
        seen: Mutex::new(seen),
        deadline: Mutex::new(None),
        forgets: AtomicBool::new(false),
        answer,
        transport: OnceLock::new(),
    };
    (Arc::new(recorder), receiver)
}

impl<T: Transport + ?Sized> Node<T> {
    /// The next thing seen.
    pub(crate) fn next(&self) -> Seen {
        self.seen
            .recv_timeout(PATIENCE)
            .expect("something more must happen")
    }

    /// Whether nothing is seen for `span`.
    pub(crate) fn quiet(&self, span: Duration) -> bool {
        self.seen.recv_timeout(span).is_err()
    }

    pub(crate) fn next_frame(&self) -> (u32, Vec<u8>, Vec<u8>) {
        let seen = self.next();
        let Seen::Frame(from, head, payload) = seen else {
            panic!("expected a frame: {seen:?}")
        };
        (from, head, payload)
    }

    pub(crate) fn next_down(&self) -> (u32, String) {
        let seen = self.next();
        let Seen::Down(peer, why) = seen else {
            panic!("expected a peer to go down: {seen:?}")
        };
        (peer, why)
    }

    pub(crate) fn send(&self, to: u32, head: &[u8], payload: &[u8]) -> Result<(), SendError> {
        self.transport
            .send(PeerId(to), head, &[IoSlice::new(payload)])
    }
}

/// Waits, without sleeping, for what another thread is about to make true.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}
