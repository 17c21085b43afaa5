//! Processes of a round: each is bounded in time, and ended by its own number.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

/// Hears of SIGINT and SIGTERM.
#[derive(Debug)]
pub(crate) struct Interrupts {
    hears: OwnedFd,
}

impl Interrupts {
    /// From now on these signals end nothing by themselves.
    pub(crate) fn new() -> io::Result<Interrupts> {
        let (hears, tells) = UnixStream::pair()?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::low_level::pipe::register(signal, tells.try_clone()?)?;
        }
        Ok(Interrupts {
            hears: hears.into(),
        })
    }

    /// Waits; fails once a signal came.
    pub(crate) fn pause(&self, wait: Duration) -> io::Result<()> {
        let mut fds = [PollFd::from_borrowed_fd(self.hears.as_fd(), PollFlags::IN)];
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&wait)) {
            Ok(0) => Ok(()),
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

/// How a bounded command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; `None` if it was ended for taking too long, or by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

/// A command that runs, whose words go to files, since what it leaves behind may keep a pipe open.
pub(crate) struct Running {
    child: Child,
    begun: Instant,
    out: File,
    err: File,
}

impl Running {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> io::Result<Running> {
        let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(err.try_clone()?)
            .spawn()?;
        Ok(Running {
            child,
            begun: Instant::now(),
            out,
            err,
        })
    }

    /// Waits for its end, and kills it when the time is over.
    pub(crate) fn wait(mut self, most: Duration) -> io::Result<Ended> {
        let code = wait_for(&mut self.child, most)?;
        if code.is_none() {
            let _ = self.child.kill();
            wait_for(&mut self.child, Duration::from_secs(2))?;
        }
        let mut texts = [String::new(), String::new()];
        for (text, file) in texts.iter_mut().zip([&mut self.out, &mut self.err]) {
            file.rewind()?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        let [out, err] = texts;
        Ok(Ended {
            code,
            out,
            err,
            took: self.begun.elapsed(),
        })
    }
}

/// Runs a command to its end, or to a bound.
pub(crate) fn bounded(command: &mut Command, most: Duration) -> io::Result<Ended> {
    Running::start(command)?.wait(most)
}

/// The exit code of a child that ends in time; below zero, the signal that ended it.
pub(crate) fn wait_for(child: &mut Child, most: Duration) -> io::Result<Option<i32>> {
    let end = Instant::now() + most;
    loop {
        if let Some(status) = child.try_wait()? {
            let by_signal = || -std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0);
            return Ok(Some(status.code().unwrap_or_else(by_signal)));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        // A signal to end does not shorten this: what was started is taken down in order.
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        let _ = poll(&mut [], Some(&wait));
    }
}

/// Sends a signal to a process by its number.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Functions in which the threads of a process wait, as far as the operating system tells.
pub(crate) fn stacks(pid: i32) -> String {
    let mut text = String::new();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return text;
    };
    for task in tasks.flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stack: Vec<String> = read("stack")
            .lines()
            .take(3)
            .map(|line| line.split("] ").nth(1).unwrap_or(line).to_owned())
            .collect();
        let name = read("comm");
        if stack
            .first()
            .is_some_and(|top| top.starts_with("futex") || top.starts_with("fuse_dev"))
        {
            continue;
        }
        text += &format!(
            "  {} {}: {}\n",
            task.file_name().to_string_lossy(),
            name.trim(),
            stack.join(" < ")
        );
    }
    text
}
