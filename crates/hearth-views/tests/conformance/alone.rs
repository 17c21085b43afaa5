//! The suite over the log of one host.

use crate::cases::CASES;
use crate::stage::{Stage, TERMS, World, key};
use hearth_views::alone::AloneLog;
use hearth_views::lease::LocalClock;
use hearth_views::log::ViewLog;
use std::sync::Arc;

struct AloneStage {
    world: World,
    log: Arc<AloneLog>,
}

impl AloneStage {
    fn set() -> AloneStage {
        let world = World::new(1);
        let clock: Arc<dyn LocalClock> = Arc::clone(&world.clocks[0]) as _;
        let log = Arc::new(AloneLog::new(world.first(), key(0, 1), TERMS, clock));
        AloneStage { world, log }
    }
}

impl Stage for AloneStage {
    fn world(&self) -> &World {
        &self.world
    }

    fn log(&self, _: u32) -> Arc<dyn ViewLog> {
        Arc::clone(&self.log) as _
    }

    fn compact(&self, keep: usize) {
        self.log.compact(keep);
    }

    fn minority(&self) -> Option<Vec<u32>> {
        None
    }

    fn mortal(&self) -> Option<u32> {
        None
    }

    fn renews_without_decider(&self) -> bool {
        false
    }
}

#[test]
fn log_of_one_host_conforms() {
    for (name, case) in CASES {
        println!("alone: {name}");
        case(&AloneStage::set());
    }
}
