//! Reads are served out of the memory that is lent, or passed by, and one can tell which: what is lent
//! here differs from what is in the file.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails the test, and a skipped test says so"
)]

mod support;

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use hearth_client::local::{AttributeTicket, VolatileAttributes};
use hearth_shm::{FrameIndex, PageName, Pool, PoolConfig};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use support::{Place, build, has, library};

const PAGE: usize = 4096;

/// A file of three pages of `-` and a hundred more bytes, whose pages are `0`, `1`, `2` and `3` in the
/// memory that is lent.
struct Fixture {
    place: Place,
    pool: Option<Pool>,
    path: PathBuf,
}

impl Fixture {
    fn new() -> Fixture {
        let place = Place::new();
        let mut file = fs::File::create(place.path("file")).unwrap();
        file.write_all(&[b'-'; 3 * PAGE + 100]).unwrap();
        let number = file.metadata().unwrap().ino();
        let pool = Pool::new(PoolConfig::new(PAGE, 8)).unwrap();
        pool.share().unwrap();
        for page in 0..4_u8 {
            let frame = FrameIndex(u32::from(page));
            pool.write(frame, 0, &[b'0' + page; PAGE]);
            let extent = if page == 3 { 100 } else { PAGE };
            let page = u64::from(page);
            pool.publish(PageName { file: number, page }, frame, extent);
        }
        let path = place.path("pool");
        Fixture {
            place,
            pool: Some(pool),
            path,
        }
    }

    fn listen(&self) -> OwnedFd {
        let kind = SocketType::SEQPACKET;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&self.path).unwrap()).unwrap();
        listen(&socket, 8).unwrap();
        socket
    }

    fn command(&self, line: &[&str]) -> Command {
        let device = fs::metadata(self.place.path("file")).unwrap().dev();
        let mut command = self.place.command(line);
        command.env("LD_PRELOAD", library());
        command.env("HEARTH_LENDER", format!("{device}:{}", self.path.display()));
        command
    }

    /// The output of a command while the pool is lent to all that ask.
    fn run(&self, line: &[&str]) -> String {
        let socket = self.listen();
        let mut child = self.command(line).stdout(Stdio::piped()).spawn().unwrap();
        let process = rustix::process::pidfd_open(
            rustix::process::Pid::from_child(&child),
            rustix::process::PidfdFlags::empty(),
        )
        .unwrap();
        let mut out = child.stdout.take().unwrap();
        let printed = thread::scope(|scope| {
            let printed = scope.spawn(move || std::io::read_to_string(&mut out).unwrap());
            self.lend(&socket, process.as_fd());
            printed.join().unwrap()
        });
        assert!(child.wait().unwrap().success(), "{line:?}");
        fs::remove_file(&self.path).unwrap();
        printed
    }

    /// Lends until the process has ended.
    fn lend(&self, socket: &OwnedFd, process: std::os::fd::BorrowedFd<'_>) {
        use rustix::event::{PollFd, PollFlags, poll};
        loop {
            let mut polled = [
                PollFd::new(socket, PollFlags::IN),
                PollFd::from_borrowed_fd(process, PollFlags::IN),
            ];
            poll(&mut polled, None).unwrap();
            if !polled[0].revents().is_empty() {
                let program = accept_with(socket, SocketFlags::CLOEXEC).unwrap();
                self.pool.as_ref().unwrap().lend(program.as_fd()).unwrap();
            } else if !polled[1].revents().is_empty() {
                return;
            }
        }
    }
}

/// Runs of one byte, as `3x0` for three pages of `0`.
fn pages(text: &str) -> String {
    let mut runs: Vec<(u8, usize)> = Vec::new();
    for byte in text.bytes() {
        match runs.last_mut() {
            Some((last, count)) if *last == byte => *count += 1,
            _ => runs.push((byte, 1)),
        }
    }
    let words = runs.iter().map(|(byte, count)| match count % PAGE {
        0 => format!("{}x{}", count / PAGE, *byte as char),
        _ => format!("{count} bytes of {}", *byte as char),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn whole_pages_are_served_and_the_end_of_a_file_is_passed_by() {
    let fixture = Fixture::new();
    let served = fixture.run(&["dd", "if=file", "bs=4096", "status=none"]);
    assert_eq!(pages(&served), "1x0 1x1 1x2 100 bytes of -");
    let two_at_once = fixture.run(&["dd", "if=file", "bs=8192", "status=none"]);
    assert_eq!(pages(&two_at_once), "1x0 1x1 4196 bytes of -");
}

/// S22: a vector is one read, whatever its parts are.
#[test]
fn vectors_are_served_as_a_whole_or_passed_by() {
    let test = "vectors_are_served_as_a_whole_or_passed_by";
    if !has(test, "python3") {
        return;
    }
    let fixture = Fixture::new();
    let script = "import os\n\
        f = os.open('file', os.O_RDONLY)\n\
        def v(lens, *at):\n\
        \x20 parts = [bytearray(n) for n in lens]\n\
        \x20 n = os.preadv(f, parts, *at) if at else os.readv(f, parts)\n\
        \x20 print(end=b''.join(parts)[:n].decode())\n\
        v([4096], 4096); v([96, 0, 8000, 96], 0); v([4000, 96, 4096]); v([4096]); os.lseek(f, 0, 0)\n\
        v([4096], 0, os.RWF_HIPRI); v([4096, 99], 8192); v([4096, 101], 8192)\n\
        v([64] * 64, 0); v([63] * 65, 4096); v([4096, 1], 0); v([4095]); v([1, 4096])\n";
    let printed = fixture.run(&["python3", "-c", script]);
    let served = "1x1 1x0 1x1 1x0 1x1 1x2";
    // One with flags asks for more than bytes; one ends behind what is known; one has too many parts.
    let passed_by = "1x- 1x2 99 bytes of 3 4196 bytes of - 1x0 4095 bytes of -";
    let own = "1x0 1 bytes of 1 1x0 1x1";
    assert_eq!(pages(&printed), [served, passed_by, own].join(" "));
}

#[test]
fn processes_that_share_an_offset_share_it_served_or_not() {
    let fixture = Fixture::new();
    // The second dd passes by: it asks for what is not there. The last finds the offset behind it.
    let script = "exec 3<file; dd bs=4096 count=1 status=none <&3; \
                  dd bs=1 count=1 skip=0 status=none <&3; dd bs=4095 count=1 status=none <&3; \
                  dd bs=4096 count=1 status=none <&3";
    let printed = fixture.run(&["sh", "-c", script]);
    assert_eq!(pages(&printed), "1x0 1x1 1x2");
}

#[test]
fn when_the_agent_is_gone_the_file_is_read() {
    let mut fixture = Fixture::new();
    // Listening, and nobody answers: the connection is closed with the socket.
    drop(fixture.listen());
    fixture.pool = None;
    let output = fixture
        .command(&["dd", "if=file", "bs=4096", "count=1", "status=none"])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(pages(&String::from_utf8_lossy(&output.stdout)), "1x-");
}

/// S22.
#[test]
fn what_was_called_back_is_not_served() {
    let fixture = Fixture::new();
    let number = fs::metadata(fixture.place.path("file")).unwrap().ino();
    fixture.pool.as_ref().unwrap().hide(number, 1..2);
    let printed = fixture.run(&["dd", "if=file", "bs=4096", "count=3", "status=none"]);
    assert_eq!(pages(&printed), "1x0 1x- 1x2");
}

/// A program that says what a file is, each time it is asked; by path, by descriptor, and by `statx`.
const STATS: &str = "import os, sys, ctypes\n\
    f = os.open('file', os.O_RDONLY); os.read(f, 1); path = os.path.abspath('file').encode()\n\
    c = ctypes.CDLL(None); b = ctypes.create_string_buffer(256)\n\
    def x(): c.statx(-100, path, 0, 0x7ff, b); return int.from_bytes(b.raw[28:30], 'little')\n\
    for line in sys.stdin:\n\
    \x20 for again in range(2):\n\
    \x20   modes = [os.stat(path).st_mode, os.lstat(path).st_mode, os.fstat(f).st_mode, x()]\n\
    \x20 print(*['%o' % (mode & 0o777) for mode in modes], flush=True)\n";

/// The attributes told of the file, and the question to the program.
struct Telling<'a> {
    pool: &'a Pool,
    file: PathBuf,
    number: u64,
    asked: std::process::ChildStdin,
    said: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Telling<'_> {
    fn set(&self, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&self.file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Tells what the file is now, for so long.
    fn tell(&self, ticket: AttributeTicket, nanos: i64) {
        let now = hearth_shm::monotonic_ns();
        let digest = attributes(&fs::metadata(&self.file).unwrap()).digest();
        let until = now.saturating_add_signed(nanos);
        self.pool.tell(self.number, ticket, digest, until);
    }

    fn ticket(&self) -> AttributeTicket {
        self.pool.ticket(self.number).unwrap()
    }

    /// The mode by each of the calls; `None` if they differ.
    fn mode(&mut self) -> Option<String> {
        writeln!(self.asked).unwrap();
        let line = self.said.next().unwrap().unwrap();
        let mut words = line.split(' ');
        let first = words.next()?;
        words.all(|word| word == first).then(|| first.to_owned())
    }
}

fn attributes(metadata: &fs::Metadata) -> VolatileAttributes {
    let moment = |seconds: i64, nanos: i64| (seconds, nanos.cast_unsigned());
    VolatileAttributes {
        size: metadata.len(),
        blocks: metadata.blocks(),
        mode: metadata.mode() & 0o7777,
        links: metadata.nlink(),
        owner: (metadata.uid(), metadata.gid()),
        accessed: moment(metadata.atime(), metadata.atime_nsec()),
        modified: moment(metadata.mtime(), metadata.mtime_nsec()),
        changed: moment(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// S23: what is changed here without a word to anybody shows whether the answer is a kept one.
#[test]
fn what_a_file_is_is_answered_again_until_it_or_a_name_changes() {
    let test = "what_a_file_is_is_answered_again_until_it_or_a_name_changes";
    if !has(test, "python3") {
        return;
    }
    let fixture = Fixture::new();
    let pool = fixture.pool.as_ref().unwrap();
    pool.keep_names();
    let socket = fixture.listen();
    let mut command = fixture.command(&["python3", "-c", STATS]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let file = fixture.place.path("file");
    thread::scope(|scope| {
        let id = rustix::process::Pid::from_child(&child);
        let flags = rustix::process::PidfdFlags::empty();
        let process = rustix::process::pidfd_open(id, flags).unwrap();
        let (fixture, socket) = (&fixture, &socket);
        scope.spawn(move || fixture.lend(socket, process.as_fd()));
        let said = std::io::BufReader::new(child.stdout.take().unwrap());
        let asked = child.stdin.take().unwrap();
        let mut telling = Telling {
            pool,
            number: fs::metadata(&file).unwrap().ino(),
            file,
            asked,
            said: std::io::BufRead::lines(said),
        };
        changes_are_seen(&mut telling);
    });
    assert!(child.wait().unwrap().success());
}

fn changes_are_seen(it: &mut Telling<'_>) {
    const SECOND: i64 = 1_000_000_000;
    const HOUR: i64 = 3600 * SECOND;
    let all = |mode: &str| Some(mode.to_owned());
    it.set(0o644);
    assert_eq!(it.mode(), all("644"));
    it.set(0o600);
    assert_eq!(
        it.mode(),
        all("600"),
        "nothing was told, so nothing is kept"
    );
    it.tell(it.ticket(), HOUR);
    assert_eq!(it.mode(), all("600"));
    it.set(0o640);
    assert_eq!(it.mode(), all("600"), "the kept answer");
    it.pool.file_changed(it.number);
    assert_eq!(it.mode(), all("640"), "the file has changed");
    it.tell(it.ticket(), HOUR);
    assert_eq!(it.mode(), all("640"));
    it.set(0o604);
    assert_eq!(it.mode(), all("640"), "the kept answer");
    it.pool.names_changed();
    assert_eq!(it.mode(), all("604"), "a name has changed");
    let old = it.ticket();
    it.pool.file_changed(it.number);
    it.tell(old, HOUR);
    assert_eq!(it.mode(), all("604"));
    it.set(0o444);
    assert_eq!(it.mode(), all("444"), "it was looked at before a change");
    it.tell(it.ticket(), -SECOND);
    assert_eq!(it.mode(), all("444"));
    it.set(0o644);
    assert_eq!(it.mode(), all("644"), "the time is over");
    it.tell(it.ticket(), HOUR);
    it.set(0o664);
    assert_eq!(it.mode(), all("664"), "not what was told");
}

#[test]
fn a_descriptor_that_is_reused_or_moved_by_a_child_is_what_it_is() {
    let test = "a_descriptor_that_is_reused_or_moved_by_a_child_is_what_it_is";
    if !has(test, "python3") {
        return;
    }
    let fixture = Fixture::new();
    fs::write(fixture.place.path("other"), [b'x'; PAGE]).unwrap();
    let script = "import os\n\
        f = os.open('file', os.O_RDONLY); g = os.open('other', os.O_RDONLY)\n\
        a = os.pread(f, 4096, 4096); b = os.pread(g, 4096, 0)\n\
        os.dup2(g, f); c = os.pread(f, 4096, 0)\n\
        os.close(f); f = os.open('file', os.O_RDONLY); d = os.read(f, 4096)\n\
        os.lseek(f, 4096, 0); e = os.read(f, 4096)\n\
        p = os.fork()\n\
        if p == 0: os.lseek(f, 0, 0); os._exit(0)\n\
        os.waitpid(p, 0); h = os.read(f, 4096)\n\
        print(end=(a + b + c + d + e + h).decode())\n";
    let printed = fixture.run(&["python3", "-c", script]);
    assert_eq!(pages(&printed), "1x1 2xx 1x0 1x1 1x0");
}

#[test]
fn a_program_that_closes_all_descriptors_or_executes_itself_is_served_again() {
    let test = "a_program_that_closes_all_descriptors_or_executes_itself_is_served_again";
    if !has(test, "python3") {
        return;
    }
    let fixture = Fixture::new();
    let script = "import os, sys\n\
        read = lambda page: os.pread(os.open('file', os.O_RDONLY), 4096, 4096 * page).decode()\n\
        if len(sys.argv) > 1: print(end=sys.argv[1] + read(2)); sys.exit()\n\
        a = read(0); os.closerange(3, 1024); b = read(1)\n\
        os.execv(sys.executable, [sys.executable, '-c', os.environ['CODE'], a + b])\n";
    let code = format!("CODE={script}");
    let printed = fixture.run(&["env", &code, "sh", "-c", "exec python3 -c \"$CODE\""]);
    assert_eq!(pages(&printed), "1x0 1x1 1x2");
}

#[test]
fn libraries_before_and_behind_stay_in_line() {
    let test = "libraries_before_and_behind_stay_in_line";
    let fixture = Fixture::new();
    let Some(counter) = support::shared_library(&fixture.place, "counter") else {
        println!("skipped: {test}: no cc");
        return;
    };
    for list in [
        format!("{counter}:{}", library().display()),
        format!("{}:{counter}", library().display()),
    ] {
        let count = fixture.place.text("count");
        let printed = fixture.run(&[
            "env",
            &format!("LD_PRELOAD={list}"),
            &format!("COUNT={count}"),
            "dd",
            "if=file",
            "bs=4096",
            "status=none",
        ]);
        assert_eq!(pages(&printed), "1x0 1x1 1x2 100 bytes of -");
        let reads: u32 = fs::read_to_string(count).unwrap().trim().parse().unwrap();
        // One in front sees every call, one behind those that are passed by: the end, twice.
        let in_front = list.starts_with(&counter);
        assert!(if in_front { reads >= 5 } else { reads >= 2 }, "{reads}");
    }
}

#[test]
fn a_program_that_jails_itself_lives() {
    let test = "a_program_that_jails_itself_lives";
    let fixture = Fixture::new();
    let Some(program) = build(&fixture.place, "cc", "jail.c", &["-w"]) else {
        println!("skipped: {test}: no cc");
        return;
    };
    // Strict mode allows read, write and exit alone; the first page was read before.
    let printed = fixture.run(&[&program]);
    assert_eq!(pages(&printed), "1x0 1x-");
}
