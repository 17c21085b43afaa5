//! Asynchronous I/O of the C library on cached files.
//!
//! Its threads would make calls that nobody hooks. The session is asynchronous by itself: a request
//! is begun where it is submitted, and looked at where it is asked about.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::{aiocb, timespec};

use crate::fds;
use crate::file::{Answer, Cached};
use crate::memory::Memory;
use crate::sys::{at, many, number_of};
use crate::tally::Tally;

/// Requests that the program has not asked the result of, by the address of their block.
static BEGUN: Mutex<BTreeMap<usize, Begun>> = Mutex::new(BTreeMap::new());

#[derive(Clone)]
struct Begun {
    fd: c_int,
    tally: Arc<Tally>,
}

/// How long to wait for one request before the others of a list are looked at.
const LOOK_SPAN: Duration = Duration::from_millis(10);

/// The operation that a block asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

fn begun() -> MutexGuard<'static, BTreeMap<usize, Begun>> {
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a request; `None` if its descriptor is not cached.
pub(crate) fn begin(block: *mut aiocb, way: Way) -> Option<c_int> {
    let asked = at(block)?;
    let cached = fds::find(asked.aio_fildes)?;
    let begun_now = start(&cached, asked, way).map(|tally| {
        let fd = asked.aio_fildes;
        begun().insert(block.addr(), Begun { fd, tally });
    });
    Some(begun_now.answer())
}

fn start(cached: &Cached, asked: &aiocb, way: Way) -> io::Result<Arc<Tally>> {
    let notified = asked.aio_sigevent.sigev_notify == libc::SIGEV_THREAD
        || asked.aio_sigevent.sigev_notify == libc::SIGEV_SIGNAL
            && asked.aio_sigevent.sigev_signo != 0;
    if notified {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let offset =
        u64::try_from(asked.aio_offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let memory = Memory::one(asked.aio_buf, asked.aio_nbytes);
    match way {
        Way::Read if crate::loose::is_on() => {
            cached.exchange()?;
            cached.begin_read(memory, offset)
        }
        Way::Write if crate::loose::is_on() => {
            // The rank that waits for it may be another one.
            let tally = cached.begin_write(&memory, offset)?;
            tally.wait_below(1);
            cached.exchange()?;
            Ok(tally)
        }
        Way::Read => cached.begin_read(memory, offset),
        Way::Write => cached.begin_write(&memory, offset),
    }
}

/// As `aio_error`; `None` if the request is none of ours.
pub(crate) fn error(block: *const aiocb) -> Option<c_int> {
    let found = begun().get(&block.addr()).cloned()?;
    Some(match found.tally.result() {
        None => libc::EINPROGRESS,
        Some(Ok(_)) => 0,
        Some(Err(error)) => number_of(&error),
    })
}

/// As `aio_return`; `None` if the request is none of ours.
pub(crate) fn take(block: *const aiocb) -> Option<isize> {
    let found = begun().remove(&block.addr())?;
    Some(found.tally.finish().answer())
}

/// As `aio_suspend`; `None` if no request of the list is ours.
pub(crate) fn suspend(
    list: *const *const aiocb,
    count: c_int,
    span: *const timespec,
) -> Option<c_int> {
    let ours: Vec<Begun> = {
        let begun = begun();
        let blocks = many(list, count).iter();
        blocks
            .filter_map(|block| begun.get(&block.addr()).cloned())
            .collect()
    };
    if ours.is_empty() {
        return None;
    }
    let limit = at(span).map(|span| {
        Duration::new(
            span.tv_sec.cast_unsigned(),
            u32::try_from(span.tv_nsec).unwrap_or(0),
        )
    });
    let started = std::time::Instant::now();
    loop {
        if ours.iter().any(|one| one.tally.result().is_some()) {
            return Some(0);
        }
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            crate::sys::set_errno(libc::EAGAIN);
            return Some(-1);
        }
        let step = if ours.len() == 1 {
            Duration::MAX
        } else {
            LOOK_SPAN
        };
        ours[0].tally.wait_for(left.unwrap_or(step).min(step));
    }
}

/// As `aio_cancel`: what is under way is not stopped. `None` if the descriptor is not cached.
pub(crate) fn cancel(fd: c_int) -> Option<c_int> {
    fds::find(fd)?;
    let open = begun()
        .values()
        .any(|one| one.fd == fd && one.tally.result().is_none());
    Some(if open {
        libc::AIO_NOTCANCELED
    } else {
        libc::AIO_ALLDONE
    })
}

/// Waits for every request of a descriptor that is about to be closed.
pub(crate) fn finish(fd: c_int) {
    let open: Vec<Begun> = begun()
        .values()
        .filter(|one| one.fd == fd)
        .cloned()
        .collect();
    for one in open {
        one.tally.wait_below(1);
    }
}

/// Notes a request that is complete from the start.
pub(crate) fn completed(block: *mut aiocb, fd: c_int) -> io::Result<()> {
    let tally = Arc::new(Tally::default());
    begun().insert(block.addr(), Begun { fd, tally });
    Ok(())
}
