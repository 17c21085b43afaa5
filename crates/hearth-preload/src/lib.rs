//! Records what programs do with files; the dynamic linker loads it into them.
//!
//! Nothing of what a program sees is changed.
//!
//! The functions of the C library that have to do with files stand in the tables under `hooks`, one
//! row each. A row says what the call is about, and hands the real call to [`call`] (or to `streams`
//! for stdio), the one place where it is timed, made and recorded. What a descriptor is, `fds` knows;
//! what a file is called, `names`; where records go, `hearth_trace::ring`.
//!
//! Rules for all that runs inside of a program:
//! 1. Nothing fails the program or changes what it sees: `errno`, results and order of calls are
//!    those of the real calls.
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
mod lane;
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
