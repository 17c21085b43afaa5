//! Programs on a machine that lacks or forbids something run as they would, served or not (S14).

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/asker.rs"]
mod asker;
#[path = "support/cc.rs"]
mod cc;
#[path = "support/fixture.rs"]
mod fixture;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use asker::Asker;
use fixture::{Fixture, finish, lacks_library, skip, skipped, text, well};

/// A file of five pages, read block by block, and what a report says of it.
const READ: &str = "dd if=in bs=4k status=none";
const SERVED: &str = "in this node's memory by themselves";
const NOT_SERVED: &str = "no program read in this node's memory by itself";

fn lacks(test: &str, programs: &[&str]) -> bool {
    skipped(test, programs) || lacks_library(test)
}

fn fixture_with_file() -> (Fixture, Vec<u8>) {
    let fixture = Fixture::new();
    let bytes: Vec<u8> = (0..1_300_000_u32).map(|at| (at / 7 % 251) as u8).collect();
    fs::write(fixture.store().join("in"), &bytes).expect("the store takes it");
    (fixture, bytes)
}

/// Reads the file under `hearth run`, with words before the reader.
fn read(fixture: &Fixture, before: &[&str]) -> Output {
    let mut command = fixture.hearth(&["run", "--report", "--store"]);
    command.arg(fixture.store()).arg("--").args(before);
    command.args(READ.split(' ')).current_dir(fixture.store());
    finish(&mut command)
}

#[track_caller]
fn read_well(output: &Output, bytes: &[u8], report: &str) {
    well(output);
    assert!(output.stdout == bytes, "other bytes came");
    let words = text(&output.stderr);
    assert!(words.contains(report), "{words}");
}

fn deny(test: &str, fixture: &Fixture) -> Option<PathBuf> {
    let program = cc::workload(test, "deny", &fixture.dir("bin"))?;
    let mut tried = Command::new(&program);
    let tried = finish(tried.args(["fail", "statx", "--", "true"]));
    if !tried.status.success() {
        skip(test, &text(&tried.stderr).replace('\n', "; "));
        return None;
    }
    Some(program)
}

#[test]
fn a_jail_before_the_program_costs_it_the_library_and_nothing_else() {
    let test = "a_jail_before_the_program_costs_it_the_library_and_nothing_else";
    if lacks(test, &[]) {
        return;
    }
    let (fixture, bytes) = fixture_with_file();
    let Some(deny) = deny(test, &fixture) else {
        return;
    };
    let deny = deny.to_str().expect("UTF-8");
    read_well(&read(&fixture, &[]), &bytes, SERVED);
    // Each would end the program if the library made the call.
    for call in ["socket", "statx", "openat2"] {
        let output = read(&fixture, &[deny, "kill", call, "--"]);
        read_well(&output, &bytes, NOT_SERVED);
    }
    // One that was there before `hearth run`, as in a container, is no reason not to serve.
    let mut command = Command::new(deny);
    command.args(["fail", "openat2", "--"]);
    command
        .arg(fixture::program())
        .args(["run", "--report", "--store"]);
    command.arg(fixture.store()).arg("--").args(READ.split(' '));
    command.current_dir(fixture.store());
    let output = finish(command.env("HEARTH_DIR", fixture.path("control")));
    read_well(&output, &bytes, SERVED);
    fixture.assert_clean();
}

#[test]
fn without_memory_files_agents_say_why_they_do_not_start() {
    let test = "without_memory_files_agents_say_why_they_do_not_start";
    if lacks(test, &[]) {
        return;
    }
    let (fixture, _) = fixture_with_file();
    let Some(deny) = deny(test, &fixture) else {
        return;
    };
    let mut command = Command::new(deny);
    command.args(["fail", "memfd_create", "--"]);
    command.arg(fixture::program()).args(["run", "--store"]);
    command
        .arg(fixture.store())
        .args(["--", "touch", "was-run"]);
    let output = finish(command.env("HEARTH_DIR", fixture.path("control")));
    assert_eq!(output.status.code(), Some(2));
    let words = text(&output.stderr);
    assert!(words.contains("cannot make a pool"), "{words}");
    assert!(!fixture.store().join("was-run").exists());
    fixture.assert_clean();
}

#[test]
fn a_full_dev_shm_is_no_obstacle() {
    let test = "a_full_dev_shm_is_no_obstacle";
    if lacks(test, &["unshare"]) {
        return;
    }
    let (fixture, bytes) = fixture_with_file();
    let script = "mount -t tmpfs -o size=4k tmpfs /dev/shm || exit 99; \
        head -c 10000 /dev/zero > /dev/shm/full 2>/dev/null; cd \"$2\"; shift 2; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, "sh", "-"])
        .arg(fixture.store());
    command
        .arg(fixture::program())
        .args(["run", "--report", "--store", ".", "--"]);
    command.args(READ.split(' '));
    let output = finish(command.env("HEARTH_DIR", fixture.path("control")));
    if output.status.code() == Some(99) {
        return skip(test, "nothing can be mounted over /dev/shm");
    }
    read_well(&output, &bytes, SERVED);
    fixture.assert_clean();
}

#[test]
fn a_mount_at_the_same_directory_stays_when_the_agents_end() {
    let test = "a_mount_at_the_same_directory_stays_when_the_agents_end";
    if lacks(test, &["unshare"]) {
        return;
    }
    let fixture = Fixture::new();
    let at = fixture.dir("at");
    let script = "mount -t tmpfs tmpfs \"$1\" || exit 99; echo theirs > \"$1/file\"; \
        \"$2\" up --store \"$3\" --at \"$1\" && \"$2\" down && cat \"$1/file\" && \
        \"$2\" run --store \"$3\" --at \"$1\" -- true && cat \"$1/file\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(&at);
    command.arg(fixture::program()).arg(fixture.store());
    let output = finish(command.env("HEARTH_DIR", fixture.path("control")));
    if output.status.code() == Some(99) {
        return skip(test, "nothing can be mounted");
    }
    well(&output);
    assert_eq!(text(&output.stdout).matches("theirs").count(), 2);
    fixture.assert_clean();
}

/// A user's set-user-id program of root's: the dynamic linker leaves the library out.
#[test]
fn a_set_user_id_program_is_served_by_the_mount() {
    let test = "a_set_user_id_program_is_served_by_the_mount";
    if lacks(test, &["runuser"]) {
        return;
    }
    let (fixture, bytes) = fixture_with_file();
    fixture.let_others_in();
    let bin = fixture.dir("bin");
    fs::set_permissions(&bin, Permissions::from_mode(0o755)).expect("our own directory");
    let Some(plain) = asker::program(test, &bin) else {
        return;
    };
    let raised = bin.join("raised");
    fs::copy(&plain, &raised).expect("our own file");
    fs::set_permissions(&raised, Permissions::from_mode(0o4755)).expect("our own file");
    let secret = fixture.store().join("secret");
    fs::write(&secret, "root's").expect("the store takes it");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("the store takes it");
    // The plain program has the library, and none of root's rights; the other has it the other way.
    for (program, has_library, may) in [(plain, "yes", "- 13"), (raised, "no", "r")] {
        let mut command = fixture.hearth(&["run", "--allow-other", "--store"]);
        command.arg(fixture.store());
        command.args(["--", "runuser", "-u", "nobody", "--"]);
        let mut asker = Asker::start(command.arg(&program).current_dir("/"));
        let loaded = asker.ask('m', Path::new("libhearth_preload"));
        assert_eq!(loaded, has_library, "{}", program.display());
        let first = asker.ask('o', &fixture.store().join("in"));
        assert_eq!(first.as_bytes(), [bytes[0]], "{}", program.display());
        assert_eq!(asker.ask('o', &secret), may, "{}", program.display());
        assert!(asker.end(), "{}", program.display());
    }
    fixture.assert_clean();
}

/// The path of the system's allocator for preloading.
fn jemalloc() -> Option<PathBuf> {
    let dirs = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ];
    let mut paths = dirs
        .map(|dir| Path::new(dir).join("libjemalloc.so.2"))
        .into_iter();
    paths.find(|path| path.exists())
}

#[test]
fn an_allocator_that_is_preloaded_stays_in_line() {
    let test = "an_allocator_that_is_preloaded_stays_in_line";
    if lacks(test, &["python3"]) {
        return;
    }
    let Some(allocator) = jemalloc() else {
        return skip(test, "libjemalloc2 is not installed");
    };
    let (fixture, bytes) = fixture_with_file();
    // Allocates in threads while it reads, forks, and executes itself once more.
    let script = "import os, sys, threading\n\
        def work():\n\
        \x20 f = os.open('in', os.O_RDONLY); kept = []\n\
        \x20 for at in range(0, 1300000, 4096): kept.append(os.pread(f, 4096, at))\n\
        \x20 assert b''.join(kept) == open('in', 'rb').read()\n\
        threads = [threading.Thread(target=work) for _ in range(4)]\n\
        [t.start() for t in threads]; [t.join() for t in threads]\n\
        maps = open('/proc/self/maps').read()\n\
        assert 'libjemalloc' in maps and 'libhearth_preload' in maps\n\
        if os.fork() == 0: work(); os._exit(0)\n\
        assert os.wait()[1] == 0\n\
        if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, 'work.py', 'again'])\n\
        sys.stdout.buffer.write(open('in', 'rb').read())\n";
    fs::write(fixture.store().join("work.py"), script).expect("the store takes it");
    let allocator = allocator.display();
    // Before the library, which `hearth run` puts in front of what is there, and behind it.
    let before = format!("LD_PRELOAD={allocator}:{}", fixture::library().display());
    let behind = format!("LD_PRELOAD={allocator}");
    for (outside, inside) in [("A=", before.as_str()), (behind.as_str(), "A=")] {
        let mut command = Command::new("env");
        command.arg(outside).arg(fixture::program());
        command
            .args(["run", "--report", "--store"])
            .arg(fixture.store());
        command.args(["--", "env", inside, "python3", "work.py"]);
        command.current_dir(fixture.store());
        let output = finish(command.env("HEARTH_DIR", fixture.path("control")));
        read_well(&output, &bytes, SERVED);
    }
    fixture.assert_clean();
}

/// S14.
#[test]
fn another_user_gets_no_page_of_a_pool_and_its_own_maps_none_for_writing() {
    let test = "another_user_gets_no_page_of_a_pool_and_its_own_maps_none_for_writing";
    if lacks(test, &["runuser", "python3"]) {
        return;
    }
    let (fixture, bytes) = fixture_with_file();
    fixture.let_others_in();
    // The way to the socket is opened on purpose: the agent itself must refuse.
    fixture.up(1, &["--allow-other"]);
    let pool = pool_socket(&fixture);
    for dir in pool
        .ancestors()
        .skip(1)
        .take_while(|dir| *dir != Path::new("/tmp"))
    {
        let _ = fs::set_permissions(dir, Permissions::from_mode(0o755));
    }
    fs::set_permissions(&pool, Permissions::from_mode(0o777)).expect("our own socket");
    assert!(fs::read(fixture.mount(0).join("in")).expect("the mount is there") == bytes);
    let script = fixture.path("ask.py");
    fs::write(&script, ASK).expect("our own file");
    let ask = |command: &mut Command| finish(command.args([&script, &pool]));
    let own = ask(&mut Command::new("python3"));
    well(&own);
    assert_eq!(text(&own.stdout), "frames can be read and not written\n");
    let mut other = Command::new("runuser");
    let other = ask(other
        .args(["-u", "nobody", "--", "python3"])
        .current_dir("/"));
    assert_eq!(
        text(&other.stdout),
        "nothing came\n",
        "{}",
        text(&other.stderr)
    );
    // A control directory that is open to others is refused by the command.
    for dir in pool.ancestors().skip(1).take(2) {
        fs::set_permissions(dir, Permissions::from_mode(0o700)).expect("our own directory");
    }
    fixture.down();
}

/// Asks for a pool as a program does, and tries to write into what comes.
const ASK: &str = "\
import mmap, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.settimeout(60)
fds = []
try:
    while True:
        word, some, _, _ = socket.recv_fds(s, 64, 64)
        if not word: break
        fds += some
except OSError: pass
if len(fds) < 3:
    sys.exit(print('nothing came'))
for fd in fds[1:]:
    mmap.mmap(fd, 4096, prot=mmap.PROT_READ)
    for prot in [mmap.PROT_READ | mmap.PROT_WRITE]:
        try: mmap.mmap(fd, 4096, flags=mmap.MAP_SHARED, prot=prot)
        except OSError: continue
        sys.exit(print('it can be written'))
    try: open(f'/proc/self/fd/{fd}', 'r+b', buffering=0).write(b'x')
    except OSError: continue
    sys.exit(print('it can be written through /proc'))
print('frames can be read and not written')
";

fn pool_socket(fixture: &Fixture) -> PathBuf {
    let jobs = fs::read_dir(fixture.path("control")).expect("our own directory");
    let sockets = jobs.map(|job| job.expect("an entry").path().join("agent-0.pool"));
    let mut sockets = sockets.filter(|path| path.exists());
    sockets.next().expect("the agent lends its pool")
}
