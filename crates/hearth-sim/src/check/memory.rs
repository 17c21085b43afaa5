//! I14 (S15): frames and dirty bytes stay within their bounds.

use super::Violation;
use hearth_proto::{Config, Status};

/// Judges a node between two steps.
pub fn check(config: &Config, status: &Status) -> Option<Violation> {
    if status.frames_used > config.frames {
        let what = format!(
            "{} frames of {} are used",
            status.frames_used, config.frames
        );
        return Some(Violation::new("memory", what));
    }
    // A byte counts once more while a store write carries its last value, and all that a failed fsync
    // covered is dirty again: both only in frames, so twice the pool is never exceeded.
    let most = 2 * config.pool_bytes();
    if status.dirty_bytes > most {
        let what = format!(
            "{} bytes are dirty, at most {most} may be",
            status.dirty_bytes
        );
        return Some(Violation::new("memory", what));
    }
    None
}
