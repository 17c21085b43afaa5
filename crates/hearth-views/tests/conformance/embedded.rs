//! The suite over the log that three hosts decide by a majority, and one that follows.

use crate::cases::{CASES, decide, exclude_when_it_may_be, sure};
use crate::stage::{Fate, Faults, Stage, TERMS, World, join, key, long, short};
use hearth_views::lease::LocalClock;
use hearth_views::log::ViewLog;
use hearth_views::membership::{MemberId, ViewNumber};
use hearth_views::raft::{Embedded, EmbeddedConfig};
use hearth_views::wire::{AnswerSlot, ViewWire, WireClass};
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
    /// The first hosts vote, and the others follow.
    fn set(hosts: u32) -> EmbeddedStage {
        let world = World::new(hosts);
        let ways = Arc::<Hosts>::default();
        let log = |host: u32| {
            let config = EmbeddedConfig {
                me: key(host, 1),
                voters: (0..VOTERS).map(|voter| key(voter, 1)).collect(),
                terms: TERMS,
                heartbeat: HEARTBEAT,
            };
            let wire = Arc::new(HostWire {
                from: host,
                faults: Arc::clone(&world.faults),
                hosts: Arc::clone(&ways),
            });
            let clock: Arc<dyn LocalClock> = Arc::clone(&world.clocks[host as usize]) as _;
            Arc::new(Embedded::start(config, world.first(), wire, clock).unwrap())
        };
        let logs: Vec<Arc<Embedded>> = (0..hosts).map(log).collect();
        *ways.logs.lock().unwrap() = logs.iter().map(Arc::downgrade).collect();
        ways.are_set.notify_all();
        EmbeddedStage { world, logs }
    }

    /// The host that coordinates, once there is one.
    fn coordinator(&self) -> u32 {
        self.logs[0].coordinator(&long()).unwrap().id.0
    }

    /// Waits until a host knows of no change of voters under way, and of no vote of the dead.
    fn await_voters(&self, host: u32, dead: u32) {
        let log = &self.logs[host as usize];
        loop {
            let voters = log.voters(&long()).unwrap();
            if voters.len() <= VOTERS as usize && !voters.contains(&key(dead, 1)) {
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
        Some(vec![self.coordinator()])
    }

    fn mortal(&self) -> Option<u32> {
        Some(self.coordinator())
    }

    fn renews_without_decider(&self) -> bool {
        true
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
        stage.await_voters(dead + 1, dead);
    }
    let view = decide(&*stage.log(VOTERS), &join(100));
    assert_eq!(view.members().len(), 3);
}
