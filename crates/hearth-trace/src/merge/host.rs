//! A machine's own clock against the clock of the trace.

use std::collections::BTreeMap;

use super::Timeline;
use super::compare::compare;
use crate::file::{ClockPoint, Ping};

/// A clock of nanoseconds; ticks of others are not known to be any.
const CLOCK_MONOTONIC: u8 = 2;
/// A step of the machine's wall clock of more than this is worth a sentence: what steering may do in
/// the time between, and a thousandth of a second.
const STEP_NS: u64 = 1_000_000;
/// Nanoseconds by which steering may move a wall clock in a second.
const STEERED_PER_SECOND: u64 = 500_000;

/// A machine's steady clock, on the clock of the trace.
pub(crate) struct HostClock {
    /// Nanoseconds of the trace for the steady clock's own.
    steady: Timeline,
    /// By how much it may be off.
    pub(crate) bound: Option<u64>,
    /// Remarks about it for people.
    pub(crate) remarks: Vec<String>,
}

impl HostClock {
    /// The clock of a machine that nobody compared with another: as its wall clock stood when
    /// tracing began.
    pub(crate) fn alone(points: &[ClockPoint]) -> HostClock {
        let first = points.iter().min_by_key(|point| point.raw);
        let anchor = first.map(|point| (point.raw, point.real.cast_signed()));
        HostClock {
            steady: Timeline::through(anchor.as_slice(), 1.0),
            bound: None,
            remarks: steps(points),
        }
    }

    /// The clock of a machine whose steady clock was compared with the log server's; as
    /// [`alone`](Self::alone) if that did not succeed.
    pub(crate) fn compared(points: &[ClockPoint], pings: &[Ping]) -> HostClock {
        let Some((steady, bound)) = compare(pings) else {
            return HostClock::alone(points);
        };
        let mut remarks = steps(points);
        if pings
            .windows(2)
            .any(|pair| pair[0].server != pair[1].server)
        {
            remarks.push(
                "the log server began anew, and its clock with it; times before and after may be \
                 apart by as much as its wall clock was steered between"
                    .to_owned(),
            );
        }
        HostClock {
            steady,
            bound: Some(bound),
            remarks,
        }
    }

    /// The timelines of the machine's clocks, which tell the meaning of their ticks.
    pub(crate) fn timelines(&self, points: &[ClockPoint]) -> BTreeMap<u8, Timeline> {
        let mut by_clock: BTreeMap<u8, Vec<ClockPoint>> = BTreeMap::new();
        for point in points {
            by_clock.entry(point.clock).or_default().push(*point);
        }
        let timelines = by_clock.into_iter().map(|(clock, points)| {
            let points: Vec<(u64, i64)> = sharp(points)
                .iter()
                .map(|point| (point.ticks, self.steady.at(point.raw)))
                .collect();
            (clock, Timeline::through(&points, 1.0))
        });
        timelines.collect()
    }

    /// Whether one point is enough to know what ticks mean.
    pub(crate) fn ticks_are_ns(clock: u8) -> bool {
        clock == CLOCK_MONOTONIC
    }
}

/// The points whose readings lie close together; at least the two sharpest.
fn sharp(mut points: Vec<ClockPoint>) -> Vec<ClockPoint> {
    points.sort_by_key(|point| point.window);
    let usual = points.get(points.len() / 2).map_or(0, |point| point.window);
    let mut at = 0;
    points.retain(|point| {
        at += 1;
        at <= 2 || point.window <= usual.saturating_mul(4)
    });
    points
}

/// Sentences about steps of the wall clock.
fn steps(points: &[ClockPoint]) -> Vec<String> {
    let mut points = points.to_vec();
    points.sort_by_key(|point| point.raw);
    let away = |point: &ClockPoint| point.real.wrapping_sub(point.raw).cast_signed();
    let stepped = points.windows(2).filter_map(|pair| {
        let step = away(&pair[1]).wrapping_sub(away(&pair[0]));
        let seconds = (pair[1].raw - pair[0].raw) as f64 / 1e9;
        let steered = STEP_NS + (seconds * STEERED_PER_SECOND as f64) as u64;
        (step.unsigned_abs() > steered).then(|| {
            let way = if step > 0 { "forward" } else { "back" };
            format!(
                "the wall clock was set {way} by {:.3} s; the trace does not follow",
                step.unsigned_abs() as f64 / 1e9
            )
        })
    });
    stepped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ticks: u64, raw: u64, real: u64, window: u64) -> ClockPoint {
        ClockPoint {
            clock: 1,
            ticks,
            raw,
            real,
            window,
        }
    }

    #[test]
    fn ticks_become_wall_time_and_blunt_points_do_not_count() {
        let points = [
            point(1_000, 10_000, 5_000_000, 10),
            point(3_000, 11_000, 5_001_000, 10),
            // Somebody was in between: 500 ns late.
            point(4_000, 12_000, 5_002_000, 4000),
            point(5_000, 12_000, 5_002_000, 10),
        ];
        let clock = HostClock::alone(&points);
        let timeline = &clock.timelines(&points)[&1];
        assert_eq!(timeline.at(2_000), 5_000_500);
        assert_eq!(timeline.at(4_000), 5_001_500);
        assert_eq!(clock.remarks, Vec::<String>::new());
    }

    #[test]
    fn a_wall_clock_that_is_set_is_noticed_and_not_followed() {
        let second = 1_000_000_000;
        let points = [
            point(0, 0, second, 1),
            point(10, second, 2 * second, 1),
            point(20, 2 * second, 3600 * second, 1),
        ];
        let clock = HostClock::alone(&points);
        assert_eq!(clock.remarks.len(), 1);
        assert!(
            clock.remarks[0].contains("forward by 3597.000 s"),
            "{:?}",
            clock.remarks
        );
        assert_eq!(clock.timelines(&points)[&1].at(20), 3 * second as i64);
    }
}
