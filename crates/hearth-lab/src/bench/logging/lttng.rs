//! LTTng-UST with the same 64 bytes, as it comes with the machine.

use super::driver::{Driver, Workload};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::process::Process;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// A tracing session with one program in it; destroyed when dropped.
pub(crate) struct Session {
    pub(crate) driver: Driver,
    _recording: Recording,
    output: PathBuf,
    /// Ours, unless one was running.
    _daemon: Option<Daemon>,
}

impl Session {
    /// Starts it; or why there is none.
    pub(crate) fn start(workload: &Workload, dir: &Path) -> Result<Session, String> {
        lttng(&["--version"]).map_err(|_| "lttng-tools is missing".to_owned())?;
        let program = workload.with_lttng()?;
        let daemon = match lttng(&["list"]) {
            Ok(()) => None,
            Err(_) => Some(Daemon::start(dir)?),
        };
        let output = dir.join("lttng");
        let recording = Recording::start(&output)?;
        let mut command = Command::new(program);
        // Until it is registered, its events are nobody's.
        command.arg("lttng").env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
        let driver = Driver::start(&mut command).map_err(|failure| failure.to_string())?;
        Ok(Session {
            driver,
            _recording: recording,
            output,
            _daemon: daemon,
        })
    }

    /// Ends it, and answers how many bytes it stored.
    pub(crate) fn end(self) -> Result<f64, Failure> {
        self.driver.end()?;
        drop(self._recording);
        let what = || "cannot measure what LTTng stored".to_owned();
        Ok(bytes_below(&self.output).or_fail(what)? as f64)
    }
}

/// A session in the daemon's books.
struct Recording {
    name: String,
}

impl Recording {
    fn start(output: &Path) -> Result<Recording, String> {
        let recording = Recording {
            name: format!("hearth-bench-{}", std::process::id()),
        };
        let name = recording.name.as_str();
        let output = output.display().to_string();
        lttng(&["create", name, "--output", &output])?;
        let sizes = ["--subbuf-size", "1M", "--num-subbuf", "8"];
        let channel = ["enable-channel", "-u", "-s", name, "c"];
        lttng(&[&channel[..], &sizes].concat())?;
        lttng(&[
            "enable-event",
            "-u",
            "-s",
            name,
            "-c",
            "c",
            "hearth_bench:io",
        ])?;
        lttng(&["start", name])?;
        Ok(recording)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // A session that is not there needs no end.
        let _ = lttng(&["stop", &self.name]);
        let _ = lttng(&["destroy", &self.name]);
    }
}

/// The daemon that gathers events.
struct Daemon(Process);

impl Daemon {
    fn start(dir: &Path) -> Result<Daemon, String> {
        let pid_file = dir.join("lttng-sessiond.pid");
        // Returns when the daemon is ready for orders.
        let status = Command::new("lttng-sessiond")
            .args(["--daemonize", "--no-kernel", "--pidfile"])
            .arg(&pid_file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("lttng-sessiond: {status}")),
            Err(error) => return Err(format!("lttng-sessiond: {error}")),
        }
        let pid = std::fs::read_to_string(pid_file).ok();
        let pid = pid.and_then(|text| text.trim().parse().ok());
        let process = pid.and_then(Process::of);
        process
            .map(Daemon)
            .ok_or("lttng-sessiond does not say which process it is".to_owned())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It ends its own helpers when asked; gone already is as good.
        let _ = self.0.signal(Signal::TERM);
        let _ = self.0.wait_gone(PATIENCE);
    }
}

fn lttng(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("lttng");
    let output = command.arg("--no-sessiond").args(args).output();
    let output = output.map_err(|error| format!("lttng: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "lttng {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

fn bytes_below(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_below(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}
