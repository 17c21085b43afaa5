//! Policies by the names that people type.

use hearth_proto::Policy;

/// Every policy with its name.
pub const ALL: &[(&str, Policy)] = &[
    ("none", Policy::None),
    ("home", Policy::Home),
    ("home:plus", Policy::HomePlus),
    ("hint", Policy::Hint),
    ("hint:paper", Policy::HintPaper),
    ("single", Policy::Single),
    ("local", Policy::Local),
    ("bank", Policy::Bank),
    ("bank:paper", Policy::BankPaper),
];

/// The policy of a name.
pub fn by_name(name: &str) -> Option<Policy> {
    let mut found = ALL.iter().filter(|(known, _)| *known == name);
    found.next().map(|&(_, policy)| policy)
}

/// The name of a policy.
pub fn name_of(policy: Policy) -> &'static str {
    let mut found = ALL.iter().filter(|(_, known)| *known == policy);
    found.next().map_or("?", |&(name, _)| name)
}
