//! The front end: what the operating system's kernel keeps of files, as FUSE has it.
//!
//! Bytes of a keep-read are served to later reads without asking. While a keep-read is out, its pages
//! are locked. Revocations are carried out by one thread, one after another, and one of locked pages
//! waits until the reads have been answered, holding up all behind it.

use hearth_proto::{Attributes, FileId, RevokeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A page of an object.
pub(crate) type PageOf = (usize, u64);

/// An order to drop what is kept.
#[derive(Clone, Debug)]
pub(crate) struct Revoke {
    pub(crate) id: RevokeId,
    pub(crate) file: FileId,
    pub(crate) pages: Option<(u64, u32)>,
}

/// The pages, sizes and attributes that one node's kernel keeps.
#[derive(Default)]
pub(crate) struct Kernel {
    pages: BTreeMap<PageOf, Vec<u8>>,
    locked: BTreeSet<PageOf>,
    /// Locked pages that must not be kept once they come.
    doomed: BTreeSet<PageOf>,
    sizes: BTreeMap<usize, u64>,
    looks: BTreeMap<usize, Attributes>,
    /// Grows whenever attributes are dropped; an answer that was asked for before is not kept.
    pub(crate) attributes: u64,
    pub(crate) queue: VecDeque<Revoke>,
    /// The head of the queue is at work.
    pub(crate) working: bool,
    /// It waits for a locked page.
    pub(crate) blocked: bool,
    /// Sessions that wait for a locked page.
    pub(crate) waiters: BTreeSet<usize>,
}

impl Kernel {
    /// The kept bytes of a page.
    pub(crate) fn page(&self, page: PageOf) -> Option<&Vec<u8>> {
        self.pages.get(&page)
    }

    pub(crate) fn is_locked(&self, page: PageOf) -> bool {
        self.locked.contains(&page)
    }

    pub(crate) fn lock(&mut self, page: PageOf) {
        self.locked.insert(page);
    }

    pub(crate) fn locked(&self) -> usize {
        self.locked.len()
    }

    /// A keep-read of the page is over, with these bytes or without.
    pub(crate) fn unlock(&mut self, page: PageOf, bytes: Option<&[u8]>) {
        self.locked.remove(&page);
        let doomed = self.doomed.remove(&page);
        match bytes {
            Some(bytes) if !bytes.is_empty() && !doomed => {
                self.pages.insert(page, bytes.to_vec());
            }
            Some(_) | None => {
                self.pages.remove(&page);
            }
        }
    }

    /// Drops all of an object: it was opened without leave to keep what was there.
    pub(crate) fn forget(&mut self, object: usize) {
        self.pages.retain(|&(of, _), _| of != object);
        let locked = self.locked.iter().filter(|&&(of, _)| of == object);
        self.doomed.extend(locked);
        self.forget_size(object);
    }

    pub(crate) fn size(&self, object: usize) -> Option<u64> {
        self.sizes.get(&object).copied()
    }

    pub(crate) fn keep_size(&mut self, object: usize, size: u64) {
        self.sizes.insert(object, size);
    }

    pub(crate) fn forget_size(&mut self, object: usize) {
        self.attributes += 1;
        self.sizes.remove(&object);
        self.looks.remove(&object);
    }

    pub(crate) fn looked(&self, object: usize) -> Option<Attributes> {
        self.looks.get(&object).copied()
    }

    pub(crate) fn keep_look(&mut self, object: usize, seen: Attributes) {
        self.looks.insert(object, seen);
    }

    /// Drops what the order names of these objects; false if a page of it is locked.
    pub(crate) fn revoke(&mut self, objects: &[usize], pages: Option<(u64, u32)>) -> bool {
        for object in objects {
            self.forget_size(*object);
        }
        let Some((first, count)) = pages else {
            return true;
        };
        let end = match count {
            u32::MAX => u64::MAX,
            count => first + u64::from(count),
        };
        let named =
            |&(object, page): &PageOf| objects.contains(&object) && (first..end).contains(&page);
        self.pages.retain(|page, _| !named(page));
        !self.locked.iter().any(named)
    }
}
