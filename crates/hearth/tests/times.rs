//! The time of a file's last write, as programs see it through mounts (S8). An overwrite in place shows there when the
//! call returns, on each node. A time that somebody sets stays.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fixture::{Fixture, finish, skipped, text, well};

/// Policies and close rules, by the options that choose them.
const CASES: [&[&str]; 8] = [
    &["--policy", "home"],
    &["--policy", "home", "--close", "buffered"],
    &["--policy", "home:plus"],
    &["--policy", "home:plus", "--close", "buffered"],
    &["--policy", "hint"],
    &["--policy", "single"],
    &["--policy", "single", "--close", "buffered"],
    &["--policy", "local"],
];

fn long_ago(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds)
}

fn modified(path: &Path) -> SystemTime {
    let meta = fs::metadata(path).expect("it is there");
    meta.modified().expect("the store keeps times")
}

fn set_time(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).expect("it opens");
    let times = FileTimes::new().set_modified(time);
    file.set_times(times).expect("the owner may");
}

/// Two mounts of a file that was last written long ago, and whose attributes both have been asked for.
struct Pair {
    fixture: Fixture,
    writer: PathBuf,
    other: PathBuf,
    last: SystemTime,
}

impl Pair {
    fn new(options: &[&str]) -> Pair {
        let fixture = Fixture::new();
        let stored = fixture.store().join("f");
        fs::write(&stored, [1; 5000]).expect("the store takes it");
        set_time(&stored, long_ago(0));
        fixture.up(2, options);
        let [writer, other] = [0, 1].map(|agent| fixture.mount(agent).join("f"));
        for path in [&writer, &other] {
            assert_eq!(fs::read(path).expect("it opens"), [1; 5000]);
            assert_eq!(modified(path), long_ago(0));
        }
        Pair {
            fixture,
            writer,
            other,
            last: long_ago(0),
        }
    }

    /// The time is the same in both mounts, and none that was told is later.
    fn look(&mut self, step: &str) -> SystemTime {
        let (there, here) = (modified(&self.other), modified(&self.writer));
        assert_eq!(there, here, "{step}: two nodes, one time");
        assert!(self.last <= here, "{step}: the time went back");
        self.last = here;
        here
    }

    /// Overwrites a few bytes until that shows: clocks of files go in ticks.
    fn overwrite(&mut self, file: &File, step: &str) {
        let before = self.last;
        let begun = SystemTime::now();
        while self.last == before {
            file.write_all_at(&[2; 100], 700).expect("it is taken");
            self.look(step);
            let waited = begun.elapsed().unwrap_or_default();
            assert!(waited < Duration::from_secs(5), "{step}: no later time");
        }
    }
}

fn each_case(test: &str, programs: &[&str], check: fn(&[&str])) {
    if !skipped(test, programs) {
        CASES.into_iter().for_each(check);
    }
}

#[test]
fn an_overwrite_shows_in_the_time_when_it_returns() {
    each_case("an_overwrite_shows_in_the_time", &[], |options| {
        let mut pair = Pair::new(options);
        let open = |path: &Path| File::options().write(true).open(path).expect("it opens");
        let file = open(&pair.writer);
        pair.overwrite(&file, "written");
        pair.overwrite(&file, "written again");
        drop(file);
        pair.look("closed");
        open(&pair.other).sync_all().expect("the store takes it");
        pair.look("synced");
        assert_eq!(fs::read(&pair.other).expect("it opens")[700..800], [2; 100]);
        let read = pair.look("read");
        drop(open(&pair.other));
        assert_eq!(pair.look("opened"), read, "nothing was written");
        pair.fixture.down();
        let stored = modified(&pair.fixture.store().join("f"));
        assert!(pair.last <= stored, "down: the time went back");
    });
}

#[test]
fn a_time_that_is_set_after_a_write_stays() {
    each_case("a_time_that_is_set_stays", &[], |options| {
        let mut pair = Pair::new(options);
        let file = File::options().write(true).open(&pair.writer);
        let file = file.expect("it opens");
        for (second, by) in [(5, pair.writer.clone()), (6, pair.other.clone())] {
            pair.overwrite(&file, "written");
            set_time(&by, long_ago(second));
            pair.last = long_ago(second);
            assert_eq!(pair.look("set"), long_ago(second));
        }
        drop(file);
        assert_eq!(pair.look("closed"), long_ago(6));
        pair.fixture.down();
        assert_eq!(modified(&pair.fixture.store().join("f")), long_ago(6));
    });
}

/// Runs a line of a shell; returns what it says.
fn shell(fixture: &Fixture, line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(fixture.path(""));
    let output = finish(&mut command);
    well(&output);
    text(&output.stdout)
}

#[test]
fn programs_that_go_by_times_see_an_overwrite() {
    each_case("programs_see_an_overwrite", &["rsync", "make"], |options| {
        for asker in ["mount0", "mount1"] {
            let pair = Pair::new(options);
            fs::write(
                pair.fixture.path("Makefile"),
                MAKEFILE.replace("MOUNT", asker),
            )
            .expect("our own directory");
            let sync = format!("rsync -ai {asker}/f copy");
            let work = |line: &str| shell(&pair.fixture, line);
            assert!(work(&sync).contains('f'), "the first run copies");
            assert!(work("make").contains("made"));
            assert_eq!(work(&sync), "");
            assert!(!work("make").contains("made"));
            let file = File::options().write(true).open(&pair.writer);
            file.expect("it opens")
                .write_all_at(&[3; 100], 0)
                .expect("it is taken");
            assert!(work(&sync).contains('f'), "{options:?}, {asker}: rsync");
            assert!(work("make").contains("made"), "{options:?}, {asker}: make");
            let synced = fs::read(pair.fixture.path("copy")).expect("it was copied");
            assert_eq!(synced[..100], [3; 100]);
            // If a close waits for nothing, the bytes may get to the store a second later, and the time with them.
            work(&sync);
            assert_eq!(work(&sync), "", "{options:?}, {asker}: nothing was written");
            work("make");
            assert!(!work("make").contains("made"));
            pair.fixture.down();
        }
    });
}

const MAKEFILE: &str = "out: MOUNT/f\n\tcp MOUNT/f out; echo made\n";
