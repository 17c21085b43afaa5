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
use std::time::Instant;

use hearth_agent::WaitWords;
use hearth_trace::ring::{Options, tracer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::io::Errno;

use self::spare::Spare;
use crate::pool;
use hearth_set::agent::{AgentConfig, StartWord, Started};
use hearth_set::control::Listener;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::signals::{self, Signals};
use lender::Lender;
use service::Service;

/// Runs an agent to its end.
pub(crate) fn run(config: &Path) -> Result<ExitCode, Failure> {
    let mut inherited = start::detach()?;
    start::lift_limits()?;
    let agent = match Running::start(config, (inherited.listener, waits(&inherited.report)?)) {
        Ok(agent) => agent,
        Err(failure) => {
            let failed = StartWord::Over(Started::Failed(failure.clone()));
            tell(&mut inherited.report, &failed);
            return Err(failure);
        }
    };
    tell(&mut inherited.report, &StartWord::Over(Started::Ready));
    drop(inherited.report);
    log::info!("ready");
    let why = agent.serve()?;
    log::info!("ending: {why}");
    agent.end();
    Ok(ExitCode::SUCCESS)
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
    listener: Listener,
    lender: Lender,
    write_rings: Lender,
    signals: Signals,
    /// Readable once a command has said stop.
    stopped: UnixStream,
    sentinel: Sentinel,
}

impl Running {
    fn start(config: &Path, peers: (OwnedFd, WaitWords)) -> Result<Running, Failure> {
        let sentinel =
            Sentinel::watch(config).or_fail(|| format!("cannot watch `{}`", config.display()))?;
        let config = AgentConfig::read(config)?;
        start::die_with_owner(config.owner)?;
        let socket = config.job_dir()?.socket(config.node.node);
        let (stopped, stop) = UnixStream::pair().or_fail(|| "cannot make a socket".to_owned())?;
        trace();
        // Before the others are awaited: an address that is taken is told at once.
        let metrics = config.metrics.map(metrics::Server::bind).transpose()?;
        let told_at = metrics.as_ref().map(metrics::Server::address).transpose()?;
        let service = Arc::new(Service::start(&config, peers, stop, told_at)?);
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
        Ok(Running {
            service,
            listener,
            lender,
            write_rings,
            signals,
            stopped,
            sentinel,
        })
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
