use std::collections::HashMap;

use hearth_shm::records;

use super::*;
use crate::init::Agreed;

fn node(id: u64, lookups: u64) -> Fact<'static> {
    Fact::Node {
        id,
        generation: 3,
        key: (7, id),
        mode: 0o100_000,
        born: Some(-5),
        lookups,
    }
}

fn opened(number: u64, fd: RawFd) -> Fact<'static> {
    Fact::Opened(Opened {
        number,
        node: 2,
        fd,
        reads: true,
        writes: false,
        request: 998,
    })
}

fn lock(owner: u64) -> Lock {
    Family::Flock.of(2, owner)
}

fn agreed() -> Agreed {
    Agreed {
        version: (7, 45),
        offered: 1 << 40,
        readahead: 1 << 17,
        features: 99,
        write_bytes: 1 << 20,
    }
}

/// One fact of each kind, and more.
fn facts() -> Vec<Fact<'static>> {
    vec![
        Fact::Agreed(agreed(), b"/mnt"),
        node(2, 1),
        Fact::Named(2, 1, b"a"),
        Fact::Found(2),
        Fact::Named(2, 1, b"b"),
        node(3, 1),
        Fact::Gone(3),
        node(4, 2),
        Fact::Forgotten(4, 1),
        Fact::Forgotten(4, 1),
        opened(5, 50),
        Fact::Written(5),
        opened(6, 60),
        Fact::Written(6),
        Fact::Synced(6),
        opened(7, 70),
        Fact::Closed(7),
        Fact::DirectoryOpened(8, 80, 996),
        Fact::DirectoryOpened(9, 90, 994),
        Fact::DirectoryClosed(9),
        Fact::Locked(lock(1), 100, 5),
        Fact::Locked(lock(2), 110, 6),
        Fact::Unlocked(lock(2)),
        Fact::Tried(1000, Tried::Begun),
        Fact::Tried(1000, Tried::Done),
        Fact::Tried(1002, Tried::Refused),
        Fact::Numbered(12),
    ]
}

fn written(facts: &[Fact<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for fact in facts {
        fact.encoded(|record| records::push(&mut bytes, record));
    }
    bytes
}

#[test]
fn a_fact_is_what_was_written() {
    for fact in facts() {
        fact.encoded(|record| assert_eq!(Fact::decoded(record), Some(fact.clone())));
    }
}

#[test]
fn bytes_that_are_cut_are_no_other_fact() {
    for fact in facts() {
        fact.encoded(|record| {
            for len in 0..record.len() {
                let cut = Fact::decoded(&record[..len]);
                let has_run = matches!(fact, Fact::Agreed(..) | Fact::Named(..));
                assert!(cut.is_none() || has_run, "{fact:?} up to {len}");
            }
        });
    }
}

/// A ledger ends where its agent died: it says what was noted until then.
#[test]
fn a_log_that_is_cut_anywhere_says_what_its_whole_records_say() {
    let facts = facts();
    let bytes = written(&facts);
    for len in 0..=bytes.len() {
        let whole = (0..=facts.len())
            .rev()
            .find(|&count| written(&facts[..count]).len() <= len)
            .expect("no fact takes no bytes");
        let so_far = Known::read(&written(&facts[..whole]));
        assert_eq!(Known::read(&bytes[..len]), so_far);
    }
}

#[test]
fn the_sum_of_all_facts_is_what_the_operating_system_knows() {
    let known = Known::read(&written(&facts()));
    assert_eq!(known.agreed, Some((agreed(), b"/mnt".to_vec())));
    assert_eq!(known.nodes.len(), 2);
    let names = &known.nodes[&2].names;
    assert_eq!(*names, [(1, b"a".to_vec()), (1, b"b".to_vec())]);
    assert_eq!(known.nodes[&2].lookups, 2);
    assert!(known.nodes[&3].is_gone && !known.nodes[&2].is_gone);
    assert!(known.handles[&5].is_written && !known.handles[&6].is_written);
    assert_eq!(known.handles.len(), 2);
    assert_eq!(known.directories, HashMap::from([(8, (80, 996))]));
    assert_eq!(known.locks, HashMap::from([(lock(1), (100, 5))]));
    assert_eq!(known.tried[&1000], Tried::Done);
    assert_eq!(known.numbered, 12);
}

#[test]
fn a_log_that_is_written_anew_says_the_same() {
    let known = Known::read(&written(&facts()));
    assert_eq!(Known::read(&known.written()), known);
}

#[test]
fn a_ledger_that_has_grown_says_the_same() {
    let ledger = Ledger::new().unwrap();
    facts().into_iter().for_each(|fact| ledger.note(fact));
    let before = ledger.known().unwrap();
    for _ in 0..100_000 {
        ledger.note(Fact::Found(2));
        ledger.note(Fact::Forgotten(2, 1));
    }
    let next = Ledger::from_fd(ledger.as_fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(next.known().unwrap(), before);
    assert!(next.records.read().unwrap().len() < 3 << 20);
}

#[test]
fn the_descriptors_of_whatever_is_open_are_kept() {
    let ledger = Ledger::new().unwrap();
    facts().into_iter().for_each(|fact| ledger.note(fact));
    let kept = ledger.descriptors().unwrap();
    let own = ledger.as_fd().as_raw_fd();
    for number in [50, 60, 80, 100, own] {
        assert!(kept.contains(&number), "{number} is missing");
    }
    for number in [70, 90, 110] {
        assert!(!kept.contains(&number), "{number} is closed");
    }
}
