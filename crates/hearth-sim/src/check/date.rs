//! S8: the time of the last write that is told is not older than a write that had been acknowledged.

use super::Violation;
use hearth_proto::Time;

/// The fault in the time that was told, if such a write had begun then.
pub fn missed(wrote: Time, told: Time) -> Option<Violation> {
    let what = || format!("last written at {told:?} was told, and a write began at {wrote:?}");
    (told < wrote).then(|| Violation::new("date", what()))
}
