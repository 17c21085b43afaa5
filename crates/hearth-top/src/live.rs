//! The live view: looks at the agents once a second, and shows each look and what each key changes.
//!
//! Three threads tell one loop what happens: looks, keys and signals. Agents that do not answer hold up the first alone, so
//! keys are heard at once.

use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyEvent};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::set::Choice;
use hearth_set::signals::{self, Signals};
use rustix::event::{PollFd, PollFlags, poll};

use crate::draw::draw;
use crate::look::Glance;
use crate::terminal::Screen;
use crate::ui::{AfterKey, Ui};
use crate::watch::Watch;

/// From one look at the agents to the next.
pub(crate) const EACH: Duration = Duration::from_secs(1);

/// Shells give a command that a signal ended this and the signal's number.
const SIGNALLED: i32 = 128;

/// An event.
enum Heard {
    Looked(Glance),
    Key(KeyEvent),
    Resized,
    /// The terminal is gone.
    Deaf(io::Error),
    Signal(i32),
}

/// Shows the agents of a choice until a key or a signal says to end.
pub fn run(choice: &Choice) -> Result<ExitCode, Failure> {
    let mut watch = Watch::default();
    // A choice of nothing is told in the terminal as it is.
    watch.take(Glance::take(choice)?);
    let signals = Signals::catch(signals::ENDS)?;
    let mut screen = Screen::open()
        .or_fail(|| "cannot use this terminal".to_owned())
        .map_err(|failure| failure.hint("hearth top --once"))?;
    let (tell, told) = channel();
    start("look", &tell, {
        let choice = choice.clone();
        move |tell| look(&choice, tell)
    })?;
    start("keys", &tell, hear_keys)?;
    start("signals", &tell, move |tell| hear_signals(&signals, tell))?;
    let mut ui = Ui::default();
    loop {
        screen
            .show(|frame| draw(frame, &watch, &ui))
            .or_fail(lost_terminal)?;
        match told.recv().expect("this thread could tell too") {
            Heard::Looked(look) => watch.take(look),
            Heard::Key(key) => match ui.press(key, &watch) {
                AfterKey::Show => {}
                AfterKey::End => return Ok(ExitCode::SUCCESS),
            },
            Heard::Resized => {}
            Heard::Deaf(error) => return Err(error).or_fail(lost_terminal),
            Heard::Signal(number) => {
                let code = u8::try_from(SIGNALLED + number).unwrap_or(u8::MAX);
                return Ok(ExitCode::from(code));
            }
        }
    }
}

fn lost_terminal() -> String {
    "cannot use the terminal any more".to_owned()
}

fn start(
    name: &str,
    tell: &Sender<Heard>,
    work: impl FnOnce(&Sender<Heard>) + Send + 'static,
) -> Result<(), Failure> {
    let tell = tell.clone();
    let thread = thread::Builder::new().name(name.to_owned());
    let started = thread.spawn(move || work(&tell)).map(drop);
    started.or_fail(|| "cannot start a thread".to_owned())
}

/// Looks once a second. A set that went away is an empty look: its agents are gone.
fn look(choice: &Choice, tell: &Sender<Heard>) {
    loop {
        let begun = Instant::now();
        let look = Glance::take(choice).unwrap_or_else(|_| Glance {
            at: Instant::now(),
            agents: Vec::new(),
        });
        if tell.send(Heard::Looked(look)).is_err() {
            return;
        }
        wait_until(begun + EACH);
    }
}

/// Waits; a thread that is woken early goes on waiting.
pub(crate) fn wait_until(end: Instant) {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

fn hear_keys(tell: &Sender<Heard>) {
    loop {
        let heard = match event::read() {
            Ok(Event::Key(key)) => Heard::Key(key),
            Ok(Event::Resize(..)) => Heard::Resized,
            Ok(_) => continue,
            Err(error) => Heard::Deaf(error),
        };
        let is_last = matches!(heard, Heard::Deaf(_));
        if tell.send(heard).is_err() || is_last {
            return;
        }
    }
}

fn hear_signals(signals: &Signals, tell: &Sender<Heard>) {
    loop {
        let mut polled: Vec<PollFd<'_>> = signals
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // Interrupted or not, the next line says what has come.
        let _ = poll(&mut polled, None);
        if let Some(signal) = signals.take().first()
            && tell.send(Heard::Signal(signal.as_raw())).is_err()
        {
            return;
        }
    }
}
