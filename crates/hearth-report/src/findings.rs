//! Changes worth making: twelve kinds of waste, each measured in wall time that a change would
//! save.
//!
//! A kind is found if its predicted gain is a material share of the critical seconds and of the wall
//! time. A prediction takes the cost of calls from this very trace, and says which figures come from
//! elsewhere.

mod fsync;
mod lock_storm;
mod metadata;
mod modify;
mod page_size;
mod processes;
mod random;
mod rereads;
mod serial_open;
mod tiny_writes;
mod unaligned;

use hearth_trace::TracedFileId;

use crate::access::Access;
use crate::facts::{Facts, Savings, Share};
use crate::finding::Finding;
use crate::mix::MixMap;
use crate::profile::Cause;

/// Calls of a kind before it is looked at.
const CALLS_MIN: u64 = 50;

/// All findings, the one that saves most first.
pub(crate) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let alone = [
        tiny_writes::find,
        unaligned::find,
        lock_storm::find,
        rereads::find,
        metadata::find,
        random::find,
        serial_open::find,
        fsync::find,
        modify::find,
        page_size::find,
    ];
    let mut findings: Vec<Finding> = alone.iter().filter_map(|find| find(facts)).collect();
    findings.extend(processes::find(facts));
    findings.sort_by(|a, b| {
        b.seconds
            .mid
            .total_cmp(&a.seconds.mid)
            .then(a.kind.cmp(&b.kind))
    });
    findings
}

/// The cost of a kind, as it is gathered.
struct Case<'a> {
    facts: &'a Facts<'a>,
    savings: Savings,
    /// Nanoseconds by file.
    files: MixMap<u32, f64>,
    calls: u64,
    took: u64,
}

impl<'a> Case<'a> {
    fn new(facts: &'a Facts<'a>) -> Case<'a> {
        Case {
            facts,
            savings: facts.savings(),
            files: MixMap::default(),
            calls: 0,
            took: 0,
        }
    }

    /// Adds what a thread spends for a cause on a file.
    fn add(&mut self, access: &Access, file: TracedFileId, cause: Cause, share: Share) {
        self.add_cost(
            access,
            file,
            access.cost(cause),
            access.count(cause).into(),
            share,
        );
    }

    fn add_cost(
        &mut self,
        access: &Access,
        file: TracedFileId,
        took: u64,
        calls: u64,
        share: Share,
    ) {
        if took == 0 {
            return;
        }
        self.savings.add(access.stream, took, share);
        *self.files.entry(file.0).or_default() += took as f64;
        self.calls += calls;
        self.took += took;
    }

    /// Nanoseconds that a call takes on average.
    fn mean(&self) -> f64 {
        self.took as f64 / self.calls.max(1) as f64
    }

    fn files(&self) -> String {
        self.facts.name_files(&self.files)
    }
}
