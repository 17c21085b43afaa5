//! Tidy checks: taste that a machine can hold, run as tests and as a command.
//!
//! A check is a pure function of a [`Repo`]: the files as text, the crates as `cargo metadata` tells
//! them, the subjects of new commits. So every check also has a canary: a unit test that feeds it a
//! bad sample and sees it fire. `cargo test -p xtask` runs the checks over this repository; `cargo run
//! -p xtask -- tidy` does the same and prints the numbers.

#![forbid(unsafe_code)]

mod comments;
mod commits;
mod describe;
mod graph;
mod ids;
mod length;
mod links;
mod metadata;
mod names;
mod product;
mod promises;
mod prose;
mod purity;
mod repo;
mod source;
mod unsafety;
mod words;

pub use commits::{Commit, Unpushed};
pub use product::redrawn;
pub use prose::check_under as check_prose;
pub use repo::{Crate, Dep, DepKind, File, Repo, Root, RootKind};

/// One place where a check fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TidyFinding {
    /// Path from the root of the repository.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// The fault and, unless that is plain, the remedy.
    pub what: String,
}

impl std::fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The outcome of a check.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Every place where it fires; empty when all is well.
    pub findings: Vec<TidyFinding>,
    /// One line of numbers: what was looked at, or why nothing was.
    pub note: String,
}

impl Verdict {
    fn find(&mut self, path: &str, line: usize, what: impl Into<String>) {
        self.findings.push(TidyFinding {
            path: path.to_owned(),
            line,
            what: what.into(),
        });
    }
}

/// A named check.
#[derive(Debug)]
pub struct Check {
    /// The name printed before its verdict.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&Repo) -> Verdict,
}

/// All checks, in the order they are printed.
pub const CHECKS: &[Check] = &[
    Check {
        name: "graph",
        run: graph::check,
    },
    Check {
        name: "product",
        run: product::check,
    },
    Check {
        name: "describe",
        run: describe::check,
    },
    Check {
        name: "purity",
        run: purity::check,
    },
    Check {
        name: "unsafety",
        run: unsafety::check,
    },
    Check {
        name: "length",
        run: length::check,
    },
    Check {
        name: "words",
        run: words::check,
    },
    Check {
        name: "links",
        run: links::check,
    },
    Check {
        name: "promises",
        run: promises::check,
    },
    Check {
        name: "ids",
        run: ids::check,
    },
    Check {
        name: "names",
        run: names::check,
    },
    Check {
        name: "prose",
        run: prose::check,
    },
    Check {
        name: "commits",
        run: commits::check,
    },
];

/// The check called `name`.
pub fn check_named(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}
