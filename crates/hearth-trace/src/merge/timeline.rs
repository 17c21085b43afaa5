//! From ticks to nanoseconds, piece by piece on straight lines.
//!
//! 1. A timeline never goes back: later ticks are no earlier time.

/// A piece of a timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Line {
    /// It holds for ticks from here on,
    from: u64,
    /// and for less than these.
    to: u64,
    /// A point of it, and how it goes on.
    ticks: u64,
    ns: i64,
    ns_per_tick: f64,
}

impl Line {
    /// Whether these ticks are on this piece.
    #[inline]
    pub(crate) fn holds(&self, ticks: u64) -> bool {
        self.from <= ticks && ticks < self.to
    }

    /// The time at these ticks.
    #[inline]
    pub(crate) fn at(&self, ticks: u64) -> i64 {
        let since = ticks.wrapping_sub(self.ticks).cast_signed();
        self.ns
            .saturating_add((since as f64 * self.ns_per_tick) as i64)
    }

    /// The time that so many ticks take.
    #[inline]
    pub(crate) fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }
}

/// The meaning of one clock's ticks: their time in the trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timeline {
    lines: Vec<Line>,
}

impl Timeline {
    /// Goes through points of ticks and nanoseconds. With fewer than two, a tick is
    /// `ns_per_tick` nanoseconds.
    pub(crate) fn through(points: &[(u64, i64)], ns_per_tick: f64) -> Timeline {
        let mut points = points.to_vec();
        points.sort_unstable();
        points.dedup_by(|next, kept| next.0 <= kept.0 || next.1 < kept.1);
        let mut lines: Vec<Line> = points
            .windows(2)
            .map(|pair| {
                let (from, to) = (pair[0], pair[1]);
                let ticks = (to.0 - from.0) as f64;
                Line {
                    from: from.0,
                    to: to.0,
                    ticks: from.0,
                    ns: from.1,
                    ns_per_tick: to.1.saturating_sub(from.1) as f64 / ticks,
                }
            })
            .collect();
        if lines.is_empty() {
            let (ticks, ns) = points.first().copied().unwrap_or((0, 0));
            lines.push(Line {
                from: 0,
                to: u64::MAX,
                ticks,
                ns,
                ns_per_tick,
            });
        }
        let last = lines.len() - 1;
        lines[0].from = 0;
        lines[last].to = u64::MAX;
        Timeline { lines }
    }

    /// The same, moved by `by` at every time; straight between the points and `times`.
    pub(crate) fn bent(
        &self,
        times: impl Iterator<Item = i64>,
        by: impl Fn(i64) -> i64,
    ) -> Timeline {
        let last = self.lines.len() - 1;
        let ends = self.lines.iter().enumerate().flat_map(|(at, line)| {
            let end = (at < last).then_some(line.to);
            [Some(line.ticks), end].into_iter().flatten()
        });
        let mut ticks: Vec<u64> = ends.collect();
        ticks.extend(times.filter_map(|time| self.ticks_at(time)));
        let points: Vec<(u64, i64)> = ticks
            .into_iter()
            .map(|ticks| (ticks, self.at(ticks)))
            .map(|(ticks, time)| (ticks, time.saturating_add(by(time))))
            .collect();
        Timeline::through(&points, self.lines[last].ns_per_tick)
    }

    /// Ticks at a time.
    fn ticks_at(&self, time: i64) -> Option<u64> {
        let after = self.lines.partition_point(|line| line.ns <= time);
        let line = &self.lines[after.saturating_sub(1)];
        let since = time.saturating_sub(line.ns) as f64 / line.ns_per_tick;
        let ticks = line.ticks.checked_add_signed(since as i64)?;
        since.is_finite().then_some(ticks)
    }

    /// The piece that holds these ticks.
    pub(crate) fn line(&self, ticks: u64) -> Line {
        let at = self.lines.partition_point(|line| line.to <= ticks);
        self.lines[at.min(self.lines.len() - 1)]
    }

    /// The time at these ticks.
    pub(crate) fn at(&self, ticks: u64) -> i64 {
        self.line(ticks).at(ticks)
    }

    /// The time that so many ticks take, about `ticks`.
    pub(crate) fn span(&self, about: u64, ticks: u64) -> u64 {
        self.line(about).span(ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kept_between_is_straight_and_beyond_goes_on() {
        let timeline = Timeline::through(&[(100, 1000), (200, 1100), (300, 1300)], 1.0);
        for (ticks, ns) in [(100, 1000), (200, 1100), (300, 1300)] {
            assert_eq!(timeline.at(ticks), ns);
        }
        assert_eq!(timeline.at(150), 1050);
        assert_eq!(timeline.at(250), 1200);
        assert_eq!(timeline.at(50), 950);
        assert_eq!(timeline.at(400), 1500);
    }

    #[test]
    fn points_that_go_back_are_left_out() {
        let timeline = Timeline::through(&[(100, 1000), (150, 900), (200, 1100)], 1.0);
        let times: Vec<i64> = (100..=200).map(|ticks| timeline.at(ticks)).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn one_point_or_none_is_enough() {
        assert_eq!(Timeline::through(&[(10, 5)], 2.0).at(20), 25);
        assert_eq!(Timeline::through(&[], 1.0).at(20), 20);
        assert_eq!(Timeline::through(&[], 1.0).at(u64::MAX), -1, "as i64");
    }
}
