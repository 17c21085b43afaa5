//! The page pool: a fixed number of frames of one size, each holding one cached page.
//!
//! The pool knows nothing of what is in a frame. Its owner decides who uses each frame, and when;
//! store threads fill and flush frames that the owner has set aside for them. If the two ever
//! disagree, an access waits or a flush carries mixed bytes, but no memory is corrupted:
//!
//! - [`Pool::read`], [`Pool::with`] and [`Pool::copy`]'s source share a frame,
//! - [`Pool::write`], [`Pool::zero`], [`Pool::preadv`] and [`Pool::copy`]'s destination hold it alone,
//! - [`Pool::pwritev`] takes no lock: a store that hangs in a flush must not stop the owner.
//!
//! Other processes read the frames that the owner publishes ([`Pool::publish`]), too; a frame that
//! is taken for writing is hidden from them first.
//!
//! Ranges that leave a frame, and frames that leave the pool, are bugs of the caller and panic.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::thread::{Timespec, futex};

use crate::SharedCounts;
use crate::huge::Gatherer;
use crate::index::protocol::PageName;
use crate::index::{AttributeTicket, Index};
use crate::lease;
use crate::lend;
use crate::life::Life;
use crate::segment::{self, Exclusive, HUGE_BYTES, PIECES_MAX, Segment, Target};
use crate::write_ring::{Entry, WriteRingEnd};

/// Size of every segment but the last.
pub(crate) const SEGMENT_BYTES: usize = 64 << 20;

const FRAME_BYTES_MIN: usize = 256;
const FRAME_BYTES_MAX: usize = 4 << 20;
const _: () = assert!(
    SEGMENT_BYTES.is_multiple_of(FRAME_BYTES_MAX),
    "frames fill segments exactly"
);

/// Shape of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Size of a frame: a power of two from 256 B to 4 MiB.
    pub frame_bytes: usize,
    /// Number of frames, at least one.
    pub frames: u32,
    /// Name of the memory, as `/proc/PID/maps` shows it.
    pub name: String,
}

impl PoolConfig {
    /// A pool of `frames` frames of `frame_bytes` each, under the usual name.
    pub fn new(frame_bytes: usize, frames: u32) -> Self {
        Self {
            frame_bytes,
            frames,
            name: "hearth-pool".to_owned(),
        }
    }

    fn check(&self) -> io::Result<()> {
        let sizes = FRAME_BYTES_MIN..=FRAME_BYTES_MAX;
        if !self.frame_bytes.is_power_of_two() || !sizes.contains(&self.frame_bytes) {
            let why = format!(
                "frame of {} bytes: not a power of two from 256 B to 4 MiB",
                self.frame_bytes
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if self.frames == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "pool without frames",
            ));
        }
        Ok(())
    }
}

/// Names a frame of a pool: `0` to `frames - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameIndex(pub u32);

/// A run of bytes in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FramePart {
    /// Which frame.
    pub frame: FrameIndex,
    /// First byte in the frame.
    pub offset: usize,
    /// Length in bytes.
    pub len: usize,
}

impl FramePart {
    fn range(&self) -> Range<usize> {
        let end = self
            .offset
            .checked_add(self.len)
            .expect("a part ends within its frame");
        self.offset..end
    }
}

/// Frames in shared memory; freed when dropped.
///
/// Frames start as zeros and take memory only once touched. A system that has promised more
/// memory than it has ends the process with `SIGBUS` at that point, as it does for `/dev/shm`.
#[derive(Debug)]
pub struct Pool {
    segments: Arc<[Segment]>,
    frames_per_segment: usize,
    frame_bytes: usize,
    frames: u32,
    name: String,
    /// There from the first program on.
    lent: OnceLock<Lent>,
    /// Whether programs may keep what names mean.
    names_are_kept: AtomicBool,
    lease_until: AtomicU64,
}

/// A pool as programs see it, and their use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Pages that are published.
    pub pages: usize,
    /// Their counters.
    pub counts: [u64; crate::COUNTS],
    /// Bytes of the pool that lie in huge pages.
    pub huge_bytes: u64,
}

/// Additions to a pool that programs read themselves.
#[derive(Debug)]
struct Lent {
    index: Arc<Index>,
    counts: (OwnedFd, SharedCounts),
    gatherer: Gatherer,
    /// Ends before the frames do.
    _life: Life,
}

impl Pool {
    /// Makes a pool.
    pub fn new(config: PoolConfig) -> io::Result<Self> {
        config.check()?;
        let frames_per_segment = SEGMENT_BYTES / config.frame_bytes;
        let mut segments = Vec::new();
        let mut left = config.frames as usize;
        while left > 0 {
            let frames = left.min(frames_per_segment);
            segments.push(Segment::new(&config.name, config.frame_bytes, frames)?);
            left -= frames;
        }
        let PoolConfig {
            frame_bytes,
            frames,
            name,
        } = config;
        Ok(Self {
            segments: segments.into(),
            frames_per_segment,
            frame_bytes,
            frames,
            name,
            lent: OnceLock::new(),
            names_are_kept: AtomicBool::new(false),
            lease_until: AtomicU64::new(lease::ALWAYS),
        })
    }

    /// Size of a frame in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Number of frames.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// The memory itself, in frame order, for another process to map. Sealed: it can only be
    /// mapped for reading, and never changes size.
    pub fn segments(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.segments.iter().map(Segment::fd)
    }

    /// From now on other processes may read what is published.
    pub fn share(&self) -> io::Result<()> {
        if self.is_shared() {
            return Ok(());
        }
        let index = Arc::new(Index::new(&self.name, self.frames, self.frame_bytes)?);
        let lent = Lent {
            counts: SharedCounts::new(&self.name)?,
            gatherer: Gatherer::start(Arc::clone(&self.segments), self.frame_bytes)?,
            _life: Life::begin(Arc::clone(&index))?,
            index,
        };
        // Had another thread been first, its index is the one.
        let _ = self.lent.set(lent);
        self.tell_lease();
        Ok(())
    }

    /// Other processes take what is published for current until this moment, and not after it. In nanoseconds since the
    /// machine was started. Without a word of it they do so for as long as this process lives.
    pub fn lease_until(&self, until: u64) {
        self.lease_until.store(until, SeqCst);
        self.tell_lease();
    }

    /// Both the one that shares and the one that has a lease come here, so one of them tells of it.
    fn tell_lease(&self) {
        if let Some(lent) = self.lent.get() {
            lent.index.lease_until(self.lease_until.load(SeqCst));
        }
    }

    /// Whether other processes may read what is published.
    pub fn is_shared(&self) -> bool {
        self.lent.get().is_some()
    }

    /// Lends the pool to the program at the other end of a connection, if it is of the same user.
    pub fn lend(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let lent = self.lent.get().ok_or(io::ErrorKind::NotConnected)?;
        // A flag that is set before programs come.
        if self.names_are_kept.load(Relaxed) {
            lent.index.keep_names();
        }
        let fixed = [lent.counts.0.as_fd(), lent.index.fd()];
        let fds: Vec<BorrowedFd<'_>> = fixed.into_iter().chain(self.segments()).collect();
        lend::send(program, &fds)
    }

    /// Lets other processes read `page` from a frame, whose first `extent` bytes are the page's,
    /// until it is hidden or the frame is written.
    ///
    /// The caller publishes and hides under one lock.
    pub fn publish(&self, page: PageName, frame: FrameIndex, extent: usize) {
        let Some(lent) = self.lent.get() else { return };
        assert!(
            extent <= self.frame_bytes,
            "{extent} bytes are more than a frame"
        );
        let (segment, index) = self.place(frame);
        // Nobody is writing it.
        let _shared = segment.shared(index);
        lent.index.publish(page, frame.0, extent as u32);
        if extent == self.frame_bytes {
            lent.gatherer.shown_full(frame.0 as usize);
        }
    }

    /// No page of `file` within `pages` is read by other processes from now on.
    pub fn hide(&self, file: u64, pages: Range<u64>) {
        if let Some(lent) = self.lent.get() {
            lent.index.hide_pages(file, pages);
        }
    }

    /// Programs may write the first `limit` bytes of a page by themselves, and not read it. While the gate
    /// is shut, under the lock of [`Pool::publish`].
    pub fn offer(&self, page: PageName, frame: FrameIndex, limit: u32) {
        if let Some(lent) = self.lent.get() {
            lent.index.offer(page, frame.0, limit);
        }
    }

    /// They may no longer. While the gate is shut.
    pub fn take_back(&self, frame: FrameIndex) {
        if let Some(lent) = self.lent.get() {
            lent.index.take_back(frame.0);
        }
    }

    /// Shuts the gate, after which all that programs have left can be taken, or opens it.
    pub fn set_gate(&self, is_open: bool) {
        if let Some(lent) = self.lent.get() {
            lent.index.set_gate(is_open);
        }
    }

    /// Waits until programs have left much, or for so long.
    pub fn wait_for_doorbell(&self, span: Duration) {
        let Some(lent) = self.lent.get() else { return };
        let doorbell = lent.index.doorbell();
        doorbell.store(1, Relaxed);
        let span = Timespec {
            tv_sec: span.as_secs().cast_signed(),
            tv_nsec: span.subsec_nanos().into(),
        };
        // It ends by being woken, after the time, or early, and all are alike.
        let _ = futex::wait(doorbell, futex::Flags::empty(), 1, Some(&span));
        doorbell.store(0, Relaxed);
    }

    /// Makes a write ring, and what its program is to be lent.
    pub fn make_write_ring(&self) -> io::Result<(WriteRingEnd, OwnedFd)> {
        WriteRingEnd::new(&self.name)
    }

    /// Copies what a program has left into a frame.
    pub fn write_left(
        &self,
        frame: FrameIndex,
        offset: usize,
        (write_ring, entry): (&WriteRingEnd, &Entry),
    ) {
        let mut frame = self.exclusive(frame);
        write_ring.copy(entry, &mut frame[offset..][..entry.len as usize]);
    }

    /// From the next program on they may keep what names mean, as long as none changes.
    pub fn keep_names(&self) {
        self.names_are_kept.store(true, Relaxed);
    }

    /// A file's attributes are about to be looked at; `None` if no program could be told.
    pub fn ticket(&self, file: u64) -> Option<AttributeTicket> {
        Some(self.lent.get()?.index.ticket(file))
    }

    /// The operating system was told attributes of this digest, and believes them until then.
    pub fn tell(&self, file: u64, ticket: AttributeTicket, digest: u64, until_ns: u64) {
        if let Some(lent) = self.lent.get() {
            lent.index.tell(file, ticket, digest, until_ns);
        }
    }

    /// The attributes of a file have changed; before anybody is told.
    pub fn file_changed(&self, file: u64) {
        if let Some(lent) = self.lent.get() {
            lent.index.file_changed(file);
        }
    }

    /// A name has changed, of any file; before anybody is told.
    pub fn names_changed(&self) {
        if let Some(lent) = self.lent.get() {
            lent.index.names_changed();
        }
    }

    /// A name is about to be told to the operating system whose change may not be heard of.
    pub fn name_unheard(&self) {
        if let Some(lent) = self.lent.get() {
            lent.index.name_unheard();
        }
    }

    /// The pool as programs see it, and their use of it; `None` if nothing was lent yet.
    pub fn shown(&self) -> Option<Shown> {
        let lent = self.lent.get()?;
        let unit_bytes = HUGE_BYTES.max(self.frame_bytes) as u64;
        Some(Shown {
            pages: lent.index.pages(),
            counts: lent.counts.1.sums(),
            huge_bytes: lent.gatherer.gathered() as u64 * unit_bytes,
        })
    }

    /// Copies `data` into a frame.
    pub fn write(&self, frame: FrameIndex, offset: usize, data: &[u8]) {
        self.exclusive(frame)[offset..][..data.len()].copy_from_slice(data);
    }

    /// Copies bytes of a frame out; fills `data`.
    pub fn read(&self, frame: FrameIndex, offset: usize, data: &mut [u8]) {
        self.with(frame, offset..offset + data.len(), |bytes| {
            data.copy_from_slice(bytes)
        });
    }

    /// Lends bytes of a frame to `f`, which must not write to the same frame (it would wait for
    /// itself).
    pub fn with<T>(&self, frame: FrameIndex, range: Range<usize>, f: impl FnOnce(&[u8]) -> T) -> T {
        let (segment, index) = self.place(frame);
        f(&segment.shared(index)[range])
    }

    /// Sets bytes of a frame to zero.
    pub fn zero(&self, frame: FrameIndex, range: Range<usize>) {
        self.exclusive(frame)[range].fill(0);
    }

    /// Copies `from` over the bytes of `to` that start at `to_offset`; the two may overlap.
    pub fn copy(&self, from: FramePart, to: FrameIndex, to_offset: usize) {
        if from.frame == to {
            self.exclusive(to).copy_within(from.range(), to_offset);
            return;
        }
        let (segment, index) = self.place(from.frame);
        // Lower frame first, as everywhere that holds two: opposite copies must not wait in a ring.
        let (source, mut target) = if from.frame < to {
            let source = segment.shared(index);
            (source, self.exclusive(to))
        } else {
            let target = self.exclusive(to);
            (segment.shared(index), target)
        };
        target[to_offset..][..from.len].copy_from_slice(&source[from.range()]);
    }

    /// Writes `parts`, in order, to a file at `offset`; may write less, as `pwritev(2)` does.
    ///
    /// Bytes that change meanwhile may reach the file old or new, each for itself.
    pub fn pwritev(
        &self,
        fd: BorrowedFd<'_>,
        parts: &[FramePart],
        offset: u64,
    ) -> io::Result<usize> {
        let parts = &parts[..parts.len().min(PIECES_MAX)];
        let spans: Vec<_> = parts
            .iter()
            .map(|part| {
                let (segment, index) = self.place(part.frame);
                segment.span(index, part.range())
            })
            .collect();
        segment::pwritev(fd, &spans, offset)
    }

    /// Fills `parts`, in order, from a file at `offset`; may fill less, as `preadv(2)` does.
    pub fn preadv(
        &self,
        fd: BorrowedFd<'_>,
        parts: &[FramePart],
        offset: u64,
    ) -> io::Result<usize> {
        let parts = &parts[..parts.len().min(PIECES_MAX)];
        // Sorted, each once: the order in which several frames are always locked.
        let mut frames: Vec<FrameIndex> = parts.iter().map(|part| part.frame).collect();
        frames.sort_unstable();
        frames.dedup();
        let mut guards: Vec<Exclusive<'_>> =
            frames.iter().map(|&frame| self.exclusive(frame)).collect();
        let targets: Vec<Target> = parts
            .iter()
            .map(|part| {
                let guard = frames
                    .binary_search(&part.frame)
                    .expect("every part's frame is in the list");
                Target {
                    guard,
                    range: part.range(),
                }
            })
            .collect();
        segment::preadv(fd, &mut guards, &targets, offset)
    }

    #[cfg(test)]
    pub(crate) fn shared_segments(&self) -> Arc<[Segment]> {
        Arc::clone(&self.segments)
    }

    fn exclusive(&self, frame: FrameIndex) -> Exclusive<'_> {
        let (segment, index) = self.place(frame);
        let locked = segment.exclusive(index);
        if let Some(lent) = self.lent.get() {
            lent.index.hide_frame(frame.0);
        }
        locked
    }

    fn place(&self, frame: FrameIndex) -> (&Segment, usize) {
        assert!(
            frame.0 < self.frames,
            "{frame:?} is not in a pool of {} frames",
            self.frames
        );
        let frame = frame.0 as usize;
        (
            &self.segments[frame / self.frames_per_segment],
            frame % self.frames_per_segment,
        )
    }
}

#[cfg(test)]
mod death_tests;
#[cfg(test)]
#[expect(unsafe_code, reason = "takes what was copied for initialised")]
mod shared_tests;
#[cfg(test)]
mod tests;
