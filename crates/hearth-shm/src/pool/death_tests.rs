//! Two processes, one of which is killed at any instruction: what the other reads is right, and it goes on.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::thread;

use super::shared_tests::{FRAME, Lender, copy, page};
use super::*;
use crate::{Copied, PoolView, attach};

const ROUNDS: u64 = 20;

/// Says to a copy of this test's program what it is to be, and where.
const WRITER: &str = "HEARTH_SHM_TEST_WRITER";
const READER: &str = "HEARTH_SHM_TEST_READER";

fn start(test: &str, role: &str, path: &Path) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("pool::death_tests::{test}"),
            "--nocapture",
        ])
        .env(role, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    child.unwrap()
}

/// Until it says so, after what the test harness says.
fn wait_until_ready(child: &mut Child) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
}

/// Ends this process when its parent is gone.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        process::abort();
    });
}

/// One version of the page, in the one frame or the other.
fn change(pool: &Pool, turn: u64) {
    let frame = FrameIndex((turn % 2) as u32);
    pool.write(frame, 0, &[turn as u8; FRAME]);
    pool.publish(page(0), frame, FRAME);
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == bytes[0])
}

/// A number that looks like chance and is the same each time.
fn chance(round: u64, below: u64) -> u64 {
    (round + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23)
        % below
}

/// Not a test of its own: the agent that is killed.
#[test]
fn writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(WRITER) else {
        return;
    };
    end_with_parent();
    let lender = Lender::at(path.into(), 2);
    println!("ready");
    lender.serve_one();
    for turn in 0..u64::MAX {
        change(&lender.pool, turn);
        // On a single processor a reader is let in between two versions too, not only within one.
        if turn % 64 == 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn an_agent_that_is_killed_while_it_writes_leaves_no_torn_page_and_no_reader_that_waits() {
    for round in 0..ROUNDS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let mut agent = start("writes_until_it_is_killed", WRITER, &path);
        wait_until_ready(&mut agent);
        let (view, _) = attach(path.as_os_str().as_bytes()).unwrap();
        while !reads_whole(&view) {
            thread::yield_now();
        }
        for _ in 0..chance(round, 3000) {
            reads_whole(&view);
        }
        agent.kill().unwrap();
        // It dies while this goes on.
        for _ in 0..1000 {
            reads_whole(&view);
        }
        agent.wait().unwrap();
        assert_eq!(copy(&view, 0, FRAME), Err(Copied::Dead), "round {round}");
    }
}

/// Whether there was a page to read.
fn reads_whole(view: &PoolView) -> bool {
    let read = copy(view, 0, FRAME);
    if let Ok(bytes) = &read {
        assert!(is_whole(bytes), "a torn page");
    }
    read.is_ok()
}

/// Not a test of its own: the program that is killed.
#[test]
fn reads_until_it_is_killed() {
    let Some(path) = std::env::var_os(READER) else {
        return;
    };
    end_with_parent();
    let (view, counts) = attach(path.as_os_str().as_bytes()).unwrap();
    let shard = counts.shard();
    println!("ready");
    loop {
        if let Ok(bytes) = copy(&view, 0, FRAME) {
            counts.add(shard, 0, 1);
            if !is_whole(&bytes) {
                // Not the signal that its parent sends.
                process::abort();
            }
        }
    }
}

#[test]
fn programs_that_are_killed_while_they_read_leave_an_agent_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let lender = Lender::at(dir.path().join("pool"), 2);
    let (view, _) = lender.view();
    let mut turn = 0;
    for round in 0..ROUNDS {
        let mut program = start("reads_until_it_is_killed", READER, &lender.path);
        lender.serve_one();
        wait_until_ready(&mut program);
        let before = lender.pool.shown().unwrap().counts[0];
        let last = turn + 1 + chance(round, 3000);
        while turn < last || lender.pool.shown().unwrap().counts[0] == before {
            turn += 1;
            change(&lender.pool, turn);
        }
        program.kill().unwrap();
        let ended = program.wait().unwrap();
        assert_eq!(
            ended.signal(),
            Some(libc::SIGKILL),
            "round {round}: {ended}"
        );
        assert_eq!(copy(&view, 0, FRAME), Ok(vec![turn as u8; FRAME]));
    }
}
