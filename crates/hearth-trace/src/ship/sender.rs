//! The thread of a log client that talks to the server, and where it gets what it sends.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hearth_net::{Channel, ChannelError, Party, Socket};
use rustix::time::ClockId;

use super::message::{Ask, Tell};
use super::spool::{Parcel, Spool};
use crate::file::{Fact, SessionId, Sink};

/// Chunks under way at one time.
const UNDER_WAY_MAX: usize = 8;
/// The server is taken for gone when it says nothing for so long though it should.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Time between two attempts to connect: at first, and at most.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How often the server's clock is asked, and how often in a row.
const PING_PERIOD: Duration = Duration::from_secs(1);
const PINGS: u32 = 8;
/// The first time and the last there are more, since a short job has no others.
const PINGS_AT_ENDS: u32 = 40;

/// A clock that nobody sets or steers, in nanoseconds.
pub type RawClock = Box<dyn Fn() -> u64 + Send>;

/// Takes frames to be sent.
#[derive(Clone)]
pub struct Shipper(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    spool: Spool,
    pings: Vec<Answer>,
    /// Ask the server's clock now.
    ping_now: bool,
    /// No more comes; end when all is stored.
    closing: bool,
    /// End at once.
    abandoned: bool,
    over: bool,
    /// The connection, to end it from another thread.
    stream: Option<Socket>,
    /// Why the server was not there the last time.
    trouble: Option<String>,
    cpu: u64,
}

/// An answer of the server's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    server: u64,
    sent: u64,
    received: u64,
    answered: u64,
    returned: u64,
}

impl Answer {
    pub(super) fn fact(&self) -> Fact<'static> {
        Fact::Ping {
            server: self.server,
            sent: self.sent,
            received: self.received,
            answered: self.answered,
            returned: self.returned,
        }
    }
}

impl Sink for Shipper {
    fn take(&mut self, frames: &[u8], numbers: (u64, u64)) -> io::Result<()> {
        self.lock().spool.push(frames, numbers);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl Shipper {
    pub(super) fn new(spool: Spool) -> Shipper {
        Shipper(Arc::new(Shared {
            state: Mutex::new(State {
                spool,
                pings: Vec::new(),
                ping_now: true,
                closing: false,
                abandoned: false,
                over: false,
                stream: None,
                trouble: None,
                cpu: 0,
            }),
            changed: Condvar::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether rings should be left alone until the server has taken some.
    pub fn is_full(&self) -> bool {
        self.lock().spool.is_full()
    }

    /// Most bytes that ever waited for the server.
    pub fn waiting_max(&self) -> u64 {
        self.lock().spool.waiting_max()
    }

    /// Why the server was not there the last time, if it is not.
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Nanoseconds of processor time that sending took.
    pub(super) fn cpu(&self) -> u64 {
        self.lock().cpu
    }

    /// The answers of the server's clock since the last call.
    pub(super) fn take_pings(&self) -> Vec<Answer> {
        std::mem::take(&mut self.lock().pings)
    }

    /// Asks the server's clock now; waits for the answers, not beyond `until`.
    pub(super) fn ping(&self, until: Instant) {
        let mut state = self.lock();
        state.ping_now = true;
        self.0.changed.notify_all();
        while state.ping_now && !state.over && state.trouble.is_none() {
            match self.wait(state, until) {
                Some(next) => state = next,
                None => return,
            }
        }
    }

    /// No more comes: waits until all is stored, not beyond `until`, and ends the thread. The
    /// answer is whether all is stored.
    pub(super) fn close(&self, until: Instant) -> bool {
        let mut state = self.lock();
        state.closing = true;
        self.0.changed.notify_all();
        state = loop {
            if state.over {
                break state;
            }
            match self.wait(state, until) {
                Some(next) => state = next,
                None => break self.lock(),
            }
        };
        state.abandoned = true;
        if let Some(stream) = &state.stream {
            // Its thread may wait for a server that does not answer.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.0.changed.notify_all();
        state.spool.is_empty()
    }

    /// The spool of frames that still wait, once the thread has ended.
    pub(super) fn into_spool(self) -> Option<Spool> {
        let shared = Arc::into_inner(self.0)?;
        let state = shared.state.into_inner();
        Some(state.unwrap_or_else(PoisonError::into_inner).spool)
    }

    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        until: Instant,
    ) -> Option<MutexGuard<'a, State>> {
        let left = until.checked_duration_since(Instant::now())?;
        let woken = self.0.changed.wait_timeout(state, left);
        Some(woken.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// The state of the sending thread.
pub(super) struct Sender {
    pub(super) shipper: Shipper,
    pub(super) server: SocketAddr,
    pub(super) party: Party,
    pub(super) session: SessionId,
    pub(super) host: String,
    pub(super) raw: RawClock,
}

impl Sender {
    /// Sends until all is sent after the closing, or nobody waits any more.
    pub(super) fn run(self) {
        let mut retry = RETRY_MIN;
        loop {
            let ended = self.connection(&mut retry);
            let mut state = self.shipper.lock();
            state.spool.rewind();
            state.stream = None;
            state.trouble = ended.err().map(|error| error.to_string());
            if state.abandoned || state.closing && state.spool.is_empty() {
                state.over = true;
                self.shipper.0.changed.notify_all();
                return;
            }
            self.shipper.0.changed.notify_all();
            let until = Instant::now() + retry;
            retry = (retry * 2).min(RETRY_MAX);
            while !state.abandoned {
                match self.shipper.wait(state, until) {
                    Some(next) => state = next,
                    None => break,
                }
            }
        }
    }

    fn connection(&self, retry: &mut Duration) -> Result<(), ChannelError> {
        let mut channel = Channel::dial(self.server, &self.party)?;
        channel.limit(SILENCE_MAX)?;
        let hello = Ask::Session(self.session, self.host.as_bytes());
        channel.send(&hello.encode(), &[])?;
        let Tell::Welcome(server, next) = receive(&mut channel)? else {
            return Err(out_of_place());
        };
        *retry = RETRY_MIN;
        {
            let mut state = self.shipper.lock();
            state.trouble = None;
            state.stream = Some(channel.stream()?);
            state.spool.stored(next);
        }
        let mut talk = Talk {
            sender: self,
            channel,
            server,
        };
        talk.ping(PINGS_AT_ENDS)?;
        talk.run()
    }
}

/// A connection that the server has welcomed.
struct Talk<'a> {
    sender: &'a Sender,
    channel: Channel,
    server: u64,
}

/// The next action.
enum Next {
    Send(Parcel),
    Receive,
    Ping(u32),
    End,
}

impl Talk<'_> {
    fn run(&mut self) -> Result<(), ChannelError> {
        let mut ping_at = Instant::now() + PING_PERIOD;
        loop {
            match self.next(ping_at)? {
                Next::Send(parcel) => {
                    let head = Ask::Frames(parcel.first, parcel.end).encode();
                    self.channel.send(&head, &parcel.frames)?;
                }
                Next::Receive => {
                    let told = receive(&mut self.channel)?;
                    self.stored(told)?;
                }
                Next::Ping(count) => {
                    self.ping(count)?;
                    ping_at = Instant::now() + PING_PERIOD;
                }
                Next::End => return Ok(()),
            }
        }
    }

    /// Waits until there is something to do.
    fn next(&self, ping_at: Instant) -> Result<Next, ChannelError> {
        let shipper = &self.sender.shipper;
        let mut state = shipper.lock();
        state.cpu = thread_cpu();
        loop {
            if state.abandoned || state.closing && state.spool.is_empty() {
                return Ok(Next::End);
            }
            if state.ping_now {
                return Ok(Next::Ping(PINGS_AT_ENDS));
            }
            if state.spool.under_way() < UNDER_WAY_MAX
                && let Some(chunk) = state.spool.next()
            {
                return Ok(Next::Send(chunk?));
            }
            if state.spool.under_way() > 0 {
                return Ok(Next::Receive);
            }
            match shipper.wait(state, ping_at) {
                Some(next) => state = next,
                None => return Ok(Next::Ping(PINGS)),
            }
        }
    }

    fn stored(&self, told: Tell) -> Result<(), ChannelError> {
        let Tell::Stored(next) = told else {
            return Err(out_of_place());
        };
        let mut state = self.sender.shipper.lock();
        state.spool.stored(next);
        self.sender.shipper.0.changed.notify_all();
        Ok(())
    }

    fn ping(&mut self, count: u32) -> Result<(), ChannelError> {
        let ping = Ask::Ping.encode();
        for _ in 0..count {
            let sent = (self.sender.raw)();
            self.channel.send(&ping, &[])?;
            let (received, answered, returned) = loop {
                let told = receive(&mut self.channel)?;
                let returned = (self.sender.raw)();
                match told {
                    Tell::Pong(received, answered) => break (received, answered, returned),
                    Tell::Stored(_) | Tell::Welcome(..) => self.stored(told)?,
                }
            };
            self.sender.shipper.lock().pings.push(Answer {
                server: self.server,
                sent,
                received,
                answered,
                returned,
            });
        }
        self.sender.shipper.lock().ping_now = false;
        self.sender.shipper.0.changed.notify_all();
        Ok(())
    }
}

fn receive(channel: &mut Channel) -> Result<Tell, ChannelError> {
    let head = channel.receive(&mut Vec::new())?;
    Tell::decode(&head).map_err(|_| out_of_place())
}

fn out_of_place() -> ChannelError {
    ChannelError::Peer("the log server says what was not asked".to_owned())
}

/// Nanoseconds of processor time of this thread.
pub(super) fn thread_cpu() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
