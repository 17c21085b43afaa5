//! Processes that are killed while they record, and rings far too small: whatever happens, every
//! attempt is stored, dropped and counted, or the one that the kill cut short.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::script::Script;
use crate::support::{Collected, CollectedStream, is_alone, private_directory};
use hearth_trace::ring::{Account, Drain, Options, WhenFull, tracer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const CHILD_VARIABLE: &str = "HEARTH_TEST_TRACED";
const PROCESSES: u64 = 200;
const AT_ONCE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(120);

// Runs itself as each of the processes.
#[test]
fn killed_processes_leave_every_record_and_an_exact_account() {
    if let Some(child) = std::env::var_os(CHILD_VARIABLE) {
        return record_until_killed(child.to_str().expect("the parent wrote it"));
    }
    let directory = private_directory();
    let over = AtomicBool::new(false);
    let got = std::thread::scope(|scope| {
        let drain = scope.spawn(|| drain_until(directory.path(), &over));
        let killed = kill_all(directory.path());
        over.store(true, Ordering::Release);
        killed.expect("every process can be started, heard and killed");
        drain.join().expect("no panic")
    });
    assert_eq!(got.ended.len() as u64, PROCESSES);
    assert_eq!(got.streams.len() as u64, PROCESSES);
    for stream in &got.streams {
        check(&got, stream);
    }
    let left = std::fs::read_dir(directory.path())
        .expect("it is ours")
        .count();
    assert_eq!(left, 0, "areas of the dead are cleared away");
}

#[test]
fn rings_far_too_small_lose_records_and_no_count() {
    if !is_alone("killed::rings_far_too_small_lose_records_and_no_count") {
        return;
    }
    const THREADS: u64 = 200;
    const ATTEMPTS: u64 = 5_000;
    let directory = private_directory();
    let options = Options {
        directory: directory.path().to_owned(),
        capacity: 4,
        threads: 64,
        ..Options::default()
    };
    tracer::start(options).expect("a private directory in memory takes an area");
    let over = AtomicBool::new(false);
    let got = std::thread::scope(|scope| {
        let drain = scope.spawn(|| drain_until(directory.path(), &over));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| (1..=ATTEMPTS).for_each(|n| Script { seed: 7 }.act(n))))
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        over.store(true, Ordering::Release);
        drain.join().expect("no panic")
    });
    // More threads than slots: some were counted without a ring, until a slot came free.
    let looks = hearth_trace::ring::look(directory.path()).expect("it is ours");
    let unringed = looks[0].counts().dropped;
    let mut sum = unringed;
    let mut stored = 0;
    for stream in &got.streams {
        let account = stream.account.as_ref().expect("all threads are over");
        assert_eq!(account.torn, 0);
        assert_eq!(account.stored, stream.records.len() as u64);
        assert_eq!(account.attempted, account.stored + account.dropped);
        sum += account.attempted;
        stored += account.stored;
    }
    assert_eq!(sum, THREADS * ATTEMPTS);
    assert!(stored > 0);
}

/// Says what to be: which process, and where.
fn start(directory: &Path, number: u64) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["killed::killed_processes_leave_every_record_and_an_exact_account"])
        .args(["--exact", "--nocapture"])
        .env(CHILD_VARIABLE, format!("{number} {}", directory.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

fn kill_all(directory: &Path) -> std::io::Result<()> {
    let numbers: Vec<u64> = (0..PROCESSES).collect();
    for group in numbers.chunks(AT_ONCE) {
        let mut children = Vec::new();
        for &number in group {
            children.push((number, start(directory, number)?));
        }
        for (number, mut child) in children {
            let heard = hear(&mut child, number * 37 % 101);
            child.kill()?;
            child.wait()?;
            heard?;
        }
    }
    Ok(())
}

/// Waits until a process has said so many more words than that it began.
fn hear(child: &mut Child, words: u64) -> std::io::Result<()> {
    let pipe = child.stdout.as_mut().expect("it was piped");
    let deadline = Instant::now() + PATIENCE;
    let mut heard = 0;
    let mut buffer = [0; 64];
    while heard <= words {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a minute fits");
        let mut fds = [PollFd::new(&*pipe, PollFlags::IN)];
        if poll(&mut fds, Some(&left))? == 0 {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let read = rustix::io::read(&*pipe, &mut buffer)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        heard += buffer[..read].iter().filter(|&&byte| byte == b'!').count() as u64;
    }
    Ok(())
}

fn policy(number: u64) -> (WhenFull, u32) {
    match number % 4 {
        0 => (WhenFull::Drop, 2),
        1 => (WhenFull::Drop, 4096),
        2 => (WhenFull::Overwrite, 64),
        _ => (WhenFull::Wait { micros: 500 }, 16),
    }
}

fn record_until_killed(told: &str) {
    let (number, directory) = told.split_once(' ').expect("two words");
    let number = number.parse().expect("a number");
    let (policy, capacity) = policy(number);
    tracer::start(Options {
        directory: PathBuf::from(directory),
        capacity,
        threads: 2,
        policy,
        rank: Some(number as u32),
        ..Options::default()
    })
    .expect("the parent's directory takes an area");
    let mut out = std::io::stdout();
    let script = Script { seed: number };
    for attempt in 1.. {
        script.act(attempt);
        if attempt % 64 == 1 && out.write_all(b"!").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// Takes everything until told, and once more then.
fn drain_until(directory: &Path, over: &AtomicBool) -> Collected {
    let mut drain = Drain::open(directory).expect("it is ours");
    let mut got = Collected::default();
    let deadline = Instant::now() + 2 * PATIENCE;
    loop {
        let last = over.load(Ordering::Acquire);
        drain.scan().expect("it can be listed");
        drain.pass(&mut got).expect("a collection takes everything");
        if last {
            return got;
        }
        assert!(Instant::now() < deadline, "the others are stuck");
        std::thread::yield_now();
    }
}

fn check(got: &Collected, stream: &CollectedStream) {
    let (_, facts) = got
        .began
        .iter()
        .find(|(area, _)| *area == stream.key.area)
        .expect("an area begins before its streams");
    let rank = got.ranks[&stream.key.area];
    let script = Script {
        seed: u64::from(rank),
    };
    assert_eq!(facts.policy, policy(u64::from(rank)).0);
    let account = stream.account.as_ref().expect("every stream ends");
    assert_eq!(account.stored, stream.records.len() as u64, "{account:?}");
    assert!(account.torn <= 1, "{account:?}");
    let sum = account.stored + account.dropped + account.torn;
    assert_eq!(account.attempted, sum, "{account:?}");
    assert!(account.attempted >= 64 * (u64::from(rank) * 37 % 101));
    let mut last = 0;
    for record in &stream.records {
        assert!(record.seq > last && record.seq <= account.attempted);
        last = record.seq;
        script.check(record);
    }
    check_totals(script, stream, account);
}

/// Stored and dropped together are all attempts but the torn one, which is the last.
fn check_totals(script: Script, stream: &CollectedStream, account: &Account) {
    let mut totals = account.drops.clone();
    for record in &stream.records {
        totals.add_record(record);
    }
    let expected = script.totals(account.attempted - account.torn);
    assert_eq!(totals, expected, "{account:?}");
}
