//! An agent's sign of life, in memory that programs read: it ends with the agent, however that ends,
//! and nobody has to renew it.
//!
//! The word holds the number of a thread of the agent that does nothing but wait. The thread has
//! told the operating system so (a *robust list*, `set_robust_list(2)`), which marks the word when the
//! thread ends for any reason. It does that before it closes the process's sockets. So when other
//! agents learn that this one is gone, and go on without asking it, the word says so already.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// The lower bits of a word are a thread's number.
const THREAD: u32 = 0x3fff_ffff;
/// The operating system's mark.
const DIED: u32 = 0x4000_0000;

/// Whether the agent that owns the word is there.
#[inline(always)]
pub(crate) fn is_alive(word: &AtomicU32) -> bool {
    // Pairs with the mark, which the operating system makes before anybody hears of the death.
    let word = word.load(Acquire);
    word & DIED == 0 && word & THREAD != 0
}

/// Memory with such a word in it.
pub(crate) trait HasLife: Send + Sync + 'static {
    fn life(&self) -> &AtomicU32;
}

/// A sign of life; ends when dropped.
#[derive(Debug)]
pub(crate) struct Life {
    /// Closed to end the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The argument of `set_robust_list(2)`: a ring of entries, each so far from its word.
#[repr(C)]
struct RobustList {
    next: *const Entry,
    word_offset: libc::c_long,
    pending: *const Entry,
}

#[repr(C)]
struct Entry {
    next: *const RobustList,
}

impl Life {
    /// Begins the sign of life in the word of `memory`, which the thread keeps.
    pub(crate) fn begin(memory: Arc<impl HasLife>) -> io::Result<Life> {
        let (stop, stopped) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("life".to_owned())
            .spawn(move || live(memory.life(), &tell, &stopped))?;
        let life = Life {
            stop: Some(stop),
            thread: Some(thread),
        };
        match told.recv() {
            Ok(begun) => begun.map(|()| life),
            Err(_) => Err(io::Error::other(
                "the thread that lives for the agent ended",
            )),
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn live(word: &AtomicU32, tell: &mpsc::Sender<io::Result<()>>, stopped: &mpsc::Receiver<()>) {
    // Both lie in this frame, which lasts longer than the list is registered.
    let mut list = RobustList {
        next: ptr::null(),
        word_offset: 0,
        pending: ptr::null(),
    };
    let entry = Entry {
        next: &raw const list,
    };
    list.next = &raw const entry;
    let distance = ptr::from_ref(word)
        .addr()
        .wrapping_sub((&raw const entry).addr());
    list.word_offset = distance.cast_signed() as libc::c_long;
    let before = registered();
    let begun = before.and_then(|before| {
        register(&raw const list)?;
        Ok(before)
    });
    match begun {
        Ok(before) => {
            let me = rustix::thread::gettid().as_raw_nonzero().get();
            word.store(me.cast_unsigned(), Release);
            let _ = tell.send(Ok(()));
            // Ends when the owner lets go.
            let _ = stopped.recv();
            word.store(0, Release);
            if register(before).is_err() {
                // The list lies on this stack: it must not end while it is registered.
                std::process::abort();
            }
        }
        Err(error) => drop(tell.send(Err(error))),
    }
}

fn registered() -> io::Result<*const RobustList> {
    let mut list: *const RobustList = ptr::null();
    let mut len: libc::size_t = 0;
    // SAFETY: the call writes two words to where it is told, which are there for that.
    let done = unsafe {
        let (list, len) = (&raw mut list, &raw mut len);
        libc::syscall(libc::SYS_get_robust_list, 0usize, list, len)
    };
    answer(done).map(|()| list)
}

fn register(list: *const RobustList) -> io::Result<()> {
    // SAFETY: the list is the one that this thread had before, or lies in `live`, which takes it back
    // before it returns.
    let done = unsafe { libc::syscall(libc::SYS_set_robust_list, list, size_of::<RobustList>()) };
    answer(done)
}

fn answer(done: libc::c_long) -> io::Result<()> {
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
