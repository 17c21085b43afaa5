//! The agent's process, from `hearth agent --config FILE` to its end.
//!
//! Its standard input is the socket that peers connect to, its standard output a pipe on which it
//! says once how its start went, its standard error a log. It ends when a command says so, on
//! SIGTERM or SIGINT, when its job's directory vanishes, and with the command that owns it; every
//! time what is dirty goes to the store first.

mod service;
mod start;
mod way_in;

pub(crate) use service::Health;
pub(crate) use start::{AgentConfig, Started};

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::io::Errno;
use rustix::process::Signal;

use crate::control::Listener;
use crate::failure::{Failure, OrFail};
use crate::signals::Signals;
use service::Service;

/// Runs an agent to its end.
pub(crate) fn run(config: &Path) -> Result<ExitCode, Failure> {
    let mut inherited = start::detach()?;
    let agent = match Running::start(config, inherited.listener) {
        Ok(agent) => agent,
        Err(failure) => {
            tell(&mut inherited.report, &Started::Failed(failure.clone()));
            return Err(failure);
        }
    };
    tell(&mut inherited.report, &Started::Ready);
    drop(inherited.report);
    log::info!("ready");
    let why = agent.serve()?;
    log::info!("ending: {why}");
    agent.end();
    Ok(ExitCode::SUCCESS)
}

fn tell(report: &mut File, started: &Started) {
    let mut line = serde_json::to_vec(started).expect("words are plain data");
    line.push(b'\n');
    if let Err(error) = report.write_all(&line) {
        log::warn!("nobody waits for this agent: {error}");
    }
}

/// Everything an agent waits for.
struct Running {
    service: Arc<Service>,
    listener: Listener,
    signals: Signals,
    /// Readable once a command has said stop.
    stopped: UnixStream,
    /// Readable once the job's directory has vanished.
    vanished: OwnedFd,
}

impl Running {
    fn start(config: &Path, peers: std::net::TcpListener) -> Result<Running, Failure> {
        let config = AgentConfig::read(config)?;
        start::die_with_owner(config.owner)?;
        let vanished = watch(&config.node.job_dir)
            .or_fail(|| format!("cannot watch `{}`", config.node.job_dir.display()))?;
        let socket = config.job_dir()?.socket(config.node.node);
        let (stopped, stop) = UnixStream::pair().or_fail(|| "cannot make a socket".to_owned())?;
        let service = Service::start(&config, peers, stop)?;
        // From here on there may be something to flush.
        let signals = Signals::catch(&[Signal::TERM, Signal::INT])?;
        let listener = Listener::bind(&socket)
            .or_fail(|| format!("cannot listen at `{}`", socket.display()))?;
        Ok(Running {
            service: Arc::new(service),
            listener,
            signals,
            stopped,
            vanished,
        })
    }

    /// Serves commands until there is a reason to end.
    fn serve(&self) -> Result<&'static str, Failure> {
        loop {
            let ready = self
                .wait()
                .or_fail(|| "cannot wait for commands".to_owned())?;
            if ready.stopped {
                return Ok("a command said so");
            }
            if ready.vanished {
                return Ok("the directory of its job vanished");
            }
            if !self.signals.take().is_empty() {
                return Ok("a signal came");
            }
            if ready.command {
                self.listener.accept(&self.service);
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let fixed = [
            self.listener.as_fd(),
            self.stopped.as_fd(),
            self.vanished.as_fd(),
        ];
        let all: Vec<BorrowedFd<'_>> = fixed.into_iter().chain(self.signals.fds()).collect();
        let mut polled: Vec<PollFd<'_>> = all
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |index: usize| !polled[index].revents().is_empty();
        Ok(Ready {
            command: is_ready(0),
            stopped: is_ready(1),
            vanished: is_ready(2),
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
    vanished: bool,
}

fn watch(dir: &Path) -> io::Result<OwnedFd> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    let ends = inotify::WatchFlags::DELETE_SELF | inotify::WatchFlags::MOVE_SELF;
    inotify::add_watch(&fd, dir, ends | inotify::WatchFlags::ONLYDIR)?;
    Ok(fd)
}
