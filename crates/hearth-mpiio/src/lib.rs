//! Loaded into MPI programs: the ranks of one job are the cache of its files.
//!
//! The library is linked to no MPI. It takes two places in a program:
//!
//! - **Above the MPI library** ([`mpi`]): `MPI_*` and `PMPI_*` calls that say which ranks share a file
//!   and when it opens, closes and syncs. Fortran comes in through the latter.
//! - **Below it** ([`hooks`]): the calls of the C library by which the MPI library reaches a file. On
//!   the descriptor of a cached file they are served by the agent in this very process ([`file`]).
//!
//! Data types, views, collective buffering and shared file pointers stay the MPI library's. A call has one of three
//! outcomes here: it is served, or the real call is made, or it fails.
//!
//! One [`job`] stands between `MPI_Init` and `MPI_Finalize`. At its start the ranks tell each other
//! where they can be reached; an agent starts in each when the first of them opens a file. The job
//! has every rank of `MPI_COMM_WORLD`, whatever communicator opens a file, so a file that is open
//! through several communicators has one cache.
//!
//! Rules for all that runs inside of a program:
//! 1. A process that is no rank, or has no store, sees the real calls alone. So does a forked child.
//! 2. The real call is the next of the same name, so other preloaded libraries stay in line.
//! 3. Trouble before a file is cached leaves it uncached, with a word; after that calls fail.
//! 4. Whether a file is cached is agreed on by all ranks that open it.

#![allow(
    unsafe_code,
    reason = "hooks of C functions are unsafe by nature; each block says why it is sound"
)]
#![allow(
    missing_docs,
    reason = "what is exported has the name and the documentation of the C library or of MPI"
)]

mod aio;
mod claim;
mod fds;
mod file;
mod hooks;
mod job;
mod job_agents;
mod locks;
mod loose;
mod meeting;
mod memory;
mod mounts;
mod mpi;
mod open;
mod paths;
mod real;
mod settings;
mod sys;
mod table;
mod tally;
mod words;
