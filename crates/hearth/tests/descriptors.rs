//! A mount serves as many open files as its agent may have descriptors, but for those that the agent needs itself.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::time::Duration;

use fixture::{Fixture, finish, sh, skipped, text, until, well};

/// The agent's limit, hard and soft.
const LIMIT: usize = 600;

/// Left of it to the agent, its homes and nodes that nobody has open.
const OWN: usize = 200;

const PROGRAM: &str = r#"
import os, sys
opened = []
for number in range(int(sys.argv[2])):
    fd = os.open(f"{sys.argv[1]}/{number}", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, b"%d" % number)
    opened.append(fd)
for number, fd in enumerate(opened):
    assert os.pread(fd, 10, 0) == b"%d" % number
    assert os.fstat(fd).st_size == len(b"%d" % number)
    os.rename(f"{sys.argv[1]}/{number}", f"{sys.argv[1]}/{number}.new")
    os.fchmod(fd, 0o640)
for number, fd in enumerate(opened):
    assert os.stat(f"{sys.argv[1]}/{number}.new").st_ino == os.fstat(fd).st_ino
    os.unlink(f"{sys.argv[1]}/{number}.new")
    os.write(fd, b"!")
    os.close(fd)
"#;

#[test]
fn an_open_file_takes_one_descriptor_of_the_agent() {
    if skipped(
        "an_open_file_takes_one_descriptor_of_the_agent",
        &["python3", "prlimit"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    std::fs::write(fixture.path("p.py"), PROGRAM).expect("our own directory");
    let hearth = fixture.hearth(&["up", "--store"]);
    let mut up = std::process::Command::new("prlimit");
    up.arg(format!("--nofile={}:{LIMIT}", LIMIT / 2))
        .arg(hearth.get_program());
    up.args(hearth.get_args())
        .arg(fixture.store())
        .arg("--at")
        .arg(fixture.dir("mount0"));
    up.env("HEARTH_DIR", fixture.path("control"));
    well(&finish(&mut up));
    let (program, at) = (fixture.path("p.py"), fixture.mount(0));
    let count = LIMIT - OWN;
    let script = format!("python3 {} {} {count}", program.display(), at.display());
    assert_eq!(sh(&fixture.store(), &script), "");
    let words = text(&fixture.run(&["status"]).stderr);
    assert_eq!(words, "");
    fixture.down();
}

/// The kernel forgets a file that nobody asks for after a minute.
const SPAN: Duration = Duration::from_secs(30);

/// The paths of files without a name that a process has descriptors of.
fn nameless(pid: u32, below: &str) -> Vec<String> {
    let listed = fs::read_dir(format!("/proc/{pid}/fd")).expect("our own process");
    let paths = listed.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let paths = paths.map(|path| path.display().to_string());
    paths
        .filter(|path| path.starts_with(below) && path.ends_with("(deleted)"))
        .collect()
}

/// Else its room in the store would be taken for as long as the kernel of the first mount remembers it.
#[test]
fn a_file_that_another_node_removed_is_let_go_of() {
    if skipped("a_file_that_another_node_removed_is_let_go_of", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &[]);
    let (agent, store) = (fixture.agents()[0], fixture.store().display().to_string());
    sh(&fixture.mount(0), "echo a >closed; echo b >open");
    let open = fs::File::open(fixture.mount(0).join("open")).expect("it is there");
    sh(&fixture.mount(1), "rm closed open");
    until("the closed file is let go of", SPAN, || {
        nameless(agent, &store)
            .iter()
            .all(|path| path.contains("open"))
    });
    assert_eq!(std::io::read_to_string(&open).expect("it is open"), "b\n");
    drop(open);
    until("the other is, too", SPAN, || {
        nameless(agent, &store).is_empty()
    });
    fixture.down();
}
