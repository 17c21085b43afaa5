//! Counts that are due in a first pass on GlusterFS. How a herd shares the reading of a directory depends on which
//! client comes first, so its messages have no closed form: they are those of simulated herds, which have one
//! directory too. Their machine is as fast as the real one was in the same run. Four times were measured there:
//!
//! - a look at the store by each of as many clients without Hearth;
//! - a look after the names were read, with which GlusterFS sends attributes;
//! - a look that memory answered;
//! - a message from host to host while all clients were at work.
//!
//! The requests of the store for all names are counted. The manager of a file differs from herd to herd, and so does
//! the point of the measured times at which a herd begins. So there are several herds, and the one in the middle
//! counts.

use super::System;
use hearth_agent::Policy;
use hearth_sim::thundering_herd::{self, Pace, Shape, StormOutcome};

/// Herds of which the one in the middle counts.
const HERDS: u64 = 31;

/// Messages and requests of the store.
pub(super) struct Counts {
    pub(super) messages: f64,
    pub(super) store_requests: f64,
    /// The fewest and the most messages of a herd.
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
                let herds = thundering_herd::run_several(&shape, pace, HERDS);
                let usual = &herds[herds.len() / 2];
                let of = |herd: Option<&StormOutcome>| herd.map(|herd| herd.messages);

                Some(Counts {
                    messages: usual.messages as f64,
                    // Each node asks once for the directory itself.
                    store_requests: (usual.store_requests + u64::from(clients)) as f64,
                    spread: of(herds.first()).zip(of(herds.last())),
                })
            }
            _ => None,
        }
    }
}
