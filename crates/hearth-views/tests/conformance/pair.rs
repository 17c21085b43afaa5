//! The suite over the log of two hosts, and what the second does when the first is gone.

use crate::cases::CASES;
use crate::stage::{Fate, Faults, Stage, TERMS, World, join, key, long, short};
use hearth_views::alone::AloneLog;
use hearth_views::lease::LocalClock;
use hearth_views::log::{LogError, Silence, ViewLog};
use hearth_views::membership::{MemberId, ViewNumber};
use hearth_views::pair::PairLog;
use hearth_views::wire::{AnswerSlot, ViewWire, WireClass};
use std::sync::{Arc, Mutex};

struct PairStage {
    world: World,
    first: Arc<PairLog>,
    second: Arc<PairLog>,
}

struct PairWire {
    faults: Arc<Mutex<Faults>>,
    first: Arc<PairLog>,
}

impl ViewWire for PairWire {
    fn ask(&self, to: MemberId, _: WireClass, request: Vec<u8>, answer: AnswerSlot) {
        assert_eq!(to, MemberId(0));
        match World::fate(&self.faults, 1, 0) {
            Fate::Lost => return,
            Fate::Arrives => {}
            Fate::ArrivesTwice => self.first.hear(&request, AnswerSlot::new(drop)),
        }
        let faults = Arc::clone(&self.faults);
        let back = AnswerSlot::new(move |bytes| match World::fate(&faults, 0, 1) {
            Fate::Lost => {}
            Fate::Arrives | Fate::ArrivesTwice => answer.put(bytes),
        });
        self.first.hear(&request, back);
    }
}

impl PairStage {
    fn set() -> PairStage {
        let world = World::new(2);
        let clock: Arc<dyn LocalClock> = Arc::clone(&world.clocks[0]) as _;
        let log = AloneLog::new(world.first(), key(0, 1), TERMS, clock);
        let first = Arc::new(PairLog::first(log));
        let wire = Arc::new(PairWire {
            faults: Arc::clone(&world.faults),
            first: Arc::clone(&first),
        });
        let second = Arc::new(PairLog::second(world.first(), MemberId(0), wire));
        PairStage {
            world,
            first,
            second,
        }
    }
}

impl Stage for PairStage {
    fn world(&self) -> &World {
        &self.world
    }

    fn log(&self, host: u32) -> Arc<dyn ViewLog> {
        match host {
            0 => Arc::clone(&self.first) as _,
            _ => Arc::clone(&self.second) as _,
        }
    }

    fn compact(&self, keep: usize) {
        self.first.compact(keep);
        self.second.compact(keep);
    }

    fn minority(&self) -> Option<Vec<u32>> {
        Some(vec![1])
    }

    fn mortal(&self) -> Option<u32> {
        None
    }

    fn renews_without_decider(&self) -> bool {
        false
    }
}

#[test]
fn pair_conforms() {
    for (name, case) in CASES {
        println!("pair: {name}");
        case(&PairStage::set());
    }
}

#[test]
fn second_reads_on_when_the_first_is_gone_and_says_so() {
    let stage = PairStage::set();
    stage
        .first
        .propose(&join(100), ViewNumber(1), &long())
        .unwrap();
    let seen = stage.second.watch(ViewNumber(1), &long()).unwrap();
    stage.world.kill(0);
    assert_eq!(stage.second.watch(ViewNumber(1), &long()), Ok(seen));
    let silent = LogError::Undecided(Silence::NoDecider(MemberId(0)));
    let proposed = stage.second.propose(&join(101), ViewNumber(2), &short());
    assert_eq!(proposed.unwrap_err(), silent);
    assert_eq!(stage.second.renew(key(1, 1), &short()), Err(silent));
    assert!(
        Silence::NoDecider(MemberId(0))
            .to_string()
            .contains("reads on")
    );
}
