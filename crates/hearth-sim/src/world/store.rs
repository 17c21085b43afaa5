//! The store: byte arrays with stamps, behind delays and planned errors.

use crate::model::History;
use hearth_proto::{Attributes, FileId, RawErrno, Stamp, Time};
use std::collections::BTreeMap;

/// One file of the store, from birth to its last close.
pub(crate) struct Object {
    pub(crate) file: FileId,
    pub(crate) data: Vec<u8>,
    pub(crate) stamp: Stamp,
    /// Attributes that no content depends on: how often they were changed.
    pub(crate) mode: u32,
    /// It has no name any more.
    pub(crate) unlinked: bool,
    /// It lets nobody open it for writing.
    pub(crate) read_only: bool,
    /// Somebody outside has written since it was last opened.
    pub(crate) outside: bool,
    /// Operations and handles that still use it.
    pub(crate) users: u32,
    /// When it was last changed here, or its times were set.
    pub(crate) touched: Time,
    /// When somebody set its times through a node.
    pub(crate) restamped: Time,
    /// When the latest of the writes began that were acknowledged.
    pub(crate) dated: Time,
    pub(crate) history: History,
}

/// A time in which operations fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) errno: RawErrno,
    pub(crate) until: Time,
}

/// No space left on the device.
pub(crate) const ENOSPC: RawErrno = 28;
/// There is no such file.
pub(crate) const ENOENT: RawErrno = 2;

/// All files.
#[derive(Default)]
pub(crate) struct Store {
    pub(crate) objects: Vec<Object>,
    /// The object that a number means now.
    pub(crate) current: BTreeMap<FileId, usize>,
    pub(crate) fault: Option<Fault>,
    pub(crate) now: Time,
    clock: i64,
}

impl Store {
    /// A new file under a number that no file has.
    pub(crate) fn create(&mut self, file: FileId, data: Vec<u8>, history: History) -> usize {
        self.objects.push(Object {
            file,
            data,
            stamp: Stamp::default(),
            mode: 0,
            unlinked: false,
            read_only: false,
            outside: false,
            users: 0,
            touched: self.now,
            restamped: Time(0),
            dated: Time(0),
            history,
        });
        let number = self.objects.len() - 1;
        self.current.insert(file, number);
        self.touch(number);
        number
    }

    /// The attributes of an object that front ends are told.
    pub(crate) fn attributes(&self, object: usize) -> Attributes {
        let object = &self.objects[object];
        Attributes {
            mode: object.mode,
            links: u32::from(!object.unlinked),
            size: object.data.len() as u64,
            ctime_ns: object.stamp.ctime_ns,
            mtime_ns: object.stamp.mtime_ns,
            ..Attributes::default()
        }
    }

    /// The content or the attributes changed.
    pub(crate) fn touch(&mut self, object: usize) -> Stamp {
        self.clock = (self.clock + 1).max(self.now.0.cast_signed());
        let object = &mut self.objects[object];
        object.touched = self.now;
        object.stamp = Stamp {
            ctime_ns: self.clock,
            mtime_ns: self.clock,
            size: object.data.len() as u64,
        };
        object.stamp
    }

    /// Bytes from `offset`, as many as there are.
    pub(crate) fn read(&self, object: usize, offset: u64, len: u64) -> Vec<u8> {
        let data = &self.objects[object].data;
        let from = data.len().min(offset as usize);
        let to = data.len().min((offset + len) as usize);
        data[from..to].to_vec()
    }

    pub(crate) fn write(&mut self, object: usize, offset: u64, bytes: &[u8]) {
        let data = &mut self.objects[object].data;
        let end = offset as usize + bytes.len();
        if data.len() < end {
            data.resize(end, 0);
        }
        data[offset as usize..end].copy_from_slice(bytes);
        self.touch(object);
    }

    pub(crate) fn truncate(&mut self, object: usize, size: u64) {
        self.objects[object].data.resize(size as usize, 0);
        self.touch(object);
    }

    /// The error of an operation that changes the content, or of another, at this time.
    pub(crate) fn failing(&self, now: Time, changes: bool) -> Option<RawErrno> {
        let fault = self.fault.filter(|fault| now < fault.until)?;
        (changes || fault.errno != ENOSPC).then_some(fault.errno)
    }
}
