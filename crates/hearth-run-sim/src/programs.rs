//! Programs of a world: they read and leave by themselves, and else call the mount, as the library in programs does.

use crate::book::{Book, Slot};
use crate::core::Core;
use crate::memory::copy;
use crate::mount::Answer;
use crate::store::Store;
use crate::{Copied, LaneOutcome, PoolView, WriteRing, lend};
use hearth_proto::{Handle, Input, Request};
use real_rustix::fd::{AsFd, OwnedFd};
use std::Dice;
use std::plain::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// A call that takes longer, by the world's clock, has waited for nothing that it needs.
const CALL_MAX: Duration = Duration::from_secs(1);
/// Bytes of a value, which stands there several times over.
pub(crate) const VALUE_BYTES: usize = 48;
/// Bytes from one value of a page to the next.
const SLOT_BYTES: u64 = 512;

/// A process: its memory is one for all of its threads.
pub(crate) struct Process {
    core: Arc<Core>,
    view: PoolView,
    connection: OwnedFd,
    /// It may ask for another, as the program does that an exec puts in its place.
    ring: Mutex<Option<Arc<WriteRing>>>,
}

impl Process {
    /// Maps what its agent lends.
    pub(crate) fn new(core: &Arc<Core>) -> Process {
        let connection = lend::connect();
        core.pool
            .lend(connection.as_fd())
            .expect("the pool is shared");
        // The counts come first.
        let mut fds = lend::take(connection.as_fd()).into_iter().skip(1);
        let index = fds.next().expect("it was sent");
        let mut view = PoolView::of(index).expect("it is an index");
        for segment in fds {
            view.add(segment).expect("it is a segment");
        }
        let process = Process {
            core: Arc::clone(core),
            view,
            connection,
            ring: Mutex::new(None),
        };
        process.ask_for_ring();
        process
    }

    fn ask_for_ring(&self) {
        let connection = self.connection.as_fd();
        let lent = self.core.lend_write_ring(connection);
        let ring = lend::take(connection).pop().filter(|_| lent.is_ok());
        let ring = ring.map(|fd| Arc::new(WriteRing::of(fd.as_fd()).expect("it is a ring")));
        std::tally(match ring {
            Some(_) => "write rings lent",
            None => "write rings refused",
        });
        *self.ring() = ring;
    }

    fn ring(&self) -> std::plain::Guard<'_, Option<Arc<WriteRing>>> {
        self.ring.lock().expect("nothing panics under this lock")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        lend::end(&self.connection);
    }
}

/// A thread of a program.
pub(crate) struct Thread {
    pub(crate) process: Arc<Process>,
    pub(crate) book: Arc<Book>,
    pub(crate) store: Arc<Store>,
    pub(crate) dice: Dice,
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) ring: Option<Arc<WriteRing>>,
}

/// The files of a world, and how often threads do what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) files: u64,
    pub(crate) pages: u64,
    pub(crate) page_bytes: u64,
    pub(crate) slots: u64,
    /// Of a hundred calls.
    pub(crate) writes: u64,
    pub(crate) pauses: u64,
}

impl Thread {
    /// Does so many things.
    pub(crate) fn run(mut self, calls: u64) {
        let handles: Vec<Handle> = (1..=self.shape.files)
            .filter_map(|file| self.open(file))
            .collect();
        if handles.len() as u64 != self.shape.files {
            return std::find("a file cannot be opened");
        }
        for _ in 0..calls {
            if std::is_over() {
                return;
            }
            let slot = self.draw_slot();
            let handle = handles[slot.0 as usize - 1];
            match self.dice.below(100) {
                drawn if drawn < self.shape.writes => self.write(handle, slot),
                95..97 => self.sync(handle, slot),
                97 => self.process.ask_for_ring(),
                98 => self.process.core.inform(Input::Shed),
                99 => self.read_two(handle, slot),
                _ => self.read(handle, slot),
            }
            if self.dice.chance(self.shape.pauses) {
                std::thread::sleep(Duration::from_millis(self.dice.below(400)));
            }
        }
        for handle in handles {
            self.timed("a flush", || {
                self.process.core.plain(Request::Flush(handle))
            });
            self.process.core.close(handle);
        }
    }

    fn draw_slot(&mut self) -> Slot {
        let file = 1 + self.dice.below(self.shape.files);
        let page = self.dice.below(self.shape.pages) * self.shape.page_bytes;
        (file, page + self.dice.below(self.shape.slots) * SLOT_BYTES)
    }

    /// Makes a call, which must not take long.
    fn timed(&self, what: &str, call: impl FnOnce() -> Answer) -> Option<Answer> {
        let began = std::clock::now();
        std::tell(|| format!("{} begins {what}", self.name));
        let answer = call();
        let took = std::clock::now() - began;
        std::tell(|| format!("{} ends {what}", self.name));
        if took > CALL_MAX {
            std::find(format!("{what} of {} took {took:?}", self.name));
        }
        match answer {
            Answer::Failed(errno) => {
                std::find(format!("{what} of {} failed with error {errno}", self.name));
                None
            }
            answer => Some(answer),
        }
    }

    fn open(&self, file: u64) -> Option<Handle> {
        let stamp = self.store.stamp(file);
        match self.timed("an open", || self.process.core.open_file(file, stamp)) {
            Some(Answer::Opened(handle)) => Some(handle),
            _ => None,
        }
    }

    fn read(&self, handle: Handle, slot: Slot) {
        let began = self.book.now();
        let mut bytes = [0xff; VALUE_BYTES];
        let seen = match copy(&self.process.view, slot, &mut bytes) {
            Copied::All => {
                std::tally("pages read in the memory");
                value_of(&bytes)
            }
            Copied::Missing | Copied::Long => self.read_mount(handle, slot),
            Copied::Changed => {
                std::tally("pages that changed under a copy");
                self.read_mount(handle, slot)
            }
            Copied::Dead => Err("the agent is dead".to_owned()),
        };
        self.saw("a read", slot, (began, seen));
    }

    fn read_mount(&self, handle: Handle, slot: Slot) -> Result<u64, String> {
        let core = &self.process.core;
        match self.timed("a read", || core.read(handle, slot.1, VALUE_BYTES as u32)) {
            Some(Answer::Bytes(bytes)) => value_of(&bytes),
            _ => Err("a read has no bytes".to_owned()),
        }
    }

    /// Two values of one page of which a copy is all or nothing, or of two pages.
    fn read_two(&mut self, handle: Handle, slot: Slot) {
        let page_bytes = self.shape.page_bytes;
        let last_page = (self.shape.pages - 1) * page_bytes;
        let apart = match self.dice.chance(50) && slot.1 < last_page {
            true => page_bytes,
            false if slot.1 % page_bytes < (self.shape.slots - 1) * SLOT_BYTES => SLOT_BYTES,
            false => return self.read(handle, slot),
        };
        let began = self.book.now();
        let mut bytes = vec![0xff; apart as usize + VALUE_BYTES];
        if copy(&self.process.view, slot, &mut bytes) != Copied::All {
            return self.read(handle, slot);
        }
        std::tally("two values read in the memory");
        let (one, other) = (
            &bytes[..VALUE_BYTES],
            &bytes[apart as usize..][..VALUE_BYTES],
        );
        self.saw("a read of two", slot, (began, value_of(one)));
        let beside = (slot.0, slot.1 + apart);
        self.saw("a read of two", beside, (began, value_of(other)));
    }

    fn saw(&self, what: &str, slot: Slot, (began, seen): (u64, Result<u64, String>)) {
        std::tell(|| format!("{} has {seen:?} of {slot:?}", self.name));
        let right = seen.and_then(|value| self.book.saw(slot, (began, value)));
        if let Err(why) = right {
            std::find(format!("{what} of {}: {why}", self.name));
        }
    }

    fn write(&mut self, handle: Handle, slot: Slot) {
        let value = self.book.begin(slot);
        std::tell(|| format!("{} writes {value} to {slot:?}", self.name));
        let bytes = value.to_le_bytes().repeat(VALUE_BYTES / 8);
        // Another thread may have asked for the next one long since.
        if self.ring.is_none() || self.dice.chance(20) {
            self.ring.clone_from(&self.process.ring());
        }
        let left = self
            .ring
            .as_ref()
            .map(|ring| ring.leave(&self.process.view, slot.0, slot.1, &bytes));
        match left {
            Some(LaneOutcome::Done { much }) => {
                std::tally("writes left");
                if much {
                    self.process.view.ring();
                }
            }
            Some(LaneOutcome::Dead) => std::find("the agent is dead"),
            Some(other) => {
                if other == LaneOutcome::Shut {
                    std::tally("writes taken back");
                }
                self.write_mount(handle, slot, bytes);
            }
            None => self.write_mount(handle, slot, bytes),
        }
        self.book.end(slot, value);
        std::tell(|| format!("{} has written {value}", self.name));
    }

    fn write_mount(&self, handle: Handle, slot: Slot, bytes: Vec<u8>) {
        let core = &self.process.core;
        self.timed("a write", || core.write(handle, slot.1, bytes));
    }

    /// After a sync the store has all that was written before it.
    fn sync(&self, handle: Handle, slot: Slot) {
        let began = self.book.now();
        let core = &self.process.core;
        if self
            .timed("a sync", || core.plain(Request::Sync(handle)))
            .is_some()
        {
            let bytes = self.store.read(slot.0, slot.1, VALUE_BYTES);
            self.saw("a look at the store", slot, (began, value_of(&bytes)));
        }
    }
}

/// The value that stands there several times over.
pub(crate) fn value_of(bytes: &[u8]) -> Result<u64, String> {
    let each = bytes.chunks_exact(8);
    let mut each = each.map(|part| u64::from_le_bytes(part.try_into().expect("eight bytes")));
    let first = each.next().ok_or("there are no bytes")?;
    match each.all(|other| other == first) {
        true => Ok(first),
        false => Err(format!("it has parts of several values: {bytes:?}")),
    }
}
