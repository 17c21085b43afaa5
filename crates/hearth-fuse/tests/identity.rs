//! The caller whose rights count (S14).

#![allow(clippy::unwrap_used, reason = "what helps a test fails like a test")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{Pages, Rig, Timing};
use hearth_fuse::{Identity, MountOptions, OtherUsers, ShownOwners};

const NOBODY: u32 = 65_534;
const SOMEBODY: u32 = 54_321;

fn as_caller() -> Option<Rig> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can act as others");
        return None;
    }
    let options = MountOptions {
        identity: Identity::AsCaller,
        others: OtherUsers::Allowed,
        ..MountOptions::default()
    };
    let rig = Rig::with(Timing::Later, Pages::Kept, options)?;
    fs::set_permissions(rig.stored("."), Permissions::from_mode(0o777)).unwrap();
    Some(rig)
}

/// Runs a shell script inside the mount as an ordinary user.
fn shell_as(user: u32, rig: &Rig, script: &str) -> bool {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(script)
        .current_dir("/")
        .env("ROOT", rig.root());
    shell.uid(user).gid(user).status().unwrap().success()
}

#[test]
fn what_a_user_makes_belongs_to_that_user() {
    let Some(rig) = as_caller() else { return };
    assert!(shell_as(
        SOMEBODY,
        &rig,
        "umask 027; cd $ROOT && echo x > f && mkdir d && ln -s f l"
    ));
    for name in ["f", "d", "l"] {
        let stored = fs::symlink_metadata(rig.stored(name)).unwrap();
        assert_eq!((stored.uid(), stored.gid()), (SOMEBODY, SOMEBODY), "{name}");
    }
    assert_eq!(fs::metadata(rig.stored("f")).unwrap().mode() & 0o777, 0o640);
    fs::write(rig.at("root"), b"x").unwrap();
    assert_eq!(fs::metadata(rig.stored("root")).unwrap().uid(), 0);
}

#[test]
fn a_user_may_do_what_the_modes_allow_and_nothing_else() {
    let Some(rig) = as_caller() else { return };
    fs::write(rig.at("secret"), b"x").unwrap();
    fs::set_permissions(rig.at("secret"), Permissions::from_mode(0o600)).unwrap();
    fs::write(rig.at("public"), b"x").unwrap();
    assert!(!shell_as(NOBODY, &rig, "cat $ROOT/secret 2>/dev/null"));
    assert!(!shell_as(
        NOBODY,
        &rig,
        "echo y >> $ROOT/public 2>/dev/null"
    ));
    assert!(shell_as(
        NOBODY,
        &rig,
        "test -r $ROOT/public && test ! -w $ROOT/public"
    ));
    assert!(!shell_as(
        NOBODY,
        &rig,
        "chmod 777 $ROOT/public 2>/dev/null"
    ));
    assert!(shell_as(NOBODY, &rig, "cat $ROOT/public > /dev/null"));
}

#[test]
fn names_are_told_to_who_may_read_a_directory_and_not_search_it() {
    let Some(rig) = as_caller() else { return };
    fs::create_dir(rig.at("d")).unwrap();
    fs::write(rig.at("d/f"), b"x").unwrap();
    fs::set_permissions(rig.at("d"), Permissions::from_mode(0o744)).unwrap();
    assert!(shell_as(NOBODY, &rig, "[ \"$(ls -U $ROOT/d)\" = f ]"));
    for use_of_it in ["stat $ROOT/d/f", "cat $ROOT/d/f", "ls $ROOT/d/f"] {
        let silent = format!("{use_of_it} >/dev/null 2>&1");
        assert!(!shell_as(NOBODY, &rig, &silent), "{use_of_it}");
    }
    assert_eq!(fs::read(rig.at("d/f")).unwrap(), b"x");
}

#[test]
fn a_program_that_its_user_may_not_read_is_executed_all_the_same() {
    let Some(rig) = as_caller() else { return };
    fs::copy("/bin/true", rig.stored("program")).unwrap();
    for (mode, runs) in [(0o111, true), (0o411, true), (0o444, false)] {
        let permissions = Permissions::from_mode(mode);
        fs::set_permissions(rig.at("program"), permissions).unwrap();
        let ran = shell_as(NOBODY, &rig, "$ROOT/program 2>/dev/null");
        assert_eq!(ran, runs, "{mode:o}");
    }
    fs::set_permissions(rig.at("program"), Permissions::from_mode(0o111)).unwrap();
    assert!(!shell_as(NOBODY, &rig, "cat $ROOT/program >/dev/null 2>&1"));
}

#[test]
fn a_file_made_read_only_is_still_written_by_its_maker() {
    let Some(rig) = as_caller() else { return };
    assert!(shell_as(
        SOMEBODY,
        &rig,
        "umask 0777; cd $ROOT && echo made > f"
    ));
    assert_eq!(fs::read(rig.stored("f")).unwrap(), b"made\n");
    assert!(shell_as(
        SOMEBODY,
        &rig,
        "umask 0377; cd $ROOT && echo made > g; cat g > /dev/null"
    ));
}

#[test]
fn supplementary_groups_count() {
    let Some(rig) = as_caller() else { return };
    fs::create_dir(rig.at("team")).unwrap();
    std::os::unix::fs::chown(rig.at("team"), None, Some(4321)).unwrap();
    fs::set_permissions(rig.at("team"), Permissions::from_mode(0o770)).unwrap();
    let run = |groups: &str| {
        let user = SOMEBODY.to_string();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", &user, "--regid", &user, groups, "touch"])
            .arg(rig.at("team/f"));
        command
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
            .success()
    };
    assert!(!run("--clear-groups"));
    assert!(run("--groups=4321"));
}

/// A default access control list takes the place of the program's mask.
#[test]
fn a_default_list_counts_instead_of_the_mask() {
    let Some(rig) = as_caller() else { return };
    let entries: [(u16, u16, u32); 5] = [
        (1, 7, u32::MAX),
        (4, 5, u32::MAX),
        (8, 7, 4321),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, whose) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(whose.to_le_bytes());
    }
    for at in [rig.at("d"), rig.stored("e")] {
        fs::create_dir(&at).unwrap();
        fs::set_permissions(&at, Permissions::from_mode(0o777)).unwrap();
        let name = "system.posix_acl_default";
        if rustix::fs::setxattr(&at, name, &list, rustix::fs::XattrFlags::empty()).is_err() {
            eprintln!("skipped: the store has no access control lists");
            return;
        }
    }
    let script =
        "umask 077; cd $ROOT; for i in d e; do echo x > $i/f; mkdir $i/d; mkfifo $i/p; done";
    assert!(shell_as(SOMEBODY, &rig, script));
    for (name, mode) in [("f", 0o660), ("d", 0o770), ("p", 0o660)] {
        for dir in ["d", "e"] {
            let stored = fs::metadata(rig.stored(dir).join(name)).unwrap();
            assert_eq!(stored.mode() & 0o777, mode, "{dir}/{name}");
        }
    }
}

#[test]
fn writing_and_truncating_take_set_user_id_away() {
    let Some(rig) = as_caller() else { return };
    for script in [
        "echo y >> $ROOT/f",
        "echo y > $ROOT/f",
        "truncate -s 1 $ROOT/f",
    ] {
        fs::write(rig.at("f"), b"x").unwrap();
        fs::set_permissions(rig.at("f"), Permissions::from_mode(0o6777)).unwrap();
        assert!(shell_as(NOBODY, &rig, script));
        assert_eq!(
            fs::metadata(rig.stored("f")).unwrap().mode() & 0o7777,
            0o777,
            "{script}"
        );
        assert_eq!(
            fs::metadata(rig.at("f")).unwrap().mode() & 0o7777,
            0o777,
            "{script}"
        );
    }
}

#[test]
fn others_are_kept_out_by_default() {
    let Some(rig) = Rig::new(Timing::AtOnce, Pages::Direct) else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start programs as others");
        return;
    }
    fs::write(rig.at("f"), b"x").unwrap();
    assert!(!shell_as(NOBODY, &rig, "cat $ROOT/f 2>/dev/null"));
}

#[test]
fn files_can_be_shown_as_ones_own() {
    let options = MountOptions {
        ids: ShownOwners::Mine,
        others: OtherUsers::Allowed,
        ..MountOptions::default()
    };
    let Some(rig) = Rig::with(Timing::AtOnce, Pages::Direct, options) else {
        return;
    };
    fs::write(rig.stored("f"), b"x").unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(rig.stored("f"), Some(77), Some(88)).unwrap();
    }
    let shown = fs::metadata(rig.at("f")).unwrap();
    assert_eq!(shown.uid(), rustix::process::geteuid().as_raw());
    assert_eq!(shown.gid(), rustix::process::getegid().as_raw());
}

#[test]
fn the_mask_of_this_process_neither_counts_nor_changes() {
    let Some(rig) = Rig::new(Timing::AtOnce, Pages::Direct) else {
        return;
    };
    let run = |script: &str| {
        Command::new("sh")
            .arg("-c")
            .arg(script)
            .current_dir(rig.root())
            .output()
            .unwrap()
            .stdout
    };
    let before = run("umask");
    run("umask 0; echo x > open; umask 077; mkdir closed");
    assert_eq!(
        fs::metadata(rig.stored("open")).unwrap().mode() & 0o777,
        0o666
    );
    assert_eq!(
        fs::metadata(rig.stored("closed")).unwrap().mode() & 0o777,
        0o700
    );
    assert_eq!(run("umask"), before);
}
