//! Many kernels, one thread, one seed: faults, reference model, checkers.
//!
//! [`run`] drives [`hearth_proto::Node`]s through a random workload over a simulated network, store
//! and front end, and holds what sessions saw against a reference model. The same [`Plan`] gives the
//! same run, to the last bit.
//!
//! Reading order: [`plan`] (the shape of a run), [`world`] (everything around the kernels), `workload` (the
//! work of sessions), [`model`] (the history of a file). Then come [`check`] (the properties that must hold),
//! [`script`] (told stories with their transcripts), [`tamper`] (guards broken on purpose), [`explore`]
//! (small worlds, every state of them).
#![forbid(unsafe_code)]

#[cfg(feature = "canary")]
pub mod canary;
pub mod check;
pub mod explore;
pub mod model;
pub mod plan;
pub mod rng;
pub mod run;
pub mod scale;
pub mod script;
pub mod tamper;
pub mod thundering_herd;
mod workload;
pub mod world;

pub use check::Violation;
pub use check::liveness::SLOWEST as LONGEST;
pub use hearth_proto::{Policy, Ranges, Replicas, Semantics, Span};
pub use plan::{Plan, Trouble};
pub use run::{RunOutcome, run, shrink, tell};
pub use tamper::Tamper;
pub use world::{Detail, Faults, World};
