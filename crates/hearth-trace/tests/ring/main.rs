//! Rings of records in shared memory, in living, dying and dead processes.

mod full;
mod garbage;
mod killed;
mod knock;
mod old;
mod support;
mod threads;
