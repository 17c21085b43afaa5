//! Records from the threads that make them to the disk of a log server, through a real log client: the
//! processor time of all that, and the bytes.
//!
//! The operations are those of a generated parallel job; four threads make them at a steady pace. The
//! clock is read twice for each, as for a real call, but the times recorded are the generated ones,
//! which are as irregular as real ones.

use super::{Place, pause, stop_if_told};
use crate::bench::progress;
use crate::bench::report::{Report, median, rounded};
use crate::failure::{Failure, OrFail};
use crate::process::Process;
use crate::signals::Signals;
use hearth_trace::clock::{self, Calibration};
use hearth_trace::file::Reader;
use hearth_trace::generate::{Mix, files};
use hearth_trace::ring::{Done, tracer};
use hearth_trace::{Layer, Op, Record, Source};
use rustix::process::Signal;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
/// Between bursts of one thread.
const PERIOD: Duration = Duration::from_millis(2);
/// A client brings what it has to its server at least this often; after twice this it has all.
const QUIET: Duration = Duration::from_millis(2200);
const PATIENCE: Duration = Duration::from_secs(60);

/// Operations a second, and the key of what is measured at that rate.
const RATES: [u64; 2] = [200_000, 50_000];

/// Measures at each rate for `span`; this process must be traced already, and drained by nobody.
pub(crate) fn measure(
    place: &Place,
    span: Duration,
    signals: &Signals,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut verified = true;
    for rate in RATES {
        stop_if_told(signals)?;
        progress(&format!("{rate} operations a second, from ring to disk"));
        let cost = at_rate(place, rate, span)?;
        verified &= cost.is_whole;
        let case = format!("{rate} operations/s");
        let events = cost.events as f64;
        for (system, ns) in [
            ("program", cost.producer_ns),
            ("log client", cost.client_ns / events),
            ("log server", cost.server_ns / events),
        ] {
            report.row(system, &case, "processor time of an event", ns, "ns");
        }
        report.row("all", &case, "events", events, "");
        report.row("all", &case, "dropped", cost.dropped as f64, "");
        let bytes = cost.bytes as f64 / events;
        report.row("log server", &case, "bytes of an event", bytes, "B");
        let whole = cost.producer_ns + (cost.client_ns + cost.server_ns) / events;
        let percent = whole * rate as f64 / 1e7;
        report.row("all", &case, "share of one processor", percent, "%");
        match rate {
            50_000 => report.sum_up("cpu_percent_at_50k", rounded(percent)),
            _ => {
                report.sum_up("cpu_ns_per_event", rounded(whole));
                report.sum_up("bytes_per_event", rounded(bytes));
                report.sum_up("events_dropped", cost.dropped);
            }
        }
    }
    if !verified {
        report.sum_up("verified", false);
    }
    Ok(())
}

struct Cost {
    events: u64,
    dropped: u64,
    producer_ns: f64,
    client_ns: f64,
    server_ns: f64,
    bytes: u64,
    /// What the server has is what was made.
    is_whole: bool,
}

fn at_rate(place: &Place, rate: u64, span: Duration) -> Result<Cost, Failure> {
    let output = place.work.join(format!("served-{rate}"));
    let mut server = Helper::start(&["serve", "-o"], &output, place)?;
    let addr = server.hear()?;
    let secret = output.join("secret");
    let args = ["client", "--server", &addr, "--secret"];
    let client = Helper::start(&args, &secret, place)?;
    // Let both come to rest, so that their start is not measured.
    pause(Duration::from_millis(300));
    let before = (client.busy_ns()?, server.busy_ns()?);
    let made = produce(rate, span)?;
    pause(QUIET);
    let after = (client.busy_ns()?, server.busy_ns()?);
    client.end()?;
    server.end()?;
    let (stored, bytes) = stored_in(&output)?;
    Ok(Cost {
        events: made.events,
        dropped: made.events.saturating_sub(stored),
        producer_ns: made.ns_of_one,
        client_ns: (after.0 - before.0) as f64,
        server_ns: (after.1 - before.1) as f64,
        bytes,
        is_whole: stored == made.events,
    })
}

struct Made {
    events: u64,
    ns_of_one: f64,
}

/// Has all threads make operations for `span`.
fn produce(rate: u64, span: Duration) -> Result<Made, Failure> {
    let first = clock::sync_point();
    let threads: Vec<_> = (0..THREADS)
        .map(|rank| std::thread::spawn(move || thread(rank as u32, rate / THREADS, span)))
        .collect();
    let mut ticks = Vec::new();
    let mut events = 0;
    for thread in threads {
        let figures = thread.join().map_err(|_| Failure::new("a thread failed"))?;
        let burst = burst_of(rate / THREADS);
        events += figures.len() as u64 * burst;
        ticks.extend(figures.into_iter().map(|ticks| ticks / burst as f64));
    }
    let line = Calibration::between(first, clock::sync_point());
    let per_second = line.map_or(1e9, |line| line.ticks_per_second());
    Ok(Made {
        events,
        ns_of_one: median(&ticks) * 1e9 / per_second,
    })
}

fn burst_of(rate: u64) -> u64 {
    rate * PERIOD.as_millis() as u64 / 1000
}

/// Ticks of each burst.
fn thread(rank: u32, rate: u64, span: Duration) -> Vec<f64> {
    let ids = file_ids(rank);
    let mut mix = Mix::new(rank, clock::now());
    let end = Instant::now() + span;
    let mut next = Instant::now();
    let mut figures = Vec::new();
    while next < end {
        let records: Vec<Record> = (0..burst_of(rate)).map(|_| mix.record()).collect();
        let calls: Vec<_> = records.iter().map(|record| call(record, &ids)).collect();
        let first = clock::now();
        for (started, ended, done) in &calls {
            if let Some(entered) = tracer::enter() {
                black_box((entered, clock::now()));
                tracer::record(*started, *ended, done);
            }
        }
        figures.push((clock::now() - first) as f64);
        next += PERIOD;
        pause(next.saturating_duration_since(Instant::now()));
    }
    figures
}

/// The ids of the mix's files in this process's trace.
fn file_ids(rank: u32) -> Vec<u32> {
    let count = files::SMALL + files::SMALL_COUNT;
    let path = |file| match file {
        files::OWN => format!("/scratch/out.{rank:05}"),
        _ => format!("/scratch/parameters/{file:04}"),
    };
    (0..count)
        .map(|file| tracer::file(path(file).as_bytes()))
        .collect()
}

fn call(record: &Record, ids: &[u32]) -> (u64, u64, Done) {
    let done = Done {
        layer: Layer::App,
        flags: record.flags,
        offset: record.offset,
        asked: record.asked_bytes(),
        result: record.outcome(),
        file: ids.get(record.file as usize).copied().unwrap_or(0),
        request: record.request,
        near: record.near,
        ..Done::new(Op::from_code(record.op).unwrap_or(Op::Stat))
    };
    (record.start, record.start + record.ticks(), done)
}

/// `hearth trace serve` or `client`; ended when dropped.
struct Helper {
    child: Child,
}

impl Helper {
    fn start(args: &[&str], last: &Path, place: &Place) -> Result<Helper, Failure> {
        let what = || format!("cannot start hearth trace {}", args[0]);
        let this = std::env::current_exe().or_fail(what)?;
        let mut command = Command::new(this);
        command.arg("trace").args(args).arg(last);
        if args[0] == "client" {
            command.arg("--spill").arg(&place.work);
        }
        command.env("HEARTH_TRACE_DIR", &place.areas);
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

/// Records and bytes of the traces in a directory.
fn stored_in(directory: &Path) -> Result<(u64, u64), Failure> {
    let what = || "cannot read what the log server stored".to_owned();
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(directory).or_fail(what)? {
        let path = entry.or_fail(what)?.path();
        if path.extension().is_some_and(|ending| ending == "htrace") {
            traces.push(path);
        }
    }
    let mut reader = Reader::open(&traces).or_fail(what)?;
    let mut records = 0;
    let mut count = |_, run: &[hearth_trace::Event]| records += run.len() as u64;
    reader.each_run(&mut count).or_fail(what)?;
    let bytes = traces.iter().map(|path| Ok(std::fs::metadata(path)?.len()));
    let bytes: std::io::Result<u64> = bytes.sum();
    Ok((records, bytes.or_fail(what)?))
}
