//! A log client and a log server, as processes of their own.

use super::pause;
use crate::hearth::hearth;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::process::Process;
use hearth_trace::area::DIRECTORY_VARIABLE;
use hearth_trace::file::Reader;
use hearth_trace::{Event, Source};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// After so long both have come to rest.
const START: Duration = Duration::from_millis(300);
/// A client brings what it has to its server every second.
const QUIET: Duration = Duration::from_millis(1300);
const PATIENCE: Duration = Duration::from_secs(60);

/// Both.
pub(crate) struct Pair {
    server: Helper,
    client: Helper,
    output: PathBuf,
    /// Nanoseconds that client and server had run when they had come to rest.
    before: (u64, u64),
}

/// How long both have run since they came to rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    pub(crate) client_ns: f64,
    pub(crate) server_ns: f64,
}

impl Pair {
    /// Sends what is in `areas` to files in `output`.
    pub(crate) fn start(areas: &Path, output: &Path, spill: &Path) -> Result<Pair, Failure> {
        let mut server = Helper::start("serve", |command| {
            command.arg("-o").arg(output);
        })?;
        let addr = server.hear()?;
        let client = Helper::start("client", |command| {
            command.args(["--server", &addr, "--secret"]);
            command.arg(output.join("secret")).arg("--spill").arg(spill);
            command.env(DIRECTORY_VARIABLE, areas);
        })?;
        pause(START);
        Ok(Pair {
            before: (client.busy_ns()?, server.busy_ns()?),
            server,
            client,
            output: output.to_owned(),
        })
    }

    /// Waits until the server has all, and tells how long both have run for it.
    pub(crate) fn settle(&self) -> Result<Busy, Failure> {
        pause(QUIET);
        Ok(Busy {
            client_ns: (self.client.busy_ns()? - self.before.0) as f64,
            server_ns: (self.server.busy_ns()? - self.before.1) as f64,
        })
    }

    /// Ends both, and reads what was stored.
    pub(crate) fn end(self) -> Result<Stored, Failure> {
        self.client.end()?;
        self.server.end()?;
        stored_in(&self.output)
    }
}

/// `hearth trace serve` or `client`; ended when dropped.
struct Helper {
    child: Child,
}

impl Helper {
    fn start(name: &str, more: impl FnOnce(&mut Command)) -> Result<Helper, Failure> {
        let what = || format!("cannot start hearth trace {name}");
        let mut command = Command::new(hearth()?);
        command.args(["trace", name]);
        more(&mut command);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.stdout(Stdio::piped()).spawn().or_fail(what)?;
        Ok(Helper { child })
    }

    /// The first line that it prints.
    fn hear(&mut self) -> Result<String, Failure> {
        let what = || "cannot hear the log server".to_owned();
        let out = self.child.stdout.take();
        let out = out.expect("its output is a pipe, and heard once");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).or_fail(what)?;
        Ok(line.trim().to_owned())
    }

    /// Nanoseconds that its threads have run.
    fn busy_ns(&self) -> Result<u64, Failure> {
        let what = || "cannot learn how long a process has run".to_owned();
        let mut sum = 0;
        let tasks = PathBuf::from(format!("/proc/{}/task", self.child.id()));
        for task in std::fs::read_dir(tasks).or_fail(what)? {
            let text = task.and_then(|task| std::fs::read_to_string(task.path().join("schedstat")));
            let text = text.or_fail(what)?;
            let ns = text
                .split(' ')
                .next()
                .and_then(|word| word.parse::<u64>().ok());
            sum += ns.ok_or_else(|| Failure::new(what()))?;
        }
        Ok(sum)
    }

    /// Has it finish, and waits for that.
    fn end(mut self) -> Result<(), Failure> {
        let what = || "cannot end the log client or server".to_owned();
        if let Some(process) = Process::of(self.child.id()) {
            process.signal(Signal::TERM).or_fail(what)?;
            process.wait_gone(PATIENCE).or_fail(what)?;
        }
        match self.child.try_wait().or_fail(what)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Failure::new(format!("{}: {status}", what()))),
            None => Err(Failure::new("the log client or server does not end")),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Contents of a log server, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) records: u64,
    pub(crate) attempted: u64,
    pub(crate) dropped: u64,
    pub(crate) torn: u64,
    pub(crate) bytes: u64,
}

/// Reads all the traces in a directory.
fn stored_in(directory: &Path) -> Result<Stored, Failure> {
    let what = || "cannot read what the log server stored".to_owned();
    let mut traces = Vec::new();
    let mut stored = Stored::default();
    for entry in std::fs::read_dir(directory).or_fail(what)? {
        let path = entry.or_fail(what)?.path();
        if path.extension().is_some_and(|ending| ending == "htrace") {
            stored.bytes += std::fs::metadata(&path).or_fail(what)?.len();
            traces.push(path);
        }
    }
    let mut reader = Reader::open(&traces).or_fail(what)?;
    let mut count = |_, run: &[Event]| stored.records += run.len() as u64;
    reader.each_run(&mut count).or_fail(what)?;
    for stream in &reader.tables().streams {
        stored.attempted += stream.attempted;
        stored.dropped += stream.dropped;
        stored.torn += stream.torn;
    }
    Ok(stored)
}
