//! The test's side: starts a job, and stands for the transports of its ranks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Instant;

use hearth_net::{Anew, Handler, Link, PeerId, PeerState, SendError, Transport};
use tempfile::TempDir;

use super::words::{Kind, Message, word};
use crate::rig::PATIENCE;

thread_local! {
    /// The event inside of which this thread calls a handler.
    static INSIDE: Cell<u64> = const { Cell::new(0) };
}

/// Seconds after which a job is ended: what hangs must fail.
const LIMIT_SECONDS: &str = "400";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A running job.
pub(crate) struct Fleet {
    job: Child,
    ranks: Vec<Arc<Rank>>,
    _dir: TempDir,
}

/// One of its ranks.
pub(crate) struct Rank {
    control: Mutex<UnixStream>,
    numbers: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Sender<Message>>>,
    handlers: Mutex<BTreeMap<u64, Arc<dyn Handler>>>,
}

impl Fleet {
    /// Starts a job of this very program; `None` if something is missing, which is said.
    pub(crate) fn launch(
        test: &str,
        launcher: &[&str],
        library: &str,
        ranks: u32,
    ) -> Option<Arc<Fleet>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_here = std::env::split_paths(&path).any(|dir| dir.join(launcher[0]).exists());
        if !is_here {
            eprintln!("skipped: {test}: no {}", launcher[0]);
            return None;
        }
        let dir = tempfile::tempdir().expect("there is room");
        let control = dir.path().join("control");
        let listener = UnixListener::bind(&control).expect("the path is new");
        let job = Command::new("timeout")
            .args(["--kill-after=5", LIMIT_SECONDS])
            .args(launcher)
            .args(["-n", &ranks.to_string()])
            .arg(std::env::current_exe().expect("this test"))
            .args(["--exact", "a_rank", "--nocapture"])
            .env("HEARTH_TEST_CONTROL", &control)
            .env("HEARTH_TEST_LIBRARY", library)
            .env("UCX_LOG_LEVEL", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it was found");
        let mut joined = BTreeMap::new();
        for _ in 0..ranks {
            let (stream, _) = listener.accept().expect("ranks come");
            let hello = Message::get(&stream).expect("a rank says which it is");
            joined.insert(hello.word(0), Rank::serve(stream));
        }
        Some(Arc::new(Fleet {
            job,
            ranks: joined.into_values().collect(),
            _dir: dir,
        }))
    }

    pub(crate) fn rank(&self, rank: u32) -> &Arc<Rank> {
        &self.ranks[rank as usize]
    }

    /// Ends the job; how it ended.
    pub(crate) fn end(mut self) -> ExitStatus {
        for rank in &self.ranks {
            rank.say(Kind::Quit, 0, 0, Vec::new());
        }
        self.job.wait().expect("it was started here")
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for rank in &self.ranks {
            // After a failure: ranks end when nobody listens.
            let _ = lock(&rank.control).shutdown(std::net::Shutdown::Both);
        }
        let _ = self.job.wait();
    }
}

impl Rank {
    fn serve(stream: UnixStream) -> Arc<Rank> {
        let own = stream.try_clone().expect("descriptors are left");
        let rank = Arc::new(Rank {
            control: Mutex::new(own),
            numbers: AtomicU64::new(1),
            waiting: Mutex::default(),
            handlers: Mutex::default(),
        });
        let serving = Arc::clone(&rank);
        thread::spawn(move || {
            while let Some(message) = Message::get(&stream) {
                serving.take(message);
            }
        });
        rank
    }

    fn say(&self, kind: Kind, number: u64, transport: u64, fields: Vec<Vec<u8>>) {
        let message = Message {
            kind,
            number,
            inside: INSIDE.get(),
            transport,
            fields,
        };
        message.put(&self.control);
    }

    fn take(self: &Arc<Rank>, message: Message) {
        if message.kind == Kind::Answer {
            if let Some(waiting) = lock(&self.waiting).remove(&message.number) {
                let _ = waiting.send(message);
            }
            return;
        }
        let rank = Arc::clone(self);
        // A handler may take its time; answers must come through meanwhile.
        thread::spawn(move || rank.call(&message));
    }

    /// Calls the handler of a transport.
    fn call(&self, message: &Message) {
        let handler = lock(&self.handlers).get(&message.transport).cloned();
        INSIDE.set(message.number);
        let mut fields = Vec::new();
        if let Some(handler) = handler {
            match message.kind {
                Kind::Deadline => {
                    let deadline = handler.deadline();
                    let left = |at: Instant| at.saturating_duration_since(Instant::now());
                    fields.extend(deadline.map(|at| word(left(at).as_nanos() as u64)));
                }
                Kind::Timer => handler.on_timer(),
                Kind::Up => handler.on_up(peer(message), message.word(1)),
                Kind::Down => handler.on_down(peer(message), &message.text(1)),
                Kind::Anew => {
                    let who = [Anew::Peer, Anew::Me][message.word(1) as usize];
                    handler.on_anew(peer(message), who);
                }
                Kind::Frame => {
                    let payload = message.fields[2].clone();
                    handler.on_frame(peer(message), &message.fields[1], payload);
                }
                other => panic!("a rank does not say {other:?}"),
            }
        }
        Message::answer(message, fields).put(&self.control);
    }

    /// Asks the rank, and waits for its answer.
    fn ask(&self, kind: Kind, transport: u64, fields: Vec<Vec<u8>>) -> Message {
        let number = self.numbers.fetch_add(1, Relaxed);
        let (sender, answer) = channel();
        lock(&self.waiting).insert(number, sender);
        self.say(kind, number, transport, fields);
        answer.recv_timeout(PATIENCE).expect("the rank answers")
    }

    pub(crate) fn bind(&self) -> String {
        self.ask(Kind::Bind, 0, Vec::new()).text(0)
    }

    pub(crate) fn start(
        self: &Arc<Rank>,
        (me, incarnation): (u32, u64),
        members: &[String],
        handler: Arc<dyn Handler>,
    ) -> Arc<dyn Transport> {
        let number = self.numbers.fetch_add(1, Relaxed);
        lock(&self.handlers).insert(number, handler);
        let mut fields = vec![word(u64::from(me)), word(incarnation)];
        fields.extend(members.iter().map(|member| member.clone().into_bytes()));
        self.ask(Kind::Start, number, fields);
        Arc::new(Remote {
            rank: Arc::downgrade(self),
            number,
        })
    }
}

fn peer(message: &Message) -> PeerId {
    PeerId(message.word(0) as u32)
}

/// A transport of a rank.
struct Remote {
    rank: Weak<Rank>,
    number: u64,
}

impl Remote {
    fn ask(&self, kind: Kind, fields: Vec<Vec<u8>>) -> Message {
        let rank = self.rank.upgrade().expect("the job runs");
        rank.ask(kind, self.number, fields)
    }
}

impl Transport for Remote {
    fn send(&self, to: PeerId, head: &[u8], payload: &[IoSlice<'_>]) -> Result<(), SendError> {
        let mut fields = vec![word(u64::from(to.0)), head.to_vec()];
        fields.extend(payload.iter().map(|part| part.to_vec()));
        let answer = self.ask(Kind::Send, fields);
        let (head, payload) = (head.len(), payload.iter().map(|part| part.len()).sum());
        match answer.fields.first().map(Vec::as_slice) {
            None => Ok(()),
            Some(b"down") => Err(SendError::Down(to)),
            Some(b"myself") => Err(SendError::Myself(to)),
            Some(b"unknown") => Err(SendError::Unknown(to)),
            Some(_) => Err(SendError::TooLong { head, payload }),
        }
    }

    fn disconnect(&self, peer: PeerId, why: &str) {
        self.ask(Kind::Disconnect, vec![word(u64::from(peer.0)), why.into()]);
    }

    fn peers(&self) -> Vec<PeerState> {
        let answer = self.ask(Kind::Peers, Vec::new());
        let states = answer.fields.chunks_exact(4).map(|state| PeerState {
            id: PeerId(super::words::word_of(&state[0]) as u32),
            addr: None,
            link: match super::words::word_of(&state[1]) {
                1 => Link::Up {
                    incarnation: super::words::word_of(&state[2]),
                },
                _ => Link::Down {
                    why: String::from_utf8_lossy(&state[2]).into_owned(),
                },
            },
            way: String::from_utf8_lossy(&state[3]).into_owned(),
            bytes_in: 0,
            bytes_out: 0,
            queued_bytes: 0,
        });
        states.collect()
    }

    fn wake(&self) {
        self.ask(Kind::Wake, Vec::new());
    }

    fn shutdown(&self) {
        self.ask(Kind::Shutdown, Vec::new());
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(rank) = self.rank.upgrade() {
            lock(&rank.handlers).remove(&self.number);
            rank.ask(Kind::Drop, self.number, Vec::new());
        }
    }
}
