//! Answers to the kernel, of results that may be errors.

use std::io;

use fuser::{ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr};

use crate::attributes::Told;
use crate::core::Core;
use crate::errors::errno;
use crate::names::{Entry, Name};
use crate::open::Opened;
use crate::xattrs::Sized;

/// Answers a request that has nothing to say but how it went.
pub(crate) fn reply_empty<T>(result: io::Result<T>, reply: ReplyEmpty) {
    match result {
        Ok(_) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

/// Answers a look-up.
pub(crate) fn reply_look_up(
    core: &Core,
    at: Name<'_>,
    found: io::Result<Entry>,
    reply: ReplyEntry,
) {
    if found.is_err() {
        core.nodes.absent(at.parent, at.name);
    }
    reply_entry(found, reply);
}

/// Answers with what was found or made.
pub(crate) fn reply_entry(result: io::Result<Entry>, reply: ReplyEntry) {
    match result {
        Ok(entry) => {
            reply.entry_with_ttls(
                &entry.attr_ttl,
                &entry.entry_ttl,
                &entry.attr,
                entry.generation,
            );
        }
        Err(error) => reply.error(errno(&error)),
    }
}

/// Answers with attributes.
pub(crate) fn reply_attr(result: io::Result<Told>, reply: ReplyAttr) {
    match result {
        Ok(told) => reply.attr(&told.ttl, &told.attr),
        Err(error) => reply.error(errno(&error)),
    }
}

/// Answers with a handle.
pub(crate) fn reply_open(result: io::Result<Opened>, reply: ReplyOpen) {
    match result {
        Ok(opened) => reply.opened(opened.handle, opened.flags),
        Err(error) => reply.error(errno(&error)),
    }
}

/// Answers with an extended attribute, or with its length.
pub(crate) fn reply_xattr(result: io::Result<Sized>, reply: ReplyXattr) {
    match result {
        Ok(Sized::Length(len)) => reply.size(len),
        Ok(Sized::Bytes(bytes)) => reply.data(&bytes),
        Err(error) => reply.error(errno(&error)),
    }
}

/// Answers with a new file. The kernel counts no lookup for a `CREATE` that failed.
pub(crate) fn reply_create(
    core: &Core,
    entry: &Entry,
    opened: io::Result<Opened>,
    reply: ReplyCreate,
) {
    match opened {
        Ok(Opened { handle, flags }) => {
            reply.created(
                &entry.shared_ttl(),
                &entry.attr,
                entry.generation,
                handle,
                flags,
            );
        }
        Err(error) => {
            core.nodes.forget(entry.attr.ino.0, 1);
            reply.error(errno(&error));
        }
    }
}
