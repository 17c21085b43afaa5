//! How sets differ: which settings have to be alike, and which of two sets are not.

use std::collections::BTreeSet;

use crate::bank::BankSpec;
use crate::options::{Others, SetSpec};
use crate::rules::RuleSpec;
use crate::store_at::StoreAt;
use crate::tier::TierSpec;
use crate::typed::Typed;

/// Settings that each host has for itself.
const OF_HOSTS: [&str; 7] = [
    "agents",
    "pool",
    "backing",
    "attr-ttl",
    "allow-other",
    "tier",
    "tier-age",
];

impl SetSpec {
    /// The settings that all agents of a set must have alike and that are not the usual ones, each as ` --KEY=VALUE`. Each
    /// host has its own sizes and places of memory and tiers, and its own ways in.
    pub fn common(&self) -> String {
        let usual = SetSpec::default().facts();
        let facts = self.facts().into_iter();
        let tier = self.tier.iter().map(|_| ("tier", "some".to_owned()));
        let rules: Vec<String> = self.rules.iter().map(RuleSpec::to_string).collect();
        let rules = (!rules.is_empty()).then(|| ("rules", rules.join("; ")));
        let alike = facts.filter(|(key, _)| !OF_HOSTS.contains(key));
        let alike = alike.filter(|fact| !usual.contains(fact));
        let words = alike.chain(tier).chain(rules);
        words
            .map(|(key, value)| format!(" --{key}={value}"))
            .collect()
    }

    /// The set as values of options, for people, without those that its policy lacks.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let bank = self.bank.iter().flat_map(BankSpec::facts);
        let mut facts = vec![
            ("agents", self.agents.to_string()),
            ("policy", self.policy.to_string()),
            ("semantics", self.semantics.to_string()),
            ("atomic", self.atomic.to_string()),
            ("pool", self.pool.to_string()),
            ("page-size", self.page_size.to_string()),
            ("chunk", self.chunk.to_string()),
            ("allocation", self.allocation.word().to_owned()),
            ("transport", self.transport.to_string()),
            ("close", self.close.word().to_owned()),
            ("backing", self.backing.clone()),
            (
                "store-at",
                self.store_at
                    .as_ref()
                    .map_or_else(|| "all".to_owned(), StoreAt::to_string),
            ),
            ("attr-ttl", self.attr_ttl.to_string()),
            ("replicas", self.replicas.to_string()),
            ("balance", format!("{:?}", self.balance).to_lowercase()),
            ("membership", self.membership.word().to_owned()),
            ("lease", self.lease.to_string()),
            (
                "allow-other",
                match self.others {
                    Others::Refused => "off".to_owned(),
                    Others::Allowed => "on".to_owned(),
                },
            ),
        ];
        facts.extend(bank);
        facts.extend(self.tier.iter().flat_map(TierSpec::facts));
        facts
    }

    /// In which settings a set that is up is not as another is to be.
    pub fn differences(&self, asked: &SetSpec) -> Vec<String> {
        let (is, asked) = (self.facts(), asked.facts());
        let value = |facts: &[(&'static str, String)], key| {
            let fact = facts.iter().find(|(known, _)| *known == key);
            fact.map_or_else(|| "none".to_owned(), |(_, value)| value.clone())
        };
        let mut keys: Vec<&str> = is.iter().chain(&asked).map(|(key, _)| *key).collect();
        let mut seen = BTreeSet::new();
        keys.retain(|key| seen.insert(*key));
        let told = keys.into_iter().filter_map(|key| {
            let (is, asked) = (value(&is, key), value(&asked, key));
            (is != asked).then(|| format!("it has {key} {is}, not {asked}"))
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Size;
    use hearth_agent::{Policy, Semantics};

    /// Agents of other settings would place pages elsewhere, and read what others have overwritten.
    #[test]
    fn what_all_agents_must_have_alike_is_known() {
        let spec = SetSpec::default();
        let smaller = SetSpec {
            pool: Size(64 << 20),
            ..spec.clone()
        };
        assert_eq!(spec.common(), smaller.common());
        let others = [
            SetSpec {
                chunk: Size(1 << 20),
                ..spec.clone()
            },
            SetSpec {
                page_size: Size(64 << 10),
                ..spec.clone()
            },
            SetSpec {
                policy: Policy::Hint,
                ..spec.clone()
            },
            SetSpec {
                semantics: Semantics::Cto,
                ..spec.clone()
            },
        ];
        for other in others {
            assert_ne!(spec.common(), other.common(), "{other:?}");
        }
        let other = SetSpec {
            chunk: Size(1 << 20),
            policy: Policy::Hint,
            ..spec
        };
        assert_eq!(other.common(), " --policy=hint --chunk=1 MiB");
    }
}
