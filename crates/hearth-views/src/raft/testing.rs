//! A member for tests of the voters.

use crate::membership::{
    FailureDomain, Fingerprint, Incarnation, MemberId, MemberKey, MemberRecord, MemberWeight,
};

/// The first life of a node, on a host of its own.
pub(crate) fn record(id: u32) -> MemberRecord {
    MemberRecord {
        key: MemberKey {
            id: MemberId(id),
            incarnation: Incarnation(1),
        },
        address: String::new(),
        domain: FailureDomain(id.to_string()),
        weight: MemberWeight(1),
        fingerprint: Fingerprint(Vec::new()),
    }
}
