//! How many messages there must be, from the shape alone.
//!
//! A read that misses costs two messages, a write costs two and two more for every other node that holds a
//! copy; each of them only if home and node differ. It remains to say how many nodes hold a copy. Of all
//! operations on a page, one in `group` is of a given node. Between operations the node's copy stays as it
//! is; a write takes it, a read of its own brings it. So it holds one with probability `h = r / (w + r)`,
//! where `w` is the share of writes and `r` that of its own reads, less what the time before the first
//! operations takes off.

use super::{MessageKind, Shape};

/// Messages that must come of a shape under `home`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    reads: f64,
    writes: f64,
    invals: f64,
}

impl Forecast {
    /// The closed form.
    pub fn of(shape: &Shape) -> Forecast {
        let (ops, group) = (shape.ops as f64, f64::from(shape.group));
        let w = f64::from(shape.write_percent) / 100.0;
        let r = (1.0 - w) / group;
        let pages = f64::from(shape.files()) * f64::from(shape.file_pages);
        let remote = 1.0 - 1.0 / f64::from(shape.nodes);
        let holds = r / (w + r) * warm(w + r, ops / pages);
        Forecast {
            reads: (1.0 - w) * ops * remote * (1.0 - holds),
            writes: w * ops * remote,
            invals: w * ops * remote * (group - 1.0) * holds,
        }
    }

    /// Orders to daemons under `bank`: one for each read of another gateway's block, which finds it
    /// there but for the few first times, and two for each write, a delete and a set.
    pub fn bank_orders(shape: &Shape) -> f64 {
        let (ops, w) = (shape.ops as f64, f64::from(shape.write_percent) / 100.0);
        let remote = 1.0 - 1.0 / f64::from(shape.nodes);
        ops * ((1.0 - w) * remote + 2.0 * w)
    }

    /// Messages of a kind.
    pub fn kind(&self, kind: MessageKind) -> f64 {
        match kind {
            MessageKind::Read | MessageKind::Grant => self.reads,
            MessageKind::Write | MessageKind::WriteOk => self.writes,
            MessageKind::Inval | MessageKind::InvalOk => self.invals,
            MessageKind::Other => 0.0,
        }
    }

    /// All messages.
    pub fn total(&self) -> f64 {
        MessageKind::ALL.iter().map(|&kind| self.kind(kind)).sum()
    }
}

/// Share of the operations on a page that find it as it is in the long run, if each settles a node's
/// copy with probability `settles` and a page sees `mean` of them. Their number is Poisson's.
fn warm(settles: f64, mean: f64) -> f64 {
    1.0 - (1.0 - (-settles * mean).exp()) / (settles * mean)
}
