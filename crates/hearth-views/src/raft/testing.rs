//! A member for tests of the voters.

use crate::membership::{FailureDomain, Incarnation, MemberId, MemberKey, MemberRecord};

/// The first life of a node, on a host of its own.
pub(crate) fn record(id: u32) -> MemberRecord {
    MemberRecord {
        key: MemberKey {
            id: MemberId(id),
            incarnation: Incarnation(1),
        },
        address: String::new(),
        domain: FailureDomain(id.to_string()),
    }
}
