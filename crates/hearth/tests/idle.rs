//! The cost of a set that nobody uses, and the bound of its memory (S15).

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::time::{Duration, Instant};

use fixture::{Fixture, sh, skipped, until};

/// How long idleness is watched.
const WATCH: Duration = Duration::from_secs(5);

/// Ticks of a second in `/proc`, whatever the kernel's own clock is.
const USER_HZ: u64 = 100;

/// Processor time of one agent per watched time, one in this many.
const IDLE_SHARE: u32 = 500;

/// Beside its pool an agent has its program, stacks, tables and buffers.
const BESIDE_POOL: u64 = 64 << 20;

#[test]
fn an_idle_set_uses_next_to_nothing() {
    if skipped("an_idle_set_uses_next_to_nothing", &[]) {
        return;
    }
    let fixture = Fixture::new();
    // Leases take more, which docs/operating.md tells.
    fixture.up(4, &["--membership", "static"]);
    for agent in 0..4 {
        let from = fixture.mount(agent);
        sh(
            &from,
            "head -c 8000000 /dev/zero > f; cat f > /dev/null; ls -l > /dev/null",
        );
    }
    let agents = fixture.agents();
    let ticks = || -> Vec<u64> { agents.iter().map(|pid| ticks(*pid)).collect() };
    // The tasks that the work above left behind are done once a second passes without a tick.
    let mut quiet = (ticks(), Instant::now());
    until("the agents are done", fixture::LIMIT, || {
        let now = ticks();
        if now != quiet.0 {
            quiet = (now, Instant::now());
        }
        quiet.1.elapsed() > Duration::from_secs(1)
    });
    let (before, begun) = (ticks(), Instant::now());
    until("the watch is over", fixture::LIMIT, || {
        begun.elapsed() >= WATCH
    });
    let allowed = USER_HZ * WATCH.as_secs() / u64::from(IDLE_SHARE) + 1;
    for (before, after) in before.iter().zip(ticks()) {
        let used = after - before;
        assert!(
            used <= allowed,
            "{used} ticks of {USER_HZ} a second within {WATCH:?}"
        );
    }
    fixture.down();
}

#[test]
fn memory_stays_within_the_pool_and_little_more() {
    if skipped("memory_stays_within_the_pool_and_little_more", &[]) {
        return;
    }
    const POOL: u64 = 32 << 20;
    let fixture = Fixture::new();
    fixture.up(2, &["--pool", "32MiB"]);
    let write = "for i in 1 2 3 4; do head -c 33554432 /dev/urandom > f$i; done";
    sh(&fixture.mount(0), write);
    for agent in [1, 0] {
        sh(
            &fixture.mount(agent),
            "cat f1 f2 f3 f4 | md5sum > /dev/null",
        );
    }
    for pid in fixture.agents() {
        let peak = resident_peak(pid);
        assert!(peak <= POOL + BESIDE_POOL, "{} MiB at most", peak >> 20);
    }
    let sums = "md5sum f1 f2 f3 f4";
    assert_eq!(sh(&fixture.mount(1), sums), sh(&fixture.store(), sums));
    fixture.down();
}

/// Processor time so far, of the process and the kernel for it.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, rest) = stat.rsplit_once(") ").expect("the name is in brackets");
    let field = |index: usize| {
        rest.split(' ')
            .nth(index)
            .and_then(|word| word.parse::<u64>().ok())
    };
    // Fields 14 and 15; `rest` starts at field 3.
    field(11)
        .zip(field(12))
        .map(|(user, system)| user + system)
        .expect("two numbers")
}

fn resident_peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        << 10
}
