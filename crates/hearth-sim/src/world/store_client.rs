//! A node's client of the store: as GlusterFS, NFS and Ceph have it, each host reaches the store through a client that
//! keeps pages which it has read for a second, whatever others write meanwhile.
//!
//! It sees what its own node writes, and lets go of a file that a program of its node opens (close-to-open).

use super::World;
use hearth_proto::{FileId, Span, Time};
use std::collections::BTreeMap;

/// So long a page is believed.
const BELIEF: Span = Span::secs(1);

/// Pages of objects, and until when they are believed.
#[derive(Default)]
pub(crate) struct StoreClient {
    pages: BTreeMap<(usize, u64), (Vec<u8>, Time)>,
}

impl StoreClient {
    /// Keeps nothing of an object.
    pub(crate) fn forget(&mut self, object: usize) {
        self.pages.retain(|&(of, _), _| of != object);
    }
}

impl World {
    /// A node reads a file through a new descriptor from now on.
    pub(super) fn reopen(&mut self, node: usize, file: FileId) {
        if let Some(&object) = self.store.current.get(&file) {
            self.hosts[node].store_client.forget(object);
        }
    }

    /// Bytes of the store as a node's client shows them.
    pub(crate) fn read_by_client(
        &mut self,
        node: usize,
        object: usize,
        offset: u64,
        len: u64,
    ) -> Vec<u8> {
        let (page_bytes, now) = (u64::from(self.plan.page_bytes), self.now);
        let mut bytes = Vec::new();
        for page in offset / page_bytes..(offset + len).div_ceil(page_bytes) {
            let start = page * page_bytes;
            let fresh = self.store.read(object, start, page_bytes);
            let kept = self.hosts[node].store_client.pages.entry((object, page));
            let (kept, until) = kept.or_insert_with(|| (fresh.clone(), now + BELIEF));
            // An agent that gets less than it asked for has its client look again.
            if *until <= now || kept.len() < fresh.len() {
                (*kept, *until) = (fresh, now + BELIEF);
            }
            let from = (offset.max(start) - start) as usize;
            let to = ((offset + len).min(start + page_bytes) - start) as usize;
            let end = kept.len().min(to);
            bytes.extend_from_slice(kept.get(from..end).unwrap_or_default());
            if end < to {
                break;
            }
        }
        bytes
    }

    /// A write by a node's client, which keeps nothing older of these pages.
    pub(crate) fn write_by_client(
        &mut self,
        node: usize,
        object: usize,
        offset: u64,
        bytes: &[u8],
    ) {
        let page_bytes = u64::from(self.plan.page_bytes);
        let end = offset + bytes.len() as u64;
        // The bytes between the old end and the new one are a hole from now on.
        let first = offset.min(self.store.objects[object].data.len() as u64) / page_bytes;
        let pages = &mut self.hosts[node].store_client.pages;
        pages.retain(|&(of, page), _| {
            of != object || !(first..end.div_ceil(page_bytes)).contains(&page)
        });
        self.store.write(object, offset, bytes);
    }
}
