//! The log server: one thread for each client, one file for each session.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hearth_net::{Channel, ChannelError, Party};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::message::{Ask, Tell};
use crate::clock;
use crate::file::{EXTENSION, FrameOrDamage, Frames, SessionId, first_frame};

/// Clients at one time; others are refused.
const CLIENTS_MAX: usize = 4096;
/// A client that says nothing for so long is taken for gone. Clients ask for the time every second.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Most bytes of a machine's name in the name of a file.
const NAME_LEN_MAX: usize = 64;

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The directory cannot be used.
    #[error("cannot keep traces in `{0}`")]
    Directory(PathBuf, #[source] io::Error),
    /// The operating system refused.
    #[error("cannot serve")]
    Io(#[from] io::Error),
}

/// Stores what clients send.
pub struct Server {
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// Closing it ends the thread that accepts.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    directory: PathBuf,
    party: Party,
    run: u64,
    /// Wall time less the steady clock when the server began.
    anchor: u64,
    sessions: Mutex<HashMap<SessionId, Arc<Mutex<Stored>>>>,
    clients: Mutex<HashMap<u64, TcpStream>>,
}

/// One session's file.
struct Stored {
    file: File,
    len: u64,
    /// The first frame that is not in it.
    next: u64,
}

impl Server {
    /// Listens on `addr` and stores in `directory`, which is made if need be.
    pub fn start(addr: SocketAddr, directory: &Path, party: Party) -> Result<Server, ServeError> {
        let unusable = |error| ServeError::Directory(directory.to_owned(), error);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(directory).map_err(unusable)?;
        let listener = TcpListener::bind(addr).map_err(|error| ServeError::Listen(addr, error))?;
        let addr = listener.local_addr()?;
        let now = clock::sync_point();
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            party,
            run: SessionId::fresh()?.0,
            anchor: now.real.wrapping_sub(now.raw),
            sessions: Mutex::default(),
            clients: Mutex::default(),
        });
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new().name("hearth-accept".into());
        let thread = thread.spawn(move || accepting.accept(&listener, &stopped))?;
        Ok(Server {
            addr,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address on which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sessions that clients have begun or gone on with.
    pub fn sessions(&self) -> usize {
        lock(&self.shared.sessions).len()
    }
}

impl Drop for Server {
    /// Ends all connections and waits for what they store.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends clients before itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &TcpListener, stopped: &OwnedFd) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for number in 0.. {
            let mut fds = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            if poll(&mut fds, None).is_ok() && !fds[1].revents().is_empty() {
                break;
            }
            let Ok((stream, addr)) = listener.accept() else {
                continue;
            };
            threads.retain(|thread| !thread.is_finished());
            if threads.len() >= CLIENTS_MAX {
                log::warn!("{addr} is refused: {CLIENTS_MAX} clients are connected");
                continue;
            }
            let shared = Arc::clone(self);
            let serve = move || shared.client(number, stream, addr);
            match thread::Builder::new()
                .name("hearth-log".into())
                .spawn(serve)
            {
                Ok(thread) => threads.push(thread),
                Err(error) => log::warn!("{addr} is refused: {error}"),
            }
        }
        for stream in lock(&self.clients).values() {
            // One that is gone already is as good.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn client(&self, number: u64, stream: TcpStream, addr: SocketAddr) {
        let ended = stream.try_clone().map_err(ChannelError::from);
        let ended = ended.and_then(|handle| {
            lock(&self.clients).insert(number, handle);
            self.serve(Channel::accept(stream, &self.party)?)
        });
        lock(&self.clients).remove(&number);
        match ended {
            Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => log::warn!("{addr}: {error}"),
            Ok(()) => {}
        }
    }

    fn serve(&self, mut channel: Channel) -> Result<(), ChannelError> {
        channel.limit(SILENCE_MAX)?;
        let mut payload = Vec::new();
        let head = channel.receive(&mut payload)?;
        let Ok(Ask::Session(session, host)) = Ask::decode(&head) else {
            return Err(wrong("does not say whose frames it sends"));
        };
        let stored = self.session(session, host)?;
        let next = lock(&stored).next;
        channel.send(&Tell::Welcome(self.run, next).encode(), &[])?;
        loop {
            let head = channel.receive(&mut payload)?;
            let received = self.now();
            let tell = match Ask::decode(&head) {
                Ok(Ask::Ping) => Tell::Pong(received, self.now()),
                Ok(Ask::Frames(first, end)) => {
                    let next = lock(&stored).take(session, (first, end), &payload)?;
                    Tell::Stored(next)
                }
                Ok(Ask::Session(..)) | Err(_) => return Err(wrong("says what it should not")),
            };
            channel.send(&tell.encode(), &[])?;
        }
    }

    /// The server's clock: wall time when it began, and steady since.
    fn now(&self) -> u64 {
        clock::raw_ns().wrapping_add(self.anchor)
    }

    fn session(&self, session: SessionId, host: &[u8]) -> io::Result<Arc<Mutex<Stored>>> {
        let mut sessions = lock(&self.sessions);
        if let Some(stored) = sessions.get(&session) {
            return Ok(Arc::clone(stored));
        }
        let name = format!("{}-{:016x}.{EXTENSION}", safe_name(host), session.0);
        let stored = Stored::open(&self.directory.join(name), session)?;
        let stored = Arc::new(Mutex::new(stored));
        sessions.insert(session, Arc::clone(&stored));
        Ok(stored)
    }
}

impl Stored {
    /// Goes on where an earlier run of the server stopped. A frame that it had only half written is
    /// cut off.
    fn open(path: &Path, session: SessionId) -> io::Result<Stored> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(path)?;
        let mut frames = Frames::new(&file);
        let (mut len, mut next) = (0, 0);
        while let Some(found) = frames.read()? {
            if let FrameOrDamage::Frame { frame, at, payload } = found
                && frame.session == session
            {
                len = at + payload.len() as u64;
                next = next.max(frame.number.saturating_add(1));
            }
        }
        file.set_len(len)?;
        Ok(Stored { file, len, next })
    }

    /// Stores those frames that are not stored yet, if they are what they should be.
    fn take(
        &mut self,
        session: SessionId,
        (first, end): (u64, u64),
        payload: &[u8],
    ) -> Result<u64, ChannelError> {
        if first > self.next {
            return Err(wrong("leaves frames out"));
        }
        let (mut rest, mut number) = (payload, first);
        let mut skip = 0;
        while !rest.is_empty() {
            let found = first_frame(rest);
            let Some((frame, len)) = found.filter(|(frame, _)| {
                frame.session == session && frame.number == number && number < end
            }) else {
                return Err(wrong("sends what are not its next frames"));
            };
            if frame.number < self.next {
                skip += len;
            }
            number += 1;
            rest = &rest[len..];
        }
        if number != end {
            return Err(wrong("sends fewer frames than it says"));
        }
        let new = &payload[skip..];
        if let Err(error) = self.file.write_all_at(new, self.len) {
            // Half a frame would hide those behind it from a later run of the server.
            let _ = self.file.set_len(self.len);
            return Err(error.into());
        }
        self.len += new.len() as u64;
        self.next = self.next.max(end);
        Ok(self.next)
    }
}

/// The part of a name that may stand in a path.
fn safe_name(host: &[u8]) -> String {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
    let name = host.iter().filter(|byte| safe(byte)).take(NAME_LEN_MAX);
    let name: String = name.map(|byte| char::from(*byte)).collect();
    if name.is_empty() {
        "host".to_owned()
    } else {
        name
    }
}

fn wrong(what: &str) -> ChannelError {
    ChannelError::Peer(format!("the log client {what}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
