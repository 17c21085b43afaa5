//! Bytes read again after they were dropped: a larger pool would have kept them.

use super::Case;
use crate::facts::{Facts, Share};
use crate::finding::{Finding, WasteKind};
use crate::profile::size_sort;
use crate::reuse::{PAGE, Reuse};
use crate::words::{bytes, count, nanos, option_size, percent};

/// A read again that takes so many times what memory takes did not come from there.
const SLOW: f64 = 2.5;
const CALLS_MIN: u64 = 20;

/// The worth of a larger pool to one class of files.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Nanoseconds saved.
    saved: f64,
    calls: u64,
    took: f64,
    hit: f64,
    pages: f64,
}

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let classes: Vec<Class> = (0..facts.analysis.curves.classes.len())
        .map(|class| weigh(facts, class))
        .collect();
    let mut case = Case::new(facts);
    let mut read = vec![0.0; classes.len()];
    for (access, ..) in facts.accesses() {
        if let Some(sum) = read.get_mut(usize::from(access.class)) {
            *sum += access.reads.took as f64;
        }
    }
    for (access, file, _) in facts.accesses() {
        let index = usize::from(access.class);
        let Some(class) = classes.get(index).filter(|class| class.saved > 0.0) else {
            continue;
        };
        let mid = (class.saved / read[index].max(1.0)).min(1.0);
        let share = Share {
            low: mid * 0.75,
            mid,
            high: (mid * 1.2).min(1.0),
        };
        case.add_cost(access, file, access.reads.took, access.reads.calls, share);
    }
    let mut finding = facts.finding(WasteKind::Rereads, &case.savings)?;
    let calls: u64 = classes.iter().map(|class| class.calls).sum();
    if calls < CALLS_MIN {
        return None;
    }
    let pool = classes.iter().map(|class| class.pages).sum::<f64>() * PAGE as f64;
    let hosts = facts.tables.hosts.len().max(1);
    let again: f64 = facts
        .analysis
        .curves
        .classes
        .iter()
        .map(|reuse| reuse.bytes_again)
        .sum();
    let most = classes.iter().max_by(|a, b| a.saved.total_cmp(&b.saved))?;
    finding.title = format!(
        "Bytes of {} are read again after they were dropped",
        case.files()
    );
    finding.evidence = vec![
        format!(
            "{} are read again; {} such reads are slow: {} on average, {} from memory",
            bytes(again),
            count(calls),
            nanos(most.took / most.calls.max(1) as f64),
            nanos(most.hit)
        ),
        format!("what is used between two such reads fills {}", bytes(pool)),
    ];
    finding.evidence.extend(curve_point(facts, &classes));
    finding.change = format!(
        "Give the cache {} on each of {} host{}: `--pool {}`; or use what was read before going on \
         to the next part.",
        bytes(pool / hosts as f64),
        hosts,
        if hosts == 1 { "" } else { "s" },
        option_size(pool * 1.1 / hosts as f64)
    );
    finding.basis = "slow reads of the same bytes x (mean - a read from memory)".to_owned();
    Some(finding)
}

/// The point for that pool on the miss-ratio curve of the most concerned class, in words.
fn curve_point(facts: &Facts<'_>, classes: &[Class]) -> Option<String> {
    let by_gain = |a: &(usize, &Class), b: &(usize, &Class)| a.1.saved.total_cmp(&b.1.saved);
    let (index, class) = classes.iter().enumerate().max_by(by_gain)?;
    let reuse = &facts.analysis.curves.classes[index];
    Some(format!(
        "a pool of {} would serve {} of the uses of pages of `{}`, one of half of that {}",
        bytes(class.pages * PAGE as f64),
        percent(1.0 - reuse.miss_ratio(class.pages)),
        facts.analysis.classes[index],
        percent(1.0 - reuse.miss_ratio(class.pages / 2.0)),
    ))
}

fn weigh(facts: &Facts<'_>, class: usize) -> Class {
    let reuse = &facts.analysis.curves.classes[class];
    let files = || {
        facts
            .files
            .values()
            .filter(|about| usize::from(about.class) == class)
    };
    // If every rank reads the same, that is the fault, not the pool.
    let shared = files().filter(|about| super::serial_open::is_shared(facts, about));
    let Some(system) = files().next().map(|about| about.system) else {
        return Class::default();
    };
    if shared.map(|about| about.bytes_read).sum::<u64>() * 2
        > files().map(|about| about.bytes_read).sum()
    {
        return Class::default();
    }
    let calls: u64 = reuse.again().map(|(_, latency)| latency.count).sum();
    let size = reuse.bytes_again / calls.max(1) as f64;
    let mut weighed = Class::default();
    for (pages, latency) in reuse.again() {
        let hit = facts.hit_cost(system, size_sort(size as u64), latency.mean());
        if latency.mean() < SLOW * hit {
            continue;
        }
        weighed.saved += latency.count as f64 * (latency.mean() - hit);
        weighed.calls += latency.count;
        weighed.took += latency.total as f64;
        weighed.hit = hit;
        // No more than all that was used, whatever an octave says.
        weighed.pages = pages.min(held(reuse));
    }
    weighed
}

/// Pages that hold all that was used, with room for the error of the sample.
fn held(reuse: &Reuse) -> f64 {
    (reuse.footprint() * 1.02).ceil()
}
