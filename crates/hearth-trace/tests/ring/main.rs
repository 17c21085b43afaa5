//! Rings of records in shared memory, in living, dying and dead processes.

mod garbage;
mod killed;
mod support;
mod threads;
