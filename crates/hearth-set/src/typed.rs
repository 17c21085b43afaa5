//! Choices of the kernel as people type them, and as the description of a set keeps them.
//!
//! The kernel depends on nothing, so what reads an option or a description stands here. A field of a description is kept
//! as its word with `#[serde(with = "crate::typed")]`.

use std::fmt;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hearth_agent::{
    Allocation, BankAttributes, BankPlacement, BankUpdate, CloseRule, Policy, Semantics, Synced,
};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

/// A choice among a few words.
pub trait Typed: Copy + Send + Sync + 'static {
    /// All of them, in the order in which people are told them.
    const ALL: &'static [Self];

    /// Its word.
    fn word(self) -> &'static str;

    /// Its meaning, where the help of an option lists the words.
    fn help(self) -> Option<&'static str> {
        None
    }

    /// The one of a word.
    fn of_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|known| known.word() == word)
    }
}

/// The parser of an option with such a choice.
pub fn parser<T: Typed>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL.iter().map(|choice| {
        let value = PossibleValue::new(choice.word());
        match choice.help() {
            Some(help) => value.help(help),
            None => value,
        }
    });
    let known = |word: String| T::of_word(&word).expect("the parser lets known words pass alone");
    PossibleValuesParser::new(values).map(known)
}

/// Writes a choice as its word.
pub fn serialize<T: Typed, S: Serializer>(choice: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(choice.word())
}

/// Reads the word of a choice.
pub fn deserialize<'de, T: Typed, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_str(Word(PhantomData))
}

/// Reads a choice from its word.
struct Word<T>(PhantomData<T>);

impl<T: Typed> Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one of")?;
        T::ALL
            .iter()
            .try_for_each(|choice| write!(f, " `{}`", choice.word()))
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<T, E> {
        T::of_word(word).ok_or_else(|| E::invalid_value(de::Unexpected::Str(word), &self))
    }
}

/// A choice that may be left open.
pub mod option {
    use super::{Deserializer, Serializer, Typed};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Said<T: Typed>(#[serde(with = "super")] T);

    /// Writes a choice as its word.
    pub fn serialize<T: Typed, S: Serializer>(
        choice: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        choice.map(Said).serialize(to)
    }

    /// Reads the word of a choice.
    pub fn deserialize<'de, T: Typed, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let said = Option::<Said<T>>::deserialize(from)?;
        Ok(said.map(|Said(choice)| choice))
    }
}

impl Typed for Policy {
    const ALL: &'static [Policy] = &[
        Policy::Home,
        Policy::HomePlus,
        Policy::Hint,
        Policy::HintPaper,
        Policy::Single,
        Policy::Local,
        Policy::Bank,
        Policy::BankPaper,
        Policy::None,
    ];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Typed for Semantics {
    const ALL: &'static [Semantics] = &[
        Semantics::Posix,
        Semantics::MpiAtomic,
        Semantics::Mpi,
        Semantics::Cto,
        Semantics::Commit,
        Semantics::Job,
    ];

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Typed for Allocation {
    const ALL: &'static [Allocation] = &[
        Allocation::Slot,
        Allocation::FirstTouch,
        Allocation::RoundRobin,
    ];

    fn word(self) -> &'static str {
        match self {
            Allocation::Slot => "slot",
            Allocation::FirstTouch => "first-touch",
            Allocation::RoundRobin => "round-robin",
        }
    }

    fn help(self) -> Option<&'static str> {
        Some(match self {
            Allocation::Slot => "The owner of the chunk's slot",
            Allocation::FirstTouch => "The first that asks",
            Allocation::RoundRobin => "Dealt out in turn",
        })
    }
}

impl Typed for CloseRule {
    const ALL: &'static [CloseRule] = &[CloseRule::Flushed, CloseRule::Buffered];

    fn word(self) -> &'static str {
        match self {
            CloseRule::Flushed => "flushed",
            CloseRule::Buffered => "buffered",
        }
    }
}

impl Typed for BankPlacement {
    const ALL: &'static [BankPlacement] = &[BankPlacement::Rendezvous, BankPlacement::Crc32];

    fn word(self) -> &'static str {
        match self {
            BankPlacement::Rendezvous => "rendezvous",
            BankPlacement::Crc32 => "crc32",
        }
    }

    fn help(self) -> Option<&'static str> {
        Some(match self {
            BankPlacement::Rendezvous => "One daemon more moves only its share",
            BankPlacement::Crc32 => "As IMCa has it: one daemon more moves nearly all",
        })
    }
}

impl Typed for BankUpdate {
    const ALL: &'static [BankUpdate] = &[BankUpdate::Thread, BankUpdate::Inline];

    fn word(self) -> &'static str {
        match self {
            BankUpdate::Thread => "thread",
            BankUpdate::Inline => "inline",
        }
    }
}

impl Typed for BankAttributes {
    const ALL: &'static [BankAttributes] = &[BankAttributes::Leave, BankAttributes::Daemons];

    fn word(self) -> &'static str {
        match self {
            BankAttributes::Leave => "leave",
            BankAttributes::Daemons => "daemons",
        }
    }
}

impl Typed for Synced {
    const ALL: &'static [Synced] = &[Synced::Store, Synced::Tier];

    fn word(self) -> &'static str {
        match self {
            Synced::Store => "store",
            Synced::Tier => "tier",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Spec {
        #[serde(with = "super")]
        policy: Policy,
        #[serde(with = "super::option")]
        semantics: Option<Semantics>,
    }

    #[test]
    fn agents_know_a_policy_by_the_word_that_is_typed() {
        assert_eq!(Policy::ALL.len(), Policy::NAMES.len());
        assert_eq!(Semantics::ALL.len(), Semantics::NAMES.len());
        for &policy in Policy::ALL {
            assert_eq!(Policy::by_name(policy.word()), Some(policy));
            assert_eq!(Policy::of_word(policy.word()), Some(policy));
        }
    }

    #[test]
    fn a_description_holds_the_words() {
        for (semantics, word) in [(None, "null"), (Some(Semantics::Cto), "\"cto\"")] {
            let policy = Policy::HomePlus;
            let spec = Spec { policy, semantics };
            let text = format!("{{\"policy\":\"home:plus\",\"semantics\":{word}}}");
            assert_eq!(serde_json::to_string(&spec).unwrap(), text);
            assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
        }
        let wrong = "{\"policy\":\"near\",\"semantics\":null}";
        assert!(serde_json::from_str::<Spec>(wrong).is_err());
    }
}
