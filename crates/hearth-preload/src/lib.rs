//! Loaded into programs: serves their calls on cached files, and records what they do with files.
//!
//! Most calls are only recorded, and the program sees what it would see without the library. Some are
//! answered or changed:
//!
//! - `cache`, `kept` and `write_ring` answer reads, `stat` and small writes out of the agent's memory, as the
//!   mount would.
//! - `owners` shows and sets true owners and groups, in the user namespace of an ordinary user's `hearth run`.
//! - `gone` and `bus` go on with the store's own files when the agent is dead; writes fail with `EIO` then.
//! - `environment` puts back variables that an exec would lose.
//!
//! docs/preload.md has the limits: a bad buffer of a served read, for one, is a signal instead of `EFAULT`.
//!
//! The functions of the C library that have to do with files stand in the tables under `hooks`, one
//! row each. A row says what the call is about, and hands the real call to [`call`] (or to `streams`
//! for stdio), the one place where it is timed, made and recorded. `fds` knows what a descriptor is,
//! `names` how a file is called; records go to `hearth_trace::ring`.
//!
//! Rules for all that runs inside of a program:
//! 1. A call that is only recorded has the `errno`, the result and the order of the real call. One that is
//!    answered here has those that the mount could give.
//! 2. No lock is waited for, nothing is allocated on a hot path, nothing panics.
//! 3. A program's pointer is read only where the real call has just read it, but for what the cache
//!    answers itself: the buffer of a read or write and the path of a `stat`.
//! 4. The real call is the next of the same name, so other preloaded libraries stay in line.

#![allow(
    unsafe_code,
    reason = "hooks of C functions are unsafe by nature; each block says why it is sound"
)]
#![allow(
    missing_docs,
    reason = "what is exported has the name and the documentation of the C library"
)]

mod behind;
mod bus;
mod cache;
mod call;
mod cwd;
mod environment;
mod errno;
mod fds;
mod filter;
mod gone;
mod hooks;
mod jail;
mod kept;
mod life;
mod maps;
mod mpi;
mod names;
mod notice;
mod outcome;
mod owners;
mod real;
mod stdio;
mod streams;
mod sys;
mod table;
mod thread;
mod unsaved;
mod write_ring;
