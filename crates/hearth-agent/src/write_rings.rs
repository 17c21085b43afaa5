//! Writes that programs leave in write rings, without a system call.
//!
//! The agent keeps a gate, which programs see. While it is open a program leaves writes of pages that were
//! offered, and is done with them. Before the kernel hears of anything else the gate is shut and all that
//! was left is brought to it; so nothing that reads, flushes, cuts or tells of a file ever comes before a
//! write that had returned. The model `hearth-shm/tests/write_rings.rs` checks that, and the simulator's world
//! does the same around its kernels.
//!
//! 1. Offers change while the gate is shut.
//! 2. The gate is open only while somebody has used it lately, and while all that can be left fits under the
//!    limit of dirty bytes. It opens after a write that came through the mount.
//! 3. Nobody is believed: the kernel checks every entry, and refuses what is not offered. A program whose
//!    entry is refused has not been told that its write is done, and makes the real call.
//! 4. Writes that a program has left before it went are applied: each was done, or might have been.

use crate::core::{After, Core, State};
use crate::session::wall_clock_ns;
use hearth_proto::{Buf, FileId, FrameId, Input, LocalWrite};
use hearth_shm::{Entry, PageName, WRITE_RING_BYTES, WriteRingEnd, monotonic_ns};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Writes that were left wait so long at most while nobody asks.
const WAIT: Duration = Duration::from_millis(5);
/// So often in a row nothing was left before the gate is shut.
const IDLE_TURNS: u32 = 40;
/// After so many at once the thread looks again before it waits.
const BUSY: usize = 32;
/// Marks buffers that are entries of write rings.
const LEFT: u64 = 1 << 62;
/// Share of the dirty limit that all write rings may fill, as a divisor.
const SHARE: u64 = 2;

/// All write rings of an agent.
#[derive(Default)]
pub(crate) struct WriteRings {
    owners: Vec<Owner>,
    is_open: bool,
    /// Programs have left writes lately, or written through the mount.
    is_wanted: bool,
    /// One has written through the mount since the thread that brings them last looked.
    is_missed: bool,
    /// No write ring is lent, and the gate stays shut, for good.
    is_over: bool,
    /// Taken and not applied: they were left after the last look at the clock. None while the gate is shut.
    early: Vec<(usize, Entry)>,
    /// The entries that are being brought to the kernel, by the number in the buffer's name.
    batch: Vec<(usize, Entry)>,
    refused: Vec<u64>,
}

struct Owner {
    number: i32,
    process: OwnedFd,
    write_ring: WriteRingEnd,
}

impl Owner {
    /// The program is gone, or has spoiled its write ring.
    fn is_useless(&self) -> bool {
        let mut looked = [PollFd::new(&self.process, PollFlags::IN)];
        let now = rustix::event::Timespec::default();
        self.write_ring.is_broken() || poll(&mut looked, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl Core {
    /// Lends a write ring to the program at the other end of a connection. One that asks again has become
    /// another program.
    ///
    /// It is made and sent without the lock, and sent last: what is left in a write ring that the gate does not
    /// know of would be missed.
    pub(crate) fn lend_write_ring(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let (number, process) = hearth_shm::program(program)?;
        let (write_ring, memory) = self.pool.make_write_ring()?;
        let owner = Owner {
            number,
            process,
            write_ring,
        };
        self.while_shut(|state| self.take_in(state, owner))?;
        hearth_shm::send_write_ring(program, &memory).inspect_err(|_| {
            self.while_shut(|state| state.write_rings.forget(|owner| owner.number == number));
        })
    }

    fn while_shut<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        self.turn(|state, _| work(state))
    }

    fn take_in(&self, state: &mut State, new: Owner) -> io::Result<()> {
        let write_rings = &mut state.write_rings;
        write_rings.forget(|owner| owner.is_useless() || owner.number == new.number);
        let room = write_rings.most() + WRITE_RING_BYTES;
        let most = state.member.node().config().dirty_limit_bytes() / SHARE;
        if write_rings.is_over || room > most || !self.pool.is_shared() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        write_rings.owners.push(new);
        state.member.node_mut().offer_pages();
        Ok(())
    }

    /// From now on all writes come through the mount.
    pub(crate) fn end_write_rings(&self) {
        self.while_shut(|state| {
            state.write_rings.is_over = true;
            state.write_rings.forget(|_| true);
        });
        self.waker.notify_all();
    }

    /// A write came through the mount: the next ones may not have to.
    pub(crate) fn want_write_rings(&self, state: &mut State) {
        let write_rings = &mut state.write_rings;
        if write_rings.owners.is_empty() {
            return;
        }
        write_rings.is_missed = true;
        if !write_rings.is_wanted {
            write_rings.is_wanted = true;
            self.waker.notify_one();
        }
    }

    /// Nothing is left from now on, and all that was left is brought to the kernel.
    #[inline]
    pub(crate) fn shut(&self, state: &mut State, after: &mut Vec<After>) {
        if state.write_rings.is_open {
            state.write_rings.is_open = false;
            self.pool.set_gate(false);
            self.bring(state, after);
        }
    }

    /// Writes may be left, if they may.
    #[inline]
    pub(crate) fn open(&self, state: &mut State) {
        let write_rings = &state.write_rings;
        let is_used = write_rings.is_wanted && !write_rings.owners.is_empty();
        if is_used && !write_rings.is_open && state.node().has_room(write_rings.most()) {
            self.pool.set_gate(true);
            state.write_rings.is_open = true;
        }
    }

    /// Brings what was left to the kernel; how many writes.
    ///
    /// While the gate is shut that is all that could be taken, whatever an entry says of its time. Nothing that
    /// ended before one of these began is missing: it passed its last look at the gate while that was open, so it
    /// was there before the fence, and is among them or was brought before (LEFT-1). So what is next is told after
    /// all writes that have returned, and nobody's clock has a say in that.
    fn bring(&self, state: &mut State, after: &mut Vec<After>) -> usize {
        let now = monotonic_ns();
        let write_rings = &mut state.write_rings;
        let mut batch = std::mem::take(&mut write_rings.early);
        for (number, owner) in write_rings.owners.iter_mut().enumerate() {
            owner.write_ring.take(|entry| batch.push((number, entry)));
        }
        if batch.is_empty() {
            write_rings.early = batch;
            return 0;
        }
        // Nobody has begun later than this, whatever an entry says.
        let latest = monotonic_ns();
        for (_, entry) in &mut batch {
            entry.stamp = entry.stamp.min(latest);
        }
        if write_rings.is_open {
            // An entry that began later may come before one that another write ring has yet to show.
            (batch, write_rings.early) =
                batch.into_iter().partition(|(_, entry)| entry.stamp < now);
        }
        batch.sort_by_key(|(_, entry)| entry.stamp);
        let count = batch.len();
        let mtime_ns = wall_clock_ns();
        let writes = batch.iter().enumerate().map(|(at, (_, entry))| LocalWrite {
            file: FileId(entry.file),
            offset: entry.offset,
            len: entry.len,
            buf: Buf(LEFT | at as u64),
            mtime_ns,
        });
        let writes: Vec<LocalWrite> = writes.collect();
        write_rings.batch = batch;
        self.step(state, Input::Locals(writes), after);
        state.write_rings.settle();
        count
    }

    /// Copies what was left into a frame; false if it is another buffer.
    pub(crate) fn fill_left(
        &self,
        state: &State,
        frame: hearth_shm::FrameIndex,
        at: u32,
        buf: Buf,
    ) -> bool {
        let write_rings = &state.write_rings;
        let entry = write_rings.batch.get((buf.0 & !LEFT) as usize);
        let (Some((owner, entry)), true) = (entry, buf.0 & (LEFT | Buf::KERNEL) == LEFT) else {
            return false;
        };
        let from = (&write_rings.owners[*owner].write_ring, entry);
        self.pool.write_left(frame, at as usize, from);
        true
    }

    /// The kernel offers a page.
    pub(crate) fn offered(&self, state: &State, page: (FileId, u64), frame: FrameId, limit: u32) {
        debug_assert!(
            !state.write_rings.is_open,
            "offers change while the gate is shut"
        );
        let (file, page) = page;
        let page = PageName { file: file.0, page };
        self.pool
            .offer(page, hearth_shm::FrameIndex(frame.0), limit);
    }

    /// It takes a page back.
    pub(crate) fn took_back(&self, state: &State, frame: FrameId) {
        debug_assert!(
            !state.write_rings.is_open,
            "offers change while the gate is shut"
        );
        self.pool.take_back(hearth_shm::FrameIndex(frame.0));
    }

    /// The life of the thread that brings what was left while nobody asks.
    pub(crate) fn mind_write_rings(&self) {
        loop {
            let mut state = self.lock();
            while !state.write_rings.is_wanted && !state.write_rings.is_over {
                let waiting = self.waker.wait(state);
                state = waiting.unwrap_or_else(PoisonError::into_inner);
            }
            if state.write_rings.is_over {
                return;
            }
            drop(state);
            self.mind_for_a_while();
        }
    }

    fn mind_for_a_while(&self) {
        let (mut idle, mut count) = (0, 0);
        while idle < IDLE_TURNS {
            if count < BUSY {
                self.pool.wait_for_doorbell(WAIT);
            }
            let mut after = Vec::new();
            let mut state = self.lock();
            count = self.bring(&mut state, &mut after);
            let is_missed = std::mem::take(&mut state.write_rings.is_missed);
            idle = if count == 0 && !is_missed {
                idle + 1
            } else {
                0
            };
            if idle == IDLE_TURNS {
                self.shut(&mut state, &mut after);
                state.write_rings.is_wanted = false;
                state.write_rings.forget(Owner::is_useless);
            } else if state.write_rings.has_broken() {
                self.shut(&mut state, &mut after);
                state.write_rings.forget(Owner::is_useless);
            } else if !state.node().has_room(state.write_rings.most()) {
                self.shut(&mut state, &mut after);
            }
            let over = state.write_rings.is_over;
            self.end_turn(state, after);
            if over {
                return;
            }
        }
    }
}

impl WriteRings {
    /// A write is one that nobody waits for any more, or one that is refused.
    pub(crate) fn refuse(&mut self, buf: Buf) {
        self.refused.push(buf.0 & !LEFT);
    }

    /// Bytes that can be left at most.
    fn most(&self) -> u64 {
        self.owners.len() as u64 * WRITE_RING_BYTES
    }

    fn has_broken(&self) -> bool {
        self.owners.iter().any(|owner| owner.write_ring.is_broken())
    }

    /// While the gate is shut: some programs leave nothing any more.
    fn forget(&mut self, which: impl Fn(&Owner) -> bool) {
        debug_assert!(!self.is_open && self.early.is_empty(), "the gate is shut");
        self.owners.retain(|owner| !which(owner));
    }

    fn settle(&mut self) {
        for (at, (owner, entry)) in self.batch.drain(..).enumerate() {
            let is_applied = !self.refused.contains(&(at as u64));
            self.owners[owner].write_ring.settle(&entry, is_applied);
        }
        self.refused.clear();
    }
}

pub(crate) fn mind(core: &Arc<Core>) -> io::Result<std::thread::JoinHandle<()>> {
    let core = Arc::clone(core);
    let named = std::thread::Builder::new().name("lanes".to_owned());
    named.spawn(move || core.mind_write_rings())
}
