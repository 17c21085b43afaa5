//! The node agent: runs the kernel, moves bytes, talks to peers and store.
//!
//! ```text
//! front end ── Session ──▶ core (kernel behind one lock) ──▶ effects, carried out in order
//!                         ▲            ▲                      │        │         │
//!                    store workers   peers' frames         replies   frames    store jobs
//! ```
//!
//! Every fact (a request, a frame, the end of a store operation) is one step of the kernel under one lock, by the
//! thread that learnt it. The effects of the step are carried out before the lock is let go. So a local hit and a
//! request to a peer cost no hop between threads. Only the store blocks, and only on threads of its own.
//!
//! The agent decides nothing: a branch that depends on protocol state belongs in `hearth-proto`.

#![forbid(unsafe_code)]

mod agent;
mod alarms;
mod awaiting;
mod balance;
mod bank;
mod buffers;
mod carry;
mod coding;
mod config;
mod core;
mod files;
mod flushing;
mod intro;
mod late;
mod leave;
mod making;
mod openers;
mod peers;
mod placement_rules;
mod residency;
mod session;
mod share;
mod status;
mod steps;
pub mod store;
mod tickets;
mod trace;
mod views;
mod workers;
mod write_rings;

pub use agent::{Agent, StartError};
pub use bank::{BankPlacement, BankSettings, DaemonStatus};
pub use config::{AgentSettings, ConfigError, MembershipRule, WaitWords, pool_bytes_least};
pub use flushing::{OthersUnflushed, Unflushed};
pub use hearth_net as net;
pub use hearth_proto::{
    Allocation, BankAttributes, BankUpdate, CloseRule, Policy, Ranges, Replicas, Semantics, Synced,
};
pub use placement_rules::{ATTRIBUTE, NoPattern, Rule, Way};
pub use residency::{NotTold, Residency, Resident};
pub use status::{AgentStatus, Counters, FilePromise, PastAlarm, PeerStatus, Programs, ViewStatus};
pub use store::TierStatus;
pub use views::NoViews;
