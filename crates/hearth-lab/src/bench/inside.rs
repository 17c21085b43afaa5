//! Agents inside this process, for benchmarks of the session itself.

use hearth_agent::net::Secret;
use hearth_agent::{Agent, AgentSettings};
use hearth_client::{
    Access, FileKey, FileStamp, Keep, OpenFile, OpenedFile, Outcome, Session, SessionHandle,
};
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::Duration;

/// Starts agents over a plain directory. They find each other over loopback TCP.
pub(crate) fn agents(
    count: u32,
    store: &Path,
    job_dir: &Path,
    page_bytes: u32,
    pool_bytes: u64,
) -> io::Result<Vec<Agent>> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<io::Result<_>>()?;
    let members = listeners
        .iter()
        .map(TcpListener::local_addr)
        .collect::<io::Result<Vec<_>>>()?;
    let starts: Vec<_> = (0..)
        .zip(listeners)
        .map(|(node, listener)| {
            let named = ("bench".to_owned(), Secret::new([0; 32]));
            let place = (store.to_owned(), job_dir.to_owned());
            let config = AgentSettings {
                page_bytes,
                chunk_bytes: (8 << 20).max(u64::from(page_bytes)),
                pool_bytes,
                join_span: Duration::from_secs(20),
                balance: false,
                ..AgentSettings::plain((node, members.clone()), named, place)
            };
            thread::spawn(move || {
                // The agent's threads inherit the place.
                stay_on(node)?;
                Agent::start(config, listener).map_err(io::Error::other)
            })
        })
        .collect();
    starts
        .into_iter()
        .map(|start| start.join().expect("a start does not panic"))
        .collect()
}

/// Keeps this thread, and those that it makes, on one core: nodes of a job do not share cores, and a
/// round trip between threads of one core is none between nodes.
pub(crate) fn stay_on(node: u32) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&core| allowed.is_set(core))
        .collect();
    let mut here = CpuSet::new();
    here.set(cores[node as usize % cores.len()]);
    Ok(sched_setaffinity(None, &here)?)
}

/// Opens a file for reading; with `private`, this agent becomes the home of all of it.
pub(crate) fn open(session: &dyn Session, path: &Path, private: bool) -> io::Result<SessionHandle> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let open = OpenFile {
        file: FileKey { ino: meta.ino() },
        access: Access {
            read: true,
            write: false,
        },
        stamp: FileStamp {
            ctime_ns: meta.ctime() * 1_000_000_000 + meta.ctime_nsec(),
            mtime_ns: meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
            size: meta.size(),
        },
        private,
        made: false,
    };
    let (tell, told) = mpsc::channel();
    let done = move |outcome: Outcome<OpenedFile>| {
        let _ = tell.send(outcome);
    };
    session.open(open, Arc::new(file.into()), Box::new(done));
    match told.recv() {
        Ok(Outcome::Serve(opened)) => Ok(opened.handle),
        Ok(Outcome::Fail(errno)) => Err(io::Error::from_raw_os_error(errno.0)),
        Ok(Outcome::Bypass(_)) | Err(_) => {
            Err(io::Error::other("the agent did not serve the open"))
        }
    }
}

/// Reads through a session and waits, as a front end does for its program. True if `check` is.
pub(crate) fn read(
    session: &dyn Session,
    handle: SessionHandle,
    offset: u64,
    len: u32,
    check: fn(&[u8], u64) -> bool,
) -> bool {
    let caller: Thread = thread::current();
    let answer: Arc<Mutex<Option<bool>>> = Arc::default();
    let slot = Arc::clone(&answer);
    let done = move |outcome: Outcome<&[&[u8]]>| {
        let right = match outcome {
            Outcome::Serve([piece]) => piece.len() == len as usize && check(piece, offset),
            Outcome::Serve(_) | Outcome::Bypass(_) | Outcome::Fail(_) => false,
        };
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(right);
        caller.unpark();
    };
    session.read(handle, offset, len, Keep::Pool, Box::new(done));
    loop {
        let told = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match told {
            Some(right) => return right,
            None => thread::park(),
        }
    }
}
