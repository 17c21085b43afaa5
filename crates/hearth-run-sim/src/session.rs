//! The clock on the wall, for times of files.

/// Now.
pub(crate) fn wall_clock_ns() -> i64 {
    1_000_000_000 + std::clock::now().as_nanos() as i64
}
