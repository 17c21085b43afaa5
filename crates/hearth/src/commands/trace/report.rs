//! `hearth trace report`.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hearth_report::{Report, analyse};
use hearth_trace::file::Reader;
use hearth_trace::{Event, Source, StreamId, Tables};

use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;

/// How often progress is shown.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  hearth trace report job.htrace
  hearth trace report job.htrace --html job.html
  hearth trace report traces/ --json | jq '.findings[] | {kind, seconds}'

Exit codes: 0 done, 2 the trace cannot be read. What is missing of a trace is said in the report.";

/// Options of `hearth trace report`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Trace files, or directories of them; read as one trace
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write one page for a browser to this file
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Print every number for programs
    #[arg(long)]
    json: bool,
    /// Print text, which is what happens unless `--html` or `--json` is given
    #[arg(long, conflicts_with = "json")]
    text: bool,
}

/// Reads a trace once and shows the report in each way that is asked for.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let why = || "cannot report on the trace".to_owned();
    let mut reader = Reader::open(&args.files).or_fail(why)?;
    let mut report = analyse(Progress::new(&mut reader));
    add_missing(&mut report, reader.missing());
    if let Some(path) = &args.html {
        fs::write(path, report.html()).or_fail(|| format!("cannot write `{}`", path.display()))?;
        hearth_client::say!("wrote {}", path.display());
    }
    if args.json {
        print(&report.json())?;
    } else if args.text || args.html.is_none() {
        print(&report.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn add_missing(report: &mut Report, missing: &[String]) {
    for line in missing {
        if !report.loss.remarks.contains(line) {
            report.loss.remarks.push(line.clone());
        }
    }
}

/// A source whose reader sees how far it is, if there is a terminal.
struct Progress<S> {
    source: S,
    shown: Option<Instant>,
    read: u64,
}

impl<S: Source> Progress<S> {
    fn new(source: S) -> Progress<S> {
        Progress {
            source,
            shown: io::stderr().is_terminal().then(Instant::now),
            read: 0,
        }
    }
}

impl<S: Source> Source for Progress<S> {
    type Error = S::Error;

    fn tables(&self) -> &Tables {
        self.source.tables()
    }

    fn events_expected(&self) -> u64 {
        self.source.events_expected()
    }

    fn each_run(&mut self, take: &mut dyn FnMut(StreamId, &[Event])) -> Result<(), S::Error> {
        let expected = self.source.events_expected().max(1);
        let (shown, read) = (&mut self.shown, &mut self.read);
        let result = self.source.each_run(&mut |stream, events| {
            take(stream, events);
            *read += events.len() as u64;
            if shown.is_some_and(|last| last.elapsed() >= PROGRESS_PERIOD) {
                let percent = (*read * 100 / expected).min(100);
                draw(&format!("reading: {percent} %"));
                *shown = Some(Instant::now());
            }
        });
        if shown.is_some() {
            draw("");
        }
        result
    }
}

/// Replaces the line at the terminal. That nobody sees it is no failure.
fn draw(line: &str) {
    let mut out = io::stderr().lock();
    let _ = write!(out, "\r\x1b[K{line}").and_then(|()| out.flush());
}
