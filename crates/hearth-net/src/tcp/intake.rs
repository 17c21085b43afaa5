//! The source of the bytes of one connection.

use std::io;
use std::sync::Arc;

use hearth_shm::PipeReader;
use mio::Registry;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read, retry_on_intr};
use rustix::net::{RecvFlags, recv};

use super::memory::Doorbell;
use super::stream::Stream;
use crate::why::Why;

/// The side of a connection that is read.
pub(crate) enum Intake {
    /// A socket of this host, on which a peer may offer its memory.
    Greeting,
    /// The socket.
    Socket,
    /// Memory, beside a socket that only ends.
    Memory(Inlet),
}

/// The memory's side that is read.
pub(crate) struct Inlet {
    pub(super) reader: PipeReader,
    pub(super) own: Doorbell,
    pub(super) theirs: Arc<Doorbell>,
    /// The socket has something to say, which can only be that it ends.
    pub(super) ends: bool,
}

impl Intake {
    /// Fills `into`; `None` if nothing is there, 0 at the end.
    pub(super) fn fill(&mut self, stream: &Stream, into: &mut [u8]) -> Result<Option<usize>, Why> {
        match self {
            Intake::Greeting => received(stream.receive(into)),
            Intake::Socket => received(retry_on_intr(|| read(stream, &mut *into))),
            Intake::Memory(inlet) => {
                let theirs = Arc::clone(&inlet.theirs);
                let got = inlet.reader.read(into, || theirs.ring());
                inlet.or_end(stream, got.map_err(spoiled)?)
            }
        }
    }

    /// The same into the room that a vector has left.
    pub(super) fn append(
        &mut self,
        stream: &Stream,
        into: &mut Vec<u8>,
    ) -> Result<Option<usize>, Why> {
        match self {
            Intake::Greeting | Intake::Socket => {
                received(retry_on_intr(|| read(stream, spare_capacity(into))))
            }
            Intake::Memory(inlet) => {
                let most = into.capacity() - into.len();
                let theirs = Arc::clone(&inlet.theirs);
                let got = inlet.reader.append(into, most, || theirs.ring());
                inlet.or_end(stream, got.map_err(spoiled)?)
            }
        }
    }

    /// The socket may have ended.
    pub(super) fn heed_end(&mut self) {
        if let Intake::Memory(inlet) = self {
            inlet.ends = true;
        }
    }

    /// The connection is over.
    pub(super) fn forget(&self, registry: &Registry) {
        if let Intake::Memory(inlet) = self {
            inlet.own.forget(registry);
        }
    }
}

impl Inlet {
    /// Reads the end from the socket, once the memory is empty and the socket has something to say: bytes that were
    /// written before the end come before it.
    fn or_end(&mut self, stream: &Stream, got: usize) -> Result<Option<usize>, Why> {
        if got > 0 {
            return Ok(Some(got));
        }
        if !std::mem::take(&mut self.ends) {
            return Ok(None);
        }
        let mut byte = [0];
        let said = retry_on_intr(|| recv(stream, &mut byte, RecvFlags::DONTWAIT));
        match said.map(|(_, got)| got) {
            Ok(0) => Ok(Some(0)),
            Ok(_) => Err(Why::Read(
                "peer writes past the memory that it shares".into(),
            )),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(Why::Read(io::Error::from(error).to_string())),
        }
    }
}

pub(super) fn spoiled(spoiled: hearth_shm::Spoiled) -> Why {
    Why::Read(spoiled.to_string())
}

/// How much arrived; `None` when the socket held nothing.
fn received(result: Result<usize, Errno>) -> Result<Option<usize>, Why> {
    match result {
        Ok(got) => Ok(Some(got)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(Why::Read(io::Error::from(error).to_string())),
    }
}
