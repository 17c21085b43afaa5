//! Kernels without one of their guards: a checker must notice.

use crate::plan::{Plan, Trouble};
use crate::run::{RunOutcome, run, shrink};
pub use hearth_proto::Guard;
use hearth_proto::{Allocation, BankAttributes, BankConfig, Policy, Ranges, Replicas, Span};

/// The fate of a guard that was off.
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
    /// The outcome of its run.
    pub outcome: RunOutcome,
}

/// Turns a guard off and runs worlds until a checker notices, at most so many.
pub fn try_without(guard: Guard, worlds_max: u64) -> Canary {
    let plan = |number: u64| {
        let without = Some(guard);
        if guard == Guard::NamesOnce {
            return names_plan(without, number);
        }
        if matches!(guard, Guard::OldGenerationRefused | Guard::LateGrantOnce) {
            return cut_plan(guard, number);
        }
        if guard == Guard::ManagerFound {
            return deaths_plan(without, number);
        }
        if guard == Guard::HandedClosed {
            return heir_plan(without, number);
        }
        if guard.is_of_bank() {
            return bank_plan(without, number);
        }
        if guard.is_of_replicas() {
            return replica_plan(guard, number);
        }
        if guard.is_of_tier() {
            return tier_plan(without, number);
        }
        if guard.is_of_ranges() {
            return range_plan(guard, number);
        }
        if guard.is_of_delegates() {
            return delegate_plan(without, number, Policy::HomePlus);
        }
        if guard == Guard::OldBytesKept {
            let plan = Plan {
                without,
                policy: Policy::Single,
                ..Plan::new(number, Trouble::Never)
            };
            return plan.hot();
        }
        if guard.is_of_moves() {
            return delegate_plan(without, number, Policy::Single);
        }
        let trouble = [Trouble::Never, Trouble::Some, Trouble::All][(number % 3) as usize];
        Plan {
            without,
            policy: Policy::Home,
            semantics: guard.semantics(),
            // Looks slow down what else a world does.
            looks: guard == Guard::ChangesAnnounced,
            offers: guard == Guard::OffersTakenBack,
            asides: guard.is_of_asides(),
            ..Plan::new(number / 3, trouble)
        }
    };
    let caught = (0..worlds_max).find_map(|number| {
        let plan = plan(number);
        let whole = Plan {
            without: None,
            ..plan.clone()
        };
        // A failure of a kernel with all its guards is not the guard's merit.
        let fails = |plan: &Plan| !run(plan).violations.is_empty();
        let noticed = fails(&plan) && !fails(&whole);
        noticed.then(|| confirm(&plan, number + 1))
    });
    Canary { guard, caught }
}

/// A world in which most operations have several homes, in small pools; faults where the guard is about
/// those.
fn range_plan(guard: Guard, number: u64) -> Plan {
    let trouble = match guard {
        Guard::GoneLetGo => Trouble::All,
        _ => Trouble::Never,
    };
    let plan = Plan::new(number, trouble);
    let policies = [Policy::Home, Policy::Single];
    Plan {
        without: Some(guard),
        policy: policies[(number % 2) as usize],
        allocation: Allocation::RoundRobin,
        chunk_pages: 1,
        frames: 8,
        ranges: Ranges::WoundWait,
        sessions: plan.sessions + 4,
        link_faults: guard == Guard::GoneLetGo,
        ..plan
    }
}

/// A world with daemons in trouble, and sometimes agents that stand still or every other fault.
fn bank_plan(without: Option<Guard>, number: u64) -> Plan {
    let trouble = [Trouble::Never, Trouble::Never, Trouble::All][(number % 3) as usize];
    let plan = Plan::new(number / 3, trouble);
    Plan {
        without,
        policy: Policy::Bank,
        bank_faults: true,
        looks: plan.looks || without == Some(Guard::AttributesGone),
        pauses: plan.pauses || number % 3 == 1,
        ..plan
    }
}

/// A world in which many look at one file, which daemons tell of.
fn names_plan(without: Option<Guard>, number: u64) -> Plan {
    let plan = Plan::new(number, Trouble::Never);
    Plan {
        without,
        policy: Policy::Bank,
        looks: true,
        only_looks: true,
        files: 1,
        nodes: plan.nodes.max(4),
        sessions: plan.sessions.max(12),
        steps: plan.steps.max(100),
        bank: BankConfig {
            attributes: BankAttributes::Daemons,
            ..plan.bank
        },
        ..plan
    }
}

/// A world of one short file that is cut while writes to it are on their way.
fn cut_plan(guard: Guard, number: u64) -> Plan {
    let plan = Plan::new(number, Trouble::Never);
    Plan {
        without: Some(guard),
        policy: Policy::Home,
        semantics: guard.semantics(),
        looks: false,
        files: 1,
        file_pages: 2,
        net_delay: Span::millis(40),
        store_delay: Span(20_000),
        local_delay: Span(0),
        nodes: plan.nodes.max(3),
        sessions: plan.sessions.max(8),
        steps: plan.steps.max(100),
        ..plan
    }
}

/// A world of files that go from home to home, in small pools, where some messages come long after others.
fn heir_plan(without: Option<Guard>, number: u64) -> Plan {
    let plan = Plan::new(number, Trouble::Never);
    let plan = Plan {
        without,
        policy: Policy::Local,
        looks: false,
        tier: false,
        outside: false,
        files: 2,
        file_pages: 12,
        frames: 12,
        net_delay: Span::millis(5),
        store_delay: Span(20_000),
        nodes: plan.nodes.max(3),
        sessions: plan.sessions.max(6),
        steps: plan.steps.max(200),
        ..plan
    };
    plan.handing_over()
}

/// The same where agents die, and nothing else parts them.
fn deaths_plan(without: Option<Guard>, number: u64) -> Plan {
    Plan {
        crashes: true,
        ..names_plan(without, number)
    }
}

/// A world of sessions that stay with their pages, which several nodes use.
fn delegate_plan(without: Option<Guard>, number: u64, policy: Policy) -> Plan {
    let plan = Plan::new(number, Trouble::Never);
    Plan {
        without,
        policy,
        stays: true,
        looks: false,
        files: 1,
        file_pages: 2,
        nodes: plan.nodes.max(3),
        sessions: plan.sessions.max(4),
        ..plan
    }
}

/// A world in which agents die, and others have or know of what they had.
fn replica_plan(guard: Guard, number: u64) -> Plan {
    let replicas = match guard {
        Guard::MarkedFirst | Guard::LossTold => Replicas::Async(1),
        Guard::SealedFirst | Guard::UnsealedFirst | Guard::ShardsKept => Replicas::Erasure(2, 1),
        Guard::BornRegistered | Guard::OneByOne => Replicas::Sync(1),
        _ => Replicas::Sync(1 + (number % 2) as u8),
    };
    let plan = Plan {
        without: Some(guard),
        policy: Policy::Local,
        looks: false,
        ..Plan::new(number, Trouble::All)
    };
    let plan = plan.replicated(replicas);
    match guard {
        Guard::LapsedFirst
        | Guard::OrphanSettled
        | Guard::LeftTogether
        | Guard::AskedAnew
        | Guard::LifeAdopted
        | Guard::NameGoneFirst => plan.strictly(),
        // Many who read and write one file, and agents that are soon back.
        Guard::ReopenedAtOnce => Plan {
            files: 1,
            nodes: 5,
            sessions: 10,
            steps: plan.steps.max(100),
            hurries: true,
            ..plan.strictly()
        },
        Guard::BornRegistered => Plan {
            files: 1,
            nodes: plan.nodes.max(5),
            sessions: plan.sessions.max(10),
            steps: plan.steps.max(120),
            hurries: true,
            ..plan.strictly()
        },
        // Sessions that read what the same node has just written.
        Guard::OneByOne => Plan {
            files: 2,
            nodes: plan.nodes.max(5),
            sessions: plan.sessions.max(16),
            steps: plan.steps.max(200),
            ..plan.strictly()
        },
        // Few pages, and a store that takes its time: a home is back before a truncation is over.
        Guard::CutAnew => Plan {
            files: 1,
            file_pages: 2,
            store_faults: false,
            net_delay: Span(10_000),
            store_delay: Span::millis(200),
            hurries: true,
            ..plan.strictly()
        },
        // Keepers without room, whose homes take others.
        Guard::SameKeepers => Plan {
            frames: 8,
            file_pages: 5,
            ..plan.strictly()
        },
        _ => plan,
    }
}

/// A world of writers with tiers, and sometimes a store that fails.
fn tier_plan(without: Option<Guard>, number: u64) -> Plan {
    let trouble = [Trouble::Never, Trouble::Some][(number % 2) as usize];
    Plan {
        without,
        policy: Policy::Local,
        tier: true,
        ..Plan::new(number / 2, trouble)
    }
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
