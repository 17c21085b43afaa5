//! Appends have places of their own, in the order of their calls, and readers see no hole (S2).

use std::collections::BTreeMap;

use super::super::history::{Call, End, Op, Out, name_of};
use super::{Checked, History};

/// Checks each log.
pub(super) fn check(history: &History, checked: &mut Checked) {
    let mut files: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in &history.calls {
        let is_seen = match call.op {
            Op::Append { .. } => true,
            // Places may be given anew after a break, so only what came before it is compared.
            Op::Records { .. } => history
                .breaks
                .as_ref()
                .is_none_or(|gap| call.end() < gap.begun),
            _ => false,
        };
        if is_seen {
            files.entry(call.file()).or_default().push(call);
        }
    }
    for (file, calls) in files {
        checked.histories += 1;
        if let Err((what, at)) = log(&calls) {
            let own = |call: &Call| call.file() == file && !matches!(call.op, Op::Open { .. });
            checked.findings.push(history.finding(what, file, at, &own));
        }
    }
}

type Wrong = (String, u64);

fn log(calls: &[&Call]) -> Result<(), Wrong> {
    let appends: BTreeMap<u64, &Call> = calls
        .iter()
        .filter_map(|call| match &call.op {
            Op::Append { value, .. } => Some((*value, *call)),
            _ => None,
        })
        .collect();
    let places = places(calls, &appends)?;
    order(&places, &appends)?;
    ends(calls, &places, &appends)
}

/// The place of each record that somebody read, and of whom.
fn places(calls: &[&Call], appends: &BTreeMap<u64, &Call>) -> Result<BTreeMap<u64, u64>, Wrong> {
    let any_failed = appends.values().any(|call| !call.is_good());
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    let mut values: BTreeMap<u64, u64> = BTreeMap::new();
    for call in calls {
        let (Op::Records { from, .. }, Out::Records(records, _)) = (&call.op, &call.out) else {
            continue;
        };
        for (place, value) in (*from..).zip(records) {
            if *value == 0 {
                if any_failed {
                    continue;
                }
                return Err((format!("a reader saw a hole at record {place}"), call.end()));
            }
            let Some(append) = appends.get(value) else {
                return Err((
                    format!("record {place} is of no append: {}", name_of(*value)),
                    call.end(),
                ));
            };
            if append.begun > call.end() {
                return Err((
                    format!("{} was read before it was appended", name_of(*value)),
                    call.end(),
                ));
            }
            let had = places.insert(*value, place).unwrap_or(place);
            let was = values.insert(place, *value).unwrap_or(*value);
            if had != place || was != *value {
                let what = format!("record {place} is {} and {}", name_of(was), name_of(*value));
                return Err((what, call.end()));
            }
        }
    }
    Ok(places)
}

/// An append that had returned before another began stands before it.
fn order(places: &BTreeMap<u64, u64>, appends: &BTreeMap<u64, &Call>) -> Result<(), Wrong> {
    let mut by_place: Vec<(u64, &Call)> = places
        .iter()
        .map(|(value, place)| (*place, appends[value]))
        .collect();
    by_place.sort_by_key(|(place, _)| *place);
    let mut latest = 0;
    for (place, call) in by_place {
        if call.is_good() && call.end() < latest {
            let what = format!(
                "{} stands at {place}, behind one that began after it",
                call.op
            );
            return Err((what, call.end()));
        }
        latest = latest.max(call.begun);
    }
    Ok(())
}

/// A reader that came to the end saw all that had been appended before it began.
fn ends(
    calls: &[&Call],
    places: &BTreeMap<u64, u64>,
    appends: &BTreeMap<u64, &Call>,
) -> Result<(), Wrong> {
    for call in calls {
        let (Op::Records { from, .. }, Out::Records(records, End::Reached)) = (&call.op, &call.out)
        else {
            continue;
        };
        let end = from + records.len() as u64;
        let missed = places.iter().find(|(value, place)| {
            let append = appends[value];
            **place >= end && append.is_good() && append.end() < call.begun
        });
        if let Some((value, place)) = missed {
            let what = format!(
                "a reader found the end at {end}, though {} was at {place}",
                name_of(*value)
            );
            return Err((what, call.end()));
        }
    }
    Ok(())
}
