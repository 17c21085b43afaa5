//! Words for people.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

/// Prints a line on standard error, as `eprintln!` does.
#[macro_export]
macro_rules! say {
    ($($word:tt)*) => {
        $crate::words::say(format_args!($($word)*))
    };
}

/// Set by a command on a terminal. Libraries in programs of others paint nothing.
static PAINTER: OnceLock<fn(&str) -> String> = OnceLock::new();

/// Passes all that is said from now on through a painter. The first one stays.
pub fn paint_with(painter: fn(&str) -> String) {
    // A second painter is a second start of one command, which has the same.
    let _ = PAINTER.set(painter);
}

/// Prints a line on standard error, in one write: commands that run at once, as under a launcher, do not mix theirs.
pub fn say(words: fmt::Arguments<'_>) {
    let line = format!("{words}\n");
    let line = match PAINTER.get() {
        Some(paint) => paint(&line),
        None => line,
    };
    // As with `eprintln!` there is nobody to tell; but a closed stream is no reason to panic.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A number of things, by the name of one: `1 byte`, `2 bytes`.
pub fn counted(count: impl TryInto<u64>, one: &str) -> String {
    // A count that is too large for a number is many.
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        many if one.ends_with('s') => format!("{many} {one}es"),
        many => format!("{many} {one}s"),
    }
}

/// A span of so many seconds, in its largest whole unit: `50 s`, `3 min`, `2 h`, `4 d`.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_one_unit() {
        let spans = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(span);
        let told = ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"];
        assert_eq!(spans, told);
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(counted(0_u32, "byte"), "0 bytes");
        assert_eq!(counted(1_usize, "byte"), "1 byte");
        assert_eq!(counted(2_u64, "byte"), "2 bytes");
        assert_eq!(counted(2_u64, "process"), "2 processes");
    }
}
