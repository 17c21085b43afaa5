//! Rings of records in shared memory: what a traced process writes and a drain reads.
//!
//! A process has one *area*, a file that it maps; each of its threads has one *ring* in it, written
//! by that thread and read by one drain. Nothing is ever flushed: what a thread has committed is in
//! the file, whatever becomes of the process.
//!
//! - [`tracer`] is what a traced process calls: `enter`, `leave`, `file`.
//! - [`Drain`] finds areas and hands out what is in them; [`look`] leaves everything where it is.
//!
//! Reading order: `layout` (what stands where), `seat` (how a record is written), `stream` (how it is
//! read), then the two above.
//!
//! Invariants, for every ring:
//! - RING-1: attempts are numbered from 1 without a hole; the number is in the ring's control line before
//!   anything else is written.
//! - RING-2: a record is committed by its `seq`, stored last (release, paired with the reader's acquire).
//! - RING-3: committed records between the reader's tail and tail + capacity are not written again.
//! - RING-4: attempted = stored + dropped + torn, and torn is at most 1, and only if the thread was killed.
//! - RING-5: an attempt that is not stored is in the table of drops with its operation, bytes and ticks.

mod attach;
mod drain;
mod layout;
mod look;
#[expect(unsafe_code, reason = "maps memory")]
mod map;
mod names;
#[expect(unsafe_code, reason = "lays its own state into mapped memory")]
mod producer;
#[expect(
    unsafe_code,
    reason = "writes records through pointers that a fork can wipe"
)]
mod seat;
mod stream;
mod totals;
#[expect(unsafe_code, reason = "finds this process's area from any thread")]
pub mod tracer;

pub use attach::{AreaState, Facts};
pub use drain::{AreaId, Drain, Ended, Pass, Sink, StreamKey};
pub use look::{AreaCounts, Look, Recent, look};
pub use names::Name;
pub use producer::{NotTraced, Options, WhenFull};
pub use seat::OpFacts;
pub use stream::Account;
pub use totals::{OpTotal, Totals};
