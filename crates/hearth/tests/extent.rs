//! Writes beyond the largest file that a store can hold: they fail at once, as on the store.

#[path = "support/fixture.rs"]
mod fixture;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use fixture::{Fixture, finish, sh, shell, skipped, text, well};

/// One descriptor, many ways to go beyond 2^60 and beyond the largest size of ext4, by a page or by a part of one.
const PROGRAM: &str = r#"
import errno, mmap, os, resource, signal, sys

def tell(what, call):
    try:
        print(what, call())
    except OSError as error:
        print(what, errno.errorcode[error.errno])

path = sys.argv[1]
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b"small")
for end in (1 << 60, (1 << 63) - 1, 16 << 40, (16 << 40) - 4096, (4 << 40) - 4096):
    tell(f"write below {end}", lambda: os.pwrite(fd, b"x" * 16, end - 16))
    tell(f"write at {end}", lambda: os.pwrite(fd, b"x", end))
    tell(f"write across {end}", lambda: os.pwrite(fd, b"x" * 3000000, end - 2000000))
    tell(f"ftruncate {end}", lambda: os.ftruncate(fd, end))
    tell(f"ftruncate beyond {end}", lambda: os.ftruncate(fd, end + 1) if end < (1 << 63) - 1 else None)
    tell("size", lambda: os.fstat(fd).st_size)
    with open(path, "ab", 0) as appending:
        tell("append", lambda: appending.write(b"end"))
    tell("size", lambda: os.fstat(fd).st_size)
    os.ftruncate(fd, 5)
tell("preallocate", lambda: os.posix_fallocate(fd, 1 << 60, 4096))
tell("preallocate across", lambda: os.posix_fallocate(fd, (1 << 63) - 4097, 4096))
tell("truncate", lambda: os.truncate(path, 1 << 61))
tell("sync", lambda: os.fsync(fd))
print(os.pread(fd, 10, 0), os.fstat(fd).st_size)

signal.signal(signal.SIGXFSZ, lambda *_: print("SIGXFSZ"))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
for call in (
    lambda: os.pwrite(fd, b"x", 1 << 20),
    lambda: os.pwrite(fd, b"x" * 100, (1 << 20) - 50),
    lambda: os.ftruncate(fd, (1 << 20) + 1),
    lambda: os.posix_fallocate(fd, 1 << 20, 1),
    lambda: os.lseek(fd, 0, os.SEEK_END) and os.write(fd, b"x"),
):
    tell("limited", call)
os.close(fd)
"#;

/// The limit of the shell that starts agents is none of programs in their mounts, and ends no agent.
#[test]
fn the_limit_of_an_agents_shell_is_not_that_of_programs() {
    if skipped(
        "the_limit_of_an_agents_shell_is_not_that_of_programs",
        &["prlimit"],
    ) {
        return;
    }
    let fixture = Fixture::new();
    for (limit, written) in [
        ("--fsize=100000:", 3_000_000),
        ("--fsize=100000:400000000", 400_000_000),
    ] {
        let hearth = fixture.hearth(&["up", "--store"]);
        let mut up = Command::new("prlimit");
        up.arg(limit)
            .arg(hearth.get_program())
            .args(hearth.get_args());
        up.arg(fixture.store())
            .arg("--at")
            .arg(fixture.dir("mount0"));
        well(&finish(up.env("HEARTH_DIR", fixture.path("control"))));
        let file = File::create(fixture.mount(0).join("file")).expect("it is served");
        let end = written - 2_000_000;
        file.write_all_at(&vec![7; 2_000_000], end)
            .expect("there is room");
        let beyond = file.write_at(b"x", 400_000_000);
        let refused = beyond.map_err(|error| error.raw_os_error());
        assert_eq!(refused.is_ok(), written == 3_000_000, "{limit}");
        assert!(refused.is_ok() || refused == Err(Some(27)));
        drop(file);
        fixture.down();
    }
}

/// On the store alone a program learns at once that a file cannot be so large. So it does through a mount.
#[test]
fn what_the_store_cannot_hold_is_refused_at_once() {
    if skipped(
        "what_the_store_cannot_hold_is_refused_at_once",
        &["python3"],
    ) {
        return;
    }
    for policy in ["home", "home:plus", "hint", "single", "local", "none"] {
        let fixture = Fixture::new();
        std::fs::write(fixture.path("p.py"), PROGRAM).expect("our own directory");
        let at = |dir| format!("python3 {} {dir}/file", fixture.path("p.py").display());
        let bare = sh(&fixture.store(), &at(fixture.store().display().to_string()));
        std::fs::remove_file(fixture.store().join("file")).expect("our own file");
        fixture.up(2, &["--policy", policy]);
        let mounted = finish(&mut shell(
            &fixture.store(),
            &at(fixture.mount(0).display().to_string()),
        ));
        assert_eq!(
            text(&mounted.stdout),
            bare,
            "{policy}\n{}",
            text(&mounted.stderr)
        );
        // Nothing is kept that the store refuses.
        fixture.down();
        let program = fixture.path("p.py").display().to_string();
        std::fs::remove_file(fixture.store().join("file")).expect("our own file");
        let path = fixture.store().join("file").display().to_string();
        let inside = finish(&mut fixture.run_in_store(&["python3", &program, &path]));
        assert_eq!(
            text(&inside.stdout),
            bare,
            "{policy}\n{}",
            text(&inside.stderr)
        );
        fixture.assert_clean();
    }
}
