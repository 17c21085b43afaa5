//! Sizes and spans as people write them: `256KiB`, `4M`, `1s`, `500ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Size(pub u64);

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HumanDuration(pub Duration);

/// Units by their letter; all are powers of two.
const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let (number, unit) = split(text);
        let number: u64 = number
            .parse()
            .map_err(|_| format!("`{text}` is not a size such as 256KiB, 4M or 65536"))?;
        let shift = shift_of(unit)
            .ok_or_else(|| format!("unknown unit in `{text}`: use KiB, MiB, GiB (or K, M, G)"))?;
        number
            .checked_mul(1 << shift)
            .map(Size)
            .ok_or_else(|| format!("`{text}` is too large"))
    }
}

/// Powers of 1000 are refused rather than taken for powers of 1024.
fn shift_of(unit: &str) -> Option<u32> {
    if unit.is_empty() || unit == "B" {
        return Some(0);
    }
    let (letter, rest) = unit.split_at_checked(1)?;
    if !rest.is_empty() && rest != "iB" {
        return None;
    }
    let letter = letter.to_ascii_uppercase();
    UNITS
        .iter()
        .find_map(|(name, shift)| letter.starts_with(*name).then_some(*shift))
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, shift)| self.0 >> shift != 0);
        let Some((letter, shift)) = unit else {
            return write!(f, "{} B", self.0);
        };
        if self.0.trailing_zeros() >= *shift {
            write!(f, "{} {letter}iB", self.0 >> shift)
        } else {
            let value = self.0 as f64 / (1u64 << shift) as f64;
            write!(f, "{value:.1} {letter}iB")
        }
    }
}

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<HumanDuration, String> {
        let (number, unit) = split(text);
        let wrong = || format!("`{text}` is not a time such as 1s, 500ms or 2m");
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let millis = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "" if number == 0 => 0,
            _ => return Err(wrong()),
        };
        let millis = number.checked_mul(millis).ok_or_else(wrong)?;
        Ok(HumanDuration(Duration::from_millis(millis)))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis.is_multiple_of(1000) {
            write!(f, "{}s", millis / 1000)
        } else {
            write!(f, "{millis}ms")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed() {
        for (text, bytes, printed) in [
            ("0", 0, "0 B"),
            ("512", 512, "512 B"),
            ("256KiB", 256 << 10, "256 KiB"),
            ("4M", 4 << 20, "4 MiB"),
            ("4m", 4 << 20, "4 MiB"),
            ("1 GiB", 1 << 30, "1 GiB"),
            ("1536", 1536, "1.5 KiB"),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
            assert_eq!(Size(bytes).to_string(), printed);
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "K",
            "-1",
            "4MB",
            "1.5M",
            "4X",
            "4KiBs",
            "99999999999T",
            "4é",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_read_and_printed() {
        for (text, millis, printed) in [
            ("1s", 1000, "1s"),
            ("500ms", 500, "500ms"),
            ("2m", 120_000, "120s"),
            ("0", 0, "0s"),
        ] {
            let span = HumanDuration(Duration::from_millis(millis));
            assert_eq!(text.parse(), Ok(span), "{text}");
            assert_eq!(span.to_string(), printed);
        }
        assert!("1".parse::<HumanDuration>().is_err());
        assert!("s".parse::<HumanDuration>().is_err());
    }
}
