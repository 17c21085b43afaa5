//! The job of this process, from `MPI_Init` to `MPI_Finalize`.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use hearth_agent::Semantics;
use hearth_client::Session;
use hearth_mpi::Lines;
use rustix::fs::Stat;

use crate::job_agents::JobAgents;
use crate::meeting;
use crate::mpi::{SUCCESS, mpi};
use crate::settings::{self, Hints, Settings};
use crate::words::{self, say};
use crate::{fds, sys};

/// How long the end of a job waits for the store.
const FLUSH_SPAN: Duration = Duration::from_secs(120);

/// The same where the process ends without the end of MPI.
const EXIT_FLUSH_SPAN: Duration = Duration::from_secs(10);

static JOB: RwLock<Option<Arc<Job>>> = RwLock::new(None);

/// The state that the ranks of a job have in common, and this one's part of it.
pub(crate) struct Job {
    id: u64,
    rank: u32,
    ranks: u32,
    settings: Settings,
    /// The same as hints have shaped them.
    shaped: OnceLock<Settings>,
    agents: JobAgents,
    /// Messages over MPI, if that is how agents reach each other.
    lines: Option<Arc<Lines>>,
    /// The directory that agents of one host share; ours to remove if the path is here.
    directory: Option<PathBuf>,
}

/// The parts of a job.
pub(crate) struct Parts {
    pub(crate) id: u64,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) settings: Settings,
    pub(crate) agents: JobAgents,
    pub(crate) lines: Option<Arc<Lines>>,
    pub(crate) directory: Option<PathBuf>,
}

/// Begins a job when MPI has begun, if a store is named.
pub(crate) fn begin(real: impl FnOnce() -> c_int) -> c_int {
    let done = real();
    if done != SUCCESS {
        return done;
    }
    let settings = settings::from_environment();
    if matches!(settings, Ok(None)) {
        return done;
    }
    let Some(mpi) = mpi() else {
        say(&"no file is cached: this MPI library is neither Open MPI nor of MPICH's kind");
        return done;
    };
    if let Some(parts) = meeting::hold(mpi, settings) {
        start(parts);
    }
    done
}

fn start(parts: Parts) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| sys::on_fork_and_exit(in_child, at_exit));
    let Parts {
        id,
        rank,
        ranks,
        settings,
        agents,
        lines,
        directory,
    } = parts;
    crate::loose::set(settings.semantics == Semantics::Mpi);
    let job = Job {
        id,
        rank,
        ranks,
        settings,
        shaped: OnceLock::new(),
        agents,
        lines,
        directory,
    };
    *JOB.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(job));
}

/// Ends the job: every byte goes to the store, then every agent ends.
pub(crate) fn end() {
    let (Some(mpi), Some(job)) = (mpi(), current()) else {
        return;
    };
    job.flush();
    // Until here, others have written bytes that this rank is home of.
    mpi.barrier();
    job.flush();
    words::end();
    // From here on nobody needs this rank's agent.
    mpi.barrier();
    job.report();
    *JOB.write().unwrap_or_else(PoisonError::into_inner) = None;
    job.agents.stop();
    if let Some(Err(error)) = job.lines.as_ref().map(|lines| lines.finish()) {
        say(&format_args!("messages between ranks are lost: {error}"));
    }
    if let Some(directory) = &job.directory {
        // Another rank of this host may still be at it; then what is left is two small files.
        let _ = std::fs::remove_dir_all(directory);
    }
}

/// The job, while there is one.
pub(crate) fn current() -> Option<Arc<Job>> {
    if fds::is_child() {
        return None;
    }
    JOB.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The agent's session, once there is one.
pub(crate) fn session() -> Option<Arc<dyn Session>> {
    current()?.agents.session()
}

/// Whether a device is that of the store.
pub(crate) fn is_device(device: u64) -> bool {
    current().is_some_and(|job| job.settings.device == device)
}

/// Whether something is on the store's own device.
pub(crate) fn is_of_store(stat: &Stat) -> bool {
    is_device(stat.st_dev)
}

impl Job {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.shaped.get().unwrap_or(&self.settings)
    }

    /// Whether no rank's agent can have been started by an open that this rank is part of.
    pub(crate) fn is_asleep(&self) -> bool {
        self.agents.is_asleep()
    }

    /// Has the agents be what hints ask for. All ranks do this alike, before any agent starts.
    pub(crate) fn shape(&self, hints: Hints) {
        let settings = self.shaped.get_or_init(|| self.settings.with(hints));
        self.agents.shape(|config| {
            // An agent of another shape is one of another job, and refused.
            config.job = format!("mpi-{:016x}-{:016x}", self.id, settings.digest());
            config.policy = settings.policy;
            config.page_bytes = settings.page_bytes;
            config.pool_bytes = settings.pool_bytes;
            config.chunk_bytes = settings.chunk_bytes;
        });
    }

    /// Whether an open by so many ranks is one by all.
    pub(crate) fn is_all(&self, ranks: usize) -> bool {
        self.ranks as usize == ranks
    }

    /// Whether a true path is inside of the store.
    pub(crate) fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.settings.root)
    }

    /// Makes sure that agents run, for an open by so many ranks.
    pub(crate) fn wake(&self, ranks: u32) -> Result<(), String> {
        // Ranks that are not part of the open sleep until somebody knocks.
        self.agents.wake(ranks < self.ranks)
    }

    fn flush(&self) {
        if let Err(why) = self.agents.flush(FLUSH_SPAN) {
            say(&format_args!("bytes are lost: {why}"));
        }
    }

    fn report(&self) {
        let (Some(directory), Some(status)) = (&self.settings.report, self.agents.status()) else {
            return;
        };
        let path = directory.join(format!("rank-{}.json", self.rank));
        let written = serde_json::to_vec_pretty(&status)
            .map_err(std::io::Error::from)
            .and_then(|text| std::fs::write(&path, text));
        if let Err(error) = written {
            say(&format_args!("cannot write `{}`: {error}", path.display()));
        }
    }
}

unsafe extern "C" fn in_child() {
    fds::forget_in_child();
}

/// The process ends without `MPI_Finalize`: what others cannot do for it is done now.
extern "C" fn at_exit() {
    if let Some(job) = current() {
        words::end();
        if let Err(why) = job.agents.flush(EXIT_FLUSH_SPAN) {
            say(&format_args!("bytes are lost: {why}"));
        }
    }
}
