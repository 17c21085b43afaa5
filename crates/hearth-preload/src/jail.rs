//! Whether the process is in a jail that it was put into after `hearth run`: one that may end it for a
//! system call that it would not make itself.
//!
//! A container's own filters are those that `hearth run` has, too, and are no reason for care.

use crate::sys;

/// How many filters `hearth run` has.
const VARIABLE: &str = "HEARTH_FILTERS";
/// The operating system's status of a process is shorter.
const STATUS_MAX: usize = 4096;

/// Looks at what the operating system says of this process, with calls that the dynamic linker has just
/// made as well.
pub(crate) fn is_closer() -> bool {
    let told = std::env::var(VARIABLE).ok();
    let Some(usual) = told.and_then(|told| told.parse::<u32>().ok()) else {
        return false;
    };
    let mut text = [0; STATUS_MAX];
    let read = sys::own_status().and_then(|file| sys::read_more(&file, &mut text));
    // Without an answer, a filter is assumed.
    read.and_then(|len| filters(text.get(..len)?))
        .is_none_or(|filters| filters > usual)
}

fn filters(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let count = lines.find_map(|line| line.strip_prefix(b"Seccomp_filters:"))?;
    std::str::from_utf8(count).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::filters;

    #[test]
    fn filters_are_counted() {
        let status = b"Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t3\nSpeculation";
        assert_eq!(filters(status), Some(3));
        assert_eq!(filters(b"Name:\tx\nSeccomp:\t0\n"), None);
    }
}
