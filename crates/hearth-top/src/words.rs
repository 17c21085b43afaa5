//! Numbers in few letters.

/// Units of 1024 each; `bytes` and `count` say of what.
const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

/// Bytes in at most six letters: `512B`, `64.2M`. Units are powers of 1024.
pub(crate) fn bytes(count: u64) -> String {
    short(count, 1024.0, "B")
}

/// A count in at most six letters: `512`, `64.2K`. Units are powers of 1000.
pub(crate) fn count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        _ => short(count, 1000.0, ""),
    }
}

/// A share, as `97 %`, or a line if there is none.
pub(crate) fn percent(share: Option<u64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{share} %"))
}

fn short(count: u64, unit: f64, one: &str) -> String {
    let mut value = count as f64;
    let mut letter = None;
    for next in UNITS {
        if value < unit {
            break;
        }
        value /= unit;
        letter = Some(next);
    }
    match letter {
        None => format!("{count}{one}"),
        Some(letter) if value < 99.95 => format!("{value:.1}{letter}"),
        Some(letter) => format!("{value:.0}{letter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_six_letters() {
        assert_eq!(bytes(1023), "1023B");
        assert_eq!(bytes(64 << 20), "64.0M");
        assert_eq!(bytes(1000 << 20), "1000M");
        assert_eq!(count(9999), "9999");
        assert_eq!(count(64_200), "64.2K");
        for exponent in 0..64 {
            for number in [(1 << exponent) - 1, 1 << exponent] {
                assert!(bytes(number).len() <= 6, "{}", bytes(number));
                assert!(count(number).len() <= 6, "{}", count(number));
            }
        }
    }
}
