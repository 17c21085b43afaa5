//! The promise for one file, which its openers choose.
//!
//! The first of the nodes that have a file open chooses for all of them, and the manager tells the others. Under
//! the weaker levels homes do not record who holds a copy. Nothing is called back when somebody writes. A copy is
//! good until this node looks again whether the file is another.
//!
//! Invariants:
//! - V1: a copy that no home has recorded is read only through handles that were opened before the file changed.
//!   An open drops all such copies if it finds another version, those on their way included.
//! - V2: the version changes whenever a node may have changed the file since another was told it.
//! - V3: a laminated file changes no more: its writers are refused before its lamination is answered.
//! - V4: a node has such copies of a file only while its manager would tell it that the file is gone. Its number
//!   may be another's then.

use crate::config::{Authorities, Copies, Rules, Served, Writes};

/// The promise for a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Semantics {
    /// Every read sees every write that completed before it began.
    #[default]
    Posix,
    /// The same for each call of MPI-IO.
    MpiAtomic,
    /// A node sees its own writes, and those of others that were synced before its own last sync or open.
    Mpi,
    /// A node sees its own writes, and those of others that were closed before its own open.
    Cto,
    /// A node sees its own writes; others see them once the file is laminated.
    Commit,
    /// The same, after lamination: nobody writes any more.
    Laminated,
    /// As `Posix` among the job's agents, who alone write: outside changes are not looked for.
    Job,
}

impl Semantics {
    /// All levels, by the names that people type. `Laminated` is no choice.
    pub const NAMES: &[(&str, Semantics)] = &[
        ("posix", Semantics::Posix),
        ("mpi-atomic", Semantics::MpiAtomic),
        ("mpi", Semantics::Mpi),
        ("cto", Semantics::Cto),
        ("commit", Semantics::Commit),
        ("job", Semantics::Job),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let mut named = Semantics::NAMES.iter().filter(|(_, known)| *known == self);
        named.next().map_or("laminated", |&(name, _)| name)
    }

    /// The level of a name.
    pub fn by_name(name: &str) -> Option<Semantics> {
        let mut named = Semantics::NAMES.iter().filter(|(known, _)| *known == name);
        named.next().map(|&(_, semantics)| semantics)
    }

    /// True if homes record who holds copies, and call them back before a write shows.
    pub fn is_recorded(self) -> bool {
        match self {
            Semantics::Posix | Semantics::MpiAtomic | Semantics::Job => true,
            Semantics::Mpi | Semantics::Cto | Semantics::Commit | Semantics::Laminated => false,
        }
    }

    /// True if an open looks whether another node has written.
    pub(crate) fn looks_at_open(self) -> bool {
        match self {
            Semantics::Mpi | Semantics::Cto => true,
            Semantics::Posix
            | Semantics::MpiAtomic
            | Semantics::Commit
            | Semantics::Laminated
            | Semantics::Job => false,
        }
    }

    /// True if a writer may keep its bytes to itself until it closes or syncs.
    pub fn gathers(self) -> bool {
        self.looks_at_open()
    }

    /// True if an open looks whether somebody outside has written.
    pub(crate) fn heeds_outsiders(self) -> bool {
        self != Semantics::Job
    }

    /// The effect of the choice under a policy. A policy whose homes keep no record of copies of their own,
    /// or that keeps no copies, promises what it always does.
    pub fn under(self, rules: Rules) -> Semantics {
        let records = rules.served == Served::Cache
            && rules.authorities == Authorities::Placed
            && rules.copies == Copies::Many
            && rules.writes == Writes::Behind;
        match self {
            Semantics::Posix | Semantics::MpiAtomic | Semantics::Job => self,
            Semantics::Mpi | Semantics::Cto | Semantics::Commit | Semantics::Laminated => {
                match records {
                    true => self,
                    false => Semantics::Posix,
                }
            }
        }
    }
}

impl core::fmt::Display for Semantics {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Policy;

    #[test]
    fn names_lead_back_to_their_levels() {
        for &(name, level) in Semantics::NAMES {
            assert_eq!(
                (level.name(), Semantics::by_name(name)),
                (name, Some(level))
            );
        }
        assert_eq!(Semantics::by_name("laminated"), None);
    }

    #[test]
    fn a_policy_without_records_promises_what_it_always_does() {
        let under = |policy: Policy| Semantics::Cto.under(policy.rules());
        assert_eq!(under(Policy::Home), Semantics::Cto);
        assert_eq!(under(Policy::Local), Semantics::Cto);
        for policy in [Policy::Hint, Policy::Single, Policy::Bank, Policy::None] {
            assert_eq!(under(policy), Semantics::Posix, "{policy:?}");
        }
    }
}
