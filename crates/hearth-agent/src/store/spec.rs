//! Names a store on a command line, and builds it.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use hearth_client::belief;
use hearth_shm::ServerQueue;

use super::doubting::Doubting;
use super::{
    Counted, Fault, FaultPlan, Lagging, Model, ModelConfig, ModelError, PlanError, Posix, Seconds,
    Store,
};

/// Which store to put behind the cache: `posix`, `model[:OPTION=N,...]` or `fault:PLAN`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreSpec {
    /// A mounted directory.
    #[default]
    Posix,
    /// A directory behind modelled I/O servers.
    Model(ModelConfig),
    /// A directory that fails by a script.
    Fault(FaultPlan),
    /// A client that believes in old names for a second; tests alone have it.
    Lagging(Seconds),
}

/// Why a text names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such kind.
    #[error("unknown store `{0}`: expected posix, model or fault")]
    UnknownKind(String),
    /// The kind takes no options.
    #[error("store `posix` takes no options, not `{0}`")]
    NoOptions(String),
    /// The options of a model are wrong.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The plan of a fault is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl StoreSpec {
    /// Reads a store's name.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (kind, options) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "posix" if options.is_empty() => Ok(Self::Posix),
            "posix" => Err(SpecError::NoOptions(options.to_owned())),
            "model" => Ok(Self::Model(options.parse()?)),
            "fault" => Ok(Self::Fault(options.parse()?)),
            _ => Err(SpecError::UnknownKind(kind.to_owned())),
        }
    }
}

impl FromStr for StoreSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl fmt::Display for StoreSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Posix => f.write_str("posix"),
            Self::Model(config) => write!(f, "model:{config}"),
            Self::Fault(plan) => write!(f, "fault:{plan}"),
            Self::Lagging(_) => f.write_str("lagging"),
        }
    }
}

/// Builds a counted store behind `root`. The files that the agents of one machine share about it are kept in `job_dir`.
pub fn build(spec: &StoreSpec, job_dir: &Path, root: BorrowedFd<'_>) -> io::Result<Arc<dyn Store>> {
    Ok(match spec {
        StoreSpec::Posix if belief::lags(root) => Arc::new(Counted::new(Doubting(Posix))),
        StoreSpec::Posix => Arc::new(Counted::new(Posix)),
        StoreSpec::Model(config) => {
            let queue = ServerQueue::open(&job_dir.join("store-queue"), config.servers)?;
            Arc::new(Counted::new(Model::new(Posix, *config, queue)))
        }
        StoreSpec::Lagging(seconds) => {
            Arc::new(Counted::new(Doubting(Lagging::new(seconds.clone()))))
        }
        StoreSpec::Fault(plan) => Arc::new(Counted::new(Fault::new(Posix, plan.clone()))),
    })
}

#[cfg(test)]
mod tests;
