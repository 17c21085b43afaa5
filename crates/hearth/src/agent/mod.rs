//! The agent's process, from `hearth agent --config FILE` to its end.
//!
//! Its standard input is the socket that peers connect to. Its standard output is a pipe on which it says once how its
//! start went. Its standard error is a log. It ends when a command says so, on a signal that ends commands, when its job's
//! directory vanishes, and with the command that owns it. Each time the dirty bytes go to the store first.

mod lender;
mod metrics;
mod served_mount;
mod service;
mod spare;
mod start;
mod warden;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use hearth_agent::WaitWords;
use hearth_trace::ring::{Options, tracer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

use self::spare::Spare;
use self::start::Inherited;
use self::warden::{Again, Beginning, Run, Warden};
use crate::pool;
use hearth_set::agent::{AgentConfig, StartWord, Started};
use hearth_set::control::Listener;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::process::Process;
use hearth_set::signals::{self, Signals};
use lender::Lender;
use service::Service;

/// Runs an agent to its end.
pub(crate) fn run(config: &Path) -> Result<ExitCode, Failure> {
    let inherited = start::detach()?;
    start::lift_limits()?;
    let (warden, beginning) = warden::start(config, inherited);
    match beginning {
        Beginning::First(inherited, process) => {
            begin(config, inherited, (warden, process))?.serve_to_the_end()
        }
        Beginning::Again(again) => begin_again(config.to_owned(), again, warden),
    }
}

/// A command waits for the word how it went.
fn begin(
    config: &Path,
    mut inherited: Inherited,
    (warden, process): (Warden, Option<Process>),
) -> Result<Running, Failure> {
    let started = AgentConfig::read(config).and_then(|told| {
        start::die_with_owner(told.owner)?;
        let waits = waits(&inherited.report)?;
        Running::start(config, &told, ((inherited.listener, waits), warden))
    });
    let said = match &started {
        Ok(_) => Started::Ready { warden: process },
        Err(failure) => Started::Failed(failure.clone()),
    };
    tell(&mut inherited.report, &StartWord::Over(said));
    started
}

/// In the place of an agent that is dead. On another thread, as the library does not know this process's first one.
fn begin_again(config: PathBuf, again: Again, warden: Warden) -> Result<ExitCode, Failure> {
    let life = move || take_place(&config, again, warden)?.serve_to_the_end();
    let thread = thread::Builder::new().name("agent".to_owned()).spawn(life);
    let thread = thread.or_fail(|| "cannot start a thread".to_owned())?;
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err(Failure::new("the agent panicked")))
}

fn take_place(config: &Path, again: Again, warden: Warden) -> Result<Running, Failure> {
    log::warn!("this agent takes the place of one that died");
    let mut told = AgentConfig::read(config)?;
    told.node.incarnation = again.last.incarnation + 1;
    told.node.succeeds = again.are_over.then_some(again.last.number);
    let dir = told.job_dir()?;
    start::register(&dir, told.node.node)?;
    let socket = dir.socket(told.node.node);
    start::clear_sockets([
        &socket,
        &pool::socket_of(&socket),
        &pool::write_rings_of(&socket),
    ]);
    let peers = start::listen(&told.node)?;
    // No command waits.
    let peers = (peers, WaitWords::default());
    let running = Running::start(config, &told, (peers, warden))?;
    if let Some(held) = again.held
        && let Err(failure) = running.service.take_over(&held)
    {
        // Its programs have lost it; this node's memory still serves others.
        log::error!("{}", failure.in_a_line());
        warden.lose_mount();
    }
    Ok(running)
}

/// Begins to record what this agent does, if the environment says so.
fn trace() {
    let wanted = std::env::var_os("HEARTH_TRACE");
    if wanted.is_none_or(|word| ["", "0", "no", "off"].iter().any(|no| word == *no)) {
        return;
    }
    if let Err(error) = tracer::start(Options::default()) {
        log::warn!("this agent is not traced: {error}");
    }
}

/// Hands on what the start waits for.
fn waits(report: &File) -> Result<WaitWords, Failure> {
    let report = report.try_clone();
    let report = report.or_fail(|| "cannot report how the start goes".to_owned())?;
    Ok(WaitWords::to(move |words| {
        // Nobody may wait for it any more, which shows at its end.
        if let Ok(mut report) = report.try_clone() {
            tell(&mut report, &StartWord::Waits(words));
        }
    }))
}

fn tell(report: &mut File, word: &StartWord) {
    let mut line = serde_json::to_vec(word).expect("words are plain data");
    line.push(b'\n');
    if let Err(error) = report.write_all(&line) {
        log::warn!("nobody waits for this agent: {error}");
    }
}

/// Everything an agent waits for.
struct Running {
    service: Arc<Service>,
    warden: Warden,
    listener: Listener,
    lender: Lender,
    write_rings: Lender,
    signals: Signals,
    /// Readable once a command has said stop.
    stopped: UnixStream,
    sentinel: Sentinel,
}

impl Running {
    fn start(
        file: &Path,
        config: &AgentConfig,
        (peers, warden): ((OwnedFd, WaitWords), Warden),
    ) -> Result<Running, Failure> {
        let sentinel =
            Sentinel::watch(file).or_fail(|| format!("cannot watch `{}`", file.display()))?;
        let socket = config.job_dir()?.socket(config.node.node);
        let (stopped, stop) = UnixStream::pair().or_fail(|| "cannot make a socket".to_owned())?;
        trace();
        // Before the others are awaited: an address that is taken is told at once.
        let metrics = config.metrics.map(metrics::Server::bind).transpose()?;
        let told_at = metrics.as_ref().map(metrics::Server::address).transpose()?;
        let ways = (stop, warden);
        let service = Arc::new(Service::start(config, peers, ways, told_at)?);
        // From here on there may be something to flush.
        let signals = Signals::catch(signals::ENDS)?;
        let listener = Listener::bind(&socket)
            .or_fail(|| format!("cannot listen at `{}`", socket.display()))?;
        let pool = pool::socket_of(&socket);
        let lender =
            Lender::bind(&pool).or_fail(|| format!("cannot listen at `{}`", pool.display()))?;
        let write_rings = pool::write_rings_of(&socket);
        let write_rings = Lender::bind(&write_rings)
            .or_fail(|| format!("cannot listen at `{}`", write_rings.display()))?;
        if let Some(server) = metrics {
            server.serve(metrics::Page::of(Arc::downgrade(&service)))?;
        }
        warden.ready(Run {
            incarnation: config.node.incarnation,
            number: service.run(),
        });
        Ok(Running {
            service,
            warden,
            listener,
            lender,
            write_rings,
            signals,
            stopped,
            sentinel,
        })
    }

    /// Serves, and ends in order.
    fn serve_to_the_end(self) -> Result<ExitCode, Failure> {
        log::info!("ready");
        let why = self.serve()?;
        log::info!("ending: {why}");
        self.end();
        Ok(ExitCode::SUCCESS)
    }

    /// Serves commands until there is a reason to end.
    fn serve(&self) -> Result<&'static str, Failure> {
        let mut spare = Spare::default();
        let mut looked = Instant::now();
        loop {
            if looked.elapsed() >= spare::EACH {
                spare.give_back();
                looked = Instant::now();
            }
            let ready = self
                .wait()
                .or_fail(|| "cannot wait for commands".to_owned())?;
            if ready.stopped {
                return Ok("a command said so");
            }
            if ready.files_gone && self.sentinel.has_vanished() {
                return Ok("the directory of its job vanished");
            }
            if !self.signals.take().is_empty() {
                return Ok("a signal came");
            }
            if ready.command {
                self.listener.accept(&self.service);
            }
            if ready.program {
                self.lender.accept(&self.service);
            }
            if ready.writer {
                self.write_rings.accept_write_ring(&self.service);
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let fixed = [
            self.listener.as_fd(),
            self.stopped.as_fd(),
            self.sentinel.events.as_fd(),
            self.lender.as_fd(),
            self.write_rings.as_fd(),
        ];
        let all: Vec<BorrowedFd<'_>> = fixed.into_iter().chain(self.signals.fds()).collect();
        let mut polled: Vec<PollFd<'_>> = all
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        let span = Timespec {
            tv_sec: spare::EACH.as_secs() as i64,
            tv_nsec: 0,
        };
        match poll(&mut polled, Some(&span)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |index: usize| !polled[index].revents().is_empty();
        Ok(Ready {
            command: is_ready(0),
            stopped: is_ready(1),
            files_gone: is_ready(2),
            program: is_ready(3),
            writer: is_ready(4),
        })
    }

    fn end(self) {
        self.warden.ends();
        drop(self.listener);
        self.service.end();
    }
}

struct Ready {
    command: bool,
    stopped: bool,
    files_gone: bool,
    program: bool,
    writer: bool,
}

/// Tells when the directory of the job has vanished. It watches the agent's own configuration file: the directory
/// itself is never quite gone while this process keeps its log in it open.
struct Sentinel {
    file: PathBuf,
    events: OwnedFd,
}

impl Sentinel {
    fn watch(file: &Path) -> io::Result<Sentinel> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let events = inotify::init(flags)?;
        let ends = inotify::WatchFlags::DELETE | inotify::WatchFlags::MOVED_FROM;
        let moved = inotify::WatchFlags::MOVE_SELF | inotify::WatchFlags::DELETE_SELF;
        let dir = file.parent().unwrap_or(Path::new("/"));
        inotify::add_watch(&events, dir, ends | moved | inotify::WatchFlags::ONLYDIR)?;
        let file = file.to_owned();
        Ok(Sentinel { file, events })
    }

    /// Takes in what has happened and looks.
    fn has_vanished(&self) -> bool {
        let mut buffer = [0; 4096];
        while rustix::io::read(&self.events, &mut buffer).is_ok_and(|count| count > 0) {}
        !self.file.exists()
    }
}
