//! Files whose names are wrong: homes reach them through the descriptors of nodes that have them open, or had (S6,
//! S22).

use super::*;
use hearth_agent::store::Seconds;

const LEN: usize = 60_000;

/// The bytes in the store behind a descriptor.
fn behind(file: &File) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; file.metadata().expect("attributes").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("the store reads");
    bytes
}

impl Set {
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn close(&self, node: usize, handle: SessionHandle) {
        wait(|done| self.session(node).flush(handle, done)).expect("flushes");
        self.session(node).close(handle);
    }
}

fn buffered(config: &mut AgentSettings) {
    config.close = CloseRule::Buffered;
}

#[test]
fn a_file_without_a_name_is_written_by_who_has_it_open() {
    let set = set(3, |_| ());
    let writer = set.open(0, "f", true).expect("opens").handle;
    let own = File::open(set.path("f")).expect("opens");
    std::fs::remove_file(set.path("f")).expect("removes");
    let bytes = pattern(LEN, 1);
    set.write(0, writer, Place::At(0), &bytes).expect("writes");
    set.sync(0, writer).expect("syncs");
    assert_eq!(behind(&own), bytes);
}

#[test]
fn a_file_without_a_name_is_read_by_who_has_it_open() {
    let set = set(3, |_| ());
    std::fs::write(set.path("f"), pattern(LEN, 1)).expect("a file");
    let reader = set.open(0, "f", false).expect("opens").handle;
    std::fs::remove_file(set.path("f")).expect("removes");
    let read = set.read(0, reader, 0, LEN as u32).expect("reads");
    assert_eq!(read, pattern(LEN, 1));
}

#[test]
fn a_home_never_takes_the_file_that_has_the_name_now() {
    let set = set(3, |_| ());
    let writer = set.open(0, "f", true).expect("opens").handle;
    set.write(0, writer, Place::At(0), &pattern(LEN, 1))
        .expect("writes");
    let own = File::open(set.path("f")).expect("opens");
    std::fs::write(set.path("g"), b"another").expect("a file");
    std::fs::rename(set.path("g"), set.path("f")).expect("renames");
    set.sync(0, writer).expect("syncs");
    assert_eq!(behind(&own), pattern(LEN, 1));
    assert_eq!(std::fs::read(set.path("f")).expect("reads"), b"another");
}

/// A file is written and closed, and has another name when its bytes go to the store: on which nodes they are then.
fn renamed_after_close(nodes: u32, change: impl Fn(&mut AgentSettings)) {
    let set = set(nodes, |config| {
        buffered(config);
        change(config);
    });
    std::fs::create_dir(set.path("d")).expect("a directory");
    let writer = set.open(0, "d/f", true).expect("opens").handle;
    let bytes = pattern(LEN, 1);
    set.write(0, writer, Place::At(0), &bytes).expect("writes");
    set.close(0, writer);
    std::fs::rename(set.path("d/f"), set.path("d/g")).expect("renames");
    std::fs::rename(set.path("d"), set.path("e")).expect("renames");
    let ino = std::fs::metadata(set.path("e/g"))
        .expect("it is there")
        .ino();
    let last = nodes as usize - 1;
    wait(|done| set.session(last).settle(FileKey { ino }, done)).expect("settles");
    assert_eq!(std::fs::read(set.path("e/g")).expect("reads"), bytes);
}

#[test]
fn a_home_writes_through_the_descriptor_that_was_closed_here() {
    renamed_after_close(1, |_| ());
    renamed_after_close(1, |config| config.policy = Policy::Local);
}

#[test]
fn a_home_elsewhere_writes_through_the_descriptor_of_who_closed_it() {
    renamed_after_close(3, |_| ());
    renamed_after_close(3, |config| config.policy = Policy::HomePlus);
    renamed_after_close(3, |config| config.policy = Policy::Local);
}

#[test]
fn a_descriptor_goes_when_the_store_has_the_bytes() {
    let set = set(2, |config| {
        buffered(config);
        config.flush_age = Duration::from_millis(20);
    });
    for number in 0..8 {
        let writer = set.open(0, &format!("f{number}"), true).expect("opens");
        set.write(0, writer.handle, Place::At(0), b"some")
            .expect("writes");
        set.close(0, writer.handle);
    }
    let ours = || {
        let fds = std::fs::read_dir("/proc/self/fd").expect("descriptors");
        let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        let files =
            links.filter(|path| path.starts_with(set.path("f0").parent().expect("a directory")));
        files.filter(|path| path.is_file()).count()
    };
    let started = std::time::Instant::now();
    // The home of each file has one; who wrote it has none.
    while ours() > 8 {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", ours());
        thread::yield_now();
    }
}

/// A set whose agents are clients that lag.
fn lagging(policy: Policy, seconds: &Seconds) -> Set {
    set(3, |config| {
        config.policy = policy;
        config.store = StoreSpec::Lagging(seconds.clone());
    })
}

/// One for each policy, within one second.
fn each_lagging(story: impl Fn(&Set, Policy)) {
    for policy in [
        Policy::Home,
        Policy::HomePlus,
        Policy::Hint,
        Policy::Single,
        Policy::Local,
    ] {
        story(&lagging(policy, &Seconds::default()), policy);
    }
}

impl Set {
    /// Takes a file's last name away, as a front end does.
    fn remove(&self, node: usize, name: &str) {
        let file = FileKey {
            ino: std::fs::metadata(self.path(name))
                .expect("attributes")
                .ino(),
        };
        wait(|done| self.session(node).detach(file, done)).expect("lets go");
        std::fs::remove_file(self.path(name)).expect("removes");
        self.session(node).detached(file, true);
    }

    /// Cuts or lengthens a file, as a front end does.
    fn truncate(&self, node: usize, name: &str, size: u64) {
        let file = File::options().write(true).open(self.path(name));
        let file = file.expect("opens");
        let ino = file.metadata().expect("attributes").ino();
        let session = self.session(node);
        wait(|done| session.truncate(FileKey { ino }, file.into(), size, done)).expect("truncates");
    }

    /// Makes a file, writes and syncs it; what the store has then, whatever has the name.
    fn made(&self, name: &str, seed: usize) -> (SessionHandle, Vec<u8>) {
        let writer = self.open(0, name, true).expect("opens").handle;
        let own = File::open(self.path(name)).expect("opens");
        self.write(0, writer, Place::At(0), &pattern(LEN, seed))
            .expect("writes");
        self.sync(0, writer).expect("syncs");
        (writer, behind(&own))
    }
}

/// Homes whose clients still know the last file of the name.
#[test]
fn a_name_that_is_used_again_within_the_second_is_no_obstacle() {
    each_lagging(|set, policy| {
        // It stays open, so that its number is not given to the next.
        let mut kept = Vec::new();
        for round in 1..5 {
            let (writer, stored) = set.made("f", round);
            assert_eq!(stored, pattern(LEN, round), "{policy:?}");
            kept.push(File::open(set.path("f")).expect("opens"));
            set.close(0, writer);
            let reader = set.open(round % 3, "f", false).expect("opens").handle;
            let read = set.read(round % 3, reader, 0, LEN as u32).expect("reads");
            assert_eq!(read, pattern(LEN, round), "{policy:?}");
            set.session(round % 3).close(reader);
            set.remove(0, "f");
        }
    });
}

/// Homes whose clients still know that the name was not there.
#[test]
fn a_name_that_was_missing_a_moment_ago_is_no_obstacle() {
    let seconds = Seconds::default();
    let set = set(3, |config| {
        buffered(config);
        config.store = StoreSpec::Lagging(seconds.clone());
    });
    for round in 1..5 {
        let (_, stored) = set.made("f", round);
        assert_eq!(stored, pattern(LEN, round));
        let (from, to) = (format!("t{round}"), format!("u{round}"));
        let (writer, _) = set.made(&from, round);
        std::fs::rename(set.path(&from), set.path(&to)).expect("renames");
        set.write(0, writer, Place::At(0), &pattern(LEN, round + 9))
            .expect("writes");
        set.close(0, writer);
        let ino = std::fs::metadata(set.path(&to)).expect("attributes").ino();
        wait(|done| set.session(round % 3).settle(FileKey { ino }, done)).expect("settles");
        let stored = std::fs::read(set.path(&to)).expect("reads");
        assert_eq!(stored, pattern(LEN, round + 9));
        seconds.pass();
        set.remove(0, "f");
    }
}

/// A reader at each node.
fn all_open(set: &Set) -> Vec<SessionHandle> {
    (0..3)
        .map(|node| set.open(node, "f", false).expect("opens").handle)
        .collect()
}

fn all_read(set: &Set, readers: &[SessionHandle], bytes: &[u8], case: impl std::fmt::Debug) {
    for (node, &reader) in readers.iter().enumerate() {
        let read = set.read(node, reader, 0, LEN as u32).expect("reads");
        assert!(read == bytes, "{case:?} node {node}");
    }
}

/// Homes whose clients keep pages that another node has since written through, or cut off.
#[test]
fn pages_that_a_client_keeps_are_not_read_again_after_a_change() {
    each_lagging(|set, policy| {
        std::fs::write(set.path("f"), pattern(LEN, 1)).expect("made");
        let readers = all_open(set);
        let all_read = |bytes: &[u8]| all_read(set, &readers, bytes, policy);
        all_read(&pattern(LEN, 1));
        for round in 2..6 {
            let node = round % 3;
            let writer = set.open(node, "f", true).expect("opens").handle;
            set.truncate(node, "f", 0);
            set.truncate(node, "f", LEN as u64);
            all_read(&vec![0; LEN]);
            set.write(node, writer, Place::At(0), &pattern(LEN, round))
                .expect("writes");
            set.sync(node, writer).expect("syncs");
            set.close(node, writer);
            all_read(&pattern(LEN, round));
        }
    });
}

/// Nodes whose clients know the file as it was before it was written and lost its name.
#[test]
fn a_file_that_lost_its_name_is_read_as_it_is_by_who_has_it_open() {
    each_lagging(|set, policy| {
        for (known, node) in [0, 100, LEN].into_iter().zip([0, 1, 2]) {
            std::fs::write(set.path("f"), pattern(known, 1)).expect("made");
            let readers = all_open(set);
            let all_read = |bytes: &[u8]| all_read(set, &readers, bytes, (policy, known));
            all_read(&pattern(known, 1));
            let writer = set.open(node, "f", true).expect("opens").handle;
            set.write(node, writer, Place::At(0), &pattern(LEN, 2))
                .expect("writes");
            set.close(node, writer);
            set.remove(0, "f");
            all_read(&pattern(LEN, 2));
        }
    });
}
