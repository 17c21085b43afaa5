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

use hearth_shm::{FrameId, PageName, Pool, PoolConfig};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use support::{Place, build, has, library};

const PAGE: usize = 4096;

/// A file of three pages of `-` and a hundred more bytes, whose pages are `0`, `1`, `2` and `3` in the
/// memory that is lent.
struct Scene {
    place: Place,
    pool: Option<Pool>,
    path: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let place = Place::new();
        let mut file = fs::File::create(place.path("file")).unwrap();
        file.write_all(&[b'-'; 3 * PAGE + 100]).unwrap();
        let number = file.metadata().unwrap().ino();
        let pool = Pool::new(PoolConfig::new(PAGE, 8)).unwrap();
        pool.share().unwrap();
        for page in 0..4_u8 {
            let frame = FrameId(u32::from(page));
            pool.write(frame, 0, &[b'0' + page; PAGE]);
            let extent = if page == 3 { 100 } else { PAGE };
            let page = u64::from(page);
            pool.publish(PageName { file: number, page }, frame, extent);
        }
        let path = place.path("pool");
        Scene {
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
        command.env("HEARTH_POOL", format!("{device}:{}", self.path.display()));
        command
    }

    /// What a command prints while the pool is lent to whoever asks.
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
    let scene = Scene::new();
    let served = scene.run(&["dd", "if=file", "bs=4096", "status=none"]);
    assert_eq!(pages(&served), "1x0 1x1 1x2 100 bytes of -");
    let two_at_once = scene.run(&["dd", "if=file", "bs=8192", "status=none"]);
    assert_eq!(pages(&two_at_once), "1x0 1x1 4196 bytes of -");
}

#[test]
fn processes_that_share_an_offset_share_it_served_or_not() {
    let scene = Scene::new();
    // The second dd passes by: it asks for what is not there. The last finds the offset behind it.
    let script = "exec 3<file; dd bs=4096 count=1 status=none <&3; \
                  dd bs=1 count=1 skip=0 status=none <&3; dd bs=4095 count=1 status=none <&3; \
                  dd bs=4096 count=1 status=none <&3";
    let printed = scene.run(&["sh", "-c", script]);
    assert_eq!(pages(&printed), "1x0 1x1 1x2");
}

#[test]
fn when_the_agent_is_gone_the_file_is_read() {
    let mut scene = Scene::new();
    // Listening, and nobody answers: the connection is closed with the socket.
    drop(scene.listen());
    scene.pool = None;
    let output = scene
        .command(&["dd", "if=file", "bs=4096", "count=1", "status=none"])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(pages(&String::from_utf8_lossy(&output.stdout)), "1x-");
}

/// S22.
#[test]
fn what_was_called_back_is_not_served() {
    let scene = Scene::new();
    let number = fs::metadata(scene.place.path("file")).unwrap().ino();
    scene.pool.as_ref().unwrap().hide(number, 1..2);
    let printed = scene.run(&["dd", "if=file", "bs=4096", "count=3", "status=none"]);
    assert_eq!(pages(&printed), "1x0 1x- 1x2");
}

#[test]
fn a_descriptor_that_is_reused_or_moved_by_a_child_is_what_it_is() {
    let test = "a_descriptor_that_is_reused_or_moved_by_a_child_is_what_it_is";
    if !has(test, "python3") {
        return;
    }
    let scene = Scene::new();
    fs::write(scene.place.path("other"), [b'x'; PAGE]).unwrap();
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
    let printed = scene.run(&["python3", "-c", script]);
    assert_eq!(pages(&printed), "1x1 2xx 1x0 1x1 1x0");
}

#[test]
fn a_program_that_jails_itself_lives() {
    let test = "a_program_that_jails_itself_lives";
    let scene = Scene::new();
    let Some(program) = build(&scene.place, "cc", "jail.c", &["-w"]) else {
        println!("skipped: {test}: no cc");
        return;
    };
    // Strict mode allows read, write and exit alone; the first page was read before.
    let printed = scene.run(&[&program]);
    assert_eq!(pages(&printed), "1x0 1x-");
}
