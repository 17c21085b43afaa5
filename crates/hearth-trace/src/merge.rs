//! One clock for a whole trace: what the ticks of every machine mean on it.

mod compare;
mod host;
mod hull;
mod pairs;
mod timeline;

pub(crate) use host::HostClock;
pub(crate) use pairs::{Bends, Pairs};
pub(crate) use timeline::{Line, Timeline};
