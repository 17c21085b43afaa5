//! Names and attributes that nodes keep. All nodes see a change of one when the call returns (S7, S8), and a node that
//! keeps them asks nobody.

#[path = "support/fixture.rs"]
mod fixture;
#[path = "support/random.rs"]
mod random;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use fixture::{Fixture, skipped};
use random::Random;
use rustix::io::Errno;

const ESTALE: i32 = Errno::STALE.raw_os_error();
const AGENTS: usize = 3;
/// Long enough that nothing is looked at anew for its age.
const KEPT: [&str; 2] = ["--attr-ttl", "2m"];
const NAMES: u64 = 12;
const STEPS: u64 = 400;

/// The attributes that a program sees of a name; `None` if it is not there.
fn seen(dir: &Path, name: &str) -> Option<(u32, u64, u64, u64)> {
    match fs::symlink_metadata(dir.join(name)) {
        Ok(meta) => Some((meta.mode(), meta.len(), meta.nlink(), meta.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn messages(fixture: &Fixture) -> u64 {
    let (agents, _) = fixture.status();
    let sent = |agent: &serde_json::Value| agent["node"]["counters"]["messages_sent"].as_u64();
    agents.iter().filter_map(sent).sum()
}

fn made(fixture: &Fixture, names: u64) -> Vec<std::path::PathBuf> {
    fs::create_dir(fixture.store().join("d")).expect("the store takes it");
    for name in 0..names {
        let path = fixture.store().join(format!("d/{name}"));
        fs::write(path, vec![b'x'; name as usize]).expect("the store takes it");
    }
    fixture.up(AGENTS, &KEPT);
    let mounts = (0..AGENTS).map(|agent| fixture.mount(agent).join("d"));
    mounts.collect()
}

fn look_at_all(mounts: &[std::path::PathBuf], names: u64) {
    for dir in mounts {
        for name in 0..names {
            let told = seen(dir, &name.to_string()).expect("it is there");
            assert_eq!(told.1, name);
        }
        assert_eq!(seen(dir, "none"), None);
    }
}

/// S7, S8
#[test]
fn what_is_kept_is_told_without_a_message() {
    if skipped("what_is_kept_is_told_without_a_message", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let mounts = made(&fixture, 200);
    look_at_all(&mounts, 200);
    let before = messages(&fixture);
    look_at_all(&mounts, 200);
    assert_eq!(messages(&fixture), before);
    fixture.down();
}

/// One step of somebody who changes names and attributes in `dir`; errors are the store's.
fn change(dir: &Path, choice: u64, name: &str, other: &str) {
    let (path, to) = (dir.join(name), dir.join(other));
    let done = match choice {
        0 => fs::write(&path, other.as_bytes()),
        1 => fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)),
        2 => fs::rename(&path, &to),
        3 => fs::set_permissions(&path, Permissions::from_mode(0o600)),
        4 => fs::set_permissions(&path, Permissions::from_mode(0o755)),
        5 => File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(77)),
        6 => fs::hard_link(&path, &to),
        7 => fs::create_dir(&path),
        8 => File::options().append(true).open(&path).and_then(|mut f| {
            io::Write::write_all(&mut f, b"more")?;
            f.sync_all()
        }),
        _ => File::create(&path).map(drop),
    };
    // Half of them are impossible: the view of all must be the same all the same.
    drop(done);
}

/// S7, S8
#[test]
fn names_and_attributes_change_for_all_when_the_call_returns() {
    if skipped(
        "names_and_attributes_change_for_all_when_the_call_returns",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    let mounts = made(&fixture, NAMES);
    look_at_all(&mounts, NAMES);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut below = |bound| random.below(bound);
    for step in 0..STEPS {
        let (who, choice) = (below(AGENTS as u64) as usize, below(10));
        let (name, other) = (below(NAMES).to_string(), below(NAMES).to_string());
        change(&mounts[who], choice, &name, &other);
        for name in (0..NAMES).map(|name| name.to_string()) {
            let views: Vec<_> = mounts.iter().map(|dir| seen(dir, &name)).collect();
            let real = seen(&fixture.store().join("d"), &name);
            let same = views.iter().all(|view| *view == real);
            assert!(
                same,
                "step {step}, node {who} did {choice} to {other}: {name} is {real:?}, seen {views:?}"
            );
        }
    }
    fixture.down();
}

/// S11
#[test]
fn a_file_that_was_replaced_outside_is_opened_anew_though_its_name_is_kept() {
    let test = "a_file_that_was_replaced_outside_is_opened_anew_though_its_name_is_kept";
    if skipped(test, &[]) {
        return;
    }
    let fixture = Fixture::new();
    let mounts = made(&fixture, NAMES);
    look_at_all(&mounts, NAMES);
    let new = fixture.store().join("new");
    fs::write(&new, b"other").expect("the store takes it");
    fs::rename(&new, fixture.store().join("d/5")).expect("the store takes it");
    for dir in &mounts {
        let bytes = fs::read(dir.join("5")).expect("it opens");
        assert_eq!(bytes, b"other");
    }
    fixture.down();
}

/// S8: the operating system has a directory at one place only, and moves it there by itself except inside of a rename.
#[test]
fn a_directory_that_another_node_moved_can_be_moved_on() {
    if skipped("a_directory_that_another_node_moved_can_be_moved_on", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &[]);
    let [here, there] = [0, 1].map(|agent| fixture.mount(agent));
    for round in 0..10 {
        let root = format!("q{round}");
        fs::create_dir_all(here.join(&root).join("d/f")).expect("the store takes it");
        let (from, to) = (there.join(&root).join("d/f"), there.join(&root).join("g"));
        fs::rename(from, to).expect("it is there");
        let (from, to) = (here.join(&root).join("g"), here.join(&root).join("d/e"));
        fs::rename(from, to).expect("it is there");
        assert!(seen(&there.join(&root), "d/e").is_some());
    }
    fixture.down();
    fixture.assert_clean();
}

/// Files are made, and removed by other nodes, at one name all the time. An open that makes its file finds it or makes it.
#[test]
fn an_open_that_makes_its_file_does_not_miss_it() {
    if skipped("an_open_that_makes_its_file_does_not_miss_it", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(AGENTS, &["--policy", "none"]);
    let mounts: Vec<_> = (0..AGENTS).map(|agent| fixture.mount(agent)).collect();
    std::thread::scope(|scope| {
        for mount in mounts.iter().chain(&mounts) {
            scope.spawn(|| {
                let file = mount.join("one");
                for _ in 0..3000 {
                    let made = File::create(&file);
                    // It may have been replaced twice meanwhile.
                    let replaced = |error: &io::Error| error.raw_os_error() == Some(ESTALE);
                    assert!(
                        made.is_ok() || made.as_ref().is_err_and(replaced),
                        "{made:?}"
                    );
                    // Another may have removed it.
                    let _ = fs::remove_file(&file);
                }
            });
        }
    });
    fixture.down();
    fixture.assert_clean();
}

/// A program is in the middle of a directory that another node removes.
#[test]
fn a_listing_of_a_directory_that_another_node_removes_ends() {
    if skipped(
        "a_listing_of_a_directory_that_another_node_removes_ends",
        &[],
    ) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &[]);
    let [here, there] = [0, 1].map(|agent| fixture.mount(agent).join("d"));
    fs::create_dir(&here).expect("the store takes it");
    let names = 0..20;
    for name in names.clone() {
        File::create(here.join(name.to_string())).expect("the store takes it");
    }
    let dir = File::open(&here).expect("it is there");
    let mut buffer = [std::mem::MaybeUninit::uninit(); 200];
    let mut read = || {
        let mut entries = rustix::fs::RawDir::new(&dir, &mut buffer);
        entries.next().map(|entry| entry.map(drop))
    };
    assert_eq!(read(), Some(Ok(())));
    for name in names {
        fs::remove_file(there.join(name.to_string())).expect("it is there");
    }
    fs::remove_dir(&there).expect("it is empty");
    assert!(matches!(read(), None | Some(Ok(()) | Err(Errno::NOENT))));
    drop(dir);
    fixture.down();
    fixture.assert_clean();
}
