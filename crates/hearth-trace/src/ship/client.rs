//! The log client: collects, and hands over to its sender.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hearth_net::Party;

use super::sender::{RawClock, Sender, Shipper, thread_cpu};
use super::spool::Spool;
use crate::area::DirectoryError;
use crate::clock;
use crate::collect::{CollectError, Collection};
use crate::file::{Fact, SessionId, Writer};

/// How often what the client costs is written.
const ACCOUNT_PERIOD: Duration = Duration::from_secs(1);
/// How long the last question to the server's clock may take.
const LAST_PING_SPAN: Duration = Duration::from_secs(1);

/// Bounds of what waits for the server.
#[derive(Clone, Copy, Debug)]
pub struct SpoolLimits {
    /// Bytes in memory.
    pub memory: usize,
    /// Bytes in the spill file.
    pub spill: u64,
}

impl Default for SpoolLimits {
    fn default() -> SpoolLimits {
        SpoolLimits {
            memory: 8 << 20,
            spill: 1 << 30,
        }
    }
}

/// The server of a log client, and how it sends.
pub struct ClientConfig {
    /// The server.
    pub server: SocketAddr,
    /// The secret that the server and this client know.
    pub party: Party,
    /// The file for what memory does not hold.
    pub spill: PathBuf,
    /// Bounds.
    pub limits: SpoolLimits,
    /// The machine's name and boot.
    pub host: (String, u128),
    /// The clock that pings are timed with.
    pub raw: RawClock,
}

impl ClientConfig {
    /// That of this machine, spilling to a file in `directory`.
    pub fn here(server: SocketAddr, party: Party, directory: &Path) -> io::Result<ClientConfig> {
        let host = crate::area::read_small("/proc/sys/kernel/hostname")?;
        let host = String::from_utf8_lossy(host.trim_ascii()).into_owned();
        let pid = std::process::id();
        Ok(ClientConfig {
            server,
            party,
            spill: directory.join(format!("unsent-{host}-{pid}.htrace")),
            limits: SpoolLimits::default(),
            host: (host, crate::area::boot()?),
            raw: Box::new(clock::raw_ns),
        })
    }
}

/// Why a log client cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The rings cannot be collected.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The operating system refused.
    #[error("cannot ship what is traced")]
    Io(#[from] io::Error),
}

impl From<DirectoryError> for ShipError {
    fn from(error: DirectoryError) -> ShipError {
        ShipError::Collect(error.into())
    }
}

/// How a log client ended.
#[derive(Debug)]
pub struct Finished {
    /// Records that were collected.
    pub records: u64,
    /// Bytes of frames made of them.
    pub bytes: u64,
    /// The file with the frames that were not delivered, and the reason; `None`: the server has
    /// all.
    pub undelivered: Option<(PathBuf, String)>,
}

/// Collects the rings of a directory and sends them.
pub struct LogClient {
    collection: Collection<Shipper>,
    shipper: Shipper,
    thread: JoinHandle<()>,
    account_at: Instant,
}

impl LogClient {
    /// Starts to send what is in the rings of `directory`.
    pub fn start(directory: &Path, config: ClientConfig) -> Result<LogClient, ShipError> {
        let spool = Spool::new(&config.spill, config.limits.memory, config.limits.spill);
        let shipper = Shipper::new(spool);
        let session = SessionId::fresh()?;
        let (host, boot) = config.host;
        let writer = Writer::new(shipper.clone(), session, (&host, boot))?;
        let collection = Collection::open(directory, writer)?;
        let sender = Sender {
            shipper: shipper.clone(),
            server: config.server,
            party: config.party,
            session,
            host,
            raw: config.raw,
        };
        let thread = thread::Builder::new().name("hearth-ship".into());
        Ok(LogClient {
            collection,
            shipper,
            thread: thread.spawn(move || sender.run())?,
            account_at: Instant::now() + ACCOUNT_PERIOD,
        })
    }

    /// One round: takes what is there, and waits until the next is due or `also` can be read.
    pub fn round(&mut self, also: Option<BorrowedFd<'_>>) -> Result<(), ShipError> {
        if !self.shipper.is_full() {
            self.collection.round()?;
        }
        if Instant::now() >= self.account_at {
            self.account()?;
        }
        self.collection.wait(also)?;
        Ok(())
    }

    /// Writes what the server's clock said and what we cost.
    fn account(&mut self) -> io::Result<()> {
        self.account_at = Instant::now() + ACCOUNT_PERIOD;
        for answer in self.shipper.take_pings() {
            self.collection.writer().fact(&answer.fact())?;
        }
        let cost = Fact::Cost {
            cpu: thread_cpu() + self.shipper.cpu(),
            bytes: self.collection.writer().bytes_written(),
            waiting_max: self.collection.waiting_max(),
            unsent_max: self.shipper.waiting_max(),
        };
        self.collection.writer().fact(&cost)
    }

    /// The collection, for what else is to be written.
    pub fn collection(&mut self) -> &mut Collection<Shipper> {
        &mut self.collection
    }

    /// Why the server is not there, if it is not.
    pub fn trouble(&self) -> Option<String> {
        self.shipper.trouble()
    }

    /// Takes what is there, ends the session, and waits for the server to have it all, not longer
    /// than `linger`.
    pub fn finish(mut self, linger: Duration) -> Result<Finished, ShipError> {
        self.collection.round()?;
        self.shipper.ping(Instant::now() + LAST_PING_SPAN);
        self.account()?;
        let writer = self.collection.writer();
        let (records, bytes) = (writer.records_written(), writer.bytes_written());
        drop(self.collection.finish()?);
        let delivered = self.shipper.close(Instant::now() + linger);
        let trouble = self.shipper.trouble();
        let undelivered = if delivered {
            None
        } else {
            let why = trouble.unwrap_or_else(|| "there was no time".to_owned());
            Some(why)
        };
        // Ends by itself: at once, or when the server has been silent for long enough.
        let _ = self.thread.join();
        let spool = self.shipper.into_spool();
        let left = spool.map(Spool::close).transpose()?.flatten();
        Ok(Finished {
            records,
            bytes,
            undelivered: undelivered.and_then(|why| Some((left?, why))),
        })
    }
}
