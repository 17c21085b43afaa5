//! How many messages and requests there must be, from the shape alone, where the directory has no more files
//! than are read along with its names.
//!
//! With C nodes and F files, C - 1 nodes are others to any one of them.
//!
//! - Each of the files that are looked at alone costs every other node a question and an answer to its
//!   registrar and to its manager: 4 (C - 1). All nodes ask the store.
//! - The directory's registrar and manager: 2 (C - 1) each, and 2 (C - 1) for each further message that its
//!   names need.
//! - Whose registrar is itself has the first file before all others, and stays ahead: it manages the other files
//!   that are looked at alone, and the directory. It lists it, with a request for every so many names, and asks
//!   the registrars of its files, all at once: of C - 1 others, those that some file is hashed to. So it
//!   manages all files. It reads the attributes of all.
//! - Every other node then asks it for them, about twice as many with each question.

use super::Shape;
use super::way_in::{BATCH, BATCH_MAX, LOOKUPS_ALONE, NAMES_A_REQUEST, READ_WITH_NAMES};
use hearth_proto::Span;

/// Bytes of names in one message, those of one, and what else a name takes there.
const MESSAGE_BYTES: u32 = 48 << 10;
const NAME_BYTES: u32 = 11 + 20;

/// What must be counted in a first pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Messages.
    pub messages: f64,
    /// Requests to the store.
    pub store_requests: f64,
}

impl Forecast {
    /// The closed form; `None` where the directory has too many files.
    pub fn of(shape: &Shape) -> Option<Forecast> {
        let files = shape.files;
        if files <= LOOKUPS_ALONE || files > READ_WITH_NAMES {
            return None;
        }
        let (nodes, alone) = (f64::from(shape.nodes), f64::from(LOOKUPS_ALONE));
        let others = nodes - 1.0;
        let parts = f64::from((files * NAME_BYTES).div_ceil(MESSAGE_BYTES));
        let registrars = others * (1.0 - (1.0 - 1.0 / nodes).powi(files.cast_signed()));
        let asked = 2.0 * f64::from(questions(files - LOOKUPS_ALONE));
        let each = 4.0 * alone + 2.0 + 2.0 * parts + asked;
        let listing = f64::from(files.div_ceil(NAMES_A_REQUEST));
        Some(Forecast {
            messages: others * each + 2.0 * registrars,
            store_requests: nodes * alone + listing + f64::from(files),
        })
    }
}

/// Questions about so many files, each about twice as many as the one before.
fn questions(files: u32) -> u32 {
    let (mut count, mut left, mut batch) = (0, files, BATCH);
    while left > 0 {
        left = left.saturating_sub(batch);
        batch = (2 * batch).min(BATCH_MAX);
        count += 1;
    }
    count
}

/// Time of as many clients of the store alone, each of which asks for one file after another: the store is
/// busy all the time, or each waits for itself.
pub fn bare_store(shape: &Shape) -> Span {
    let one = 2 * shape.hop.0 + shape.store.0;
    let all = shape.store.0 * u64::from(shape.nodes);
    Span(one.max(all) * u64::from(shape.files))
}
