//! The results of probes.

use std::fmt;
use std::time::Duration;

use super::client::{Miss, Told};

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// The store does it.
    Yes,
    /// It does not, and this is how that shows.
    No(String),
    /// Seen after so long.
    After(Duration),
    /// Not seen for so long.
    NotWithin(Duration),
    /// A size of time, or a word.
    Is(String),
    /// Not measured, and why.
    Unknown(String),
}

impl Value {
    /// Whether it is certain that the store does not do it.
    pub(crate) fn is_no(&self) -> bool {
        matches!(self, Value::No(_))
    }

    /// `Yes`, or the error.
    pub(super) fn works<T>(tried: Told<T>) -> Value {
        match tried {
            Ok(_) => Value::Yes,
            Err(miss) => Value::missed(miss),
        }
    }

    /// `Yes` where something is so, `No` with these words where not.
    pub(super) fn so(tried: Told<bool>, else_: &str) -> Value {
        match tried {
            Ok(true) => Value::Yes,
            Ok(false) => Value::No(else_.to_owned()),
            Err(miss) => Value::missed(miss),
        }
    }

    fn missed(miss: Miss) -> Value {
        match miss {
            Miss::Error(_) => Value::No(miss.to_string()),
            Miss::Silent => Value::Unknown(miss.to_string()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Yes => f.write_str("yes"),
            Value::No(how) => write!(f, "no: {how}"),
            // Below that it is the time of the calls.
            Value::After(span) if span.as_millis() < 50 => f.write_str("at once"),
            Value::After(span) => write!(f, "{:.1} s", span.as_secs_f64()),
            Value::NotWithin(span) => write!(f, "over {} s", span.as_secs()),
            Value::Is(words) => f.write_str(words),
            Value::Unknown(why) => write!(f, "? {why}"),
        }
    }
}

/// One property of a store.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// Its name, for programs.
    pub(crate) property: &'static str,
    /// Its name, for people.
    pub(crate) words: &'static str,
    /// The result.
    pub(crate) value: Value,
}

/// All that was found of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, property: &'static str, words: &'static str, value: Value) {
        self.0.push(Finding {
            property,
            words,
            value,
        });
    }

    /// In the order they were made.
    pub(crate) fn all(&self) -> &[Finding] {
        &self.0
    }

    /// The value of one property; unknown if it was not measured.
    pub(crate) fn value(&self, property: &str) -> Value {
        let mut found = self.0.iter();
        let found = found.find(|finding| finding.property == property);
        found.map_or_else(
            || Value::Unknown("not measured".to_owned()),
            |finding| finding.value.clone(),
        )
    }
}
