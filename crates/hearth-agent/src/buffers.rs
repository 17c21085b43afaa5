//! Bytes outside of the pool: payloads of messages, data of local writes, copies for the kernel.

use hearth_proto::Buf;
use std::collections::HashMap;
use std::sync::Arc;

/// Buffers by name.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    bytes: HashMap<Buf, Arc<Vec<u8>>>,
    named: u64,
}

impl Buffers {
    /// Takes bytes in and names them.
    pub(crate) fn add(&mut self, bytes: Vec<u8>) -> Buf {
        self.named += 1;
        let buf = Buf(self.named);
        self.bytes.insert(buf, Arc::new(bytes));
        buf
    }

    /// Takes bytes in under a name that the kernel gave.
    pub(crate) fn insert(&mut self, buf: Buf, bytes: Vec<u8>) {
        self.bytes.insert(buf, Arc::new(bytes));
    }

    /// Takes bytes out.
    pub(crate) fn take(&mut self, buf: Buf) -> Vec<u8> {
        self.bytes
            .remove(&buf)
            .map(Arc::unwrap_or_clone)
            .unwrap_or_default()
    }

    /// The buffer is no longer needed here.
    pub(crate) fn free(&mut self, buf: Buf) {
        self.bytes.remove(&buf);
    }

    /// A buffer for somebody who reads it after this call.
    pub(crate) fn lend(&self, buf: Buf) -> Arc<Vec<u8>> {
        self.bytes.get(&buf).cloned().unwrap_or_default()
    }

    /// Bytes of a buffer.
    pub(crate) fn get(&self, buf: Buf) -> &[u8] {
        self.bytes.get(&buf).map_or(&[], |bytes| bytes.as_slice())
    }

    /// Bytes held in all.
    pub(crate) fn held(&self) -> u64 {
        self.bytes.values().map(|bytes| bytes.len() as u64).sum()
    }
}
