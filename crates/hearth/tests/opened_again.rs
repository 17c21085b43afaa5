//! Files that a program of a node has read and closed are opened again without a word to anybody, as long as nobody
//! changes them.

#[path = "support/fixture.rs"]
mod fixture;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fixture::{Fixture, skipped, until};

const AGENTS: usize = 3;
/// More than the look-ups after which a directory is read as a whole, which gives leave to keep attributes.
const NAMES: u64 = 40;
/// Long enough that nothing is looked at anew for its age.
const KEPT: [&str; 2] = ["--attr-ttl", "2m"];
const O_PATH: u32 = 0o10_000_000;

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("d/{number}"))
}

fn up() -> Fixture {
    up_with(&KEPT)
}

fn up_with(options: &[&str]) -> Fixture {
    let fixture = Fixture::new();
    fs::create_dir(fixture.store().join("d")).expect("the store takes it");
    for number in 0..NAMES {
        let name = path(&fixture.store(), number);
        fs::write(name, number.to_string()).expect("the store takes it");
    }
    fixture.up(AGENTS, options);
    fixture
}

/// Opens, reads and closes all files through a mount.
fn read_all(at: &Path, told: impl Fn(u64) -> String) {
    for number in 0..NAMES {
        let read = fs::read_to_string(path(at, number)).expect("it opens");
        assert_eq!(read, told(number));
    }
}

fn messages(fixture: &Fixture) -> u64 {
    let (agents, _) = fixture.status();
    let sent = |agent: &serde_json::Value| agent["node"]["counters"]["messages_sent"].as_u64();
    agents.iter().filter_map(sent).sum()
}

/// Files of the store that the first agent has open for their bytes.
fn open_files(fixture: &Fixture) -> u64 {
    let proc = PathBuf::from(format!("/proc/{}", fixture.agents()[0]));
    let dir = fixture.store().join("d");
    let is_open = |fd: &std::ffi::OsStr| {
        let link = fs::read_link(proc.join("fd").join(fd)).ok()?;
        let info = fs::read_to_string(proc.join("fdinfo").join(fd)).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        (link.starts_with(&dir) && link != dir && flags & O_PATH == 0).then_some(link)
    };
    let fds = fs::read_dir(proc.join("fd")).expect("an agent that lives");
    let fds = fds.map(|fd| fd.expect("an entry").file_name());
    fds.filter_map(|fd| is_open(&fd))
        .collect::<BTreeSet<PathBuf>>()
        .len() as u64
}

/// S11
#[test]
fn a_file_is_opened_again_without_a_message() {
    if skipped("a_file_is_opened_again_without_a_message", &[]) {
        return;
    }
    let fixture = up();
    let at = fixture.mount(0);
    read_all(&at, |number| number.to_string());
    read_all(&at, |number| number.to_string());
    let before = messages(&fixture);
    read_all(&at, |number| number.to_string());
    assert_eq!(messages(&fixture), before);
    // A change that somebody makes in the store shows at once all the same.
    for number in 0..NAMES {
        let name = path(&fixture.store(), number);
        fs::write(name, format!("{number}, changed")).expect("the store takes it");
    }
    read_all(&at, |number| format!("{number}, changed"));
    fixture.down();
}

/// S14
#[test]
fn a_change_elsewhere_ends_what_is_open_for_the_next_program() {
    let test = "a_change_elsewhere_ends_what_is_open_for_the_next_program";
    if skipped(test, &[]) {
        return;
    }
    let fixture = up();
    let at = fixture.mount(0);
    read_all(&at, |number| number.to_string());
    read_all(&at, |number| number.to_string());
    // The operating system tells of a close when the program has gone on.
    until("all are open", fixture::LIMIT, || {
        open_files(&fixture) == NAMES
    });
    for number in 0..NAMES {
        let name = path(&fixture.mount(1), number);
        fs::set_permissions(name, Permissions::from_mode(0o600)).expect("it is ours");
    }
    // A home keeps a descriptor of what it is home of.
    assert!(open_files(&fixture) < NAMES);
    read_all(&at, |number| number.to_string());
    fixture.down();
}

/// S32: the next open of a file that no program has open says anew what is promised of it.
#[test]
fn a_file_that_promises_less_is_open_for_programs_alone() {
    if skipped("a_file_that_promises_less_is_open_for_programs_alone", &[]) {
        return;
    }
    let fixture = up_with(&["--attr-ttl", "2m", "--semantics", "cto"]);
    let at = fixture.mount(0);
    read_all(&at, |number| number.to_string());
    read_all(&at, |number| number.to_string());
    until("homes alone have files open", fixture::LIMIT, || {
        open_files(&fixture) < NAMES
    });
    fixture.down();
}
