use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Instant;

use hearth_client::FileStamp;
use hearth_proto::effect::TierGone;
use hearth_shm::{FramePart, Pool};

use super::super::testing::{EIO, Scratch};
use super::super::{Counted, Fault, FaultPlan, Posix};
use super::block::BLOCK;
use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// A store and a tier beside each other.
struct Place {
    scratch: Scratch,
    limit: u64,
    kept_elsewhere: bool,
}

impl Place {
    fn new() -> Place {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path().join("store")).unwrap();
        Place {
            scratch,
            limit: 64 << 20,
            kept_elsewhere: false,
        }
    }

    fn tier_over(&self, inner: Arc<dyn Store>) -> Arc<Tier> {
        let config = TierConfig {
            dir: self.scratch.path().join("tier"),
            limit: self.limit,
            age: LONG,
            synced: Synced::Tier,
            kept_elsewhere: self.kept_elsewhere,
        };
        let root = File::open(self.scratch.path().join("store")).unwrap();
        let tier = Tier::open(config, inner, root.as_fd()).unwrap();
        tier.recover(root.as_fd()).unwrap();
        tier
    }

    fn tier(&self) -> Arc<Tier> {
        self.tier_over(Arc::new(Counted::new(Posix)))
    }

    fn file(&self, name: &str) -> File {
        let options = || File::options().read(true).write(true).create(true).clone();
        let path = self.scratch.path().join("store").join(name);
        options().truncate(false).open(path).unwrap()
    }

    fn stored(&self, name: &str) -> Vec<u8> {
        fs::read(self.scratch.path().join("store").join(name)).unwrap()
    }

    fn block(&self, file: &File, place: &str) -> File {
        let name = format!("tier/blocks/{}{place}", file.metadata().unwrap().ino());
        let path = self.scratch.path().join(name);
        File::options().read(true).write(true).open(path).unwrap()
    }
}

/// A store whose clock stands still.
struct SlowClock;

impl Store for SlowClock {
    fn read(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<usize, Errno> {
        Posix.read(file, offset, parts, pool)
    }

    fn read_vec(&self, file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
        Posix.read_vec(file, offset, len)
    }

    fn write(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        parts: &[FramePart],
        pool: &Pool,
    ) -> Result<(), Errno> {
        Posix.write(file, offset, parts, pool)
    }

    fn write_bytes(&self, file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        Posix.write_bytes(file, offset, bytes)
    }

    fn append(&self, file: BorrowedFd<'_>, bytes: &[u8]) -> Result<u64, Errno> {
        Posix.append(file, bytes)
    }

    fn sync(&self, file: BorrowedFd<'_>, kind: SyncKind) -> Result<(), Errno> {
        Posix.sync(file, kind)
    }

    fn truncate(&self, file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
        Posix.truncate(file, size)
    }

    fn stamp(&self, file: BorrowedFd<'_>) -> Result<FileStamp, Errno> {
        let size = Posix.stamp(file)?.size;
        Ok(FileStamp {
            ctime_ns: 2_000_000_000,
            mtime_ns: 2_000_000_000,
            size,
        })
    }

    fn renew(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        Posix.renew(file)
    }

    fn counts(&self) -> StoreCounts {
        StoreCounts::default()
    }

    fn describe(&self) -> String {
        "slow clock".to_owned()
    }
}

fn put(tier: &Tier, file: &File, offset: u64, bytes: &[u8]) {
    assert!(tier.put(file.as_fd(), offset, bytes).unwrap());
}

fn read(tier: &Tier, file: &File, offset: u64, len: usize) -> Result<Vec<u8>, Errno> {
    tier.read_vec(file.as_fd(), offset, len)
}

/// Bytes that differ from place to place.
fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at / 7) as u8 ^ (at % 251) as u8 ^ seed)
        .collect()
}

#[test]
fn bytes_lie_over_the_stores_until_they_are_settled() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    file.write_all_at(b"0123456789", 0).unwrap();
    put(&tier, &file, 3, b"abc");
    put(&tier, &file, 12, b"z");
    assert_eq!(read(&tier, &file, 0, 100).unwrap(), b"012abc6789\0\0z");
    assert_eq!(place.stored("f"), b"0123456789");
    assert_eq!(tier.status().dirty_bytes, 4);
    tier.settle(file.as_fd()).unwrap();
    assert_eq!(place.stored("f"), b"012abc6789\0\0z");
    assert_eq!(tier.status().dirty_bytes, 0);
    assert_eq!(read(&tier, &file, 0, 100).unwrap(), b"012abc6789\0\0z");
}

#[test]
fn random_writes_reads_settlements_and_restarts_lose_nothing() {
    let place = Place::new();
    let mut tier = place.tier();
    let file = place.file("f");
    let mut model: Vec<u8> = Vec::new();
    let mut state = 12345_u64;
    let mut draw = move |below: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for round in 0..400 {
        let offset = draw(5 * BLOCK as u64) as usize;
        let len = match draw(3) {
            0 => draw(200) as usize + 1,
            1 => BLOCK,
            _ => draw(3 * BLOCK as u64) as usize + 1,
        };
        match draw(10) {
            0..=5 => {
                let bytes = content(len, round as u8);
                if model.len() < offset + len {
                    model.resize(offset + len, 0);
                }
                model[offset..offset + len].copy_from_slice(&bytes);
                put(&tier, &file, offset as u64, &bytes);
            }
            6 => tier.settle(file.as_fd()).unwrap(),
            7 => tier.settle_all().unwrap(),
            8 => {
                drop(tier);
                tier = place.tier();
                assert_eq!(place.stored("f"), model, "round {round}");
                assert_eq!(tier.status().lost, Vec::<String>::new());
            }
            _ => {}
        }
        let expected = model
            .get(offset..model.len().min(offset + len))
            .unwrap_or(&[]);
        assert_eq!(
            read(&tier, &file, offset as u64, len).unwrap(),
            expected,
            "round {round}"
        );
    }
}

#[test]
fn an_agent_that_dies_before_its_records_leaves_what_was_there() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    let (old, new) = (content(2 * BLOCK, 1), content(2 * BLOCK, 2));
    put(&tier, &file, 0, &old);
    let journal = place.scratch.path().join("tier/journal");
    let before = fs::read(&journal).unwrap().len();
    put(&tier, &file, 0, &new);
    let mut main = vec![1; 2 * BLOCK];
    place.block(&file, "").read_exact_at(&mut main, 0).unwrap();
    assert_eq!(
        main,
        vec![0; 2 * BLOCK],
        "given back, and not written over (K1)"
    );
    drop(tier);
    // As they were before the records of the second write came and the room was given back.
    place.block(&file, "").write_all_at(&old, 0).unwrap();
    let records = fs::read(&journal).unwrap();
    fs::write(&journal, &records[..before]).unwrap();
    drop(place.tier());
    assert_eq!(place.stored("f"), old);
}

#[test]
fn wrong_bytes_are_never_answered() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    put(&tier, &file, 0, &content(BLOCK, 1));
    put(&tier, &file, BLOCK as u64, &content(BLOCK, 2));
    place.block(&file, "").write_all_at(b"!", 5).unwrap();
    assert_eq!(read(&tier, &file, 0, 10), Err(EIO));
    assert_eq!(
        read(&tier, &file, BLOCK as u64, BLOCK).unwrap(),
        content(BLOCK, 2)
    );
    assert_eq!(tier.settle(file.as_fd()), Err(EIO));
    assert_eq!(place.stored("f")[BLOCK..], content(BLOCK, 2));
    assert_eq!(read(&tier, &file, 0, 10), Err(EIO), "the store's are older");
    assert!(
        tier.status().lost[0].contains("`f`"),
        "{:?}",
        tier.status().lost
    );
    put(&tier, &file, 0, &content(BLOCK, 3));
    assert_eq!(read(&tier, &file, 0, BLOCK).unwrap(), content(BLOCK, 3));
    tier.settle_all().unwrap();
    place.block(&file, ".other").write_all_at(b"!", 5).unwrap();
    assert_eq!(
        read(&tier, &file, 0, BLOCK).unwrap(),
        content(BLOCK, 3),
        "of a copy the store has it"
    );
}

#[test]
fn a_full_tier_lets_bytes_pass_and_newer_ones_win() {
    let mut place = Place::new();
    place.limit = 4 * BLOCK as u64;
    let (tier, file) = (place.tier(), place.file("f"));
    put(&tier, &file, 0, &content(4 * BLOCK, 1));
    assert!(!tier.put(file.as_fd(), 4 * BLOCK as u64, b"x").unwrap());
    tier.write_bytes(file.as_fd(), 10, b"new").unwrap();
    let mut expected = content(4 * BLOCK, 1);
    expected[10..13].copy_from_slice(b"new");
    assert_eq!(read(&tier, &file, 0, 4 * BLOCK).unwrap(), expected);
    tier.settle_all().unwrap();
    assert_eq!(place.stored("f"), expected);
    put(&tier, &place.file("g"), 0, &content(BLOCK, 2));
    assert!(tier.status().used_bytes <= place.limit);
}

#[test]
fn a_cut_takes_copies_or_all() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    let ino = file.metadata().unwrap().ino();
    put(&tier, &file, 0, &content(2 * BLOCK, 1));
    tier.settle(file.as_fd()).unwrap();
    put(&tier, &file, 0, &content(BLOCK, 2));
    file.write_all_at(&content(BLOCK, 9), BLOCK as u64).unwrap();
    tier.cut_tier(ino, 0, TierGone::Copies);
    let seen = read(&tier, &file, 0, 2 * BLOCK).unwrap();
    assert_eq!(seen, [content(BLOCK, 2), content(BLOCK, 9)].concat());
    tier.cut_tier(ino, 0, TierGone::All);
    file.set_len(0).unwrap();
    assert_eq!(read(&tier, &file, 0, BLOCK).unwrap(), b"");
    tier.settle_all().unwrap();
    assert_eq!(place.stored("f"), b"");
    assert_eq!(tier.status().used_bytes, 0);
}

#[test]
fn a_store_that_fails_is_tried_again() {
    let place = Place::new();
    let plan: FaultPlan = "write:eio@1".parse().unwrap();
    let tier = place.tier_over(Arc::new(Fault::new(Posix, plan)));
    let file = place.file("f");
    put(&tier, &file, 0, b"abc");
    assert_eq!(tier.settle(file.as_fd()), Err(EIO));
    assert_eq!(read(&tier, &file, 0, 9).unwrap(), b"abc");
    tier.settle(file.as_fd()).unwrap();
    assert_eq!(place.stored("f"), b"abc");
}

#[test]
fn what_somebody_wrote_later_stays_and_ours_is_put_aside() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    file.write_all_at(b"first", 0).unwrap();
    put(&tier, &file, 0, b"mine");
    drop(tier);
    let later = std::time::SystemTime::now() + LONG;
    file.write_all_at(b"theirs", 0).unwrap();
    file.set_modified(later).unwrap();
    let tier = place.tier();
    assert_eq!(place.stored("f"), b"theirs");
    let lost = tier.status().lost;
    assert!(
        lost[0].contains("4 bytes of `f`") && lost[0].contains("lost/"),
        "{lost:?}"
    );
    assert_eq!(read(&tier, &file, 0, 9).unwrap(), b"theirs");
}

/// An agent that died while bytes went to the store cannot know whose are there now.
#[test]
fn what_others_kept_and_brought_stays() {
    for kept_elsewhere in [false, true] {
        let mut place = Place::new();
        place.kept_elsewhere = kept_elsewhere;
        let plan: FaultPlan = "write:eio@1".parse().unwrap();
        let tier = place.tier_over(Arc::new(Fault::new(Posix, plan)));
        let file = place.file("f");
        put(&tier, &file, 0, b"mine");
        assert_eq!(tier.settle(file.as_fd()), Err(EIO));
        drop(tier);
        file.write_all_at(b"ours", 0).unwrap();
        file.set_modified(std::time::SystemTime::now() + LONG)
            .unwrap();
        let tier = place.tier();
        let (bytes, named) = match kept_elsewhere {
            true => (b"ours", 1),
            false => (b"mine", 0),
        };
        assert_eq!(place.stored("f")[..4], bytes[..]);
        assert_eq!(tier.status().lost.len(), named);
    }
}

#[test]
fn the_disk_is_told_of_a_run_however_it_came() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    let half = content(512 << 10, 1);
    let waits = || {
        let entry = tier.entry(file.as_fd()).unwrap().unwrap();
        let kept = entry.kept();
        kept.run.1.clone()
    };
    put(&tier, &file, 0, &half);
    assert_eq!(waits(), 0..512 << 10);
    put(&tier, &file, 512 << 10, &half);
    assert_eq!(waits(), 1 << 20..1 << 20, "all of it is on its way");
    put(&tier, &file, 4 << 20, &half);
    assert_eq!(waits(), 4 << 20..(4 << 20) + (512 << 10), "another run");
}

/// Bytes that others keep and bring in the tick of the tier's last own write have the same time as that.
#[test]
fn what_others_brought_within_the_same_tick_stays() {
    for is_sure in [false, true] {
        let mut place = Place::new();
        place.kept_elsewhere = true;
        let tier = place.tier_over(Arc::new(SlowClock));
        let file = place.file("f");
        put(&tier, &file, 0, b"first");
        tier.settle(file.as_fd()).unwrap();
        put(&tier, &file, 0, b"older");
        let after = if is_sure { LONG } else { Duration::ZERO };
        tier.make_sure(Instant::now() + after);
        drop(tier);
        // The agent has died, and who kept what it had brings it.
        file.write_all_at(b"newer", 0).unwrap();
        let tier = place.tier_over(Arc::new(SlowClock));
        // A store that says the same when the tick is over has not been written to since.
        let (bytes, named) = match is_sure {
            false => (b"newer", 1),
            true => (b"older", 0),
        };
        assert_eq!(place.stored("f"), bytes);
        assert_eq!(tier.status().lost.len(), named);
    }
}

#[test]
fn copies_that_somebody_may_have_changed_within_the_tick_do_not_count() {
    let place = Place::new();
    let (tier, file) = (place.tier_over(Arc::new(SlowClock)), place.file("f"));
    put(&tier, &file, 0, b"mine");
    tier.settle(file.as_fd()).unwrap();
    tier.forget_tier(file.metadata().unwrap().ino());
    file.write_all_at(b"ours", 0).unwrap();
    assert_eq!(read(&tier, &file, 0, 9).unwrap(), b"ours");
    put(&tier, &file, 0, b"mine");
    tier.settle_all().unwrap();
    drop(tier);
    file.write_all_at(b"ours", 0).unwrap();
    let tier = place.tier_over(Arc::new(SlowClock));
    assert_eq!(read(&tier, &file, 0, 9).unwrap(), b"ours");
}

#[test]
fn what_passed_the_tier_by_is_not_taken_for_somebody_elses() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    put(&tier, &file, 0, b"mine");
    tier.write_bytes(file.as_fd(), 3 * BLOCK as u64, b"passes")
        .unwrap();
    put(&tier, &file, BLOCK as u64, b"more");
    drop(tier);
    let tier = place.tier();
    assert_eq!(tier.status().lost, Vec::<String>::new());
    assert_eq!(place.stored("f")[BLOCK..BLOCK + 4], *b"more");
}

#[test]
fn a_time_set_by_hand_is_nobodys_write() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    put(&tier, &file, 0, b"mine");
    drop(tier);
    file.set_modified(std::time::UNIX_EPOCH + LONG).unwrap();
    drop(place.tier());
    assert_eq!(place.stored("f"), b"mine");
}

#[test]
fn a_file_that_is_gone_is_named() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    put(&tier, &file, 0, b"mine");
    drop(tier);
    fs::remove_file(place.scratch.path().join("store/f")).unwrap();
    let lost = place.tier().status().lost;
    assert!(lost[0].contains("`f`"), "{lost:?}");
}

#[test]
fn copies_count_after_a_restart_unless_somebody_wrote() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    put(&tier, &file, 0, b"mine");
    tier.settle_all().unwrap();
    tier.make_sure(Instant::now() + LONG);
    drop(tier);
    let tier = place.tier();
    assert_eq!(read(&tier, &file, 0, 4).unwrap(), b"mine");
    assert_eq!(tier.counts().read_requests, 0, "it is here");
    drop(tier);
    file.write_all_at(b"THEIRS", 0).unwrap();
    let tier = place.tier();
    assert_eq!(read(&tier, &file, 0, 6).unwrap(), b"THEIRS");
}

#[test]
fn what_the_store_was_given_is_not_laid_over_what_came_since() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    put(&tier, &file, 0, b"aaaa");
    tier.settle(file.as_fd()).unwrap();
    // Others write the file now, until this agent is asked to once more.
    tier.forget_tier(file.metadata().unwrap().ino());
    file.write_all_at(b"bbbbbb", 0).unwrap();
    put(&tier, &file, 2, b"cc");
    assert_eq!(read(&tier, &file, 0, 6).unwrap(), b"bbccbb");
    tier.settle(file.as_fd()).unwrap();
    assert_eq!(place.stored("f"), b"bbccbb");
}

#[test]
fn a_tier_that_may_not_be_written_is_passed_by() {
    let place = Place::new();
    let (tier, file) = (place.tier(), place.file("f"));
    let blocks = place.scratch.path().join("tier/blocks");
    fs::remove_dir(&blocks).unwrap();
    assert!(!tier.put(file.as_fd(), 0, b"abc").unwrap());
    tier.write_bytes(file.as_fd(), 0, b"abc").unwrap();
    assert_eq!(place.stored("f"), b"abc");
    assert_eq!(tier.status().lost.len(), 1, "it is said once");
}

#[test]
fn two_agents_do_not_share_a_tier() {
    let place = Place::new();
    let _first = place.tier();
    let config = TierConfig {
        dir: place.scratch.path().join("tier"),
        limit: 1 << 20,
        age: LONG,
        synced: Synced::Store,
        kept_elsewhere: false,
    };
    let root = File::open(place.scratch.path()).unwrap();
    let second = Tier::open(config, Arc::new(Posix), root.as_fd());
    assert!(second.is_err());
}

/// Random numbers of one schedule.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

/// How many schedules; more on demand.
fn schedules() -> u64 {
    let said = std::env::var("HEARTH_TIER_SCHEDULES").ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Writes as a home does, which keeps the bytes and tries again.
fn write(tier: &Tier, file: &File, offset: u64, bytes: &[u8]) {
    let tries = (0..20).find(|_| match tier.put(file.as_fd(), offset, bytes) {
        Ok(true) => true,
        Ok(false) => tier.write_bytes(file.as_fd(), offset, bytes).is_ok(),
        Err(_) => false,
    });
    assert!(
        tries.is_some(),
        "a tier is never a reason to fail for ever (T3)"
    );
}

/// One agent's tier through deaths, restarts, a store that fails and, in every other schedule, a disk
/// that changes bytes.
fn schedule(seed: u64) {
    let mut draw = Draw(seed);
    let place = Place::new();
    let plan = |draw: &mut Draw| -> FaultPlan {
        let (write, sync) = (draw.below(20) + 1, draw.below(9) + 1);
        let plan = format!(
            "write:eio@{write}; write:enospc@{}; sync:eio@{sync}",
            write + 3
        );
        plan.parse().unwrap()
    };
    let mut tier = place.tier_over(Arc::new(Fault::new(Posix, plan(&mut draw))));
    let file = place.file("f");
    let mut model: Vec<u8> = Vec::new();
    let (mut lies, mut named) = (false, false);
    for step in 0..24 {
        let offset = draw.below(4 * BLOCK as u64) as usize;
        let len = draw.below(2 * BLOCK as u64) as usize + 1;
        match draw.below(10) {
            0..=4 => {
                let bytes = content(len, step);
                model.resize(model.len().max(offset + len), 0);
                model[offset..offset + len].copy_from_slice(&bytes);
                write(&tier, &file, offset as u64, &bytes);
            }
            5 => drop(tier.settle(file.as_fd())),
            6 => drop(tier.settle_all()),
            7 => {
                named |= names_a_loss(&tier);
                drop(tier);
                tier = place.tier_over(Arc::new(Fault::new(Posix, plan(&mut draw))));
            }
            8 if seed % 2 == 1 => {
                let path = place.scratch.path().join("tier/blocks");
                let path = path.join(file.metadata().unwrap().ino().to_string());
                if let Ok(block) = File::options().read(true).write(true).open(path) {
                    let mut byte = [0];
                    let _ = block.read_at(&mut byte, offset as u64);
                    block.write_all_at(&[!byte[0]], offset as u64).unwrap();
                    lies = true;
                }
            }
            _ => match read(&tier, &file, offset as u64, len) {
                Ok(mut bytes) => {
                    let expected = model.get(offset..model.len().min(offset + len));
                    let expected = expected.unwrap_or_default();
                    // The end is the manager's to know: a hole behind the store's reads as nothing.
                    bytes.resize(expected.len(), 0);
                    assert!(bytes == expected, "seed {seed}, step {step}: wrong bytes");
                }
                Err(errno) => assert!(lies, "seed {seed}: {errno:?}"),
            },
        }
    }
    named |= names_a_loss(&tier);
    drop(tier);
    let tier = place.tier();
    named |= names_a_loss(&tier);
    let stored = place.stored("f");
    assert!(lies || !named, "seed {seed}: {:?}", tier.status().lost);
    assert!(
        stored == model || named,
        "seed {seed}: a loss that nobody is told of"
    );
}

/// A store that refuses at a start is tried again: that is no loss.
fn names_a_loss(tier: &Tier) -> bool {
    let lost = tier.status().lost;
    lost.iter().any(|line| !line.starts_with("cannot bring"))
}

#[test]
fn whatever_fails_nothing_is_wrong_and_every_loss_has_a_name() {
    (0..schedules()).for_each(schedule);
}
