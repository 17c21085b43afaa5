//! A user's groups under `hearth run`: project directories are as on the store alone (S14).

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown};
use std::path::Path;
use std::process::{Command, Stdio};

use fixture::{Fixture, finish, lacks_library, skip, skipped, text, well};

/// A user of the test, a colleague, and their group.
const USER: u32 = 54_001;
const COLLEAGUE: u32 = 54_002;
const PROJECT: u32 = 54_003;

/// Each is run in a directory of its own, with a file of a colleague and a directory of the project.
const SCRIPTS: [&str; 9] = [
    "cp -a ours copy; cp -a theirs mine; cp -a team deep",
    "cp -a $OUTSIDE/f $OUTSIDE/l .; stat -c '%n %u %g' $OUTSIDE $OUTSIDE/* /etc/passwd",
    "rsync -a ours theirs team to/",
    "tar cf - ours team | tar xf - -C to; tar cf - team | tar xf - -p -C to",
    "touch f; chgrp 54003 f; chgrp -h 54003 f; ln -s f l; chgrp -h 54003 l",
    "mkdir team/sub team/sub/sub; touch team/f team/sub/f; cp -r ours team/sub",
    "stat -c '%n %u %g %a' * team/*; id -G; ls -ln team; find . -group 54003 | sort",
    "chgrp 54004 ours; echo $?; chown 54002 ours; echo $?; chmod g+s team; chgrp 54001 team; chown :54003 to",
    "install -g 54003 -m 640 ours there; mv theirs to; touch n; chown 54001:54003 n; python3 -c 'import os; \
     print(os.getgroups(), os.stat(\"n\").st_gid); fd = os.open(\"n\", os.O_RDWR); os.fchown(fd, -1, 54001); \
     print(os.fstat(fd).st_gid); os.chown(\"n\", 54001, 54003); print(os.fstat(fd).st_gid)'",
];

fn prepare(at: &Path) {
    let give = |path: &Path, user, group, mode| {
        chown(path, Some(user), Some(group)).expect("root may");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("root may");
    };
    fs::create_dir_all(at).expect("the store takes it");
    give(at, USER, USER, 0o755);
    for (name, user, group, mode) in [
        ("ours", USER, PROJECT, 0o640),
        ("theirs", COLLEAGUE, PROJECT, 0o640),
        ("team/in", COLLEAGUE, PROJECT, 0o660),
    ] {
        let path = at.join(name);
        fs::create_dir_all(path.parent().expect("below")).expect("the store takes it");
        fs::write(&path, name).expect("the store takes it");
        give(&path, user, group, mode);
    }
    give(&at.join("team"), USER, PROJECT, 0o2770);
    fs::create_dir(at.join("to")).expect("the store takes it");
    give(&at.join("to"), USER, USER, 0o755);
}

/// The owners and modes of all that is below a directory.
fn owners(at: &Path) -> String {
    let mut find = Command::new("find");
    find.arg(at).args(["-printf", "%P %y %U:%G %m %s\n"]);
    let mut lines: Vec<String> = text(&finish(&mut find).stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn groups_of_files_are_kept_and_shown_as_on_the_store() {
    let test = "groups_of_files_are_kept_and_shown_as_on_the_store";
    let programs = ["setpriv", "unshare", "rsync", "tar", "python3"];
    if skipped(test, &programs) || lacks_library(test) {
        return;
    }
    let fixture = Fixture::new();
    fixture.let_others_in();
    let (store, control, tools) = (fixture.store(), fixture.dir("theirs"), fixture.dir("tools"));
    fs::set_permissions(&control, Permissions::from_mode(0o700)).expect("our own directory");
    chown(&control, Some(USER), Some(USER)).expect("root may");
    let outside = fixture.dir("outside");
    std::os::unix::fs::symlink("f", outside.join("l")).expect("our own directory");
    fs::write(outside.join("f"), "x").expect("our own directory");
    chown(outside.join("f"), Some(COLLEAGUE), Some(PROJECT)).expect("root may");
    lchown(outside.join("l"), Some(USER), Some(PROJECT)).expect("root may");
    fs::set_permissions(outside.join("f"), Permissions::from_mode(0o640)).expect("root may");
    for (number, _) in SCRIPTS.iter().enumerate() {
        prepare(&store.join(format!("{number}/bare")));
        prepare(&store.join(format!("{number}/through")));
    }
    let user = USER.to_string();
    let became = format!("setpriv --reuid {user} --regid {user} --groups {user},{PROJECT} --");
    let with_device = format!(
        "set -e; mknod -m 666 \"$1/fuse\" c 10 229; mount --bind \"$1/fuse\" /dev/fuse; \
         cp \"$2\" \"$1/hearth\"; cp \"$3\" \"$1/libhearth_preload.so\"; chmod 755 \"$1\"/*h*; \
         cd \"$4\"; shift; export HEARTH_DIR=\"$4\" XDG_RUNTIME_DIR=; exec {became} \"$0\" run --store . -- sh -c \"$5\""
    );
    let mut both = String::new();
    for (number, script) in SCRIPTS.iter().enumerate() {
        both.push_str(&format!(
            "(cd {number}/through; {{ {script}; }} >../through.out 2>&1)\n"
        ));
        let bare = store.join(format!("{number}/bare"));
        let out = format!("cd {}; {{ {script}; }} >../bare.out 2>&1", bare.display());
        chown(store.join(number.to_string()), Some(USER), Some(USER)).expect("root may");
        let mut alone = Command::new("setpriv");
        alone.args(["--reuid", &user, "--regid", &user, "--groups"]);
        alone.args([&format!("{user},{PROJECT}"), "--", "sh", "-c", &out]);
        finish(alone.env("OUTSIDE", &outside).stdin(Stdio::null()));
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &with_device]);
    command.arg(tools.join("hearth")).arg(&tools);
    command.arg(fixture::program()).arg(fixture::library());
    command.arg(&store).arg(&control).arg(&both);
    let output = finish(command.env("OUTSIDE", &outside).stdin(Stdio::null()));
    let words = text(&output.stderr);
    let obstacles = ["cannot make a namespace", "mknod", "mount:", "unshare"];
    if obstacles.iter().any(|obstacle| words.contains(obstacle)) {
        return skip(test, &words.replace('\n', "; "));
    }
    for (number, script) in SCRIPTS.iter().enumerate() {
        let dir = store.join(number.to_string());
        let said = |name| fs::read_to_string(dir.join(name)).expect("it was said");
        let here = |name| said(name).replace("/through", "/bare");
        assert_eq!(here("through.out"), said("bare.out"), "{script}");
        assert_eq!(
            owners(&dir.join("through")),
            owners(&dir.join("bare")),
            "{script}"
        );
    }
    well(&output);
    fixture.assert_clean();
}
