//! What should be counted in a first pass on GlusterFS: one node reads each directory of the path as a whole,
//! with the attributes of what is in it, and others ask it.

use super::System;
use crate::options::Policy;

/// Files in the first question about attributes, and in the largest.
const BATCH: usize = 64;
const BATCH_MAX: usize = 512;

/// Messages and requests of the store. There is no form for the requests that GlusterFS's own client leaves of
/// those of agents: it answers some out of what came along with names.
pub(super) struct Counts {
    pub(super) messages: f64,
    pub(super) store_requests: Option<f64>,
}

impl Counts {
    /// `None` for systems without a model.
    pub(super) fn of(system: System, files: usize, clients: u32) -> Option<Counts> {
        let clients = f64::from(clients);
        match system {
            // Each client asks for each file's name and then for its attributes.
            System::Store | System::Under(Policy::None) => Some(Counts {
                messages: 0.0,
                store_requests: Some(2.0 * files as f64 * clients),
            }),
            System::Under(Policy::Home) => Some(Counts {
                messages: (clients - 1.0) * each_other(files, clients),
                store_requests: None,
            }),
            _ => None,
        }
    }
}

/// Messages with each client but the one that has made the files, and manages them. Five registrars are asked,
/// of two files that are looked at alone and of three directories; one in so many is the asker itself. Then
/// managers are: how long the two files are, what the three directories have, the attributes of two of these,
/// and of all files.
fn each_other(files: usize, clients: f64) -> f64 {
    let registrars = 5.0 * 2.0 * (1.0 - 1.0 / clients);
    registrars + 2.0 * (2.0 + 3.0 + 2.0) + 2.0 * questions(files)
}

/// Questions about so many files, each about twice as many as the one before.
fn questions(files: usize) -> f64 {
    let (mut count, mut left, mut batch) = (0, files, BATCH);
    while left > 0 {
        left = left.saturating_sub(batch);
        batch = (2 * batch).min(BATCH_MAX);
        count += 1;
    }
    f64::from(count)
}
