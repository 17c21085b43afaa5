//! Properties that must hold, one per file.

pub mod bank;
pub mod date;
pub mod durable;
pub mod kept;
pub mod laminated;
pub mod liveness;
pub mod memory;
pub mod order;
pub mod range;
pub mod size;
pub mod value;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property.
    pub check: &'static str,
    /// The observation.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(check: &'static str, what: String) -> Violation {
        Violation { check, what }
    }

    /// The kernel and its driver did not keep to their contract.
    pub(crate) fn contract(what: String) -> Violation {
        Violation::new("contract", what)
    }

    pub(crate) fn liveness(what: String) -> Violation {
        Violation::new("liveness", what)
    }

    /// The same, with details.
    pub(crate) fn with(mut self, details: &[String]) -> Violation {
        for detail in details {
            self.what.push_str("\n    ");
            self.what.push_str(detail);
        }
        self
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}
