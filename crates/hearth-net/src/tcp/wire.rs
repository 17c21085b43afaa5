//! The socket of one peer as senders see it.
//!
//! A frame is written at once from the thread that sends it. Bytes that the socket does not take
//! are copied into the queue, and everything after them queues behind them. The event loop writes
//! the queue out as the socket drains. Sockets are registered for writing once and edge-triggered,
//! and each writer goes on until the kernel says "would block", so no edge is missed and nothing is
//! registered again. Memory in place of the socket is the same: full, it rings when there is room.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use hearth_shm::PipeWriter;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::intake::spoiled;
use super::memory::Doorbell;
use super::stream::Stream;
use crate::auth::FrameKey;
use crate::frame::HEADER_LEN;
use crate::link;
use crate::why::Why;

/// Pieces that one write may have; the kernel's own bound.
const IOV_MAX: usize = 1024;
/// Pieces of a frame that need no allocation.
const IOV_SHORT: usize = 16;
/// An empty queue above this capacity gives its memory back.
const QUEUE_KEPT_BYTES: usize = 1 << 20;

/// A connection that stands.
pub(crate) struct Wire {
    /// The connection's place in the loop's table.
    pub(crate) index: usize,
    pub(crate) incarnation: u64,
    pub(crate) stream: Arc<Stream>,
    pub(crate) outlet: Option<Outlet>,
    /// Why there is no outlet, if there could be one.
    pub(crate) unshared: Option<String>,
    pub(crate) key: FrameKey,
    pub(crate) queue: VecDeque<u8>,
}

/// The side that is written of memory that is shared with the peer.
pub(crate) struct Outlet {
    pub(super) writer: PipeWriter,
    pub(super) theirs: Arc<Doorbell>,
}

impl link::Wire for Wire {
    fn index(&self) -> usize {
        self.index
    }

    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn queued_bytes(&self) -> usize {
        self.queue.len()
    }

    fn way(&self) -> String {
        let why = self.unshared.as_ref();
        match (&*self.stream, &self.outlet) {
            (Stream::Far(_), _) => "tcp".into(),
            (Stream::Near(_), Some(_)) => "shared memory".into(),
            (Stream::Near(_), None) => why.map_or_else(
                || "socket of the host".into(),
                |why| format!("socket of the host; memory is not shared: {why}"),
            ),
        }
    }

    fn send(
        &mut self,
        head: &[u8],
        (payload, payload_len): (&[IoSlice<'_>], usize),
        queued_max: usize,
    ) -> Result<(), Why> {
        let header = self.key.header(head, payload_len);
        let mut short = [IoSlice::new(&[]); IOV_SHORT];
        let mut long = Vec::new();
        let count = 2 + payload.len();
        let parts = if count <= IOV_SHORT {
            &mut short[..count]
        } else {
            long.resize(count, IoSlice::new(&[]));
            &mut long[..]
        };
        parts[0] = IoSlice::new(&header);
        parts[1] = IoSlice::new(head);
        parts[2..].copy_from_slice(payload);
        self.write_or_queue(parts, HEADER_LEN + head.len() + payload_len, queued_max)
    }

    fn flush(&mut self) -> Result<(), Why> {
        while !self.queue.is_empty() {
            let (front, back) = self.queue.as_slices();
            let parts = [IoSlice::new(front), IoSlice::new(back)];
            let taken = put(self.outlet.as_mut(), &self.stream, &parts)?;
            if taken == 0 {
                return Ok(());
            }
            self.queue.drain(..taken);
        }
        if self.queue.capacity() > QUEUE_KEPT_BYTES {
            self.queue = VecDeque::new();
        }
        Ok(())
    }
}

impl Wire {
    fn write_or_queue(
        &mut self,
        parts: &[IoSlice<'_>],
        len: usize,
        queued_max: usize,
    ) -> Result<(), Why> {
        let idle = self.queue.is_empty();
        let mut skip = match idle {
            true => put(self.outlet.as_mut(), &self.stream, parts)?,
            false => 0,
        };
        if skip == len {
            return Ok(());
        }
        if self.queue.len() + (len - skip) > queued_max {
            return Err(Why::QueueFull { max: queued_max });
        }
        for part in parts {
            let taken = skip.min(part.len());
            skip -= taken;
            self.queue.extend(&part[taken..]);
        }
        // A short write is not yet "would block", and only that one arms the next edge.
        if idle {
            link::Wire::flush(self)
        } else {
            Ok(())
        }
    }
}

/// Writes what the connection takes now; zero when that is nothing.
fn put(outlet: Option<&mut Outlet>, stream: &Stream, parts: &[IoSlice<'_>]) -> Result<usize, Why> {
    let Some(Outlet { writer, theirs }) = outlet else {
        return write(stream, parts);
    };
    writer.write(parts, || theirs.ring()).map_err(spoiled)
}

/// Writes what the socket takes now; zero when that is nothing.
pub(crate) fn write(stream: &Stream, parts: &[IoSlice<'_>]) -> Result<usize, Why> {
    let parts = &parts[..parts.len().min(IOV_MAX)];
    // No signal: the agent may run inside a program that keeps the default action of SIGPIPE.
    let flags = SendFlags::NOSIGNAL;
    let sent = retry_on_intr(|| sendmsg(stream, parts, &mut SendAncillaryBuffer::default(), flags));
    match sent {
        Ok(taken) => Ok(taken),
        Err(Errno::AGAIN) => Ok(0),
        Err(error) => Err(Why::Write(io::Error::from(error).to_string())),
    }
}
