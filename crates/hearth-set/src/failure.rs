//! Why a command could not do what it was asked, as people read it.
//!
//! ```text
//! error: cannot mount `/scratch` at `/mnt/scratch`
//!   caused by: /dev/fuse cannot be opened
//! hint: hearth doctor
//! ```

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A failed action, its causes from near to far, and a hint of what to type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    #[serde(default)]
    verdict: ExitMeaning,
}

/// The meaning of the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitMeaning {
    /// Asked and answered, and the answer is no: exit 1.
    No,
    /// It could not be done: exit 2.
    #[default]
    CouldNot,
}

impl Failure {
    /// It could not be done.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            causes: Vec::new(),
            hint: None,
            verdict: ExitMeaning::CouldNot,
        }
    }

    /// The answer is no.
    pub fn no(what: impl Into<String>) -> Failure {
        Failure {
            verdict: ExitMeaning::No,
            ..Failure::new(what)
        }
    }

    /// Adds a cause and everything that caused it.
    pub fn because(mut self, cause: impl Error) -> Failure {
        self.causes.push(cause.to_string());
        let mut next = cause.source();
        while let Some(source) = next {
            self.causes.push(source.to_string());
            next = source.source();
        }
        self
    }

    /// Adds a cause in words.
    pub fn cause(mut self, cause: impl Into<String>) -> Failure {
        self.causes.push(cause.into());
        self
    }

    /// Adds another failure as the cause; its hint stands if there is none yet.
    pub fn after(mut self, cause: Failure) -> Failure {
        self.causes.push(cause.what);
        self.causes.extend(cause.causes);
        self.hint = self.hint.or(cause.hint);
        self
    }

    /// Says what to type.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same, if nothing is said yet.
    pub fn or_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = self.hint.or(Some(hint.into()));
        self
    }

    /// The failed action and its causes, as a part of a sentence.
    pub fn in_a_line(&self) -> String {
        let causes = self.causes.iter().map(String::as_str);
        let words: Vec<&str> = std::iter::once(self.what.as_str()).chain(causes).collect();
        words.join(": ")
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            ExitMeaning::No => 1,
            ExitMeaning::CouldNot => 2,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.what)?;
        for cause in &self.causes {
            write!(f, "\n  caused by: {cause}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Turns any error into a failure that says what was being done.
pub trait OrFail<T> {
    /// The error becomes the cause of `what`.
    fn or_fail(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Error> OrFail<T> for Result<T, E> {
    fn or_fail(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(what()).because(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_causes_and_what_to_type() {
        let cause = Failure::new("/dev/fuse cannot be opened").hint("hearth doctor");
        let failure = Failure::new("cannot mount").after(cause);
        assert_eq!(
            failure.to_string(),
            "error: cannot mount\n  caused by: /dev/fuse cannot be opened\nhint: hearth doctor"
        );
        assert_eq!(failure.exit_code(), 2);
        assert_eq!(Failure::no("nothing is up").exit_code(), 1);
    }
}
