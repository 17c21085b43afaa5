//! The return value of a call, whatever its type.

/// A type that calls of the C library return.
pub(crate) trait Outcome: Copy {
    /// The value returned when the C library does not have the call.
    const FAILED: Self;

    /// Whether the call failed, and so set `errno`.
    fn failed(self) -> bool;

    /// Bytes done, a descriptor, or whatever the call counts.
    fn count(self) -> i64;
}

macro_rules! signed {
    ($($ty:ty)+) => {$(
        impl Outcome for $ty {
            const FAILED: $ty = -1;

            #[inline(always)]
            fn failed(self) -> bool {
                self < 0
            }

            #[inline(always)]
            #[allow(clippy::unnecessary_cast, reason = "one of the types is i64 itself")]
            fn count(self) -> i64 {
                self as i64
            }
        }
    )+};
}

signed!(i32 i64 isize);

/// Counts of items, as stdio returns them.
impl Outcome for usize {
    const FAILED: usize = 0;

    #[inline(always)]
    fn failed(self) -> bool {
        false
    }

    #[inline(always)]
    fn count(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

/// Null for most, all ones for `mmap`.
impl<T> Outcome for *mut T {
    const FAILED: *mut T = std::ptr::null_mut();

    #[inline(always)]
    fn failed(self) -> bool {
        self.is_null() || self.addr() == usize::MAX
    }

    #[inline(always)]
    fn count(self) -> i64 {
        0
    }
}

impl Outcome for () {
    const FAILED: () = ();

    #[inline(always)]
    fn failed(self) -> bool {
        false
    }

    #[inline(always)]
    fn count(self) -> i64 {
        0
    }
}
