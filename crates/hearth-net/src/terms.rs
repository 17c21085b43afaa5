//! Two jobs that were to be one: in which settings they differ.
//!
//! The name of a job may end in the settings that all of its agents have alike: `NAME --KEY=VALUE --KEY=VALUE`. A key that is
//! not there has its usual value.

use std::collections::{BTreeMap, BTreeSet};

/// The difference of two jobs in words, for people at the side of `ours`.
pub(crate) fn difference(theirs: &str, ours: &str) -> String {
    let ((their_name, their_terms), (our_name, our_terms)) = (parts(theirs), parts(ours));
    let keys: BTreeSet<&str> = their_terms
        .keys()
        .chain(our_terms.keys())
        .copied()
        .collect();
    let differ = |key: &&str| their_terms.get(key) != our_terms.get(key);
    let differing: Vec<String> = keys
        .into_iter()
        .filter(differ)
        .map(|key| {
            let value = |terms: &BTreeMap<&str, &str>| {
                let value = terms.get(key);
                value.map_or_else(|| "the default".to_owned(), |value| format!("`{value}`"))
            };
            let (there, here) = (value(&their_terms), value(&our_terms));
            format!("--{key} is {there} at the peer and {here} here")
        })
        .collect();
    if !differing.is_empty() {
        return format!("the settings differ: {}", differing.join(", "));
    }
    let names = format!("peer belongs to job `{their_name}`, this agent to job `{our_name}`");
    match our_terms.is_empty() {
        true => names,
        false => format!("{names}: the member lists differ"),
    }
}

/// A name, and the settings after it.
fn parts(job: &str) -> (&str, BTreeMap<&str, &str>) {
    let mut parts = job.split(" --");
    let name = parts.next().unwrap_or_default();
    (
        name,
        parts.filter_map(|term| term.split_once('=')).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_are_named() {
        let ours = "hosts-1 --chunk=1 MiB --policy=local";
        let theirs = "hosts-2 --lease=2s --policy=hint";
        assert_eq!(
            difference(theirs, ours),
            "the settings differ: --chunk is the default at the peer and `1 MiB` here, \
             --lease is `2s` at the peer and the default here, \
             --policy is `hint` at the peer and `local` here"
        );
    }

    #[test]
    fn jobs_of_the_same_settings_have_other_lists() {
        assert!(difference("a --k=v", "b --k=v").ends_with("the member lists differ"));
        assert_eq!(
            difference("a", "b"),
            "peer belongs to job `a`, this agent to job `b`"
        );
    }
}
