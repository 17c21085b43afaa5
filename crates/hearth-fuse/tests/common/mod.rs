//! A mount over a temporary store, with sessions that keep nothing themselves.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::UNIX_EPOCH;

use fuser::{FileAttr, FileType, INodeNo};
use hearth_client::{
    AttributesLeave, AttributesRead, Bypass, Done, Errno, FileKey, FileSize, FileStamp,
    InodeAttributes, Keep, NamesLeave, NamesRead, OpenFile, OpenedFile, Outcome, PageRange, Place,
    ReadDone, Revoker, Session, SessionHandle, Written,
};
use hearth_fuse::{Ledger, Mount, MountOptions, WhenBusy};
use tempfile::TempDir;

/// When answers come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Before the call returns.
    AtOnce,
    /// From another thread.
    Later,
}

/// Whether the kernel may keep pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    Direct,
    Kept,
    /// Kept, and revoked before any change is answered, as an agent does it.
    Revoked,
}

/// Serves everything from the store's descriptors.
pub struct Passthrough {
    files: Mutex<HashMap<u64, (FileKey, Arc<File>)>>,
    next: AtomicU64,
    pages: Pages,
    worker: Option<Sender<Box<dyn FnOnce() + Send>>>,
    revoker: OnceLock<Arc<dyn Revoker>>,
    /// Appends must be atomic although the descriptor is not open for appending.
    appending: Arc<Mutex<()>>,
    pub reads: Arc<AtomicUsize>,
    /// Opens that have made their file.
    pub made: AtomicUsize,
    /// The store lags: files are so long.
    size_known: Option<u64>,
    /// Of what others change of a file's size every node is told.
    changes_are_told: bool,
    /// Files that were to lose their last names, and what happens in the store when the next one is.
    pub detached: Mutex<Vec<u64>>,
    pub at_detach: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// An event in the store, when the next change of attributes is announced.
    pub at_change: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// An event in the store, when names or attributes have changed.
    pub at_changed: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// An event when bytes are about to be read or written.
    pub at_bytes: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// An event when names have changed, and nobody was told.
    pub at_names_changed: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Revocations overtake the answers to all exact questions about sizes.
    pub overtakes: AtomicBool,
    /// Reads are for the store itself.
    pub bypasses: AtomicBool,
    /// Names of all directories, which may be kept.
    pub names: Mutex<Option<NamesRead>>,
    /// There is leave to read attributes of files.
    pub gives_leave: AtomicBool,
    /// Files whose attributes were read under leave.
    pub learned: AtomicUsize,
}

impl Passthrough {
    pub fn new(timing: Timing, pages: Pages) -> Arc<Passthrough> {
        Arc::new(Passthrough {
            files: Mutex::default(),
            next: AtomicU64::new(1),
            pages,
            worker: (timing == Timing::Later).then(spawn_worker),
            revoker: OnceLock::new(),
            appending: Arc::default(),
            reads: Arc::default(),
            made: AtomicUsize::default(),
            size_known: None,
            changes_are_told: true,
            detached: Mutex::default(),
            at_detach: Mutex::default(),
            at_change: Mutex::default(),
            at_changed: Mutex::default(),
            at_bytes: Mutex::default(),
            at_names_changed: Mutex::default(),
            overtakes: AtomicBool::new(false),
            bypasses: AtomicBool::new(false),
            names: Mutex::default(),
            gives_leave: AtomicBool::new(false),
            learned: AtomicUsize::default(),
        })
    }

    /// Revokes and waits until that is done.
    pub fn revoke(&self, file: FileKey, pages: Option<PageRange>) {
        let (done, finished) = channel();
        let revoker = self.revoker.get().expect("the mount registers its revoker");
        revoker.revoke(file, pages, Box::new(move || done.send(()).unwrap()));
        finished.recv().unwrap();
    }

    fn run(&self, job: impl FnOnce() + Send + 'static) {
        match &self.worker {
            Some(worker) => worker.send(Box::new(job)).unwrap(),
            None => job(),
        }
    }

    fn bytes_happen(&self) {
        let happens = self.at_bytes.lock().unwrap().take();
        if let Some(happens) = happens {
            happens();
        }
    }

    /// Calls back once the kernel keeps nothing of `pages` any more.
    fn after_revocation(
        &self,
        file: FileKey,
        pages: Option<PageRange>,
    ) -> impl FnOnce(Box<dyn FnOnce() + Send>) + Send + 'static {
        let revoker = match self.pages {
            Pages::Revoked => self.revoker.get().cloned(),
            Pages::Direct | Pages::Kept => None,
        };
        move |done| match revoker {
            Some(revoker) => revoker.revoke(file, pages, done),
            None => done(),
        }
    }

    fn file(&self, handle: SessionHandle) -> Arc<File> {
        Arc::clone(&self.files.lock().unwrap()[&handle.0].1)
    }
}

fn spawn_worker() -> Sender<Box<dyn FnOnce() + Send>> {
    let (jobs, queue) = channel::<Box<dyn FnOnce() + Send>>();
    thread::spawn(move || queue.into_iter().for_each(|job| job()));
    jobs
}

/// The pages that a write touches; all of them if its place is not known yet.
fn changed(place: Place, len: usize) -> Option<PageRange> {
    let Place::At(offset) = place else {
        return None;
    };
    let first = offset / 4096 * 4096;
    let end = (offset + len as u64).next_multiple_of(4096);
    Some(PageRange {
        offset: first,
        len: end - first,
    })
}

fn outcome<T>(result: io::Result<T>) -> Outcome<T> {
    match result {
        Ok(value) => Outcome::Serve(value),
        Err(error) => Outcome::Fail(Errno(error.raw_os_error().unwrap_or(5))),
    }
}

fn read_all(file: &File, offset: u64, len: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

impl Session for Passthrough {
    fn attach(&self, revoker: Arc<dyn Revoker>) {
        assert!(self.revoker.set(revoker).is_ok(), "attached once");
    }

    fn open(&self, open: OpenFile, fd: Arc<OwnedFd>, done: Done<OpenedFile>) {
        self.made
            .fetch_add(usize::from(open.made), Ordering::Relaxed);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let file = File::from(fd.try_clone().unwrap());
        let size = file.metadata().unwrap().len();
        self.files
            .lock()
            .unwrap()
            .insert(number, (open.file, Arc::new(file)));
        let kept = self.pages != Pages::Direct;
        let opened = OpenedFile {
            handle: SessionHandle(number),
            direct: !kept,
            kept_valid: kept,
            size,
            left: false,
        };
        self.run(move || done(Outcome::Serve(opened)));
    }

    fn close(&self, handle: SessionHandle) {
        self.files
            .lock()
            .unwrap()
            .remove(&handle.0)
            .expect("closed once");
    }

    fn read(&self, handle: SessionHandle, offset: u64, len: u32, _keep: Keep, done: ReadDone) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes_happen();
        if self.bypasses.load(Ordering::Relaxed) {
            return done(Outcome::Bypass(Bypass::Policy));
        }
        let file = self.file(handle);
        self.run(move || match read_all(&file, offset, len) {
            Ok(bytes) => {
                // Two pieces, so that joining them is tested all the time.
                let (head, tail) = bytes.split_at(bytes.len() / 2);
                done(Outcome::Serve(&[head, tail]));
            }
            Err(error) => done(Outcome::Fail(Errno(error.raw_os_error().unwrap_or(5)))),
        });
    }

    fn write(&self, handle: SessionHandle, place: Place, data: Vec<u8>, done: Done<Written>) {
        self.bytes_happen();
        let (key, file) = self.files.lock().unwrap()[&handle.0].clone();
        let appending = Arc::clone(&self.appending);
        let then = self.after_revocation(key, changed(place, data.len()));
        self.run(move || {
            let written = {
                let _one_at_a_time = appending.lock().unwrap();
                let offset = match place {
                    Place::At(offset) | Place::Aside(offset) => offset,
                    Place::End => file.metadata().unwrap().len(),
                };
                let size = offset + data.len() as u64;
                file.write_all_at(&data, offset)
                    .map(|()| Written { offset, size })
            };
            then(Box::new(move || done(outcome(written))));
        });
    }

    fn flush(&self, handle: SessionHandle, done: Done<()>) {
        self.file(handle);
        self.run(move || done(Outcome::Serve(())));
    }

    fn sync(&self, handle: SessionHandle, done: Done<()>) {
        let file = self.file(handle);
        self.run(move || done(outcome(file.sync_all())));
    }

    fn size(&self, file: FileKey, ask: bool, done: Done<FileSize>) {
        if ask && self.overtakes.load(Ordering::Relaxed) {
            self.revoke(file, None);
        }
        if ask {
            let known = FileSize {
                size: self.size_known,
                mtime_ns: None,
                keep: self.size_known.is_none() && self.changes_are_told,
            };
            self.run(move || done(Outcome::Serve(known)));
        } else {
            done(Outcome::Serve(FileSize {
                size: None,
                mtime_ns: None,
                keep: false,
            }));
        }
    }

    fn store_is_behind(&self) -> bool {
        self.size_known.is_some()
    }

    fn truncate(&self, file: FileKey, fd: OwnedFd, size: u64, done: Done<()>) {
        let then = self.after_revocation(file, None);
        self.run(move || {
            let result = File::from(fd).set_len(size);
            then(Box::new(move || done(outcome(result))));
        });
    }

    fn detach(&self, file: FileKey, done: Done<()>) {
        self.detached.lock().unwrap().push(file.ino);
        if let Some(happens) = self.at_detach.lock().unwrap().take() {
            happens();
        }
        let then = self.after_revocation(file, None);
        self.run(move || then(Box::new(move || done(Outcome::Serve(())))));
    }

    fn detached(&self, _file: FileKey, _gone: bool) {}

    fn settle(&self, _file: FileKey, done: Done<()>) {
        self.run(move || done(Outcome::Serve(())));
    }

    fn laminate(&self, _file: FileKey, _stamp: FileStamp, done: Done<()>) {
        self.run(move || done(Outcome::Serve(())));
    }

    fn restamp(&self, _file: FileKey, before: FileStamp, after: FileStamp) {
        assert_ne!(before, after);
    }

    fn leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>) {
        let leave = match self.gives_leave.load(Ordering::Relaxed) {
            true => AttributesLeave::Read {
                number: 1,
                floor_ns: 0,
            },
            false => AttributesLeave::No,
        };
        self.run(move || done(Outcome::Serve(vec![leave; files.len()])));
    }

    fn await_leave(&self, files: Vec<FileKey>, done: Done<Vec<AttributesLeave>>) {
        self.leave(files, done);
    }

    fn names(&self, _dir: FileKey, done: Done<NamesLeave>) {
        let names = self.names.lock().unwrap().clone();
        let leave = match names {
            Some(_) => AttributesLeave::Known(InodeAttributes::default()),
            None => AttributesLeave::No,
        };
        self.run(move || done(Outcome::Serve(NamesLeave { leave, names })));
    }

    fn listed(&self, _dir: FileKey, _number: u64, _names: Option<NamesRead>) {
        panic!("nobody had leave to read names");
    }

    fn locate(&self, _files: Vec<FileKey>, done: Done<()>) {
        self.run(move || done(Outcome::Serve(())));
    }

    fn learned(&self, learned: Vec<AttributesRead>) {
        let may_learn = self.gives_leave.load(Ordering::Relaxed);
        assert!(learned.is_empty() || may_learn, "nobody had leave to learn");
        let read = learned.iter().filter(|read| read.attributes.is_some());
        self.learned.fetch_add(read.count(), Ordering::Relaxed);
    }

    fn names_changed(&self) {
        let happens = self.at_names_changed.lock().unwrap().take();
        if let Some(happens) = happens {
            happens();
        }
    }

    fn change(&self, _file: FileKey, done: Done<()>) {
        if let Some(happens) = self.at_change.lock().unwrap().take() {
            happens();
        }
        self.run(move || done(Outcome::Serve(())));
    }

    fn changed(&self, _file: FileKey, _ctime_ns: i64) {
        if let Some(happens) = self.at_changed.lock().unwrap().take() {
            happens();
        }
    }
}

/// A store, a mount of it, and the session between.
pub struct Rig {
    mount: Option<Mount>,
    point: TempDir,
    store: Arc<TempDir>,
    pub session: Arc<Passthrough>,
}

/// The ledger of a mount that begins.
pub fn ledger() -> Arc<Ledger> {
    Arc::new(Ledger::new().unwrap())
}

impl Rig {
    pub fn new(timing: Timing, pages: Pages) -> Option<Rig> {
        Rig::with(timing, pages, MountOptions::default())
    }

    pub fn with(timing: Timing, pages: Pages, options: MountOptions) -> Option<Rig> {
        Rig::over(
            Arc::new(open_dir()),
            Passthrough::new(timing, pages),
            options,
        )
    }

    /// Over a store that lags: files are so long.
    pub fn lagging(size: u64) -> Option<Rig> {
        let mut session = Passthrough::new(Timing::Later, Pages::Kept);
        Arc::get_mut(&mut session).unwrap().size_known = Some(size);
        Rig::over(Arc::new(open_dir()), session, MountOptions::default())
    }

    /// Over a store in which others change files and nobody is told.
    pub fn untold() -> Option<Rig> {
        let mut session = Passthrough::new(Timing::Later, Pages::Kept);
        Arc::get_mut(&mut session).unwrap().changes_are_told = false;
        Rig::over(Arc::new(open_dir()), session, MountOptions::default())
    }

    /// Another mount of the same store.
    pub fn beside(&self) -> Rig {
        let store = Arc::clone(&self.store);
        let session = Passthrough::new(Timing::AtOnce, Pages::Direct);
        Rig::over(store, session, MountOptions::default()).expect("the first mount worked")
    }

    fn over(store: Arc<TempDir>, session: Arc<Passthrough>, options: MountOptions) -> Option<Rig> {
        if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: /dev/fuse cannot be opened: {error}");
            return None;
        }
        let point = open_dir();
        let root = OwnedFd::from(File::open(store.path()).unwrap());
        let mount = Mount::at(point.path(), ledger(), root, session.clone(), options).unwrap();
        Some(Rig {
            mount: Some(mount),
            point,
            store,
            session,
        })
    }

    /// A path inside the mount.
    pub fn at(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    /// The same place in the store.
    pub fn stored(&self, name: &str) -> PathBuf {
        self.store.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.point.path()
    }

    pub fn unmount(mut self) {
        self.mount
            .take()
            .unwrap()
            .unmount(WhenBusy::Refuse)
            .unwrap();
        assert!(
            self.session.files.lock().unwrap().is_empty(),
            "every handle was closed"
        );
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Before the mount point is removed.
        drop(self.mount.take());
    }
}

/// Attributes of an empty file or directory of a store that a test makes up.
pub fn attr(ino: u64, kind: FileType, perm: u16) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn open_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Runs a test in every combination of timing and page keeping.
pub fn everywhere(test: impl Fn(&Rig)) {
    everywhere_until_dropped(|rig| {
        test(&rig);
        rig.unmount();
    });
}

/// The same, where processes that are just being started may keep the mount busy.
pub fn everywhere_until_dropped(test: impl Fn(Rig)) {
    for timing in [Timing::AtOnce, Timing::Later] {
        for pages in [Pages::Direct, Pages::Kept, Pages::Revoked] {
            let Some(rig) = Rig::new(timing, pages) else {
                return;
            };
            test(rig);
        }
    }
}

const CHILD_PATH: &str = "HEARTH_FUSE_TEST_PATH";
const CHILD_TASK: &str = "HEARTH_FUSE_TEST_TASK";

/// A process of its own that runs the test `entry` of this binary, for what must not happen in the
/// process that serves the mount. `entry` takes its work from [`child_work`].
pub fn start_child(entry: &str, task: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", entry, "--test-threads=1"])
        .env(CHILD_PATH, path)
        .env(CHILD_TASK, task)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The task and the path that [`start_child`] was given, in the child; `None` in an ordinary run of the tests.
pub fn child_work() -> Option<(String, PathBuf)> {
    let path = std::env::var_os(CHILD_PATH)?;
    Some((std::env::var(CHILD_TASK).unwrap(), path.into()))
}

/// The error number of a failed call.
pub fn errno<T: std::fmt::Debug>(result: Result<T, impl Into<io::Error>>) -> i32 {
    result.unwrap_err().into().raw_os_error().unwrap()
}
