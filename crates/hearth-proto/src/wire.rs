//! How messages are written: little-endian, fixed order. The version is that of the
//! frame. Nothing else in the workspace parses them. `docs/formats/wire.md` has the tables.
//!
//! Every message begins with view, file, generation and request id (44 bytes), then one byte that
//! names the body, then the body's fields in the order of their declaration.

mod body;
mod fields;

use crate::bank::Told;
use crate::msg::Envelope;
use alloc::vec::Vec;
use fields::{Fields, Reader, Writer};

/// Pages that one message may name; bounds what a decoder allocates.
pub const PAGES_MAX: usize = 1 << 14;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The bytes end too early.
    Short,
    /// Bytes are left over.
    Long,
    /// A tag has no meaning, or a count is beyond its bound.
    Value,
}

impl core::fmt::Display for WireError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            WireError::Short => "message ends too early",
            WireError::Long => "message has bytes left over",
            WireError::Value => "message has a field without meaning",
        })
    }
}

impl core::error::Error for WireError {}

/// Appends a message to `out`.
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) {
    let mut writer = Writer(out);
    envelope.view.put(&mut writer);
    envelope.file.put(&mut writer);
    envelope.generation.put(&mut writer);
    envelope.req.put(&mut writer);
    envelope.body.put(&mut writer);
}

/// Appends attributes and names as a daemon's entry holds them.
pub fn encode_told(told: &Told, out: &mut Vec<u8>) {
    let mut writer = Writer(out);
    told.attributes.put(&mut writer);
    told.names.put(&mut writer);
}

/// Reads attributes and names; all of `bytes` must be them.
pub fn decode_told(bytes: &[u8]) -> Result<Told, WireError> {
    let mut reader = Reader(bytes);
    let told = Told {
        attributes: Fields::get(&mut reader)?,
        names: Fields::get(&mut reader)?,
    };
    match reader.0.is_empty() {
        true => Ok(told),
        false => Err(WireError::Long),
    }
}

/// Reads a message; all of `bytes` must be it.
pub fn decode(bytes: &[u8]) -> Result<Envelope, WireError> {
    let mut reader = Reader(bytes);
    let envelope = Envelope {
        view: Fields::get(&mut reader)?,
        file: Fields::get(&mut reader)?,
        generation: Fields::get(&mut reader)?,
        req: Fields::get(&mut reader)?,
        body: Fields::get(&mut reader)?,
    };
    if reader.0.is_empty() {
        Ok(envelope)
    } else {
        Err(WireError::Long)
    }
}

#[cfg(test)]
mod tests;
