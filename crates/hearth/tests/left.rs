//! Writes that programs under `hearth run` leave in memory for their agent. Every later call sees them, and they go
//! where the operating system would have put them (S24).

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/cc.rs"]
mod cc;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::process::{Command, Output};

use fixture::{Fixture, finish, lacks_library, skip, skipped, text, well};

/// A store with a file `f` of so many zeros.
fn zeros(len: usize) -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.store().join("f"), vec![0; len]).expect("the store takes it");
    fixture
}

/// A command under `hearth run` in the store; it has to end well.
fn run(fixture: &Fixture, options: &[&str], words: &[&str]) -> Output {
    let mut command = fixture.hearth(&["run", "--report"]);
    command.args(options).arg("--store").arg(fixture.store());
    command.arg("--").args(words);
    let output = finish(command.current_dir(fixture.store()));
    well(&output);
    output
}

/// Some writes did not come through the mount.
fn assert_left(output: &Output) {
    let report = text(&output.stderr);
    assert!(
        report.contains("calls through this node's memory"),
        "{report}"
    );
}

/// Writes one page many times, by itself and in a child. Says the bytes that it reads, and those that another program
/// beside it reads: by descriptor, and with another call.
const LEAVING: &str = "import os, subprocess, sys\n\
    f = os.open('f', os.O_RDWR)\n\
    def fill(value): return [os.pwrite(f, bytes([value]) * 512, at % 8 * 512) for at in range(400)]\n\
    def look(): return set(os.pread(f, 4096, 0))\n\
    fill(1); print(look())\n\
    fill(2); print(set(subprocess.run(['head', '-c', '4096', 'f'], capture_output=True).stdout))\n\
    fill(3); child = os.fork()\n\
    if child == 0: fill(4); os._exit(0)\n\
    os.waitpid(child, 0); print(look())\n\
    fill(5); os.close(f)\n";

/// S24.
#[test]
fn writes_that_are_left_in_memory_are_seen_by_whatever_comes_next() {
    let test = "writes_that_are_left_in_memory_are_seen_by_whatever_comes_next";
    if skipped(test, &["python3", "head"]) || lacks_library(test) {
        return;
    }
    let fixture = zeros(4096);
    let output = run(&fixture, &[], &["python3", "-c", LEAVING]);
    assert_eq!(text(&output.stdout), "{1}\n{2}\n{4}\n");
    // With the close, all of it is in the store.
    let stored = fs::read(fixture.store().join("f")).expect("it is there");
    assert_eq!(stored, [5; 4096]);
    assert_left(&output);
}

/// Writes a file over and over at the offset of a descriptor that a copy and a child share. Says the offset then, and
/// the bytes that another program reads.
const GOING_ON: &str = "import os, subprocess\n\
    f = os.open('f', os.O_RDWR)\n\
    def fill(value):\n\
    \x20   for at in range(400):\n\
    \x20       if at % 8 == 0: os.lseek(f, 0, os.SEEK_SET)\n\
    \x20       os.write(f, bytes([value + at % 8]) * 512)\n\
    def tell(): return os.lseek(f, 0, os.SEEK_CUR)\n\
    def shown(): return bytes(subprocess.run(['head', '-c', '4096', 'f'], capture_output=True).stdout[::512])\n\
    fill(10); print(tell(), list(shown()))\n\
    fill(20); os.lseek(os.dup(f), 512, os.SEEK_SET); os.write(f, b'x' * 512); print(tell(), list(shown()))\n\
    fill(30); os.lseek(f, 1024, os.SEEK_SET)\n\
    child = os.fork()\n\
    if child == 0: os.write(f, b'y' * 512); os._exit(0)\n\
    os.waitpid(child, 0); os.write(f, b'z' * 512); print(tell(), list(shown()))\n\
    fill(40); os.write(f, b'more'); print(tell(), os.fstat(f).st_size)\n\
    os.lseek(f, 4090, os.SEEK_SET); print(os.read(f, 100)); os.close(f)\n";

/// S24.
#[test]
fn writes_in_order_are_left_in_memory_where_the_offset_is() {
    let test = "writes_in_order_are_left_in_memory_where_the_offset_is";
    if skipped(test, &["python3", "head"]) || lacks_library(test) {
        return;
    }
    let fixture = zeros(4096);
    let output = run(&fixture, &[], &["python3", "-c", GOING_ON]);
    let lines = "4096 [10, 11, 12, 13, 14, 15, 16, 17]\n\
        1024 [20, 120, 22, 23, 24, 25, 26, 27]\n\
        2048 [30, 31, 121, 122, 34, 35, 36, 37]\n\
        4100 4100\n\
        b'//////more'\n";
    assert_eq!(text(&output.stdout), lines);
    assert_left(&output);
}

/// S8, S24, S31.
#[test]
fn writes_that_make_a_file_longer_in_memory_are_seen_by_whatever_comes_next() {
    let test = "writes_that_make_a_file_longer_in_memory_are_seen_by_whatever_comes_next";
    if skipped(test, &["python3", "tail", "stat"]) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    let program = ["python3", "-c", include_str!("support/longer.py")];
    let output = run(&fixture, &["--semantics", "mpi"], &program);
    let stored = fs::metadata(fixture.store().join("f")).expect("it is there");
    assert_eq!(text(&output.stdout), format!("{}\n", stored.len()));
    assert_left(&output);
}

/// Changes what a descriptor's writes do through a copy of it, and says where they go and what is there.
const ANOTHER_WAY: &str = "import fcntl, os\n\
    f = os.open('f', os.O_RDWR)\n\
    for at in range(400): os.pwrite(f, b'a' * 512, at % 8 * 512)\n\
    g = os.dup(f)\n\
    fcntl.fcntl(g, fcntl.F_SETFL, os.O_APPEND)\n\
    os.pwrite(f, b'b' * 512, 0)\n\
    print(os.fstat(f).st_size, os.pread(f, 1, 0), os.pread(f, 1, 4096))\n\
    fcntl.fcntl(f, fcntl.F_SETFL, 0)\n\
    for at in range(400): os.pwrite(g, b'c' * 512, at % 8 * 512)\n\
    print(os.fstat(f).st_size, os.pread(f, 1, 0), os.pread(f, 1, 4096))\n";

/// S24. Linux appends what is written to an `O_APPEND` descriptor, wherever it was to go.
#[test]
fn a_write_is_appended_once_a_copy_of_its_descriptor_says_so() {
    let test = "a_write_is_appended_once_a_copy_of_its_descriptor_says_so";
    if skipped(test, &["python3"]) || lacks_library(test) {
        return;
    }
    let fixture = zeros(4096);
    let output = run(&fixture, &[], &["python3", "-c", ANOTHER_WAY]);
    assert_eq!(text(&output.stdout), "4608 b'a' b'b'\n4608 b'c' b'b'\n");
}

/// Writes often, then reads through another descriptor, over and over; says how often it was not the last write.
const LATE: &str = "import os\n\
    f, g = [os.open('f', os.O_RDWR) for _ in range(2)]\n\
    late = 0\n\
    for turn in range(100):\n\
    \x20   for value in range(100): os.pwrite(f, bytes([turn, value]) * 256, 0)\n\
    \x20   late += os.pread(g, 512, 0) != bytes([turn, value]) * 256\n\
    print(late)\n";

/// S24, where a program's clock is ahead of its agent's.
#[test]
fn a_program_with_clocks_of_its_own_reads_what_it_wrote() {
    let test = "a_program_with_clocks_of_its_own_reads_what_it_wrote";
    if skipped(test, &["python3", "unshare"]) || lacks_library(test) {
        return;
    }
    let ahead = ["unshare", "--time", "--fork", "--monotonic", "100000"];
    let tried = Command::new(ahead[0])
        .args(&ahead[1..])
        .arg("true")
        .output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return skip(test, "time namespaces cannot be made here");
    }
    let fixture = zeros(4096);
    let program = ["python3", "-c", LATE];
    let output = run(&fixture, &[], &[&ahead[..], &program].concat());
    assert_eq!(text(&output.stdout), "0\n");
}

/// S24: of threads that come to ask for a write ring together one gets it, and all may use it.
#[test]
fn threads_that_write_for_the_ninth_time_together_lose_nothing() {
    let test = "threads_that_write_for_the_ninth_time_together_lose_nothing";
    if skipped(test, &[]) || lacks_library(test) {
        return;
    }
    let fixture = zeros(1 << 20);
    let Some(program) = cc::workload(test, "ninth", &fixture.dir("bin")) else {
        return;
    };
    let program = program.to_str().expect("UTF-8");
    let output = run(&fixture, &[], &[program, "f", "20", "32"]);
    assert_eq!(text(&output.stdout), "");
}

/// Reads a file through descriptors whose numbers then mean another one: by a system call, and by calls inside of the
/// C library. Says the bytes that are read then.
const REPLACED: &str = "import ctypes, os, sys\n\
    libc, dup2 = ctypes.CDLL(None), int(sys.argv[1])\n\
    def learn(fd):\n\
    \x20   for at in range(40): os.pread(fd, 16, at)\n\
    def first(fd):\n\
    \x20   try: return os.pread(fd, 4, 0)\n\
    \x20   except OSError as error: return error.errno\n\
    f, g = os.open('f', os.O_RDONLY), os.open('/dev/null', os.O_RDONLY)\n\
    learn(f); libc.syscall(dup2, g, f); print(first(f), flush=True)\n\
    def at_stdin(call):\n\
    \x20   out, told = os.pipe()\n\
    \x20   if os.fork() == 0:\n\
    \x20       os.dup2(os.open('f', os.O_RDONLY), 0); learn(0); call()\n\
    \x20       os.write(told, str(first(0)).encode()); os._exit(0)\n\
    \x20   os.close(told); print(os.read(out, 99).decode(), flush=True); os.wait()\n\
    at_stdin(lambda: libc.daemon(1, 0))\n\
    def terminal():\n\
    \x20   if os.forkpty()[0]: os.wait(); os._exit(0)\n\
    at_stdin(terminal)\n";

#[test]
fn a_number_that_the_c_library_gives_to_another_file_is_read_from_that() {
    let test = "a_number_that_the_c_library_gives_to_another_file_is_read_from_that";
    if skipped(test, &["python3"]) || lacks_library(test) {
        return;
    }
    if !cfg!(target_arch = "x86_64") {
        return fixture::skip(test, "this machine has no such system call");
    }
    let fixture = zeros(4096);
    let dup2 = libc::SYS_dup2.to_string();
    let output = run(&fixture, &[], &["python3", "-c", REPLACED, &dup2]);
    let spipe = libc::ESPIPE;
    assert_eq!(text(&output.stdout), format!("b''\nb''\n{spipe}\n"));
}
