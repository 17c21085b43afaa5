//! The thread that has the sockets of all daemons.
//!
//! - D1: orders and tidings about one daemon reach the handler in the order in which they happened:
//!   the answers of a connection, those of its orders that are lost, then that it is down.
//! - D2: an order for a daemon that is not up is lost at once.
//! - D3: the thread wakes for orders, for bytes, for an order that takes too long, and for the next
//!   try while a daemon is away; never otherwise.
//! - D4: the handler is called from the thread alone, with no lock of this crate held.

use crate::address::Address;
use crate::item::Seal;
use crate::link::{Conn, Link, Stage, is_for_later};
use crate::order::{Answer, Lost, Order};
use crate::talk::{Event, Talk};
use mio::{Events, Poll, Token, Waker};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events taken per wait.
const EVENTS_MAX: usize = 256;
/// Bytes taken per read.
const READ_BYTES: usize = 256 << 10;
/// Tokens below name daemons.
const WAKER: Token = Token(usize::MAX);

/// The configuration of a bank.
#[derive(Clone, Debug)]
pub struct BankClientConfig {
    /// The addresses of the daemons; an order names a daemon by its place here.
    pub daemons: Vec<Address>,
    /// Makes and opens the job's entries.
    pub seal: Seal,
    /// Bytes of the largest entry.
    pub entry_bytes: usize,
    /// How long an order, or a connection's beginning, may take.
    pub patience: Duration,
}

/// An order by its number, and how it went.
pub type Answered = (u64, Result<Answer, Lost>);

/// The receiver of answers and of changes of connections.
pub trait BankHandler: Send + Sync + 'static {
    /// Orders were carried out, or are lost: what one daemon said at one time, in its order.
    fn answered(&self, answers: Vec<Answered>);

    /// The daemon takes orders.
    fn up(&self, daemon: usize);

    /// It does not any more, or a try to connect failed for another reason than the last.
    fn down(&self, daemon: usize, why: &str);
}

/// How a connection is, and how often entries were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// It takes orders.
    pub up: bool,
    /// Why not, if it ever was tried.
    pub why: Option<String>,
    /// Entries found.
    pub hits: u64,
    /// Entries that were not there.
    pub misses: u64,
    /// Orders that were lost.
    pub lost: u64,
}

/// Many daemons.
pub struct Bank {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    status: Mutex<Vec<LinkStatus>>,
    waker: Waker,
}

#[derive(Default)]
struct Queue {
    orders: VecDeque<Ordered>,
    closed: bool,
}

struct Ordered {
    asked: Asked,
    since: Instant,
}

/// An order for a daemon; the handler is told under its number how it went.
#[derive(Debug)]
pub struct Asked {
    /// Its number.
    pub id: u64,
    /// The daemon's place in the configuration.
    pub daemon: usize,
    /// The order itself.
    pub order: Order,
}

impl Bank {
    /// Starts the thread, which connects to every daemon and goes on trying.
    pub fn start(config: BankClientConfig, handler: Arc<dyn BankHandler>) -> io::Result<Bank> {
        let poll = Poll::new()?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            status: Mutex::new(vec![LinkStatus::default(); config.daemons.len()]),
            waker: Waker::new(poll.registry(), WAKER)?,
        });
        let now = Instant::now();
        let links = config
            .daemons
            .iter()
            .map(|addr| Link::new(addr.clone(), now));
        let driver = Driver {
            links: links.collect(),
            poll,
            shared: Arc::clone(&shared),
            handler,
            scratch: vec![0; READ_BYTES],
            config,
        };
        let thread = std::thread::Builder::new()
            .name("bank".to_owned())
            .spawn(move || driver.run())?;
        Ok(Bank {
            shared,
            thread: Some(thread),
        })
    }

    /// Gives orders. Those for one daemon go to it together, so many at a time wake it, and the thread, once.
    pub fn order(&self, orders: Vec<Asked>) {
        let since = Instant::now();
        let mut queue = lock(&self.shared.queue);
        let was_empty = queue.orders.is_empty();
        let orders = orders.into_iter().map(|asked| Ordered { asked, since });
        queue.orders.extend(orders);
        drop(queue);
        if was_empty {
            self.shared.wake();
        }
    }

    /// How each daemon is, in the order of the configuration.
    pub fn status(&self) -> Vec<LinkStatus> {
        lock(&self.shared.status).clone()
    }

    /// Ends the thread; orders that are under way are not answered any more.
    pub fn stop(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Shared {
    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            log::error!("cannot wake the bank's thread: {error}");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Driver {
    config: BankClientConfig,
    links: Vec<Link>,
    poll: Poll,
    shared: Arc<Shared>,
    handler: Arc<dyn BankHandler>,
    scratch: Vec<u8>,
}

impl Driver {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            self.look_at_clock();
            if !self.take_orders() {
                return;
            }
            match self.poll.poll(&mut events, self.timeout()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return log::error!("the bank's thread cannot wait: {error}"),
            }
            for event in &events {
                let daemon = event.token().0;
                if daemon < self.links.len() {
                    self.serve(daemon);
                }
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let patience = self.config.patience;
        let due = self
            .links
            .iter()
            .filter_map(|link| link.due(patience))
            .min();
        due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// False once there will be no more.
    fn take_orders(&mut self) -> bool {
        let orders = {
            let mut queue = lock(&self.shared.queue);
            if queue.closed {
                return false;
            }
            std::mem::take(&mut queue.orders)
        };
        let mut touched = BTreeSet::new();
        for Ordered { asked, since } in orders {
            let Asked { id, daemon, order } = asked;
            match self.links.get_mut(daemon).map(|link| &mut link.stage) {
                Some(Stage::Up(conn)) => {
                    conn.talk.order(id, order, since);
                    touched.insert(daemon);
                }
                Some(Stage::Greeting(..) | Stage::Resting(_)) | None => {
                    self.lose(daemon, vec![id]);
                }
            }
        }
        for daemon in touched {
            let flushed = self.links[daemon].conn().map_or(Ok(()), Conn::flush);
            if let Err(error) = flushed {
                self.end(daemon, &error.to_string());
            }
        }
        true
    }

    fn lose(&self, daemon: usize, ids: Vec<u64>) {
        if let Some(status) = lock(&self.shared.status).get_mut(daemon) {
            status.lost += ids.len() as u64;
        }
        let lost = ids.into_iter().map(|id| (id, Err(Lost))).collect();
        self.handler.answered(lost);
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        for daemon in 0..self.links.len() {
            let due = self.links[daemon].due(self.config.patience);
            if due.is_none_or(|due| due > now) {
                continue;
            }
            match self.links[daemon].stage {
                Stage::Resting(_) => self.connect(daemon, now),
                Stage::Greeting(..) => self.end(daemon, "it did not greet in time"),
                Stage::Up(_) => self.end(daemon, "it did not answer in time"),
            }
        }
    }

    fn connect(&mut self, daemon: usize, now: Instant) {
        let talk = Talk::new(self.config.seal.clone(), self.config.entry_bytes);
        let link = &mut self.links[daemon];
        let connected = Conn::connect(&link.addr, talk).and_then(|mut conn| {
            conn.socket.register(self.poll.registry(), Token(daemon))?;
            Ok(conn)
        });
        match connected {
            Ok(conn) => link.stage = Stage::Greeting(conn, now + self.config.patience),
            Err(error) => self.end(daemon, &error.to_string()),
        }
    }

    /// A socket is ready.
    fn serve(&mut self, daemon: usize) {
        let mut events = Vec::new();
        let served = self.exchange(daemon, &mut events);
        let mut answers = Vec::new();
        for event in events {
            match event {
                Event::Greeted => {
                    self.links[daemon].up(Instant::now());
                    let mut status = lock(&self.shared.status);
                    (status[daemon].up, status[daemon].why) = (true, None);
                    drop(status);
                    self.handler.up(daemon);
                }
                Event::Answered(id, answer) => {
                    self.count(daemon, &answer);
                    answers.push((id, Ok(answer)));
                }
            }
        }
        if !answers.is_empty() {
            self.handler.answered(answers);
        }
        if let Err(why) = served {
            self.end(daemon, &why);
        }
    }

    fn exchange(&mut self, daemon: usize, events: &mut Vec<Event>) -> Result<(), String> {
        let Some(conn) = self.links[daemon].conn() else {
            return Ok(());
        };
        let in_words = |error: io::Error| error.to_string();
        if let Some(error) = conn.socket.take_error().map_err(in_words)? {
            return Err(in_words(error));
        }
        conn.flush().map_err(in_words)?;
        loop {
            match conn.socket.read(&mut self.scratch) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(count) => {
                    let heard = conn.talk.hear(&self.scratch[..count], events);
                    heard.map_err(|over| over.to_string())?;
                }
                Err(error) if is_for_later(&error) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(in_words(error)),
            }
        }
    }

    fn count(&self, daemon: usize, answer: &Answer) {
        if let Answer::Found(items) = answer {
            let hits = items.iter().flatten().count() as u64;
            let mut status = lock(&self.shared.status);
            status[daemon].hits += hits;
            status[daemon].misses += items.len() as u64 - hits;
        }
    }

    /// The connection is over: what it owed is lost.
    fn end(&mut self, daemon: usize, why: &str) {
        let link = &mut self.links[daemon];
        let was_up = matches!(link.stage, Stage::Up(_));
        let unanswered: Vec<u64> = match link.conn() {
            Some(conn) => conn.talk.unanswered().collect(),
            None => Vec::new(),
        };
        link.rest(Instant::now());
        if !unanswered.is_empty() {
            self.lose(daemon, unanswered);
        }
        let news = {
            let status = &mut lock(&self.shared.status)[daemon];
            let news = was_up || status.why.as_deref() != Some(why);
            (status.up, status.why) = (false, Some(why.to_owned()));
            news
        };
        if news {
            self.handler.down(daemon, why);
        }
    }
}
