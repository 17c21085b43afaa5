//! A pool that programs read themselves; the program is this process, over a socket.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

use super::*;
use crate::{Copied, PoolView, attach};

pub(super) const FRAME: usize = 4096;

/// Says to a copy of this test's program that it is the agent that is to be killed.
const AGENT: &str = "HEARTH_SHM_TEST_AGENT";

pub(super) fn page(page: u64) -> PageName {
    PageName { file: 7, page }
}

/// A pool that is lent at a path.
pub(super) struct Lender {
    pub(super) pool: Pool,
    socket: OwnedFd,
    pub(super) path: PathBuf,
}

impl Lender {
    pub(super) fn at(path: PathBuf, frames: u32) -> Lender {
        let pool = Pool::new(PoolConfig::new(FRAME, frames)).unwrap();
        pool.share().unwrap();
        let kind = SocketType::SEQPACKET;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&socket, 8).unwrap();
        Lender { pool, socket, path }
    }

    pub(super) fn serve_one(&self) {
        let program = accept_with(&self.socket, SocketFlags::CLOEXEC).unwrap();
        self.pool.lend(program.as_fd()).unwrap();
    }

    pub(super) fn view(&self) -> (PoolView, SharedCounts) {
        thread::scope(|scope| {
            scope.spawn(|| self.serve_one());
            attach(self.path.as_os_str().as_bytes()).unwrap()
        })
    }
}

pub(super) fn copy(view: &PoolView, offset: u64, len: usize) -> Result<Vec<u8>, Copied> {
    let mut bytes = Vec::with_capacity(len);
    let room = &mut bytes.spare_capacity_mut()[..len];
    match view.copy(7, offset, room) {
        Copied::All => {
            // SAFETY: that says that all of it was filled.
            unsafe { bytes.set_len(len) };
            Ok(bytes)
        }
        other => Err(other),
    }
}

#[test]
fn a_published_page_is_read_until_it_is_hidden_or_written() {
    let dir = tempfile::tempdir().unwrap();
    let lender = Lender::at(dir.path().join("pool"), 8);
    let (view, _) = lender.view();
    let pool = &lender.pool;
    pool.write(FrameIndex(3), 0, &[1; FRAME]);
    assert_eq!(copy(&view, 0, 10), Err(Copied::Missing));
    pool.publish(page(0), FrameIndex(3), FRAME);
    assert_eq!(copy(&view, 4086, 10), Ok(vec![1; 10]));
    pool.write(FrameIndex(3), 5, &[2]);
    assert_eq!(copy(&view, 0, 10), Err(Copied::Missing));
    pool.publish(page(0), FrameIndex(3), FRAME);
    assert_eq!(copy(&view, 4, 3), Ok(vec![1, 2, 1]));
    pool.hide(7, 0..1);
    assert_eq!(copy(&view, 0, 10), Err(Copied::Missing));
}

#[test]
fn a_copy_over_pages_is_all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let lender = Lender::at(dir.path().join("pool"), 40);
    let (view, _) = lender.view();
    let pool = &lender.pool;
    for number in 0..40_u8 {
        let frame = FrameIndex(u32::from(39 - number));
        pool.write(frame, 0, &[number; FRAME]);
        pool.publish(page(u64::from(number)), frame, FRAME);
    }
    let got = copy(&view, 4000, 3 * FRAME).unwrap();
    let want: Vec<u8> = (4000..4000 + 3 * FRAME)
        .map(|at| (at / FRAME) as u8)
        .collect();
    assert!(got == want);
    assert_eq!(copy(&view, 0, 20 * FRAME), Err(Copied::Long));
    // A page that holds less than was asked for, and one that was called back.
    pool.publish(page(1), FrameIndex(38), 100);
    assert_eq!(copy(&view, 0, FRAME + 100).unwrap().len(), FRAME + 100);
    assert_eq!(copy(&view, 0, FRAME + 101), Err(Copied::Missing));
    pool.hide(7, 2..3);
    assert_eq!(copy(&view, FRAME as u64, 2 * FRAME), Err(Copied::Missing));
}

#[test]
fn a_page_is_in_one_frame_and_a_frame_has_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let lender = Lender::at(dir.path().join("pool"), 4);
    let (view, _) = lender.view();
    let pool = &lender.pool;
    pool.write(FrameIndex(0), 0, &[1; FRAME]);
    pool.write(FrameIndex(1), 0, &[2; FRAME]);
    pool.publish(page(0), FrameIndex(0), FRAME);
    pool.publish(page(0), FrameIndex(1), FRAME);
    assert_eq!(copy(&view, 0, 1), Ok(vec![2]));
    pool.publish(page(9), FrameIndex(1), FRAME);
    assert_eq!(copy(&view, 0, 1), Err(Copied::Missing));
    assert_eq!(copy(&view, 9 * FRAME as u64, 1), Ok(vec![2]));
    assert_eq!(pool.shown().unwrap().pages, 1);
}

#[test]
fn nobody_else_can_write_to_what_is_lent() {
    let pool = Pool::new(PoolConfig::new(FRAME, 4)).unwrap();
    pool.share().unwrap();
    let lent = pool.lent.get().unwrap();
    for fd in pool.segments().chain([lent.index.fd()]) {
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
        let opened = std::fs::OpenOptions::new().write(true).open(path);
        let written = opened.and_then(|mut file| std::io::Write::write(&mut file, b"x"));
        assert_eq!(written.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
}

#[test]
fn a_torn_page_is_never_taken_for_a_whole_one() {
    const TURNS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let lender = Lender::at(dir.path().join("pool"), 2);
    let (view, _) = lender.view();
    let over = AtomicBool::new(false);
    let good = thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut good = 0_u64;
                    while !over.load(Ordering::Acquire) {
                        if let Ok(bytes) = copy(&view, 0, FRAME) {
                            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a torn page");
                            good += 1;
                        }
                    }
                    good
                })
            })
            .collect();
        for turn in 0..TURNS {
            let frame = FrameIndex((turn % 2) as u32);
            lender.pool.write(frame, 0, &[turn as u8; FRAME]);
            lender.pool.publish(page(0), frame, FRAME);
        }
        over.store(true, Ordering::Release);
        readers
            .into_iter()
            .map(|it| it.join().unwrap())
            .sum::<u64>()
    });
    // On one core a reader may have come between two turns seldom, but the last page stays.
    assert!(good > 0 || copy(&view, 0, 1).is_ok());
}

/// Not a test of its own: the agent that the next one kills. It lends one page, says so, and waits.
#[test]
fn agent_to_be_killed() {
    let Some(path) = std::env::var_os(AGENT) else {
        return;
    };
    let lender = Lender::at(path.into(), 2);
    lender.pool.write(FrameIndex(0), 0, &[5; FRAME]);
    lender.pool.publish(page(0), FrameIndex(0), FRAME);
    println!("listening");
    lender.serve_one();
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn when_an_agent_is_killed_its_pages_are_good_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "pool::shared_tests::agent_to_be_killed",
            "--nocapture",
        ])
        .env(AGENT, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    let out = agent.stdout.as_mut().unwrap();
    while !said.ends_with(b"listening\n") {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
    }
    let (view, counts) = attach(path.as_os_str().as_bytes()).unwrap();
    assert_eq!(copy(&view, 0, 3), Ok(vec![5; 3]));
    counts.add(counts.shard(), 2, 3);
    assert_eq!(counts.sums()[2], 3);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(!view.is_alive());
    assert_eq!(copy(&view, 0, 3), Err(Copied::Dead));
}

#[test]
fn an_agent_that_ends_in_order_says_so_too() {
    let dir = tempfile::tempdir().unwrap();
    let lender = Lender::at(dir.path().join("pool"), 2);
    let (view, _) = lender.view();
    assert!(view.is_alive());
    drop(lender);
    assert!(!view.is_alive());
}

#[test]
fn nothing_is_served_after_the_lease_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let lender = Lender::at(dir.path().join("pool"), 2);
    let (view, _) = lender.view();
    lender.pool.write(FrameIndex(1), 0, &[5; FRAME]);
    lender.pool.publish(page(0), FrameIndex(1), FRAME);
    assert_eq!(copy(&view, 0, 3), Ok(vec![5; 3]));
    lender.pool.lease_until(1);
    assert_eq!(copy(&view, 0, 3), Err(Copied::Missing));
    assert!(view.is_alive(), "it may be renewed");
    lender.pool.lease_until(u64::MAX - 1);
    assert_eq!(copy(&view, 0, 3), Ok(vec![5; 3]));
}
