//! Levels of promises over real mounts: what each file's readers see, chosen by attribute, rule or option.

#[path = "support/set.rs"]
mod set;
#[path = "support/stamps.rs"]
mod stamps;

use hearth_agent::{ATTRIBUTE, Rule, Semantics, Way};
use set::{Set, skipped};
use stamps::until_it_shows;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const LIMIT: Duration = Duration::from_secs(60);

fn read_at(file: &File, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).expect("a read");
    bytes
}

fn open_to_write(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// A file of one page that both nodes have in memory, the second through an open descriptor.
fn known_everywhere(set: &Set) -> File {
    fs::write(set.store().join("f"), vec![1; PAGE]).expect("the store takes it");
    let reader = File::open(set.mount(1).join("f")).expect("an open");
    assert_eq!(read_at(&reader, PAGE), vec![1; PAGE]);
    reader
}

/// S30
#[test]
fn an_open_sees_what_another_node_closed_before() {
    if skipped("an_open_sees_what_another_node_closed_before") {
        return;
    }
    let set = Set::start(3, |config| config.semantics = Semantics::Cto);
    let early = known_everywhere(&set);
    for round in 2..10u8 {
        let writer = open_to_write(&set.mount(0).join("f")).expect("an open");
        writer.write_all_at(&vec![round; PAGE], 0).expect("a write");
        assert_eq!(read_at(&writer, PAGE), vec![round; PAGE], "its own node");
        drop(writer);
        for node in 0..3 {
            let late = File::open(set.mount(node).join("f")).expect("an open");
            assert_eq!(read_at(&late, PAGE), vec![round; PAGE], "node {node}");
        }
        assert!(read_at(&early, PAGE).iter().all(|&byte| byte <= round));
    }
}

/// S31
#[test]
fn a_sync_sees_what_another_node_synced_before() {
    if skipped("a_sync_sees_what_another_node_synced_before") {
        return;
    }
    let set = Set::start(2, |config| config.semantics = Semantics::Mpi);
    let reader = known_everywhere(&set);
    let writer = open_to_write(&set.mount(0).join("f")).expect("an open");
    for round in 2..10u8 {
        writer.write_all_at(&vec![round; PAGE], 0).expect("a write");
        writer.sync_all().expect("a sync");
        reader.sync_all().expect("a sync");
        assert_eq!(read_at(&reader, PAGE), vec![round; PAGE]);
    }
}

/// S32
#[test]
fn a_file_that_is_made_read_only_is_whole_and_changes_no_more() {
    if skipped("a_file_that_is_made_read_only_is_whole_and_changes_no_more") {
        return;
    }
    let set = Set::start(2, |config| config.semantics = Semantics::Commit);
    let at = |node: usize| set.mount(node).join("f");
    drop(known_everywhere(&set));
    let writer = open_to_write(&at(0)).expect("an open");
    writer.write_all_at(&vec![2; 3 * PAGE], 0).expect("a write");
    assert_eq!(read_at(&writer, PAGE), vec![2; PAGE], "its own node");
    let laminate = |mode| fs::set_permissions(at(0), Permissions::from_mode(mode));
    laminate(0o444).expect("a change of mode");
    assert_eq!(fs::read(set.store().join("f")).unwrap(), vec![2; 3 * PAGE]);
    assert_eq!(fs::read(at(1)).unwrap(), vec![2; 3 * PAGE]);
    let refused = |error: std::io::Error| error.raw_os_error() == Some(1);
    assert!(refused(writer.write_all_at(b"x", 0).unwrap_err()));
    assert!(refused(writer.set_len(1).unwrap_err()));
    drop(writer);
    assert_eq!(fs::read(at(1)).unwrap(), vec![2; 3 * PAGE]);
    laminate(0o644).expect("a change of mode");
    // The operating system tells of the last close when it likes; until then the file is laminated.
    let begun = Instant::now();
    let again = loop {
        match open_to_write(&at(1)) {
            Ok(again) => break again,
            Err(error) => assert!(begun.elapsed() < LIMIT, "it can be written again: {error}"),
        }
        std::thread::yield_now();
    };
    again.write_all_at(&[3; PAGE], 0).expect("a write");
    drop(again);
    laminate(0o444).expect("a change of mode");
    assert_eq!(fs::read(at(0)).unwrap()[..PAGE], [3; PAGE]);
}

/// S33, S11
#[test]
fn a_job_of_its_own_does_not_look_for_changes_from_outside() {
    if skipped("a_job_of_its_own_does_not_look_for_changes_from_outside") {
        return;
    }
    let seen = |semantics| {
        let set = Set::start(2, |config| config.semantics = semantics);
        drop(known_everywhere(&set));
        let stored = set.store().join("f");
        until_it_shows(&stored, || {
            fs::write(&stored, vec![7; PAGE]).expect("the store takes it");
        });
        fs::read(set.mount(0).join("f")).expect("a read")[0]
    };
    assert_eq!(seen(Semantics::Job), 1);
    assert_eq!(seen(Semantics::Posix), 7);
}

#[test]
fn an_attribute_counts_before_a_rule_and_a_rule_before_the_option() {
    if skipped("an_attribute_counts_before_a_rule_and_a_rule_before_the_option") {
        return;
    }
    let rule = |glob: &str, way, semantics| Rule {
        glob: glob.to_owned(),
        way,
        semantics,
    };
    let set = Set::start(1, |config| {
        config.semantics = Semantics::Cto;
        config.rules = vec![
            rule("raw/*", Way::Store, None),
            rule("*.ckpt", Way::Cache, Some(Semantics::Commit)),
        ];
    });
    fs::create_dir(set.store().join("raw")).expect("a directory");
    let named = ["a", "b.ckpt", "c.ckpt", "raw/d"];
    for name in named {
        fs::write(set.store().join(name), b"bytes").expect("the store takes it");
    }
    let marked = rustix::fs::setxattr(
        set.store().join("c.ckpt"),
        ATTRIBUTE,
        b"mpi",
        rustix::fs::XattrFlags::empty(),
    );
    let open: Vec<File> = named
        .iter()
        .map(|name| File::open(set.mount(0).join(name)).expect("an open"))
        .collect();
    assert!(open.iter().all(|file| read_at(file, 5) == b"bytes"));
    let promises = set.agent(0).status().promises;
    let level = |name: &str| {
        let mut found = promises
            .iter()
            .filter(|it| it.file.trim_matches('`') == name);
        found.next().map(|it| it.semantics.as_str())
    };
    assert_eq!(level("a"), Some("cto"));
    assert_eq!(level("b.ckpt"), Some("commit"));
    // A store without attributes of users leaves the rule.
    let third = if marked.is_ok() { "mpi" } else { "commit" };
    assert_eq!(level("c.ckpt"), Some(third));
    assert_eq!(level("raw/d"), None);
}
