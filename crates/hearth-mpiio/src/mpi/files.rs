//! Files that MPI has open through the cache.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Class, Mpi, Raw, SUCCESS, mpi};
use crate::claim::{Claim, ClaimError};
use crate::job::{self, Job};
use crate::paths::{self, Registered};
use crate::settings::{HINTS_BYTES, Hints};
use crate::words::say;
use crate::{fds, sys};

const MODE_RDONLY: c_int = 2;

/// Files by the library's handle.
static FILES: Mutex<BTreeMap<Raw, Arc<Shared>>> = Mutex::new(BTreeMap::new());

/// How many there are: calls on all others look no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A file that ranks share.
pub(super) struct Shared {
    registered: Registered,
    pub(super) claim: Option<Claim>,
    pub(super) atomic: AtomicBool,
    /// A call of it may still be going on.
    pub(super) goes_on: AtomicBool,
}

/// The arguments that a program gave to `MPI_File_open`.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) comm: Raw,
    pub(super) name: *const c_char,
    pub(super) mode: c_int,
    pub(super) info: Raw,
    pub(super) file: *mut Raw,
}

fn files() -> MutexGuard<'static, BTreeMap<Raw, Arc<Shared>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is cached, by the library's handle.
#[inline]
pub(super) fn find(file: Raw) -> Option<Arc<Shared>> {
    if COUNT.load(Relaxed) == 0 {
        return None;
    }
    files().get(&file).cloned()
}

/// Opens a file: cached if all ranks that open it want and can.
pub(super) fn open(asked: Asked, real: impl Fn() -> c_int) -> c_int {
    let (Some(mpi), Some(job)) = (mpi(), job::current()) else {
        return real();
    };
    let path = place(mpi, &job, asked);
    shape(mpi, &job, asked, path.is_some());
    let path = path.filter(|path| is_awake(mpi, &job, asked, path));
    let votes = mpi.exchange(asked.comm, &[u8::from(path.is_some())]);
    let all = votes.is_some_and(|said| said.iter().all(|[vote]| *vote == 1));
    let Some(path) = path.filter(|_| all) else {
        return real();
    };
    let registered = Registered::new(path);
    let done = real();
    // Libraries may open a file on some ranks and fail on others: each tells the program its own.
    let claim = match done {
        SUCCESS => claim(&job, &registered, asked.mode),
        _ => Ok(None),
    };
    let claims = mpi.exchange(asked.comm, &[u8::from(claim.is_ok())]);
    if done != SUCCESS {
        return done;
    }
    let free = claims.is_some_and(|said| said.iter().all(|[free]| *free == 1));
    let (Ok(claim), Some(&handle), true) = (claim, sys::at(asked.file), free) else {
        return refuse(mpi, asked);
    };
    let shared = Shared {
        registered,
        claim,
        atomic: AtomicBool::new(false),
        goes_on: AtomicBool::new(false),
    };
    let mut files = files();
    files.insert(handle, Arc::new(shared));
    COUNT.store(files.len(), Relaxed);
    SUCCESS
}

/// The file's true path, if it is one that this rank caches.
fn place(mpi: &Mpi, job: &Job, asked: Asked) -> Option<PathBuf> {
    let name = sys::text(asked.name)?;
    let path = paths::true_path(paths::without_kind(name.to_bytes()))?;
    let is_off = mpi.hint(asked.info, c"hearth").as_deref() == Some("off");
    let is_none = mpi.hint(asked.info, c"hearth_policy").as_deref() == Some("none");
    (job.has(&path) && !is_off && !is_none).then_some(path)
}

/// Lets the hints of the first cached file that all ranks open together shape the cache. A file that
/// some ranks opened before has started every rank's agent, and each rank of that open knows.
fn shape(mpi: &Mpi, job: &Job, asked: Asked, is_cached: bool) {
    let hint = |name: &str| mpi.hint(asked.info, &CString::new(name).ok()?);
    let mut mine = [0; 1 + HINTS_BYTES];
    mine[0] = u8::from(is_cached && job.is_asleep());
    mine[1..].copy_from_slice(&Hints::of(hint).encode());
    let Some(all) = mpi.exchange(asked.comm, &mine) else {
        return;
    };
    if job.is_all(all.len()) && all.iter().all(|[free, ..]| *free == 1) {
        let [_, hints @ ..] = all[0];
        job.shape(Hints::decode(hints));
        // An agent that starts wakes all others: none may before all are shaped.
        let _ = mpi.exchange(asked.comm, &[1]);
    }
}

/// Whether this rank's agent runs by now.
fn is_awake(mpi: &Mpi, job: &Job, asked: Asked, path: &Path) -> bool {
    let Some((rank, ranks)) = mpi.place(asked.comm) else {
        return false;
    };
    if rank == 0 {
        heed(mpi, job, asked.info);
    }
    job.wake(ranks)
        .inspect_err(|why| say(&format_args!("`{}` is not cached: {why}", path.display())))
        .is_ok()
}

/// Says which hints ask for what the whole job has otherwise.
fn heed(mpi: &Mpi, job: &Job, info: Raw) {
    let settings = job.settings();
    let number = |text: &str| crate::settings::size(text).map(|bytes| bytes.to_string());
    let hints = [
        (
            c"hearth_policy",
            "HEARTH_POLICY",
            settings.policy_name.to_owned(),
        ),
        (
            c"hearth_page_size",
            "HEARTH_PAGE_SIZE",
            settings.page_bytes.to_string(),
        ),
        (
            c"hearth_pool",
            "HEARTH_POOL",
            settings.pool_bytes.to_string(),
        ),
    ];
    for (hint, variable, is) in hints {
        if let Some(asked) = mpi.hint(info, hint)
            && asked != is
            && number(&asked).as_ref() != Some(&is)
        {
            let hint = hint.to_string_lossy();
            say(&format_args!(
                "the hint {hint}={asked} is not heeded: this job caches with {is}; the first file that all \
                 ranks open decides, or {variable}"
            ));
        }
    }
}

fn claim(job: &Job, file: &Registered, mode: c_int) -> Result<Option<Claim>, ()> {
    let writes = mode & MODE_RDONLY == 0;
    Claim::take(file.path(), job.id(), writes).map_err(|error| match error {
        ClaimError::Taken => say(&format_args!(
            "cannot open `{}`: another job has it open through its own cache, and one of the two \
             writes; open it after that job, or with the hint hearth=off in both",
            file.path().display()
        )),
        ClaimError::Unusable(why) => say(&format_args!(
            "cannot open `{}`: {why}",
            file.path().display()
        )),
    })
}

/// Closes again what must not be open.
fn refuse(mpi: &Mpi, asked: Asked) -> c_int {
    // Inside of our own call, so this is the library's own close.
    let _ = mpi.close(asked.file);
    mpi.fail(mpi.file_null(), Class::FileInUse)
}

/// Brings what this rank wrote to the store, then closes.
pub(super) fn close(file: *mut Raw, real: impl Fn() -> c_int) -> c_int {
    let shared = sys::at(file).and_then(|file| find(*file).map(|shared| (*file, shared)));
    let (Some(mpi), Some((handle, shared))) = (mpi(), shared) else {
        return real();
    };
    let flushed = each(&shared, |_, cached| cached.flush());
    let mut code = SUCCESS;
    if let Err(error) = flushed {
        say(&format_args!(
            "cannot bring `{}` to the store: {error}",
            shared.registered.path().display()
        ));
        code = mpi.fail(handle, Class::of(&error));
    }
    {
        let mut files = files();
        files.remove(&handle);
        COUNT.store(files.len(), Relaxed);
    }
    match real() {
        SUCCESS => code,
        failed => failed,
    }
}

/// Brings the file to the store, safely, then lets the library do what it does.
pub(super) fn sync(file: Raw, real: impl Fn() -> c_int) -> c_int {
    let (Some(mpi), Some(shared)) = (mpi(), find(file)) else {
        return real();
    };
    match each(&shared, |fd, cached| cached.sync(fd)) {
        Ok(()) => real(),
        Err(error) => {
            // The other ranks are on their way into the library's call.
            let _ = real();
            mpi.fail(file, Class::of(&error))
        }
    }
}

/// Has other ranks see what this one wrote to a file, and this one what they wrote.
pub(super) fn exchange(shared: &Shared) {
    if let Err(error) = each(shared, |_, cached| cached.exchange()) {
        let path = shared.registered.path().display();
        say(&format_args!(
            "cannot bring `{path}` to the other ranks: {error}"
        ));
    }
}

/// Does something with every descriptor of a file; the first error counts.
fn each(
    shared: &Shared,
    run: impl Fn(c_int, &crate::file::Cached) -> io::Result<()>,
) -> io::Result<()> {
    let open = fds::at_path(shared.registered.path());
    let results = open.into_iter().map(|(fd, cached)| run(fd, &cached));
    results.fold(Ok(()), Result::and)
}

/// Says in the hints of a file how it is cached.
pub(super) fn info(file: Raw, place: *mut c_void, real: impl Fn() -> c_int) -> c_int {
    let done = real();
    let (Some(mpi), Some(job)) = (mpi(), job::current()) else {
        return done;
    };
    if done != SUCCESS || place.is_null() {
        return done;
    }
    if find(file).is_none() {
        mpi.set_hint(place, c"hearth", "off");
        return done;
    }
    let settings = job.settings();
    mpi.set_hint(place, c"hearth", "on");
    mpi.set_hint(place, c"hearth_policy", settings.policy_name);
    mpi.set_hint(place, c"hearth_page_size", &settings.page_bytes.to_string());
    mpi.set_hint(place, c"hearth_pool", &settings.pool_bytes.to_string());
    done
}

/// Before the end of MPI: files that the program left open are as good as closed.
pub(super) fn end() {
    for (_, cached) in fds::all() {
        if let Err(error) = cached.flush() {
            let path = cached.path().display();
            say(&format_args!("cannot bring `{path}` to the store: {error}"));
        }
    }
}
