//! The report: every number that its renderings show.

use serde::Serialize;

use crate::finding::Finding;

/// The analysis of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The job as a whole.
    pub job: Job,
    /// The missing and doubtful parts.
    pub loss: Loss,
    /// Changes to make, the one that saves most first.
    pub findings: Vec<Finding>,
    /// Time by operation and layer, the most first.
    pub operations: Vec<Operation>,
    /// When the time was spent.
    pub strip: Strip,
    /// Which process spent it when.
    pub heatmap: Heatmap,
    /// Files that hold the job up, the most first.
    pub files: Vec<FileRow>,
    /// How many files there are beyond those.
    pub files_more: u64,
    /// Reads and writes by size.
    pub sizes: Vec<SizeRow>,
    /// How reads and writes lie to the ones before.
    pub patterns: Vec<Pattern>,
    /// Processes, the one with most I/O first.
    pub processes: Vec<ProcessRow>,
    /// How many processes there are beyond those.
    pub processes_more: u64,
    /// The outcomes of requests, if agents were traced.
    pub waterfall: Vec<WaterfallRow>,
    /// Bursts of metadata calls, the densest first.
    pub bursts: Vec<Burst>,
    /// A rhythm in the I/O, if there is one.
    pub period: Option<Period>,
    /// The share of uses that miss in pools of any size, by class of files.
    pub curves: Vec<Curve>,
}

/// The job as a whole.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// The programs, the one with most processes first.
    pub programs: Vec<String>,
    /// When it began, nanoseconds since the Unix epoch.
    pub start: i64,
    /// Seconds from its start to its end.
    pub wall: f64,
    /// Seconds of those that I/O holds it up.
    pub critical: f64,
    /// Hosts, processes, threads, files.
    pub hosts: u64,
    /// Processes.
    pub processes: u64,
    /// Threads that did I/O.
    pub threads: u64,
    /// Files.
    pub files: u64,
    /// Records that were read.
    pub events: u64,
    /// Bytes that programs read.
    pub bytes_read: u64,
    /// Bytes that programs wrote.
    pub bytes_written: u64,
}

/// The missing and doubtful parts of a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    /// Operations that were to be recorded.
    pub attempted: u64,
    /// Those whose records were kept.
    pub stored: u64,
    /// Those that were counted, not kept.
    pub dropped: u64,
    /// Records half-written by killed threads.
    pub torn: u64,
    /// Lost records by bin of the strip.
    pub strip: Vec<f64>,
    /// Sums over what was lost.
    pub operations: Vec<LostOperation>,
    /// How well the clocks of the hosts agree.
    pub clocks: Vec<String>,
    /// Sentences about what else is missing or doubtful.
    pub remarks: Vec<String>,
}

/// A sum over lost records.
#[derive(Clone, Debug, Serialize)]
pub struct LostOperation {
    /// Which operation.
    pub op: &'static str,
    /// How many.
    pub count: u64,
    /// Bytes moved by them.
    pub bytes: u64,
    /// Seconds spent in them.
    pub seconds: f64,
}

/// One operation in one layer.
#[derive(Clone, Debug, Serialize)]
pub struct Operation {
    /// The layer that recorded it.
    pub layer: &'static str,
    /// Which.
    pub op: &'static str,
    /// How many.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Seconds over all threads.
    pub seconds: f64,
    /// Seconds of one: half of them take no more.
    pub median: f64,
    /// 99 of 100 take no more.
    pub p99: f64,
    /// The longest.
    pub longest: f64,
}

/// When the time was spent.
#[derive(Clone, Debug, Serialize)]
pub struct Strip {
    /// Seconds in a bin.
    pub bin: f64,
    /// The groups of operations that it was spent on.
    pub groups: Vec<&'static str>,
    /// By group, then bin: threads that were in I/O, on average.
    pub busy: Vec<Vec<f64>>,
    /// Bytes a second, by bin.
    pub rate: Vec<f64>,
}

/// Which process spent it when.
#[derive(Clone, Debug, Serialize)]
pub struct Heatmap {
    /// Seconds in a bin.
    pub bin: f64,
    /// The names of the rows: a process each, or several.
    pub rows: Vec<String>,
    /// By row, then bin: share of the bin that a process of the row spends in I/O, 0 to 1.
    pub cells: Vec<Vec<f64>>,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct FileRow {
    /// Its path.
    pub path: String,
    /// Seconds that its I/O holds the job up.
    pub critical: f64,
    /// Seconds over all threads.
    pub seconds: f64,
    /// Threads that used it.
    pub threads: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Metadata calls.
    pub metadata: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Share of the reads and writes that continue the one before.
    pub sequential: f64,
    /// Share that begins and ends at multiples of 4 KiB.
    pub aligned: f64,
}

/// Reads and writes of one size.
#[derive(Clone, Debug, Serialize)]
pub struct SizeRow {
    /// At least so many bytes, and less than twice that.
    pub bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Seconds in those reads.
    pub read_seconds: f64,
    /// Seconds in those writes.
    pub write_seconds: f64,
}

/// How reads or writes lie to the ones before, as shares of the calls.
#[derive(Clone, Debug, Serialize)]
pub struct Pattern {
    /// `read` or `write`.
    pub what: &'static str,
    /// Calls.
    pub calls: u64,
    /// They begin where the one before ended.
    pub sequential: f64,
    /// They keep a stride.
    pub strided: f64,
    /// Neither.
    pub random: f64,
    /// They begin and end at multiples of 4 KiB.
    pub aligned: f64,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessRow {
    /// Its rank, host and number.
    pub name: String,
    /// Seconds in I/O, over its threads.
    pub seconds: f64,
    /// Operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Times as long as the median of the processes.
    pub of_median: f64,
}

/// The outcome of some requests, on average over them.
#[derive(Clone, Debug, Serialize)]
pub struct WaterfallRow {
    /// The place that served them at last: `hit`, `peer` or `store`.
    pub outcome: &'static str,
    /// `read` or `write` or `other`.
    pub what: &'static str,
    /// How many, estimated from a sample where there are many.
    pub count: u64,
    /// Seconds of one.
    pub mean: f64,
    /// The parts of those seconds, from the program to the store.
    pub parts: Vec<Part>,
}

/// A part of the way.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Which.
    pub name: &'static str,
    /// Seconds of one request.
    pub seconds: f64,
}

/// Many metadata calls in a short time.
#[derive(Clone, Debug, Serialize)]
pub struct Burst {
    /// Seconds after the start of the job.
    pub at: f64,
    /// Seconds that it lasts.
    pub lasts: f64,
    /// Calls.
    pub calls: u64,
    /// Calls a second.
    pub rate: f64,
}

/// A rhythm in the I/O.
#[derive(Clone, Debug, Serialize)]
pub struct Period {
    /// Seconds from one burst to the next.
    pub seconds: f64,
    /// How alike the bursts are, 0 to 1.
    pub confidence: f64,
    /// Share of a period that is I/O.
    pub busy: f64,
}

/// The share of uses that miss in pools of any size, for one class of files.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The files: their path with numbers replaced by `#`.
    pub class: String,
    /// Uses of pages.
    pub uses: f64,
    /// Bytes of pages that were used at all.
    pub footprint: f64,
    /// Share of the pages' uses that were the first.
    pub first: f64,
    /// Pool sizes in bytes and the share of uses that miss in it.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Share of the uses that miss in a pool of so much of the footprint.
    pub fn miss_at(&self, share: f64) -> f64 {
        let wanted = self.footprint * share;
        let at = self.points.partition_point(|(bytes, _)| *bytes < wanted);
        match (self.points.get(at.wrapping_sub(1)), self.points.get(at)) {
            (Some(&(from, high)), Some(&(to, low))) => {
                high + (low - high) * (wanted - from) / (to - from).max(1.0)
            }
            (_, Some(&(_, miss))) | (Some(&(_, miss)), None) => miss,
            (None, None) => 1.0,
        }
    }
}
