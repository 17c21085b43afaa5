//! Processes that read in the node's memory and processes that use the mount, on two nodes, see one
//! file (S1, S22).

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/cc.rs"]
mod cc;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::path::Path;
use std::process::Child;

use fixture::{Fixture, LIMIT, finish, lacks_library, skipped, wait_within, well};

/// Bytes of the file, and more than the board has.
const FILE_BYTES: usize = 96 * 4096;

/// The node and the front end of each process that takes part.
const PROCESSES: [(u32, &str); 4] = [(0, "preload"), (0, "fuse"), (1, "preload"), (1, "fuse")];

/// Stores into mappings, and reads and writes the same file by calls.
const STORES: &str = r#"
import mmap, os, sys
path = sys.argv[1]
for round in range(64):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, bytes(8192))
    for _ in range(round % 4):
        os.pread(fd, 100, 4090)
    mapped = mmap.mmap(fd, 8192)
    other = os.open(path, os.O_RDONLY)
    for step in range(1, 9):
        mapped[4090:4100] = bytes([step]) * 10
        for reader in (fd, other):
            assert os.pread(reader, 10, 4090) == bytes([step]) * 10, (round, step, reader == fd)
        os.pwrite(fd, bytes([step + 100]) * 10, 4090)
        assert mapped[4090:4100] == bytes([step + 100]) * 10, (round, step)
        assert os.pread(other, 10, 4090) == bytes([step + 100]) * 10, (round, step)
    mapped.close()
    os.close(other)
    os.close(fd)
"#;

#[test]
fn a_store_into_a_mapping_is_read_by_a_call_at_once() {
    let test = "a_store_into_a_mapping_is_read_by_a_call_at_once";
    if skipped(test, &["python3"]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let [program, file] = [fixture.path("p.py"), fixture.store().join("file")];
    fs::write(&program, STORES).expect("our own directory");
    let [program, file] = [program, file].map(|path| path.display().to_string());
    well(&finish(
        &mut fixture.run_in_store(&["python3", &program, &file]),
    ));
}

/// Two programs of one mount change different bytes of the same pages, one by calls and one by a mapping. Then two mounts
/// do, both by mappings.
const MIXED: &str = r#"
import mmap, os, sys
PAGES, one, other = 2000, sys.argv[1], sys.argv[2]
fd = os.open(one, os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(fd, PAGES * 4096)
child = os.fork()
if child == 0:
    mapped = mmap.mmap(fd, PAGES * 4096)
    for page in range(PAGES):
        mapped[page * 4096 + 3072:page * 4096 + 3080] = b"by a map"
    mapped.flush()
    os._exit(0)
for page in range(PAGES):
    os.pwrite(fd, b"bya call", page * 4096 + 1024)
assert os.waitpid(child, 0)[1] == 0
for page in range(PAGES):
    data = os.pread(fd, 4096, page * 4096)
    assert data[1024:1032] == b"bya call", ("a write is lost", page)
    assert data[3072:3080] == b"by a map", ("a store is lost", page)
os.close(fd)
fds = [os.open(path, os.O_RDWR) for path in (one, other)]
maps = [mmap.mmap(fd, PAGES * 4096) for fd in fds]
for step in range(1, 20):
    for at, mapped in enumerate(maps):
        mapped[step * 100 + at * 8:step * 100 + at * 8 + 8] = bytes([step]) * 8
    for mapped in maps:
        mapped.flush()
    for fd in fds:
        assert os.pread(fd, 16, step * 100) == bytes([step]) * 16, step
"#;

#[test]
fn stores_into_mappings_and_writes_of_other_bytes_are_all_kept() {
    let test = "stores_into_mappings_and_writes_of_other_bytes_are_all_kept";
    if skipped(test, &["python3"]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &[]);
    let program = fixture.path("p.py");
    fs::write(&program, MIXED).expect("our own directory");
    let paths = [
        program,
        fixture.mount(0).join("file"),
        fixture.mount(1).join("file"),
    ];
    let paths = paths.map(|path| path.display().to_string());
    fixture::sh(&fixture.path("."), &format!("python3 {}", paths.join(" ")));
    fixture.down();
}

#[test]
fn one_file_is_one_file_by_both_front_ends_on_two_nodes() {
    let test = "one_file_is_one_file_by_both_front_ends_on_two_nodes";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let Some(program) = cc::workload(test, "onefile", &fixture.dir("bin")) else {
        return;
    };
    fs::write(fixture.store().join("file"), vec![0; FILE_BYTES]).expect("the store takes it");
    fs::write(fixture.path("board"), vec![0; FILE_BYTES]).expect("a file");
    // Small pages: a page has records of several processes, and homes are on both nodes.
    let up = [
        "up",
        "--agents",
        "2",
        "--page-size",
        "16KiB",
        "--chunk",
        "32KiB",
    ];
    let mut command = fixture.hearth(&up);
    well(&finish(command.arg("--store").arg(fixture.store())));
    let children: Vec<Child> = (0..)
        .zip(PROCESSES)
        .map(|(number, who)| start(&fixture, &program, number, who))
        .collect();
    for (mut child, who) in children.into_iter().zip(PROCESSES) {
        let status = wait_within(&mut child, LIMIT).expect("it ends");
        assert!(status.success(), "{who:?}: {status}");
    }
    let (status, _) = fixture.status();
    for agent in status.iter().take(2) {
        let served = agent["node"]["programs"]["reads"].as_u64();
        assert!(served > Some(0), "{agent}");
    }
    fixture.down();
}

fn start(
    fixture: &Fixture,
    program: &Path,
    number: usize,
    (node, front_end): (u32, &str),
) -> Child {
    let mut command = fixture.hearth(&["run", "--way-in", front_end, "--store"]);
    command.arg(fixture.store()).arg("--").arg(program);
    command
        .arg(fixture.store().join("file"))
        .arg(fixture.path("board"));
    command.args([number.to_string(), PROCESSES.len().to_string()]);
    command.env("PMI_RANK", node.to_string());
    command.spawn().expect("hearth is there")
}
