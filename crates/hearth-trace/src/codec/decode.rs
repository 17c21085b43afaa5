//! Bytes become records.

use super::model::{Model, unfold};
use super::{PAD, REQUEST, SEQ, SHAPE, START_BACKWARD, START_LEN, change, place};
use crate::{Flags, Record};

/// Bytes that no encoder wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block is not what an encoder writes")]
pub struct Malformed;

/// Hands out the `count` records of a block, in their order. Records that were handed out before an
/// error are not to be trusted.
#[inline]
pub fn decode(bytes: &[u8], count: usize, mut take: impl FnMut(Record)) -> Result<(), Malformed> {
    let mut model = Model::new();
    let mut input = In { bytes, at: 0 };
    for _ in 0..count {
        take(one(&mut model, &mut input)?);
    }
    if input.at + PAD == bytes.len() {
        Ok(())
    } else {
        Err(Malformed)
    }
}

#[inline]
fn one(model: &mut Model, input: &mut In<'_>) -> Result<Record, Malformed> {
    let head = input.word(2)?;
    let line = (head & 0x3f) as usize;
    let place = (head >> 6 & 3) as u8;
    let control = (head >> 8) as u8;
    let start_code = usize::from(control & 7);
    let since = input.word(START_LEN[start_code])?;
    let start = if start_code >= START_BACKWARD {
        model.end.wrapping_sub(since)
    } else {
        model.end.wrapping_add(since)
    };
    let took = input.word(usize::from(control >> 3 & 3) + 1)? as u32;
    let away = if place == place::ELSEWHERE {
        away(input)?
    } else {
        0
    };
    let mut record = if control & SHAPE == 0 {
        expected(model, line)
    } else {
        shape(model, line, input)?
    };
    let line_then = &model.lines[line];
    record.offset = match place {
        place::END => line_then.end,
        place::STRIDE => line_then.offset.wrapping_add(line_then.stride),
        place::SAME => line_then.offset,
        _ => line_then.end.wrapping_add(away),
    };
    record.start = start;
    record.took = took;
    record.request = if control & REQUEST == 0 {
        model.next_request()
    } else {
        let step = unfold(input.varint()?) as u64;
        model.request.wrapping_add(step)
    };
    let step = if control & SEQ == 0 {
        1
    } else {
        input.varint()?
    };
    record.seq = model.seq.wrapping_add(step);
    model.learn(line, &record);
    Ok(record)
}

/// The distance of another place from the end of the line's last.
fn away(input: &mut In<'_>) -> Result<u64, Malformed> {
    let pages = input.varint()?;
    let within = if pages & 1 == 0 { 0 } else { input.word(2)? };
    Ok((unfold(pages >> 1) << 12) as u64 | within)
}

/// A record that goes as its line expects; place and times are for the caller.
#[inline]
fn expected(model: &Model, line: usize) -> Record {
    let key = model.key(line);
    let line = &model.lines[line];
    let result = line.result(line.asked);
    Record {
        start: 0,
        took: 0,
        op: (key >> 32) as u8,
        layer: (key >> 40) as u8,
        flags: line.flags,
        offset: 0,
        asked: line.asked,
        result,
        file: key as u32,
        thread: line.thread,
        request: 0,
        near: line.near(result),
        peer: line.peer,
        depth: line.depth,
        seq: 0,
    }
}

fn shape(model: &mut Model, line: usize, input: &mut In<'_>) -> Result<Record, Malformed> {
    let changed = input.word(1)? as u8;
    let has = |bit: u8| changed & bit != 0;
    if has(change::IDENTITY) {
        let words = input.word(2)?;
        let file = i64::from(model.file).wrapping_add(unfold(input.varint()?)) as u32;
        model.assign(line, u64::from(file) | words << 32);
    }
    let mut record = expected(model, line);
    if has(change::FLAGS) {
        record.flags = Flags(record.flags.0 ^ input.varint()? as u16);
    }
    if has(change::ASKED) {
        record.asked = input.varint()? as u32;
    }
    let line = &model.lines[line];
    record.result = if has(change::RESULT) {
        unfold(input.varint()?) as i32
    } else {
        line.result(record.asked)
    };
    record.near = if has(change::NEAR) {
        input.varint()? as u32
    } else {
        line.near(record.result)
    };
    if has(change::PEER) {
        record.peer = input.varint()? as u16;
    }
    if has(change::DEPTH) {
        record.depth = input.varint()? as u16;
    }
    if has(change::THREAD) {
        record.thread = input.varint()? as u32;
    }
    Ok(record)
}

struct In<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl In<'_> {
    /// The next `len` bytes, at most eight.
    #[inline]
    fn word(&mut self, len: usize) -> Result<u64, Malformed> {
        let word = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk());
        let word = u64::from_le_bytes(*word.ok_or(Malformed)?);
        self.at += len;
        Ok(word & MASKS[len])
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(Malformed)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }
}

/// The low bytes of a word, by their number.
const MASKS: [u64; 9] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    0xff_ffff_ffff_ffff,
    u64::MAX,
];
