//! Random schedules of what can happen to a bank, over real daemons and under load, with a checker of
//! every read.
//!
//! A schedule is a function of its seed: which faults, on which daemon or link, in which order, each
//! after so many more reads and writes. Some end with a gateway that is killed. The calls of the load
//! between two faults depend on the machine, so a schedule that found something is played again until
//! it does so again.

mod board;
mod daemons;
mod faults;
mod guest;
mod relay;

use super::cells::BLOCK;
use crate::hearth::hearth;
use board::{Board, Found, Strict};
use daemons::Bank;
use faults::{Fault, Schedule, Victim};
use guest::Guest;
use hearth_agent::{Allocation, BankAttributes, Policy};
use hearth_set::bank::{BankSpec, Daemons};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::{BenchReport, rounded};
use hearth_set::signals::Signals;
use hearth_set::size::{HumanDuration, Size};
use hearth_set::trial::cluster::Cluster;
use hearth_set::watch::stop_if_told;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Agents 0 and 1 have programs; 1 and 2 are gateways. So one reads as a gateway does and one as its
/// client, and the gateway that is killed manages no file. Agent 3 has a program that reads blocks, and so
/// leases of both gateways.
const AGENTS: u32 = 4;
const GATEWAYS: [u32; 2] = [1, 2];

/// The gateway that is killed.
const VICTIM: usize = 2;

/// The agent that stands still or is killed while it has leases.
const GUEST: usize = 3;

/// Its program.
const GUEST_HAND: usize = 4;

/// Daemons of the bank.
const DAEMONS: usize = 2;

/// Schedules that one set lives through, unless its gateway is killed before.
const PER_SET: usize = 25;

/// Reads and writes after the last fault, and after a gateway was killed.
const AFTER: u64 = 120;

/// And after all have heard of a death: names are in one of four of them, and many have to be looked at to find one
/// that is kept wrongly.
const AFTER_NEWS: u64 = 600;

/// Nothing may take longer than this: what does, hangs.
const HANG: Duration = Duration::from_secs(60);

/// How often the load is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A client's lease, the bound on what a write waits for daemons; and the slack of a busy machine.
const LEASE: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(1);

/// The schedules to play.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) policy: Policy,
    /// Seed of the first schedule; each that follows has the next.
    pub(super) seed: u64,
    pub(super) schedules: usize,
}

/// The outcome of some schedules.
#[derive(Default)]
struct Sum {
    played: usize,
    faults: usize,
    gateways_killed: usize,
    /// Schedules in which the guest stood still, or was killed.
    guests_paused: usize,
    guests_killed: usize,
    found: Found,
    /// Seeds of schedules in which a read was wrong, or something acknowledged was lost.
    bad: Vec<u64>,
}

/// Plays schedules, and says what the checker found.
pub(super) fn run(play: &Play, signals: &Signals) -> Result<BenchReport, Failure> {
    let mut sum = Sum::default();
    let seeds: Vec<u64> = (play.seed..).take(play.schedules).collect();
    let mut rest = seeds.as_slice();
    while !rest.is_empty() {
        let (_, left) = rest.split_at(one_set(play.policy, rest, &mut sum, signals)?);
        rest = left;
        stop_if_told(signals)?;
    }
    progress_over();
    Ok(report(play, &sum))
}

/// Plays schedules on one set until it has had enough; says how many that were.
fn one_set(
    policy: Policy,
    seeds: &[u64],
    sum: &mut Sum,
    signals: &Signals,
) -> Result<usize, Failure> {
    let what = || "cannot make a directory".to_owned();
    let dir = tempfile::tempdir().or_fail(what)?;
    let store = dir.path().join("store");
    std::fs::create_dir(&store).or_fail(what)?;
    let mut bank = Bank::start(dir.path(), DAEMONS)?;
    let Some(allocation) = seeds.first().copied().map(allocation_of) else {
        return Ok(0);
    };
    let alike = seeds
        .iter()
        .take_while(|seed| allocation_of(**seed) == allocation);
    let seeds: Vec<u64> = alike.take(PER_SET).copied().collect();
    let spec = spec(policy, allocation, &bank);
    let cluster = Cluster::start(&hearth()?, &store, dir.path(), spec, signals)?;
    bank.meet(&cluster.processes());
    Board::lay_out(&cluster.points()[0])?;
    let board = Board::default();
    for (count, &seed) in (1..).zip(&seeds) {
        progress(&format!("schedule {seed}, {} before", sum.played));
        let schedule = Schedule::of(seed, DAEMONS, &[0, 1, 2]);
        let killed = schedule.victim != Victim::Nobody;
        play(&schedule, &mut bank, &cluster, &board)?;
        if killed {
            board.look_into(&store)?;
        }
        sum.add(&schedule, &board);
        if killed {
            drop(bank);
            cluster.abandon();
            return Ok(count);
        }
    }
    cluster.end()?;
    Ok(seeds.len())
}

/// A file's blocks have several gateways, or that which manages it, by turns.
fn allocation_of(seed: u64) -> Allocation {
    match (seed / PER_SET as u64).is_multiple_of(2) {
        true => Allocation::Slot,
        false => Allocation::FirstTouch,
    }
}

fn spec(policy: Policy, allocation: Allocation, bank: &Bank) -> SetSpec {
    SetSpec {
        agents: AGENTS,
        policy,
        allocation,
        page_size: Size(BLOCK as u64),
        // Several to a file.
        chunk: Size(2 * BLOCK as u64),
        bank: Some(BankSpec {
            daemons: Daemons::At(bank.addresses()),
            gateways: GATEWAYS.to_vec(),
            attributes: BankAttributes::Daemons,
            ..BankSpec::default()
        }),
        // Nobody else changes the store: what ends an entry with attributes is a change.
        attr_ttl: HumanDuration(HANG),
        ..SetSpec::default()
    }
}

/// Plays one schedule under load, and mends what it broke but for a gateway.
fn play(
    schedule: &Schedule,
    bank: &mut Bank,
    cluster: &Cluster,
    board: &Board,
) -> Result<(), Failure> {
    let done = AtomicBool::new(false);
    let strict = match schedule.victim {
        Victim::Gateway => Strict::Acknowledged,
        Victim::Guest | Victim::Nobody => Strict::Seen,
    };
    board.begin(strict);
    let at = |hand: usize| cluster.points()[hand % 2].as_path();
    thread::scope(|scope| {
        for hand in 0..4 {
            let (board, done, at) = (&board, &done, at(hand));
            scope.spawn(move || board.work(done, at, hand, schedule.seed));
        }
        let (done_guest, at) = (&done, cluster.points()[GUEST].as_path());
        scope.spawn(move || board.visit(done_guest, at, GUEST_HAND, schedule.seed));
        let mut guest = Guest::of(cluster);
        let harmed = harm(schedule, bank, &mut guest, board)
            .and_then(|()| kill(schedule.victim, cluster, &mut guest, board));
        done.store(true, Ordering::Relaxed);
        // Threads that wait for the guest, or for a daemon that stands still, must be let go.
        let resumed = guest.resume();
        let healed = bank.heal();
        harmed.and(resumed).and(healed)
    })
}

fn harm(
    schedule: &Schedule,
    bank: &mut Bank,
    guest: &mut Guest<'_>,
    board: &Board,
) -> Result<(), Failure> {
    for (gap, fault) in &schedule.faults {
        go_on(board, guest, *gap)?;
        match fault {
            Fault::Pause => guest.stop()?,
            Fault::Resume => guest.resume()?,
            Fault::Restart(_) => {
                guest.resume()?;
                bank.suffer(fault)?;
            }
            _ => bank.suffer(fault)?,
        }
    }
    go_on(board, guest, AFTER)
}

fn kill(
    victim: Victim,
    cluster: &Cluster,
    guest: &mut Guest<'_>,
    board: &Board,
) -> Result<(), Failure> {
    let agent = match victim {
        Victim::Nobody => return Ok(()),
        Victim::Gateway => VICTIM,
        Victim::Guest => GUEST,
    };
    board.mourn();
    cluster.kill(agent)?;
    go_on(board, guest, AFTER)?;
    guest.resume()?;
    await_news(agent, cluster, board)?;
    board.hear();
    go_on(board, guest, AFTER_NEWS)
}

/// Waits until all others have heard that an agent is gone.
fn await_news(gone: usize, cluster: &Cluster, board: &Board) -> Result<(), Failure> {
    let begun = Instant::now();
    for agent in (0..AGENTS as usize).filter(|&agent| agent != gone) {
        while !board.is_over() && !cluster.has_heard(agent, gone)? {
            if begun.elapsed() > HANG {
                return Err(Failure::new("an agent does not hear of the end of another"));
            }
            thread::park_timeout(LOOK_AGAIN);
        }
    }
    Ok(())
}

/// Waits for so many more reads and writes.
fn go_on(board: &Board, guest: &mut Guest<'_>, count: u64) -> Result<(), Failure> {
    let (mark, begun) = (board.done() + count, Instant::now());
    while board.done() < mark && !board.is_over() {
        if begun.elapsed() > HANG {
            return Err(Failure::new("reads and writes do not go on"));
        }
        guest.mind()?;
        thread::park_timeout(LOOK_AGAIN);
    }
    Ok(())
}

impl Sum {
    fn add(&mut self, schedule: &Schedule, board: &Board) {
        self.played += 1;
        self.faults += schedule.faults.len();
        self.gateways_killed += usize::from(schedule.victim == Victim::Gateway);
        self.guests_killed += usize::from(schedule.victim == Victim::Guest);
        let paused = schedule
            .faults
            .iter()
            .any(|(_, fault)| *fault == Fault::Pause);
        self.guests_paused += usize::from(paused);
        let found = board.take_found();
        if found.wrong.count > 0 {
            self.bad.push(schedule.seed);
        }
        self.found.add(found);
    }
}

fn report(play: &Play, sum: &Sum) -> BenchReport {
    let mut report = BenchReport::new("bank-faults", "posix");
    let system = play.policy.to_string();
    for &seed in &sum.bad {
        let case = format!("schedule {seed}");
        report.row(&system, &case, "violated", 1.0, "");
        report.explain(&again(play.policy, seed));
    }
    for line in &sum.found.wrong.lines {
        eprintln!("{line}");
    }
    let found = &sum.found;
    let counts = [
        ("schedules", sum.played as u64),
        ("faults", sum.faults as u64),
        ("gateways_killed", sum.gateways_killed as u64),
        ("guests_paused", sum.guests_paused as u64),
        ("guests_killed", sum.guests_killed as u64),
        ("reads", found.reads),
        ("writes", found.writes),
        ("stats", found.stats),
        ("changes", found.changes),
        ("renames", found.renames),
        ("lookups", found.lookups),
        ("listings", found.listings),
        ("refused_after_a_kill", found.refused),
        ("wrong", found.wrong.count),
        ("writes_past_lease", found.past_lease),
    ];
    for (key, count) in counts {
        report.sum_up(key, count);
    }
    report.sum_up(
        "longest_write_s",
        rounded(found.longest_write.as_secs_f64()),
    );
    report.sum_up("lease_s", LEASE.as_secs());
    report.sum_up("violated", sum.bad.clone());
    report.sum_up("verified", sum.bad.is_empty());
    report
}

/// The line that plays one schedule again.
fn again(policy: Policy, seed: u64) -> String {
    format!("hearth-lab bench bank-faults --policy {policy} --schedules 1 --seed {seed}")
}
