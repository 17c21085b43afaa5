//! The gateway's side: connections, slots, and what each proxy mount has open.

mod make;
mod names;
mod opened;

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hearth_fuse::Identity;
use hearth_fuse::store::{Nodes, Wardrobe};
use hearth_net::{Channel, ChannelError, Door, DoorListener, Party, Socket};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::call::{Asked, Hello, Welcome, decode, encode};
use opened::Opened;

/// Connections at once; each has a thread.
const CONNECTIONS_MAX: usize = 4096;
/// How long what a proxy mount has open outlives its last connection: it may be about to connect again.
const ABSENCE_MAX: Duration = Duration::from_secs(10);

/// Makes calls on the store for proxy mounts. Dropping it ends all connections.
pub struct Gateway {
    shared: Arc<Shared>,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Tells this gateway from others, and from one in its place before.
    number: u64,
    party: Party,
    nodes: Nodes,
    wardrobe: Wardrobe,
    /// Serves only its own user: it cannot become anybody else.
    only: Option<u32>,
    clients: Mutex<HashMap<u64, Arc<Client>>>,
    connections: Mutex<HashMap<u64, Socket>>,
    calls: AtomicU64,
}

/// The state of one proxy mount here.
#[derive(Default)]
struct Client {
    opened: Opened,
    slots: Mutex<HashMap<u32, Arc<Mutex<Slot>>>>,
    /// Connections, and when the last one ended.
    presence: Mutex<(usize, Option<Instant>)>,
}

/// The last call of a slot, if it must not be made again, and what it was answered (G1).
#[derive(Default)]
struct Slot {
    number: u64,
    told: Option<(Vec<u8>, Vec<u8>)>,
}

impl Gateway {
    /// Begins to serve the store behind `root` to who knows the secret.
    pub fn start(door: &Door, party: Party, root: OwnedFd) -> io::Result<Gateway> {
        let uid = rustix::process::geteuid();
        let (identity, only) = match uid.is_root() {
            true => (Identity::AsCaller, None),
            false => (Identity::SingleUser, Some(uid.as_raw())),
        };
        let listener = DoorListener::bind(door)?;
        let shared = Arc::new(Shared {
            number: crate::proxy_mount::draw()?,
            party,
            nodes: Nodes::new(root)?,
            wardrobe: Wardrobe::new(identity)?,
            only,
            clients: Mutex::default(),
            connections: Mutex::default(),
            calls: AtomicU64::new(0),
        });
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new().name("gateway".to_owned());
        let thread = thread.spawn(move || accepting.accept(&listener, &stopped))?;
        Ok(Gateway {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Calls that were made since the start.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends connections before itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &DoorListener, stopped: &OwnedFd) {
        for number in 0.. {
            if self.wait(listener, stopped) {
                break;
            }
            let Ok(socket) = listener.accept() else {
                continue;
            };
            if lock(&self.connections).len() >= CONNECTIONS_MAX {
                log::warn!("a connection is refused: there are {CONNECTIONS_MAX}");
                continue;
            }
            let shared = Arc::clone(self);
            let serve = move || shared.connection(number, socket);
            let thread = thread::Builder::new().name("gateway-call".to_owned());
            if let Err(error) = thread.spawn(serve) {
                log::warn!("a connection is refused: {error}");
            }
        }
        for socket in lock(&self.connections).values() {
            // One that is gone already is as good.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Waits for a connection, and lets go of who has stayed away; whether this is the end.
    fn wait(&self, listener: &DoorListener, stopped: &OwnedFd) -> bool {
        loop {
            let someone_is_away = self.let_go();
            let mut fds = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            let pause = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            let ready = poll(&mut fds, someone_is_away.then_some(&pause));
            if ready.is_ok() && !fds[1].revents().is_empty() {
                return true;
            }
            if ready.is_ok() && !fds[0].revents().is_empty() {
                return false;
            }
        }
    }

    /// Closes what proxy mounts had open that are gone; whether others may be.
    fn let_go(&self) -> bool {
        let mut clients = lock(&self.clients);
        clients.retain(|_, client| {
            let away = lock(&client.presence).1;
            let stays = away.is_none_or(|since| since.elapsed() < ABSENCE_MAX);
            if !stays {
                client.opened.forget_all(&self.nodes);
            }
            stays
        });
        clients
            .values()
            .any(|client| lock(&client.presence).1.is_some())
    }

    fn connection(&self, number: u64, socket: Socket) {
        let ended = socket.try_clone().map_err(ChannelError::from);
        let ended = ended.and_then(|handle| {
            lock(&self.connections).insert(number, handle);
            let channel = Channel::accept(socket, &self.party)?;
            channel.unlimit()?;
            self.greet(channel)
        });
        lock(&self.connections).remove(&number);
        match ended {
            Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => log::info!("a node's connection ended: {error}"),
            Ok(()) => {}
        }
    }

    fn greet(&self, mut channel: Channel) -> Result<(), ChannelError> {
        let mut payload = Vec::new();
        let head = channel.receive(&mut payload)?;
        let Some(Hello { client, slot }) = decode(&head) else {
            return Err(wrong("does not say who it is"));
        };
        let client = self.client(client);
        let welcome = Welcome {
            gateway: self.number,
        };
        let slot = Arc::clone(lock(&client.slots).entry(slot).or_default());
        channel.send(&encode(&welcome), &[])?;
        let ended = self.serve(&client, &slot, channel);
        client.leaves();
        ended
    }

    /// The proxy mount of this number, with one connection more.
    fn client(&self, number: u64) -> Arc<Client> {
        let mut clients = lock(&self.clients);
        let client = Arc::clone(clients.entry(number).or_default());
        let mut presence = lock(&client.presence);
        *presence = (presence.0 + 1, None);
        drop(presence);
        client
    }

    fn serve(
        &self,
        client: &Client,
        slot: &Mutex<Slot>,
        mut channel: Channel,
    ) -> Result<(), ChannelError> {
        let mut payload = Vec::new();
        loop {
            let head = channel.receive(&mut payload)?;
            let Some(asked) = decode::<Asked>(&head) else {
                return Err(wrong("asks what it should not"));
            };
            let (head, bytes) = self.answer(client, slot, asked, &payload)?;
            channel.send(&head, &bytes)?;
        }
    }

    /// Makes a call, or tells again what it was answered (G1).
    fn answer(
        &self,
        client: &Client,
        slot: &Mutex<Slot>,
        asked: Asked,
        payload: &[u8],
    ) -> Result<(Vec<u8>, Vec<u8>), ChannelError> {
        // Held while the call is made: who asks again over a new connection waits for the answer.
        let mut slot = lock(slot);
        if asked.number < slot.number {
            return Err(wrong("asks what it has asked before others"));
        }
        if asked.number == slot.number
            && let Some(told) = &slot.told
        {
            return Ok(told.clone());
        }
        let keep = !asked.call.is_repeatable();
        let number = asked.number;
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Vec::new();
        let told = self.make(client, asked, payload, &mut bytes);
        let told = (encode(&told), bytes);
        slot.number = number;
        slot.told = keep.then(|| told.clone());
        Ok(told)
    }
}

impl Client {
    fn leaves(&self) {
        let mut presence = lock(&self.presence);
        presence.0 -= 1;
        if presence.0 == 0 {
            presence.1 = Some(Instant::now());
        }
    }
}

fn wrong(what: &str) -> ChannelError {
    ChannelError::Peer(format!("the other end {what}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
