//! Numbers as people read them.

/// Seconds with a fitting unit.
pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        size if size >= 7200.0 => (seconds / 3600.0, "h"),
        size if size >= 120.0 => (seconds / 60.0, "min"),
        size if size >= 0.9995 => (seconds, "s"),
        size if size >= 0.9995e-3 => (seconds * 1e3, "ms"),
        size if size >= 0.9995e-6 => (seconds * 1e6, "µs"),
        size if size > 0.0 => (seconds * 1e9, "ns"),
        _ => (0.0, "s"),
    };
    format!("{} {unit}", three(value))
}

/// Nanoseconds with a fitting unit.
pub(crate) fn nanos(nanos: f64) -> String {
    time(nanos / 1e9)
}

/// Bytes with a fitting unit.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 1023.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three(value), units[unit])
}

/// A size as options take it.
pub(crate) fn option_size(bytes: f64) -> String {
    let mib = (bytes / f64::from(1 << 20)).ceil().max(1.0) as u64;
    if bytes < f64::from(1 << 20) {
        format!("{}KiB", ((bytes / 1024.0).ceil() as u64).max(4))
    } else if mib >= 4096 {
        format!("{}GiB", mib.div_ceil(1024))
    } else {
        format!("{mib}MiB")
    }
}

/// A count with its thousands apart.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something.
pub(crate) fn plural(number: u64, word: &str) -> String {
    let ending = match (number, word.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {word}{ending}", count(number))
}

/// A share of one.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value > 0.0 && value < 0.95 {
        return format!("{value:.1} %");
    }
    format!("{value:.0} %")
}

/// A moment, in UTC.
pub(crate) fn date(nanos: i64) -> String {
    let seconds = nanos.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a day since 1970-01-01, in years that begin in March.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097;
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (cycle * 400 + year + later, month, day)
}

/// Three digits that count.
fn three(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 || value == 0.0 || (value.fract() == 0.0 && size < 1000.0) {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_three_digits() {
        assert_eq!(time(0.000_012_34), "12.3 µs");
        assert_eq!(time(75.0), "75 s");
        assert_eq!(time(5400.0), "90 min");
        assert_eq!(time(0.0), "0 s");
        assert_eq!(bytes(262_144.0), "256 KiB");
        assert_eq!(bytes(1_500_000.0), "1.43 MiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(date(1_767_225_600_000_000_000), "2026-01-01 00:00:00 UTC");
        assert_eq!(date(951_827_696_000_000_000), "2000-02-29 12:34:56 UTC");
        assert_eq!(date(-1), "1969-12-31 23:59:59 UTC");
        assert_eq!(option_size(300.0 * 1048576.0), "300MiB");
    }
}
