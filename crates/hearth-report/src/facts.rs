//! The base of all findings: one pass's numbers, and their cost to the job.

use hearth_trace::{ProcessId, Tables, TracedFileId};

use crate::access::Access;
use crate::analysis::Analysis;
use crate::critical::Critical;
use crate::finding::{Finding, PredictedGain, WasteKind};
use crate::latency::Latency;
use crate::mix::MixMap;
use crate::profile::{Alignment, Cause, Order, SYSTEMS_MAX, data_row, sort_size};
use crate::words;

/// A finding is worth at least this share of the job's critical seconds, and of its wall time.
pub(crate) const CRITICAL_SHARE_MIN: f64 = 0.05;
const WALL_SHARE_MIN: f64 = 0.05;
/// Calls before their cost says something.
const CALLS_MIN: u64 = 20;
/// Nanoseconds for a byte where the trace has no large calls: 2 GB/s from memory, 1 GB/s else.
const BYTE_LOCAL: f64 = 0.5;
const BYTE_REMOTE: f64 = 1.0;
/// Large calls begin here.
const LARGE_SORT: usize = 16;

/// All that is known of a job.
pub(crate) struct Facts<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) analysis: &'a Analysis,
    pub(crate) critical: Critical,
    pub(crate) files: MixMap<u32, FileFacts>,
    pub(crate) critical_seconds: f64,
    pub(crate) wall_seconds: f64,
}

/// The accesses of all threads to one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileFacts {
    pub(crate) critical: f64,
    pub(crate) took: u64,
    pub(crate) system: u8,
    pub(crate) class: u16,
    pub(crate) threads: u32,
    pub(crate) openers: u32,
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    pub(crate) lockers: u32,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) contested: u64,
    pub(crate) metadata: u64,
    /// By [`Order`], reads and writes together.
    pub(crate) orders: [u64; 3],
    pub(crate) unaligned: u64,
    pub(crate) span: Option<(u64, u64)>,
}

/// Nanoseconds that each thread would save.
#[derive(Clone, Debug)]
pub(crate) struct Savings {
    low: Vec<f64>,
    mid: Vec<f64>,
    high: Vec<f64>,
}

/// Shares of a cost that would be saved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) low: f64,
    pub(crate) mid: f64,
    pub(crate) high: f64,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(tables: &'a Tables, analysis: &'a Analysis) -> Facts<'a> {
        let critical = Critical::new(&analysis.strip, tables);
        let weights = critical.weights();
        let mut files: MixMap<u32, FileFacts> = MixMap::default();
        for access in &analysis.accesses.all {
            if let Some(file) = access.file() {
                let weight = weights[access.stream as usize];
                files.entry(file.0).or_default().add(access, weight);
            }
        }
        Facts {
            critical_seconds: critical.seconds(),
            wall_seconds: wall(tables, analysis),
            critical,
            files,
            tables,
            analysis,
        }
    }

    /// Accesses to files that are told apart, with the facts of the file.
    pub(crate) fn accesses(&self) -> impl Iterator<Item = (&Access, TracedFileId, &FileFacts)> {
        let all = self.analysis.accesses.all.iter();
        all.filter_map(|access| {
            let file = access.file()?;
            Some((access, file, &self.files[&file.0]))
        })
    }

    /// Seconds of wall time that the job would save.
    pub(crate) fn gain(&self, savings: &Savings) -> PredictedGain {
        let seconds = |saved: &[f64]| {
            let share = |thread: usize| {
                let took = self.analysis.strip.rows[thread].total as f64;
                if took > 0.0 {
                    (1.0 - saved[thread] / took).max(0.0)
                } else {
                    1.0
                }
            };
            (self.critical_seconds - self.critical.seconds_if(&share)).max(0.0)
        };
        let mid = seconds(&savings.mid);
        PredictedGain {
            low: seconds(&savings.low).min(mid),
            mid,
            high: seconds(&savings.high).max(mid),
        }
    }

    /// Whether so many seconds are worth a finding.
    pub(crate) fn is_material(&self, seconds: f64) -> bool {
        seconds >= CRITICAL_SHARE_MIN * self.critical_seconds
            && seconds >= WALL_SHARE_MIN * self.wall_seconds
            && seconds > 0.0
    }

    /// The gain as a finding, if it is worth one.
    pub(crate) fn finding(&self, kind: WasteKind, savings: &Savings) -> Option<Finding> {
        let seconds = self.gain(savings);
        self.is_material(seconds.mid).then(|| Finding {
            kind,
            title: String::new(),
            evidence: Vec::new(),
            change: String::new(),
            seconds,
            basis: String::new(),
        })
    }

    pub(crate) fn savings(&self) -> Savings {
        let none = vec![0.0; self.tables.streams.len()];
        Savings {
            low: none.clone(),
            mid: none.clone(),
            high: none,
        }
    }

    /// By file system, the share of a cause's cost that `saved` of its calls saves, in nanoseconds
    /// for a call: low, mid and high.
    pub(crate) fn shares(
        &self,
        cause: Cause,
        saved: impl Fn(u8, usize, &Latency) -> [f64; 3],
    ) -> Vec<Share> {
        let systems = 0..SYSTEMS_MAX as u8;
        systems
            .map(|system| self.share(cause, system, &saved))
            .collect()
    }

    fn share(
        &self,
        cause: Cause,
        system: u8,
        saved: &impl Fn(u8, usize, &Latency) -> [f64; 3],
    ) -> Share {
        let (mut sums, mut total) = ([0.0; 3], 0.0);
        for (sort, latency) in self.analysis.accesses.causes.row(cause as usize, system) {
            let calls = latency.count as f64;
            for (sum, saved) in sums.iter_mut().zip(saved(system, sort, latency)) {
                *sum += calls * saved.clamp(0.0, latency.mean());
            }
            total += latency.total as f64;
        }
        let share = |sum: f64| {
            if total > 0.0 {
                (sum / total).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        Share {
            low: share(sums[0]),
            mid: share(sums[1]),
            high: share(sums[2]),
        }
    }

    /// All calls of a cause on all file systems.
    pub(crate) fn latency(&self, cause: Cause) -> Latency {
        let mut sum = Latency::default();
        for system in 0..SYSTEMS_MAX as u8 {
            let row = self.analysis.accesses.causes.row(cause as usize, system);
            row.for_each(|(_, latency)| sum.merge(latency));
        }
        sum
    }

    /// The cost of reads or writes of one size, in some order.
    pub(crate) fn data(&self, is_write: bool, order: Order, system: u8, sort: usize) -> Latency {
        let mut sum = Latency::default();
        for alignment in [Alignment::Aligned, Alignment::Unaligned] {
            let row = data_row(is_write, order, alignment);
            if let Some(latency) = self.analysis.accesses.data.get(row, system, sort) {
                sum.merge(latency);
            }
        }
        sum
    }

    /// Nanoseconds for a byte of a large call, and whether the trace itself says so.
    pub(crate) fn byte_cost(&self, is_write: bool, system: u8) -> (f64, bool) {
        let orders = [Order::Sequential, Order::Strided];
        for sort in (LARGE_SORT..48).rev() {
            let mut sum = Latency::default();
            orders
                .iter()
                .for_each(|&order| sum.merge(&self.data(is_write, order, system, sort)));
            // The few of a random stream that happen to be in order cost what the others do.
            let random = self.data(is_write, Order::Random, system, sort).count;
            if sum.count >= 4 && sum.count * 10 >= random {
                return (sum.median() / sum.size(), true);
            }
        }
        let is_remote = self.analysis.systems.is_remote(system);
        (if is_remote { BYTE_REMOTE } else { BYTE_LOCAL }, false)
    }

    /// Nanoseconds of a call that the nearest memory serves: as the fastest of this size in the
    /// trace, or 1 µs (20 µs where another process answers) and 4 GB/s.
    pub(crate) fn hit_cost(&self, system: u8, sort: usize, slow: f64) -> f64 {
        let hits = &self.analysis.hits[sort.min(self.analysis.hits.len() - 1)];
        if hits.count >= CALLS_MIN {
            return hits.mean();
        }
        let mut reads = Latency::default();
        for order in [Order::Sequential, Order::Strided, Order::Random] {
            reads.merge(&self.data(false, order, system, sort));
        }
        let fastest = reads.quantile(0.05);
        if reads.count >= CALLS_MIN && fastest > 0.0 && fastest < slow / 3.0 {
            return fastest;
        }
        let call = if self.analysis.systems.is_remote(system) {
            20_000.0
        } else {
            1000.0
        };
        call + sort_size(sort) / 4.0
    }

    /// Names the files that carry a cost: one by its path, several by what their paths share.
    pub(crate) fn name_files(&self, costs: &MixMap<u32, f64>) -> String {
        let total: f64 = costs.values().sum();
        let by_cost = |a: &(&u32, &f64), b: &(&u32, &f64)| a.1.total_cmp(b.1).then(b.0.cmp(a.0));
        let Some((&file, &cost)) = costs.iter().max_by(by_cost) else {
            return "no file".to_owned();
        };
        let path = self.tables.path(TracedFileId(file));
        if costs.len() == 1 || cost >= 0.6 * total {
            return format!("`{path}`");
        }
        let class = self.files[&file].class;
        let alike = costs
            .keys()
            .filter(|file| self.files[file].class == class)
            .count();
        if alike * 2 >= costs.len() && class != 0 {
            let name = &self.analysis.classes[usize::from(class)];
            return match alike {
                1 => format!("a file like `{name}`"),
                _ => format!("{} files like `{name}`", words::count(alike as u64)),
            };
        }
        format!(
            "{} files, above all `{path}`",
            words::count(costs.len() as u64)
        )
    }

    /// Bytes that a file's system handles as one, where it is known.
    pub(crate) fn unit(&self, file: TracedFileId) -> Option<u64> {
        let (_, bytes) = self.tables.files[file.0 as usize].stripe?;
        (bytes > 0).then_some(bytes)
    }

    /// The name of a process for people.
    pub(crate) fn name_process(&self, process: ProcessId) -> String {
        let process = &self.tables.processes[process.0 as usize];
        let host = self.tables.hosts.get(process.host.0 as usize);
        let host = host.map_or("?", |host| host.name.as_str());
        match process.rank {
            Some(rank) => format!("rank {rank} (process {} on {host})", process.pid),
            None => format!("process {} on {host}", process.pid),
        }
    }

    pub(crate) fn name_system(&self, system: u8) -> &str {
        match self
            .analysis
            .systems
            .names
            .get(usize::from(system))
            .map(String::as_str)
        {
            None | Some("") => "its file system",
            Some(name) => name,
        }
    }
}

/// From the start of the first process to the end of the last one, or as far as events go.
fn wall(tables: &Tables, analysis: &Analysis) -> f64 {
    let strip = &analysis.strip;
    let last = strip
        .rows
        .iter()
        .filter_map(|row| row.seen)
        .map(|seen| seen.1)
        .max();
    let end = tables.processes.iter().map(|process| process.end).max();
    let end = last.into_iter().chain(end).max().unwrap_or(strip.origin);
    end.saturating_sub(strip.origin).max(0) as f64 / 1e9
}

impl FileFacts {
    fn add(&mut self, access: &Access, weight: f64) {
        self.critical += access.took as f64 * weight / 1e9;
        self.took += access.took;
        (self.system, self.class) = (access.system, access.class);
        self.threads += 1;
        self.openers += u32::from(access.opens > 0);
        self.readers += u32::from(access.reads.calls > 0);
        self.writers += u32::from(access.writes.calls > 0);
        self.lockers += u32::from(access.count(Cause::Lock) > 0);
        self.reads += access.reads.calls;
        self.writes += access.writes.calls;
        self.bytes_read += access.reads.bytes;
        self.bytes_written += access.writes.bytes;
        self.contested += u64::from(access.count(Cause::Contested));
        self.metadata += u64::from(access.count(Cause::Metadata));
        self.metadata += u64::from(access.count(Cause::MetadataAgain));
        for flow in [&access.reads, &access.writes] {
            for (sum, &count) in self.orders.iter_mut().zip(&flow.orders) {
                *sum += u64::from(count);
            }
            self.unaligned += u64::from(flow.unaligned);
            if let Some((low, high)) = flow.span {
                let span = self.span.unwrap_or((low, high));
                self.span = Some((span.0.min(low), span.1.max(high)));
            }
        }
    }

    /// Nearly all that is read of it is read by each thread that opens it.
    pub(crate) fn is_read_by_all(&self) -> bool {
        let all = self.span_bytes() as f64 * f64::from(self.openers);
        self.readers >= self.openers && self.bytes_read as f64 >= 0.9 * all
    }

    /// Bytes from the first to the last that was used.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.span.map_or(0, |(low, high)| high - low)
    }
}

impl Savings {
    /// A thread saves a share of a cost.
    pub(crate) fn add(&mut self, thread: u32, cost: u64, share: Share) {
        let (thread, cost) = (thread as usize, cost as f64);
        self.low[thread] += cost * share.low;
        self.mid[thread] += cost * share.mid;
        self.high[thread] += cost * share.high;
    }
}
