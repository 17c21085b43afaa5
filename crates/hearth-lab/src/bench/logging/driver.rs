//! The program in C that does what is measured, in bursts and on request.

use hearth_set::failure::{Failure, OrFail};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SOURCE: &str = include_str!("../../../../../workloads/logging.c");
const PROVIDER: &str = include_str!("../../../../../workloads/logging_lttng.h");

/// The program, built.
pub(crate) struct Workload {
    dir: PathBuf,
    program: PathBuf,
}

impl Workload {
    /// Builds it with the machine's C compiler.
    pub(crate) fn build(dir: &Path) -> Result<Workload, Failure> {
        let what = || format!("cannot write the workload's source to `{}`", dir.display());
        std::fs::write(dir.join("logging.c"), SOURCE).or_fail(what)?;
        std::fs::write(dir.join("logging_lttng.h"), PROVIDER).or_fail(what)?;
        let program = dir.join("logging");
        compile(dir, &program, &[]).map_err(|said| {
            Failure::new(format!("cannot build the workload: {said}")).hint("install gcc")
        })?;
        Ok(Workload {
            dir: dir.to_owned(),
            program,
        })
    }

    /// Builds it with LTTng's tracepoint; or why that cannot be.
    pub(crate) fn with_lttng(&self) -> Result<PathBuf, String> {
        let program = self.dir.join("logging-lttng");
        compile(
            &self.dir,
            &program,
            &["-DLTTNG", "-I.", "-llttng-ust", "-ldl"],
        )
        .map_err(|said| format!("liblttng-ust-dev is missing or of no use: {said}"))?;
        Ok(program)
    }

    /// A command that runs it.
    pub(crate) fn command(&self, mode: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(mode);
        command
    }
}

/// The first line of what the compiler said, if it failed.
fn compile(dir: &Path, program: &Path, more: &[&str]) -> Result<(), String> {
    let mut command = Command::new("cc");
    command.current_dir(dir).args(["-O3", "-o"]).arg(program);
    let output = command.arg("logging.c").args(more).output();
    let output = output.map_err(|error| format!("cc: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("error"));
    Err(line
        .or(said.lines().next())
        .unwrap_or("it says nothing")
        .to_owned())
}

/// The program, running; killed when dropped.
pub(crate) struct Driver {
    child: Child,
    /// Taken away when it is to end.
    orders: Option<ChildStdin>,
    words: BufReader<ChildStdout>,
}

impl Driver {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(command: &mut Command) -> Result<Driver, Failure> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.or_fail(|| "cannot start the workload".to_owned())?;
        let orders = child.stdin.take();
        let words = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut driver = Driver {
            child,
            orders,
            words,
        };
        match driver.hear()?.as_str() {
            "ready" => Ok(driver),
            other => Err(Failure::new(format!(
                "the workload is not ready: `{other}`"
            ))),
        }
    }

    /// Has it do a burst, and hears the figures.
    pub(crate) fn ask(&mut self, order: u64) -> Result<Vec<f64>, Failure> {
        let orders = self.orders.as_mut().expect("only its end takes them away");
        let told = writeln!(orders, "{order}").and_then(|()| orders.flush());
        told.or_fail(|| "cannot tell the workload what to do".to_owned())?;
        let line = self.hear()?;
        let what = || format!("cannot understand the workload: `{line}`");
        let figures = line.split(' ').map(str::parse).collect();
        Result::or_fail(figures, what)
    }

    /// Lets it end, and waits for that.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        drop(self.orders.take());
        let status = self.child.wait();
        let status = status.or_fail(|| "cannot wait for the workload".to_owned())?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!("the workload failed: {status}"))),
        }
    }

    fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let heard = self.words.read_line(&mut line);
        match heard.or_fail(|| "cannot hear the workload".to_owned())? {
            0 => Err(Failure::new("the workload ended before its time")),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
