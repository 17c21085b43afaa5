//! The command's process: waited for, and told what this one is told.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitCode, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, pidfd_open, pidfd_send_signal};
use rustix::termios::tcgetpgrp;

use hearth_set::failure::{Failure, OrFail};
use hearth_set::signals::Signals;

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Exit {
    /// It ran.
    Ran(ExitStatus),
    /// It was not run, and people know.
    NotRun(ExitCode),
}

impl Exit {
    /// As a shell would tell it.
    pub(crate) fn code(self) -> ExitCode {
        match self {
            Exit::NotRun(code) => code,
            Exit::Ran(status) => {
                let code = status.code().or_else(|| Some(128 + status.signal()?));
                ExitCode::from(code.and_then(|code| code.try_into().ok()).unwrap_or(2))
            }
        }
    }
}

/// Waits for the command, and hands signals on to it.
pub(crate) fn wait(mut child: Child, signals: &Signals) -> Result<Exit, Failure> {
    pass_signals(&child, signals)
        .and_then(|()| child.wait())
        .map(Exit::Ran)
        .or_fail(|| "cannot wait for the command".to_owned())
}

/// Comes back once the command has ended.
fn pass_signals(child: &Child, signals: &Signals) -> io::Result<()> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        let all: Vec<BorrowedFd<'_>> = [process.as_fd()].into_iter().chain(signals.fds()).collect();
        let mut polled: Vec<PollFd<'_>> = all
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !polled[0].revents().is_empty() {
            return Ok(());
        }
        for signal in signals.take() {
            if matches!(signal, Signal::INT | Signal::QUIT) && came_from_terminal() {
                continue;
            }
            match pidfd_send_signal(&process, signal) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Ctrl-C and Ctrl-\\ go to everybody in the foreground of a terminal, so the command has had it already.
fn came_from_terminal() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp()))
}
