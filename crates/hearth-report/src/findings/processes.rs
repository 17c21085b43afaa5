//! Processes that hold the others up: slower at the same work, or with more of it.
//!
//! A process's time is cut in two: what its work takes at the pace that is usual among its peers,
//! and the rest. A straggler's cost is the rest; imbalance is in the work. No second is in both.

use hearth_trace::{ProcessId, StreamId};

use crate::facts::{Facts, Share};
use crate::finding::{Finding, WasteKind};
use crate::mix::MixMap;
use crate::words::{bytes, count, nanos};
use crate::work::{Work, expected};

/// A straggler takes so much longer than its work would at the usual pace.
const SLOW: f64 = 1.6;
/// At most this share of the processes are stragglers; else nobody is.
const STRAGGLERS_MAX: f64 = 0.25;
/// The most work is so many times the mean.
const UNEVEN: f64 = 1.4;

/// Processes of one program that run at the same time.
struct Peers {
    processes: Vec<ProcessId>,
    /// Nanoseconds in I/O.
    took: Vec<f64>,
    /// The same at the usual pace.
    expected: Vec<f64>,
    stragglers: Vec<usize>,
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(peers) = peers(facts) else {
        return Vec::new();
    };
    straggler(facts, &peers)
        .into_iter()
        .chain(imbalance(facts, &peers))
        .collect()
}

/// The largest set of processes that run the same program side by side. If ranks are known, the
/// process that starts them is left out.
fn peers(facts: &Facts<'_>) -> Option<Peers> {
    let mut groups: MixMap<u64, Vec<ProcessId>> = MixMap::default();
    let mut names: std::collections::HashMap<&str, u64> = std::collections::HashMap::new();
    let any_rank = facts.tables.processes.iter().any(|it| it.rank.is_some());
    for (index, process) in facts.tables.processes.iter().enumerate() {
        if any_rank && process.rank.is_none() {
            continue;
        }
        let next = names.len() as u64;
        let name = *names.entry(process.exe.as_str()).or_insert(next);
        groups
            .entry(name)
            .or_default()
            .push(ProcessId(index as u32));
    }
    let side_by_side = groups.into_values().map(|group| match any_rank {
        // Ranks begin together, and one that ends early is one that waits for the others.
        true => group,
        false => together(facts, group),
    });
    let total = |group: &Vec<ProcessId>| group.iter().map(|&id| work(facts, id).total).sum::<u64>();
    let processes = side_by_side
        .filter(|group| group.len() >= 2)
        .max_by_key(|group| (total(group), group.len()))?;
    let works: Vec<&Work> = processes.iter().map(|&id| work(facts, id)).collect();
    let took: Vec<f64> = works.iter().map(|work| work.total as f64).collect();
    let expected = expected(&works);
    let mut stragglers: Vec<usize> = (0..works.len())
        .filter(|&index| took[index] > SLOW * expected[index])
        .collect();
    // It must stand out from how unlike each other the rest are.
    let ratio = |index: usize| took[index] / expected[index].max(1.0);
    let rest = (0..works.len()).filter(|index| !stragglers.contains(index));
    let unlike = rest
        .map(|index| (ratio(index) - 1.0).abs())
        .fold(0.0, f64::max);
    stragglers.retain(|&index| ratio(index) - 1.0 > 2.0 * unlike);
    let allowed = ((works.len() as f64 * STRAGGLERS_MAX) as usize).max(1);
    if stragglers.len() > allowed {
        stragglers.clear();
    }
    Some(Peers {
        processes,
        took,
        expected,
        stragglers,
    })
}

fn work<'a>(facts: &'a Facts<'_>, process: ProcessId) -> &'a Work {
    &facts.analysis.works[process.0 as usize]
}

/// The ranks; where there are none, those that live at least half as long as the longest.
fn together(facts: &Facts<'_>, mut group: Vec<ProcessId>) -> Vec<ProcessId> {
    // The process that started the ranks is no rank.
    let is_rank = |id: &ProcessId| facts.tables.processes[id.0 as usize].rank.is_some();
    if group.iter().any(is_rank) {
        group.retain(is_rank);
        return group;
    }
    let life = |id: ProcessId| {
        let process = &facts.tables.processes[id.0 as usize];
        process.end.saturating_sub(process.start)
    };
    let longest = group.iter().map(|&id| life(id)).max().unwrap_or(0);
    let first_end = group.iter().filter(|&&id| life(id) * 2 >= longest);
    let first_end = first_end
        .map(|id| facts.tables.processes[id.0 as usize].end)
        .min();
    group
        .into_iter()
        .filter(|&id| {
            let start = facts.tables.processes[id.0 as usize].start;
            life(id) * 2 >= longest && first_end.is_none_or(|end| start < end)
        })
        .collect()
}

fn straggler(facts: &Facts<'_>, peers: &Peers) -> Option<Finding> {
    let &slowest = peers.stragglers.iter().max_by(|&&a, &&b| {
        let lost = |index: usize| peers.took[index] - peers.expected[index];
        lost(a).total_cmp(&lost(b))
    })?;
    let mut savings = facts.savings();
    for (stream, index) in streams(facts, peers) {
        if peers.stragglers.contains(&index) {
            let mid = 1.0 - peers.expected[index] / peers.took[index];
            let took = facts.analysis.strip.rows[stream].total;
            savings.add(
                stream as u32,
                took,
                Share {
                    low: mid * 0.85,
                    mid,
                    high: mid,
                },
            );
        }
    }
    let mut finding = facts.finding(WasteKind::Straggler, &savings)?;
    let process = peers.processes[slowest];
    let work = work(facts, process);
    let others = peers.stragglers.len() - 1;
    finding.title = format!(
        "{} is slower than the others at the same work{}",
        facts.name_process(process),
        if others == 0 {
            String::new()
        } else {
            format!(", and {others} more are")
        }
    );
    finding.evidence = vec![
        format!(
            "{} in I/O; its {} operations and {} take the others {}",
            nanos(peers.took[slowest]),
            count(work.operations()),
            bytes(work.bytes as f64),
            nanos(peers.expected[slowest])
        ),
        format!(
            "the median of the {} processes is {} in I/O",
            peers.processes.len(),
            nanos(median(&peers.took))
        ),
    ];
    finding.change =
        "Look at that host and at the storage target that its file is on: another job, a \
                      failing disk, a slow link. Move the rank, or take the host out of the job."
            .to_owned();
    finding.basis =
        "its time, less the time of its calls at the pace of the others; then the next \
                     slowest holds the job up"
            .to_owned();
    Some(finding)
}

fn imbalance(facts: &Facts<'_>, peers: &Peers) -> Option<Finding> {
    let mean = peers.expected.iter().sum::<f64>() / peers.expected.len() as f64;
    let most = (0..peers.expected.len())
        .max_by(|&a, &b| peers.expected[a].total_cmp(&peers.expected[b]))?;
    if mean <= 0.0 || peers.expected[most] < UNEVEN * mean {
        return None;
    }
    // The loss by stragglers is not in this account: each process saves its work above the mean,
    // and those below take it on.
    let mut savings = facts.savings();
    for (stream, index) in streams(facts, peers) {
        if peers.took[index] > 0.0 {
            let mid = (peers.expected[index] - mean) / peers.took[index];
            let took = facts.analysis.strip.rows[stream].total;
            let low = if mid > 0.0 { mid * 0.8 } else { mid };
            savings.add(
                stream as u32,
                took,
                Share {
                    low,
                    mid,
                    high: mid,
                },
            );
        }
    }
    let mut finding = facts.finding(WasteKind::Imbalance, &savings)?;
    let process = peers.processes[most];
    let work = work(facts, process);
    let total: u64 = peers
        .processes
        .iter()
        .map(|&id| self::work(facts, id).bytes)
        .sum();
    finding.title = format!(
        "{} has more to do than the others",
        facts.name_process(process)
    );
    finding.evidence = vec![
        format!(
            "{} operations and {} of {} in all, by {} processes",
            count(work.operations()),
            bytes(work.bytes as f64),
            bytes(total as f64),
            peers.processes.len()
        ),
        format!(
            "at the same pace its work takes {}, {:.1} times the mean",
            nanos(peers.expected[most]),
            peers.expected[most] / mean
        ),
    ];
    finding.change = "Share the work evenly: equal parts of the file for all ranks, or several \
                      aggregators instead of one (`romio_cb_nodes`, `cb_nodes`)."
        .to_owned();
    finding.basis = "every process does the mean of the work at the usual pace".to_owned();
    Some(finding)
}

/// The threads of peers, with the index of their process among them.
fn streams<'a>(
    facts: &'a Facts<'_>,
    peers: &'a Peers,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let place: MixMap<u64, usize> = peers
        .processes
        .iter()
        .enumerate()
        .map(|(index, id)| (u64::from(id.0), index))
        .collect();
    (0..facts.tables.streams.len()).filter_map(move |stream| {
        let process = facts.tables.streams[StreamId(stream as u32).0 as usize].process;
        Some((stream, *place.get(&u64::from(process.0))?))
    })
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
