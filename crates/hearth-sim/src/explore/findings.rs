//! Faults of the policies as they were published, each by its id.

use super::literal::{hint, local, single};
use super::{Counterexample, Progress, Scope, SearchOrder, Small, search};
use hearth_proto::Policy;

/// The code that breaks the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSource {
    /// The shipped kernel, with the published parameters.
    Kernel,
    /// A model of the published protocol; the shipped kernel has no such state.
    Model,
}

/// Whether to go on, asked now and then.
type GoOn<'a> = &'a mut dyn FnMut(&Progress) -> bool;

/// One way in which a published policy breaks a promise.
#[derive(Clone, Copy, Debug)]
pub struct PublishedFault {
    /// Its id.
    pub id: &'static str,
    /// The policy that has it.
    pub policy: &'static str,
    /// The fault.
    pub what: &'static str,
    /// The code that shows it.
    pub source: FaultSource,
    look: fn(GoOn<'_>) -> Option<Counterexample>,
}

/// All of them.
pub const ALL: &[PublishedFault] = &[
    PublishedFault {
        id: "F1",
        policy: "hint:paper",
        what: "nothing stops a reader from taking up the old block between the invalidation and the write, \
               nor a fill in flight from surviving both: old bytes for ever",
        source: FaultSource::Kernel,
        look: |go_on| nearest(Policy::HintPaper, 0, go_on),
    },
    PublishedFault {
        id: "F2",
        policy: "hint:paper",
        what: "the manager lets two writers go at once, and each keeps its own block: one of them keeps \
               what the other has overwritten",
        source: FaultSource::Model,
        look: |go_on| search(&hint::Hint::new(), SearchOrder::Nearest, go_on).found,
    },
    PublishedFault {
        id: "F3",
        policy: "bank:paper",
        what: "a write is answered before the bank is brought up to date: a later read finds the old block",
        source: FaultSource::Kernel,
        look: |go_on| nearest(Policy::BankPaper, 0, go_on),
    },
    PublishedFault {
        id: "F4",
        policy: "bank:paper",
        what: "the server gives up on a daemon that it cannot reach and clients can: they go on finding the \
               old block after every write is long over",
        source: FaultSource::Kernel,
        look: |go_on| nearest(Policy::BankPaper, 1, go_on),
    },
    PublishedFault {
        id: "F5",
        policy: "single:paper",
        what: "evicting a page takes its lock while the request holds others, out of ascending order: two \
               processes wait for each other",
        source: FaultSource::Model,
        look: |go_on| search(&single::Single::new(), SearchOrder::Nearest, go_on).found,
    },
    PublishedFault {
        id: "F6",
        policy: "local:paper",
        what: "a swap to the store compares where the file is and not which version: the store's older \
               bytes become the file",
        source: FaultSource::Model,
        look: |go_on| {
            let world = local::LocalWorld::new(local::LocalFault::Overtaken);
            search(&world, SearchOrder::Nearest, go_on).found
        },
    },
    PublishedFault {
        id: "F6-lock",
        policy: "local:paper",
        what: "the lock has no lease: who dies with it holds it for ever",
        source: FaultSource::Model,
        look: |go_on| {
            let world = local::LocalWorld::new(local::LocalFault::Death);
            search(&world, SearchOrder::Nearest, go_on).found
        },
    },
];

/// The shortest story of the kernel under a policy; with a cut, one that needs it.
fn nearest(policy: Policy, cuts: u32, go_on: GoOn<'_>) -> Option<Counterexample> {
    let scope = Scope {
        crashes: 0,
        evictions: 0,
        cuts,
        at_rest: cuts > 0,
        ..Scope::of(policy)
    };
    let world = Small::new(scope).ok()?;
    search(&world, SearchOrder::Nearest, go_on).found
}

impl PublishedFault {
    /// Looks for the shortest story of it.
    pub fn look(&self, go_on: GoOn<'_>) -> Option<Counterexample> {
        (self.look)(go_on)
    }
}

/// Findings of a policy, by its name; all if the name is none of a published one.
pub fn of(policy: &str) -> impl Iterator<Item = &'static PublishedFault> {
    ALL.iter().filter(move |finding| finding.policy == policy)
}
