//! Sets of agents: how they are to be, and starting, finding, asking and ending them.
//!
//! The command `hearth` and the laboratory do this in the same way. Nothing here runs an agent: an agent is a process of
//! the command, whose file a [`launch::LaunchPlan`] names.

#![forbid(unsafe_code)]

pub mod agent;
mod alike;
pub mod bank;
pub mod control;
pub mod failure;
mod holders;
pub mod job;
pub mod launch;
pub mod leftovers;
pub mod membership;
pub mod memory;
pub mod mountinfo;
pub mod options;
pub mod output;
mod overlap;
pub mod preload;
pub mod process;
pub mod program;
pub mod replicas;
pub mod report;
pub mod rules;
pub mod secret;
pub mod set;
pub mod signals;
pub mod size;
pub mod store_at;
pub mod takedown;
pub mod tier;
pub mod trial;
pub mod typed;
pub mod unmount;
pub mod watch;
