//! All that a log of views must do, whoever decides.

use crate::stage::{Stage, TERMS, exclusion, join, key, long, record, short};
use hearth_views::lease::holder::{HolderInput, LeaseHolder};
use hearth_views::lease::{LocalClock, LocalSpan, RenewalNumber};
use hearth_views::log::{CallOff, LogError, Patience, RenewedBy, Silence, ViewLog};
use hearth_views::membership::*;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often a call without an answer is made again.
const SURE_TRIES_MAX: usize = 1000;

/// A case. It needs a stage of its own.
pub(crate) type Case = fn(&dyn Stage);

/// All of them, by name.
pub(crate) const CASES: &[(&str, Case)] = &[
    (
        "proposals of all hosts have one order",
        proposals_of_all_hosts_have_one_order,
    ),
    ("one number has one view", one_number_has_one_view),
    ("loser is told", loser_is_told),
    (
        "watcher that starts late sees each view once",
        late_watcher_sees_each_view_once,
    ),
    (
        "watcher after compaction begins with a later view",
        watcher_after_compaction,
    ),
    ("wait that is called off ends", wait_that_is_called_off_ends),
    ("minority decides nothing", minority_decides_nothing),
    ("host that was stopped catches up", stopped_host_catches_up),
    (
        "host that was stopped catches up after compaction",
        stopped_host_catches_up_after_compaction,
    ),
    (
        "lost and doubled words decide nothing twice",
        bad_words_decide_nothing_twice,
    ),
    ("coordinator that is new waits", new_coordinator_waits),
    (
        "lease is renewed while nobody decides",
        lease_is_renewed_while_nobody_decides,
    ),
    (
        "exclusion waits for the lease",
        exclusion_waits_for_the_lease,
    ),
    (
        "member that was wrongly excluded hears of it, and joins",
        wrongly_excluded_member_hears_of_it,
    ),
    (
        "excluded member is fenced once and is gone",
        excluded_member_is_fenced_and_gone,
    ),
    (
        "dead member goes before its lease is over",
        dead_member_goes_before_its_lease_is_over,
    ),
];

/// Proposes until it is decided, as an agent does.
pub(crate) fn decide(log: &dyn ViewLog, change: &MembershipChange) -> Arc<Membership> {
    let mut at = ViewNumber(1);
    loop {
        match log.propose(change, at, &long()) {
            Ok(view) => return view,
            Err(LogError::Stale { now }) => at = now,
            Err(LogError::Undecided(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Asks again while nothing is known, as elections may come at any time.
pub(crate) fn sure<T>(call: impl Fn() -> Result<T, LogError>) -> Result<T, LogError> {
    for _ in 1..SURE_TRIES_MAX {
        match call() {
            Err(LogError::Undecided(_)) => {}
            answer => return answer,
        }
    }
    call()
}

/// All views behind `after`, up to `last`.
pub(crate) fn watch(
    log: &dyn ViewLog,
    after: ViewNumber,
    last: ViewNumber,
) -> Vec<Arc<Membership>> {
    let mut views = Vec::<Arc<Membership>>::new();
    loop {
        let newest = views.last().map_or(after, |view| view.number());
        if newest >= last {
            return views;
        }
        let more = log.watch(newest, &long()).unwrap();
        assert!(!more.is_empty(), "no view behind {newest}");
        views.extend(more);
    }
}

fn numbers(views: &[Arc<Membership>]) -> Vec<u32> {
    views.iter().map(|view| view.number().0).collect()
}

fn at_all_hosts(stage: &dyn Stage, work: impl Fn(u32, &dyn ViewLog) + Sync) {
    thread::scope(|scope| {
        for host in 0..stage.world().hosts() {
            let (log, work) = (stage.log(host), &work);
            scope.spawn(move || work(host, &*log));
        }
    });
}

fn proposals_of_all_hosts_have_one_order(stage: &dyn Stage) {
    at_all_hosts(stage, |host, log| {
        for one in 0..4 {
            decide(log, &join(100 + host * 10 + one));
        }
    });
    let last = ViewNumber(1 + 4 * stage.world().hosts());
    let seen = watch(&*stage.log(0), ViewNumber(1), last);
    assert_eq!(numbers(&seen), (2..=last.0).collect::<Vec<_>>());
    at_all_hosts(stage, |_, log| {
        assert_eq!(watch(log, ViewNumber(1), last), seen)
    });
}

fn one_number_has_one_view(stage: &dyn Stage) {
    for round in 1..5 {
        let at = ViewNumber(round);
        let answers = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for proposer in 0..4 {
                let log = stage.log(proposer % stage.world().hosts());
                let (answers, change) = (&answers, join(100 + round * 10 + proposer));
                scope.spawn(move || {
                    let answer = log.propose(&change, at, &long());
                    answers.lock().unwrap().push(answer);
                });
            }
        });
        let answers = answers.into_inner().unwrap();
        // If nobody knows whether it won, somebody has to.
        let last = sure(|| stage.log(0).propose(&join(200 + round), at, &long()));
        let view = watch(&*stage.log(0), at, at.next()).remove(0);
        check_answers(&answers, &view);
        let stale = LogError::Stale { now: at.next() };
        assert!(last == Ok(Arc::clone(&view)) || last == Err(stale));
        at_all_hosts(stage, |_, log| {
            assert_eq!(watch(log, at, at.next())[0], view)
        });
    }
}

/// At most one proposer won, and exactly one if all were told.
fn check_answers(answers: &[Result<Arc<Membership>, LogError>], view: &Arc<Membership>) {
    let (mut won, mut unsure) = (0, 0);
    for answer in answers {
        match answer {
            Ok(decided) => {
                assert_eq!(decided, view);
                won += 1;
            }
            Err(LogError::Undecided(_)) => unsure += 1,
            Err(error) => assert_eq!(*error, LogError::Stale { now: view.number() }),
        }
    }
    assert!(won == 1 || (won == 0 && unsure > 0), "{won} won");
}

fn loser_is_told(stage: &dyn Stage) {
    let log = stage.log(0);
    let at = ViewNumber(1);
    decide(&*log, &join(100));
    let lost = sure(|| log.propose(&join(101), at, &long()));
    assert_eq!(lost, Err(LogError::Stale { now: at.next() }));
    let views = watch(&*log, at, at.next());
    assert_eq!((views.len(), views[0].has(key(101, 1))), (1, false));
    let refused = sure(|| log.propose(&join(100), at.next(), &long()));
    assert!(matches!(refused, Err(LogError::Refused(_))));
}

fn late_watcher_sees_each_view_once(stage: &dyn Stage) {
    let last = ViewNumber(9);
    thread::scope(|scope| {
        for host in 0..stage.world().hosts() {
            let log = stage.log(host);
            scope.spawn(move || {
                let seen = numbers(&watch(&*log, ViewNumber(1), last));
                assert_eq!(seen, (2..=last.0).collect::<Vec<_>>());
            });
        }
        for one in 2..=last.0 {
            decide(&*stage.log(0), &join(100 + one));
        }
    });
    at_all_hosts(stage, |_, log| {
        assert_eq!(numbers(&watch(log, ViewNumber(5), last)), [6, 7, 8, 9]);
        assert_eq!(log.watch(last, &short()), Ok(Vec::new()));
    });
}

fn watcher_after_compaction(stage: &dyn Stage) {
    for one in 2..=9 {
        decide(&*stage.log(0), &join(100 + one));
    }
    at_all_hosts(stage, |_, log| {
        drop(watch(log, ViewNumber(1), ViewNumber(9)))
    });
    stage.compact(3);
    decide(&*stage.log(0), &join(200));
    at_all_hosts(stage, |_, log| {
        let seen = numbers(&watch(log, ViewNumber(1), ViewNumber(10)));
        assert_eq!(seen, [7, 8, 9, 10]);
    });
}

fn wait_that_is_called_off_ends(stage: &dyn Stage) {
    let call_off = CallOff::default();
    let patience = Patience::new(Duration::from_secs(3600), &call_off);
    let log = stage.log(0);
    thread::scope(|scope| {
        let waits = scope.spawn(|| log.watch(ViewNumber(1), &patience));
        call_off.call_off();
        let off = Err(LogError::Undecided(Silence::CalledOff));
        assert_eq!(waits.join().unwrap(), off);
    });
}

fn minority_decides_nothing(stage: &dyn Stage) {
    let Some(minority) = stage.minority() else {
        return;
    };
    decide(&*stage.log(0), &join(100));
    at_all_hosts(stage, |_, log| {
        drop(watch(log, ViewNumber(1), ViewNumber(2)))
    });
    stage.world().cut(&minority);
    let inside = stage.log(minority[0]);
    let undecided = inside.propose(&join(101), ViewNumber(2), &short());
    assert!(
        matches!(undecided, Err(LogError::Undecided(_))),
        "{undecided:?}"
    );
    let unrenewed = inside.renew(key(minority[0], 1), &short());
    assert!(
        matches!(unrenewed, Err(LogError::Undecided(_))),
        "{unrenewed:?}"
    );
    let outside = (0..stage.world().hosts())
        .find(|host| !minority.contains(host))
        .unwrap();
    decide(&*stage.log(outside), &join(102));
    // It knows less than the others, and says nothing that they do not know.
    assert_eq!(inside.watch(ViewNumber(2), &short()), Ok(Vec::new()));
    stage.world().heal();
    let last = decide(&*inside, &join(103)).number();
    let seen = watch(&*stage.log(outside), ViewNumber(1), last);
    assert_eq!(watch(&*inside, ViewNumber(1), last), seen);
    assert!(seen[1].has(key(102, 1)) && !seen[1].has(key(101, 1)));
}

fn stopped_host_catches_up(stage: &dyn Stage) {
    let Some(host) = stage.minority().and_then(|hosts| hosts.last().copied()) else {
        return;
    };
    let other = (0..stage.world().hosts())
        .find(|other| *other != host)
        .unwrap();
    stage.world().stop(host);
    for one in 2..=5 {
        decide(&*stage.log(other), &join(100 + one));
    }
    stage.world().go_on(host);
    let seen = numbers(&watch(&*stage.log(host), ViewNumber(1), ViewNumber(5)));
    assert_eq!(seen, [2, 3, 4, 5]);
}

fn stopped_host_catches_up_after_compaction(stage: &dyn Stage) {
    let Some(host) = stage.minority().and_then(|hosts| hosts.last().copied()) else {
        return;
    };
    let other = (0..stage.world().hosts()).find(|other| *other != host);
    let other = stage.log(other.unwrap());
    stage.world().stop(host);
    for one in 2..=6 {
        decide(&*other, &join(100 + one));
    }
    stage.compact(2);
    decide(&*other, &join(200));
    stage.world().go_on(host);
    let seen = numbers(&watch(&*stage.log(host), ViewNumber(1), ViewNumber(7)));
    // It may get some before it meets the gap that compaction left.
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
    assert_eq!(seen.last(), Some(&7));
}

fn bad_words_decide_nothing_twice(stage: &dyn Stage) {
    stage.world().spoil();
    let host = stage.world().hosts() - 1;
    let log = stage.log(host);
    let mut at = ViewNumber(1);
    for one in 0..5 {
        // Its number tells whether a proposal without an answer was decided.
        let wanted = key(100 + one, 1);
        loop {
            match log.propose(&join(100 + one), at, &short()) {
                Ok(view) => break at = view.number(),
                Err(LogError::Stale { .. } | LogError::Undecided(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
            let newer = log.watch(at, &short()).unwrap();
            at = newer.last().map_or(at, |view| view.number());
            if newer.last().is_some_and(|view| view.has(wanted)) {
                break;
            }
        }
    }
    stage.world().heal();
    assert_eq!(at, ViewNumber(6));
    let seen = watch(&*stage.log(0), ViewNumber(1), at);
    assert_eq!(numbers(&seen), [2, 3, 4, 5, 6]);
}

/// Proposes an exclusion until it is no longer for the lease that it waits.
pub(crate) fn exclude_when_it_may_be(stage: &dyn Stage, log: &dyn ViewLog, id: u32) -> u32 {
    let mut waits = 0;
    let mut at = ViewNumber(1);
    loop {
        match log.propose(&exclusion(id), at, &long()) {
            Ok(_) => return waits,
            Err(LogError::Stale { now }) => at = now,
            Err(LogError::Leased { .. }) => {
                waits += 1;
                stage.world().advance(LocalSpan(TERMS.granted.0 / 10));
            }
            Err(LogError::Undecided(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn new_coordinator_waits(stage: &dyn Stage) {
    let Some(dead) = stage.mortal() else {
        return;
    };
    let victim = (0..stage.world().hosts())
        .rfind(|host| *host != dead)
        .unwrap();
    sure(|| stage.log(victim).renew(key(victim, 1), &long())).unwrap();
    stage.world().advance(TERMS.granted);
    stage.world().kill(dead);
    let other = (0..victim).find(|host| *host != dead).unwrap();
    let waits = exclude_when_it_may_be(stage, &*stage.log(other), victim);
    assert!(waits >= 10, "{waits}");
}

fn lease_is_renewed_while_nobody_decides(stage: &dyn Stage) {
    if !stage.renews_without_decider() {
        return;
    }
    // All members are hosts again: nobody else could vouch.
    decide(&*stage.log(0), &join(100));
    decide(&*stage.log(0), &MembershipChange::Leave(key(100, 1)));
    at_all_hosts(stage, |_, log| {
        drop(watch(log, ViewNumber(1), ViewNumber(3)))
    });
    stage.world().suspend();
    for _ in 0..3 {
        stage.world().advance(LocalSpan(TERMS.granted.0 / 3));
        at_all_hosts(stage, |host, log| {
            let renewed = log.renew(key(host, 1), &long()).unwrap();
            assert_eq!(renewed.by, RenewedBy::Members);
        });
    }
    let undecided = stage.log(0).propose(&join(101), ViewNumber(3), &short());
    assert!(matches!(undecided, Err(LogError::Undecided(_))));
    stage.world().restore();
    decide(&*stage.log(0), &join(102));
}

fn exclusion_waits_for_the_lease(stage: &dyn Stage) {
    let hosts = stage.world().hosts();
    let (victim, log) = (hosts - 1, stage.log(0));
    if hosts == 1 {
        return;
    }
    for (victims_pace, others_pace) in [(910_000, 1_090_000), (1_090_000, 910_000)] {
        (0..hosts).for_each(|host| stage.world().skew(host, others_pace));
        stage.world().skew(victim, victims_pace);
        let clock = &stage.world().clocks[victim as usize];
        let mut holder = LeaseHolder::new(TERMS, ViewNumber(1), Default::default());
        holder.step(clock.now(), HolderInput::Tick);
        sure(|| stage.log(victim).renew(key(victim, 1), &long())).unwrap();
        holder.step(clock.now(), HolderInput::Granted(RenewalNumber(1)));
        assert!(holder.holds(clock.now()));
        let refused = sure(|| log.propose(&exclusion(victim), ViewNumber(1), &long()));
        assert!(
            matches!(refused, Err(LogError::Leased { .. })),
            "{refused:?}"
        );
    }
    let clock = &stage.world().clocks[victim as usize];
    let mut holder = LeaseHolder::new(TERMS, ViewNumber(1), Default::default());
    holder.step(clock.now(), HolderInput::Tick);
    sure(|| stage.log(victim).renew(key(victim, 1), &long())).unwrap();
    holder.step(clock.now(), HolderInput::Granted(RenewalNumber(1)));
    exclude_when_it_may_be(stage, &*log, victim);
    assert!(!holder.holds(clock.now()));
}

fn wrongly_excluded_member_hears_of_it(stage: &dyn Stage) {
    let Some(minority) = stage.minority() else {
        return;
    };
    let victim = minority[0];
    let other = (0..stage.world().hosts()).find(|host| !minority.contains(host));
    stage.world().cut(&minority);
    exclude_when_it_may_be(stage, &*stage.log(other.unwrap()), victim);
    stage.world().heal();
    let log = stage.log(victim);
    let gone = sure(|| log.renew(key(victim, 1), &long()));
    assert_eq!(gone, Err(LogError::Gone(key(victim, 1))));
    let view = decide(&*log, &MembershipChange::Join(record(victim, 2)));
    let seen = watch(&*log, ViewNumber(1), view.number());
    assert!(!seen[0].has(key(victim, 1)) && view.has(key(victim, 2)));
}

fn excluded_member_is_fenced_and_gone(stage: &dyn Stage) {
    let log = stage.log(0);
    decide(&*log, &join(100));
    stage.world().advance(TERMS.granted);
    exclude_when_it_may_be(stage, &*log, 100);
    let gone = sure(|| log.renew(key(100, 1), &long()));
    assert_eq!(gone, Err(LogError::Gone(key(100, 1))));
    sure(|| log.fence(key(100, 1), &long())).unwrap();
    sure(|| log.fence(key(100, 1), &long())).unwrap();
    let view = decide(&*log, &MembershipChange::Join(record(100, 2)));
    assert_eq!(view.fence_status(key(100, 1)), FenceStatus::Past);
    assert_eq!(view.number(), ViewNumber(5));
}

fn dead_member_goes_before_its_lease_is_over(stage: &dyn Stage) {
    let log = stage.log(0);
    decide(&*log, &join(100));
    sure(|| log.renew(key(100, 1), &long())).unwrap();
    let died = MembershipChange::Exclude(vec![key(100, 1)], Consent::Dead);
    let view = decide(&*log, &died);
    assert_eq!(view.fence_status(key(100, 1)), FenceStatus::Wanted);
    let gone = sure(|| log.renew(key(100, 1), &long()));
    assert_eq!(gone, Err(LogError::Gone(key(100, 1))));
    sure(|| log.fence(key(100, 1), &long())).unwrap();
    let view = decide(&*log, &MembershipChange::Join(record(100, 2)));
    assert!(view.has(key(100, 2)) && !view.has(key(100, 1)));
}
