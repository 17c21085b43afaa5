//! The subcommands, one in each file.

pub(crate) mod agent;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod enter;
pub(crate) mod flush;
pub(crate) mod mount;
pub(crate) mod moved;
pub(crate) mod place;
pub(crate) mod proxy_mount;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod umount;
pub(crate) mod up;
