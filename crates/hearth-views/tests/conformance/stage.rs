//! The stage of a case: hosts, their clocks, and a network with faults.

use hearth_views::lease::{DriftPpm, LeaseTerms, LocalClock, LocalSpan, LocalTime};
use hearth_views::log::{Patience, ViewLog};
use hearth_views::membership::*;
use hearth_views::memory::Reach;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Terms of all stages. No real time passes for leases: cases advance the clocks.
pub(crate) const TERMS: LeaseTerms = LeaseTerms {
    granted: LocalSpan(6_000_000),
    drift: DriftPpm(100_000),
};

/// A set of hosts with one log, as a back end sets it up.
pub(crate) trait Stage {
    /// The hosts, their clocks and their network.
    fn world(&self) -> &World;
    /// The log as a host has it.
    fn log(&self, host: u32) -> Arc<dyn ViewLog>;
    /// Every host forgets all views but the newest `keep`.
    fn compact(&self, keep: usize);
    /// Hosts that decide nothing when they are cut off, if there are such. The decider is among them if
    /// the log survives that.
    fn minority(&self) -> Option<Vec<u32>>;
    /// A host that coordinates now and whose death the log survives, if there is such.
    fn mortal(&self) -> Option<u32>;
    /// Whether members renew each other's leases while nobody decides.
    fn renews_without_decider(&self) -> bool;
}

/// A clock that cases move.
pub(crate) struct TestClock {
    now: AtomicU64,
    pace_ppm: AtomicU64,
}

/// The faults of a network.
#[derive(Default)]
pub(crate) struct Faults {
    island: BTreeSet<u32>,
    silent: BTreeSet<u32>,
    is_undecided: bool,
    is_lossy: bool,
    words: u64,
}

/// Hosts of a stage, with all that a case may do to them.
pub(crate) struct World {
    pub(crate) clocks: Vec<Arc<TestClock>>,
    pub(crate) faults: Arc<Mutex<Faults>>,
}

/// Things that may happen to a word on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    ArrivesTwice,
    Lost,
}

impl LocalClock for TestClock {
    fn now(&self) -> LocalTime {
        LocalTime(self.now.load(Ordering::SeqCst))
    }
}

impl World {
    pub(crate) fn new(hosts: u32) -> World {
        let clock = |host: u32| TestClock {
            now: AtomicU64::new(u64::from(host) * 1_000_000_000),
            pace_ppm: AtomicU64::new(1_000_000),
        };
        World {
            clocks: (0..hosts).map(|host| Arc::new(clock(host))).collect(),
            faults: Arc::default(),
        }
    }

    pub(crate) fn hosts(&self) -> u32 {
        self.clocks.len() as u32
    }

    /// The first view, with all hosts as members.
    pub(crate) fn first(&self) -> Membership {
        let records: Vec<_> = (0..self.hosts()).map(|host| record(host, 1)).collect();
        Membership::found_with(&records, LossesBorne(2)).unwrap()
    }

    /// The host is never heard of again.
    pub(crate) fn kill(&self, host: u32) {
        self.stop(host);
    }

    /// The host neither says nor hears a word, until it goes on.
    pub(crate) fn stop(&self, host: u32) {
        self.faults.lock().unwrap().silent.insert(host);
    }

    pub(crate) fn go_on(&self, host: u32) {
        self.faults.lock().unwrap().silent.remove(&host);
    }

    /// No word goes between these and the others.
    pub(crate) fn cut(&self, island: &[u32]) {
        self.faults.lock().unwrap().island = island.iter().copied().collect();
    }

    pub(crate) fn heal(&self) {
        let mut faults = self.faults.lock().unwrap();
        faults.island.clear();
        faults.is_lossy = false;
    }

    /// Every fourth word is lost, and every fifth is doubled.
    pub(crate) fn spoil(&self) {
        self.faults.lock().unwrap().is_lossy = true;
    }

    /// Nothing is decided, though members reach each other.
    pub(crate) fn suspend(&self) {
        self.faults.lock().unwrap().is_undecided = true;
    }

    pub(crate) fn restore(&self) {
        self.faults.lock().unwrap().is_undecided = false;
    }

    /// The host's clock runs at this pace, in millionths of the time.
    pub(crate) fn skew(&self, host: u32, pace_ppm: u64) {
        let clock = &self.clocks[host as usize];
        clock.pace_ppm.store(pace_ppm, Ordering::SeqCst);
    }

    /// Time passes, on each clock at its pace.
    pub(crate) fn advance(&self, span: LocalSpan) {
        for clock in &self.clocks {
            let pace = clock.pace_ppm.load(Ordering::SeqCst);
            clock
                .now
                .fetch_add(span.0 * pace / 1_000_000, Ordering::SeqCst);
        }
    }

    pub(crate) fn is_undecided(faults: &Mutex<Faults>) -> bool {
        faults.lock().unwrap().is_undecided
    }

    /// The fate of a word that is sent now.
    pub(crate) fn fate(faults: &Mutex<Faults>, from: u32, to: u32) -> Fate {
        let mut faults = faults.lock().unwrap();
        faults.words += 1;
        match faults.words {
            _ if !faults.reaches(from, to) => Fate::Lost,
            word if faults.is_lossy && word % 4 == 0 => Fate::Lost,
            word if faults.is_lossy && word % 5 == 0 => Fate::ArrivesTwice,
            _ => Fate::Arrives,
        }
    }
}

impl Faults {
    fn reaches(&self, from: u32, to: u32) -> bool {
        let is_silent = self.silent.contains(&from) || self.silent.contains(&to);
        !is_silent && self.island.contains(&from) == self.island.contains(&to)
    }
}

/// A network for a log that asks whether words arrive, instead of sending any.
pub(crate) struct FaultyReach(pub(crate) Arc<Mutex<Faults>>);

impl Reach for FaultyReach {
    fn reaches(&self, from: MemberId, to: MemberId) -> bool {
        self.0.lock().unwrap().reaches(from.0, to.0)
    }

    fn decides(&self) -> bool {
        !self.0.lock().unwrap().is_undecided
    }
}

pub(crate) fn key(id: u32, incarnation: u64) -> MemberKey {
    MemberKey {
        id: MemberId(id),
        incarnation: Incarnation(incarnation),
    }
}

pub(crate) fn record(id: u32, incarnation: u64) -> MemberRecord {
    MemberRecord {
        key: key(id, incarnation),
        address: format!("host{id}:4000"),
        domain: FailureDomain(format!("rack{id}")),
    }
}

pub(crate) fn join(id: u32) -> MembershipChange {
    MembershipChange::Join(record(id, 1))
}

pub(crate) fn exclusion(id: u32) -> MembershipChange {
    MembershipChange::Exclude(vec![key(id, 1)], Consent::Replicas)
}

/// For calls that are to succeed: as long as a loaded machine needs.
pub(crate) fn long() -> Patience {
    Patience::of(Duration::from_secs(30))
}

/// For calls that are to give up.
pub(crate) fn short() -> Patience {
    Patience::of(Duration::from_millis(300))
}
