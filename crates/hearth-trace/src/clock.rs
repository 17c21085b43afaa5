//! The clock of records: the processor's counter where it can be trusted, else the system's.
//!
//! Two reads of the clock are most of what a record costs, so ticks stay raw until a trace is read.
//! [`SyncPoint`]s taken about once a second tell what they mean.
//!
//! Invariants:
//! - CLOCK-1: all ticks of one process are of one [`ClockKind`], decided once, before the first.
//! - CLOCK-2: counter ticks of all processes of a machine are of one counter.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::time::ClockId;

/// The source of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ClockKind {
    /// The processor's own counter, which does not change its pace or stop.
    Counter = 1,
    /// Nanoseconds of `CLOCK_MONOTONIC`: the counter is absent, or the kernel does not trust it.
    Monotonic = 2,
}

impl ClockKind {
    /// The kind with this code, if there is one.
    pub fn from_code(code: u32) -> Option<ClockKind> {
        match code {
            1 => Some(ClockKind::Counter),
            2 => Some(ClockKind::Monotonic),
            _ => None,
        }
    }

    /// The words that people read.
    pub fn name(self) -> &'static str {
        match self {
            ClockKind::Counter => "processor counter",
            ClockKind::Monotonic => "CLOCK_MONOTONIC",
        }
    }
}

/// Code of this process's kind; 0 until it is decided, when [`now`] answers with the system's clock.
static KIND: AtomicU32 = AtomicU32::new(0);

/// Decides on the clock of this process, once.
pub fn decide() -> ClockKind {
    if let Some(kind) = ClockKind::from_code(KIND.load(Ordering::Relaxed)) {
        return kind;
    }
    let kind = if counter_is_steady() && kernel_trusts_counter() {
        ClockKind::Counter
    } else {
        ClockKind::Monotonic
    };
    // The answer is the same for every thread, so a race between two changes nothing.
    KIND.store(kind as u32, Ordering::Relaxed);
    kind
}

/// The time in ticks of this process's clock.
#[inline(always)]
pub fn now() -> u64 {
    if KIND.load(Ordering::Relaxed) == ClockKind::Counter as u32 {
        counter()
    } else {
        system(ClockId::Monotonic)
    }
}

/// One moment as all the clocks of a machine saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPoint {
    /// Ticks of the records' clock.
    pub ticks: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC_RAW`, which nobody steers.
    pub raw: u64,
    /// Nanoseconds since the Unix epoch.
    pub real: u64,
    /// The readings lie within so many ticks.
    pub window: u64,
}

/// How often the clocks are read for one point; the closest readings win.
const READINGS: usize = 8;

/// Reads all clocks as close together as this moment allows.
pub fn sync_point() -> SyncPoint {
    let reading = |_| {
        let before = now();
        let raw = system(ClockId::MonotonicRaw);
        let real = system(ClockId::Realtime);
        let window = now().saturating_sub(before);
        SyncPoint {
            ticks: before + window / 2,
            raw,
            real,
            window,
        }
    };
    (0..READINGS)
        .map(reading)
        .min_by_key(|point| point.window)
        .expect("there is at least one reading")
}

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, which nobody sets or steers.
pub(crate) fn raw_ns() -> u64 {
    system(ClockId::MonotonicRaw)
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic_ns() -> u64 {
    system(ClockId::Monotonic)
}

fn system(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has RDTSC, and reading it changes nothing.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read the virtual counter, and reading it changes nothing.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    system(ClockId::Monotonic)
}

/// Whether the counter keeps its pace and never stops: what Linux calls `constant_tsc` and
/// `nonstop_tsc`, both of which it takes from this bit.
#[cfg(target_arch = "x86_64")]
fn counter_is_steady() -> bool {
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let cpuid = |leaf| {
        // SAFETY: every x86-64 processor has CPUID, and the leaf is asked for only if it is there.
        #[allow(unused_unsafe, reason = "safe since Rust 1.92")]
        unsafe {
            std::arch::x86_64::__cpuid(leaf)
        }
    };
    cpuid(0x8000_0000).eax >= POWER_LEAF && cpuid(POWER_LEAF).edx & INVARIANT != 0
}

#[cfg(target_arch = "aarch64")]
fn counter_is_steady() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter_is_steady() -> bool {
    false
}

/// The kernel watches the counters of all processors and leaves the clock source when they differ.
fn kernel_trusts_counter() -> bool {
    const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let wanted: &[u8] = if cfg!(target_arch = "aarch64") {
        b"arch_sys_counter"
    } else {
        b"tsc"
    };
    crate::area::read_small(CURRENT).is_ok_and(|text| text.trim_ascii() == wanted)
}

/// Turns ticks into nanoseconds since the Unix epoch, by two moments at which both are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    from: SyncPoint,
    ns_per_tick: f64,
}

impl Calibration {
    /// The line through two points; `None` if they are less than a microsecond apart.
    pub fn between(from: SyncPoint, to: SyncPoint) -> Option<Calibration> {
        let ticks = to.ticks.checked_sub(from.ticks)?;
        let ns = to.raw.checked_sub(from.raw)?;
        if ticks == 0 || ns < 1_000 {
            return None;
        }
        Some(Calibration {
            from,
            ns_per_tick: ns as f64 / ticks as f64,
        })
    }

    /// Nanoseconds since the Unix epoch at `ticks`.
    pub fn real(&self, ticks: u64) -> i64 {
        let since = ticks.wrapping_sub(self.from.ticks).cast_signed();
        self.from.real.cast_signed() + (since as f64 * self.ns_per_tick) as i64
    }

    /// Nanoseconds that `ticks` take.
    pub fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }

    /// Ticks of one second.
    pub fn ticks_per_second(&self) -> f64 {
        1e9 / self.ns_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_between_two_points_become_the_time_between_them() {
        let point = |ticks, at| SyncPoint {
            ticks,
            raw: at,
            real: 1_000_000 + at,
            window: 0,
        };
        let line = Calibration::between(point(500, 0), point(3_000_500, 1_000_000))
            .expect("a millisecond apart");
        assert_eq!(line.real(1_500_500), 1_500_000);
        assert_eq!(line.real(500), 1_000_000);
        assert_eq!(line.span(3_000), 1_000);
        assert!(Calibration::between(point(5, 0), point(5, 2_000)).is_none());
    }

    #[test]
    fn this_clock_does_not_go_back() {
        decide();
        let first = sync_point();
        let second = sync_point();
        assert!(second.ticks >= first.ticks);
        assert!(second.raw >= first.raw);
    }
}
