//! The guards of leases. A test turns one off, to see its checker fire; nothing else can.

/// A rule without which LEASE-1 breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseGuard {
    /// The holder's half of LEASE-2: from its sending.
    CountFromSending,
    /// The other half: a shortened term.
    ShortenTerm,
    /// LEASE-3.
    WaitAsNewGranter,
    /// LEASE-4.
    ConfirmFirst,
    /// LEASE-5.
    RenewNoDoomed,
    /// LEASE-6.
    VouchInNewestView,
    /// LEASE-7.
    NeedEveryVouch,
    /// LEASE-8.
    LookAgain,
    /// LEASE-9.
    DecideAsMember,
}

/// Which guards are kept: all of them, outside of tests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeaseGuards {
    #[cfg(test)]
    pub(super) off: Option<LeaseGuard>,
}

impl LeaseGuards {
    #[cfg(not(test))]
    pub(super) fn keep(self, _: LeaseGuard) -> bool {
        true
    }

    #[cfg(test)]
    pub(super) fn keep(self, guard: LeaseGuard) -> bool {
        self.off != Some(guard)
    }
}
