//! Real agents of one process over loopback TCP, driven through their sessions.

use hearth_agent::{
    Agent, AgentSettings, Allocation, CloseRule, NotTold, Policy, Ranges, Semantics, net::Secret,
    store::StoreSpec,
};
use hearth_client::{
    Access, Done, Errno, FileKey, FileStamp, Keep, OpenFile, OpenedFile, Outcome, Place, Session,
    SessionHandle, Written,
};
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

struct Set {
    agents: Vec<Agent>,
    dir: tempfile::TempDir,
    _job: tempfile::TempDir,
}

fn set(nodes: u32, change: impl Fn(&mut AgentSettings)) -> Set {
    let dir = tempfile::tempdir().expect("a store");
    let job = tempfile::tempdir().expect("a job directory");
    let listeners: Vec<TcpListener> = (0..nodes)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
        .collect();
    let members: Vec<_> = listeners
        .iter()
        .map(|l| l.local_addr().expect("an address"))
        .collect();
    let starts: Vec<_> = (0..)
        .zip(listeners)
        .map(|(node, listener)| {
            let place = (dir.path().to_owned(), job.path().to_owned());
            let named = ("test".to_owned(), Secret::new([7; 32]));
            let mut config = AgentSettings {
                page_bytes: 4096,
                chunk_bytes: 4 * 4096,
                pool_bytes: 16 << 20,
                flush_age: Duration::from_secs(3600),
                ..AgentSettings::plain((node, members.clone()), named, place)
            };
            change(&mut config);
            thread::spawn(move || Agent::start(config, listener).expect("an agent"))
        })
        .collect();
    let agents = starts
        .into_iter()
        .map(|start| start.join().expect("a start"))
        .collect();
    Set {
        agents,
        dir,
        _job: job,
    }
}

fn wait<T: Send + 'static>(call: impl FnOnce(hearth_client::Done<T>)) -> Result<T, Errno> {
    let (tell, told) = mpsc::channel();
    call(Box::new(move |outcome| {
        let _ = tell.send(match outcome {
            Outcome::Serve(value) => Ok(value),
            Outcome::Fail(errno) => Err(errno),
            Outcome::Bypass(why) => panic!("an agent does not bypass: {why:?}"),
        });
    }));
    told.recv_timeout(Duration::from_secs(120))
        .expect("an answer")
}

impl Set {
    fn session(&self, node: usize) -> Arc<dyn Session> {
        self.agents[node].session()
    }

    fn open(&self, node: usize, name: &str, write: bool) -> Result<OpenedFile, Errno> {
        wait(|done| self.begin_open((node, name), write, done))
    }

    fn begin_open(&self, (node, name): (usize, &str), write: bool, done: Done<OpenedFile>) {
        let path = self.dir.path().join(name);
        let fd = File::options()
            .read(true)
            .write(write)
            .create(write)
            .truncate(false)
            .open(&path);
        let fd = fd.expect("the store opens it");
        let meta = fd.metadata().expect("attributes");
        let open = OpenFile {
            file: FileKey { ino: meta.ino() },
            access: Access { read: true, write },
            stamp: FileStamp {
                ctime_ns: meta.ctime() * 1_000_000_000 + meta.ctime_nsec(),
                mtime_ns: meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
                size: meta.size(),
            },
            private: false,
            made: false,
        };
        self.session(node).open(open, Arc::new(fd.into()), done);
    }

    fn read(
        &self,
        node: usize,
        handle: SessionHandle,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, Errno> {
        let (tell, told) = mpsc::channel();
        let done = Box::new(move |outcome: Outcome<&[&[u8]]>| {
            let _ = tell.send(match outcome {
                Outcome::Serve(pieces) => Ok(pieces.concat()),
                Outcome::Fail(errno) => Err(errno),
                Outcome::Bypass(why) => panic!("an agent does not bypass: {why:?}"),
            });
        });
        self.session(node)
            .read(handle, offset, len, Keep::Pool, done);
        told.recv_timeout(Duration::from_secs(120))
            .expect("an answer")
    }

    fn write(
        &self,
        node: usize,
        handle: SessionHandle,
        place: Place,
        data: &[u8],
    ) -> Result<Written, Errno> {
        wait(|done| self.session(node).write(handle, place, data.to_vec(), done))
    }

    fn sync(&self, node: usize, handle: SessionHandle) -> Result<(), Errno> {
        wait(|done| self.session(node).sync(handle, done))
    }
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| ((i * 31 + seed * 17) % 251) as u8)
        .collect()
}

#[test]
fn what_one_node_wrote_every_node_reads_and_the_store_gets_at_sync() {
    let set = set(3, |_| ());
    let bytes = pattern(300_000, 1);
    let writer = set.open(0, "f", true).expect("opens").handle;
    set.write(0, writer, Place::At(0), &bytes).expect("writes");
    for node in 1..3 {
        let reader = set.open(node, "f", false).expect("opens");
        assert!(reader.direct, "somebody writes it");
        assert_eq!(
            set.read(node, reader.handle, 0, 400_000).expect("reads"),
            bytes
        );
        assert_eq!(
            set.read(node, reader.handle, 5_000, 10).expect("reads"),
            &bytes[5_000..5_010]
        );
    }
    set.sync(0, writer).expect("syncs");
    assert_eq!(
        std::fs::read(set.dir.path().join("f")).expect("the store has it"),
        bytes
    );
}

#[test]
fn an_overwrite_reaches_readers_that_hold_copies() {
    let set = set(2, |_| ());
    std::fs::write(set.dir.path().join("f"), pattern(50_000, 1)).expect("a file");
    let readers = [0, 1].map(|node| set.open(node, "f", false).expect("opens").handle);
    for (node, &reader) in readers.iter().enumerate() {
        assert_eq!(
            set.read(node, reader, 0, 50_000).expect("reads"),
            pattern(50_000, 1)
        );
    }
    let writer = set.open(1, "f", true).expect("opens").handle;
    for round in 2..10 {
        let bytes = pattern(20_000, round);
        set.write(1, writer, Place::At(10_000), &bytes)
            .expect("writes");
        for (node, &reader) in readers.iter().enumerate() {
            assert_eq!(
                set.read(node, reader, 10_000, 20_000).expect("reads"),
                bytes
            );
        }
    }
}

/// S2
#[test]
fn appends_of_two_nodes_never_overlap() {
    let set = set(2, |_| ());
    let handles = [0, 1].map(|node| set.open(node, "log", true).expect("opens").handle);
    thread::scope(|scope| {
        for (node, &handle) in handles.iter().enumerate() {
            let set = &set;
            scope.spawn(move || {
                for round in 0..200 {
                    let line = format!("{node}:{round:04}\n");
                    set.write(node, handle, Place::End, line.as_bytes())
                        .expect("appends");
                }
            });
        }
    });
    for (node, &handle) in handles.iter().enumerate() {
        set.sync(node, handle).expect("syncs");
    }
    let text = std::fs::read_to_string(set.dir.path().join("log")).expect("the store has it");
    for node in 0..2 {
        let own: Vec<&str> = text
            .lines()
            .filter(|l| l.starts_with(&format!("{node}:")))
            .collect();
        let expected: Vec<String> = (0..200).map(|r| format!("{node}:{r:04}")).collect();
        assert_eq!(own, expected);
    }
    assert_eq!(text.lines().count(), 400);
}

/// S3
#[test]
fn a_truncation_is_seen_everywhere() {
    let set = set(3, |_| ());
    let handles = [0, 1, 2].map(|node| set.open(node, "f", true).expect("opens").handle);
    set.write(0, handles[0], Place::At(0), &pattern(60_000, 3))
        .expect("writes");
    let path = set.dir.path().join("f");
    let ino = std::fs::metadata(&path).expect("attributes").ino();
    let fd = File::options().write(true).open(&path).expect("opens");
    wait(|done| {
        set.session(1)
            .truncate(FileKey { ino }, fd.into(), 10_001, done)
    })
    .expect("cuts");
    for (node, &handle) in handles.iter().enumerate() {
        let read = set.read(node, handle, 0, 60_000).expect("reads");
        assert_eq!(read, &pattern(60_000, 3)[..10_001], "node {node}");
    }
    set.write(2, handles[2], Place::At(20_000), b"x")
        .expect("writes");
    let read = set.read(0, handles[0], 10_000, 30_000).expect("reads");
    assert_eq!(read.len(), 10_001);
    assert!(read[1..10_000].iter().all(|&b| b == 0), "the gap is zero");
    set.sync(0, handles[0]).expect("syncs");
    assert_eq!(std::fs::metadata(&path).expect("attributes").len(), 20_001);
}

/// S6
#[test]
fn a_full_store_reaches_the_writer_and_keeps_the_bytes() {
    let set = set(2, |config| {
        config.store = StoreSpec::parse("fault:write:budget=8192").expect("a plan");
    });
    let writer = set.open(0, "f", true).expect("opens").handle;
    set.write(0, writer, Place::At(0), &pattern(65_536, 5))
        .expect("gathered in memory");
    assert_eq!(set.sync(0, writer), Err(Errno(28)), "no space left");
    assert_eq!(
        set.read(0, writer, 0, 65_536).expect("reads"),
        pattern(65_536, 5)
    );
}

/// S13
#[test]
fn a_dead_home_fails_writers_at_once_and_readers_go_to_the_store() {
    let mut set = set(3, |_| ());
    std::fs::write(set.dir.path().join("f"), pattern(200_000, 1)).expect("a file");
    let reader = set.open(0, "f", false).expect("opens").handle;
    assert_eq!(
        set.read(0, reader, 0, 200_000).expect("reads"),
        pattern(200_000, 1)
    );
    set.agents.pop().expect("agent 2").stop();
    set.agents.pop().expect("agent 1").stop();
    assert_eq!(
        set.read(0, reader, 0, 200_000).expect("reads on"),
        pattern(200_000, 1)
    );
    // The reads above may have been served before the connections were seen to break.
    until_gone(&set);
    assert_eq!(
        set.read(0, reader, 0, 200_000).expect("reads on"),
        pattern(200_000, 1)
    );
}

impl Set {
    /// Whether a node may keep what it is told of the size of a file that the store knows best.
    fn keeps_size(&self, node: usize, name: &str) -> bool {
        let meta = std::fs::metadata(self.dir.path().join(name)).expect("attributes");
        let file = FileKey { ino: meta.ino() };
        let told = wait(|done| self.session(node).size(file, true, done)).expect("a size");
        assert_eq!(told.size, None, "as the store says");
        told.keep
    }
}

/// S16: an operating system that keeps a size for a second tells it after another node's truncation.
#[test]
fn a_size_is_kept_only_where_its_change_would_be_told() {
    for (nodes, is_kept) in [(1, true), (2, false)] {
        let set = set(nodes, |config| config.policy = Policy::None);
        std::fs::write(set.dir.path().join("f"), b"").expect("a file");
        assert_eq!(set.keeps_size(0, "f"), is_kept, "of {nodes} nodes");
    }
}

/// S13
#[test]
fn nobody_keeps_sizes_of_files_whose_manager_is_gone() {
    let mut set = set(3, |_| ());
    let names: Vec<String> = (0..32).map(|number| format!("f{number}")).collect();
    for name in &names {
        std::fs::write(set.dir.path().join(name), b"").expect("a file");
        set.open(1, name, false).expect("opens");
        assert!(set.keeps_size(0, name), "{name} is at rest");
    }
    set.agents.pop().expect("agent 2").stop();
    set.agents.pop().expect("agent 1").stop();
    until_gone(&set);
    let kept = names.iter().filter(|name| set.keeps_size(0, name)).count();
    assert_eq!(kept, 0, "of {} files", names.len());
}

/// Waits until agent 0 has acted on it that every other is gone: its transport knows earlier.
fn until_gone(set: &Set) {
    let started = std::time::Instant::now();
    let are_gone = |status: hearth_agent::AgentStatus| {
        let told = |alarm: &str, node: u32| alarm.starts_with(&format!("agent {node} is gone: "));
        let is_told = |node| status.alarms.iter().any(|alarm| told(alarm, node));
        status.peers.iter().all(|peer| is_told(peer.node))
    };
    while !are_gone(set.agents[0].status()) {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "a stopped agent counts as up"
        );
        thread::yield_now();
    }
}

/// Reads of three pages with several homes, while two nodes write all of them over and over: how many
/// show pages of more than one write.
fn mixed_reads(policy: Policy, ranges: Ranges, semantics: Semantics) -> usize {
    let set = set(3, |config| {
        config.policy = policy;
        config.semantics = semantics;
        config.ranges = ranges;
        config.chunk_bytes = 4096;
        config.allocation = Allocation::RoundRobin;
    });
    let handles = [0, 1, 2].map(|node| set.open(node, "f", true).expect("opens").handle);
    set.write(0, handles[0], Place::At(0), &[1; 3 * 4096])
        .expect("writes");
    let writes = |node: usize| {
        for round in 0..100 {
            let bytes = vec![(node * 100 + round + 2) as u8; 3 * 4096];
            set.write(node, handles[node], Place::At(0), &bytes)
                .expect("writes");
        }
        0
    };
    let reads = |node: usize| {
        let mixed = |_: &usize| {
            let bytes = set.read(node, handles[node], 0, 3 * 4096).expect("reads");
            assert_eq!(bytes.len(), 3 * 4096);
            bytes.iter().any(|&byte| byte != bytes[0])
        };
        (0..200).filter(mixed).count()
    };
    thread::scope(|scope| {
        let (writes, reads) = (&writes, &reads);
        let writers = [0, 1].map(|node| scope.spawn(move || writes(node)));
        let readers = [0, 1, 2].map(|node| scope.spawn(move || reads(node)));
        let all = writers.into_iter().chain(readers);
        all.map(|thread| thread.join().expect("a thread that ends well"))
            .sum()
    })
}

/// S1
#[test]
fn reads_never_show_a_part_of_a_write_over_several_homes() {
    assert_eq!(
        mixed_reads(Policy::Home, Ranges::WoundWait, Semantics::Posix),
        0
    );
}

/// S1, S19
#[test]
fn reads_of_pages_that_nobody_else_keeps_never_show_a_part_of_a_write() {
    assert_eq!(
        mixed_reads(Policy::Single, Ranges::WoundWait, Semantics::Posix),
        0
    );
}

/// S1: at level `mpi-atomic` it needs no option.
#[test]
fn reads_of_an_atomic_file_never_show_a_part_of_a_write() {
    let mixed = mixed_reads(Policy::Home, Ranges::Apart, Semantics::MpiAtomic);
    assert_eq!(mixed, 0);
}

/// The finding of the tests above, if homes took their parts by themselves.
#[test]
fn reads_apart_do_show_a_part_of_a_write() {
    for policy in [Policy::Home, Policy::Single] {
        let mut tries = (0..100).map(|_| mixed_reads(policy, Ranges::Apart, Semantics::Posix));
        assert!(tries.any(|mixed| mixed > 0), "{policy:?}");
    }
}

const PAGE: usize = 4096;

/// Two agents under `home:plus`; `home` has the page of a file, which the other is about to have to itself.
/// Returns the handle of a reader at the home and that of the writer.
fn delegated(home: usize) -> (Set, SessionHandle, SessionHandle) {
    let set = set(2, |config| {
        config.policy = Policy::HomePlus;
        config.allocation = Allocation::FirstTouch;
    });
    std::fs::write(set.dir.path().join("f"), pattern(PAGE, 0)).expect("a file");
    let writer = set.open(1 - home, "f", true).expect("opens").handle;
    let reader = set.open(home, "f", false).expect("opens").handle;
    let first = set.read(home, reader, 0, 4096).expect("reads");
    assert_eq!(first, pattern(PAGE, 0));
    (set, reader, writer)
}

impl Set {
    fn messages(&self) -> u64 {
        let sent = |agent: &Agent| agent.status().counters.messages_sent;
        self.agents.iter().map(sent).sum()
    }

    fn rewrite(&self, node: usize, writer: SessionHandle, seed: usize) -> Vec<u8> {
        let bytes = pattern(PAGE, seed);
        self.write(node, writer, Place::At(0), &bytes)
            .expect("writes");
        bytes
    }
}

#[test]
fn a_node_with_a_page_to_itself_writes_it_without_messages() {
    let (set, reader, writer) = delegated(1);
    for seed in 1..4 {
        set.rewrite(0, writer, seed);
    }
    let before = set.messages();
    for seed in 4..100 {
        let bytes = set.rewrite(0, writer, seed);
        assert_eq!(set.read(0, writer, 0, 4096).expect("reads"), bytes);
    }
    assert_eq!(set.messages(), before);
    for seed in 100..120 {
        let bytes = set.rewrite(0, writer, seed);
        assert_eq!(set.read(1, reader, 0, 4096).expect("reads"), bytes);
    }
}

/// S4, S5
#[test]
fn what_a_node_wrote_by_itself_is_in_the_store_after_a_sync_of_any_node() {
    let (set, reader, writer) = delegated(1);
    let store = set.dir.path().join("f");
    for seed in 1..6 {
        set.rewrite(0, writer, seed);
    }
    let bytes = set.rewrite(0, writer, 6);
    set.sync(0, writer).expect("syncs");
    assert_eq!(std::fs::read(&store).expect("the store has it"), bytes);
    let bytes = set.rewrite(0, writer, 7);
    set.sync(1, reader).expect("syncs");
    assert_eq!(std::fs::read(&store).expect("the store has it"), bytes);
    for seed in 8..16 {
        set.rewrite(0, writer, seed);
    }
    let bytes = set.rewrite(0, writer, 16);
    wait(|done| set.session(0).flush(writer, done)).expect("what close waits for");
    assert_eq!(std::fs::read(&store).expect("the store has it"), bytes);
    let bytes = set.rewrite(0, writer, 17);
    set.agents[0]
        .flush(Duration::from_secs(120))
        .expect("flushes");
    assert_eq!(std::fs::read(&store).expect("the store has it"), bytes);
}

/// S13
#[test]
fn what_a_dead_node_wrote_by_itself_is_lost_and_its_home_says_so() {
    let (mut set, reader, writer) = delegated(0);
    let synced = set.rewrite(1, writer, 1);
    for seed in 2..5 {
        set.rewrite(1, writer, seed);
    }
    set.rewrite(1, writer, 1);
    set.sync(1, writer).expect("syncs");
    set.rewrite(1, writer, 6);
    set.agents.pop().expect("agent 1").stop();
    until_gone(&set);
    assert_eq!(set.read(0, reader, 0, 4096).expect("reads on"), synced);
    let alarms = set.agents[0].status().alarms;
    let told = |alarm: &str| alarm.contains("is gone with bytes");
    assert!(alarms.iter().any(|alarm| told(alarm)), "{alarms:?}");
}

/// S13
#[test]
fn who_wrote_by_itself_is_told_by_each_close_until_a_sync_that_the_home_is_gone() {
    let (mut set, _, writer) = delegated(1);
    for seed in 1..6 {
        set.rewrite(0, writer, seed);
    }
    set.agents.pop().expect("agent 1").stop();
    until_gone(&set);
    let close = || wait(|done| set.session(0).flush(writer, done));
    // The first may be that of a child which becomes another program.
    assert_eq!([close(), close()], [Err(Errno(5)); 2]);
    assert_eq!(set.sync(0, writer), Err(Errno(5)));
    assert_eq!(close(), Ok(()));
}

#[path = "agents/forgets.rs"]
mod forgets;
#[path = "agents/openers.rs"]
mod openers;

#[path = "agents/write_rings.rs"]
mod write_rings;

/// The bytes that an agent holds of one file, by another's word.
fn held(set: &Set, asked: usize, node: u32, file: &str) -> Option<u64> {
    let told = set.agents[asked].residency_of(node).expect("it tells");
    let mut files = told.files.into_iter();
    files
        .find(|known| known.path == file)
        .map(|known| known.held)
}

#[test]
fn an_agent_tells_what_others_hold_and_who_is_gone() {
    let mut set = set(3, |config| config.policy = Policy::Local);
    for (node, name) in ["zero", "one", "two"].into_iter().enumerate() {
        File::create(set.dir.path().join(name)).expect("a file");
        let writer = set.open(node, name, true).expect("opens").handle;
        let bytes = pattern(10_000 * (node + 1), node);
        set.write(node, writer, Place::At(0), &bytes)
            .expect("writes");
    }
    set.agents[2].call("third".to_owned());
    set.agents[2].mounted(Some("/there".to_owned()));
    for asked in 0..3 {
        assert_eq!(held(&set, asked, 0, "zero"), Some(10_000));
        assert_eq!(held(&set, asked, 1, "one"), Some(20_000));
        assert_eq!(held(&set, asked, 2, "two"), Some(30_000));
        assert_eq!(held(&set, asked, 0, "two"), None);
        let told = set.agents[asked].residency_of(2).expect("it tells");
        assert_eq!(
            (told.node.as_str(), told.mount.as_deref()),
            ("third", Some("/there"))
        );
        assert_eq!(told.memory, 16 << 20);
    }
    let away = |node: u32| Err(NotTold::Away(node, 0));
    assert_eq!(set.agents[0].residency_of(3), away(3));
    set.agents.pop().expect("agent 2").stop();
    set.agents.pop().expect("agent 1").stop();
    until_gone(&set);
    assert_eq!(set.agents[0].residency_of(1), away(1));
    assert_eq!(held(&set, 0, 0, "zero"), Some(10_000));
}

#[test]
fn names_of_many_frames_are_told_whole_to_many_at_once() {
    let set = set(2, |config| config.policy = Policy::Local);
    let long = "n".repeat(240);
    let names: Vec<String> = (0..400).map(|number| format!("{long}{number}")).collect();
    for name in &names {
        File::create(set.dir.path().join(name)).expect("a file");
        let writer = set.open(1, name, true).expect("opens").handle;
        set.write(1, writer, Place::At(0), b"x").expect("writes");
    }
    let here = set.agents[1].residency();
    assert_eq!(here.files.len(), names.len());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(set.agents[0].residency_of(1), Ok(here.clone())));
        }
    });
}

/// Knowledge of writes tells nothing any more of a file whose times have been set.
#[test]
fn a_time_that_is_set_is_the_stores_also_while_the_file_is_open() {
    for policy in [
        Policy::Home,
        Policy::HomePlus,
        Policy::Single,
        Policy::Local,
    ] {
        let set = set(2, |config| {
            config.policy = policy;
            config.close = CloseRule::Buffered;
        });
        let writer = set.open(0, "f", true).expect("opens").handle;
        let file = File::open(set.dir.path().join("f")).expect("opens");
        let stamp = || {
            let meta = file.metadata().expect("attributes");
            FileStamp {
                ctime_ns: meta.ctime() * 1_000_000_000 + meta.ctime_nsec(),
                mtime_ns: meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
                size: meta.size(),
            }
        };
        let key = FileKey {
            ino: file.metadata().expect("attributes").ino(),
        };
        let told = |node: usize| {
            let size = wait(|done| set.session(node).size(key, true, done));
            size.expect("an answer").mtime_ns
        };
        set.write(0, writer, Place::At(0), b"some").expect("writes");
        assert!(
            [0, 1].iter().all(|&node| told(node).is_some()),
            "{policy:?}"
        );
        wait(|done| set.session(0).settle(key, done)).expect("settles");
        let before = stamp();
        file.set_modified(std::time::UNIX_EPOCH).expect("sets");
        set.session(0).restamp(key, before, stamp());
        assert_eq!([told(0), told(1)], [None, None], "{policy:?}");
        set.write(0, writer, Place::At(9), b"more").expect("writes");
        assert!(
            [0, 1].iter().all(|&node| told(node).is_some()),
            "{policy:?}"
        );
        set.session(0).close(writer);
    }
}
