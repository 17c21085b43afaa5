//! The exceptions for some files: a file of rules, one in a line.
//!
//! ```text
//! # pattern          policy  semantics
//! checkpoints/**     -       commit
//! shared/*.dat       -       cto
//! logs/**            none    -
//! ```
//!
//! The first rule whose pattern fits a path below the store's root counts. `-` stands for the value of the whole set.
//! Of policies a rule can have `none`, which leaves a file to the store, or the set's own: homes are found by one
//! policy for all files.

use std::fmt;
use std::path::Path;

use hearth_agent::{Policy, Semantics, Way};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, OrFail};
use crate::typed::Typed;

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSpec {
    glob: String,
    /// The store serves the file, one request for one.
    uncached: bool,
    #[serde(default, with = "crate::typed::option")]
    semantics: Option<Semantics>,
}

/// As a line of a file has it.
impl fmt::Display for RuleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = if self.uncached { "none" } else { "-" };
        let level = self.semantics.map_or("-", Typed::word);
        write!(f, "{} {policy} {level}", self.glob)
    }
}

impl RuleSpec {
    /// In the agent's words.
    pub fn kernel(&self) -> hearth_agent::Rule {
        hearth_agent::Rule {
            glob: self.glob.clone(),
            way: match self.uncached {
                true => Way::Store,
                false => Way::Cache,
            },
            semantics: self.semantics,
        }
    }
}

/// Reads a file of rules for a set of this policy.
pub fn read(path: &Path, policy: Policy) -> Result<Vec<RuleSpec>, Failure> {
    let text = std::fs::read_to_string(path)
        .or_fail(|| format!("cannot read the rules in `{}`", path.display()))?;
    parse(&text, policy).map_err(|(line, why)| {
        Failure::new(format!(
            "cannot follow the rules: {}:{line}: {why}",
            path.display()
        ))
    })
}

/// The rules of a text, or the first line that is none and why.
fn parse(text: &str, policy: Policy) -> Result<Vec<RuleSpec>, (usize, String)> {
    let mut rules = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rule = match words.as_slice() {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [glob, named, level] => rule(glob, named, level, policy),
            _ => Err(format!(
                "{} words, not three: a pattern, a policy and a level",
                words.len()
            )),
        };
        rules.push(rule.map_err(|why| (number, why))?);
    }
    Ok(rules)
}

fn rule(glob: &str, named: &str, level: &str, policy: Policy) -> Result<RuleSpec, String> {
    let uncached = match named {
        "-" => false,
        "none" => true,
        own if own == policy.to_string() => false,
        other => {
            return Err(format!(
                "policy `{other}` cannot be had for some files of a set of policy `{policy}`: \
                 `none`, or `-` for its own"
            ));
        }
    };
    let semantics = match level {
        "-" => None,
        level => Some(Semantics::of_word(level).ok_or_else(|| {
            format!("`{level}` is no level: posix, mpi-atomic, mpi, cto, commit, job or `-`")
        })?),
    };
    let rule = RuleSpec {
        glob: glob.to_owned(),
        uncached,
        semantics,
    };
    let pattern = rule.kernel().pattern();
    pattern.map_err(|error| {
        let why = std::error::Error::source(&error).map_or(String::new(), |why| format!(": {why}"));
        format!("{error}{why}")
    })?;
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_pattern_a_policy_and_a_level() {
        let text = "# what\n\nout/**  -  commit\nlogs/*  none  -\n";
        let rules = parse(text, Policy::Home).unwrap();
        assert_eq!(rules[0].semantics, Some(Semantics::Commit));
        assert!(rules[1].uncached && rules[1].semantics.is_none());
    }

    #[test]
    fn the_line_that_is_no_rule_is_named() {
        let refusal = |text: &str| parse(text, Policy::Home).unwrap_err();
        let (line, why) = refusal("a - cto\nb - ctto\n");
        assert!(line == 2 && why.contains("`ctto` is no level"), "{why}");
        let (line, why) = refusal("a hint cto\n");
        assert!(line == 1 && why.contains("policy `hint`"), "{why}");
        let (line, why) = refusal("\n\na cto\n");
        assert!(line == 3 && why.contains("2 words"), "{why}");
        let (_, why) = refusal("a/[b - cto\n");
        assert!(why.contains("a/[b"), "{why}");
    }
}
