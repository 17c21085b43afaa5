//! Records become bytes.

use super::model::{Line, Model, fold, key};
use super::{
    BLOCK_RECORDS_MAX, PAD, RECORD_LEN_MAX, REQUEST, SEQ, SHAPE, START_BACKWARD, START_LEN, change,
    place,
};
use crate::Record;

/// Encodes blocks, one after another.
pub struct Encoder {
    out: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new()
    }
}

impl Encoder {
    /// An encoder for any number of blocks.
    pub fn new() -> Encoder {
        Encoder {
            out: vec![0; BLOCK_RECORDS_MAX * RECORD_LEN_MAX + PAD],
        }
    }

    /// The bytes of a block of at most [`BLOCK_RECORDS_MAX`] records.
    pub fn encode(&mut self, records: &[Record]) -> &[u8] {
        assert!(
            records.len() <= BLOCK_RECORDS_MAX,
            "callers cut records into blocks"
        );
        let mut model = Model::new();
        let mut out = Out {
            bytes: &mut self.out,
            len: 0,
        };
        for record in records {
            one(&mut model, record, &mut out);
        }
        out.word(0, PAD);
        let len = out.len;
        &self.out[..len]
    }
}

/// The usual record goes as its line expects, and is written with two stores.
#[inline]
fn one(model: &mut Model, record: &Record, out: &mut Out<'_>) {
    let key = key(record);
    let Some(line) = model.find(key) else {
        return unusual(model, record, (key, None), out);
    };
    let place = place_of(model, line, record);
    let is_next = (record.request == model.next_request())
        & (record.seq == model.seq.wrapping_add(1))
        & model.lines[line].is_like(record);
    if !is_next {
        return unusual(model, record, (key, Some(line)), out);
    }
    out.start(model, record, (line, place), 0);
    if place == place::ELSEWHERE {
        out.place(&model.lines[line], record);
    }
    model.lines[line].follow(record);
    model.pass(record);
}

/// A record with any shape, request and number.
#[inline(never)]
fn unusual(
    model: &mut Model,
    record: &Record,
    (key, found): (u64, Option<usize>),
    out: &mut Out<'_>,
) {
    let file_before = model.file;
    let (line, known) = match found {
        Some(line) => (line, 0),
        None => {
            let line = model.choose(key);
            model.assign(line, key);
            (line, change::IDENTITY)
        }
    };
    let changed = known | changes(model, line, record);
    let place = place_of(model, line, record);
    let request = record.request != model.next_request();
    let seq = record.seq != model.seq.wrapping_add(1);
    let marks = if changed == 0 { 0 } else { SHAPE }
        | if request { REQUEST } else { 0 }
        | if seq { SEQ } else { 0 };
    out.start(model, record, (line, place), marks);
    if place == place::ELSEWHERE {
        out.place(&model.lines[line], record);
    }
    if changed != 0 {
        shape(model, line, record, (changed, file_before), out);
    }
    if request {
        out.varint(fold(record.request.wrapping_sub(model.request) as i64));
    }
    if seq {
        out.varint(record.seq.wrapping_sub(model.seq));
    }
    model.learn(line, record);
}

/// Which parts of the record's shape are not as the line expects.
#[inline]
fn changes(model: &Model, line: usize, record: &Record) -> u8 {
    let line = &model.lines[line];
    let mark = |differs: bool, bit: u8| if differs { bit } else { 0 };
    mark(record.flags != line.flags, change::FLAGS)
        | mark(record.asked != line.asked, change::ASKED)
        | mark(record.result != line.result(record.asked), change::RESULT)
        | mark(record.near != line.near(record.result), change::NEAR)
        | mark(record.peer != line.peer, change::PEER)
        | mark(record.depth != line.depth, change::DEPTH)
        | mark(record.thread != line.thread, change::THREAD)
}

/// Chosen without a branch: which it is cannot be foretold.
#[inline]
fn place_of(model: &Model, line: usize, record: &Record) -> u8 {
    let line = &model.lines[line];
    let is_end = u32::from(record.offset == line.end);
    let is_stride = u32::from(record.offset == line.offset.wrapping_add(line.stride));
    let is_same = u32::from(record.offset == line.offset);
    let marks = is_end << place::END | is_stride << place::STRIDE | is_same << place::SAME;
    (marks | 1 << place::ELSEWHERE).trailing_zeros() as u8
}

/// The code of the time since the end of the record before, and the time.
#[inline]
fn start_of(model: &Model, record: &Record) -> (usize, u64) {
    let since = record.start.wrapping_sub(model.end) as i64;
    if since < 0 {
        let back = since.unsigned_abs();
        let code = START_BACKWARD + usize::from(back >> 24 != 0);
        return (code, back);
    }
    let since = since as u64;
    let len = (64 - (since | 1).leading_zeros()).div_ceil(8) as usize;
    (if len > 5 { 5 } else { len - 1 }, since)
}

fn shape(
    model: &Model,
    line: usize,
    record: &Record,
    (changed, file_before): (u8, u32),
    out: &mut Out<'_>,
) {
    let line = &model.lines[line];
    let has = |bit: u8| changed & bit != 0;
    out.word(u64::from(changed), 1);
    if has(change::IDENTITY) {
        out.word(u64::from(record.op) | u64::from(record.layer) << 8, 2);
        out.varint(fold(i64::from(record.file) - i64::from(file_before)));
    }
    if has(change::FLAGS) {
        out.varint(u64::from(record.flags.0 ^ line.flags.0));
    }
    if has(change::ASKED) {
        out.varint(u64::from(record.asked));
    }
    if has(change::RESULT) {
        out.varint(fold(i64::from(record.result)));
    }
    if has(change::NEAR) {
        out.varint(u64::from(record.near));
    }
    if has(change::PEER) {
        out.varint(u64::from(record.peer));
    }
    if has(change::DEPTH) {
        out.varint(u64::from(record.depth));
    }
    if has(change::THREAD) {
        out.varint(u64::from(record.thread));
    }
}

/// The output for encoded bytes; there is room for a whole block of the longest records.
struct Out<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl Out<'_> {
    /// Writes the fields that every record has: control bytes, time and duration.
    #[inline]
    fn start(&mut self, model: &Model, record: &Record, (line, place): (usize, u8), marks: u8) {
        let (start_code, start) = start_of(model, record);
        let took_len = (32 - (record.took | 1).leading_zeros()).div_ceil(8);
        let control = start_code as u8 | ((took_len - 1) as u8) << 3 | marks;
        let control = line as u64 | u64::from(place) << 6 | u64::from(control) << 8;
        // The time's top bytes do not fit if it is eight bytes long; those are rare.
        self.word(control | start << 16, 2);
        let start_len = START_LEN[start_code];
        if start_len > 6 {
            self.word(start, start_len);
        } else {
            self.len += start_len;
        }
        self.word(u64::from(record.took), took_len as usize);
    }

    /// How far from the end of the line's last a record is.
    #[inline]
    fn place(&mut self, line: &Line, record: &Record) {
        let away = record.offset.wrapping_sub(line.end) as i64;
        let within = away as u64 & 0xfff;
        self.varint(fold(away >> 12) << 1 | u64::from(within != 0));
        self.word(within, if within != 0 { 2 } else { 0 });
    }

    /// The low `len` bytes of a word.
    #[inline]
    fn word(&mut self, word: u64, len: usize) {
        self.bytes[self.len..self.len + 8].copy_from_slice(&word.to_le_bytes());
        self.len += len;
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes[self.len] = value as u8 | 0x80;
            self.len += 1;
            value >>= 7;
        }
        self.bytes[self.len] = value as u8;
        self.len += 1;
    }
}
