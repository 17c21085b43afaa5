//! `hearth-lab sim cache`: what policies that do not know the future make of a recorded one.

mod formats;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use hearth_plan::Bytes;
use hearth_plan::online::{EvictionPolicy, Met};
use hearth_plan::retain::{Queue, bound_fractional, bound_hits};

use formats::Format;
use hearth_set::failure::Failure;
use hearth_set::output::{print, table};
use hearth_set::output::{progress, progress_over};
use hearth_set::report::BenchReport;
use hearth_set::size::Size;
use trace::Trace;

const EXAMPLES: &str = "\
Examples:
  hearth-lab sim cache trace.csv                              caches of 1 %, 10 % and 30 % of all bytes
  hearth-lab sim cache w.oracleGeneral --size 64MiB,1GiB --policy lru,s3-fifo
  hearth-lab sim cache prxy_0.csv --format msr --block 4KiB

Formats: csv (columns by name: id, key or path; size, bytes or asked; offset), msr (block traces of
MSR Cambridge), oracle-general (libCacheSim). docs/scheduling.md says more.";

/// Options of `hearth-lab sim cache`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Sizes of the cache: bytes, or part of all bytes of the trace
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        default_value = "1%,10%,30%"
    )]
    size: Vec<Room>,
    /// Policies; all if none is named
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = parse_kind)]
    policy: Vec<EvictionPolicy>,
    /// Format of the trace; told from its name and its first line otherwise
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Cut reads with an offset into blocks of this size
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    block: Size,
    /// Stop after so many lines or records
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    requests: u64,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Room {
    Bytes(Size),
    Percent(f64),
}

impl FromStr for Room {
    type Err = String;

    fn from_str(text: &str) -> Result<Room, String> {
        let Some(number) = text.strip_suffix('%') else {
            return text.parse().map(Room::Bytes);
        };
        let percent: f64 = number.parse().map_err(|_| format!("`{text}` is no part"))?;
        if percent > 0.0 && percent <= 100.0 {
            Ok(Room::Percent(percent))
        } else {
            Err(format!(
                "`{text}` is no part: more than 0 % and at most 100 %"
            ))
        }
    }
}

impl Room {
    fn of(self, footprint: Bytes) -> Bytes {
        match self {
            Room::Bytes(size) => Bytes(size.0),
            Room::Percent(percent) => Bytes((footprint.0 as f64 * percent / 100.0) as u64),
        }
    }
}

fn parse_kind(name: &str) -> Result<EvictionPolicy, String> {
    let kind = EvictionPolicy::ALL
        .into_iter()
        .find(|kind| kind.name() == name);
    kind.ok_or_else(|| {
        let names = EvictionPolicy::ALL.map(EvictionPolicy::name);
        format!("policies are {}", names.join(", "))
    })
}

/// Reads the trace, runs it through each cache, and prints.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.block.0 == 0 {
        return Err(Failure::new("a block has a size").hint("--block 4KiB"));
    }
    let trace = formats::read(&args.file, args.format, args.block, args.requests)?;
    let kinds = if args.policy.is_empty() {
        EvictionPolicy::ALL.to_vec()
    } else {
        args.policy.clone()
    };
    let mut report = BenchReport::new("sim cache", args.file.display().to_string());
    let mut rows = vec![
        ["cache", "policy", "miss ratio", "byte miss ratio"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for room in &args.size {
        let capacity = room.of(trace.footprint());
        let case = Size(capacity.0).to_string();
        let misses = kinds.iter().map(|kind| {
            progress(&format!("{case}: {}", kind.name()));
            (kind.name(), misses(&trace.queue, capacity, *kind))
        });
        let mut misses: Vec<_> = misses.collect();
        misses.push(("no policy below", least(&trace.queue, capacity)));
        for (system, (count, bytes)) in misses {
            rows.push(vec![
                case.clone(),
                system.to_owned(),
                format!("{count:.4}"),
                format!("{bytes:.4}"),
            ]);
            let key = if system == "no policy below" {
                "bound"
            } else {
                system
            };
            report.row(key, &case, "miss ratio", count, "requests");
            report.row(key, &case, "byte miss ratio", bytes, "bytes");
        }
    }
    progress_over();
    summary(&trace, &mut report);
    if args.json {
        super::print(&report, true)?;
    } else {
        print(&table(&rows))?;
        eprintln!("{}", sentence(&trace));
    }
    Ok(ExitCode::SUCCESS)
}

fn sentence(trace: &Trace) -> String {
    let (files, reads) = (trace.queue.files(), trace.queue.len());
    let skipped = match trace.skipped {
        0 => String::new(),
        skipped => format!("; {skipped} lines name no read and were passed over"),
    };
    format!(
        "{reads} reads of {files} objects, {} in all{skipped}",
        Size(trace.footprint().0)
    )
}

fn summary(trace: &Trace, report: &mut BenchReport) {
    report.sum_up("requests", trace.queue.len());
    report.sum_up("objects", trace.queue.files());
    report.sum_up("footprint_bytes", trace.footprint().0);
    report.sum_up("skipped", trace.skipped);
}

/// Misses over reads, by count and by bytes.
fn misses(queue: &Queue, capacity: Bytes, kind: EvictionPolicy) -> (f64, f64) {
    let mut cache = kind.cache(capacity);
    let (mut count, mut bytes) = (0, Bytes::ZERO);
    for at in 0..queue.len() {
        let size = queue.size_at(at);
        if cache.read(queue.file(at), size) == Met::Miss {
            count += 1;
            bytes += size;
        }
    }
    ratios(queue, count, bytes)
}

/// The least that no policy can undercut, even one that knows the future.
fn least(queue: &Queue, capacity: Bytes) -> (f64, f64) {
    let count = queue.len() - bound_hits(queue, capacity);
    ratios(
        queue,
        count,
        queue.total() - bound_fractional(queue, capacity),
    )
}

fn ratios(queue: &Queue, count: usize, bytes: Bytes) -> (f64, f64) {
    let over = |part: f64, all: f64| if all == 0.0 { 0.0 } else { part / all };
    (
        over(count as f64, queue.len() as f64),
        over(bytes.0 as f64, queue.total().0 as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_parts() {
        assert_eq!("10%".parse(), Ok(Room::Percent(10.0)));
        assert_eq!("4KiB".parse(), Ok(Room::Bytes(Size(4096))));
        assert_eq!(Room::Percent(0.5).of(Bytes(1000)), Bytes(5));
        for text in ["0%", "101%", "x%", "%", "NaN%", "-1"] {
            assert!(text.parse::<Room>().is_err(), "{text}");
        }
    }
}
