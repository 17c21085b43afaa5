//! Kernels without one of their guards: a checker must notice.

use crate::plan::{Plan, Trouble};
use crate::run::{Outcome, run, shrink};
pub use hearth_proto::Guard;

/// What became of a guard that was off.
#[derive(Clone, Debug)]
pub struct Canary {
    /// The guard.
    pub guard: Guard,
    /// How it was noticed, if it was.
    pub caught: Option<Caught>,
}

/// How the absence of a guard was noticed.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The checker.
    pub check: &'static str,
    /// Worlds that were run until then.
    pub worlds: u64,
    /// The world, made small.
    pub plan: Plan,
    /// What it came to.
    pub outcome: Outcome,
}

/// Turns a guard off and runs worlds until a checker notices, at most so many.
pub fn try_without(guard: Guard, worlds_max: u64) -> Canary {
    let plan = |number: u64| {
        let trouble = [Trouble::Never, Trouble::Some, Trouble::All][(number % 3) as usize];
        Plan {
            without: Some(guard),
            policy: hearth_proto::Policy::Home,
            ..Plan::new(number / 3, trouble)
        }
    };
    let caught = (0..worlds_max).find_map(|number| {
        let plan = plan(number);
        let whole = Plan {
            without: None,
            ..plan.clone()
        };
        // What a kernel with all its guards does wrong is not the guard's merit.
        let fails = |plan: &Plan| !run(plan).violations.is_empty();
        let noticed = fails(&plan) && !fails(&whole);
        noticed.then(|| confirm(&plan, number + 1))
    });
    Canary { guard, caught }
}

fn confirm(plan: &Plan, worlds: u64) -> Caught {
    let small = shrink(plan);
    let outcome = run(&small);
    let check = outcome
        .violations
        .first()
        .map_or("", |violation| violation.check);
    Caught {
        check,
        worlds,
        plan: small,
        outcome,
    }
}
