//! A directory behind modelled I/O servers, for laptops and for tests that must repeat.
//!
//! A file is striped over the servers. A request is cut into one piece for each server it touches;
//! a piece costs its server a fixed service time plus the transfer of its bytes; a server takes
//! pieces first come, first served. The queues are shared by all agents of the machine, so P
//! clients in a closed loop on one server each see P times the service time. A call sleeps until
//! its last piece is served and then does the real I/O, which is taken to cost nothing.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

use hearth_client::{Errno, FileStamp};
use hearth_shm::{FramePart, Pool, ServerQueue};
use rustix::thread::{ClockId, Timespec};

use super::{Store, StoreCounts, SyncKind, parts, posix};

mod config;

pub use config::{ModelConfig, ModelError};

/// Delays the calls of `S` as I/O servers would.
#[derive(Debug)]
pub struct Model<S> {
    inner: S,
    config: ModelConfig,
    queue: ServerQueue,
}

impl<S> Model<S> {
    /// Puts `inner` behind the servers of `config`, whose queues are in `queue`.
    pub fn new(inner: S, config: ModelConfig, queue: ServerQueue) -> Self {
        assert_eq!(
            queue.servers(),
            config.servers,
            "one queue for each modelled server"
        );
        Self {
            inner,
            config,
            queue,
        }
    }

    /// Waits until the servers have served a request for some bytes of a file.
    fn serve(&self, extent: Extent) {
        let work = extent.work(&self.config);
        let ends = work
            .into_iter()
            .map(|(server, ns)| self.queue.reserve(server, ns).end_ns);
        sleep_until(ends.max().expect("every request has work for a server"));
    }

    /// Waits until every server has served a request without bytes.
    fn serve_everywhere(&self) {
        let service_ns = self.config.service_ns(0);
        let ends =
            (0..self.config.servers).map(|server| self.queue.reserve(server, service_ns).end_ns);
        sleep_until(ends.max().expect("a model has a server"));
    }
}

impl<S: Store> Store for Model<S> {
    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno> {
        self.serve(Extent::readable(file, offset, parts::total(parts))?);
        self.inner.read(file, offset, parts, pool)
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.serve(Extent::readable(file, offset, len)?);
        self.inner.read_vec(file, offset, len)
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        self.serve(Extent::writable(file, offset, parts::total(parts))?);
        self.inner.write(file, offset, parts, pool)
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.serve(Extent::writable(file, offset, bytes.len())?);
        self.inner.write_bytes(file, offset, bytes)
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        let end = self.inner.stamp(file)?.size;
        self.serve(Extent::writable(file, end, bytes.len())?);
        self.inner.append(file, bytes)
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        self.serve_everywhere();
        self.inner.sync(file, kind)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        self.serve_everywhere();
        self.inner.truncate(file, size)
    }

    // Free of charge: it is the agent's own bookkeeping, beside an open that the front end has
    // already done on the directory itself.
    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        self.inner.stamp(file)
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        self.inner.renew(file)
    }

    fn counts(&self) -> StoreCounts {
        self.inner.counts()
    }

    fn describe(&self) -> String {
        let ModelConfig {
            servers,
            service_us,
            bandwidth_mb,
            stripe_kb,
        } = self.config;
        format!(
            "a MODEL of a file system, not a real one: {servers} server(s), {service_us} us per request, \
             {bandwidth_mb} MB/s each, {stripe_kb} KiB stripes, over {}",
            self.inner.describe()
        )
    }
}

/// A run of bytes of a file, as far as they travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// The server of the file's first stripe: files do not all start on the same server.
    first_server: u64,
    offset: u64,
    len: u64,
}

impl Extent {
    /// The extent that a read brings: nothing travels from beyond the end of the file.
    fn readable(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(file).map_err(posix::from_rustix)?;
        let size = u64::try_from(stat.st_size).expect("sizes are not negative");
        let len = (len as u64).min(size.saturating_sub(offset));
        Ok(Self {
            first_server: stat.st_ino,
            offset,
            len,
        })
    }

    fn writable(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(file).map_err(posix::from_rustix)?;
        Ok(Self {
            first_server: stat.st_ino,
            offset,
            len: len as u64,
        })
    }

    /// Each server that has work, and for how many nanoseconds.
    fn work(&self, config: &ModelConfig) -> Vec<(usize, u64)> {
        let (servers, stripe) = (config.servers as u64, config.stripe_bytes());
        let mut bytes: Vec<Option<u64>> = vec![None; config.servers];
        let (mut at, end) = (self.offset, self.offset.saturating_add(self.len));
        loop {
            // A request without bytes still asks one server.
            let next = (at / stripe + 1).saturating_mul(stripe).min(end).max(at);
            let server = (self.first_server % servers + at / stripe % servers) % servers;
            *bytes[server as usize].get_or_insert(0) += next - at;
            at = next;
            if at >= end {
                break;
            }
        }
        let busy = bytes.into_iter().enumerate();
        busy.filter_map(|(server, bytes)| Some((server, config.service_ns(bytes?))))
            .collect()
    }
}

fn sleep_until(end_ns: u64) {
    sharpen_timer();
    let deadline = Timespec {
        tv_sec: (end_ns / 1_000_000_000) as i64,
        tv_nsec: (end_ns % 1_000_000_000) as _,
    };
    // The deadline is absolute: after a signal the same call finishes the same sleep.
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &deadline)
        == Err(rustix::io::Errno::INTR)
    {}
}

/// The kernel rounds sleeps up by 50 us to save wake-ups: a tenth of a modelled request.
fn sharpen_timer() {
    thread_local!(static SHARP: Cell<bool> = const { Cell::new(false) });
    if !SHARP.replace(true) {
        // Only precision is lost where it is not allowed.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
}

#[cfg(test)]
mod tests;
