//! The directory of a set on this machine: who is in it and how to reach them.
//!
//! ```text
//! BASE/                 $HEARTH_DIR, else $XDG_RUNTIME_DIR/hearth, else /tmp/hearth-UID
//!   store-HASH.lock     held while a set for the store is looked for, started or taken down
//!   starts.lock         held while it is looked whether agents of other stores are in the way, and agents start
//!   JOB/
//!     set.json          everything about the set but its secret
//!     secret            what its members prove to know
//!     agent-N.json      what agent N was told
//!     agent-N.sock      where it listens to commands
//!     agent-N.log       its words
//!     agent-N.store     in its namespaces: the store behind its mount, for reading alone
//!     users.lock        held, shared, by every `hearth run` that uses the set
//! ```
//!
//! Every directory is ours alone (0700, our own, not a symlink), or it is not used.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearth_agent::net::Secret;
use rustix::fs::{FlockOperation, flock};
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};

use crate::bank::DaemonEntry;
use crate::failure::{Failure, OrFail};
use crate::options::SetSpec;
use crate::process::Process;

/// How long a command that only ends a set waits for others that start or end it.
const LOCK_SPAN_MAX: Duration = Duration::from_secs(8);

/// How often it looks.
const LOCK_LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How the place is called, beside an agent's socket, where the store is seen behind its mount.
pub const BEHIND: &str = "store";

/// Longest path of a socket, `sun_path` without its last zero.
const SOCKET_PATH_MAX: usize = 107;

/// A set, as `set.json` has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetFile {
    /// Name of the job.
    pub job: String,
    /// The store's true path.
    pub store: PathBuf,
    /// How the set is.
    pub spec: SetSpec,
    /// Its owner.
    pub owner: SetOwner,
    /// The addresses at which members listen to their peers, other hosts' too.
    pub members: Vec<SocketAddr>,
    /// The agents on this machine.
    pub agents: Vec<AgentEntry>,
    /// The daemons of its bank.
    #[serde(default)]
    pub bank: Vec<DaemonEntry>,
    /// The mounts, and their paths.
    pub mounts: Vec<MountEntry>,
}

/// One agent on this machine.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AgentEntry {
    /// Its number in the job.
    pub node: u32,
    /// Its process.
    pub process: Process,
    /// The process that starts another one in its place when it dies.
    #[serde(default)]
    pub warden: Option<Process>,
}

impl AgentEntry {
    /// It is there, or is about to be.
    pub fn lives(&self) -> bool {
        self.process.lives() || self.is_guarded()
    }

    /// Another one takes its place if it dies.
    pub fn is_guarded(&self) -> bool {
        self.warden.is_some_and(Process::lives)
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountEntry {
    /// Which agent serves it.
    pub node: u32,
    /// Its path.
    pub at: PathBuf,
}

/// The owner of a set, which takes it down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetOwner {
    /// `hearth down`.
    Nobody,
    /// The command that started it, at its end; the agents do not outlive it.
    Command(Process),
}

impl SetOwner {
    /// This process.
    pub fn this_command() -> Result<SetOwner, Failure> {
        let me = Process::of(std::process::id());
        me.map(SetOwner::Command)
            .ok_or_else(|| Failure::new("cannot find this process in /proc"))
    }

    /// The command that should take the set down is not there any more.
    pub fn is_gone(self) -> bool {
        matches!(self, SetOwner::Command(command) if !command.lives())
    }
}

/// A job's directory.
#[derive(Clone, Debug)]
pub struct JobDir(PathBuf);

/// A lock on a file, held until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "closing it lets go of the lock")] File);

/// How a lock is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Together with others.
    Shared,
    /// Alone.
    Exclusive,
}

/// The directory that holds the job directories; made if it is not there.
pub fn base() -> Result<PathBuf, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let path = match (env::var_os("HEARTH_DIR"), runtime_dir(uid)) {
        (Some(dir), _) if !dir.is_empty() => PathBuf::from(dir),
        (_, Some(dir)) => dir.join("hearth"),
        (_, None) => PathBuf::from(format!("/tmp/hearth-{uid}")),
    };
    let what = || format!("cannot use `{}` for control files", path.display());
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Failure::new(what()).because(error).hint(BASE_HINT)),
    }
    check_ours(&path).map_err(|cause| Failure::new(what()).after(cause).hint(BASE_HINT))?;
    path.canonicalize().or_fail(what)
}

const BASE_HINT: &str = "set HEARTH_DIR to a directory of your own with mode 0700";

/// The session's directory, unless it was inherited from another user.
fn runtime_dir(uid: u32) -> Option<PathBuf> {
    let dir = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    let owner = fs::metadata(&dir).ok()?.uid();
    (dir.is_absolute() && owner == uid).then_some(dir)
}

fn check_ours(path: &Path) -> Result<(), Failure> {
    let meta = path
        .symlink_metadata()
        .map_err(|error| Failure::new(error.to_string()))?;
    if meta.is_symlink() {
        return Err(Failure::new("it is a symlink"));
    }
    if !meta.is_dir() {
        return Err(Failure::new("it is not a directory"));
    }
    let uid = rustix::process::geteuid().as_raw();
    if meta.uid() != uid {
        return Err(Failure::new(format!("it belongs to user {}", meta.uid())));
    }
    if meta.mode() & 0o077 != 0 {
        let mode = meta.mode() & 0o777;
        return Err(Failure::new(format!("others may enter it (mode {mode:o})")));
    }
    Ok(())
}

/// Every job directory of ours.
pub fn all(base: &Path) -> Result<Vec<JobDir>, Failure> {
    let what = || format!("cannot list `{}`", base.display());
    let mut dirs = Vec::new();
    for entry in fs::read_dir(base).or_fail(what)? {
        let path = entry.or_fail(what)?.path();
        // A directory that is not ours alone was not made by us.
        if check_ours(&path).is_ok() {
            dirs.push(JobDir(path));
        }
    }
    dirs.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(dirs)
}

/// Keeps other commands from starting or ending a set for the same store. Waits for those that do, and says so after a
/// while; `pause` lets time pass, and may end the wait.
pub fn lock_store(
    base: &Path,
    store: &Path,
    pause: impl FnMut(Duration) -> Result<(), Failure>,
) -> Result<Lock, Failure> {
    lock_patiently(&base.join(lock_name(store)), &ends_for(store), pause)
}

/// Keeps other commands from looking for agents that are about to start. Waits in the same way.
pub fn lock_starts(
    base: &Path,
    pause: impl FnMut(Duration) -> Result<(), Failure>,
) -> Result<Lock, Failure> {
    lock_patiently(&base.join("starts.lock"), "starts agents", pause)
}

fn lock_patiently(
    path: &Path,
    does: &str,
    mut pause: impl FnMut(Duration) -> Result<(), Failure>,
) -> Result<Lock, Failure> {
    loop {
        let end = Instant::now() + LOCK_SPAN_MAX;
        let tried = try_lock(path, || {
            pause(LOCK_LOOK_AGAIN)?;
            Ok(Instant::now() < end)
        });
        match tried? {
            Tried::Locked(lock) => return Ok(lock),
            Tried::Held(by) => hearth_client::say!("waiting: {} {does}", by.words()),
        }
    }
}

fn ends_for(store: &Path) -> String {
    format!("starts or ends agents for `{}`", store.display())
}

fn lock_name(store: &Path) -> String {
    format!(
        "store-{:016x}.lock",
        hash(store.as_os_str().as_encoded_bytes())
    )
}

/// As [`lock_store`], but gives up when another command holds it for long.
pub fn lock_store_soon(base: &Path, store: &Path) -> Result<Lock, Failure> {
    let end = Instant::now() + LOCK_SPAN_MAX;
    let tried = try_lock(&base.join(lock_name(store)), || {
        wait_a_little()?;
        Ok(Instant::now() < end)
    });
    match tried? {
        Tried::Locked(lock) => Ok(lock),
        Tried::Held(by) => Err(Failure::new(format!("{} {}", by.words(), ends_for(store)))
            .hint("let it end, or end it, then try again")),
    }
}

/// A pause that nothing ends.
pub fn wait_a_little() -> Result<(), Failure> {
    std::thread::park_timeout(LOCK_LOOK_AGAIN);
    Ok(())
}

/// The end of a try for a lock.
enum Tried {
    Locked(Lock),
    Held(Holder),
}

/// The process that holds a lock, as far as the operating system tells.
struct Holder(Option<u32>);

impl Holder {
    fn words(&self) -> String {
        let who = self.0.map(|pid| format!(" (pid {pid})"));
        format!("another command{}", who.unwrap_or_default())
    }
}

/// Tries for a lock for as long as `goes_on` says.
fn try_lock(
    path: &Path,
    mut goes_on: impl FnMut() -> Result<bool, Failure>,
) -> Result<Tried, Failure> {
    let what = || format!("cannot lock `{}`", path.display());
    let file = open_lock(path).or_fail(what)?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Tried::Locked(Lock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) if goes_on()? => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Tried::Held(Holder(holder(&file)))),
            Err(error) => return Err(Failure::new(what()).because(error)),
        }
    }
}

/// The process that has locked a file, as far as the operating system tells.
fn holder(file: &File) -> Option<u32> {
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let line = locks.lines().find(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(1) == Some("FLOCK") && fields.nth(3).is_some_and(|at| at.ends_with(&inode))
    })?;
    line.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// FNV-1a: the same on every host and in every build.
pub fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn lock(path: &Path, kind: LockKind) -> Result<Lock, Failure> {
    let operation = match kind {
        LockKind::Shared => FlockOperation::LockShared,
        LockKind::Exclusive => FlockOperation::LockExclusive,
    };
    open_lock(path)
        .and_then(|file| {
            rustix::io::retry_on_intr(|| flock(&file, operation))?;
            Ok(Lock(file))
        })
        .or_fail(|| format!("cannot lock `{}`", path.display()))
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

impl JobDir {
    /// Makes the directory of a new job.
    pub fn create(base: &Path, job: &str) -> Result<JobDir, Failure> {
        let dir = JobDir(base.join(job));
        let longest = dir.socket(u32::MAX);
        if longest.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(Failure::new(format!(
                "cannot make sockets in `{}`: the path has more than {SOCKET_PATH_MAX} bytes",
                dir.0.display()
            ))
            .hint("set HEARTH_DIR to a shorter one"));
        }
        DirBuilder::new()
            .mode(0o700)
            .create(&dir.0)
            .or_fail(|| format!("cannot make `{}`", dir.0.display()))?;
        Ok(dir)
    }

    /// A directory that an agent was told to use.
    pub fn open(path: &Path) -> Result<JobDir, Failure> {
        let what = || format!("cannot use `{}`", path.display());
        check_ours(path).map_err(|cause| Failure::new(what()).after(cause))?;
        Ok(JobDir(path.to_owned()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket at which an agent listens to commands.
    pub fn socket(&self, node: u32) -> PathBuf {
        self.0.join(format!("agent-{node}.sock"))
    }

    /// The configuration of an agent.
    pub fn config(&self, node: u32) -> PathBuf {
        self.0.join(format!("agent-{node}.json"))
    }

    /// An agent's words.
    pub fn log(&self, node: u32) -> PathBuf {
        self.0.join(format!("agent-{node}.log"))
    }

    /// Reads what is known about the set.
    pub fn set(&self) -> Result<SetFile, Failure> {
        self.read("set.json")
    }

    /// Replaces what is known about the set.
    pub fn write_set(&self, set: &SetFile) -> Result<(), Failure> {
        self.write("set.json", set)
    }

    /// Changes what is known about the set, one command at a time.
    pub fn change_set(&self, change: impl FnOnce(&mut SetFile)) -> Result<(), Failure> {
        let _one_at_a_time = lock(&self.0.join("set.lock"), LockKind::Exclusive)?;
        let mut set = self.set()?;
        change(&mut set);
        self.write_set(&set)
    }

    /// Registers as a user of the set, or waits until there is none.
    pub fn lock_users(&self, kind: LockKind) -> Result<Lock, Failure> {
        lock(&self.0.join("users.lock"), kind)
    }

    /// Registers as a user of the set, unless its owner is about to end it.
    pub fn try_lock_users(&self) -> Result<Option<Lock>, Failure> {
        let path = self.0.join("users.lock");
        let what = || format!("cannot lock `{}`", path.display());
        let file = open_lock(&path).or_fail(what)?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Failure::new(what()).because(error)),
        }
    }

    /// Reads one of its JSON files.
    pub fn read<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<T, Failure> {
        let path = self.0.join(name);
        let what = || format!("cannot read `{}`", path.display());
        let text = fs::read(&path).or_fail(what)?;
        serde_json::from_slice(&text).or_fail(what)
    }

    /// Writes one of its JSON files, all or nothing.
    pub fn write(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        let path = self.0.join(name);
        let what = || format!("cannot write `{}`", path.display());
        let text = serde_json::to_vec_pretty(value).or_fail(what)?;
        let next = self.0.join(format!("{name}.next"));
        write_private(&next, &text)
            .and_then(|()| fs::rename(&next, &path))
            .or_fail(what)
    }

    /// Keeps the secret in a file of its own.
    pub fn write_secret(&self, secret: &Secret) -> Result<(), Failure> {
        let path = self.0.join("secret");
        write_private(&path, crate::secret::to_hex(secret).as_bytes())
            .or_fail(|| format!("cannot write `{}`", path.display()))
    }

    /// The set's secret.
    pub fn secret(&self) -> Result<Secret, Failure> {
        crate::secret::read(&self.0.join("secret"))
    }

    /// Removes the directory with everything in it, but for stores that are seen in it.
    pub fn remove(&self) -> Result<(), Failure> {
        self.hide_stores();
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::new(format!("cannot remove `{}`", self.0.display())).because(error))
            }
            _ => Ok(()),
        }
    }
}

impl JobDir {
    /// Inside of a namespace of `hearth run` the directory has a mount of the store.
    fn hide_stores(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        for store in paths.filter(|path| path.extension().is_some_and(|it| it == BEHIND)) {
            // It is no mount elsewhere; where it is one and stays, it can only be read.
            let _ = unmount(&store, UnmountFlags::DETACH);
        }
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_ours_alone_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        let (open, link) = (dir.path().join("open"), dir.path().join("link"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(check_ours(dir.path()).is_ok());
        let text = check_ours(&open).unwrap_err().to_string();
        assert!(text.contains("mode 755"), "{text}");
        let text = check_ours(&link).unwrap_err().to_string();
        assert!(text.contains("symlink"), "{text}");
        assert!(all(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let text = JobDir::create(dir.path(), &"j".repeat(100)).unwrap_err();
        assert!(text.to_string().contains("HEARTH_DIR"), "{text}");
    }

    #[test]
    fn files_are_private_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let job = JobDir::create(dir.path(), "j").unwrap();
        job.write_secret(&Secret::new([7; 32])).unwrap();
        assert_eq!(job.secret().unwrap().bytes(), &[7; 32]);
        let mode = fs::metadata(job.path().join("secret")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(all(dir.path()).unwrap().len(), 1);
        job.remove().unwrap();
        job.remove().unwrap();
    }
}
