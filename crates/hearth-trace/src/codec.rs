//! Packs the records of one thread: predictable parts are left out, the rest is differences.
//!
//! A block is at most [`BLOCK_RECORDS_MAX`] records and stands for itself. Both sides keep the same
//! [`Model`](model::Model) of the thread: 64 *lines*, each remembering the last operation of one kind
//! on one file. Of a record that goes as its line expects, two control bytes, the time since the
//! record before, and the duration are left:
//!
//! ```text
//! byte 0   bits 0-5 the line; bits 6-7 where: 0 at the end of the line's last, 1 one stride on,
//!          2 at the same place, 3 elsewhere
//! byte 1   bits 0-2 length of the time since the end of the record before (see START_LEN)
//!          bits 3-4 length of the duration, less one
//!          bit 5 another shape, bit 6 another request, bit 7 another sequence number
//! then     time, duration, [offset], [shape], [request], [sequence number]
//! ```
//!
//! 1. Decoding gives every bit of every record back, whatever the records were.
//! 2. Bytes that no encoder wrote give an error or wrong records, never a panic, and never more
//!    records than were asked for.

mod decode;
mod encode;
mod model;

pub use decode::{Malformed, decode};
pub use encode::Encoder;

/// Records in one block.
pub const BLOCK_RECORDS_MAX: usize = 4096;
/// Bytes of one encoded record at most.
const RECORD_LEN_MAX: usize = 96;
/// Zeroes at the end of a block, so that eight bytes can be read at each of its records.
const PAD: usize = 8;

/// Bytes of the time since the end of the record before, by code; codes from
/// [`START_BACKWARD`] on say that the record began before that end.
const START_LEN: [usize; 8] = [1, 2, 3, 4, 5, 8, 3, 8];
const START_BACKWARD: usize = 6;

const SHAPE: u8 = 1 << 5;
const REQUEST: u8 = 1 << 6;
const SEQ: u8 = 1 << 7;

/// The place of a record's offset, relative to its line's last.
mod place {
    pub(super) const END: u8 = 0;
    pub(super) const STRIDE: u8 = 1;
    pub(super) const SAME: u8 = 2;
    pub(super) const ELSEWHERE: u8 = 3;
}

/// The parts of a record's shape that are not as its line expects; one byte of these goes before
/// the fields.
mod change {
    pub(super) const IDENTITY: u8 = 1;
    pub(super) const FLAGS: u8 = 1 << 1;
    pub(super) const ASKED: u8 = 1 << 2;
    pub(super) const RESULT: u8 = 1 << 3;
    pub(super) const NEAR: u8 = 1 << 4;
    pub(super) const PEER: u8 = 1 << 5;
    pub(super) const DEPTH: u8 = 1 << 6;
    pub(super) const THREAD: u8 = 1 << 7;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, Record};

    fn round_trip(records: &[Record]) {
        let mut encoder = Encoder::new();
        let bytes = encoder.encode(records).to_vec();
        let mut back = Vec::new();
        decode(&bytes, records.len(), |record| back.push(record)).expect("own bytes decode");
        assert_eq!(back, records);
    }

    /// A record of bytes that nobody chose.
    fn noise(state: &mut u64) -> Record {
        let mut word = || {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Some words are small or extreme, as real ones are.
            match *state >> 61 {
                0 => 0,
                1 => u64::MAX,
                2 => (*state >> 32) & 0xff,
                _ => state.rotate_left(9),
            }
        };
        Record {
            start: word(),
            took: word() as u32,
            op: word() as u8,
            layer: word() as u8,
            flags: Flags(word() as u16),
            offset: word(),
            asked: word() as u32,
            result: word() as i32,
            file: word() as u32,
            thread: word() as u32,
            request: word(),
            near: word() as u32,
            peer: word() as u16,
            depth: word() as u16,
            seq: word(),
        }
    }

    #[test]
    fn any_records_come_back() {
        let mut state = 1;
        for len in [0, 1, 2, 63, 1000, BLOCK_RECORDS_MAX] {
            let records: Vec<Record> = (0..len).map(|_| noise(&mut state)).collect();
            round_trip(&records);
        }
    }

    #[test]
    fn an_encoder_forgets_the_block_before() {
        let mut state = 2;
        let records: Vec<Record> = (0..100).map(|_| noise(&mut state)).collect();
        let mut encoder = Encoder::new();
        let first = encoder.encode(&records).to_vec();
        assert_eq!(encoder.encode(&records), first);
    }

    #[test]
    fn bytes_that_nobody_encoded_never_panic() {
        let mut state = 3_u64;
        for round in 0..2000 {
            let bytes: Vec<u8> = (0..round % 200)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let mut count = 0;
            let _ = decode(&bytes, 50, |_| count += 1);
            assert!(count <= 50);
        }
    }

    #[test]
    fn a_changed_byte_of_a_block_never_panics() {
        let mut state = 4;
        let records: Vec<Record> = (0..20).map(|_| noise(&mut state)).collect();
        let bytes = Encoder::new().encode(&records).to_vec();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut hurt = bytes.clone();
                hurt[at] ^= 1 << bit;
                let _ = decode(&hurt, records.len(), |_| {});
            }
        }
    }
}
