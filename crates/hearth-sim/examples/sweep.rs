//! Runs many seeds and says what fails: `sweep FIRST COUNT [STEPS]`; one seed prints its story.
//! `HEARTH_SIM_POLICY` names a policy that all of them run.
//! With `HEARTH_SIM_FAULTS` set, faults are of every kind.

use hearth_proto::Ranges;
use hearth_sim::{Detail, Plan, Trouble, run, shrink, tell};
use std::collections::BTreeMap;

fn main() {
    let number = |at: usize| {
        std::env::args()
            .nth(at)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let (first, count) = (number(1).unwrap_or(0), number(2).unwrap_or(1000));
    let named = std::env::var("HEARTH_SIM_POLICY").ok();
    let policy = named.map(|name| {
        let known = hearth_sim::policy::by_name(&name);
        known.unwrap_or_else(|| panic!("HEARTH_SIM_POLICY={name} is no policy"))
    });
    std::panic::set_hook(Box::new(|_| {}));
    let trouble = match std::env::var_os("HEARTH_SIM_FAULTS") {
        Some(_) => Trouble::All,
        None => Trouble::Some,
    };
    let mut failed: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for seed in first..first + count {
        let mut plan = Plan::new(seed, trouble);
        if let Some(policy) = policy {
            plan.policy = policy;
        }
        if let Ok(name) = std::env::var("HEARTH_SIM_RANGES") {
            plan.ranges = Ranges::by_name(&name).expect("HEARTH_SIM_RANGES is known");
        }
        if let Some(steps) = number(3) {
            plan.steps = steps as u32;
        }
        let outcome = run(&plan);
        let Some(violation) = outcome.violations.first() else {
            continue;
        };
        let same = failed.entry(violation.check).or_default();
        same.push(seed);
        if same.len() <= 1 {
            let small = shrink(&plan);
            let (outcome, story) = tell(&small, Detail::Everything);
            if count == 1 {
                story.iter().for_each(|line| eprintln!("{line}"));
            }
            eprintln!(
                "{}\n{:?}\n{}\n",
                small.replay(),
                small,
                outcome.violations[0]
            );
        }
    }
    for (check, seeds) in failed {
        eprintln!(
            "{check}: {} of {count}, first {:?}",
            seeds.len(),
            &seeds[..seeds.len().min(12)]
        );
    }
}
