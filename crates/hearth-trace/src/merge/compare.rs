//! A machine's steady clock against the log server's, by questions and answers.
//!
//! An answer bounds the difference on both sides: the question was sent before it came, and the
//! answer was given before it returned. Of each stretch of ten seconds the quickest answers count;
//! a straight line through them is the clock of the stretch.

use super::Timeline;
use crate::file::Ping;

/// Nanoseconds of one stretch.
const STRETCH_NS: u64 = 10_000_000_000;
/// Of each stretch these parts each give their quickest answer,
const PARTS: u64 = 4;
/// and of all answers one in so many counts.
const ONE_IN: usize = 20;
/// Answers that lie closer together say nothing of the pace.
const SPREAD_MIN_NS: f64 = 10_000_000.0;

/// One answer: when, by how much the server is ahead, and half of what the way took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Answer {
    at: u64,
    ahead: i64,
    half: u64,
}

/// The server's time for the machine's, and how far it may be off; `None` without a usable answer.
pub(super) fn compare(pings: &[Ping]) -> Option<(Timeline, u64)> {
    let mut answers: Vec<Answer> = pings.iter().filter_map(answer).collect();
    answers.sort_by_key(|answer| answer.at);
    let (first, last) = (answers.first()?.at, answers.last()?.at);
    let stretches = ((last - first) / STRETCH_NS).max(1);
    let span = (last - first) / stretches + 1;
    let mut knots: Vec<(u64, i64)> = Vec::new();
    let mut best = Vec::new();
    for stretch in 0..stretches {
        let from = first + stretch * span;
        let of = answers.partition_point(|answer| answer.at < from)
            ..answers.partition_point(|answer| answer.at < from + span);
        let chosen = quickest(&answers[of], (from, span));
        let Some((start, pace)) = line(&chosen) else {
            continue;
        };
        let mut knot = |at: u64| {
            let since = at.wrapping_sub(start.0).cast_signed() as f64;
            let ahead = start.1 + (since * pace) as i64;
            knots.push((at, at.wrapping_add_signed(ahead).cast_signed()));
        };
        // The ends go on as their stretch does; between, middles are joined.
        if stretch == 0 {
            knot(from);
        }
        if stretches > 1 {
            knot(from + span / 2);
        }
        if stretch + 1 == stretches {
            knot(from + span - 1);
        }
        best.extend(chosen);
    }
    let timeline = Timeline::through(&knots, 1.0);
    let off = best.iter().map(|answer| {
        let said = answer.at.wrapping_add_signed(answer.ahead).cast_signed();
        timeline.at(answer.at).abs_diff(said) + answer.half
    });
    let bound = off.max()?;
    Some((timeline, bound))
}

fn answer(ping: &Ping) -> Option<Answer> {
    let way = ping.returned.checked_sub(ping.sent)?;
    let stay = ping.answered.checked_sub(ping.received)?;
    let half = way.checked_sub(stay)? / 2;
    let ahead = |server: u64, here: u64| server.wrapping_sub(here).cast_signed();
    let (out, back) = (
        ahead(ping.received, ping.sent),
        ahead(ping.answered, ping.returned),
    );
    Some(Answer {
        at: ping.sent + way / 2,
        ahead: back.saturating_add(out.saturating_sub(back) / 2),
        half,
    })
}

/// The answers that count of a stretch.
fn quickest(answers: &[Answer], (from, span): (u64, u64)) -> Vec<Answer> {
    let part_of = |answer: &Answer| (answer.at - from) * PARTS / span.max(1);
    let mut chosen: Vec<Answer> = (0..PARTS)
        .filter_map(|part| {
            let of_part = answers.iter().filter(|answer| part_of(answer) == part);
            of_part.min_by_key(|answer| answer.half).copied()
        })
        .collect();
    let mut by_way = answers.to_vec();
    by_way.sort_by_key(|answer| answer.half);
    let most = answers.len() / ONE_IN;
    for answer in by_way.into_iter().take(most) {
        if !chosen.contains(&answer) {
            chosen.push(answer);
        }
    }
    chosen
}

/// The line through some answers, the quick ones weighing more: a point, and nanoseconds ahead per
/// nanosecond.
fn line(answers: &[Answer]) -> Option<((u64, i64), f64)> {
    let anchor = *answers.iter().min_by_key(|answer| answer.half)?;
    let terms = answers.iter().map(|answer| {
        let x = answer.at.wrapping_sub(anchor.at).cast_signed() as f64;
        let y = answer.ahead.wrapping_sub(anchor.ahead) as f64;
        let weight = 1.0 / (answer.half as f64 + 1.0).powi(2);
        (x, y, weight)
    });
    let sum = terms.clone().fold((0.0, 0.0, 0.0), |sum, (x, y, w)| {
        (sum.0 + w, sum.1 + w * x, sum.2 + w * y)
    });
    let (x_mean, y_mean) = (sum.1 / sum.0, sum.2 / sum.0);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (x, y, weight) in terms.clone() {
        xx += weight * (x - x_mean).powi(2);
        xy += weight * (x - x_mean) * (y - y_mean);
    }
    let xs = terms.map(|(x, ..)| x);
    let spread = xs.clone().fold(f64::MIN, f64::max) - xs.fold(f64::MAX, f64::min);
    let pace = if spread < SPREAD_MIN_NS { 0.0 } else { xy / xx };
    let at = anchor.at.wrapping_add_signed(x_mean as i64);
    Some(((at, anchor.ahead.wrapping_add(y_mean as i64)), pace))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions every 20 ms of a clock that is hours off and drifts, over a way that jitters.
    fn pings(seconds: u64, skew: i64, ppm: f64, bend: f64) -> Vec<(Ping, u64)> {
        let mut state = 1_u64;
        let mut jitter = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(77);
            // Mostly a few microseconds, at times a millisecond.
            let base = (state >> 40) % 8_000;
            if state >> 61 == 0 { base * 100 } else { base }
        };
        let here = |truth: u64| {
            let t = truth as f64;
            let drifted = t * ppm / 1e6 + bend * (t / 1e9).powi(2);
            truth.wrapping_add_signed(skew + drifted as i64)
        };
        let base = 1 << 50;
        (0..seconds * 50)
            .map(|turn| {
                let sent = turn * 20_000_000;
                let received = sent + 10_000 + jitter();
                let answered = received + 1_000;
                let returned = answered + 10_000 + jitter();
                let ping = Ping {
                    server: 1,
                    sent: here(base + sent),
                    received: base + received,
                    answered: base + answered,
                    returned: here(base + returned),
                };
                (ping, base + sent)
            })
            .collect()
    }

    #[test]
    fn skew_and_drift_are_taken_out_within_the_bound() {
        for (seconds, skew, ppm, bend) in [
            (1, -7_200_000_000_000, 200.0, 0.0),
            (60, 36_000_000_000_000, -200.0, 0.0),
            (120, 5, 50.0, 20.0),
        ] {
            let pings = pings(seconds, skew, ppm, bend);
            let asked: Vec<Ping> = pings.iter().map(|(ping, _)| *ping).collect();
            let (timeline, bound) = compare(&asked).unwrap();
            assert!(bound < 60_000, "{bound}");
            for (ping, truth) in &pings {
                let off = timeline.at(ping.sent).abs_diff(*truth as i64);
                assert!(off <= bound, "{off} ns off, bound {bound}");
            }
        }
    }

    #[test]
    fn answers_that_cannot_be_do_not_count() {
        let ping = |sent, received, answered, returned| Ping {
            server: 1,
            sent,
            received,
            answered,
            returned,
        };
        assert!(compare(&[]).is_none());
        assert!(compare(&[ping(10, 0, 5, 3), ping(0, 9, 3, 1), ping(0, 0, 9, 1)]).is_none());
        let (timeline, bound) = compare(&[ping(100, 1050, 1060, 210)]).unwrap();
        assert_eq!((timeline.at(155), bound), (1055, 50));
    }
}
