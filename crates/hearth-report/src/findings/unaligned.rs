//! Accesses across the edges of blocks: one block more for each, and partial blocks at both ends.

use hearth_trace::TracedFileId;

use super::{CALLS_MIN, Case};
use crate::access::BLOCK;
use crate::facts::Facts;
use crate::finding::{Finding, WasteKind};
use crate::latency::Latency;
use crate::profile::{Alignment, Cause, Order, data_row};
use crate::words::{bytes, count, nanos, percent};

/// Aligned calls of a size before they are a measure.
const MEASURE_MIN: u64 = 20;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let shares = facts.shares(Cause::Unaligned, |system, sort, latency| {
        let aligned = aligned(facts, system, sort);
        if aligned.count >= MEASURE_MIN {
            let more = latency.median() - aligned.median();
            return [more * 0.7, more, latency.mean() - aligned.median()];
        }
        // Without aligned calls to compare: one of the blocks that a call touches is for nothing. It
        // costs nothing where targets serve blocks side by side and are idle, and its whole share
        // where they are busy.
        let whole = (latency.size() / unit(facts, system)).max(1.0);
        let share = 1.0 / (whole + 1.0);
        [0.1, 0.5, 1.0].map(|factor| latency.mean() * share * factor)
    });
    let mut case = Case::new(facts);
    for (access, file, about) in facts.accesses() {
        if about.contested * 10 < about.writes.max(1) {
            case.add(
                access,
                file,
                Cause::Unaligned,
                shares[usize::from(access.system)],
            );
        }
    }
    let mut finding = facts.finding(WasteKind::Unaligned, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    let latency = facts.latency(Cause::Unaligned);
    let file = case.files.keys().min().map(|file| &facts.files[file]);
    let system = file.map_or(0, |file| file.system);
    let all: u64 = case
        .files
        .keys()
        .map(|file| facts.files[file].reads + facts.files[file].writes)
        .sum();
    finding.title = format!(
        "Accesses that begin or end inside of a block, to {}",
        case.files()
    );
    finding.evidence = vec![
        format!(
            "{} accesses, {} of all to these files, are not at multiples of 4 KiB",
            count(case.calls),
            percent(case.calls as f64 / all.max(1) as f64)
        ),
        format!("such an access takes {} (median)", nanos(latency.median())),
    ];
    finding.change = format!(
        "Begin and end at multiples of {}: pad the header or the records up to it, or write through \
         a buffer of that size.",
        bytes(unit(facts, system))
    );
    finding.basis = basis(facts);
    Some(finding)
}

fn basis(facts: &Facts<'_>) -> String {
    let measured = (0..48).any(|sort| aligned(facts, 0, sort).count >= MEASURE_MIN);
    if measured {
        "calls x (their median - that of aligned calls of the same size)".to_owned()
    } else {
        "half of what one block takes, for each call: the trace has no aligned calls to compare with"
            .to_owned()
    }
}

fn aligned(facts: &Facts<'_>, system: u8, sort: usize) -> Latency {
    let mut sum = Latency::default();
    for is_write in [false, true] {
        for order in [Order::Sequential, Order::Strided] {
            let row = data_row(is_write, order, Alignment::Aligned);
            if let Some(latency) = facts.analysis.accesses.data.get(row, system, sort) {
                sum.merge(latency);
            }
        }
    }
    sum
}

/// Bytes in what the file system handles as one.
fn unit(facts: &Facts<'_>, system: u8) -> f64 {
    let of_system = facts
        .files
        .iter()
        .filter(|(_, about)| about.system == system);
    let units = of_system.filter_map(|(file, _)| facts.unit(TracedFileId(*file)));
    units.max().unwrap_or(BLOCK) as f64
}
