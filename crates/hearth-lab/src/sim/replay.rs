//! `hearth-lab sim replay`: what a trace's reads and writes would be to a pool of another size, or under another policy.
//! The simulator does them page by page.
//!
//! Each host of the trace is a node. A node does one page after another, in the order in which its
//! calls began, and never waits between: what is counted are messages and store requests, not time
//! that programs think. Pages are read and written whole.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use hearth_client::words::counted;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::print;
use hearth_set::size::Size;
use hearth_sim::Policy;
use hearth_sim::scale::{self, PageAccess, Shape};
use hearth_trace::file::Reader;
use hearth_trace::{Event, Layer, Source, StreamId, TracedFileId};
use serde_json::json;

/// Policies that the large world of the simulator follows.
const SIMULATED: [&str; 3] = ["none", "home", "bank"];
/// Pages of a simulated pool.
const FRAMES_MIN: u32 = 16;
const FRAMES_MAX: u32 = 1 << 22;

/// Options of `hearth-lab sim replay`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Trace files, or directories of them; read as one trace
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Under this policy [default: each]
    #[arg(long, value_name = "P", value_parser = SIMULATED)]
    policy: Option<String>,
    /// Memory of each node's pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pool: Size,
    /// A page, a power of two from 4KiB to 4MiB
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    page_size: Size,
    /// Print one JSON object for each policy
    #[arg(long)]
    json: bool,
}

/// Does what the programs of a trace did, under one policy or each, with a node for each host of the trace.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut reader = Reader::open(&args.files).or_fail(|| "cannot replay".to_owned())?;
    for line in reader.missing() {
        eprintln!("missing: {line}");
    }
    simulated(args, &mut reader)
}

/// Has the simulator do what the programs of a trace did, under one policy or each.
fn simulated(args: &Args, reader: &mut Reader) -> Result<ExitCode, Failure> {
    let what = || "cannot simulate what is traced".to_owned();
    let page = args.page_size.0;
    if !page.is_power_of_two() || !(4 << 10..=4 << 20).contains(&page) {
        let failure = Failure::new(what()).cause(format!("a page cannot have {}", args.page_size));
        return Err(failure.hint("name a power of two from 4KiB to 4MiB"));
    }
    let lists = Lists::of(reader, page).or_fail(what)?;
    if lists.pages == 0 {
        return Err(Failure::no("nothing in the trace reads or writes a file"));
    }
    let frames = u32::try_from(args.pool.0 / page).unwrap_or(u32::MAX);
    let frames = frames.clamp(FRAMES_MIN, FRAMES_MAX);
    eprintln!(
        "{} of {} on {}, each with a pool of {}",
        counted(lists.pages, "page"),
        args.page_size,
        counted(lists.lists.len(), "node"),
        Size(u64::from(frames) * page)
    );
    let mut is_right = true;
    for name in SIMULATED {
        let Some(policy) = Policy::by_name(name).filter(|_| {
            let only = args.policy.as_deref();
            only.is_none_or(|only| only == name)
        }) else {
            continue;
        };
        let shape = Shape {
            frames,
            ..Shape::new(policy, lists.lists.len() as u32, 0, 1)
        };
        let outcome = scale::replay(&shape, lists.lists.clone(), |_| {});
        for violation in &outcome.violations {
            eprintln!("{name}: {violation}");
        }
        is_right &= outcome.violations.is_empty();
        print(&simulated_words(args, name, &outcome))?;
    }
    match is_right {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::new(what()).cause("the simulator found a fault in itself")),
    }
}

fn simulated_words(args: &Args, name: &str, outcome: &scale::ScaleOutcome) -> String {
    let share = outcome.own_reads as f64 / outcome.reads.max(1) as f64;
    if args.json {
        let line = json!({
            "policy": name,
            "page_reads": outcome.reads,
            "own_hit_ratio": share,
            "messages": outcome.messages.total(),
            "store_reads": outcome.store_reads,
            "store_writes": outcome.store_writes,
            "modelled_s": outcome.took.0 as f64 / 1e9,
        });
        return format!("{line}\n");
    }
    format!(
        "{name}: {:.1} % of {} page reads served by the node's own memory; {} messages, {} store reads, \
         {} store writes; modelled time {:.3} s\n",
        share * 100.0,
        outcome.reads,
        outcome.messages.total(),
        outcome.store_reads,
        outcome.store_writes,
        outcome.took.0 as f64 / 1e9,
    )
}

/// Pages that are read or written, at most: beyond, memory would grow with the trace.
const ACCESSES_MAX: usize = 1 << 23;

/// The accesses of each node.
struct Lists {
    lists: Vec<Vec<PageAccess>>,
    /// Different pages.
    pages: usize,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
enum ListsError<E: std::error::Error + 'static> {
    /// The trace cannot be read on.
    #[error("cannot read the trace on")]
    Read(#[source] E),
    /// It is longer than can be held.
    #[error("it reads and writes more than {ACCESSES_MAX} pages; a larger --page-size makes fewer")]
    Long,
}

/// Accesses that are gathered while a trace is read.
struct Gathering {
    page_bytes: u64,
    /// Number of each page that was met.
    numbers: HashMap<(TracedFileId, u64), u32>,
    /// By node, with the time of its call.
    lists: Vec<Vec<(i64, PageAccess)>>,
    count: usize,
}

impl Lists {
    /// The pages that a trace's programs read and wrote.
    fn of<S: Source>(source: &mut S, page_bytes: u64) -> Result<Lists, ListsError<S::Error>>
    where
        S::Error: std::error::Error + 'static,
    {
        let tables = source.tables();
        let streams = (0..tables.streams.len() as u32).map(StreamId);
        let nodes: Vec<usize> = streams
            .map(|stream| tables.process_of(stream).host.0 as usize)
            .collect();
        let mut gathering = Gathering {
            page_bytes,
            numbers: HashMap::new(),
            lists: vec![Vec::new(); tables.hosts.len()],
            count: 0,
        };
        let mut take = |stream: StreamId, events: &[Event]| {
            let node = nodes[stream.0 as usize];
            events.iter().for_each(|event| gathering.add(node, event));
        };
        source.each_run(&mut take).map_err(ListsError::Read)?;
        if gathering.count > ACCESSES_MAX {
            return Err(ListsError::Long);
        }
        let lists = gathering.lists.into_iter().map(|mut list| {
            list.sort_by_key(|(start, _)| *start);
            list.into_iter().map(|(_, access)| access).collect()
        });
        Ok(Lists {
            lists: lists.collect(),
            pages: gathering.numbers.len(),
        })
    }
}

impl Gathering {
    fn add(&mut self, node: usize, event: &Event) {
        let write = event.op.is_write();
        let (Some(file), Layer::App, 1..) = (event.file, event.layer, event.bytes()) else {
            return;
        };
        let first = event.offset / self.page_bytes;
        let last = event.offset.saturating_add(event.bytes() - 1) / self.page_bytes;
        for page in first..=last {
            self.count += 1;
            if self.count > ACCESSES_MAX {
                return;
            }
            let next = self.numbers.len() as u32;
            let page = *self.numbers.entry((file, page)).or_insert(next);
            self.lists[node].push((event.start, PageAccess { page, write }));
        }
    }
}
