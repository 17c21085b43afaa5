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
    // One write may go beyond the limit: each is let in whole while there is room for it, or alone.
    let most = config.dirty_limit_bytes().max(config.pool_bytes());
    if status.dirty_bytes > most {
        let what = format!(
            "{} bytes are dirty, at most {most} may be",
            status.dirty_bytes
        );
        return Some(Violation::new("memory", what));
    }
    None
}
