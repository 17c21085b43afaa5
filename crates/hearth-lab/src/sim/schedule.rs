//! `hearth-lab sim schedule`: placement and retention of files over many nodes, each next to its bound.
//!
//! The experiment is section IV-E of the HyCache+ paper: every node reads its files round robin until
//! it has read its share of the volume, once with each way to decide what stays. The code that
//! decides is that of `hearth-plan`, the same that `hearth place` runs.

mod example;
mod jobs;
mod pair;
mod random;
mod small;

use std::process::ExitCode;

use hearth_plan::Bytes;
use hearth_plan::online::{EvictionPolicy, Met};
use hearth_plan::retain::{Queue, ServedBytes};
use serde_json::{Map, Value};

use hearth_set::failure::Failure;
use hearth_set::output::print as print_lines;
use hearth_set::report::{BenchReport, rounded};

const EXAMPLES: &str = "\
Examples:
  hearth-lab sim schedule                            512 nodes, 64,000 GB, memory of 256 MB a node
  hearth-lab sim schedule --nodes 4096 --files-per-node 5 --sizes random
  hearth-lab sim schedule --example                  the worked example of the paper, step by step

Units are decimal, as in the paper: 1 MB is 1,000,000 bytes.";

/// Bytes of a megabyte, as the paper counts.
const MB: u64 = 1_000_000;
const GB: u64 = 1_000 * MB;

/// Options of `hearth-lab sim schedule`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// Nodes
    #[arg(long, default_value_t = 512, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    nodes: u32,
    /// Files that each node reads; several numbers make several rows
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,3,4,5,8,16",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    files_per_node: Vec<u32>,
    /// Only one of the two experiments
    #[arg(long, value_enum)]
    sizes: Option<Sizes>,
    /// Bytes that all nodes read together, in GB
    #[arg(long, default_value_t = 64_000, value_name = "GB",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    volume: u64,
    /// Memory of a node, in MB
    #[arg(long, default_value_t = 256, value_name = "MB",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    memory: u64,
    /// How many times as fast as the disk memory is
    #[arg(long, default_value_t = 100.0, value_name = "N", value_parser = parse_ratio)]
    memory_speed: f64,
    /// Seed of chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// The worked example of the paper, step by step, and nothing else
    #[arg(long)]
    example: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sizes {
    /// Sizes drawn from 6 to 250 MB
    Random,
    /// The two sizes that are worst for LRU
    Pair,
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if ratio >= 1.0 && ratio.is_finite() {
        Ok(ratio)
    } else {
        Err("memory is at least as fast as the disk: 1 or more".to_owned())
    }
}

/// Simulates and prints.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    if args.example {
        print_lines(&example::text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut said = Said::new();
    if args.sizes != Some(Sizes::Pair) {
        random::run(args, &mut said)?;
        jobs::run(args, &mut said);
    }
    if args.sizes != Some(Sizes::Random) {
        pair::run(args, &mut said);
    }
    if args.sizes.is_none() {
        small::run(args, &mut said);
    }
    if args.json {
        super::print(&said.report, true)?;
    } else {
        print_lines(&said.text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Results, for people and for machines.
struct Said {
    text: String,
    report: BenchReport,
}

impl Said {
    fn new() -> Said {
        Said {
            text: String::new(),
            report: BenchReport::new("sim schedule", "model"),
        }
    }

    /// A table with a heading, and a line below that says how to read it.
    fn table(&mut self, heading: &str, rows: &[Vec<String>], below: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&format!("{heading}\n"));
        self.text.push_str(&hearth_set::output::table(rows));
        self.text.push_str(&format!("{below}\n"));
    }
}

/// Time under LRU over time under `other`.
fn speedup(args: &Args, lru: ServedBytes, other: ServedBytes) -> f64 {
    lru.time(args.memory_speed) / other.time(args.memory_speed)
}

/// A tally of which `memory` is the part that memory serves.
fn split(total: Bytes, memory: Bytes) -> ServedBytes {
    ServedBytes {
        disk: total - memory,
        memory,
    }
}

/// The same queue without knowledge of it.
fn online(queue: &Queue, capacity: Bytes, kind: EvictionPolicy) -> ServedBytes {
    let mut cache = kind.cache(capacity);
    let mut tally = ServedBytes::default();
    for at in 0..queue.len() {
        let size = queue.size_at(at);
        match cache.read(queue.file(at), size) {
            Met::Hit => tally.memory += size,
            Met::Miss => tally.disk += size,
        }
    }
    tally
}

fn add(sum: &mut ServedBytes, more: ServedBytes) {
    sum.disk += more.disk;
    sum.memory += more.memory;
}

/// Figures by the number of files per node.
fn by_files(figures: &[(u32, f64)]) -> Map<String, Value> {
    let pairs = figures.iter();
    let pairs = pairs.map(|(files, figure)| (files.to_string(), Value::from(rounded(*figure))));
    pairs.collect()
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}
