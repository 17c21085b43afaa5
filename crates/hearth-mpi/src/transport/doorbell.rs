//! Doorbells, by which members tell each other beside MPI that something is in it.

/// One doorbell, as the head of a frame without payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Doorbell {
    /// A message is under way: the number of its first piece, and the lengths of head and payload.
    Message { first: u64, lens: [usize; 2] },
    /// So many bytes have been passed on since the connection stands.
    Passed(u64),
}

const MESSAGE: u8 = 1;
const PASSED: u8 = 2;

impl Doorbell {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(17);
        match self {
            Doorbell::Message { first, lens } => {
                bytes.push(MESSAGE);
                bytes.extend_from_slice(&first.to_le_bytes());
                for len in lens {
                    let len = u32::try_from(len).expect("a frame is not longer");
                    bytes.extend_from_slice(&len.to_le_bytes());
                }
            }
            Doorbell::Passed(count) => {
                bytes.push(PASSED);
                bytes.extend_from_slice(&count.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads one; `None` if it is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Doorbell> {
        let (kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let number = u64::from_le_bytes(*number);
        match (*kind, rest.split_first_chunk()) {
            (PASSED, None) if rest.is_empty() => Some(Doorbell::Passed(number)),
            (MESSAGE, Some((head, rest))) => {
                let len = |bytes: [u8; 4]| u32::from_le_bytes(bytes) as usize;
                Some(Doorbell::Message {
                    first: number,
                    lens: [len(*head), len(rest.try_into().ok()?)],
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_arrive_as_they_were_rung_and_nothing_else_does() {
        let message = Doorbell::Message {
            first: 1 << 40,
            lens: [7, 16 << 20],
        };
        for doorbell in [message, Doorbell::Passed(3)] {
            let bytes = doorbell.encode();
            assert_eq!(Doorbell::decode(&bytes), Some(doorbell));
            for len in 0..bytes.len() {
                assert_eq!(Doorbell::decode(&bytes[..len]), None);
            }
            assert_eq!(Doorbell::decode(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Doorbell::decode(&[9; 9]), None);
    }
}
