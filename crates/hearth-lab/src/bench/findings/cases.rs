//! The cases: which set each runs over, and how its fault is mended.

use hearth_agent::Policy;
use hearth_set::options::SetSpec;
use hearth_set::size::Size;

/// The modelled store of every case.
pub(super) const BACKING: &str = "model:servers=4,service_us=1000,bandwidth_mb=1000,stripe_kb=256";

/// A store with a tenth of the bandwidth: where a process strays to.
const SLOWER: &str = "model:servers=4,service_us=10000,bandwidth_mb=100,stripe_kb=256";

/// One program.
pub(super) struct Case {
    /// The program's name for it; for a fault, the report's as well.
    pub(super) name: &'static str,
    /// The set that it runs over.
    pub(super) set: fn() -> SetSpec,
    /// The change that mends it.
    pub(super) mend: Mend,
}

/// The part that is changed to mend a fault.
pub(super) enum Mend {
    /// There is no fault.
    Nothing,
    /// The program.
    Program,
    /// The set that it runs over.
    Set(fn() -> SetSpec),
}

impl Case {
    /// Whether there is something to find.
    pub(super) fn fault(&self) -> bool {
        !matches!(self.mend, Mend::Nothing)
    }
}

/// Twelve faults, then six programs without one.
pub(super) const CASES: &[Case] = &[
    fault("tiny-writes", uncached),
    fault("unaligned", uncached),
    fault("lock-storm", uncached),
    fault("straggler", uncached),
    Case {
        name: "re-reads",
        set: small_pool,
        mend: Mend::Set(large_pool),
    },
    fault("metadata-storm", uncached),
    fault("random", small_pages),
    fault("serial-open", uncached),
    fault("sync-per-record", cached),
    fault("read-modify-write", uncached),
    fault("imbalance", uncached),
    Case {
        name: "page-size",
        set: large_pages,
        mend: Mend::Set(small_pages),
    },
    clean("large-writes"),
    clean("large-reads"),
    clean("mostly-compute"),
    clean("strided-shared"),
    clean("checkpoint"),
    clean("read-compute-write"),
];

const fn fault(name: &'static str, set: fn() -> SetSpec) -> Case {
    Case {
        name,
        set,
        mend: Mend::Program,
    }
}

const fn clean(name: &'static str) -> Case {
    Case {
        name,
        set: cached,
        mend: Mend::Nothing,
    }
}

/// The same set over a slower store.
pub(super) fn slower(set: SetSpec) -> SetSpec {
    SetSpec {
        backing: SLOWER.to_owned(),
        ..set
    }
}

fn cached() -> SetSpec {
    SetSpec {
        backing: BACKING.to_owned(),
        ..SetSpec::default()
    }
}

fn uncached() -> SetSpec {
    SetSpec {
        policy: Policy::None,
        ..cached()
    }
}

/// Half of what `rereads` reads again and again.
fn small_pool() -> SetSpec {
    SetSpec {
        pool: Size(16 << 20),
        ..cached()
    }
}

fn large_pool() -> SetSpec {
    SetSpec {
        pool: Size(64 << 20),
        ..cached()
    }
}

fn small_pages() -> SetSpec {
    SetSpec {
        page_size: Size(64 << 10),
        ..cached()
    }
}

fn large_pages() -> SetSpec {
    SetSpec {
        page_size: Size(1 << 20),
        ..cached()
    }
}
