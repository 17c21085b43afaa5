//! The suite over the log that a majority of some hosts decides, with others that follow.

use crate::cases::{CASES, decide, exclude_when_it_may_be, sure, watch};
use crate::stage::{Fate, Faults, Stage, TERMS, World, join, key, long, record, short};
use hearth_views::lease::LocalClock;
use hearth_views::log::ViewLog;
use hearth_views::membership::{MemberId, MemberKey, Membership, MembershipChange, ViewNumber};
use hearth_views::raft::{Embedded, EmbeddedConfig, LeaseProbe};
use hearth_views::wire::{AnswerSlot, ViewWire, WireClass};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

const VOTERS: u32 = 3;

/// Short, for failovers; long enough that a loaded machine does not elect all the time.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// The logs that words arrive at. They are set once all are there.
#[derive(Default)]
struct Hosts {
    logs: Mutex<Vec<Weak<Embedded>>>,
    are_set: Condvar,
}

struct EmbeddedStage {
    world: World,
    voters: u32,
    /// Hosts whose leases ran out.
    lapsed: Arc<Mutex<BTreeSet<u32>>>,
    ways: Arc<Hosts>,
    logs: Vec<Arc<Embedded>>,
}

struct HostWire {
    from: u32,
    faults: Arc<Mutex<Faults>>,
    hosts: Arc<Hosts>,
}

impl Hosts {
    fn log(&self, host: u32) -> Option<Arc<Embedded>> {
        let logs = self.logs.lock().unwrap();
        let logs = self
            .are_set
            .wait_while(logs, |logs| logs.is_empty())
            .unwrap();
        // Cases have members that are no hosts.
        logs.get(host as usize)?.upgrade()
    }
}

impl HostWire {
    fn deliver(&self, to: u32, request: Vec<u8>, answer: AnswerSlot) {
        if let Some(log) = self.hosts.log(to) {
            log.hear(request, answer);
        }
    }
}

impl ViewWire for HostWire {
    fn ask(&self, to: MemberId, class: WireClass, request: Vec<u8>, answer: AnswerSlot) {
        let (from, to) = (self.from, to.0);
        if class == WireClass::Order && World::is_undecided(&self.faults) {
            return;
        }
        match World::fate(&self.faults, from, to) {
            Fate::Lost => return,
            Fate::Arrives => {}
            Fate::ArrivesTwice => self.deliver(to, request.clone(), AnswerSlot::new(drop)),
        }
        let faults = Arc::clone(&self.faults);
        let back = AnswerSlot::new(move |bytes| match World::fate(&faults, to, from) {
            Fate::Lost => {}
            Fate::Arrives | Fate::ArrivesTwice => answer.put(bytes),
        });
        self.deliver(to, request, back);
    }
}

impl EmbeddedStage {
    /// Three hosts vote, and the others follow.
    fn set(hosts: u32) -> EmbeddedStage {
        EmbeddedStage::of(hosts, VOTERS)
    }

    /// The first hosts vote, and the others follow.
    fn of(hosts: u32, voters: u32) -> EmbeddedStage {
        let world = World::new(hosts);
        let ways = Arc::<Hosts>::default();
        let mut stage = EmbeddedStage {
            world,
            voters,
            lapsed: Arc::default(),
            ways,
            logs: Vec::new(),
        };
        let voters: Vec<MemberKey> = (0..voters).map(|voter| key(voter, 1)).collect();
        let log = |host| stage.start(key(host, 1), &voters, stage.world.first());
        stage.logs = (0..hosts).map(log).collect();
        stage.tell_ways();
        stage
    }

    fn start(&self, me: MemberKey, voters: &[MemberKey], first: Membership) -> Arc<Embedded> {
        let host = me.id.0;
        let lapsed = Arc::clone(&self.lapsed);
        let holds = move || !lapsed.lock().unwrap().contains(&host);
        let config = EmbeddedConfig {
            me,
            voters: voters.to_vec(),
            seats: self.voters as usize,
            terms: TERMS,
            heartbeat: HEARTBEAT,
            holds: LeaseProbe(Arc::new(holds)),
        };
        let wire = Arc::new(HostWire {
            from: host,
            faults: Arc::clone(&self.world.faults),
            hosts: Arc::clone(&self.ways),
        });
        let clock: Arc<dyn LocalClock> = Arc::clone(&self.world.clocks[host as usize]) as _;
        Arc::new(Embedded::start(config, first, wire, clock).unwrap())
    }

    fn tell_ways(&self) {
        *self.ways.logs.lock().unwrap() = self.logs.iter().map(Arc::downgrade).collect();
        self.ways.are_set.notify_all();
    }

    /// A host that was killed runs anew, with the newest view of another.
    fn start_anew(&mut self, host: u32, newest: &Membership) {
        let log = self.start(key(host, 2), &[], newest.clone());
        self.logs[host as usize] = log;
        self.tell_ways();
        self.world.go_on(host);
    }

    /// The host that coordinates, once there is one.
    fn coordinator(&self) -> u32 {
        self.logs[0].coordinator(&long()).unwrap().id.0
    }

    /// Waits until a host knows that such voters are decided. Until they are, the earlier ones count, too: a test
    /// that kills another voter before may leave no majority of them.
    fn await_voters(&self, host: u32, are_such: impl Fn(&BTreeSet<MemberKey>) -> bool) {
        let log = &self.logs[host as usize];
        loop {
            if are_such(&log.voters(&long()).unwrap()) {
                return;
            }
            log.watch(ViewNumber(u32::MAX), &short()).unwrap();
        }
    }
}

impl Stage for EmbeddedStage {
    fn world(&self) -> &World {
        &self.world
    }

    fn log(&self, host: u32) -> Arc<dyn ViewLog> {
        Arc::clone(&self.logs[host as usize]) as _
    }

    fn compact(&self, keep: usize) {
        self.logs.iter().for_each(|log| log.compact(keep));
    }

    fn minority(&self) -> Option<Vec<u32>> {
        match (self.voters, self.world.hosts()) {
            (1, 1) => None,
            (1, _) => Some(vec![1]),
            _ => Some(vec![self.coordinator()]),
        }
    }

    fn mortal(&self) -> Option<u32> {
        (self.voters > 1).then(|| self.coordinator())
    }

    fn renews_without_decider(&self) -> bool {
        self.voters > 1
    }
}

#[test]
fn log_of_three_voters_conforms() {
    for (name, case) in CASES {
        println!("three voters: {name}");
        case(&EmbeddedStage::set(VOTERS));
    }
}

#[test]
fn log_of_one_voter_conforms() {
    for (name, case) in CASES {
        println!("one voter: {name}");
        case(&EmbeddedStage::of(1, 1));
        println!("one voter and a follower: {name}");
        case(&EmbeddedStage::of(2, 1));
    }
}

#[test]
fn log_of_three_voters_and_a_follower_conforms() {
    for (name, case) in CASES {
        println!("three voters and a follower: {name}");
        case(&EmbeddedStage::set(VOTERS + 1));
    }
}

#[test]
fn voters_that_are_excluded_are_replaced() {
    let stage = EmbeddedStage::set(VOTERS + 2);
    // One after the other, every first voter. Two of three would decide nothing without a new one.
    for dead in 0..VOTERS {
        let log = stage.log(dead + 1);
        stage.world.kill(dead);
        exclude_when_it_may_be(&stage, &*log, dead);
        sure(|| log.fence(key(dead, 1), &long())).unwrap();
        stage.await_voters(dead + 1, |voters| !voters.contains(&key(dead, 1)));
    }
    let view = decide(&*stage.log(VOTERS), &join(100));
    assert_eq!(view.members().len(), 3);
}

#[test]
fn voters_that_start_anew_join_and_vote() {
    let mut stage = EmbeddedStage::set(VOTERS);
    // One after the other, every voter. The last change needs the votes of those that came back.
    for dead in 0..VOTERS {
        let other = (dead + 1) % VOTERS;
        let log = stage.log(other);
        stage.world.kill(dead);
        exclude_when_it_may_be(&stage, &*log, dead);
        sure(|| log.fence(key(dead, 1), &long())).unwrap();
        let newest = watch(&*log, ViewNumber(1), ViewNumber(3 * dead + 3));
        stage.start_anew(dead, newest.last().unwrap());
        let again = MembershipChange::Join(record(dead, 2));
        let view = decide(&*stage.log(dead), &again);
        assert!(view.has(key(dead, 2)) && view.members().len() == 3);
        stage.await_voters(other, |voters| voters.contains(&key(dead, 2)));
    }
    let lives = decide(&*stage.log(0), &join(100)).keys();
    let again = (0..VOTERS).map(|host| key(host, 2));
    assert!(lives.into_iter().eq(again.chain([key(100, 1)])));
}

/// Asks until another log is founded.
fn found_anew(log: &Embedded, dead: &[MemberKey]) {
    sure(|| log.found_anew(dead, &long())).unwrap();
}

#[test]
fn one_that_is_left_of_two_founds_another_log() {
    let mut stage = EmbeddedStage::of(2, 1);
    decide(&*stage.log(1), &join(100));
    decide(&*stage.log(1), &MembershipChange::Leave(key(100, 1)));
    stage.world.kill(0);
    found_anew(&stage.logs[1], &[key(0, 1)]);
    let view = watch(&*stage.log(1), ViewNumber(3), ViewNumber(4));
    let view = view.last().unwrap();
    assert_eq!(view.keys(), [key(1, 1)].into());
    sure(|| stage.log(1).fence(key(0, 1), &long())).unwrap();
    stage.start_anew(0, view);
    let both = decide(&*stage.log(0), &MembershipChange::Join(record(0, 2)));
    assert_eq!(both.keys(), [key(0, 2), key(1, 1)].into());
    assert!(stage.log(0).renew(key(0, 2), &long()).is_ok());
}

#[test]
fn those_that_are_left_found_another_log_together() {
    let mut stage = EmbeddedStage::set(VOTERS + 1);
    let dead = [key(0, 1), key(1, 1)];
    (0..2).for_each(|host| stage.world.kill(host));
    assert!(
        stage.logs[3].found_anew(&dead, &long()).is_err(),
        "the first of those left does it"
    );
    found_anew(&stage.logs[2], &dead);
    sure(|| stage.log(3).fence(key(0, 1), &long())).unwrap();
    sure(|| stage.log(3).fence(key(1, 1), &long())).unwrap();
    let newest = watch(&*stage.log(3), ViewNumber(1), ViewNumber(1027));
    for host in 0..2 {
        stage.start_anew(host, newest.last().unwrap());
        decide(&*stage.log(host), &MembershipChange::Join(record(host, 2)));
    }
    stage.await_voters(3, |voters| voters.len() == VOTERS as usize);
    let view = decide(&*stage.log(1), &join(100));
    assert_eq!(view.members().len(), VOTERS as usize + 2);
}

#[test]
fn no_log_is_founded_without_the_word_of_each_that_lives() {
    let stage = EmbeddedStage::set(VOTERS);
    let refused = |host: usize, dead: &[MemberKey]| {
        let founded = stage.logs[host].found_anew(dead, &long());
        assert!(founded.is_err(), "{dead:?}");
        assert!(!stage.logs[host].has_stopped(&long()), "{dead:?}");
    };
    // One that is cut off is not dead.
    stage.world.kill(1);
    stage.world.kill(2);
    refused(0, &[key(2, 1)]);
    // Others may have gone on without one whose lease ran out.
    stage.lapsed.lock().unwrap().insert(0);
    refused(0, &[key(1, 1), key(2, 1)]);
    stage.lapsed.lock().unwrap().clear();
    found_anew(&stage.logs[0], &[key(1, 1), key(2, 1)]);
}

#[test]
fn voters_that_died_while_they_changed_are_made_good() {
    let mut stage = EmbeddedStage::set(VOTERS);
    let mut lives = [1, 1, 1];
    // Each dies right after another has joined: that one may not vote yet.
    for dead in [2, 1, 0, 2] {
        let left = (dead + 1) % VOTERS;
        let first = left.min((dead + 2) % VOTERS);
        let life = key(dead, lives[dead as usize]);
        stage.world.kill(dead);
        found_anew(&stage.logs[first as usize], &[life]);
        let log = Arc::clone(&stage.logs[left as usize]);
        sure(|| log.fence(life, &long())).unwrap();
        let newest = log.watch(ViewNumber(1), &long()).unwrap();
        lives[dead as usize] += 1;
        let next = key(dead, lives[dead as usize]);
        let newest = Membership::clone(newest.last().unwrap());
        stage.logs[dead as usize] = stage.start(next, &[], newest);
        stage.tell_ways();
        stage.world.go_on(dead);
        let again = MembershipChange::Join(record(dead, next.incarnation.0));
        assert!(decide(&*stage.log(dead), &again).has(next));
    }
}
