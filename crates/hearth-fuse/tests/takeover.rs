//! A mount outlives its agent (S13): the agent is a process of this test, which is killed. The next one has its
//! descriptors under their old numbers, and takes the mount over.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use common::{Pages, Passthrough, Timing, errno};
use hearth_fuse::{Ledger, Mount, MountOptions};
use rustix::fs::{Dir, FlockOperation, fcntl_lock, flock};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_getfd,
    pidfd_open, waitid,
};
use tempfile::TempDir;

/// Agents have no number below this one that the next needs: the next has its own there.
const LEAST: RawFd = 100;
const ROLE: &str = "HEARTH_TEST_AGENT";
const SAYS: &str = "agent: ";

/// Not a test of its own: the process of an agent that another test starts.
#[test]
fn an_agent_serves_until_it_is_told_to_end() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let mut words = role.split('\n');
    let (store, point) = (words.next().unwrap(), Path::new(words.next().unwrap()));
    let session = Passthrough::new(Timing::AtOnce, Pages::Kept);
    let root = || OwnedFd::from(File::open(store).unwrap());
    let options = MountOptions::default();
    say("started");
    let _mount = match wait().split_once(' ') {
        Some((pid, ledger)) => {
            let ledger = inherit(pid, ledger);
            leave_room();
            say(&format!("ledger {}", ledger.as_fd().as_raw_fd()));
            wait();
            Mount::resume(ledger, root(), session.clone(), options).unwrap()
        }
        None => {
            leave_room();
            let ledger = Arc::new(Ledger::new().unwrap());
            say(&format!("ledger {}", ledger.as_fd().as_raw_fd()));
            Mount::at(point, ledger, root(), session.clone(), options).unwrap()
        }
    };
    say("ready");
    loop {
        let point = wait();
        if point.is_empty() {
            // The test has ended.
            return;
        }
        stall(&session, &point, store.to_owned());
        say("armed");
    }
}

/// Stops to answer one call, at this point.
fn stall(session: &Passthrough, point: &str, store: String) {
    let stalls: Box<dyn FnOnce() + Send> = Box::new(|| {
        say("stalled");
        loop {
            thread::park();
        }
    });
    match point {
        "before a change" => *session.at_change.lock().unwrap() = Some(stalls),
        "before bytes" => *session.at_bytes.lock().unwrap() = Some(stalls),
        "before an answer" => *session.at_names_changed.lock().unwrap() = Some(stalls),
        "after somebody else" => {
            let makes = Box::new(move || fs::create_dir(Path::new(&store).join("dir")).unwrap());
            *session.at_change.lock().unwrap() = Some(makes);
            *session.at_names_changed.lock().unwrap() = Some(stalls);
        }
        other => panic!("an agent cannot stop at {other}"),
    }
}

fn say(word: &str) {
    eprintln!("{SAYS}{word}");
}

/// Waits for a line.
fn wait() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn leave_room() {
    while File::open("/dev/null").unwrap().into_raw_fd() < LEAST {}
}

/// Takes the descriptors of an agent that is stopped, each under its number, as they would be in a table that outlives it.
fn inherit(pid: &str, ledger: &str) -> Arc<Ledger> {
    let process = Pid::from_raw(pid.parse().unwrap()).unwrap();
    let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let get = |number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).unwrap();
    let ledger = Ledger::from_fd(get(ledger.parse().unwrap())).unwrap();
    let own = ledger.as_fd().as_raw_fd();
    let devices = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(Result::unwrap);
    let devices = devices.filter(|fd| fs::read_link(fd.path()).unwrap() == Path::new("/dev/fuse"));
    let devices: Vec<RawFd> = devices
        .map(|fd| fd.file_name().to_str().unwrap().parse().unwrap())
        .collect();
    let others = ledger
        .descriptors()
        .unwrap()
        .into_iter()
        .filter(|number| *number != own);
    for number in devices.iter().copied().chain(others) {
        let taken = rustix::io::fcntl_dupfd_cloexec(get(number), number).unwrap();
        assert_eq!(taken.as_raw_fd(), number);
        // The mount has it.
        let _ = taken.into_raw_fd();
    }
    Arc::new(ledger)
}

/// An agent in a process of its own.
struct Agent {
    process: Child,
    says: BufReader<ChildStderr>,
    ledger: String,
}

impl Agent {
    fn start(command: &mut Command) -> Agent {
        let mut process = command
            .args(["--exact", "an_agent_serves_until_it_is_told_to_end"])
            .args(["--nocapture", "--test-threads=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stderr.take().unwrap());
        let ledger = String::new();
        let mut agent = Agent {
            process,
            says,
            ledger,
        };
        agent.hear("started");
        agent
    }

    /// The rest of the next line that begins so.
    fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "it has ended");
            match line.trim_end().split_once(SAYS) {
                Some((_, said)) if said.starts_with(word) => return said[word.len()..].to_owned(),
                _ => eprint!("{line}"),
            }
        }
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{word}").unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

/// A mount, and the agent that serves it.
struct Scene {
    store: TempDir,
    point: TempDir,
    agent: Agent,
    /// Those that come after it.
    next: Vec<Agent>,
    _alone: MutexGuard<'static, ()>,
}

/// A process that starts closes the files of this one, which a flush says to the agent. So all agents of a test are started
/// before it opens files, and no other test starts any meanwhile.
static ALONE: Mutex<()> = Mutex::new(());

impl Scene {
    /// With an agent, and others for so many deaths.
    fn new(deaths: usize) -> Option<Scene> {
        if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: a mount is taken over: /dev/fuse cannot be opened: {error}");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, point) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut agents = (0..=deaths).map(|_| Agent::start(&mut command(&store, &point)));
        let mut agent = agents.next().unwrap();
        let next = agents.collect();
        agent.tell("");
        agent.ledger = agent.hear("ledger ");
        agent.hear("ready");
        Some(Scene {
            store,
            point,
            agent,
            next,
            _alone: alone,
        })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    /// Has the agent stop to answer the next call, at this point.
    fn stalls(&mut self, point: &str) {
        self.agent.tell(point);
        self.agent.hear("armed");
    }

    fn stored(&self, name: &str) -> PathBuf {
        self.store.path().join(name)
    }

    /// Kills the agent. While none is there, `meanwhile` happens; then the next one takes over.
    fn dies(&mut self, meanwhile: impl FnOnce(&Scene)) {
        let mut next = self.next.pop().unwrap();
        kill_process(self.agent.pid(), Signal::STOP).unwrap();
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED;
        waitid(WaitId::Pid(self.agent.pid()), stopped).unwrap();
        next.tell(&format!(
            "{} {}",
            self.agent.process.id(),
            self.agent.ledger
        ));
        next.ledger = next.hear("ledger ");
        let mut gone = std::mem::replace(&mut self.agent, next);
        gone.process.kill().unwrap();
        gone.process.wait().unwrap();
        meanwhile(self);
        self.agent.tell("");
        self.agent.hear("ready");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Programs of a test that failed may be inside.
        let _ = unmount(self.point.path(), UnmountFlags::DETACH);
        for agent in self.next.iter_mut().chain([&mut self.agent]) {
            let _ = agent.process.kill();
            let _ = agent.process.wait();
        }
    }
}

fn command(store: &TempDir, point: &TempDir) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let (store, point) = (store.path().display(), point.path().display());
    command.env(ROLE, format!("{store}\n{point}"));
    command
}

fn read_write(path: &Path) -> File {
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .open(path)
        .unwrap()
}

#[test]
fn open_files_go_on() {
    let Some(mut scene) = Scene::new(2) else {
        return;
    };
    let file = read_write(&scene.at("file"));
    file.write_all_at(b"first", 0).unwrap();
    file.sync_all().unwrap();
    let nameless = read_write(&scene.at("nameless"));
    nameless.write_all_at(b"kept", 0).unwrap();
    nameless.sync_all().unwrap();
    fs::remove_file(scene.at("nameless")).unwrap();
    let reader = File::open(scene.at("file")).unwrap();
    fs::create_dir(scene.at("dir")).unwrap();
    for _ in 0..2 {
        scene.dies(|_| {});
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"first");
        file.write_all_at(b"second", 5).unwrap();
        file.sync_all().unwrap();
        let mut all = [0; 11];
        reader.read_exact_at(&mut all, 0).unwrap();
        assert_eq!(&all, b"firstsecond");
        assert_eq!(nameless.metadata().unwrap().nlink(), 0);
        nameless.read_exact_at(&mut all[..4], 0).unwrap();
        assert_eq!(&all[..4], b"kept");
        nameless.write_all_at(b"KEPT", 0).unwrap();
        nameless.write_all_at(b"kept", 0).unwrap();
    }
    assert_eq!(fs::read(scene.stored("file")).unwrap(), b"firstsecond");
    fs::write(scene.at("dir/new"), b"later").unwrap();
    assert_eq!(fs::read(scene.stored("dir/new")).unwrap(), b"later");
}

#[test]
fn a_listing_goes_on_where_it_was() {
    let Some(mut scene) = Scene::new(1) else {
        return;
    };
    let names: HashSet<_> = (0..3000)
        .map(|i| format!("a-rather-long-name-{i}").into())
        .collect();
    for name in &names {
        fs::write(scene.store.path().join(name), b"").unwrap();
    }
    let mut rewound = Dir::new(File::open(scene.point.path()).unwrap()).unwrap();
    rewound.read().unwrap().unwrap();
    let mut listing = fs::read_dir(scene.point.path()).unwrap();
    let first = listing.by_ref().take(500);
    let mut seen: Vec<_> = first.map(|entry| entry.unwrap().file_name()).collect();
    scene.dies(|_| {});
    seen.extend(listing.map(|entry| entry.unwrap().file_name()));
    assert_eq!(seen.len(), names.len());
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), names);
    rewound.rewind();
    assert_eq!(rewound.map(Result::unwrap).count(), names.len() + 2);
}

#[test]
fn a_lock_is_held_across_and_can_be_let_go() {
    let Some(mut scene) = Scene::new(2) else {
        return;
    };
    let (holder, other) = (read_write(&scene.at("file")), read_write(&scene.at("file")));
    let beside = File::open(scene.stored("file")).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    scene.dies(|_| {
        flock(&beside, FlockOperation::NonBlockingLockShared).unwrap_err();
    });
    flock(&beside, FlockOperation::NonBlockingLockShared).unwrap_err();
    flock(&other, FlockOperation::NonBlockingLockShared).unwrap_err();
    flock(&holder, FlockOperation::Unlock).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    scene.dies(|_| {});
    drop(other);
    flock(&beside, FlockOperation::LockExclusive).unwrap();
}

#[test]
fn a_lock_of_a_process_is_held_across_and_ends_with_a_close() {
    let Some(mut scene) = Scene::new(1) else {
        return;
    };
    let holder = read_write(&scene.at("file"));
    let beside = read_write(&scene.stored("file"));
    fcntl_lock(&holder, FlockOperation::NonBlockingLockExclusive).unwrap();
    scene.dies(|_| {});
    fcntl_lock(&beside, FlockOperation::NonBlockingLockExclusive).unwrap_err();
    drop(holder);
    fcntl_lock(&beside, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn a_program_that_waits_for_an_answer_gets_it() {
    let Some(mut scene) = Scene::new(1) else {
        return;
    };
    scene.stalls("before a change");
    let path = scene.at("dir");
    let waits = thread::spawn(move || fs::create_dir(path));
    scene.agent.hear("stalled");
    scene.dies(|scene| assert!(!scene.stored("dir").exists()));
    waits.join().unwrap().unwrap();
    assert!(scene.stored("dir").is_dir());
}

#[test]
fn bytes_on_their_way_arrive() {
    let Some(mut scene) = Scene::new(2) else {
        return;
    };
    let file = Arc::new(read_write(&scene.at("file")));
    scene.stalls("before bytes");
    let own = Arc::clone(&file);
    let writes = thread::spawn(move || own.write_all_at(b"bytes", 3));
    scene.agent.hear("stalled");
    scene.dies(|_| {});
    writes.join().unwrap().unwrap();
    file.sync_all().unwrap();
    scene.stalls("before bytes");
    let own = Arc::clone(&file);
    let reads = thread::spawn(move || {
        let mut bytes = [0; 8];
        own.read_exact_at(&mut bytes, 0).map(|()| bytes)
    });
    scene.agent.hear("stalled");
    scene.dies(|_| {});
    assert_eq!(&reads.join().unwrap().unwrap(), b"\0\0\0bytes");
}

#[test]
fn changes_that_were_made_and_not_answered_succeed() {
    type Change = fn(&Path) -> std::io::Result<()>;
    let changes: [(Change, &str); 8] = [
        (|dir| fs::create_dir(dir.join("dir")), "dir"),
        (|dir| File::create_new(dir.join("file")).map(drop), "file"),
        (|dir| symlink("target", dir.join("symbolic")), "symbolic"),
        (
            |dir| fs::hard_link(dir.join("file"), dir.join("link")),
            "link",
        ),
        (
            |dir| fs::rename(dir.join("link"), dir.join("moved")),
            "moved",
        ),
        (|dir| fs::remove_file(dir.join("moved")), ""),
        (|dir| fs::remove_dir(dir.join("dir")), ""),
        (|dir| File::create(dir.join("plain")).map(drop), "plain"),
    ];
    let Some(mut scene) = Scene::new(changes.len()) else {
        return;
    };
    for (number, (change, made)) in changes.into_iter().enumerate() {
        let at = scene.point.path().to_owned();
        scene.stalls("before an answer");
        let waits = thread::spawn(move || change(&at));
        scene.agent.hear("stalled");
        scene.dies(|scene| {
            assert!(scene.stored(made).symlink_metadata().is_ok());
        });
        let done = waits.join().unwrap();
        assert!(done.is_ok(), "change {number}: {done:?}");
    }
}

/// The agent had refused it: somebody else has the name.
#[test]
fn a_change_that_was_refused_and_not_answered_is_refused() {
    let Some(mut scene) = Scene::new(1) else {
        return;
    };
    scene.stalls("after somebody else");
    let path = scene.at("dir");
    let waits = thread::spawn(move || fs::create_dir(path));
    scene.agent.hear("stalled");
    scene.dies(|_| {});
    assert_eq!(errno(waits.join().unwrap()), libc::EEXIST);
}

#[test]
fn bytes_that_may_be_lost_are_told_once() {
    let Some(mut scene) = Scene::new(2) else {
        return;
    };
    let file = read_write(&scene.at("file"));
    let synced = read_write(&scene.at("synced"));
    let reader = read_write(&scene.at("file"));
    file.write_all_at(b"bytes", 0).unwrap();
    synced.write_all_at(b"bytes", 0).unwrap();
    synced.sync_all().unwrap();
    scene.dies(|_| {});
    synced.sync_all().unwrap();
    close(reader).unwrap();
    assert_eq!(errno(file.sync_all()), libc::EIO);
    file.sync_all().unwrap();
    file.write_all_at(b"more", 0).unwrap();
    scene.dies(|_| {});
    assert_eq!(errno(close(file)), libc::EIO);
    close(synced).unwrap();
}

/// Each program that a process starts closes such a duplicate there, and nobody sees the error.
#[test]
fn a_close_of_a_duplicate_leaves_the_word_of_a_loss_to_the_next_sync() {
    let Some(mut scene) = Scene::new(2) else {
        return;
    };
    let file = read_write(&scene.at("file"));
    file.write_all_at(b"bytes", 0).unwrap();
    for _ in 0..2 {
        scene.dies(|_| {});
        for _ in 0..2 {
            assert_eq!(errno(close(file.try_clone().unwrap())), libc::EIO);
        }
    }
    assert_eq!(errno(file.sync_all()), libc::EIO);
    file.sync_all().unwrap();
    close(file.try_clone().unwrap()).unwrap();
    close(file).unwrap();
}

#[test]
fn bytes_that_are_written_after_a_loss_of_others_may_be_lost_too() {
    let Some(mut scene) = Scene::new(2) else {
        return;
    };
    let (file, other) = (read_write(&scene.at("file")), read_write(&scene.at("file")));
    file.write_all_at(b"bytes", 0).unwrap();
    scene.dies(|_| {});
    assert_eq!(errno(other.sync_all()), libc::EIO);
    other.write_all_at(b"more", 5).unwrap();
    scene.dies(|_| {});
    assert_eq!(errno(close(other)), libc::EIO);
    assert_eq!(errno(close(file)), libc::EIO);
}

#[test]
fn a_mapping_shows_new_bytes() {
    let Some(mut scene) = Scene::new(1) else {
        return;
    };
    fs::write(scene.stored("file"), [b'o'; 4096]).unwrap();
    let file = File::open(scene.at("file")).unwrap();
    let map = Map::of(&file);
    assert_eq!(map.first(), b'o');
    scene.dies(|scene| fs::write(scene.stored("file"), [b'n'; 4096]).unwrap());
    // The operating system is told on a thread beside.
    while map.first() != b'n' {
        thread::yield_now();
    }
    let mut read = [0];
    (&file).read_exact(&mut read).unwrap();
    assert_eq!(read, *b"n");
}

fn close(file: File) -> std::io::Result<()> {
    // SAFETY: the descriptor was this file's alone, and nobody has it any more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A page of a file.
struct Map(*mut u8);

impl Map {
    fn of(file: &File) -> Map {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a fresh mapping at an address of the operating system's choice, of a file that is as long.
        let map = unsafe {
            mmap(
                std::ptr::null_mut(),
                4096,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        Map(map.unwrap().cast())
    }

    fn first(&self) -> u8 {
        // SAFETY: the page is mapped as long as this lives. Others change it, so it is read anew each time.
        unsafe { self.0.read_volatile() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: nobody points into the mapping.
        unsafe { rustix::mm::munmap(self.0.cast(), 4096) }.unwrap();
    }
}
