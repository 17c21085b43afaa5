//! The fate of a program's requests: a sample of them, joined over the layers.

use hearth_trace::{Event, Flags, Layer};

use crate::callers::Share;
use crate::mix::{MixMap, mix};

/// Requests in the sample.
const SAMPLE_MAX: usize = 1 << 16;
const HASH_BITS: u32 = 32;

/// One request's records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Joined {
    /// Nanoseconds by [`Layer`].
    pub(crate) took: [u64; Layer::ALL.len()],
    /// Records by [`Layer`].
    pub(crate) records: [u32; Layer::ALL.len()],
    pub(crate) is_write: bool,
    /// Its agent had to wait for bytes, its own or another request's.
    pub(crate) is_miss: bool,
}

/// The sample.
#[derive(Debug)]
pub(crate) struct Requests {
    threshold: u64,
    sample: MixMap<u64, Joined>,
}

impl Default for Requests {
    fn default() -> Requests {
        Requests {
            threshold: 1 << HASH_BITS,
            sample: MixMap::default(),
        }
    }
}

impl Requests {
    pub(crate) fn add(&mut self, event: &Event) {
        let key = mix(event.request);
        if event.request == 0 || key & ((1 << HASH_BITS) - 1) >= self.threshold {
            return;
        }
        let joined = self.sample.entry(key).or_default();
        joined.took[event.layer as usize] += event.took;
        joined.records[event.layer as usize] += 1;
        let is_top = matches!(event.layer, Layer::App | Layer::Cache);
        joined.is_miss |= event.layer == Layer::Cache && event.flags.has(Flags::MISS);
        joined.is_write |= is_top && event.op.is_write();
        if self.sample.len() > SAMPLE_MAX {
            self.threshold /= 2;
            let threshold = self.threshold;
            self.sample
                .retain(|key, _| key & ((1 << HASH_BITS) - 1) < threshold);
        }
    }

    /// The call of a program that a request was made for took so long for it.
    pub(crate) fn called(&mut self, share: Share) {
        if let Some(joined) = self.sample.get_mut(&mix(share.request)) {
            joined.took[Layer::App as usize] += share.took;
            joined.records[Layer::App as usize] += 1;
        }
    }

    /// How many requests each one of the sample stands for.
    pub(crate) fn weight(&self) -> f64 {
        (1u64 << HASH_BITS) as f64 / self.threshold as f64
    }

    pub(crate) fn joined(&self) -> impl Iterator<Item = &Joined> {
        self.sample.values()
    }
}
