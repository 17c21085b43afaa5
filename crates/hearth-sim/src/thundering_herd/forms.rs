//! How many requests of the store there must be, from the shape alone.
//!
//! Every node looks at two files alone. The first two that ask for names are told to look at four more; the third, or
//! one of the two if there are no others, lists the directory for all, with a request for every so many names.
//! Attributes of each file are then read once, by whichever node. How they share that, and so how many messages it
//! takes, depends on who comes first, and has no form.

use super::Shape;
use hearth_client::asking::LOOKUPS_ALONE;
use hearth_proto::Span;

/// Nodes that are told to look at more files alone, and at how many.
const REFUSED: u32 = 2;
const MORE_ALONE: u32 = 2 * LOOKUPS_ALONE;

/// Requests to the store in a first pass; `None` where the directory has too few files to be listed. Of the files
/// that were looked at alone attributes may come in the second pass only.
pub fn requests_due(shape: &Shape) -> Option<f64> {
    let (nodes, files) = (shape.nodes, shape.files);
    if files <= LOOKUPS_ALONE + MORE_ALONE {
        return None;
    }
    let alone = nodes * LOOKUPS_ALONE + nodes.min(REFUSED) * MORE_ALONE;
    Some(f64::from(alone + files.div_ceil(shape.names)) + f64::from(files))
}

/// Time of as many clients of the store alone, each of which asks for one file after another: the store is
/// busy all the time, or each waits for itself.
pub fn bare_store(shape: &Shape) -> Span {
    let one = 2 * shape.hop.0 + shape.store.0;
    let all = shape.store.0 * u64::from(shape.nodes);
    Span(one.max(all) * u64::from(shape.files))
}
