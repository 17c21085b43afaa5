//! What should be counted in a first pass on GlusterFS. How a crowd shares the reading of a directory depends on who
//! comes first, so its messages have no closed form: they are those of a simulated crowd, which has one directory too.
//! Its store takes a request for each look at a file; GlusterFS's own client answers some of them out of what came along
//! with names, so no more than that should be counted.

use super::System;
use crate::options::Policy;
use hearth_sim::storm::{self, Shape};

/// Messages and requests of the store.
pub(super) struct Counts {
    pub(super) messages: f64,
    pub(super) store_requests: f64,
}

impl Counts {
    /// `None` for systems without a model.
    pub(super) fn of(system: System, files: usize, clients: u32) -> Option<Counts> {
        match system {
            // Each client asks once for each file: its name and attributes come together.
            System::Store => Some(Counts {
                messages: 0.0,
                store_requests: files as f64 * f64::from(clients),
            }),
            System::Under(Policy::Home) => {
                let files = u32::try_from(files).ok()?;
                let crowd = storm::run(&Shape::new(clients, files));
                Some(Counts {
                    messages: crowd.messages as f64,
                    store_requests: crowd.store_requests as f64,
                })
            }
            _ => None,
        }
    }
}
