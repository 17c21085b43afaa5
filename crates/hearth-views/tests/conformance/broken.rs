//! Logs with a known fault. The suite must fail over each, or it shows nothing.

use crate::cases::CASES;
use crate::memory::MemoryStage;
use crate::stage::{Stage, World};
use hearth_views::log::{LogError, Patience, Renewed, RenewedBy, ViewLog};
use hearth_views::membership::{MemberKey, Membership, MembershipChange, ViewNumber};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It takes a change for any view.
    NoCompare,
    /// It tells each view twice.
    TwiceTold,
    /// It leaves out a view.
    Gap,
    /// It renews without asking anybody.
    FreeRenewal,
    /// It never says that it does not know.
    FreeDecision,
}

struct BrokenStage {
    stage: MemoryStage,
    fault: Fault,
}

struct BrokenLog {
    log: Arc<dyn ViewLog>,
    fault: Fault,
}

impl Stage for BrokenStage {
    fn world(&self) -> &World {
        self.stage.world()
    }

    fn log(&self, host: u32) -> Arc<dyn ViewLog> {
        let (log, fault) = (self.stage.log(host), self.fault);
        Arc::new(BrokenLog { log, fault })
    }

    fn compact(&self, keep: usize) {
        self.stage.compact(keep);
    }

    fn minority(&self) -> Option<Vec<u32>> {
        self.stage.minority()
    }

    fn mortal(&self) -> Option<u32> {
        self.stage.mortal()
    }

    fn renews_without_decider(&self) -> bool {
        self.stage.renews_without_decider()
    }
}

impl ViewLog for BrokenLog {
    fn propose(
        &self,
        change: &MembershipChange,
        at: ViewNumber,
        patience: &Patience,
    ) -> Result<Arc<Membership>, LogError> {
        match (self.fault, self.log.propose(change, at, patience)) {
            (Fault::NoCompare, Err(LogError::Stale { now })) => self.propose(change, now, patience),
            (Fault::FreeDecision, Err(LogError::Undecided(_))) => {
                let known = self.log.watch(ViewNumber(0), patience)?;
                Ok(Arc::clone(&known[0]))
            }
            (_, proposed) => proposed,
        }
    }

    fn watch(
        &self,
        after: ViewNumber,
        patience: &Patience,
    ) -> Result<Vec<Arc<Membership>>, LogError> {
        let views = self.log.watch(after, patience)?;
        Ok(match self.fault {
            Fault::TwiceTold => views
                .iter()
                .flat_map(|view| [view, view])
                .cloned()
                .collect(),
            Fault::Gap => views
                .into_iter()
                .filter(|view| view.number().0 != 7)
                .collect(),
            Fault::NoCompare | Fault::FreeRenewal | Fault::FreeDecision => views,
        })
    }

    fn renew(&self, member: MemberKey, patience: &Patience) -> Result<Renewed, LogError> {
        match self.fault {
            Fault::FreeRenewal => Ok(Renewed {
                view: ViewNumber(1),
                by: RenewedBy::Members,
            }),
            Fault::NoCompare | Fault::TwiceTold | Fault::Gap | Fault::FreeDecision => {
                self.log.renew(member, patience)
            }
        }
    }
}

#[test]
fn suite_fails_over_each_broken_log() {
    for fault in [
        Fault::NoCompare,
        Fault::TwiceTold,
        Fault::Gap,
        Fault::FreeRenewal,
        Fault::FreeDecision,
    ] {
        let is_caught = CASES.iter().any(|(_, case)| {
            let stage = BrokenStage {
                stage: MemoryStage::set(),
                fault,
            };
            catch_unwind(AssertUnwindSafe(|| case(&stage))).is_err()
        });
        assert!(is_caught, "{fault:?}");
    }
}
