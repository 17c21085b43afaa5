//! Semantics `mpi`: which calls may leave bytes at their rank.
//!
//! MPI promises others what was synced, and a rank its own writes at once. But other ranks may move what
//! a rank writes in a collective call, and read the bytes between, so that such a call must find all that
//! any rank has written, and show all that it has. The calls of this rank alone that are complete when
//! they return are different: what they write may stay here, and what was read here before may be read.
//!
//! 1. Within such a call of a file, reads and writes are the session's own.
//! 2. Everywhere else a read is made after an exchange, and a write is followed by one.
//! 3. Every other data call begins and ends with an exchange, on every rank.
//! 4. A call that goes on after it returned makes all later ones of its file be of the other kind.
//! 5. Locks are exchanges too, for libraries that read and write around what a program wrote.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::file::Cached;

/// Whether the job's files have these semantics.
static ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread is in a call of this rank alone.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// The functions that are calls of a rank alone, without what larger counts add to their names.
const OWN_CALLS: [&str; 4] = [
    "MPI_File_read",
    "MPI_File_read_at",
    "MPI_File_write",
    "MPI_File_write_at",
];

/// Files of the job have these semantics from now on, or have not.
pub(crate) fn set(on: bool) {
    ON.store(on, Relaxed);
}

#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Whether a function, by either of its names, is a call of a rank alone, complete when it returns.
pub(crate) fn is_own(name: &str) -> bool {
    let name = name.strip_prefix('P').unwrap_or(name);
    OWN_CALLS.contains(&name.strip_suffix("_c").unwrap_or(name))
}

/// Whether a call goes on after it returned.
pub(crate) fn goes_on(name: &str) -> bool {
    name.contains("_iread") || name.contains("_iwrite") || name.contains("_begin")
}

/// Makes a call of this rank alone.
pub(crate) fn within_own<R>(call: impl FnOnce() -> R) -> R {
    let before = OWN.replace(true);
    let done = call();
    OWN.set(before);
    done
}

/// Before a read.
pub(crate) fn before_read(cached: &Cached) -> io::Result<()> {
    match is_on() && !OWN.get() {
        true => cached.exchange(),
        false => Ok(()),
    }
}

/// After a write.
pub(crate) fn after_write(cached: &Cached) -> io::Result<()> {
    before_read(cached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_rank_alone_are_told_from_others() {
        for own in [
            "MPI_File_write_at",
            "PMPI_File_read",
            "PMPI_File_write_at_c",
        ] {
            assert!(is_own(own) && !goes_on(own), "{own}");
        }
        for other in [
            "MPI_File_write_all",
            "MPI_File_iwrite_at",
            "MPI_File_read_shared",
        ] {
            assert!(!is_own(other), "{other}");
        }
        assert!(goes_on("MPI_File_iread_c") && goes_on("PMPI_File_write_all_begin"));
    }
}
