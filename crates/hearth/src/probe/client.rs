//! A process that is told file operations ([`super::hand`]), seen from who tells it.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::op::{Answer, Facts, Kind, Mode, Op};
use hearth_set::failure::{Failure, OrFail};

/// No store of a healthy cluster takes so long for one call.
const CALL_MAX: Duration = Duration::from_secs(10);

/// Why an operation gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// The store's own error.
    Error(Errno),
    /// No answer in time, or none to expect.
    Silent,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Miss::Error(errno) => f.write_str(&name(*errno)),
            Miss::Silent => f.write_str("no answer"),
        }
    }
}

/// The name by which people know an error.
fn name(errno: Errno) -> String {
    let known = [
        (Errno::OPNOTSUPP, "EOPNOTSUPP"),
        (Errno::NOSYS, "ENOSYS"),
        (Errno::INVAL, "EINVAL"),
        (Errno::STALE, "ESTALE"),
        (Errno::NOENT, "ENOENT"),
        (Errno::PERM, "EPERM"),
        (Errno::ACCESS, "EACCES"),
        (Errno::NOLCK, "ENOLCK"),
        (Errno::AGAIN, "EAGAIN"),
        (Errno::NODEV, "ENODEV"),
        (Errno::IO, "EIO"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::BADF, "EBADF"),
        (Errno::EXIST, "EEXIST"),
        (Errno::NODATA, "ENODATA"),
        (Errno::XDEV, "EXDEV"),
    ];
    let found = known.iter().find(|(known, _)| *known == errno);
    found.map_or_else(|| errno.to_string(), |(_, name)| (*name).to_owned())
}

/// Result of an operation.
pub(super) type Told<T> = Result<T, Miss>;

/// One client. Its process ends with it.
pub(super) struct Client {
    child: Child,
    input: ChildStdin,
    answers: Receiver<io::Result<Answer>>,
    end: Instant,
    is_silent: bool,
    /// Put before every path.
    below: String,
    /// How its process is started.
    line: Vec<OsString>,
}

impl Client {
    /// A client that uses the store as this machine has it at `dir`.
    pub(super) fn here(dir: &Path, end: Instant) -> Result<Client, Failure> {
        let program = own_program()?.into_os_string();
        let line = [program, "doctor".into(), "--hand".into(), dir.into()];
        Client::start(line.to_vec(), end)
    }

    /// A client on another host, reached by a remote shell.
    pub(super) fn on(host: &str, dir: &Path, end: Instant) -> Result<Client, Failure> {
        let shell = std::env::var_os("HEARTH_RSH").unwrap_or_else(|| OsString::from("ssh"));
        let line = [
            quoted(&own_program()?),
            "doctor --hand".to_owned(),
            quoted(dir),
        ];
        Client::start(vec![shell, host.into(), line.join(" ").into()], end)
    }

    fn start(line: Vec<OsString>, end: Instant) -> Result<Client, Failure> {
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let what = || "cannot start a client of the store".to_owned();
        let mut child = command.spawn().or_fail(what)?;
        let input = child.stdin.take().ok_or_else(|| Failure::new(what()))?;
        let output = child.stdout.take().ok_or_else(|| Failure::new(what()))?;
        let (told, answers) = channel();
        // Ends with the process, whose output it reads.
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let answer = line.and_then(|line| Ok(serde_json::from_str(&line)?));
                // Nobody waits for the rest.
                if told.send(answer).is_err() {
                    return;
                }
            }
        });
        Ok(Client {
            child,
            input,
            answers,
            end,
            is_silent: false,
            below: String::new(),
            line,
        })
    }

    /// Starts a new process where the last one did not answer. The files that it had open are lost.
    pub(super) fn renew(&mut self) {
        if !self.is_silent {
            return;
        }
        if let Ok(mut new) = Client::start(self.line.clone(), self.end) {
            new.below.clone_from(&self.below);
            *self = new;
        }
    }

    /// From now on every path lies below this one.
    pub(super) fn go_below(&mut self, dir: &str) {
        self.below = format!("{dir}/");
    }

    /// A path as the other end knows it.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.below)
    }

    /// Has one operation done, its paths as they are.
    pub(super) fn call(&mut self, op: &Op) -> Told<Answer> {
        let left = self.end.saturating_duration_since(Instant::now());
        if self.is_silent || left.is_zero() {
            return Err(Miss::Silent);
        }
        let line = serde_json::to_string(op).map_err(|_| Miss::Silent)?;
        let sent = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        let answer = match sent {
            Ok(()) => self.answers.recv_timeout(left.min(CALL_MAX)),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(Ok(Answer::Failed(number))) => Err(Miss::Error(Errno::from_raw_os_error(number))),
            Ok(Ok(answer)) => Ok(answer),
            // A late answer would be taken for that of the next operation.
            Ok(Err(_)) | Err(_) => {
                self.is_silent = true;
                Err(Miss::Silent)
            }
        }
    }

    /// Has an operation done that gives nothing.
    pub(super) fn run(&mut self, op: &Op) -> Told<()> {
        self.call(op).map(drop)
    }

    pub(super) fn open(&mut self, slot: u32, path: &str, mode: Mode) -> Told<()> {
        let path = self.at(path);
        self.run(&Op::Open(slot, path, mode))
    }

    pub(super) fn close(&mut self, slot: u32) -> Told<()> {
        self.run(&Op::Close(slot))
    }

    pub(super) fn write(&mut self, slot: u32, at: u64, text: &str) -> Told<()> {
        self.run(&Op::Write(slot, at, text.to_owned()))
    }

    pub(super) fn read(&mut self, slot: u32, at: u64, len: usize) -> Told<String> {
        match self.call(&Op::Read(slot, at, len))? {
            Answer::Text(text) => Ok(text),
            _ => Err(Miss::Silent),
        }
    }

    pub(super) fn facts(&mut self, path: &str) -> Told<Facts> {
        let path = self.at(path);
        self.facts_by(&Op::Facts(path))
    }

    pub(super) fn facts_of(&mut self, slot: u32) -> Told<Facts> {
        self.facts_by(&Op::FactsOf(slot))
    }

    fn facts_by(&mut self, op: &Op) -> Told<Facts> {
        match self.call(op)? {
            Answer::Facts(facts) => Ok(facts),
            _ => Err(Miss::Silent),
        }
    }

    pub(super) fn number(&mut self, op: &Op) -> Told<u64> {
        match self.call(op)? {
            Answer::Number(number) => Ok(number),
            _ => Err(Miss::Silent),
        }
    }

    pub(super) fn lock(&mut self, slot: u32, kind: Kind, take: bool) -> Told<()> {
        self.run(&Op::Lock(slot, kind, take))
    }

    /// Makes a file with this in it, and closes it.
    pub(super) fn make(&mut self, path: &str, text: &str) -> Told<()> {
        const SLOT: u32 = u32::MAX;
        self.open(SLOT, path, Mode::Create)?;
        let written = self.write(SLOT, 0, text);
        self.close(SLOT)?;
        written
    }

    /// The content of a file, opened anew.
    pub(super) fn content(&mut self, path: &str) -> Told<String> {
        const SLOT: u32 = u32::MAX;
        self.open(SLOT, path, Mode::Read)?;
        let text = self.read(SLOT, 0, 4096);
        self.close(SLOT)?;
        text
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may hang in the store; that it is gone already is as good.
        self.child.kill().ok();
        if !self.is_silent {
            self.child.wait().ok();
        }
    }
}

fn own_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().or_fail(|| "cannot find this program's own file".to_owned())
}

/// For a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
