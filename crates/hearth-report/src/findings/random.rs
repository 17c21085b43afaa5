//! A whole file in no order: in order, the store could read ahead and gather.

use std::cell::Cell;

use super::{CALLS_MIN, Case};
use crate::facts::{Facts, FileFacts};
use crate::finding::{Finding, WasteKind};
use crate::latency::Latency;
use crate::profile::{Cause, Order};
use crate::words::{bytes, count, nanos, percent};

/// Calls in order before they are a measure.
const MEASURE_MIN: u64 = 50;
/// Of its bytes from first to last, a file that is used as a whole is used at least so much.
const COVERED_MIN: f64 = 0.7;
/// Share of its calls that are in no order.
const RANDOM_MIN: f64 = 0.4;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let is_measured = Cell::new(false);
    let shares = |cause: Cause, is_write: bool| {
        facts.shares(cause, |system, sort, latency| {
            let (in_order, measured) = in_order(facts, is_write, system, sort, latency);
            is_measured.set(is_measured.get() || measured);
            let saved = latency.mean() - in_order;
            let low = latency.median() - 2.0 * in_order;
            [low, saved, latency.mean() - in_order / 2.0]
        })
    };
    let reads = shares(Cause::RandomRead, false);
    let writes = shares(Cause::RandomWrite, true);
    let strides = shares(Cause::StridedRead, false);
    let mut case = Case::new(facts);
    for (access, file, about) in facts.accesses() {
        let system = usize::from(access.system);
        if is_whole(about) {
            case.add(access, file, Cause::RandomRead, reads[system]);
            case.add(access, file, Cause::RandomWrite, writes[system]);
        }
        // Several rounds with a stride: columns of what lies in rows.
        if access.reads_share(COVERED_MIN) {
            case.add(access, file, Cause::StridedRead, strides[system]);
        }
    }
    let mut finding = facts.finding(WasteKind::Random, &case.savings)?;
    if case.calls < CALLS_MIN {
        return None;
    }
    let about = case.files.keys().map(|file| &facts.files[file]);
    let (span, moved) = about.fold((0, 0), |sum, about| {
        (
            sum.0 + about.span_bytes(),
            sum.1 + about.bytes_read + about.bytes_written,
        )
    });
    finding.title = format!("All of {} is used, in no order", case.files());
    finding.evidence = vec![
        format!(
            "{} accesses do not begin where the one before ended; they take {} on average",
            count(case.calls),
            nanos(case.mean())
        ),
        format!(
            "{} were moved of the {} from the first byte to the last: {}",
            bytes(moved as f64),
            bytes(span as f64),
            percent(moved as f64 / span.max(1) as f64)
        ),
    ];
    finding.change =
        "Sort the accesses by offset, or read the file in order and pick from memory, in \
                      calls of 1 MiB. Where the order must stay, announce it: \
                      `posix_fadvise(fd, offset, length, POSIX_FADV_WILLNEED)` some calls ahead."
            .to_owned();
    finding.basis = if is_measured.get() {
        "calls x (mean - mean of calls of the same size in order)".to_owned()
    } else {
        "calls x (mean - cost of their bytes in order); the trace has no calls in order to compare \
         with"
            .to_owned()
    };
    Some(finding)
}

/// Used as a whole, and mostly in no order.
fn is_whole(about: &FileFacts) -> bool {
    let all: u64 = about.orders.iter().sum();
    let random = about.orders[Order::Random as usize] as f64;
    let moved = (about.bytes_read + about.bytes_written) as f64;
    about.contested * 10 < about.writes.max(1)
        && random >= RANDOM_MIN * all as f64
        && moved >= COVERED_MIN * about.span_bytes() as f64
}

/// Nanoseconds of such a call in order, and whether the trace itself says so.
fn in_order(
    facts: &Facts<'_>,
    is_write: bool,
    system: u8,
    sort: usize,
    random: &Latency,
) -> (f64, bool) {
    let known = facts.data(is_write, Order::Sequential, system, sort);
    if known.count >= MEASURE_MIN {
        return (known.mean(), true);
    }
    let (byte, is_measured) = facts.byte_cost(is_write, system);
    let hit = facts.hit_cost(system, sort, random.mean());
    (hit + random.size() * byte, is_measured)
}
