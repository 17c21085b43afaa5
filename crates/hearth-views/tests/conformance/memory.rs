//! The suite over the log in memory.

use crate::cases::CASES;
use crate::stage::{FaultyReach, Stage, TERMS, World, key};
use hearth_views::lease::LocalClock;
use hearth_views::log::ViewLog;
use hearth_views::membership::MemberId;
use hearth_views::memory::MemoryOrder;
use std::sync::Arc;

/// Three hosts in one process.
pub(crate) struct MemoryStage {
    world: World,
    order: Arc<MemoryOrder>,
}

impl MemoryStage {
    pub(crate) fn set() -> MemoryStage {
        let world = World::new(3);
        let hosts = world.clocks.iter().zip(0..);
        let hosts = hosts.map(|(clock, host)| {
            let clock: Arc<dyn LocalClock> = Arc::clone(clock) as _;
            (key(host, 1), clock)
        });
        let reach = Arc::new(FaultyReach(Arc::clone(&world.faults)));
        let order = MemoryOrder::new(world.first(), hosts, TERMS, reach);
        MemoryStage { world, order }
    }
}

impl Stage for MemoryStage {
    fn world(&self) -> &World {
        &self.world
    }

    fn log(&self, host: u32) -> Arc<dyn ViewLog> {
        Arc::new(self.order.log(MemberId(host)))
    }

    fn compact(&self, keep: usize) {
        self.order.compact(keep);
    }

    fn minority(&self) -> Option<Vec<u32>> {
        Some(vec![0])
    }

    fn mortal(&self) -> Option<u32> {
        Some(0)
    }

    fn renews_without_decider(&self) -> bool {
        true
    }
}

#[test]
fn memory_conforms() {
    for (name, case) in CASES {
        println!("memory: {name}");
        case(&MemoryStage::set());
    }
}
