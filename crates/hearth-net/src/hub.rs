//! The common part of transports with a thread of their own, whatever carries their bytes.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::link::{Sent, Shared, Wire};
use crate::sync::lock;
use crate::transport::{PeerId, PeerState, SendError, payload_len};
use crate::why::Why;

/// The links to all peers, and the thread that serves them.
pub(crate) struct Hub<W: Wire> {
    pub(crate) shared: Arc<Shared<W>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<W: Wire> Hub<W> {
    /// Runs `event_loop` in a thread until [`Hub::shutdown`].
    pub(crate) fn start(
        shared: Arc<Shared<W>>,
        event_loop: impl FnOnce() + Send + 'static,
    ) -> io::Result<Hub<W>> {
        let thread = thread::Builder::new()
            .name("hearth-net".into())
            .spawn(event_loop)?;
        Ok(Hub {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn send(
        &self,
        to: PeerId,
        head: &[u8],
        payload: &[IoSlice<'_>],
    ) -> Result<(), SendError> {
        if to == self.shared.me {
            return Err(SendError::Myself(to));
        }
        let peer = self
            .shared
            .peers
            .get(to.index())
            .ok_or(SendError::Unknown(to))?;
        let len = payload_len(head, payload)?;
        let sent = peer.link().send(head, (payload, len), &self.shared.limits);
        match sent {
            Sent::Taken => Ok(()),
            Sent::Down => Err(SendError::Down(to)),
            Sent::Broke => {
                self.shared.report_broken(to);
                Err(SendError::Down(to))
            }
        }
    }

    pub(crate) fn disconnect(&self, peer: PeerId, why: &str) {
        let Some(entry) = self.shared.peers.get(peer.index()) else {
            return;
        };
        let broke = entry.link().break_up(Why::Disconnected(why.into()));
        if broke {
            self.shared.report_broken(peer);
        }
    }

    pub(crate) fn peers(&self) -> Vec<PeerState> {
        let ids = (0u32..).map(PeerId).zip(&self.shared.peers);
        ids.filter(|(id, _)| *id != self.shared.me)
            .map(|(id, peer)| peer.state(id))
            .collect()
    }

    pub(crate) fn shutdown(&self) {
        // Pairs with the Acquire in EventLoop::run.
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        // The lock is not held while waiting: a handler may be in here too.
        let Some(thread) = lock(&self.thread).take() else {
            return;
        };
        if thread.thread().id() == thread::current().id() {
            // The loop cannot wait for itself; it ends when the handler returns.
            *lock(&self.thread) = Some(thread);
        } else if thread.join().is_err() {
            log::error!("the transport's thread had panicked");
        }
    }
}

impl<W: Wire> Drop for Hub<W> {
    fn drop(&mut self) {
        self.shutdown();
    }
}
