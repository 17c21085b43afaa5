//! The party that says which agents are members of a set.

use clap::ValueEnum;
use hearth_agent::Policy;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use crate::failure::Failure;
use crate::options::SetSpec;
use crate::size::HumanDuration;

/// Agents of which a majority is left when one is gone.
const AGENTS_MIN: usize = 3;

/// The way to tell which agents are members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MembershipChoice {
    /// The agents, where they can go on without one that is gone; or else the list.
    #[default]
    Auto,
    /// The list that they are started with.
    Static,
    /// The agents.
    Embedded,
}

/// The bounds of a lease.
const LEASE_MIN: Duration = Duration::from_secs(1);
const LEASE_MAX: Duration = Duration::from_secs(60);

/// The term of leases, unless told otherwise.
pub(crate) fn usual_lease() -> HumanDuration {
    HumanDuration(Duration::from_secs(4))
}

impl MembershipChoice {
    pub(crate) fn word(self) -> &'static str {
        match self {
            MembershipChoice::Auto => "auto",
            MembershipChoice::Static => "static",
            MembershipChoice::Embedded => "embedded",
        }
    }

    /// This, unless something else was said. `auto` asks for nothing: a set that is up has settled it.
    pub(crate) fn unless(self, said: Option<MembershipChoice>) -> MembershipChoice {
        match said {
            None | Some(MembershipChoice::Auto) => self,
            Some(said) => said,
        }
    }
}

impl SetSpec {
    /// The same with what `auto` is, for a set of so many agents.
    pub fn settled(self, agents: usize) -> Result<SetSpec, Failure> {
        let membership = match self.membership {
            MembershipChoice::Auto if self.has_leases(agents) => MembershipChoice::Embedded,
            MembershipChoice::Auto | MembershipChoice::Static => MembershipChoice::Static,
            MembershipChoice::Embedded => MembershipChoice::Embedded,
        };
        if membership == MembershipChoice::Static && self.lease != usual_lease() {
            let what = "fewer than three agents have fixed members, and no leases";
            return Err(Failure::new(what).hint("leave --lease out"));
        }
        Ok(SetSpec { membership, ..self })
    }

    /// Whether members of such a set of so many agents change.
    pub fn has_leases(&self, agents: usize) -> bool {
        let may_go_on = self.membership == MembershipChoice::Embedded || agents >= AGENTS_MIN;
        may_go_on && self.may_have_leases()
    }

    /// Whether members of such a set could change.
    pub(crate) fn may_have_leases(&self) -> bool {
        let is_literal = matches!(self.policy, Policy::HintPaper | Policy::BankPaper);
        match self.membership {
            MembershipChoice::Auto => !is_literal && !self.has_fixed_parts(),
            MembershipChoice::Static => false,
            MembershipChoice::Embedded => true,
        }
    }

    pub(crate) fn check_membership(&self) -> Result<(), Failure> {
        if !(LEASE_MIN..=LEASE_MAX).contains(&self.lease.0) {
            let what = format!("a lease of {} is not from 1s to 1m", self.lease);
            return Err(Failure::new(what).hint("--lease 2s"));
        }
        if self.membership == MembershipChoice::Embedded && self.has_fixed_parts() {
            let what = "a set with --store-at has the members that it is started with";
            return Err(Failure::new(what).hint("leave --membership out"));
        }
        Ok(())
    }

    /// A store that another agent has does not go over to another view.
    fn has_fixed_parts(&self) -> bool {
        self.store_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MembershipChoice::{Auto, Embedded, Static};

    fn settled(said: MembershipChoice, policy: Policy, agents: usize) -> MembershipChoice {
        let spec = SetSpec {
            membership: said,
            policy,
            ..SetSpec::default()
        };
        spec.settled(agents).unwrap().membership
    }

    #[test]
    fn three_agents_go_on_without_one_that_is_gone() {
        assert_eq!(settled(Auto, Policy::Home, 2), Static);
        assert_eq!(settled(Auto, Policy::Home, 3), Embedded);
        assert_eq!(settled(Auto, Policy::HintPaper, 3), Static);
        assert_eq!(settled(Static, Policy::Home, 3), Static);
        assert_eq!(settled(Embedded, Policy::Home, 1), Embedded);
    }

    #[test]
    fn sets_with_parts_that_stay_keep_their_members() {
        let elsewhere = SetSpec {
            store_at: Some("0".parse().unwrap()),
            ..SetSpec::default()
        };
        assert_eq!(elsewhere.settled(4).unwrap().membership, Static);
    }

    #[test]
    fn a_lease_is_refused_by_a_set_that_has_none() {
        let spec = SetSpec {
            lease: HumanDuration(Duration::from_secs(2)),
            ..SetSpec::default()
        };
        assert!(spec.clone().settled(3).is_ok());
        assert!(spec.settled(2).is_err());
    }

    #[test]
    fn auto_fits_a_set_that_is_up() {
        assert_eq!(Embedded.unless(Some(Auto)), Embedded);
        assert_eq!(Embedded.unless(None), Embedded);
        assert_eq!(Embedded.unless(Some(Static)), Static);
    }
}
