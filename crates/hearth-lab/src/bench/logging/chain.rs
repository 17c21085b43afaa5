//! Records from the threads that make them to the disk of a log server, through a real log client: the
//! processor time of all that, and the bytes.
//!
//! The operations are those of a generated parallel job; four threads make them at a steady pace. The
//! clock is read twice for each, as for a real call, but the times recorded are the generated ones,
//! which are as irregular as real ones.

use super::pair::Pair;
use super::{Place, pause};
use hearth_set::failure::Failure;
use hearth_set::output::progress;
use hearth_set::report::{BenchReport, median, rounded};
use hearth_set::signals::Signals;
use hearth_set::watch::stop_if_told;
use hearth_trace::clock::{self, Calibration};
use hearth_trace::generate::{Mix, files};
use hearth_trace::ring::{OpFacts, tracer};
use hearth_trace::{Layer, Op, Record};
use std::hint::black_box;
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
/// Between bursts of one thread.
const PERIOD: Duration = Duration::from_millis(2);

/// Operations a second, and the key of what is measured at that rate.
const RATES: [u64; 2] = [200_000, 50_000];

/// Measures at each rate for `span`; this process must be traced already, and drained by nobody.
pub(crate) fn measure(
    place: &Place,
    span: Duration,
    signals: &Signals,
    report: &mut BenchReport,
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
    /// The server has exactly what was made.
    is_whole: bool,
}

fn at_rate(place: &Place, rate: u64, span: Duration) -> Result<Cost, Failure> {
    let output = place.work.join(format!("served-{rate}"));
    let pair = Pair::start(&place.areas, &output, &place.work)?;
    let made = produce(rate, span)?;
    let busy = pair.settle()?;
    let stored = pair.end()?;
    Ok(Cost {
        events: made.events,
        dropped: made.events.saturating_sub(stored.records),
        producer_ns: made.ns_of_one,
        client_ns: busy.client_ns,
        server_ns: busy.server_ns,
        bytes: stored.bytes,
        is_whole: stored.records == made.events,
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

fn call(record: &Record, ids: &[u32]) -> (u64, u64, OpFacts) {
    let done = OpFacts {
        layer: Layer::App,
        flags: record.flags,
        offset: record.offset,
        asked: record.asked_bytes(),
        result: record.outcome(),
        file: ids.get(record.file as usize).copied().unwrap_or(0),
        request: record.request,
        near: record.near,
        ..OpFacts::new(Op::from_code(record.op).unwrap_or(Op::Stat))
    };
    (record.start, record.start + record.ticks(), done)
}
