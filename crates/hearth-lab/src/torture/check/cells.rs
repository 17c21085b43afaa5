//! Checks of linearizable objects: pages of registers, names, versions of names, counters, cut files.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Call, Op, Out, SECOND, SLOT_BYTES, SLOTS};
use super::super::worker;
use super::durable::Confirmed;
use super::{Checked, History, KEPT_MOST, Snapshot, store_says};
use crate::linear::{self, Model, Span, Verdict};

/// Up to four words; `None`: nobody knows.
pub(super) type Words = [Option<u64>; 4];

/// The effect of a call on such words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    /// Sees some words, and at the same moment sets some.
    Turn { sees: Words, sets: Words },
    /// The first word becomes at least this.
    Raise(u64),
    /// The first word grows by one; nobody knows from what.
    Grow,
}

/// A cell of words.
pub(super) struct Cell {
    pub(super) begin: Words,
}

const NOTHING: Words = [None; 4];

impl Model for Cell {
    type State = Words;
    type Op = Act;

    fn begin(&self) -> Words {
        self.begin
    }

    fn step(&self, state: &Words, act: &Act) -> Option<Words> {
        let mut after = *state;
        match act {
            Act::Turn { sees, sets } => {
                for index in 0..after.len() {
                    match (sees[index], after[index]) {
                        (Some(seen), Some(is)) if seen != is => return None,
                        (seen, is) => after[index] = sets[index].or(seen).or(is),
                    }
                }
            }
            Act::Raise(least) => after[0] = after[0].map(|is| is.max(*least)),
            Act::Grow => after[0] = after[0].map(|is| is + 1),
        }
        Some(after)
    }

    fn looks(&self, act: &Act) -> bool {
        matches!(act, Act::Turn { sets: NOTHING, .. })
    }
}

fn one(value: u64) -> Words {
    [Some(value), None, None, None]
}

fn sees(value: u64) -> Act {
    Act::Turn {
        sees: one(value),
        sets: NOTHING,
    }
}

fn sets(value: u64) -> Act {
    Act::Turn {
        sees: NOTHING,
        sets: one(value),
    }
}

fn turns(from: u64, to: u64) -> Act {
    Act::Turn {
        sees: one(from),
        sets: one(to),
    }
}

/// Calls of each key.
type Keys = BTreeMap<String, Vec<Span<Act>>>;

fn add(keys: &mut Keys, key: String, call: &Call, act: Act) {
    let ended = call.ended.filter(|_| call.is_good());
    let span = Span {
        begun: call.begun,
        ended,
        op: act,
    };
    keys.entry(key).or_default().push(span);
}

/// Leaves out what may have happened, sets something alone, and was seen by nobody: it need not have happened.
fn with_use(spans: &[Span<Act>]) -> Vec<Span<Act>> {
    let mut seen: BTreeSet<(usize, u64)> = BTreeSet::new();
    for span in spans {
        if let Act::Turn { sees, .. } = span.op {
            seen.extend(
                sees.iter()
                    .enumerate()
                    .filter_map(|(at, word)| Some((at, (*word)?))),
            );
        }
    }
    let has_use = |span: &&Span<Act>| match span.op {
        Act::Turn {
            sees: NOTHING,
            sets,
        } if span.ended.is_none() => {
            let mut set = sets
                .iter()
                .enumerate()
                .filter_map(|(at, word)| Some((at, (*word)?)));
            set.any(|word| seen.contains(&word))
        }
        _ => true,
    };
    spans.iter().filter(has_use).cloned().collect()
}

fn judge(
    history: &History,
    checked: &mut Checked,
    key: &str,
    spans: &[Span<Act>],
    begin: Words,
    what: &str,
    own: &dyn Fn(&Call) -> bool,
) {
    checked.histories += 1;
    match linear::check(&Cell { begin }, &with_use(spans)) {
        Verdict::Right => {}
        Verdict::TooHard => checked.undecided += 1,
        Verdict::WrongAt(at) => checked.findings.push(history.finding(what, key, at, own)),
    }
}

/// Each page of a register file is one cell: a read of several of its slots is one (S1). If every call goes to the
/// store (S16), each slot is one: a file system may show half of a write that is longer than its own pages.
pub(super) fn registers(history: &History, checked: &mut Checked) {
    let mut keys = Keys::new();
    for call in &history.calls {
        let is_read = matches!(call.op, Op::Read { .. });
        if is_read && (!call.is_good() || history.is_cut_off(call)) {
            continue;
        }
        let pages = pages_of(call);
        if is_read && history.is_as_stored(call, pages.len()) {
            continue;
        }
        for (page, act) in pages {
            for (key, act) in cells_of(history, call.file(), page, act) {
                for act in parts_of(act, history.is_at_once(call) || !is_read) {
                    add(&mut keys, key.clone(), &told(history, call), act);
                }
            }
        }
    }
    add_ends(history, &mut keys);
    for (key, spans) in keys {
        let (file, page) = key.split_once(" page ").unwrap_or((&key, "0"));
        let page: u64 = page
            .split(' ')
            .next()
            .and_then(|page| page.parse().ok())
            .unwrap_or(0);
        let own = |call: &Call| {
            call.file() == file
                && (pages_of(call).iter().any(|(of, _)| *of == page)
                    || matches!(call.op, Op::Sync { .. } | Op::Close { .. }))
        };
        for (spans, begin) in strict_parts(history, &spans, [Some(0); 4]) {
            let what = "reads of a page have no order";
            judge(history, checked, &key, &spans, begin, what, &own);
        }
    }
    fresh(history, checked);
}

/// A call as others hear of it. Writes beside an agent that was given up may show later, and reads of pages that an
/// operating system kept meanwhile may be as old as it keeps them (S13).
fn told<'a>(history: &History, call: &'a Call) -> Cow<'a, Call> {
    let mut told = Cow::Borrowed(call);
    if history.is_alone(call) {
        told.to_mut().ended = None;
    } else if history.may_be_kept(call) {
        told.to_mut().begun = call.begun.saturating_sub(KEPT_MOST);
    }
    told
}

/// Adds reads of register files after the set has ended in good order.
fn add_ends(history: &History, keys: &mut Keys) {
    for snapshot in calm_ends(history) {
        let files = snapshot.files.iter();
        for (file, bytes) in files.filter(|(file, _)| file.starts_with("register")) {
            for page in 0..worker::PAGES {
                let mut seen = NOTHING;
                for (slot, word) in (page * SLOTS..).zip(&mut seen) {
                    *word = Some(word_at(bytes, worker::offset_of(slot, history.page)));
                }
                let act = Act::Turn {
                    sees: seen,
                    sets: NOTHING,
                };
                for (key, op) in cells_of(history, file, page, act) {
                    let span = Span {
                        begun: snapshot.begun,
                        ended: Some(snapshot.ended),
                        op,
                    };
                    keys.entry(key).or_default().push(span);
                }
            }
        }
    }
}

/// The acts that a call on a cell stands for: one, or one for each slot.
fn parts_of(act: Act, is_one: bool) -> Vec<Act> {
    let Act::Turn { sees, sets } = act else {
        return vec![act];
    };
    if is_one {
        return vec![act];
    }
    let slots = (0..sees.len()).filter(|&slot| sees[slot].is_some());
    let alone = |slot: usize| {
        let mut words = NOTHING;
        words[slot] = sees[slot];
        Act::Turn { sees: words, sets }
    };
    slots.map(alone).collect()
}

/// The cells that an act on a page is about: the page, or its slots where pages may tear.
fn cells_of(history: &History, file: &str, page: u64, act: Act) -> Vec<(String, Act)> {
    let key = format!("{file} page {page}");
    let Act::Turn { sees, sets } = act else {
        return vec![(key, act)];
    };
    if history.promise.pages_are_whole {
        return vec![(key, act)];
    }
    let only = |words: Words, slot: usize| [words[slot], None, None, None];
    let slots = (0..sees.len()).filter(|&slot| sees[slot].or(sets[slot]).is_some());
    slots
        .map(|slot| {
            let (sees, sets) = (only(sees, slot), only(sets, slot));
            (format!("{key} slot {slot}"), Act::Turn { sees, sets })
        })
        .collect()
}

fn word_at(bytes: &[u8], offset: u64) -> u64 {
    let word = bytes
        .get(offset as usize..)
        .and_then(|rest| rest.first_chunk::<8>());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// The pages that a call on a register file touches, and what it does there.
fn pages_of(call: &Call) -> Vec<(u64, Act)> {
    let (slot, count) = match &call.op {
        Op::Write {
            file, slot, count, ..
        }
        | Op::Read {
            file, slot, count, ..
        } if file.starts_with("register") => (*slot, *count),
        _ => return Vec::new(),
    };
    let mut pages: BTreeMap<u64, Words> = BTreeMap::new();
    for index in 0..count {
        let value = match (&call.op, &call.out) {
            (Op::Write { value, .. }, _) => *value,
            // A file of registers is never shortened, so an end within it is as wrong as a strange value.
            (_, Out::Values(values)) => values
                .get(index as usize)
                .copied()
                .flatten()
                .unwrap_or(u64::MAX),
            _ => return Vec::new(),
        };
        let at = slot + index;
        pages.entry(at / SLOTS).or_insert(NOTHING)[(at % SLOTS) as usize] = Some(value);
    }
    let is_write = matches!(call.op, Op::Write { .. });
    let act = |words| match is_write {
        true => Act::Turn {
            sees: NOTHING,
            sets: words,
        },
        false => Act::Turn {
            sees: words,
            sets: NOTHING,
        },
    };
    pages
        .into_iter()
        .map(|(page, words)| (page, act(words)))
        .collect()
}

/// The files that the set left when it ended in good order, if nothing was lost on the way.
fn calm_ends(history: &History) -> impl Iterator<Item = &Snapshot> {
    let is_calm = history.breaks.is_none();
    history
        .snapshots
        .iter()
        .filter(move |snapshot| is_calm && snapshot.is_final)
}

/// The parts of a round in which all is strict: all of it, or what is before a break and what is after it.
fn strict_parts(
    history: &History,
    spans: &[Span<Act>],
    begin: Words,
) -> Vec<(Vec<Span<Act>>, Words)> {
    let outlives = history.promise.outlives || history.promise.write_brings;
    let Some(gap) = history.breaks.as_ref().filter(|_| !outlives) else {
        return vec![(spans.to_vec(), begin)];
    };
    let mut before = Vec::new();
    let mut after = Vec::new();
    for span in spans {
        let is_read = matches!(span.op, Act::Turn { sets: NOTHING, .. });
        if span.begun < gap.begun {
            let mut span = span.clone();
            span.ended = span.ended.filter(|end| *end < gap.begun);
            if span.ended.is_some() || !is_read {
                before.push(span);
            }
        }
        if span.begun >= gap.ended || (!is_read && span.ended.is_none_or(|end| end >= gap.ended)) {
            after.push(span.clone());
        }
    }
    vec![(before, begin), (after, NOTHING)]
}

/// After a break a read may miss what was lost, but nothing that was confirmed.
fn fresh(history: &History, checked: &mut Checked) {
    let Some(gap) = &history.breaks else {
        return;
    };
    let confirmed = Confirmed::of(history, history.promise.outlives);
    for call in history.calls.iter().filter(|call| call.begun >= gap.begun) {
        let (Op::Read { file, slot, .. }, Out::Values(values)) = (&call.op, &call.out) else {
            continue;
        };
        if history.is_cut_off(call) || !file.starts_with("register") {
            continue;
        }
        for (index, value) in values.iter().enumerate() {
            let slot = slot + index as u64;
            let value = value.unwrap_or(u64::MAX);
            // A node that was given up and does not know it yet may go on until the break ends. So may nodes for which
            // it is the home: a node that is not connected with it again does not hear of that.
            let is_lone = |write: &Call| {
                history.is_cut_off(write) || (!gap.is_death && write.begun >= gap.begun)
            };
            let unheard = |write: &Call| is_lone(write) && call.begun < gap.ended;
            let missed = confirmed.missed(file, slot, value, call.begun);
            if let Some(missed) = missed.filter(|write| !unheard(write)) {
                let what = store_says(value, missed).replace("the store has", "a read returned");
                let own = |other: &Call| other.file() == file && touches(other, slot);
                let key = format!("{file} slot {slot}");
                checked
                    .findings
                    .push(history.finding(what, &key, call.end(), &own));
                return;
            }
        }
    }
}

/// Whether a call is about a slot, or brings it to the store.
pub(super) fn touches(call: &Call, of: u64) -> bool {
    match &call.op {
        Op::Write { slot, count, .. } | Op::Read { slot, count, .. } => {
            (*slot..slot + count).contains(&of)
        }
        Op::Sync { .. } | Op::Close { .. } => true,
        _ => false,
    }
}

/// The acts of calls and of the end of the set on each slot and on the size of files that are cut.
fn cut_keys(history: &History) -> Keys {
    let mut keys = Keys::new();
    for call in history
        .calls
        .iter()
        .filter(|call| call.file().starts_with("cut"))
    {
        let file = call.file();
        let slot_key = |slot: u64| format!("{file} slot {slot}");
        let is_seen = call.is_good() && !history.is_cut_off(call);
        match (&call.op, &call.out) {
            (Op::Write { slot, value, .. }, _) => {
                add(&mut keys, slot_key(*slot), call, sets(*value));
                add(
                    &mut keys,
                    format!("{file} size"),
                    call,
                    Act::Raise(slot + 1),
                );
            }
            (Op::Truncate { slots, .. }, _) => {
                (*slots..SLOTS).for_each(|slot| add(&mut keys, slot_key(slot), call, sets(0)));
                add(&mut keys, format!("{file} size"), call, sets(*slots));
            }
            (Op::Read { slot, .. }, Out::Values(values)) if is_seen => {
                let value = values.first().copied().flatten().unwrap_or(0);
                add(&mut keys, slot_key(*slot), call, sees(value));
            }
            (Op::Size { .. }, Out::Count(slots)) if is_seen => {
                add(&mut keys, format!("{file} size"), call, sees(*slots));
            }
            _ => {}
        }
    }
    for snapshot in calm_ends(history) {
        for (file, bytes) in snapshot
            .files
            .iter()
            .filter(|(file, _)| file.starts_with("cut"))
        {
            let mut see = |key: String, value: u64| {
                let span = Span {
                    begun: snapshot.begun,
                    ended: Some(snapshot.ended),
                    op: sees(value),
                };
                keys.entry(key).or_default().push(span);
            };
            see(
                format!("{file} size"),
                (bytes.len() as u64).div_ceil(SLOT_BYTES),
            );
            for slot in 0..SLOTS {
                see(
                    format!("{file} slot {slot}"),
                    word_at(bytes, slot * SLOT_BYTES),
                );
            }
        }
    }
    keys
}

/// Slots and size of files that are cut (S3, S8).
pub(super) fn cuts(history: &History, checked: &mut Checked) {
    for (key, spans) in cut_keys(history) {
        let (file, part) = key.split_once(' ').unwrap_or((&key, ""));
        let slot = part
            .strip_prefix("slot ")
            .and_then(|slot| slot.parse::<u64>().ok());
        let own = |call: &Call| {
            let is_part = match (&call.op, slot) {
                (Op::Write { slot: of, .. } | Op::Read { slot: of, .. }, Some(slot)) => *of == slot,
                (Op::Truncate { slots, .. }, Some(slot)) => *slots <= slot,
                (Op::Size { .. }, Some(_)) | (Op::Read { .. }, None) => false,
                _ => true,
            };
            call.file() == file && is_part
        };
        for (spans, begin) in strict_parts(history, &spans, [Some(0); 4]) {
            let what = if slot.is_some() {
                "a cut and reads have no order"
            } else {
                "sizes have no order"
            };
            judge(history, checked, &key, &spans, begin, what, &own);
        }
    }
}

/// Time for which a node may tell a name after a death that it has not noticed (S13).
const NAMES_OLD: u64 = SECOND + SECOND / 5;

/// When a look at a name may have taken place.
fn looked(history: &History, call: &Call) -> Call {
    let mut call = call.clone();
    if history
        .breaks
        .as_ref()
        .is_some_and(|gap| call.end() >= gap.begun)
    {
        call.begun = call.begun.saturating_sub(NAMES_OLD);
    }
    call
}

/// Names of a directory: there or not (S7).
pub(super) fn names(history: &History, checked: &mut Checked) {
    let mut keys = Keys::new();
    let mut put = |key: &str, call: &Call, act: Act| add(&mut keys, key.to_owned(), call, act);
    let all: BTreeSet<String> = (0..worker::NAMES)
        .map(|name| format!("names/{name}"))
        .collect();
    for call in &history.calls {
        if let Op::Create { file }
        | Op::Remove { file }
        | Op::Link { file, .. }
        | Op::Move { file, .. }
        | Op::Look { file } = &call.op
        {
            changes(history, call, file, &mut put);
        }
        if let (Op::List { .. }, Out::Names(names), false) =
            (&call.op, &call.out, history.is_cut_off(call))
        {
            let call = looked(history, call);
            for name in &all {
                put(name, &call, sees(u64::from(names.contains(name))));
            }
        }
    }
    for snapshot in history
        .snapshots
        .iter()
        .filter(|snapshot| snapshot.is_final)
    {
        for name in &all {
            let there = u64::from(snapshot.files.contains_key(name));
            let span = Span {
                begun: snapshot.begun,
                ended: Some(snapshot.ended),
                op: sees(there),
            };
            keys.entry(name.clone()).or_default().push(span);
        }
    }
    for (key, spans) in keys {
        let own = |call: &Call| match &call.op {
            Op::List { .. } => true,
            Op::Link { from, file } | Op::Move { from, file } => *from == key || *file == key,
            _ => call.file() == key,
        };
        judge(
            history,
            checked,
            &key,
            &spans,
            one(0),
            "answers about a name have no order",
            &own,
        );
    }
}

fn changes(history: &History, call: &Call, file: &str, put: &mut dyn FnMut(&str, &Call, Act)) {
    let is_seen = !history.is_cut_off(call);
    let seen = looked(history, call);
    match (&call.op, &call.out) {
        (Op::Create { .. }, Out::Done) => put(file, call, turns(0, 1)),
        (Op::Create { .. }, Out::Pending) => put(file, call, turns(0, 1)),
        // A file that is refused once it is made is taken back (S13): others may see it between.
        (Op::Create { .. }, Out::Failed(_)) => {
            put(file, call, turns(0, 1));
            put(file, call, turns(1, 0));
        }
        (Op::Remove { .. }, Out::Done | Out::Failed(_) | Out::Pending) => {
            put(file, call, turns(1, 0))
        }
        (Op::Link { from, .. }, Out::Done) => {
            put(from, call, sees(1));
            put(file, call, turns(0, 1));
        }
        (Op::Link { .. }, Out::Failed(_) | Out::Pending) => put(file, call, turns(0, 1)),
        (Op::Move { from, .. }, Out::Done) if is_beside_another(history, call) => {
            let mut unsure = call.clone();
            unsure.out = Out::Pending;
            put(from, &unsure, turns(1, 0));
            put(file, call, sets(1));
        }
        (Op::Move { from, .. }, Out::Done | Out::Failed(_) | Out::Pending) => {
            put(from, call, turns(1, 0));
            put(file, call, sets(1));
        }
        (Op::Link { .. }, Out::Absent) if is_beside_a_loss(history, call) => {}
        (Op::Link { from, .. } | Op::Move { from, .. }, Out::Absent) if is_seen => {
            put(from, &seen, sees(0))
        }
        (Op::Create { .. } | Op::Look { .. } | Op::Link { .. }, Out::Present) if is_seen => {
            put(file, &seen, sees(1))
        }
        (Op::Remove { .. } | Op::Look { .. }, Out::Absent) if is_seen => put(file, &seen, sees(0)),
        _ => {}
    }
}

/// Whether a program of the same mount took a name away meanwhile. An operating system may take the file for one
/// without names then, though it has others, and makes no link to it.
fn is_beside_a_loss(history: &History, call: &Call) -> bool {
    history.calls.iter().any(|other| {
        matches!(other.op, Op::Remove { .. } | Op::Move { .. })
            && other.node == call.node
            && other.worker != call.worker
            && other.begun <= call.end()
            && other.end() >= call.begun
    })
}

/// Whether a rename ran beside another to the same name. An operating system that finds the same file behind both
/// names, since the other rename came between its two looks, has nothing to do.
fn is_beside_another(history: &History, call: &Call) -> bool {
    history.calls.iter().any(|other| {
        matches!(other.op, Op::Move { .. })
            && other.file() == call.file()
            && (other.worker, other.begun) != (call.worker, call.begun)
            && other.begun <= call.end()
            && other.end() >= call.begun
    })
}

/// Versions that are renamed over a name (S7, S9).
pub(super) fn versions(history: &History, checked: &mut Checked) {
    let mut keys = Keys::new();
    let mut words: BTreeMap<u64, u64> = BTreeMap::new();
    let may_be_zeros = |call| history.breaks.is_some() || history.is_of_refused_bytes(call);
    for call in &history.calls {
        match (&call.op, &call.out) {
            (
                Op::Publish {
                    file,
                    value,
                    words: count,
                    ..
                },
                _,
            ) => {
                words.insert(*value, *count);
                add(&mut keys, file.clone(), call, sets(*value));
            }
            (Op::Fetch { file }, Out::Absent) if !history.is_cut_off(call) => {
                add(&mut keys, file.clone(), &looked(history, call), sees(0));
            }
            (Op::Fetch { file }, Out::Version { value, .. })
                if !history.is_cut_off(call) && (*value != 0 || !may_be_zeros(call)) =>
            {
                add(
                    &mut keys,
                    file.clone(),
                    &looked(history, call),
                    sees(*value),
                );
            }
            _ => {}
        }
    }
    whole(history, checked, &words);
    for (key, spans) in keys {
        let own = |call: &Call| call.file() == key;
        judge(
            history,
            checked,
            &key,
            &spans,
            one(0),
            "versions of a name have no order",
            &own,
        );
    }
}

/// Each read of a version is as long as the version, unless an agent that had its bytes is gone.
fn whole(history: &History, checked: &mut Checked, words: &BTreeMap<u64, u64>) {
    let is_lost = |call: &Call| {
        let gap = history
            .breaks
            .as_ref()
            .filter(|_| !history.promise.close_brings);
        history.is_cut_off(call)
            || gap.is_some_and(|gap| call.end() >= gap.begun)
            || history.is_of_refused_bytes(call)
    };
    let short = history.calls.iter().find(|call| match &call.out {
        Out::Version { value, words: seen } => words.get(value) != Some(seen) && !is_lost(call),
        _ => false,
    });
    if let Some(call) = short {
        let key = call.file().to_owned();
        let own = |other: &Call| other.file() == key;
        let what = "a read of a version was short";
        checked
            .findings
            .push(history.finding(what, &key, call.end(), &own));
    }
}

/// Additions under a lock count one by one (S12).
pub(super) fn counters(history: &History, checked: &mut Checked) {
    let mut keys = Keys::new();
    for call in &history.calls {
        match (&call.op, &call.out) {
            (Op::Add { file, .. }, Out::Count(before)) => {
                add(&mut keys, file.clone(), call, turns(*before, before + 1));
            }
            (Op::Add { file, .. }, Out::Failed(_) | Out::Pending) => {
                add(&mut keys, file.clone(), call, Act::Grow);
            }
            _ => {}
        }
    }
    for snapshot in history
        .snapshots
        .iter()
        .filter(|snapshot| snapshot.is_final)
    {
        for (file, bytes) in snapshot
            .files
            .iter()
            .filter(|(file, _)| file.starts_with("counter"))
        {
            let op = sees(word_at(bytes, 0));
            let span = Span {
                begun: snapshot.begun,
                ended: Some(snapshot.ended),
                op,
            };
            keys.entry(file.clone()).or_default().push(span);
        }
    }
    for (key, spans) in keys {
        let own = |call: &Call| call.file() == key;
        judge(
            history,
            checked,
            &key,
            &spans,
            one(0),
            "additions under a lock do not add up",
            &own,
        );
    }
}
