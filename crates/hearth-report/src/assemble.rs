//! From one pass's numbers to the report.

use hearth_trace::{Layer, Op, ProcessId, Tables};

use crate::access::Flow;
use crate::analysis::Analysis;
use crate::facts::Facts;
use crate::latency::Latency;
use crate::period;
use crate::profile::Order;
use crate::report::*;
use crate::requests::Joined;
use crate::reuse::PAGE;
use crate::strip::Group;
use crate::words;

/// Bounds of what is listed.
const FILES_MAX: usize = 50;
const PROCESSES_MAX: usize = 64;
const HEAT_ROWS: usize = 64;
const HEAT_COLUMNS: usize = 240;
const STRIP_COLUMNS: usize = 480;
const CURVES_MAX: usize = 8;
const BURSTS_MAX: usize = 5;
/// Fewer metadata calls are no burst.
const BURST_CALLS_MIN: u64 = 200;

pub(crate) fn report(facts: &Facts<'_>, stopped: Option<String>) -> Report {
    let (files, files_more) = files(facts);
    let (processes, processes_more) = processes(facts);
    Report {
        job: job(facts),
        loss: loss(facts, stopped),
        findings: crate::findings::find(facts),
        operations: operations(facts.analysis),
        strip: strip(facts),
        heatmap: heatmap(facts),
        files,
        files_more,
        sizes: sizes(facts.analysis),
        patterns: patterns(facts),
        processes,
        processes_more,
        waterfall: waterfall(facts.analysis),
        bursts: bursts(facts),
        period: period::find(&facts.analysis.strip),
        curves: curves(facts.analysis),
    }
}

fn job(facts: &Facts<'_>) -> Job {
    let tables = facts.tables;
    let mut programs: Vec<(&str, usize)> = Vec::new();
    let mut names: Vec<&str> = tables
        .processes
        .iter()
        .map(|process| process.exe.as_str())
        .collect();
    names.sort_unstable();
    for run in names.chunk_by(|a, b| a == b) {
        programs.push((run[0], run.len()));
    }
    programs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let flows = |pick: fn(&crate::facts::FileFacts) -> u64| facts.files.values().map(pick).sum();
    let threads = facts
        .analysis
        .strip
        .rows
        .iter()
        .filter(|row| row.total > 0)
        .count();
    Job {
        programs: programs
            .iter()
            .take(5)
            .map(|(name, _)| (*name).to_owned())
            .collect(),
        start: facts.analysis.strip.origin,
        wall: facts.wall_seconds,
        critical: facts.critical_seconds,
        hosts: tables.hosts.len() as u64,
        processes: tables.processes.len() as u64,
        threads: threads as u64,
        files: facts.files.len() as u64,
        events: facts.analysis.events,
        bytes_read: flows(|about| about.bytes_read),
        bytes_written: flows(|about| about.bytes_written),
    }
}

fn loss(facts: &Facts<'_>, stopped: Option<String>) -> Loss {
    let tables = facts.tables;
    let sum = |pick: fn(&hearth_trace::Stream) -> u64| tables.streams.iter().map(pick).sum();
    let mut remarks = tables.remarks.clone();
    remarks.extend(stopped.map(|why| format!("reading stopped before the end: {why}")));
    if facts.analysis.accesses.is_cut {
        remarks.push(
            "there are too many pairs of thread and file to tell all apart; the rest counts in the \
             totals only"
                .to_owned(),
        );
    }
    Loss {
        attempted: sum(|stream| stream.attempted),
        stored: sum(|stream| stream.stored),
        dropped: sum(|stream| stream.dropped),
        torn: sum(|stream| stream.torn),
        strip: loss_strip(facts),
        operations: tables.lost.iter().map(lost_operation).collect(),
        clocks: clocks(tables),
        remarks,
    }
}

fn lost_operation(tally: &hearth_trace::Tally) -> LostOperation {
    LostOperation {
        op: tally.op.name(),
        count: tally.count,
        bytes: tally.bytes,
        seconds: tally.took as f64 / 1e9,
    }
}

/// Each gap's records, spread evenly over its time.
fn loss_strip(facts: &Facts<'_>) -> Vec<f64> {
    let strip = &facts.analysis.strip;
    let columns = columns(strip.bins.len(), STRIP_COLUMNS);
    let mut lost = vec![0.0; columns.count];
    for gap in &facts.tables.gaps {
        let last = strip.bins.len().saturating_sub(1);
        let (from, to) = (
            strip.bin_of(gap.from).min(last),
            strip.bin_of(gap.to).min(last),
        );
        let (from, to) = (from / columns.each, to.max(from) / columns.each);
        let cells = lost.get_mut(from..=to).unwrap_or_default();
        let each = gap.count as f64 / cells.len().max(1) as f64;
        cells.iter_mut().for_each(|cell| *cell += each);
    }
    lost
}

fn clocks(tables: &Tables) -> Vec<String> {
    if tables.hosts.len() < 2 {
        return Vec::new();
    }
    let worst = tables
        .hosts
        .iter()
        .filter_map(|host| host.clock_bound)
        .max();
    let unknown = tables
        .hosts
        .iter()
        .filter(|host| host.clock_bound.is_none());
    let unknown: Vec<&str> = unknown.map(|host| host.name.as_str()).collect();
    let mut lines = Vec::new();
    if let Some(worst) = worst {
        lines.push(format!(
            "the clocks of the hosts agree to {}; nothing finer is said about the order of events on \
             different hosts",
            words::nanos(worst as f64)
        ));
    }
    if !unknown.is_empty() {
        let more = unknown.len().saturating_sub(4);
        lines.push(format!(
            "nobody measured the clock of {}{}: its events may be out of place by any time",
            unknown[..unknown.len().min(4)].join(", "),
            if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            }
        ));
    }
    lines
}

fn operations(analysis: &Analysis) -> Vec<Operation> {
    let pairs = Layer::ALL
        .into_iter()
        .flat_map(|layer| Op::ALL.iter().map(move |&op| (layer, op)));
    let mut rows: Vec<Operation> = pairs
        .filter_map(|(layer, op)| {
            let stats = analysis.ops.get(layer, op)?;
            let latency: &Latency = &stats.latency;
            Some(Operation {
                layer: layer.name(),
                op: op.name(),
                count: latency.count,
                failed: stats.failed,
                bytes: stats.bytes,
                seconds: latency.total as f64 / 1e9,
                median: latency.median() / 1e9,
                p99: latency.quantile(0.99) / 1e9,
                longest: latency.longest as f64 / 1e9,
            })
        })
        .collect();
    let program = Layer::App.name();
    rows.sort_by(|a, b| {
        let by_layer = (a.layer != program).cmp(&(b.layer != program));
        by_layer.then(b.seconds.total_cmp(&a.seconds))
    });
    rows
}

/// Bins gathered to columns.
struct Columns {
    count: usize,
    each: usize,
}

fn columns(bins: usize, columns_max: usize) -> Columns {
    let each = bins.div_ceil(columns_max).max(1);
    Columns {
        count: bins.div_ceil(each),
        each,
    }
}

fn strip(facts: &Facts<'_>) -> Strip {
    let strip = &facts.analysis.strip;
    let columns = columns(strip.bins.len(), STRIP_COLUMNS);
    let width = (strip.width() * columns.each as u64) as f64;
    let sums = |pick: &dyn Fn(&crate::strip::Bin) -> u64| -> Vec<f64> {
        let runs = strip.bins.chunks(columns.each);
        runs.map(|run| run.iter().map(pick).sum::<u64>() as f64 / width)
            .collect()
    };
    Strip {
        bin: width / 1e9,
        groups: Group::ALL.iter().map(|group| group.name()).collect(),
        busy: Group::ALL
            .iter()
            .map(|&group| sums(&|bin| bin.took[group as usize]))
            .collect(),
        rate: sums(&|bin| bin.bytes)
            .into_iter()
            .map(|rate| rate * 1e9)
            .collect(),
    }
}

fn heatmap(facts: &Facts<'_>) -> Heatmap {
    let strip = &facts.analysis.strip;
    let columns = columns(strip.bins.len(), HEAT_COLUMNS);
    let order = heat_order(facts);
    let each = order.len().div_ceil(HEAT_ROWS).max(1);
    let mut row_of = vec![None; facts.tables.processes.len()];
    for (index, process) in order.iter().enumerate() {
        row_of[process.0 as usize] = Some(index / each);
    }
    let rows: Vec<String> = order
        .chunks(each)
        .map(|run| heat_name(facts, run))
        .collect();
    let mut cells = vec![vec![0.0; columns.count]; rows.len()];
    let mut threads = vec![0.0; rows.len()];
    for (stream, row) in strip
        .rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.total > 0)
    {
        let process = facts.tables.streams[stream].process;
        let Some(place) = row_of[process.0 as usize] else {
            continue;
        };
        threads[place] += 1.0;
        for (index, &took) in row.cells.iter().enumerate() {
            cells[place][(row.first + index) / columns.each] += took as f64;
        }
    }
    let width = (strip.width() * columns.each as u64) as f64;
    for (row, run) in cells.iter_mut().zip(order.chunks(each)) {
        let whole = width * run.len() as f64;
        row.iter_mut()
            .for_each(|cell| *cell = (*cell / whole).min(1.0));
    }
    Heatmap {
        bin: width / 1e9,
        rows,
        cells,
    }
}

/// Processes with I/O, by rank, else by start.
fn heat_order(facts: &Facts<'_>) -> Vec<ProcessId> {
    let works = facts
        .analysis
        .works
        .iter()
        .enumerate()
        .filter(|(_, work)| work.total > 0);
    let mut order: Vec<ProcessId> = works.map(|(index, _)| ProcessId(index as u32)).collect();
    order.sort_by_key(|id| {
        let process = &facts.tables.processes[id.0 as usize];
        (process.rank.is_none(), process.rank, process.start, id.0)
    });
    order
}

fn heat_name(facts: &Facts<'_>, run: &[ProcessId]) -> String {
    let name = |id: ProcessId| {
        let process = &facts.tables.processes[id.0 as usize];
        match process.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("{}", process.pid),
        }
    };
    match (run.first(), run.last()) {
        (Some(&first), Some(&last)) if first != last => {
            format!(
                "{} to {}",
                name(first),
                name(last).trim_start_matches("rank ")
            )
        }
        (Some(&first), _) => name(first),
        (None, _) => String::new(),
    }
}

fn files(facts: &Facts<'_>) -> (Vec<FileRow>, u64) {
    let mut order: Vec<(&u32, &crate::facts::FileFacts)> = facts.files.iter().collect();
    order.sort_by(|a, b| {
        let by_critical = b.1.critical.total_cmp(&a.1.critical);
        by_critical.then(b.1.took.cmp(&a.1.took)).then(a.0.cmp(b.0))
    });
    let rows = order.iter().take(FILES_MAX).map(|(file, about)| {
        let calls = (about.reads + about.writes).max(1) as f64;
        FileRow {
            path: facts.tables.files[**file as usize].path.clone(),
            critical: about.critical,
            seconds: about.took as f64 / 1e9,
            threads: about.threads.into(),
            reads: about.reads,
            writes: about.writes,
            metadata: about.metadata,
            bytes_read: about.bytes_read,
            bytes_written: about.bytes_written,
            sequential: about.orders[Order::Sequential as usize] as f64 / calls,
            aligned: 1.0 - about.unaligned as f64 / calls,
        }
    });
    (rows.collect(), order.len().saturating_sub(FILES_MAX) as u64)
}

fn sizes(analysis: &Analysis) -> Vec<SizeRow> {
    let mut rows: Vec<SizeRow> = (0..48)
        .map(|sort| SizeRow {
            bytes: 1 << sort,
            reads: 0,
            writes: 0,
            read_seconds: 0.0,
            write_seconds: 0.0,
        })
        .collect();
    for &op in Op::ALL.iter().filter(|op| op.is_read() || op.is_write()) {
        let Some(stats) = analysis.ops.get(Layer::App, op) else {
            continue;
        };
        for (row, &(calls, took)) in rows.iter_mut().zip(&stats.sizes) {
            let seconds = took as f64 / 1e9;
            if op.is_read() {
                (row.reads, row.read_seconds) = (row.reads + calls, row.read_seconds + seconds);
            } else {
                (row.writes, row.write_seconds) = (row.writes + calls, row.write_seconds + seconds);
            }
        }
    }
    let used = |row: &SizeRow| row.reads + row.writes > 0;
    let first = rows.iter().position(used).unwrap_or(rows.len());
    let last = rows.iter().rposition(used).map_or(first, |last| last + 1);
    rows.drain(first..last).collect()
}

fn patterns(facts: &Facts<'_>) -> Vec<Pattern> {
    type Pick = fn(&crate::access::Access) -> &Flow;
    let pick: [(&'static str, Pick); 2] = [
        ("read", |access| &access.reads),
        ("write", |access| &access.writes),
    ];
    let rows = pick.into_iter().map(|(what, flow)| {
        let (mut calls, mut orders, mut unaligned) = (0u64, [0u64; 3], 0u64);
        for flow in facts.analysis.accesses.all.iter().map(flow) {
            calls += flow.calls;
            orders
                .iter_mut()
                .zip(&flow.orders)
                .for_each(|(sum, &n)| *sum += u64::from(n));
            unaligned += u64::from(flow.unaligned);
        }
        let share = |count: u64| count as f64 / calls.max(1) as f64;
        Pattern {
            what,
            calls,
            sequential: share(orders[Order::Sequential as usize]),
            strided: share(orders[Order::Strided as usize]),
            random: share(orders[Order::Random as usize]),
            aligned: 1.0 - share(unaligned),
        }
    });
    rows.filter(|row| row.calls > 0).collect()
}

fn processes(facts: &Facts<'_>) -> (Vec<ProcessRow>, u64) {
    let works = &facts.analysis.works;
    let mut order: Vec<usize> = (0..works.len())
        .filter(|&index| works[index].total > 0)
        .collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(works[index].total), index));
    let median = order
        .get(order.len() / 2)
        .map_or(0, |&index| works[index].total);
    let rows = order.iter().take(PROCESSES_MAX).map(|&index| ProcessRow {
        name: facts.name_process(ProcessId(index as u32)),
        seconds: works[index].total as f64 / 1e9,
        operations: works[index].operations(),
        bytes: works[index].bytes,
        of_median: works[index].total as f64 / median.max(1) as f64,
    });
    (
        rows.collect(),
        order.len().saturating_sub(PROCESSES_MAX) as u64,
    )
}

fn waterfall(analysis: &Analysis) -> Vec<WaterfallRow> {
    let weight = analysis.requests.weight();
    let mut rows = Vec::new();
    for (what, is_write) in [("read", false), ("write", true)] {
        for outcome in ["hit", "shared", "peer", "store"] {
            let alike = analysis.requests.joined().filter(|joined| {
                // Requests that only the program or only an agent recorded say nothing of the way.
                joined.records[Layer::Cache as usize] > 0
                    && joined.is_write == is_write
                    && served_by(joined) == outcome
            });
            let (count, parts) = alike.fold((0u64, [0.0; 5]), |(count, mut sum), joined| {
                let parts = parts(joined);
                sum.iter_mut()
                    .zip(parts)
                    .for_each(|(sum, part)| *sum += part);
                (count + 1, sum)
            });
            if count > 0 {
                rows.push(outcome_row(outcome, what, count, weight, parts));
            }
        }
    }
    rows
}

const PARTS: [&str; 5] = ["way in", "cache", "network", "peer", "store"];

fn outcome_row(
    outcome: &'static str,
    what: &'static str,
    count: u64,
    weight: f64,
    parts: [f64; 5],
) -> WaterfallRow {
    let parts = PARTS.iter().zip(parts).map(|(&name, sum)| Part {
        name,
        seconds: sum / count as f64 / 1e9,
    });
    let parts: Vec<Part> = parts.collect();
    WaterfallRow {
        outcome,
        what,
        count: (count as f64 * weight) as u64,
        mean: parts.iter().map(|part| part.seconds).sum(),
        parts,
    }
}

fn served_by(joined: &Joined) -> &'static str {
    if joined.records[Layer::Store as usize] > 0 {
        "store"
    } else if joined.records[Layer::PeerClient as usize] > 0 {
        "peer"
    } else if joined.is_miss {
        // Another request had asked for this, perhaps to read ahead.
        "shared"
    } else {
        "hit"
    }
}

/// Nanoseconds by part. Each layer's time is in that of the one above; requests that go out side by
/// side may add up to more than the whole, and then the parts below share it.
fn parts(joined: &Joined) -> [f64; 5] {
    let took = |layer: Layer| joined.took[layer as usize] as f64;
    let cache = took(Layer::Cache);
    let app = took(Layer::App).max(cache);
    let store = took(Layer::Store).min(cache);
    let asked = took(Layer::PeerClient).min(cache);
    let served = took(Layer::PeerServer).min(asked);
    if asked > 0.0 {
        let store = store.min(served.max(0.0));
        return [
            app - cache,
            cache - asked,
            asked - served,
            served - store,
            store,
        ];
    }
    [app - cache, cache - store, 0.0, 0.0, store]
}

fn bursts(facts: &Facts<'_>) -> Vec<Burst> {
    let strip = &facts.analysis.strip;
    let calls: Vec<u64> = strip
        .bins
        .iter()
        .map(|bin| bin.calls[Group::Metadata as usize])
        .collect();
    let total: u64 = calls.iter().sum();
    let mean = total as f64 / calls.len().max(1) as f64;
    let is_dense = |calls: u64| calls as f64 > 3.0 * mean && calls > 0;
    let mut bursts = Vec::new();
    let mut from = 0;
    for run in calls.chunk_by(|a, b| is_dense(*a) == is_dense(*b)) {
        let (first, sum) = (from, run.iter().sum::<u64>());
        from += run.len();
        if is_dense(run[0]) && sum >= BURST_CALLS_MIN {
            let lasts = (run.len() as u64 * strip.width()) as f64 / 1e9;
            bursts.push(Burst {
                at: (first as u64 * strip.width()) as f64 / 1e9,
                lasts,
                calls: sum,
                rate: sum as f64 / lasts,
            });
        }
    }
    bursts.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.at.total_cmp(&b.at)));
    bursts.truncate(BURSTS_MAX);
    bursts
}

fn curves(analysis: &Analysis) -> Vec<Curve> {
    let mut order: Vec<usize> = (0..analysis.curves.classes.len()).collect();
    order.sort_by(|&a, &b| {
        analysis.curves.classes[b]
            .uses()
            .total_cmp(&analysis.curves.classes[a].uses())
    });
    let used = order
        .into_iter()
        .filter(|&class| analysis.curves.classes[class].uses() > 0.0);
    used.take(CURVES_MAX)
        .map(|class| {
            let reuse = &analysis.curves.classes[class];
            let footprint = reuse.footprint();
            let steps = (0..=48).map(|step| footprint * 1.1 * f64::from(step) / 48.0);
            Curve {
                class: analysis.classes[class].clone(),
                uses: reuse.uses(),
                footprint: footprint * PAGE as f64,
                first: reuse.first / reuse.uses().max(1.0),
                points: steps
                    .map(|pages| (pages * PAGE as f64, reuse.miss_ratio(pages)))
                    .collect(),
            }
        })
        .collect()
}
