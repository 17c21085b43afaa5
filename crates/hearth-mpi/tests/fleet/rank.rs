//! The work of a rank: it runs transports over MPI, and tells the test what their handlers are told.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::IoSlice;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use hearth_mpi::{Comm, Lines, MpiEndpoint, Program, is_multiple};
use hearth_net::{Anew, Carrier, Carry, Endpoint, Handler, Link, PeerId, SendError, Transport};

use super::words::{Kind, Message, word};
use crate::rig::net_config;

/// One rank.
struct Rank {
    lines: Arc<Lines>,
    control: Mutex<UnixStream>,
    listener: Mutex<Option<TcpListener>>,
    transports: Mutex<BTreeMap<u64, Arc<dyn Transport>>>,
    events: AtomicU64,
    /// The threads that wait inside of an event, for its answer or for a message of what is to be done there.
    inside: Mutex<BTreeMap<u64, Sender<Message>>>,
}

/// Runs until the test has had enough.
pub(crate) fn run(control: &OsStr) {
    let library = std::env::var("HEARTH_TEST_LIBRARY").expect("the test names a library");
    let program = Program::begin(&library).expect("it can be loaded");
    assert!(is_multiple(), "that was asked for");
    let lines = Arc::new(Lines::new(Comm::of_world().expect("MPI has begun")));
    let stream = UnixStream::connect(control).expect("the test listens");
    let own = stream.try_clone().expect("descriptors are left");
    let rank = Arc::new(Rank {
        lines: Arc::clone(&lines),
        control: Mutex::new(own),
        listener: Mutex::default(),
        transports: Mutex::default(),
        events: AtomicU64::new(1),
        inside: Mutex::default(),
    });
    let hello = vec![word(u64::from(lines.rank()))];
    rank.say(Kind::Up, 0, 0, hello);
    while let Some(message) = Message::get(&stream) {
        if message.kind == Kind::Quit {
            break;
        }
        rank.take(message);
    }
    lock(&rank.transports).clear();
    lines.finish().expect("every message arrives");
    program.end().expect("MPI ends well");
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}

impl Rank {
    fn say(&self, kind: Kind, number: u64, transport: u64, fields: Vec<Vec<u8>>) {
        let message = Message {
            kind,
            number,
            inside: 0,
            transport,
            fields,
        };
        message.put(&self.control);
    }

    /// Brings a message to who does it.
    fn take(self: &Arc<Rank>, message: Message) {
        let event = match message.kind {
            Kind::Answer => message.number,
            _ => message.inside,
        };
        let waiting = lock(&self.inside).get(&event).cloned();
        if let Some(waiting) = waiting {
            // It may have had its answer.
            let _ = waiting.send(message);
            return;
        }
        let rank = Arc::clone(self);
        thread::spawn(move || rank.answer(&message));
    }

    fn answer(self: &Arc<Rank>, message: &Message) {
        let fields = self.act(message);
        Message::answer(message, fields).put(&self.control);
    }

    fn act(self: &Arc<Rank>, message: &Message) -> Vec<Vec<u8>> {
        match message.kind {
            Kind::Bind => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
                let addr = listener.local_addr().expect("it is bound").to_string();
                *lock(&self.listener) = Some(listener);
                return vec![addr.into_bytes()];
            }
            Kind::Start => {
                self.start(message);
                return Vec::new();
            }
            Kind::Drop => {
                let dropped = lock(&self.transports).remove(&message.transport);
                drop(dropped);
                return Vec::new();
            }
            _ => {}
        }
        let transport = lock(&self.transports).get(&message.transport).cloned();
        transport.map_or_else(Vec::new, |transport| call(&*transport, message))
    }

    fn start(self: &Arc<Rank>, message: &Message) {
        let listener = lock(&self.listener).as_ref().map(TcpListener::try_clone);
        let listener = listener
            .expect("it was bound")
            .expect("descriptors are left");
        let members = (2..message.fields.len()).map(|field| {
            let addr: SocketAddr = message.text(field).parse().expect("an address");
            addr
        });
        let config = net_config(message.word(0) as u32, message.word(1), members.collect());
        let doorbells = Endpoint::over(Carrier::Shm, listener);
        let endpoint = Box::new(MpiEndpoint::new(doorbells, Arc::clone(&self.lines)));
        let handler = Teller {
            rank: Arc::clone(self),
            transport: message.transport,
        };
        let transport = endpoint.start(config, Arc::new(handler));
        let transport = transport.expect("the configuration is right");
        lock(&self.transports).insert(message.transport, transport);
    }
}

fn call(transport: &dyn Transport, message: &Message) -> Vec<Vec<u8>> {
    match message.kind {
        Kind::Send => {
            let (to, head) = (PeerId(message.word(0) as u32), &message.fields[1]);
            let payload: Vec<_> = message.fields[2..]
                .iter()
                .map(|part| IoSlice::new(part))
                .collect();
            match transport.send(to, head, &payload) {
                Ok(()) => Vec::new(),
                Err(SendError::Down(_)) => vec![b"down".into()],
                Err(SendError::Myself(_)) => vec![b"myself".into()],
                Err(SendError::Unknown(_)) => vec![b"unknown".into()],
                Err(SendError::TooLong { .. }) => vec![b"long".into()],
            }
        }
        Kind::Disconnect => {
            transport.disconnect(PeerId(message.word(0) as u32), &message.text(1));
            Vec::new()
        }
        Kind::Peers => {
            let peers = transport.peers().into_iter();
            let told = peers.flat_map(|state| {
                let (up, said) = match state.link {
                    Link::Up { incarnation } => (1, word(incarnation)),
                    Link::Down { why } => (0, why.into_bytes()),
                };
                [
                    word(u64::from(state.id.0)),
                    word(up),
                    said,
                    state.way.into_bytes(),
                ]
            });
            told.collect()
        }
        Kind::Wake => {
            transport.wake();
            Vec::new()
        }
        Kind::Shutdown => {
            transport.shutdown();
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// Has the test's handler called.
struct Teller {
    rank: Arc<Rank>,
    transport: u64,
}

impl Teller {
    /// Calls, and does meanwhile what the test's handler asks for: in this thread, as if it were here.
    fn tell(&self, kind: Kind, fields: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let number = self.rank.events.fetch_add(1, Relaxed);
        let (sender, messages) = channel();
        lock(&self.rank.inside).insert(number, sender);
        self.rank.say(kind, number, self.transport, fields);
        let mut answer = Vec::new();
        while let Ok(message) = messages.recv_timeout(crate::rig::PATIENCE) {
            if message.kind == Kind::Answer {
                answer = message.fields;
                break;
            }
            self.rank.answer(&message);
        }
        lock(&self.rank.inside).remove(&number);
        answer
    }
}

impl Handler for Teller {
    fn on_up(&self, peer: PeerId, incarnation: u64) {
        self.tell(Kind::Up, vec![word(u64::from(peer.0)), word(incarnation)]);
    }

    fn on_anew(&self, peer: PeerId, who: Anew) -> bool {
        let is_me = u64::from(who == Anew::Me);
        self.tell(Kind::Anew, vec![word(u64::from(peer.0)), word(is_me)]);
        false
    }

    fn on_down(&self, peer: PeerId, why: &str) {
        let why = why.as_bytes().to_vec();
        self.tell(Kind::Down, vec![word(u64::from(peer.0)), why]);
    }

    fn on_frame(&self, from: PeerId, head: &[u8], payload: Vec<u8>) {
        let fields = vec![word(u64::from(from.0)), head.to_vec(), payload];
        self.tell(Kind::Frame, fields);
    }

    fn deadline(&self) -> Option<Instant> {
        let answer = self.tell(Kind::Deadline, Vec::new());
        let nanos = super::words::word_of(answer.first()?);
        Some(Instant::now() + Duration::from_nanos(nanos))
    }

    fn on_timer(&self) {
        self.tell(Kind::Timer, Vec::new());
    }
}
