//! A ledger that nobody reads: no agent of a world takes a mount over.

/// As the front end has it.
#[derive(Debug, Default)]
pub(crate) struct Ledger;
