//! Trace files: `.htrace`.
//!
//! A file is a sequence of checksummed [frames](Frames), only ever appended to. Nothing points into
//! another part of the file, so whatever part survives can be read, and frames are numbered within
//! their session, so what did not survive can be named.
//!
//! [`Writer`] writes a session, [`Reader`] reads sessions from any number of files as one trace.

mod assemble;
mod block;
mod fact;
pub(crate) mod fields;
mod frame;
mod read;
mod scan;
mod tighten;
mod write;

pub use fact::Fact;
pub use fields::Malformed;
pub use frame::{
    FRAME_LEN_MAX, Frame, FrameKind, FrameOrDamage, Frames, HEADER_LEN, SessionId, first_frame,
    seal,
};
pub use read::{EXTENSION, ReadError, Reader};
pub use scan::Costs;
pub(crate) use scan::{ClockPoint, Ping};
pub use write::{NewProcess, ProcessKey, Sink, StreamKey, WAITING_MAX, Writer};
