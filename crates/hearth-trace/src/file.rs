//! Trace files: `.htrace`.
//!
//! A file is a sequence of checksummed [frames](Frames), only ever appended to. Nothing points into
//! another part of the file, so whatever part survives can be read, and frames are numbered within
//! their session, so what did not survive can be named.

mod frame;

pub use frame::{FRAME_LEN_MAX, Found, Frame, Frames, HEADER_LEN, Kind, SessionId, seal};
