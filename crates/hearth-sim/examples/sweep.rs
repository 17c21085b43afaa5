//! Runs many seeds and says what fails: `sweep FIRST COUNT [STEPS]`; one seed prints its story.
//! `HEARTH_SIM_POLICY` names a policy that all of them run.
//! With `HEARTH_SIM_FAULTS` set, faults are of every kind; with `HEARTH_SIM_REPLICAS` others keep what homes have, and
//! with `HEARTH_SIM_STRICT` reads are held to that across deaths. `HEARTH_SIM_NODES` says among how many nodes. With
//! `HEARTH_SIM_HANDS` homes hand files over. With `HEARTH_SIM_LAG` clients of the store keep pages, and with
//! `HEARTH_SIM_ALONE` nobody asks for attributes of several files at once. With `HEARTH_SIM_AWAY` agents that died stay
//! away, as real ones do. With `HEARTH_SIM_VIEWS` views follow each other.

use hearth_proto::{Policy, Ranges, Replicas};
use hearth_sim::{Detail, Plan, Trouble, run, shrink, tell};
use std::collections::BTreeMap;

/// The plan with what the environment says of copies.
fn replicated(plan: Plan) -> Plan {
    let Ok(name) = std::env::var("HEARTH_SIM_REPLICAS") else {
        return plan;
    };
    let replicas = Replicas::by_name(&name);
    let mut plan = plan.replicated(replicas.expect("HEARTH_SIM_REPLICAS is known"));
    let nodes = std::env::var("HEARTH_SIM_NODES");
    if let Some(nodes) = nodes.ok().and_then(|text| text.parse().ok()) {
        (plan.nodes, plan.sessions) = (nodes, nodes + 1);
    }
    match std::env::var_os("HEARTH_SIM_STRICT") {
        Some(_) => plan.strictly(),
        None => plan,
    }
}

/// The plan with what the environment says of views.
fn viewed(plan: Plan) -> Plan {
    let said = |name| std::env::var_os(name).is_some();
    match (said("HEARTH_SIM_VIEWS"), said("HEARTH_SIM_DEATHS")) {
        (true, true) => plan.viewed_with_deaths(),
        (true, false) => plan.viewed(),
        (false, _) => plan,
    }
}

fn main() {
    let number = |at: usize| {
        std::env::args()
            .nth(at)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let (first, count) = (number(1).unwrap_or(0), number(2).unwrap_or(1000));
    let named = std::env::var("HEARTH_SIM_POLICY").ok();
    let policy = named.map(|name| {
        let known = Policy::by_name(&name);
        known.unwrap_or_else(|| panic!("HEARTH_SIM_POLICY={name} is no policy"))
    });
    std::panic::set_hook(Box::new(|_| {}));
    let hot = std::env::var_os("HEARTH_SIM_HOT").is_some();
    let trouble = match std::env::var_os("HEARTH_SIM_FAULTS") {
        Some(_) => Trouble::All,
        None if hot => Trouble::Never,
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
        plan = replicated(plan);
        if std::env::var_os("HEARTH_SIM_HANDS").is_some() {
            plan = plan.handing_over();
        }
        if hot {
            plan = plan.hot();
        }
        plan = viewed(plan);
        plan.returns = std::env::var_os("HEARTH_SIM_AWAY").is_none();
        plan.batches &= std::env::var_os("HEARTH_SIM_ALONE").is_none();
        if let Some(steps) = number(3) {
            plan.steps = steps as u32;
        }
        let outcome = run(&plan);
        let Some(violation) = outcome.violations.first() else {
            continue;
        };
        let same = failed.entry(violation.check).or_default();
        same.push(seed);
        if same.len() <= 3 {
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
