//! The processes of a workload.

use super::{IoTimes, ProcessReport};
use crate::failure::{Failure, OrFail};
use crate::signals::Signals;
use crate::watch::wait_for;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Processes that work together, one per directory.
pub struct WorkerGroup<'a> {
    hands: Vec<Hand>,
    signals: &'a Signals,
}

struct Hand {
    child: Child,
    orders: ChildStdin,
    words: BufReader<ChildStdout>,
}

impl<'a> WorkerGroup<'a> {
    /// Starts one process of `program` per directory, each in its own view of the same files. A signal ends every wait
    /// for them.
    pub fn start(
        program: &str,
        dirs: &[PathBuf],
        size: usize,
        signals: &'a Signals,
    ) -> Result<WorkerGroup<'a>, Failure> {
        let what = || "cannot start a process of the workload".to_owned();
        let this = std::env::current_exe().or_fail(what)?;
        let mut workers = WorkerGroup {
            hands: Vec::new(),
            signals,
        };
        for (rank, dir) in dirs.iter().enumerate() {
            let mut command = Command::new(&this);
            command.args(["workload", program, "--dir"]).arg(dir);
            command.args(["--rank", &rank.to_string(), "--of", &dirs.len().to_string()]);
            command.args(["--size", &size.to_string()]);
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .or_fail(what)?;
            let orders = child.stdin.take().expect("stdin is a pipe");
            let words = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
            workers.hands.push(Hand {
                child,
                orders,
                words,
            });
        }
        Ok(workers)
    }

    /// Waits until every process has ended its phase, then lets all go on.
    pub fn phase(&mut self) -> Result<(), Failure> {
        self.wait()?;
        self.go()
    }

    /// Lets all go on, and waits until they have ended that phase.
    pub fn phase_from_here(&mut self) -> Result<(), Failure> {
        self.go()?;
        self.wait()
    }

    /// Waits until every process has ended its phase.
    pub fn wait(&mut self) -> Result<(), Failure> {
        self.hands
            .iter_mut()
            .try_for_each(|hand| hand.hear(self.signals).map(drop))
    }

    /// Lets all go on.
    pub fn go(&mut self) -> Result<(), Failure> {
        for hand in &mut self.hands {
            let told = writeln!(hand.orders, "go").and_then(|()| hand.orders.flush());
            told.or_fail(|| "cannot tell a process to go on".to_owned())?;
        }
        Ok(())
    }

    /// Waits for the end of all. The times are sums over the processes; their calls follow one another.
    pub fn end(mut self) -> Result<ProcessReport, Failure> {
        let mut reports = Vec::new();
        for hand in &mut self.hands {
            let line = hand.hear(self.signals)?;
            let what = || format!("cannot understand a process of the workload: `{line}`");
            reports.push(serde_json::from_str::<ProcessReport>(&line).or_fail(what)?);
        }
        let times: Vec<IoTimes> = reports.iter().map(|report| report.times).collect();
        Ok(ProcessReport {
            times: IoTimes::sum(&times),
            right: reports.iter().all(|report| report.right),
            calls_ns: reports.into_iter().flat_map(|one| one.calls_ns).collect(),
        })
    }
}

impl Hand {
    fn hear(&mut self, signals: &Signals) -> Result<String, Failure> {
        let mut line = String::new();
        if self.words.buffer().is_empty() {
            wait_for(self.words.get_ref(), signals)?;
        }
        let heard = self.words.read_line(&mut line);
        let count = heard.or_fail(|| "cannot hear a process of the workload".to_owned())?;
        if count == 0 {
            return Err(Failure::new(
                "a process of the workload ended before its time",
            ));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for WorkerGroup<'_> {
    fn drop(&mut self) {
        for hand in &mut self.hands {
            // One that has ended already is only taken in.
            let _ = hand.child.kill();
            let _ = hand.child.wait();
        }
    }
}
