//! Numbers and texts as they stand in the payloads of frames.

/// Bytes that no writer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame does not hold what its kind says")]
pub struct Malformed;

/// A value that can stand in a payload.
pub(crate) trait Field<'a>: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut &'a [u8]) -> Result<Self, Malformed>;
}

impl<'a> Field<'a> for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut value = *self;
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn take(input: &mut &'a [u8]) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = input.split_first().ok_or(Malformed)?;
            *input = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }
}

macro_rules! narrow {
    ($($type:ty),+) => {$(
        impl<'a> Field<'a> for $type {
            fn put(&self, out: &mut Vec<u8>) {
                u64::from(*self).put(out);
            }

            fn take(input: &mut &'a [u8]) -> Result<$type, Malformed> {
                <$type>::try_from(u64::take(input)?).map_err(|_| Malformed)
            }
        }
    )+};
}

narrow!(u8, u32);

impl<'a> Field<'a> for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(input: &mut &'a [u8]) -> Result<u128, Malformed> {
        let (bytes, rest) = input.split_first_chunk().ok_or(Malformed)?;
        *input = rest;
        Ok(u128::from_le_bytes(*bytes))
    }
}

impl<'a> Field<'a> for &'a [u8] {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self);
    }

    fn take(input: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(u64::take(input)?).map_err(|_| Malformed)?;
        let (bytes, rest) = input.split_at_checked(len).ok_or(Malformed)?;
        *input = rest;
        Ok(bytes)
    }
}
