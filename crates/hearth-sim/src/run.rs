//! One run from a plan to its outcome, and the smallest plan that still fails.

use crate::check::{Violation, kept, laminated, order, range, size, value};
use crate::model::{History, Read, Sized};
use crate::plan::Plan;
use crate::world::{Detail, Faults, World};
use hearth_proto::{NodeId, Policy, Ranges, Replicas, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// The same for the same plan, and for no other.
    pub digest: u64,
    /// Operations that sessions were to begin.
    pub steps: u32,
    /// Events that happened.
    pub events: u64,
    /// Messages that nodes sent.
    pub messages: u64,
    /// Faults that happened.
    pub faults: Faults,
    /// Longest that an operation took.
    pub slowest: Span,
    /// Promises that did not hold; the run ends with the first.
    pub violations: Vec<Violation>,
}

/// Carries out a plan.
pub fn run(plan: &Plan) -> RunOutcome {
    go(plan, World::new(plan.clone())).0
}

/// Carries out a plan and tells what happened, a line each.
pub fn tell(plan: &Plan, detail: Detail) -> (RunOutcome, Vec<String>) {
    let mut world = World::new(plan.clone());
    world.log = Some(Vec::new());
    world.detail = detail;
    go(plan, world)
}

fn go(plan: &Plan, mut world: World) -> (RunOutcome, Vec<String>) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        world.set_off();
        while world.advance() {}
        world.finish();
    }));
    if let Err(panic) = result {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
            .unwrap_or_default();
        world.violate(Violation::new("panic", what));
    }
    let outcome = RunOutcome {
        digest: world.digest(),
        steps: plan.steps,
        events: world.events(),
        messages: world.messages,
        faults: world.faults,
        slowest: world.slowest,
        violations: world.violations,
    };
    (outcome, world.log.unwrap_or_default())
}

/// The plan with the fewest operations that still fails in the same way.
pub fn shrink(plan: &Plan) -> Plan {
    let check = |plan: &Plan| {
        run(plan)
            .violations
            .first()
            .map(|violation| violation.check)
    };
    let wanted = check(plan);
    let mut best = plan.clone();
    let mut cut = plan.steps / 2;
    while cut > 0 {
        let smaller = Plan {
            steps: best.steps.saturating_sub(cut),
            ..best.clone()
        };
        if smaller.steps > 0 && smaller.steps < best.steps && check(&smaller) == wanted {
            best = smaller;
        } else {
            cut /= 2;
        }
    }
    best
}

impl World {
    /// Judges a world in which nothing will happen any more.
    pub(crate) fn finish(&mut self) {
        self.settle_all();
        if self.violations.is_empty() {
            self.check_rest();
        }
        if self.violations.is_empty() || !self.violations.iter().any(|v| v.check == "panic") {
            self.check_histories();
        }
    }

    fn check_rest(&mut self) {
        let unfinished = self.unfinished();
        if !unfinished.is_empty() {
            let violation = Violation::liveness("some requests never ended".to_owned());
            self.violate(violation.with(&unfinished));
        }
        let mut found = Vec::new();
        for host in &self.hosts {
            let (id, status) = (host.id, host.node().status());
            if status.dirty_bytes > 0 {
                let what = format!("{id:?}: {} bytes are still dirty", status.dirty_bytes);
                found.push(Violation::new("durable", what));
            }
            if status.kept_bytes > 0 {
                let what = format!("{id:?}: {} bytes are still kept", status.kept_bytes);
                found.push(Violation::new("kept", what));
            }
            let opens = host.node().opens_counted();
            // Without replicas a node that is back takes itself for the manager of what another one manages.
            if opens > 0 && self.plan.replicas != Replicas::None {
                let what = format!("{id:?} counts {opens} handles that are closed");
                found.push(Violation::new("opens", what));
            }
            if !host.bufs.is_empty() {
                let names: Vec<_> = host.bufs.keys().collect();
                found.push(Violation::contract(format!(
                    "{id:?}: {names:?} were not freed"
                )));
            }
            if status.requests_open > 0 || host.kernel.locked() > 0 || !host.handles.is_empty() {
                let what = format!(
                    "{id:?}: {} requests, {} locked pages, handles {:?} are left",
                    status.requests_open,
                    host.kernel.locked(),
                    host.handles
                );
                found.push(Violation::liveness(what));
            }
        }
        self.violations.extend(found);
        if self.violations.is_empty() {
            self.read_store();
        }
    }

    /// The store's content counts as what a last reader sees.
    fn read_store(&mut self) {
        for number in 0..self.store.objects.len() {
            let (began, ended) = (self.tick(), self.tick());
            let span = crate::model::Interval { began, ended };
            let object = &mut self.store.objects[number];
            let (node, size) = (u32::MAX, object.data.len() as u64);
            object.history.reads.push(Read {
                node,
                offset: 0,
                bytes: object.data.clone(),
                span,
                since: began,
                whole: false,
            });
            object.history.sizes.push(Sized {
                node,
                low: size,
                high: size,
                span,
                by: "store at the end",
            });
        }
    }

    fn check_histories(&mut self) {
        let page_bytes = self.plan.page_bytes;
        let rule = self.plan.config(NodeId(0)).ranges_rule(self.plan.semantics);
        let ranges = |history: &History| match rule {
            Ranges::Apart => None,
            Ranges::SeqHome | Ranges::WoundWait => range::check(history),
        };
        // If nobody is left, nobody can tell.
        let keeps = self.plan.policy == Policy::Local && self.plan.nodes > 1;
        let judge = |history: &History| {
            value::check(history, page_bytes)
                .or_else(|| size::check(history))
                .or_else(|| order::check(history))
                .or_else(|| laminated::check(history))
                .or_else(|| kept::check(history, self.plan.replicas).filter(|_| keeps))
                .or_else(|| ranges(history))
        };
        let objects = self.store.objects.iter().enumerate();
        let found = objects.filter_map(|(number, object)| {
            let mut violation = judge(&object.history)?;
            violation.what = format!("{:?} (object {number}): {}", object.file, violation.what);
            Some(violation)
        });
        let found: Vec<Violation> = found.collect();
        self.violations.extend(found);
    }
}
