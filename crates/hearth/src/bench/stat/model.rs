//! What should be counted in a first pass on GlusterFS. How a crowd shares the reading of a directory depends on who
//! comes first, so its messages have no closed form: they are those of a simulated crowd, which has one directory and
//! no path to it, and where no client has made the files.

use super::System;
use crate::options::Policy;
use hearth_sim::storm::{self, Shape};

/// Messages and requests of the store. There is no form for the requests that GlusterFS's own client leaves of
/// those of agents: it answers some out of what came along with names.
pub(super) struct Counts {
    pub(super) messages: f64,
    pub(super) store_requests: Option<f64>,
}

impl Counts {
    /// `None` for systems without a model.
    pub(super) fn of(system: System, files: usize, clients: u32) -> Option<Counts> {
        match system {
            // Each client asks for each file's name and then for its attributes.
            System::Store | System::Under(Policy::None) => Some(Counts {
                messages: 0.0,
                store_requests: Some(2.0 * files as f64 * f64::from(clients)),
            }),
            System::Under(Policy::Home) => Some(Counts {
                messages: {
                    let files = u32::try_from(files).ok()?;
                    storm::run(&Shape::new(clients, files)).messages as f64
                },
                store_requests: None,
            }),
            _ => None,
        }
    }
}
