//! Words for people.

/// A number of things, by the name of one: `1 byte`, `2 bytes`.
pub fn counted(count: impl TryInto<u64>, one: &str) -> String {
    // A count that is too large for a number is many.
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        many if one.ends_with('s') => format!("{many} {one}es"),
        many => format!("{many} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(counted(0_u32, "byte"), "0 bytes");
        assert_eq!(counted(1_usize, "byte"), "1 byte");
        assert_eq!(counted(2_u64, "byte"), "2 bytes");
        assert_eq!(counted(2_u64, "process"), "2 processes");
    }
}
