//! `hearth trace top`.
//!
//! `watch` looks at the rings and adds up the new records. `view` is the result, `paint` makes lines of it, and
//! `terminal` shows them.

mod paint;
mod terminal;
mod view;
mod watch;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use self::terminal::Terminal;
use self::view::View;
use self::watch::Watch;
use super::ls::live;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;
use hearth_set::signals::Signals;

/// Rings are looked at so often for one view: a ring that is written fast keeps its records for a
/// moment only.
const LOOKS: u32 = 4;

const EXAMPLES: &str = "\
Examples:
  hearth trace top
  hearth trace top --interval 5
  hearth trace top --once --json | jq '.processes[] | {pid, operations_per_s, lost}'

Exit codes: 0 done, 1 nothing is traced, 2 it could not be shown.";

/// Options of `hearth trace top`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Seconds that a view is about
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print one view and end
    #[arg(long)]
    once: bool,
    /// Print it for programs
    #[arg(long, requires = "once")]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("not from 0.1 to 3600".to_owned())
    }
}

/// Shows what is traced. Exit 1: nothing is.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let has_screen = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !args.once && !has_screen {
        let failure = Failure::new("cannot show what is traced: this is not a terminal");
        return Err(failure.hint("hearth trace top --once"));
    }
    let signals = Signals::catch(&[Signal::INT, Signal::TERM, Signal::HUP, Signal::WINCH])?;
    let areas = live()?;
    if areas.is_empty() {
        hearth_client::say!(
            "no process of this user can be traced; start one with `hearth trace run`"
        );
        return Ok(ExitCode::from(1));
    }
    let mut watch = Watch::start(&areas);
    if args.once {
        return once(args, &mut watch, &signals);
    }
    let terminal = Terminal::take()?;
    let shown = show(args.interval, &mut watch, &signals, &terminal);
    drop(terminal);
    shown.map(|()| ExitCode::SUCCESS)
}

fn once(args: &Args, watch: &mut Watch, signals: &Signals) -> Result<ExitCode, Failure> {
    let Some(view) = next(
        args.interval,
        watch,
        &mut || Ok(ended(signals)),
        &mut |left| wait(left, signals, None),
    )?
    else {
        return Ok(ExitCode::from(1));
    };
    if args.json {
        let text = serde_json::to_string(&view).or_fail(|| "cannot print the view".to_owned())?;
        print(&format!("{text}\n"))?;
    } else {
        print(&paint::text(&view))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows one view after another until somebody has seen enough.
fn show(
    interval: Duration,
    watch: &mut Watch,
    signals: &Signals,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut view = View::default();
    loop {
        let mut is_over = || {
            let is_over = ended(signals) || terminal.has_quit()?;
            // Again, since the terminal may have another size by now.
            terminal.draw(&paint::screen(&view, interval, terminal.size()))?;
            Ok(is_over)
        };
        let mut pause = |left| wait(left, signals, Some(terminal));
        match next(interval, watch, &mut is_over, &mut pause)? {
            Some(seen) => view = seen,
            None => return Ok(()),
        }
    }
}

/// Watches for one interval; nothing if it was ended before.
fn next(
    interval: Duration,
    watch: &mut Watch,
    is_over: &mut dyn FnMut() -> Result<bool, Failure>,
    pause: &mut dyn FnMut(Duration) -> Result<(), Failure>,
) -> Result<Option<View>, Failure> {
    let began = Instant::now();
    for step in 1..=LOOKS {
        let due = began + interval * step / LOOKS;
        loop {
            if is_over()? {
                return Ok(None);
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            pause(left)?;
        }
        watch.look(&live()?);
    }
    Ok(Some(watch.view()))
}

fn ended(signals: &Signals) -> bool {
    signals.take().iter().any(|signal| *signal != Signal::WINCH)
}

/// Waits for a key or a signal, but not longer than `left`.
fn wait(left: Duration, signals: &Signals, terminal: Option<&Terminal>) -> Result<(), Failure> {
    let stdin = io::stdin();
    let mut fds: Vec<PollFd<'_>> = signals
        .fds()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    if terminal.is_some() {
        fds.push(PollFd::new(&stdin, PollFlags::IN));
    }
    let left = Timespec {
        tv_sec: left.as_secs().cast_signed(),
        tv_nsec: left.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&left)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).or_fail(|| "cannot wait".to_owned()),
    }
}
