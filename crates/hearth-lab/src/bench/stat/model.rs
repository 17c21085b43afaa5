//! Counts that are due in a first pass on GlusterFS. How a crowd shares the reading of a directory depends on which
//! client comes first, so its messages have no closed form: they are those of simulated crowds, which have one
//! directory too. Their machine is as fast as the real one was in the same run. Four times were measured there:
//!
//! - a look at the store by each of as many clients without Hearth;
//! - a look after the names were read, with which GlusterFS sends attributes;
//! - a look that memory answered;
//! - a message from host to host while all clients were at work.
//!
//! The requests of the store for all names are counted. The manager of a file differs from crowd to crowd, and so does
//! the point of the measured times at which a crowd begins. So there are several crowds, and the one in the middle
//! counts.

use super::System;
use hearth_agent::Policy;
use hearth_sim::storm::{self, Pace, Shape, StormOutcome};

/// Crowds of which the one in the middle counts.
const CROWDS: u64 = 31;

/// Messages and requests of the store.
pub(super) struct Counts {
    pub(super) messages: f64,
    pub(super) store_requests: f64,
    /// The fewest and the most messages of a crowd.
    pub(super) spread: Option<(u64, u64)>,
}

impl Counts {
    /// `None` for systems without a model. `listing` are the requests for all names, where attributes come along.
    pub(super) fn of(
        system: System,
        (files, clients): (usize, u32),
        pace: &Pace,
        listing: Option<f64>,
    ) -> Option<Counts> {
        match system {
            // Each client asks once for each file: its name and attributes come together.
            System::Store => Some(Counts {
                messages: 0.0,
                store_requests: files as f64 * f64::from(clients),
                spread: None,
            }),
            System::Under(Policy::Home) => {
                let mut shape = Shape::new(clients, u32::try_from(files).ok()?);
                if let Some(requests) = listing {
                    shape.along = true;
                    shape.names = (files as f64 / requests.max(1.0)).ceil() as u32;
                }
                let crowds = storm::run_several(&shape, pace, CROWDS);
                let usual = &crowds[crowds.len() / 2];
                let of = |crowd: Option<&StormOutcome>| crowd.map(|crowd| crowd.messages);
                Some(Counts {
                    messages: usual.messages as f64,
                    // Each node asks once for the directory itself.
                    store_requests: (usual.store_requests + u64::from(clients)) as f64,
                    spread: of(crowds.first()).zip(of(crowds.last())),
                })
            }
            _ => None,
        }
    }
}
