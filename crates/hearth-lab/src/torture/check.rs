//! Is the history of a round one that the promises allow? Each checker takes all calls and says which key is wrong,
//! when, and with which calls.
//!
//! Promises are cited as docs/semantics.md numbers them. A round may have one *break*: the time from when an
//! agent died, stood still for long or was cut off, to when all have noticed and it is over. Before it all is strict.
//! In it and after it nothing confirmed may be missing; what begins after it is strict again, from an unknown state.

mod cells;
mod durable;
mod logs;
#[cfg(test)]
mod tests;
mod weak;

use std::collections::BTreeMap;

use super::history::{By, Call, Op, Out, SECOND, name_of};

/// The promise for the bytes of a round's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) level: Level,
    /// Close ends in the store (S5).
    pub(crate) close_brings: bool,
    /// A write ends in the store (S16, S18, S21).
    pub(crate) write_brings: bool,
    /// A read mixes no writes within a page (S1); where it is the store's own, it may (S16).
    pub(crate) pages_are_whole: bool,
    /// The bytes of an acknowledged write outlive one agent (S35).
    pub(crate) outlives: bool,
    /// Calls over several pages are one (`--atomic call`).
    pub(crate) calls_are_one: bool,
}

/// How much a read sees (S1, S30 to S32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Strict,
    Opened,
    Synced,
    Own,
}

/// From when on nothing is as usual, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    pub(crate) begun: u64,
    /// With the time that everybody has to notice.
    pub(crate) ended: u64,
    /// The programs beside the agents that it hit.
    pub(crate) victims: Vec<usize>,
    /// An agent ended, and is not part of its set any more.
    pub(crate) is_death: bool,
}

/// A fault that was put in, which calls may wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Errors that it explains.
    pub(crate) errors: &'static [i32],
}

/// Files as the store itself has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Whether the set had ended in good order, so that everything is in the store.
    pub(crate) is_final: bool,
}

/// All that is known of a round.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) calls: Vec<Call>,
    pub(crate) promise: Promise,
    pub(crate) breaks: Option<Break>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) snapshots: Vec<Snapshot>,
    /// Bytes of a page.
    pub(crate) page: u64,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) what: String,
    /// The file, and the part of it.
    pub(crate) key: String,
    /// The calls on the key up to the one at fault.
    pub(crate) lines: Vec<String>,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) findings: Vec<Finding>,
    /// Histories of one key that were checked.
    pub(crate) histories: u64,
    /// Those that were too hard to decide.
    pub(crate) undecided: u64,
}

/// A call may take this long beside what a fault explains.
const WAIT_MOST: u64 = 10 * SECOND;
/// A mount drops pages that nobody calls back after so long, and takes a moment for it (S13).
const KEPT_MOST: u64 = SECOND + SECOND / 4;
/// Calls of a history that are shown.
const LINES_MOST: usize = 16;

/// Runs every checker.
pub(crate) fn check(history: &History) -> Checked {
    let mut checked = Checked::default();
    errors(history, &mut checked);
    waits(history, &mut checked);
    cells::names(history, &mut checked);
    cells::counters(history, &mut checked);
    if history.promise.level != Level::Own {
        cells::versions(history, &mut checked);
    }
    if history.promise.level == Level::Strict {
        cells::registers(history, &mut checked);
        cells::cuts(history, &mut checked);
        logs::check(history, &mut checked);
    } else {
        weak::registers(history, &mut checked);
    }
    mixed(history, &mut checked);
    durable::check(history, &mut checked);
    checked
}

impl History {
    /// Whether a call comes from a program beside an agent that the break hit, after it had.
    pub(crate) fn is_cut_off(&self, call: &Call) -> bool {
        self.breaks
            .as_ref()
            .is_some_and(|gap| gap.victims.contains(&call.worker) && call.end() >= gap.begun)
    }

    /// Whether a call comes from a program beside an agent that was given up and may not know it: it goes on alone until
    /// the break ends (S13).
    pub(crate) fn is_alone(&self, call: &Call) -> bool {
        let lasts = |gap: &Break| !gap.is_death && call.begun < gap.ended;
        self.is_cut_off(call) && self.breaks.as_ref().is_some_and(lasts)
    }

    /// Whether a read may be one of pages that an operating system keeps though nobody calls them back. Its agent is not
    /// connected with one that manages the file, while others are (S13).
    pub(crate) fn may_be_kept(&self, call: &Call) -> bool {
        let lasts = |gap: &Break| !gap.is_death && (gap.begun..gap.ended).contains(&call.begun);
        matches!(call.op, Op::Read { .. }) && self.breaks.as_ref().is_some_and(lasts)
    }

    /// Whether a read takes effect at one instant within a page. Through a descriptor for reading alone, also under
    /// `hearth run`, it may come from pages that the operating system keeps, one by one (S1).
    pub(crate) fn is_at_once(&self, call: &Call) -> bool {
        let is_kept = matches!(&call.op, Op::Read { by: By::Reader, .. });
        self.promise.pages_are_whole && !is_kept
    }

    /// Whether a program wrote a slot while another read it: a store may copy the one into its page, and the other out
    /// of it, at the same time (S16).
    fn is_beside_a_write(&self, read: &Call) -> bool {
        let Op::Read {
            file, slot, count, ..
        } = &read.op
        else {
            return false;
        };
        self.calls.iter().any(|call| match &call.op {
            Op::Write {
                file: of,
                slot: first,
                count: slots,
                ..
            } => {
                let meet = *first < slot + count && *slot < first + slots;
                of == file && meet && call.begun <= read.end() && read.begun <= call.end()
            }
            _ => false,
        })
    }

    /// Whether a read may be one of a version that is being replaced, of which a failing store refused bytes: they go with
    /// its name (S9).
    fn is_of_refused_bytes(&self, read: &Call) -> bool {
        let refuses = |fault: &Fault| !fault.errors.is_empty() && fault.begun <= read.end();
        let replaces = |call: &Call| {
            let is_publish = matches!(&call.op, Op::Publish { file, .. } if file == read.file());
            is_publish && call.begun <= read.end() && read.begun <= call.end()
        };
        matches!(read.op, Op::Fetch { .. })
            && !self.promise.close_brings
            && self.faults.iter().any(refuses)
            && self.calls.iter().any(replaces)
    }

    /// Whether a read over several pages, one of them a dead agent's, may have all of them from the store (S13). It may
    /// if it is to be of one instant. It may also if several nodes write at once and need not see it: nobody else knows
    /// which nodes have the pages.
    pub(crate) fn is_as_stored(&self, call: &Call, pages: usize) -> bool {
        let is_dead = |gap: &Break| gap.is_death && call.end() >= gap.begun;
        let is_weak = self.promise.level != Level::Strict;
        (is_weak || self.promise.calls_are_one)
            && pages > 1
            && self.breaks.as_ref().is_some_and(is_dead)
    }

    fn finding(
        &self,
        what: impl Into<String>,
        key: &str,
        at: u64,
        own: &dyn Fn(&Call) -> bool,
    ) -> Finding {
        let mut calls: Vec<&Call> = self
            .calls
            .iter()
            .filter(|call| own(call) && call.begun <= at)
            .collect();
        calls.sort_by_key(|call| call.end().min(at + 1));
        let more = calls.len().saturating_sub(LINES_MOST);
        let mut calls = calls.split_off(more);
        calls.sort_by_key(|call| call.begun);
        let start = self.calls.iter().map(|call| call.begun).min().unwrap_or(0);
        let mut lines: Vec<String> = calls.iter().map(|call| line(call, start)).collect();
        if more > 0 {
            lines.insert(
                0,
                format!("({more} earlier calls of this key are left out)"),
            );
        }
        Finding {
            what: what.into(),
            key: key.to_owned(),
            lines,
        }
    }
}

fn line(call: &Call, start: u64) -> String {
    let time = |at: u64| format!("{:.6}", at.saturating_sub(start) as f64 / SECOND as f64);
    let ended = call.ended.map_or("...".into(), time);
    format!(
        "{:>10} {ended:>10}  agent {} program {}: {} -> {}",
        time(call.begun),
        call.node,
        call.worker,
        call.op,
        call.out
    )
}

/// No call fails without a fault that explains it.
fn errors(history: &History, checked: &mut Checked) {
    let mut seen: BTreeMap<(String, i32), (u64, &Call)> = BTreeMap::new();
    for call in &history.calls {
        let Out::Failed(errno) = call.out else {
            continue;
        };
        let is_told = history
            .faults
            .iter()
            .any(|fault| fault.begun <= call.end() && fault.errors.contains(&errno));
        let is_own = history.is_cut_off(call) && errno != libc::ESTALE;
        if !is_told && !is_own {
            let kind = call.op.to_string();
            let kind = kind.split_whitespace().next().unwrap_or("").to_owned();
            seen.entry((kind, errno)).or_insert((0, call)).0 += 1;
        }
    }
    for ((kind, _), (count, call)) in seen {
        let file = call.file().to_owned();
        let what = format!(
            "{kind} failed {count} times though no fault explains it: {}",
            call.out
        );
        let own = |other: &Call| other.file() == file;
        checked
            .findings
            .push(history.finding(what, &file, call.end(), &own));
    }
}

/// No call waits for longer than its bound and the faults beside it.
fn waits(history: &History, checked: &mut Checked) {
    let mut slow: Option<(u64, &Call)> = None;
    let last = history
        .calls
        .iter()
        .map(|call| call.ended.unwrap_or(call.begun))
        .max();
    for call in &history.calls {
        let end = call.ended.or(last).unwrap_or(call.begun);
        let took = end.saturating_sub(call.begun);
        let beside: u64 = history
            .faults
            .iter()
            .map(|fault| {
                end.min(fault.ended)
                    .saturating_sub(call.begun.max(fault.begun))
            })
            .sum();
        if took > WAIT_MOST + beside && slow.is_none_or(|(most, _)| took > most) {
            slow = Some((took, call));
        }
    }
    if let Some((took, call)) = slow {
        let file = call.file().to_owned();
        let what = format!("a call waited for {:.1} s", took as f64 / SECOND as f64);
        let own = |other: &Call| other.file() == file;
        checked
            .findings
            .push(history.finding(what, &file, call.end(), &own));
    }
}

/// Bytes that no write wrote as a whole: within a slot, a record, a version.
fn mixed(history: &History, checked: &mut Checked) {
    let promise = history.promise;
    let bad = history.calls.iter().find(|call| {
        let is_broken = history
            .breaks
            .as_ref()
            .is_some_and(|gap| call.end() >= gap.begun);
        let may_be_lost = is_broken && !promise.write_brings && !promise.outlives;
        let is_version = matches!(call.op, Op::Fetch { .. });
        let is_excused = (is_version && promise.level == Level::Own)
            || (!promise.pages_are_whole && history.is_beside_a_write(call))
            || history.is_of_refused_bytes(call)
            || may_be_lost && (!is_version || !promise.close_brings)
            || history.is_cut_off(call);
        matches!(call.out, Out::Mixed(_)) && !is_excused
    });
    if let Some(call) = bad {
        let file = call.file().to_owned();
        let own = |other: &Call| other.file() == file;
        checked.findings.push(history.finding(
            "a read saw a part of a write",
            &file,
            call.end(),
            &own,
        ));
    }
}

/// Text of a finding about a value in a store's file.
fn store_says(value: u64, confirmed: &Call) -> String {
    format!(
        "the store has {}, though {} was confirmed",
        name_of(value),
        confirmed.op
    )
}

/// Whether a descriptor may have written.
fn is_writer(by: By) -> bool {
    by == By::Writer
}
