//! The numbers from which versions and copies are counted.

use super::{Authority, Common};
use crate::ids::IdStarts;

impl Authority {
    /// One that counts versions and copies from here on.
    pub(crate) fn after(names: &IdStarts) -> Authority {
        let common = Common {
            clock: names.version,
            grants: names.copy,
            ..Common::default()
        };
        Authority {
            common,
            ..Authority::default()
        }
    }
}
