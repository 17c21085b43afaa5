//! Names, links, directories, attributes and everything else that is the store's own.

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::Ordering;

use common::{Pages, Passthrough, Rig, Timing, errno, everywhere, ledger};
use hearth_client::FileKey;
use hearth_fuse::{Mount, MountOptions};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, RenameFlags, Timespec, Timestamps, XattrFlags, makedev, mknodat,
    renameat_with, utimensat,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

fn passthrough() -> Option<Rig> {
    Rig::new(Timing::AtOnce, Pages::Kept)
}

/// Changes a name that another change gives to another file at the same time; says which files were given up, and which
/// had the name.
fn change_beside_another(change: impl Fn(&Rig)) -> Option<(Vec<u64>, Vec<u64>)> {
    let rig = passthrough()?;
    for name in ["first", "second", "third"] {
        fs::write(rig.stored(name), name).unwrap();
    }
    let number = |name| fs::metadata(rig.stored(name)).unwrap().ino();
    let had = vec![number("first"), number("second")];
    let (from, to) = (rig.stored("second"), rig.stored("first"));
    let other = Box::new(move || fs::rename(from, to).unwrap());
    *rig.session.at_detach.lock().unwrap() = Some(other);
    change(&rig);
    let detached = rig.session.detached.lock().unwrap().clone();
    rig.unmount();
    Some((detached, had))
}

#[test]
fn a_file_that_takes_the_name_meanwhile_is_given_up_before_it_is_replaced() {
    let changed = change_beside_another(|rig| {
        fs::rename(rig.at("third"), rig.at("first")).unwrap();
        assert_eq!(fs::read(rig.at("first")).unwrap(), b"third");
    });
    if let Some((detached, had)) = changed {
        assert_eq!(detached, had);
    }
}

#[test]
fn a_file_that_takes_the_name_meanwhile_is_given_up_before_it_is_removed() {
    let changed = change_beside_another(|rig| {
        fs::remove_file(rig.at("first")).unwrap();
        assert!(!rig.stored("first").exists());
    });
    if let Some((detached, had)) = changed {
        assert_eq!(detached, had);
    }
}

/// S7
#[test]
fn a_link_was_made_though_another_node_has_removed_its_name_since() {
    let Some(rig) = passthrough() else {
        return;
    };
    fs::write(rig.at("first"), b"first").unwrap();
    let name = rig.stored("second");
    let other = Box::new(move || fs::remove_file(name).unwrap());
    *rig.session.at_changed.lock().unwrap() = Some(other);
    fs::hard_link(rig.at("first"), rig.at("second")).unwrap();
    assert!(!rig.stored("second").exists());
    fs::hard_link(rig.at("first"), rig.at("third")).unwrap();
    assert_eq!(fs::read(rig.at("third")).unwrap(), b"first");
    rig.unmount();
}

/// The session would tell the next file of that number of it.
#[test]
fn a_file_that_has_no_name_when_it_is_opened_is_read_past_the_cache() {
    let Some(rig) = passthrough() else { return };
    fs::write(rig.stored("one"), "x").unwrap();
    fs::metadata(rig.at("one")).unwrap();
    let beside = File::open(rig.stored("one")).unwrap();
    fs::remove_file(rig.stored("one")).unwrap();
    // The operating system still believes in the name.
    let opened = File::open(rig.at("one")).unwrap();
    let mut read = [0; 1];
    opened.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(read, *b"x");
    assert_eq!(rig.session.reads.load(Ordering::Relaxed), 0);
    drop((opened, beside));
    rig.unmount();
}

#[test]
fn a_file_whose_two_names_go_at_once_is_given_up() {
    let Some(rig) = passthrough() else { return };
    fs::write(rig.stored("one"), "x").unwrap();
    fs::hard_link(rig.stored("one"), rig.stored("other")).unwrap();
    let number = fs::metadata(rig.stored("one")).unwrap().ino();
    let other = rig.stored("other");
    *rig.session.at_change.lock().unwrap() = Some(Box::new(move || {
        fs::remove_file(other).unwrap();
    }));
    fs::remove_file(rig.at("one")).unwrap();
    assert_eq!(*rig.session.detached.lock().unwrap(), [number]);
    rig.unmount();
}

#[test]
fn the_session_is_told_which_open_made_the_file() {
    let Some(rig) = passthrough() else { return };
    let made = || rig.session.made.load(Ordering::Relaxed);
    drop(File::create(rig.at("new")).unwrap());
    assert_eq!(made(), 1);
    drop(File::create(rig.at("new")).unwrap());
    drop(File::open(rig.at("new")).unwrap());
    assert_eq!(made(), 1);
    rig.unmount();
}

#[test]
fn a_name_that_is_too_long_is_not_one_that_is_not_there() {
    let Some(rig) = passthrough() else { return };
    for len in [255, 256, 1000] {
        let looked = fs::metadata(rig.at(&"x".repeat(len))).map(drop);
        let stored = fs::metadata(rig.stored(&"x".repeat(len))).map(drop);
        assert_eq!(errno(looked), errno(stored), "{len} bytes");
    }
    rig.unmount();
}

#[test]
fn rename_moves_and_replaces() {
    everywhere(|rig| {
        fs::write(rig.at("a"), b"a").unwrap();
        fs::write(rig.at("b"), b"b").unwrap();
        fs::create_dir(rig.at("dir")).unwrap();
        fs::rename(rig.at("a"), rig.at("dir/c")).unwrap();
        assert!(!rig.at("a").exists());
        fs::rename(rig.at("b"), rig.at("dir/c")).unwrap();
        assert_eq!(fs::read(rig.at("dir/c")).unwrap(), b"b");
        fs::rename(rig.at("dir"), rig.at("moved")).unwrap();
        assert_eq!(fs::read(rig.at("moved/c")).unwrap(), b"b");
        assert_eq!(
            fs::rename(rig.at("no"), rig.at("x"))
                .unwrap_err()
                .raw_os_error(),
            Some(2)
        );
    });
}

#[test]
fn rename_refuses_to_replace_and_exchanges_when_told_so() {
    everywhere(|rig| {
        fs::write(rig.at("a"), b"a").unwrap();
        fs::write(rig.at("b"), b"b").unwrap();
        let rename = |flags| renameat_with(CWD, rig.at("a"), CWD, rig.at("b"), flags);
        assert_eq!(errno(rename(RenameFlags::NOREPLACE)), libc::EEXIST);
        rename(RenameFlags::EXCHANGE).unwrap();
        assert_eq!(fs::read(rig.at("a")).unwrap(), b"b");
        assert_eq!(fs::read(rig.at("b")).unwrap(), b"a");
        fs::remove_file(rig.at("b")).unwrap();
        rename(RenameFlags::NOREPLACE).unwrap();
        assert_eq!(fs::read(rig.at("b")).unwrap(), b"b");
    });
}

#[test]
fn hard_links_are_one_file() {
    everywhere(|rig| {
        fs::write(rig.at("a"), b"one").unwrap();
        fs::hard_link(rig.at("a"), rig.at("b")).unwrap();
        let (a, b) = (
            fs::metadata(rig.at("a")).unwrap(),
            fs::metadata(rig.at("b")).unwrap(),
        );
        assert_eq!((a.ino(), a.nlink()), (b.ino(), 2));
        assert_eq!(a.ino(), fs::metadata(rig.stored("a")).unwrap().ino());
        fs::write(rig.at("a"), b"both").unwrap();
        assert_eq!(fs::read(rig.at("b")).unwrap(), b"both");
        fs::rename(rig.at("a"), rig.at("b")).unwrap();
        fs::remove_file(rig.at("a")).unwrap();
        assert_eq!(fs::read(rig.at("b")).unwrap(), b"both");
        assert_eq!(fs::metadata(rig.at("b")).unwrap().nlink(), 1);
    });
}

#[test]
fn symbolic_links_are_kept_as_they_are() {
    let Some(rig) = passthrough() else { return };
    symlink("nowhere/at all", rig.at("link")).unwrap();
    assert_eq!(
        fs::read_link(rig.at("link")).unwrap().as_os_str(),
        "nowhere/at all"
    );
    assert!(fs::symlink_metadata(rig.at("link")).unwrap().is_symlink());
    let second = Timespec {
        tv_sec: 7,
        tv_nsec: 9,
    };
    let times = Timestamps {
        last_access: second,
        last_modification: second,
    };
    utimensat(CWD, rig.at("link"), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    let now = fs::symlink_metadata(rig.at("link")).unwrap();
    assert_eq!((now.mtime(), now.mtime_nsec()), (7, 9));
    fs::write(rig.at("target"), b"through").unwrap();
    symlink("target", rig.at("good")).unwrap();
    assert_eq!(fs::read(rig.at("good")).unwrap(), b"through");
}

#[test]
fn a_directory_of_5000_entries_is_listed_whole() {
    let Some(rig) = passthrough() else { return };
    fs::create_dir(rig.at("many")).unwrap();
    let names: HashSet<String> = (0..5000).map(|n| format!("entry-{n:05}")).collect();
    for (place, name) in names.iter().enumerate() {
        match place % 10 {
            0 => fs::create_dir(rig.stored("many").join(name)).unwrap(),
            _ => fs::write(rig.stored("many").join(name), name).unwrap(),
        }
    }
    for _ in 0..2 {
        let mut seen = HashSet::new();
        for entry in fs::read_dir(rig.at("many")).unwrap() {
            let entry = entry.unwrap();
            let stat = entry.metadata().unwrap();
            assert_eq!(entry.file_type().unwrap(), stat.file_type());
            assert!(
                seen.insert(entry.file_name().into_string().unwrap()),
                "listed once"
            );
        }
        assert_eq!(seen, names);
    }
    fs::remove_dir_all(rig.at("many")).unwrap();
    assert!(!rig.stored("many").exists());
    rig.unmount();
}

#[test]
fn a_program_that_lists_some_names_has_attributes_of_few_others_read() {
    let Some(rig) = passthrough() else { return };
    let names = (0..4000).map(|n| format!("entry-{n:05}"));
    let named = names.map(|name| {
        fs::write(rig.stored(&name), b"").unwrap();
        let ino = fs::metadata(rig.stored(&name)).unwrap().ino();
        let file = FileKey { ino };
        (name.into_bytes(), Some(file))
    });
    *rig.session.names.lock().unwrap() = Some(named.collect());
    rig.session.gives_leave.store(true, Ordering::Relaxed);
    assert!(fs::read_dir(rig.root()).unwrap().next().unwrap().is_ok());
    // One answer has some two hundred names.
    let learned = rig.session.learned.load(Ordering::Relaxed);
    assert!((1..512).contains(&learned), "{learned} files");
}

#[test]
fn removing_directories_follows_the_rules() {
    let Some(rig) = passthrough() else { return };
    fs::create_dir_all(rig.at("a/b")).unwrap();
    assert_eq!(errno(fs::remove_dir(rig.at("a"))), libc::ENOTEMPTY);
    assert_eq!(errno(fs::remove_file(rig.at("a"))), libc::EISDIR);
    fs::remove_dir(rig.at("a/b")).unwrap();
    fs::remove_dir(rig.at("a")).unwrap();
    assert_eq!(errno(fs::create_dir(rig.at("x/y"))), libc::ENOENT);
    fs::create_dir(rig.at("a")).unwrap();
    assert_eq!(errno(fs::create_dir(rig.at("a"))), libc::EEXIST);
}

/// S17
#[test]
fn extended_attributes_pass_through() {
    let Some(rig) = passthrough() else { return };
    let path = rig.at("a");
    fs::write(&path, b"").unwrap();
    let (name, mut value) = ("user.hearth", [0; 16]);
    if let Err(error) = rustix::fs::setxattr(rig.stored("a"), name, b"x", XattrFlags::empty()) {
        eprintln!("skipped: the temporary directory has no user attributes: {error}");
        return;
    }
    rustix::fs::setxattr(&path, name, b"warm", XattrFlags::REPLACE).unwrap();
    let again = rustix::fs::setxattr(&path, name, b"x", XattrFlags::CREATE);
    assert_eq!(errno(again), libc::EEXIST);
    assert_eq!(rustix::fs::getxattr(&path, name, &mut value).unwrap(), 4);
    assert_eq!(&value[..4], b"warm");
    let mut short = [0; 2];
    assert_eq!(
        errno(rustix::fs::getxattr(&path, name, &mut short)),
        libc::ERANGE
    );
    let mut names = [0; 256];
    let len = rustix::fs::listxattr(&path, &mut names).unwrap();
    assert!(
        names[..len]
            .split(|&byte| byte == 0)
            .any(|one| one == name.as_bytes())
    );
    rustix::fs::removexattr(&path, name).unwrap();
    assert_eq!(
        errno(rustix::fs::getxattr(&path, name, &mut value)),
        libc::ENODATA
    );
}

#[test]
fn special_files_are_made_and_work() {
    let Some(rig) = passthrough() else { return };
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, rig.at("fifo"), FileType::Fifo, mode, 0).unwrap();
    assert!(fs::metadata(rig.at("fifo")).unwrap().file_type().is_fifo());
    std::thread::scope(|threads| {
        threads.spawn(|| fs::write(rig.at("fifo"), b"through the pipe").unwrap());
        assert_eq!(fs::read(rig.at("fifo")).unwrap(), b"through the pipe");
    });
    mknodat(CWD, rig.at("plain"), FileType::RegularFile, mode, 0).unwrap();
    fs::write(rig.at("plain"), b"x").unwrap();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped in part: only root makes devices");
        return;
    }
    mknodat(
        CWD,
        rig.at("dev"),
        FileType::CharacterDevice,
        mode,
        makedev(1234, 344_865),
    )
    .unwrap();
    let device = fs::metadata(rig.at("dev")).unwrap();
    assert!(device.file_type().is_char_device());
    assert_eq!(device.rdev(), makedev(1234, 344_865));
    assert_eq!(
        device.rdev(),
        fs::metadata(rig.stored("dev")).unwrap().rdev()
    );
}

#[test]
fn modes_and_owners_are_the_stores() {
    everywhere(|rig| {
        fs::write(rig.at("a"), b"x").unwrap();
        fs::set_permissions(rig.at("a"), Permissions::from_mode(0o4751)).unwrap();
        assert_eq!(
            fs::metadata(rig.stored("a")).unwrap().mode() & 0o7777,
            0o4751
        );
        assert_eq!(fs::metadata(rig.at("a")).unwrap().mode() & 0o7777, 0o4751);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(rig.at("a"), Some(12), Some(34)).unwrap();
            let owner = fs::metadata(rig.at("a")).unwrap();
            assert_eq!((owner.uid(), owner.gid()), (12, 34));
        }
    });
}

#[test]
fn statfs_tells_of_the_stores_space() {
    let Some(rig) = passthrough() else { return };
    let here = rustix::fs::statvfs(rig.root()).unwrap();
    let there = rustix::fs::statvfs(rig.stored(".")).unwrap();
    assert_eq!(
        (here.f_blocks, here.f_frsize),
        (there.f_blocks, there.f_frsize)
    );
    assert_eq!(here.f_namemax, there.f_namemax);
}

#[test]
fn what_others_do_in_the_store_is_seen() {
    let Some(rig) = passthrough() else { return };
    fs::create_dir_all(rig.stored("a/b")).unwrap();
    fs::write(rig.stored("a/b/c"), b"c").unwrap();
    let open = File::open(rig.at("a/b/c")).unwrap();
    fs::rename(rig.stored("a"), rig.stored("z")).unwrap();
    assert_eq!(open.metadata().unwrap().len(), 1);
    assert_eq!(fs::read(rig.at("z/b/c")).unwrap(), b"c");
    assert_eq!(fs::read_dir(rig.at("z")).unwrap().count(), 1);
}

#[test]
fn nothing_is_left_when_the_mount_has_ended() {
    let Some(rig) = passthrough() else { return };
    let (point, stored) = (rig.root().to_owned(), rig.stored("a"));
    fs::write(rig.at("a"), b"x").unwrap();
    rig.unmount();
    assert!(stored.file_name() == Some(OsStr::new("a")) && !point.join("a").exists());
}

#[test]
fn a_busy_mount_is_detached_when_dropped() {
    let Some(rig) = passthrough() else { return };
    fs::write(rig.at("a"), b"still here").unwrap();
    let inside = File::open(rig.at("a")).unwrap();
    let point = rig.root().to_owned();
    drop(rig);
    assert!(!point.join("a").exists());
    assert_eq!(std::io::read_to_string(inside).unwrap(), "still here");
}

#[test]
fn a_descriptor_that_somebody_mounted_is_served_until_it_is_unmounted() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root mounts by hand");
        return;
    }
    let Ok(device) = File::options().read(true).write(true).open("/dev/fuse") else {
        eprintln!("skipped: /dev/fuse cannot be opened");
        return;
    };
    let (store, point) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0",
        device.as_raw_fd()
    );
    let data = CString::new(data).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("hearth", point.path(), "fuse", flags, Some(data.as_c_str())).unwrap();
    let root = File::open(store.path()).unwrap().into();
    let session = Passthrough::new(Timing::AtOnce, Pages::Kept);
    let served = Mount::attach(
        device.into(),
        ledger(),
        root,
        session,
        MountOptions::default(),
    )
    .unwrap();
    fs::write(point.path().join("a"), b"attached").unwrap();
    assert_eq!(fs::read(store.path().join("a")).unwrap(), b"attached");
    unmount(point.path(), UnmountFlags::empty()).unwrap();
    served.leave().unwrap();
}

/// S7. The kernel holds the directory that it believes at the name for removed, and shows nothing in it from then on.
#[test]
fn a_directory_that_another_node_put_at_a_name_goes_and_the_one_before_stays() {
    let Some(rig) = passthrough() else {
        return;
    };
    fs::create_dir(rig.at("d")).unwrap();
    fs::create_dir(rig.at("d/inner")).unwrap();
    // The kernel forgets a directory that nobody has open.
    let held = File::open(rig.at("d/inner")).unwrap();
    fs::rename(rig.stored("d"), rig.stored("e")).unwrap();
    fs::create_dir(rig.stored("d")).unwrap();
    fs::remove_dir(rig.at("d")).unwrap();
    assert!(!rig.stored("d").exists());
    let inside = fs::read_dir(rig.at("e")).unwrap();
    let inside: Vec<_> = inside.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(inside, ["inner"]);
    assert!(rig.at("e/inner").exists());
    drop(held);
    rig.unmount();
}
