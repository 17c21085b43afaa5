//! Policy `bank` over real memcached daemons: what they hold, what becomes of them, and that no read
//! returns old bytes whatever happens to them (S5).
//!
//! `HEARTH_BANK_SCHEDULES` is the number of random schedules of faults, a few unless told.

#[path = "support/scene.rs"]
mod scene;

use hearth_bank::daemon::{self, End, Plan, Seat, Started};
use rustix::process::Signal;
use scene::{LIMIT, Scene, sh, signal, skipped, until};
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const BLOCK: usize = 2048;
const FILES: usize = 4;
const BLOCKS: usize = 8;
const SCHEDULES: u64 = 4;
/// A set that lives longer counts as one that hangs.
const SCHEDULES_PER_SET: usize = 50;
/// Faults of one schedule.
const FAULTS: usize = 5;
/// Reads and writes between two faults.
const BETWEEN: u64 = 60;

#[test]
fn blocks_come_from_daemons_that_end_with_their_set() {
    if skipped(
        "blocks_come_from_daemons_that_end_with_their_set",
        &["memcached"],
    ) {
        return;
    }
    let scene = Scene::new();
    scene.up(
        2,
        &["--policy", "bank", "--bank", "2", "--page-size", "2KiB"],
    );
    let (a, b) = (scene.mount(0), scene.mount(1));
    sh(&a, "head -c 200000 /dev/urandom > f");
    for _ in 0..2 {
        same(&a, &b);
    }
    // Blocks of the file that were found; not all, as entries are made behind the reads.
    let (hits, _) = counted(&scene);
    assert!(hits > 20, "{hits}");
    sh(
        &b,
        "printf changed | dd of=f bs=1 seek=5000 conv=notrunc status=none",
    );
    same(&a, &b);
    let words = scene.status_words();
    assert!(
        words.contains("bank-1.sock") && words.contains("2 of 2"),
        "{words}"
    );
    let set = scene.set_file();
    let at = set["bank"][0]["at"].as_str().expect("an address");
    let mode = std::fs::metadata(at)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    scene.down();
}

fn same(a: &Path, b: &Path) {
    let sum = |at: &Path| sh(at, "sha256sum < f");
    assert_eq!(sum(a), sum(b));
}

/// Entries that were found in daemons, and not.
fn counted(scene: &Scene) -> (u64, u64) {
    let (agents, _) = scene.status();
    let sum = |key: &str| {
        let daemons = agents
            .iter()
            .flat_map(|agent| agent["node"]["bank"].as_array().expect("a list"));
        daemons
            .map(|daemon| daemon[key].as_u64().expect("a number"))
            .sum()
    };
    (sum("hits"), sum("misses"))
}

#[test]
fn a_dead_daemon_is_routed_around_and_one_in_its_place_is_used() {
    let test = "a_dead_daemon_is_routed_around_and_one_in_its_place_is_used";
    if skipped(test, &["memcached"]) {
        return;
    }
    let scene = Scene::new();
    let mut bank = Bank::start(&scene, 1);
    bank.serve(&scene, "bank", &[]);
    let (a, b) = (scene.mount(0), scene.mount(1));
    sh(&a, "head -c 100000 /dev/urandom > f");
    same(&a, &b);
    bank.kill(0);
    same(&a, &b);
    sh(&b, "head -c 100000 /dev/urandom > f");
    same(&a, &b);
    until("the status says so", LIMIT, || {
        scene
            .status_words()
            .contains("daemon 0 of the bank is away")
    });
    bank.restart(0);
    until("nothing needs care", LIMIT, || scene.status().1 == 0);
    let before = counted(&scene).0;
    until("the new daemon is used", LIMIT, || {
        same(&a, &b);
        counted(&scene).0 > before
    });
    drop(bank);
    scene.down();
}

#[test]
fn no_read_returns_old_bytes_whatever_happens_to_daemons() {
    let test = "no_read_returns_old_bytes_whatever_happens_to_daemons";
    if skipped(test, &["memcached"]) {
        return;
    }
    let told = std::env::var("HEARTH_BANK_SCHEDULES").ok();
    let schedules = told.map_or(SCHEDULES, |text| text.parse().expect("a number"));
    for first in (1..=schedules).step_by(SCHEDULES_PER_SET) {
        let last = schedules.min(first + SCHEDULES_PER_SET as u64 - 1);
        survive(first..=last);
    }
}

/// Schedules that one set lives through.
fn survive(seeds: RangeInclusive<u64>) {
    let scene = Scene::new();
    let mut bank = Bank::start(&scene, 2);
    bank.serve(&scene, "bank", &[]);
    let board = Board::default();
    board.lay_out(&scene.mount(0));
    for seed in seeds {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for hand in 0..4 {
                let (board, done, at) = (&board, &done, scene.mount(hand % 2));
                scope.spawn(move || match hand / 2 {
                    0 => board.write_until(done, &at, hand, seed),
                    _ => board.read_until(done, &at, seed * 7 + hand as u64),
                });
            }
            // The hands end also when this thread fails.
            let _end = Raise(&done);
            harm(&mut bank, &board, seed);
        });
        bank.heal();
    }
    let old = board.old.load(Ordering::Relaxed);
    assert_eq!(old, 0, "reads that returned old bytes");
    assert!(counted(&scene).0 > 0, "daemons were of use");
    drop(bank);
    scene.down();
}

#[test]
fn the_checker_catches_the_bank_as_it_was_published() {
    let test = "the_checker_catches_the_bank_as_it_was_published";
    if skipped(test, &["memcached"]) {
        return;
    }
    let scene = Scene::new();
    let bank = Bank::start(&scene, 1);
    // The reader is no gateway: those look at their own memory first.
    bank.serve(&scene, "bank:paper", &["--gateways", "0"]);
    let board = Board::default();
    board.lay_out(&scene.mount(0));
    let writer = board.open(&scene.mount(0), 0);
    let reader = File::open(scene.mount(1).join("f0")).expect("a file");
    until("a read returns old bytes", LIMIT, || {
        // In the daemon by now, and again after each turn.
        board.read(&reader, 0, 0);
        board.read(&reader, 0, 0);
        bank.signal(0, Signal::STOP);
        board.write(&writer, 0, 0);
        thread::scope(|scope| {
            scope.spawn(|| board.read(&reader, 0, 0));
            // What is sent by now waits in the daemon's sockets, which it takes in any order.
            thread::park_timeout(Duration::from_millis(30));
            bank.signal(0, Signal::CONT);
        });
        board.old.load(Ordering::Relaxed) > 0
    });
    drop((writer, reader, bank));
    scene.down();
}

/// Raised when it goes.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One schedule of faults.
fn harm(bank: &mut Bank, board: &Board, seed: u64) {
    let mut dice = Dice::new(seed);
    for _ in 0..FAULTS {
        let mark = board.done.load(Ordering::Relaxed) + BETWEEN;
        until("reads and writes go on", LIMIT, || {
            board.done.load(Ordering::Relaxed) >= mark
        });
        let victim = dice.roll(bank.daemons.len());
        match dice.roll(5) {
            0 => bank.kill(victim),
            1 => bank.restart(victim),
            2 => bank.signal(victim, Signal::STOP),
            3 => bank.signal(victim, Signal::CONT),
            _ => bank.fill(victim),
        }
    }
}

/// Daemons that the test has started, and harms.
struct Bank {
    daemons: Vec<(Plan, Option<Started>)>,
}

impl Bank {
    fn start(scene: &Scene, count: usize) -> Bank {
        let daemons = (0..count).map(|number| {
            let plan = Plan {
                seat: Seat::Unix(scene.path(&format!("d{number}.sock"))),
                memory_bytes: 1 << 20,
                item_bytes: 4096,
                dir: scene.path("control"),
                end: End::WithStarter,
            };
            let started = daemon::start(&plan).expect("memcached starts");
            (plan, Some(started))
        });
        Bank {
            daemons: daemons.collect(),
        }
    }

    /// Starts two agents that use them.
    fn serve(&self, scene: &Scene, policy: &str, more: &[&str]) {
        let at: Vec<String> = self
            .daemons
            .iter()
            .filter_map(|(_, started)| Some(started.as_ref()?.addr.to_string()))
            .collect();
        let at = at.join(",");
        let words = ["--policy", policy, "--bank", &at, "--page-size", "2KiB"];
        scene.up(2, &[&words, more].concat());
    }

    fn kill(&mut self, number: usize) {
        if let Some(mut started) = self.daemons[number].1.take() {
            started.child.kill().expect("our own child");
            started.child.wait().expect("our own child");
        }
    }

    fn restart(&mut self, number: usize) {
        self.kill(number);
        let plan = self.daemons[number].0.clone();
        self.daemons[number].1 = Some(daemon::start(&plan).expect("memcached starts"));
    }

    fn signal(&self, number: usize, what: Signal) {
        if let Some(started) = &self.daemons[number].1 {
            signal(started.child.id(), what);
        }
    }

    /// Has a daemon forget, by entries of others. One that is stopped has to be woken.
    fn fill(&self, number: usize) {
        let Some(started) = &self.daemons[number].1 else {
            return;
        };
        self.signal(number, Signal::CONT);
        let hearth_bank::Address::Unix(path) = &started.addr else {
            return;
        };
        let mut daemon = std::os::unix::net::UnixStream::connect(path).expect("it listens");
        daemon.set_write_timeout(Some(LIMIT)).expect("a span");
        let junk = "x".repeat(2100);
        for entry in 0..600 {
            let line = format!("set junk{entry} 0 0 2100 noreply\r\n{junk}\r\n");
            std::io::Write::write_all(&mut daemon, line.as_bytes()).expect("it reads");
        }
    }

    fn heal(&mut self) {
        for number in 0..self.daemons.len() {
            self.signal(number, Signal::CONT);
            if self.daemons[number].1.is_none() {
                self.restart(number);
            }
        }
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        for number in 0..self.daemons.len() {
            self.kill(number);
        }
    }
}

/// What was written, and what reads may return: the version of the last write that was over when the
/// read began, or of any later one that began before it was over. A block has one writer.
#[derive(Default)]
struct Board {
    over: [[AtomicU64; BLOCKS]; FILES],
    begun: [[AtomicU64; BLOCKS]; FILES],
    done: AtomicU64,
    old: AtomicU64,
}

impl Board {
    fn lay_out(&self, at: &Path) {
        for file in 0..FILES {
            std::fs::write(at.join(format!("f{file}")), vec![0; BLOCKS * BLOCK]).expect("a file");
        }
    }

    fn open(&self, at: &Path, file: usize) -> File {
        let path = at.join(format!("f{file}"));
        let mut options = File::options();
        options.read(true).write(true).open(path).expect("a file")
    }

    fn write(&self, open: &File, file: usize, block: usize) {
        let version = self.begun[file][block].fetch_add(1, Ordering::SeqCst) + 1;
        let bytes = version.to_le_bytes().repeat(BLOCK / 8);
        open.write_all_at(&bytes, (block * BLOCK) as u64)
            .expect("the write is served");
        self.over[file][block].store(version, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self, open: &File, file: usize, block: usize) {
        let least = self.over[file][block].load(Ordering::SeqCst);
        let mut bytes = [0; BLOCK];
        open.read_exact_at(&mut bytes, (block * BLOCK) as u64)
            .expect("the read is served");
        let most = self.begun[file][block].load(Ordering::SeqCst);
        let (words, _) = bytes.as_chunks::<8>();
        let version = u64::from_le_bytes(words[0]);
        assert!(words.iter().all(|word| *word == words[0]), "a torn block");
        assert!(version <= most, "a version of the future");
        if version < least {
            eprintln!("f{file} block {block}: version {version}, though {least} was written");
            self.old.fetch_add(1, Ordering::Relaxed);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes blocks of this hand's own files.
    fn write_until(&self, done: &AtomicBool, at: &Path, hand: usize, seed: u64) {
        let mut dice = Dice::new(seed * 31 + hand as u64);
        let files = [0, 1].map(|n| (2 * hand + n, self.open(at, 2 * hand + n)));
        while !done.load(Ordering::Relaxed) {
            let (file, open) = &files[dice.roll(2)];
            self.write(open, *file, dice.roll(BLOCKS));
        }
    }

    fn read_until(&self, done: &AtomicBool, at: &Path, seed: u64) {
        let mut dice = Dice::new(seed);
        let files: Vec<File> = (0..FILES)
            .map(|file| File::open(at.join(format!("f{file}"))).expect("a file"))
            .collect();
        while !done.load(Ordering::Relaxed) {
            let file = dice.roll(FILES);
            self.read(&files[file], file, dice.roll(BLOCKS));
        }
    }
}

/// The same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % sides as u64) as usize
    }
}
