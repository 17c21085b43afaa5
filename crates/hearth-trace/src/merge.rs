//! One clock for a whole trace: what the ticks of every machine mean on it.

mod host;
mod timeline;

pub(crate) use host::HostClock;
pub(crate) use timeline::{Line, Timeline};
