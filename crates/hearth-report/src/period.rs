//! A rhythm in the I/O: checkpoints that come again and again.
//!
//! The busy time by bin is laid over itself, moved by every lag (autocorrelation). The first lag at
//! which it fits well is the period.

use crate::report::Period;
use crate::strip::Strip;

/// A fit from which it is a rhythm.
const FIT_MIN: f64 = 0.4;
/// So many times it must come.
const TIMES_MIN: usize = 4;
/// Bins looked at.
const BINS_MAX: usize = 1024;

pub(crate) fn find(strip: &Strip) -> Option<Period> {
    let each = strip.bins.len().div_ceil(BINS_MAX).max(1);
    let runs = strip.bins.chunks(each);
    let busy: Vec<f64> = runs
        .map(|run| run.iter().flat_map(|bin| bin.took).sum::<u64>() as f64)
        .collect();
    let (lag, fit) = best_lag(&busy)?;
    let width = (strip.width() * each as u64) as f64 / 1e9;
    let peak = busy.iter().copied().fold(0.0, f64::max);
    let active = busy.iter().filter(|busy| **busy > 0.05 * peak).count();
    Some(Period {
        seconds: lag * width,
        confidence: fit,
        busy: active as f64 / busy.len() as f64,
    })
}

/// The lag in bins, with a fraction, and how well it fits.
fn best_lag(busy: &[f64]) -> Option<(f64, f64)> {
    let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
    let waves: Vec<f64> = busy.iter().map(|busy| busy - mean).collect();
    let power: f64 = waves.iter().map(|wave| wave * wave).sum();
    if power <= 0.0 {
        return None;
    }
    let fit = |lag: usize| {
        let pairs = waves[lag..].iter().zip(&waves);
        let both: f64 = pairs.map(|(a, b)| a * b).sum();
        both / power * waves.len() as f64 / (waves.len() - lag) as f64
    };
    let fits: Vec<f64> = (0..=waves.len() / TIMES_MIN).map(fit).collect();
    // The peak around lag 0 is the burst itself.
    let valley = fits.iter().position(|fit| *fit < 0.0)?;
    let highest = fits[valley..].iter().copied().fold(0.0, f64::max);
    if highest < FIT_MIN {
        return None;
    }
    let near = |lag: &usize| fits[*lag] >= 0.85 * highest;
    let from = (valley..fits.len()).find(near)?;
    let hill = (from..fits.len()).take_while(near);
    let lag = hill.max_by(|&a, &b| fits[a].total_cmp(&fits[b]))?;
    Some((centre(&fits, lag), fits[lag].min(1.0)))
}

/// The top of the parabola through a peak and its neighbours.
fn centre(fits: &[f64], lag: usize) -> f64 {
    let (Some(&before), Some(&after)) = (fits.get(lag.wrapping_sub(1)), fits.get(lag + 1)) else {
        return lag as f64;
    };
    let bend = before - 2.0 * fits[lag] + after;
    if bend >= 0.0 {
        return lag as f64;
    }
    lag as f64 + (0.5 * (before - after) / bend).clamp(-0.5, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_that_come_again_have_a_period() {
        let busy: Vec<f64> = (0..400)
            .map(|bin| f64::from(u8::from(bin % 37 < 6)))
            .collect();
        let (lag, fit) = best_lag(&busy).expect("there is a rhythm");
        assert!((lag - 37.0).abs() < 0.5, "{lag}");
        assert!(fit > 0.8, "{fit}");
    }

    #[test]
    fn steady_and_irregular_io_has_none() {
        assert_eq!(best_lag(&[1.0; 100]), None);
        assert_eq!(best_lag(&[]), None);
        let mut state = 1u64;
        let noise: Vec<f64> = (0..400)
            .map(|_| {
                state = crate::mix::mix(state + 1);
                (state % 100) as f64
            })
            .collect();
        assert_eq!(best_lag(&noise), None);
    }
}
