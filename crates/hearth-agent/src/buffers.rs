//! Bytes outside of the pool: payloads of messages, data of local writes, copies for the kernel.

use hearth_proto::Buf;
use std::collections::HashMap;

/// Buffers by name.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    bytes: HashMap<Buf, Vec<u8>>,
    named: u64,
}

impl Buffers {
    /// Takes bytes in and names them.
    pub(crate) fn add(&mut self, bytes: Vec<u8>) -> Buf {
        self.named += 1;
        let buf = Buf(self.named);
        self.bytes.insert(buf, bytes);
        buf
    }

    /// Takes bytes in under a name that the kernel gave.
    pub(crate) fn insert(&mut self, buf: Buf, bytes: Vec<u8>) {
        self.bytes.insert(buf, bytes);
    }

    /// Takes bytes out.
    pub(crate) fn take(&mut self, buf: Buf) -> Vec<u8> {
        self.bytes.remove(&buf).unwrap_or_default()
    }

    /// Bytes of a buffer.
    pub(crate) fn get(&self, buf: Buf) -> &[u8] {
        self.bytes.get(&buf).map_or(&[], Vec::as_slice)
    }

    /// Bytes held in all.
    pub(crate) fn held(&self) -> u64 {
        self.bytes.values().map(|bytes| bytes.len() as u64).sum()
    }
}
