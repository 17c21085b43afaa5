//! Pages of the cache that do not fit: too large for scattered reads, or too small for long ones.

use hearth_trace::{Layer, Op, TracedFileId};

use super::{CALLS_MIN, Case};
use crate::analysis::OpStats;
use crate::facts::{Facts, FileFacts, Share};
use crate::finding::{Finding, WasteKind};
use crate::profile::Order;
use crate::reuse::PAGE;
use crate::words::{bytes, count, nanos, option_size};

/// Nanoseconds for a byte of a page on its way, where the trace does not say: 1 GB/s.
const BYTE: f64 = 1.0;
/// Of the time to fetch a page, what goes to its bytes and not to the request, where agents were not
/// traced: at least, most likely, at most.
const FETCH_SHARE: Share = Share {
    low: 0.2,
    mid: 0.6,
    high: 0.95,
};
/// Pages so many times larger than what is read of them are too large, and so on.
const MISFIT: f64 = 4.0;
/// Nanoseconds of a read that the agent serves at once.
const HIT: f64 = 20_000.0;
const SMALLEST: f64 = 4096.0;
const LARGEST: f64 = (4 << 20) as f64;

/// Pages as they are, and as they would fit.
struct Fit {
    page: f64,
    better: f64,
    /// Requests for pages and nanoseconds each, if agents were traced.
    requests: Option<(u64, f64)>,
    /// Share of the time of reads that would be saved.
    share: Share,
}

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let concerned = |about: &FileFacts| is_cached(facts, about) && about.reads > 0;
    let all = facts.files.values().filter(|about| concerned(about));
    let (reads, moved) = all.fold((0, 0), |sum, about| {
        (sum.0 + about.reads, sum.1 + about.bytes_read)
    });
    if reads < CALLS_MIN {
        return None;
    }
    let size = moved as f64 / reads as f64;
    let fit = traced(facts, size, moved).or_else(|| assumed(facts, size, &concerned))?;
    let mut case = Case::new(facts);
    for (access, file, about) in facts.accesses() {
        if concerned(about) {
            case.add_cost(
                access,
                file,
                access.reads.took,
                access.reads.calls,
                fit.share,
            );
        }
    }
    let mut finding = facts.finding(WasteKind::PageSize, &case.savings)?;
    let how = if fit.better < fit.page {
        "large"
    } else {
        "small"
    };
    finding.title = format!(
        "Pages of {} are too {how} for {}",
        bytes(fit.page),
        case.files()
    );
    finding.evidence = vec![format!(
        "{} reads of {} on average take {} each",
        count(reads),
        bytes(size),
        nanos(case.mean())
    )];
    finding
        .evidence
        .extend(fit.requests.map(|(requests, each)| {
            format!(
                "agents made {} requests of {} for the {} that programs read; one takes {}",
                count(requests),
                bytes(fit.page),
                bytes(moved as f64),
                nanos(each)
            )
        }));
    finding.change = format!(
        "Start the agents with `--page-size {}`.",
        option_size(fit.better)
    );
    finding.basis = match fit.requests {
        Some(_) => "requests for pages x what the bytes or calls between the sizes cost".to_owned(),
        None => "reads x 60 % of a fetch, which is for bytes left alone; agents were not traced"
            .to_owned(),
    };
    Some(finding)
}

/// A tracer may not know whose mount it is, only that a process answers for it.
fn is_cached(facts: &Facts<'_>, about: &FileFacts) -> bool {
    facts.name_system(about.system) == "fuse.hearth"
}

/// From what agents asked of peers and store.
fn traced(facts: &Facts<'_>, size: f64, moved: u64) -> Option<Fit> {
    let ops = &facts.analysis.ops;
    let asked = [
        ops.get(Layer::PeerClient, Op::PeerGet),
        ops.get(Layer::Store, Op::StoreRead),
    ];
    let most = asked
        .into_iter()
        .flatten()
        .max_by_key(|stats| stats.latency.total)?;
    let calls = most.latency.count;
    let page = most.bytes as f64 / calls.max(1) as f64;
    let app = facts
        .analysis
        .strip
        .bins
        .iter()
        .map(|bin| bin.took[0])
        .sum::<u64>() as f64;
    if calls < CALLS_MIN || app <= 0.0 {
        return None;
    }
    let byte = byte_cost(most);
    if page > MISFIT * size && most.bytes as f64 > MISFIT * moved as f64 {
        let better = fitting(size);
        let saved = (page - better) * byte * calls as f64 / app;
        return Some(Fit {
            page,
            better,
            requests: Some((calls, most.latency.mean())),
            share: around(saved.min(0.95)),
        });
    }
    if size > MISFIT * page && page < LARGEST / MISFIT {
        let better = fitting(size);
        let call = (most.latency.median() - page * byte).max(0.0);
        let saved = call * calls as f64 * (1.0 - page / better) / app;
        return Some(Fit {
            page,
            better,
            requests: Some((calls, most.latency.mean())),
            share: around(saved.min(0.95)),
        });
    }
    None
}

/// From the programs' side alone: scattered reads, each to a page of its own.
fn assumed(facts: &Facts<'_>, size: f64, concerned: &dyn Fn(&FileFacts) -> bool) -> Option<Fit> {
    let mut page = 0.0_f64;
    let mut scattered = 0;
    let mut spans = 0.0;
    let (mut calls, mut took, mut moved) = (0, 0, 0);
    for (file, about) in facts.files.iter().filter(|(_, about)| concerned(about)) {
        page = page.max(facts.unit(TracedFileId(*file)).unwrap_or(PAGE) as f64);
        scattered += about.orders[Order::Random as usize] + about.orders[Order::Strided as usize];
        spans += about.span_bytes() as f64;
        calls += about.reads;
        took += about.took;
        moved += about.bytes_read;
    }
    let is_sparse = spans > MISFIT * moved as f64 && scattered * 2 > calls;
    if !is_sparse || size * MISFIT > page {
        return None;
    }
    let better = fitting(size);
    let mean = took as f64 / calls as f64;
    let fetched = (mean - HIT).max(0.0) / mean;
    let share = |share: f64| share * fetched * (1.0 - better / page);
    let share = Share {
        low: share(FETCH_SHARE.low),
        mid: share(FETCH_SHARE.mid),
        high: share(FETCH_SHARE.high),
    };
    Some(Fit {
        page,
        better,
        requests: None,
        share,
    })
}

fn around(share: f64) -> Share {
    Share {
        low: share * 0.6,
        mid: share,
        high: (share * 1.4).min(0.98),
    }
}

/// The power of two that holds a read.
fn fitting(size: f64) -> f64 {
    f64::powi(2.0, size.max(1.0).log2().ceil() as i32).clamp(SMALLEST, LARGEST)
}

/// The slope between the smallest and the largest requests that are common.
fn byte_cost(stats: &OpStats) -> f64 {
    let common: Vec<(f64, f64)> = stats
        .sizes
        .iter()
        .enumerate()
        .filter(|(_, (calls, _))| *calls >= CALLS_MIN)
        .map(|(sort, (calls, took))| (f64::powi(2.0, sort as i32), *took as f64 / *calls as f64))
        .collect();
    match (common.first(), common.last()) {
        (Some(small), Some(large)) if large.0 >= 8.0 * small.0 && large.1 > small.1 => {
            (large.1 - small.1) / (large.0 - small.0)
        }
        _ => BYTE
            .min(stats.latency.mean() / (stats.bytes as f64 / stats.latency.count as f64).max(1.0)),
    }
}
