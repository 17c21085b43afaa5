//! The activity that was seen during one interval.

use std::collections::HashMap;

use hearth_trace::Op;
use hearth_trace::clock::Calibration;
use serde::Serialize;

use super::watch::{Activity, Sum};

/// Files in a view; there may be millions.
const FILES: usize = 50;

/// All that was seen.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct View {
    /// How long was watched.
    pub(super) seconds: f64,
    pub(super) total: Rates,
    /// The busiest first, as in all lists.
    pub(super) processes: Vec<Process>,
    /// Of what has records, the busiest.
    pub(super) files: Vec<File>,
    pub(super) operations: Vec<Operation>,
}

/// The rates of a process, or of all of them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Rates {
    /// Exact.
    pub(super) operations: u64,
    pub(super) operations_per_s: f64,
    pub(super) read_bytes_per_s: f64,
    pub(super) written_bytes_per_s: f64,
    /// Operations that were counted only.
    pub(super) lost: u64,
    /// Bytes, time, files and the mix are from a part of the records: others were overwritten before
    /// they could be looked at.
    pub(super) sampled: bool,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) rank: Option<u32>,
    pub(super) program: String,
    pub(super) recording: bool,
    pub(super) threads: usize,
    #[serde(flatten)]
    pub(super) rates: Rates,
    /// Of the time of its threads; nothing if its clock is not this one's.
    pub(super) io_share: Option<f64>,
}

/// One file, of all processes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct File {
    /// Nothing: files whose name was lost.
    pub(super) path: Option<String>,
    pub(super) operations_per_s: f64,
    pub(super) read_bytes_per_s: f64,
    pub(super) written_bytes_per_s: f64,
    /// Seconds in its operations for each second.
    pub(super) busy: f64,
}

/// One operation, of all processes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Operation {
    pub(super) operation: &'static str,
    pub(super) operations_per_s: f64,
    /// Mean time of one.
    pub(super) mean_us: f64,
    /// Of the time in all operations.
    pub(super) time_share: f64,
}

/// Facts about a process beside what it did.
pub(super) struct Who {
    pub(super) pid: u32,
    pub(super) rank: Option<u32>,
    pub(super) program: String,
    pub(super) recording: bool,
}

/// Makes a view.
pub(super) struct Maker {
    seconds: f64,
    ticks_per_second: f64,
    view: View,
    files: HashMap<Option<String>, Sum>,
    operations: HashMap<Op, Sum>,
}

impl Maker {
    /// For what was seen during so many ticks.
    pub(super) fn new(ticks: u64, clock: Calibration) -> Maker {
        let ticks_per_second = clock.ticks_per_second();
        let seconds = ticks as f64 / ticks_per_second;
        Maker {
            seconds,
            ticks_per_second,
            view: View {
                seconds,
                ..View::default()
            },
            files: HashMap::new(),
            operations: HashMap::new(),
        }
    }

    /// Adds a process; `path` knows its files.
    pub(super) fn add(&mut self, who: Who, did: &Activity, path: impl Fn(u32) -> Option<String>) {
        let mut all = Sum::default();
        for (op, sum) in &did.operations {
            all.add(sum);
            self.operations.entry(*op).or_default().add(sum);
        }
        for (file, sum) in &did.files {
            self.files.entry(path(*file)).or_default().add(sum);
        }
        let rates = Rates {
            operations: did.attempted,
            operations_per_s: did.attempted as f64 / self.seconds,
            read_bytes_per_s: all.read / self.seconds,
            written_bytes_per_s: all.written / self.seconds,
            lost: did.lost,
            sampled: did.sampled,
        };
        self.view.total.add(&rates);
        let of_threads = self.seconds * self.ticks_per_second * did.threads.max(1) as f64;
        self.view.processes.push(Process {
            pid: who.pid,
            rank: who.rank,
            program: who.program,
            recording: who.recording,
            threads: did.threads,
            rates,
            io_share: did.timed.then(|| (all.ticks / of_threads).min(1.0)),
        });
    }

    /// All of it, in order.
    pub(super) fn finish(mut self) -> View {
        let per_s = |sum: f64| sum / self.seconds;
        let all_ticks: f64 = self.operations.values().map(|sum| sum.ticks).sum();
        let operations = self.operations.iter().map(|(op, sum)| Operation {
            operation: op.name(),
            operations_per_s: per_s(sum.count),
            mean_us: sum.took / sum.count.max(1.0) / self.ticks_per_second * 1e6,
            time_share: sum.ticks / all_ticks.max(1.0),
        });
        self.view.operations = operations.collect();
        let files = self.files.into_iter().map(|(path, sum)| File {
            path,
            operations_per_s: per_s(sum.count),
            read_bytes_per_s: per_s(sum.read),
            written_bytes_per_s: per_s(sum.written),
            busy: per_s(sum.ticks / self.ticks_per_second),
        });
        self.view.files = files.collect();
        let view = &mut self.view;
        view.operations
            .sort_by(|a, b| b.time_share.total_cmp(&a.time_share));
        view.files.sort_by(|a, b| b.busy.total_cmp(&a.busy));
        view.files.truncate(FILES);
        view.processes
            .sort_by_key(|process| (std::cmp::Reverse(process.rates.operations), process.pid));
        self.view
    }
}

impl Rates {
    fn add(&mut self, more: &Rates) {
        self.operations += more.operations;
        self.operations_per_s += more.operations_per_s;
        self.read_bytes_per_s += more.read_bytes_per_s;
        self.written_bytes_per_s += more.written_bytes_per_s;
        self.lost += more.lost;
        self.sampled |= more.sampled;
    }
}
