//! A 4 KiB read that a peer's memory serves, beside a bare TCP ping-pong of the same sizes.
//!
//! Both are taken in turns in one run, each side on a core of its own. Every page is read once, so
//! every read is remote; pages are 4 KiB here, so that a read moves what it asks for.

use super::inside;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::{BenchReport, percentile};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

const PAGE: usize = 4096;
/// Head of a request and of an answer on the wire, about.
const REQUEST: usize = 32 + 70;
const ANSWER: usize = 32 + 80 + PAGE;
/// Pages read between two turns of the bare ping-pong.
const TURN: usize = 64;

pub(crate) fn run(turns: usize) -> Result<BenchReport, Failure> {
    let dir = tempfile::tempdir().or_fail(|| "cannot make a directory".to_owned())?;
    let mut report = BenchReport::new("remote-hit", "posix");
    let (hits, bare, right) = measure(dir.path(), turns).or_fail(|| "cannot measure".to_owned())?;
    if !right {
        return Err(Failure::new("a remote hit returned wrong bytes"));
    }
    for (system, figures) in [("hearth", &hits), ("tcp", &bare)] {
        for percent in [50.0, 99.0] {
            let name = format!("p{percent:.0}");
            report.row(
                system,
                "4KiB read",
                &name,
                percentile(figures, percent),
                "us",
            );
        }
    }
    report.sum_up("verified", true);
    report.sum_up("reads", hits.len());
    let ratio = |percent| percentile(&hits, percent) / percentile(&bare, percent);
    report.sum_up("p50_ratio", hearth_set::report::rounded(ratio(50.0)));
    report.sum_up("p99_ratio", hearth_set::report::rounded(ratio(99.0)));
    Ok(report)
}

/// Microseconds of each remote hit and of each bare round trip, and whether all bytes were right.
fn measure(dir: &Path, turns: usize) -> io::Result<(Vec<f64>, Vec<f64>, bool)> {
    let pages = turns * TURN;
    let store = dir.join("store");
    std::fs::create_dir(&store)?;
    let path = store.join("file");
    write_pages(&path, pages)?;
    let pool = ((pages * PAGE) as u64 * 2).max(64 << 20);
    let agents = inside::agents(2, &store, dir, PAGE as u32, pool)?;
    let (near, far) = (agents[0].session(), agents[1].session());
    let there = inside::open(far.as_ref(), &path, true)?;
    let mut right = true;
    for page in 0..pages {
        right &= inside::read(
            far.as_ref(),
            there,
            (page * PAGE) as u64,
            PAGE as u32,
            is_page,
        );
    }
    let here = inside::open(near.as_ref(), &path, false)?;
    let mut bare = Bare::start()?;
    inside::stay_on(0)?;
    let (mut hits, mut trips) = (Vec::with_capacity(pages), Vec::with_capacity(pages));
    for turn in 0..turns {
        // Backwards: pages that are read in order come ahead of their reads.
        for page in (turn * TURN..(turn + 1) * TURN).rev() {
            let start = Instant::now();
            right &= inside::read(
                near.as_ref(),
                here,
                (page * PAGE) as u64,
                PAGE as u32,
                is_page,
            );
            hits.push(start.elapsed().as_secs_f64() * 1e6);
        }
        for _ in 0..TURN {
            let start = Instant::now();
            bare.round_trip()?;
            trips.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    let counters = agents[0].status().counters;
    right &= counters.peer_bytes == (pages * PAGE) as u64;
    Ok((hits, trips, right))
}

fn write_pages(path: &Path, pages: usize) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(pages * PAGE);
    for page in 0..pages {
        let number = (page as u64).to_le_bytes();
        bytes.extend(number.iter().cycle().take(PAGE));
    }
    std::fs::write(path, bytes)
}

fn is_page(bytes: &[u8], offset: u64) -> bool {
    let number = (offset / PAGE as u64).to_le_bytes();
    bytes[..8] == number && bytes[PAGE - 8..] == number
}

/// A client and an echoing server on loopback TCP, one thread each.
struct Bare {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Bare {
    fn start() -> io::Result<Bare> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        let (mut served, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        served.set_nodelay(true)?;
        thread::spawn(move || {
            if inside::stay_on(1).is_err() {
                return;
            }
            let (mut request, answer) = (vec![0; REQUEST], vec![0; ANSWER]);
            while served.read_exact(&mut request).is_ok() && served.write_all(&answer).is_ok() {}
        });
        Ok(Bare {
            stream,
            answer: vec![0; ANSWER],
        })
    }

    fn round_trip(&mut self) -> io::Result<()> {
        self.stream.write_all(&[0; REQUEST])?;
        self.stream.read_exact(&mut self.answer)
    }
}
