//! The way to a gateway: connections, and what becomes of a call when one breaks.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hearth_net::{Channel, ChannelError, Door, Party, Socket};

use super::SILENCE_MAX;
use crate::call::{Asked, Call, Hello, Refused, Told, Welcome, Whom, decode, encode};

/// Between attempts to reach a gateway that may be starting.
const PAUSE: Duration = Duration::from_millis(50);
/// A call that takes longer is a reason to see whether its gateway lives.
const LONG: Duration = Duration::from_secs(1);
/// Rounds over all gateways before a call fails.
const ROUNDS: usize = 2;
/// The slot of signs of life.
const PULSE: u32 = u32::MAX;

/// All that calls go through.
pub(crate) struct Link {
    gateways: Vec<Door>,
    party: Party,
    /// Which proxy mount this is.
    client: u64,
    state: Mutex<State>,
    busy: Condvar,
}

#[derive(Default)]
struct State {
    /// Gateways that were given up so far; the one in use is that many on in the list, round it.
    given_up: usize,
    idle: Vec<Line>,
    /// Calls under way, by slot.
    under_way: HashMap<u32, UnderWay>,
    slots: u32,
}

struct UnderWay {
    since: Instant,
    given_up: usize,
    /// To end the call.
    socket: Socket,
}

/// One connection to a gateway: calls of one slot.
struct Line {
    channel: Channel,
    slot: u32,
    /// Of the last call.
    number: u64,
    /// Which life of which gateway is at the other end.
    gateway: u64,
    /// How many had been given up when it was made.
    given_up: usize,
}

/// A call with what belongs to it.
pub(crate) struct Question<'a> {
    pub(crate) whom: &'a Whom,
    pub(crate) call: &'a Call,
    pub(crate) payload: &'a [u8],
}

/// A number that nobody else has.
pub(crate) fn draw() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::other)
}

impl Link {
    pub(crate) fn new(gateways: Vec<Door>, party: Party) -> io::Result<Link> {
        Ok(Link {
            gateways,
            party,
            client: draw()?,
            state: Mutex::default(),
            busy: Condvar::new(),
        })
    }

    /// Waits until a gateway answers.
    pub(crate) fn connect(&self, patience: Duration) -> io::Result<()> {
        let end = Instant::now() + patience;
        loop {
            let given_up = self.lock().given_up;
            let error = match self.line(given_up) {
                Ok(line) => {
                    self.lock().idle.push(line);
                    return Ok(());
                }
                Err(error) => error,
            };
            self.give_up(given_up);
            if Instant::now() > end {
                let what = format!("no gateway answers: {}: {error}", self.door(given_up));
                return Err(io::Error::other(what));
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Asks the gateway in use, or the next if that is gone. Bytes that were read are put into `bytes`.
    pub(crate) fn ask(&self, question: &Question<'_>, bytes: &mut Vec<u8>) -> Told {
        for _ in 0..ROUNDS * self.gateways.len() {
            let given_up = self.lock().given_up;
            let line = match self.take(given_up) {
                Ok(line) => line,
                Err(error) => {
                    log::warn!("{} does not answer: {error}", self.door(given_up));
                    self.give_up(given_up);
                    continue;
                }
            };
            if let Some(told) = self.ask_over(line, question, bytes) {
                return told;
            }
        }
        log::error!("no gateway answers; the store cannot be reached");
        Err(Refused::Errno(libc::EIO))
    }

    /// Asks over one line, and over another to the same gateway if it breaks. `None`: another gateway may be
    /// asked.
    fn ask_over(
        &self,
        mut line: Line,
        question: &Question<'_>,
        bytes: &mut Vec<u8>,
    ) -> Option<Told> {
        line.number += 1;
        let asked = Asked {
            number: line.number,
            caller: question.whom.clone(),
            call: question.call.clone(),
        };
        let head = encode(&asked);
        loop {
            let (slot, number, gateway) = (line.slot, line.number, line.gateway);
            let given_up = line.given_up;
            let error = match self.exchange(&mut line, (&head, question.payload), bytes) {
                Ok(told) => {
                    self.keep(line);
                    return Some(told);
                }
                Err(error) => error,
            };
            log::info!("a connection to {} broke: {error}", self.door(given_up));
            // Nobody but this gateway can say whether the call was made (G1).
            line = match self.line_of(slot, given_up) {
                Ok(again) if again.gateway == gateway => Line { number, ..again },
                _ => {
                    self.give_up(given_up);
                    if question.call.is_repeatable() {
                        return None;
                    }
                    log::error!(
                        "a gateway is gone, and with it what came of a call: {}",
                        name(question.call)
                    );
                    return Some(Err(Refused::Errno(libc::EIO)));
                }
            };
        }
    }

    fn exchange(
        &self,
        line: &mut Line,
        (head, payload): (&[u8], &[u8]),
        bytes: &mut Vec<u8>,
    ) -> Result<Told, ChannelError> {
        let under_way = UnderWay {
            since: Instant::now(),
            given_up: line.given_up,
            socket: line.channel.stream()?,
        };
        {
            let mut state = self.lock();
            if state.given_up != line.given_up {
                return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into());
            }
            state.under_way.insert(line.slot, under_way);
            if state.under_way.len() == 1 {
                self.busy.notify_one();
            }
        }
        let sent = line.channel.send(head, payload);
        let told = sent.and_then(|()| line.channel.receive(bytes));
        self.lock().under_way.remove(&line.slot);
        let nonsense = || ChannelError::Peer("the gateway answers with nonsense".to_owned());
        decode(&told?).ok_or_else(nonsense)
    }

    /// A line to the gateway in use.
    fn take(&self, given_up: usize) -> Result<Line, ChannelError> {
        {
            let mut state = self.lock();
            while let Some(line) = state.idle.pop() {
                if line.given_up == given_up {
                    return Ok(line);
                }
            }
        }
        self.line(given_up)
    }

    fn keep(&self, line: Line) {
        let mut state = self.lock();
        if line.given_up == state.given_up {
            state.idle.push(line);
        }
    }

    /// A new line, in a slot of its own.
    fn line(&self, given_up: usize) -> Result<Line, ChannelError> {
        let slot = {
            let mut state = self.lock();
            state.slots += 1;
            state.slots
        };
        self.line_of(slot, given_up)
    }

    fn line_of(&self, slot: u32, given_up: usize) -> Result<Line, ChannelError> {
        let mut channel = Channel::knock(self.door(given_up), &self.party)?;
        let client = self.client;
        channel.send(&encode(&Hello { client, slot }), &[])?;
        let head = channel.receive(&mut Vec::new())?;
        let welcome: Option<Welcome> = decode(&head);
        let strange = || ChannelError::Peer("it is no gateway".to_owned());
        let gateway = welcome.ok_or_else(strange)?.gateway;
        // The pulse sees to it that no call waits for a gateway that is gone.
        channel.unlimit()?;
        Ok(Line {
            channel,
            slot,
            number: 0,
            gateway,
            given_up,
        })
    }

    fn door(&self, given_up: usize) -> &Door {
        &self.gateways[given_up % self.gateways.len()]
    }

    /// The gateway that was in use when so many had been given up is not used any more.
    fn give_up(&self, given_up: usize) {
        let mut state = self.lock();
        if state.given_up != given_up {
            return;
        }
        state.given_up += 1;
        state.idle.clear();
        for call in state.under_way.values() {
            // One that has ended by itself is as good.
            let _ = call.socket.shutdown(Shutdown::Both);
        }
        if self.gateways.len() > 1 {
            log::warn!("calls go through {} from now on", self.door(given_up + 1));
        }
    }

    /// Gives up a gateway that is silent while it is asked (G5), for ever. Sleeps while nothing is under way.
    pub(crate) fn watch(&self) {
        loop {
            let mut state = self.lock();
            while state.under_way.is_empty() {
                state = self
                    .busy
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let waited = self.busy.wait_timeout(state, LONG);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let given_up = state.given_up;
            let is_long =
                |call: &UnderWay| call.given_up == given_up && call.since.elapsed() >= LONG;
            let asked = state.under_way.values().any(is_long);
            drop(state);
            if asked && let Err(error) = self.feel(given_up) {
                log::warn!("{} is silent: {error}", self.door(given_up));
                self.give_up(given_up);
            }
        }
    }

    /// Whether the gateway lives.
    fn feel(&self, given_up: usize) -> Result<(), ChannelError> {
        let mut line = self.line_of(PULSE, given_up)?;
        line.channel.limit(SILENCE_MAX)?;
        let ping = Asked {
            number: 1,
            caller: Whom::default(),
            call: Call::Ping,
        };
        line.channel.send(&encode(&ping), &[])?;
        line.channel.receive(&mut Vec::new()).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a call for people, without its arguments.
fn name(call: &Call) -> String {
    let all = format!("{call:?}");
    all.split(['(', ' '])
        .next()
        .unwrap_or_default()
        .to_lowercase()
}
