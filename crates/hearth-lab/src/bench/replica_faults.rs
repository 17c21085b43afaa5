//! Random schedules of deaths over real agents under load, with a checker of what was acknowledged.
//!
//! A schedule is a function of its seed. The seed says whether others keep what a home has, whether there are
//! tiers, which agents die, and when the disk of the tiers is full. Each comes after so many more reads and
//! writes. With copies or shards the next death comes when everybody has heard of the last and no file is at risk
//! any more, as is promised. Nothing acknowledged may be missed by a read or in the store. Without, every death
//! must be told by somebody who lives.

mod agents;
mod closing;
mod load;
mod schedule;

use agents::Agents;
use hearth_agent::Replicas;
use hearth_set::failure::Failure;
use hearth_set::output::{progress, progress_over};
use hearth_set::report::BenchReport;
use hearth_set::signals::Signals;
use hearth_set::watch::stop_if_told;
use load::{Board, Found};
use schedule::{Schedule, Step};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Reads and writes after the last step.
const AFTER: u64 = 100;

/// Nothing may take longer than this: what does, hangs.
const HANG: Duration = Duration::from_secs(60);

/// How often what is waited for is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The schedules to play.
#[derive(Debug)]
pub(super) struct Play {
    /// Seed of the first schedule; each that follows has the next.
    pub(super) seed: u64,
    pub(super) schedules: usize,
    /// How bytes are kept; by itself with a copy and without, in turn.
    pub(super) replicas: Option<Replicas>,
}

/// The outcome of some schedules.
#[derive(Default)]
struct Sum {
    played: usize,
    deaths: usize,
    full_disks: usize,
    /// With copies or shards, and without.
    kept: Found,
    alone: Found,
    /// Seeds of schedules in which a promise was broken.
    bad: Vec<u64>,
}

/// Plays schedules, and says what the checker found.
pub(super) fn run(play: &Play, signals: &Signals) -> Result<BenchReport, Failure> {
    let mut sum = Sum::default();
    for seed in (play.seed..).take(play.schedules) {
        progress(&format!("schedule {seed}, {} before", sum.played));
        let schedule = Schedule::of(seed, play.replicas);
        sum.add(&schedule, one(&schedule)?);
        stop_if_told(signals)?;
    }
    progress_over();
    Ok(report(play, &sum))
}

/// Plays one schedule under load on a set of its own. After a death nobody writes files any more that the dead
/// agent managed (S13). Ends the set in good order, and looks into the store.
fn one(schedule: &Schedule) -> Result<Found, Failure> {
    let mut agents = Agents::start(schedule.mode)?;
    let board = Board::new(schedule.mode.agents(), schedule.mode.is_strict());
    board.lay_out(|agent| agents.point(agent))?;
    let over = AtomicBool::new(false);
    let points: Vec<_> = board.files().map(|agent| agents.point(agent)).collect();
    let harmed = thread::scope(|scope| {
        for (hand, at) in points.iter().enumerate() {
            let (over, board) = (&over, &board);
            scope.spawn(move || match schedule.mode.is_sealed() {
                true => board.work_closing(over, at, hand, schedule.seed),
                false => board.work(over, at, hand, schedule.seed),
            });
        }
        let harmed = harm(schedule, &mut agents, &board);
        over.store(true, Ordering::Relaxed);
        if !matches!(harmed, Ok(true)) {
            // Calls that hang end with their agents.
            let here: Vec<usize> = board
                .files()
                .filter(|&agent| agents.is_here(agent))
                .collect();
            here.into_iter()
                .try_for_each(|agent| agents.suffer(Step::Kill(agent)))?;
        }
        harmed
    })?;
    if harmed {
        match agents.end() {
            Ok(()) => board.look_into(&agents.store())?,
            Err(failure) => board.wrong(format!("agents do not end in good order: {failure}")),
        }
    }
    Ok(board.take_found())
}

/// Has everything happen; false if something hangs.
fn harm(schedule: &Schedule, agents: &mut Agents, board: &Board) -> Result<bool, Failure> {
    let strict = schedule.mode.is_strict();
    for &(gap, step) in &schedule.steps {
        if !go_on(board, gap)? {
            return Ok(false);
        }
        let dies = matches!(step, Step::Kill(_));
        if dies && strict && !wait(|| agents.is_at_ease())? {
            board.wrong("files stay at risk".to_owned());
            return Ok(false);
        }
        if let Step::Kill(agent) = step {
            board.ends_life(agent);
        }
        agents.suffer(step)?;
        if let Step::Kill(agent) = step
            && !strict
            && !wait(|| agents.tells_of(agent))?
        {
            board.wrong(format!("nobody tells that agent {agent} is gone"));
        }
    }
    if !go_on(board, AFTER)? {
        return Ok(false);
    }
    agents.suffer(Step::Free)?;
    let whole = wait(|| agents.is_at_ease())?;
    if !whole {
        board.wrong("a death is not known to all, or files stay at risk".to_owned());
    }
    Ok(whole && go_on(board, AFTER)?)
}

/// Waits for so many more reads and writes; false if they do not go on.
fn go_on(board: &Board, count: u64) -> Result<bool, Failure> {
    let mark = board.done() + count;
    let went_on = wait(|| Ok(board.done() >= mark))?;
    if !went_on {
        board.wrong("reads and writes do not go on".to_owned());
    }
    Ok(went_on)
}

/// Waits until something is so; false if that does not come about.
fn wait(mut is_so: impl FnMut() -> Result<bool, Failure>) -> Result<bool, Failure> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > HANG {
            return Ok(false);
        }
        thread::park_timeout(LOOK_AGAIN);
    }
    Ok(true)
}

impl Sum {
    fn add(&mut self, schedule: &Schedule, found: Found) {
        let count = |of: fn(&Step) -> bool| {
            let steps = schedule.steps.iter();
            steps.filter(|(_, step)| of(step)).count()
        };
        self.played += 1;
        self.deaths += count(|step| matches!(step, Step::Kill(_)));
        self.full_disks += count(|step| matches!(step, Step::Fill));
        if found.wrong.count > 0 {
            self.bad.push(schedule.seed);
            let (seed, mode) = (schedule.seed, schedule.mode.name());
            let tell = |line: &String| eprintln!("schedule {seed} ({mode}): {line}");
            found.wrong.lines.iter().for_each(tell);
        }
        match schedule.mode.is_strict() {
            true => self.kept.add(found),
            false => self.alone.add(found),
        }
    }
}

fn report(play: &Play, sum: &Sum) -> BenchReport {
    let mut report = BenchReport::new("replica-faults", "posix");
    let option = play.replicas.map(|asked| format!(" --replicas {asked}"));
    let option = option.unwrap_or_default();
    for &seed in &sum.bad {
        let mode = Schedule::of(seed, play.replicas).mode.name();
        report.row(&mode, &format!("schedule {seed}"), "violated", 1.0, "");
        report.explain(&format!(
            "hearth-lab bench replica-faults --schedules 1 --seed {seed}{option}"
        ));
    }
    let mut counts = vec![
        ("schedules", sum.played as u64),
        ("deaths", sum.deaths as u64),
        ("full_disks", sum.full_disks as u64),
        ("reads", sum.kept.reads + sum.alone.reads),
        ("writes", sum.kept.writes + sum.alone.writes),
        ("refused", sum.kept.refused + sum.alone.refused),
    ];
    counts.extend(match play.replicas {
        None => [
            ("lost_with_sync1", sum.kept.lost),
            ("lost_with_none_and_told", sum.alone.lost),
        ],
        Some(_) => [
            ("closes", sum.kept.closes + sum.alone.closes),
            ("lost", sum.kept.lost + sum.alone.lost),
        ],
    });
    for (key, count) in counts {
        report.sum_up(key, count);
    }
    report.sum_up("first_seed", play.seed);
    report.sum_up("violated", sum.bad.clone());
    report.sum_up("verified", sum.bad.is_empty());
    report
}
