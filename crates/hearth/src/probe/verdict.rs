//! The meaning of the findings: which promises hold over the store, and which policies it would break.

use std::time::Duration;

use super::known::Broken;
use super::value::{Findings, Value};

/// The fate of one promise of docs/semantics.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    /// Its number.
    pub(crate) id: &'static str,
    /// Its content in a few words.
    pub(crate) words: &'static str,
    /// Whether it holds.
    pub(crate) holds: Holds,
}

/// Whether a promise holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// As it stands.
    Yes,
    /// But for this.
    But(String),
    /// Nobody knows, for want of this.
    Unknown(String),
}

/// One finding that a promise rests on, and what is lost without it.
type Need = (&'static str, &'static str);

/// The promises, and the findings that each needs of the store. Promises that Hearth keeps alone are not here.
const PROMISES: &[(&str, &str, &[Need])] = &[
    (
        "S9",
        "a removed file lives while it is open",
        &[
            ("open-unlinked", "open files without a name fail"),
            (
                "others-unlink",
                "other nodes that have it open get the store's error",
            ),
        ],
    ),
    (
        "S10",
        "mappings",
        &[(
            "mmap-write",
            "programs that map files of the store fail without Hearth, too",
        )],
    ),
    (
        "S12",
        "locks hold between nodes",
        &[
            ("others-lock-posix", "fcntl locks hold on one node only"),
            ("others-lock-flock", "flock holds on one node only"),
        ],
    ),
    (
        "S17",
        "what the store has passes through",
        &[
            ("xattr-user", "no extended attributes"),
            ("acl", "no POSIX access lists"),
            ("hard-links", "no hard links"),
            ("symlinks", "symbolic links fail"),
            ("fifos", "fifos fail"),
            ("seek-hole", "SEEK_HOLE finds none"),
        ],
    ),
];

/// The findings' meaning for promises.
pub(crate) fn promises(findings: &Findings) -> Vec<Promise> {
    let mut promises: Vec<Promise> = PROMISES
        .iter()
        .map(|(id, words, needs)| Promise {
            id,
            words,
            holds: holds(findings, needs),
        })
        .collect();
    let seen = [
        "seen-rename",
        "seen-replaced",
        "seen-created",
        "seen-removed",
        "seen-listed",
    ];
    promises.push(Promise {
        id: "S7",
        words: "names that others change outside of the job show after --attr-ttl",
        holds: late(findings, &seen),
    });
    promises.push(Promise {
        id: "S11",
        words: "changes of files from outside are noticed at the next open",
        holds: noticed(findings),
    });
    promises.sort_by_key(|promise| promise.id[1..].parse().unwrap_or(0));
    promises
}

fn holds(findings: &Findings, needs: &[Need]) -> Holds {
    let mut missing = Vec::new();
    let mut unknown = None;
    for (property, loss) in needs {
        match findings.value(property) {
            Value::No(how) => missing.push(format!("{loss} ({how})")),
            Value::Unknown(why) => unknown = Some(why),
            _ => {}
        }
    }
    match (missing.is_empty(), unknown) {
        (false, _) => Holds::But(missing.join("; ")),
        (true, Some(why)) => Holds::Unknown(why),
        (true, None) => Holds::Yes,
    }
}

/// The default of `--attr-ttl`; what the store keeps longer comes on top.
const ATTR_TTL: Duration = Duration::from_secs(1);

fn late(findings: &Findings, properties: &[&str]) -> Holds {
    let mut worst = Duration::ZERO;
    for property in properties {
        match findings.value(property) {
            Value::After(span) => worst = worst.max(span),
            Value::NotWithin(span) => {
                return Holds::But(format!(
                    "the store's clients keep them for over {} s",
                    span.as_secs()
                ));
            }
            Value::Unknown(why) => return Holds::Unknown(why),
            _ => {}
        }
    }
    match worst > ATTR_TTL / 10 {
        true => Holds::But(format!(
            "the store's clients keep them for {:.1} s",
            worst.as_secs_f64()
        )),
        false => Holds::Yes,
    }
}

fn noticed(findings: &Findings) -> Holds {
    if let Value::No(how) = findings.value("ctime-tick") {
        return Holds::But(format!(
            "two changes soon after each other look like one: {how}"
        ));
    }
    late(findings, &["seen-reopened", "seen-size"])
}

/// The policies that the store would break, if any.
pub(crate) fn broken(findings: &Findings) -> Option<Broken> {
    if findings.value("inode-stays").is_no() {
        return Some(Broken::Always);
    }
    findings
        .value("inodes-equal")
        .is_no()
        .then_some(Broken::SeveralHosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[(&'static str, Value)]) -> Findings {
        let mut findings = Findings::default();
        for (property, value) in values {
            findings.add(property, "", value.clone());
        }
        findings
    }

    fn promise(findings: &Findings, id: &str) -> Holds {
        let mut found = promises(findings).into_iter();
        found
            .find(|promise| promise.id == id)
            .expect("listed")
            .holds
    }

    #[test]
    fn a_promise_names_what_it_lacks() {
        let no = Value::No("both have it".to_owned());
        let findings = found(&[("others-lock-posix", no), ("others-lock-flock", Value::Yes)]);
        let said = Holds::But("fcntl locks hold on one node only (both have it)".to_owned());
        assert_eq!(promise(&findings, "S12"), said);
        let findings = found(&[("others-lock-posix", Value::Yes)]);
        assert_eq!(
            promise(&findings, "S12"),
            Holds::Unknown("not measured".to_owned())
        );
    }

    #[test]
    fn names_that_a_store_keeps_are_late() {
        let seen = [
            "seen-rename",
            "seen-replaced",
            "seen-created",
            "seen-removed",
            "seen-listed",
        ];
        let all = |span| found(&seen.map(|name| (name, Value::After(Duration::from_millis(span)))));
        assert_eq!(promise(&all(3), "S7"), Holds::Yes);
        let said = Holds::But("the store's clients keep them for 1.0 s".to_owned());
        assert_eq!(promise(&all(1000), "S7"), said);
    }

    #[test]
    fn numbers_that_differ_break_several_hosts() {
        let no = Value::No("they differ".to_owned());
        assert_eq!(
            broken(&found(&[("inodes-equal", no.clone())])),
            Some(Broken::SeveralHosts)
        );
        assert_eq!(broken(&found(&[("inode-stays", no)])), Some(Broken::Always));
        assert_eq!(broken(&found(&[("inodes-equal", Value::Yes)])), None);
    }
}
