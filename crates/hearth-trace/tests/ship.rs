//! Log clients and a log server: what is sent arrives once, whole and in order.

use std::fs::Permissions;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hearth_net::{Channel, Secret};
use hearth_trace::file::{Reader, SessionId, Writer};
use hearth_trace::generate;
use hearth_trace::ring::{OpFacts, Options, tracer};
use hearth_trace::ship::{ClientConfig, LogClient, Server, SpoolLimits, party};
use hearth_trace::{Op, Source};
use tempfile::TempDir;

/// No wait of a test is longer.
const DEADLINE: Duration = Duration::from_secs(120);
const SECRET: [u8; 32] = [5; 32];

fn private_directory() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(0o700));
    builder.tempdir().expect("a fresh directory of our own")
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn serve(addr: SocketAddr, directory: &Path) -> Server {
    Server::start(addr, directory, party(Secret::new(SECRET))).expect("a port of our own")
}

/// The frames of a generated session, cut where chunks may be cut.
fn session(number: u64, events: u64) -> Vec<u8> {
    let mut writer =
        Writer::new(Vec::new(), SessionId(number), ("host", 7)).expect("memory takes all");
    generate::write(&mut writer, events, 1).expect("memory takes all");
    writer.finish().expect("memory takes all")
}

/// A client that says what it wants.
struct Raw(Channel);

impl Raw {
    fn dial(server: &Server, session: u64) -> Raw {
        let mut channel =
            Channel::dial(server.addr(), &party(Secret::new(SECRET))).expect("the server is there");
        channel.limit(DEADLINE).expect("sockets have limits");
        let mut hello = vec![1];
        put(&mut hello, session);
        hello.extend_from_slice(b"\x04host");
        channel.send(&hello, &[]).expect("the server is there");
        Raw(channel)
    }

    /// The two numbers of the next answer.
    fn hear(&mut self) -> Option<(u64, u64)> {
        let head = self.0.receive(&mut Vec::new()).ok()?;
        let mut rest = &head[1..];
        Some((take(&mut rest), take(&mut rest)))
    }

    fn frames(&mut self, numbers: (u64, u64), bytes: &[u8]) {
        let mut head = vec![2];
        put(&mut head, numbers.0);
        put(&mut head, numbers.1);
        // The server may have ended the connection for what came before.
        let _ = self.0.send(&head, bytes);
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(input: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = input
            .split_first()
            .expect("the server writes whole numbers");
        *input = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The offset of each frame of some bytes, and the end.
fn cuts(mut bytes: &[u8]) -> Vec<usize> {
    let mut cuts = vec![0];
    while let Some((_, len)) = hearth_trace::file::first_frame(bytes) {
        cuts.push(cuts[cuts.len() - 1] + len);
        bytes = &bytes[len..];
    }
    cuts
}

#[test]
fn frames_are_stored_once_and_in_order_whatever_is_sent_twice() {
    let directory = private_directory();
    let server = serve(anywhere(), directory.path());
    let bytes = session(3, 20_000);
    let cuts = cuts(&bytes);
    let end = cuts.len() as u64 - 1;
    let mut raw = Raw::dial(&server, 3);
    assert_eq!(raw.hear().unwrap().1, 0);
    raw.frames((0, 2), &bytes[..cuts[2]]);
    assert_eq!(raw.hear().unwrap().0, 2);
    raw.frames((0, 3), &bytes[..cuts[3]]);
    assert_eq!(raw.hear().unwrap().0, 3);
    raw.frames((1, 2), &bytes[cuts[1]..cuts[2]]);
    assert_eq!(raw.hear().unwrap().0, 3);
    drop(raw);
    let mut raw = Raw::dial(&server, 3);
    assert_eq!(raw.hear().unwrap().1, 3);
    raw.frames((2, end), &bytes[cuts[2]..]);
    assert_eq!(raw.hear().unwrap().0, end);
    drop((raw, server));
    let path = directory.path().join("host-0000000000000003.htrace");
    assert_eq!(std::fs::read(path).unwrap(), bytes);
}

#[test]
fn a_server_that_begins_anew_goes_on_behind_the_last_whole_frame() {
    let directory = private_directory();
    let bytes = session(4, 20_000);
    let cuts = cuts(&bytes);
    let path = directory.path().join("host-0000000000000004.htrace");
    std::fs::write(&path, &bytes[..cuts[2] + 100]).unwrap();
    let server = serve(anywhere(), directory.path());
    let mut raw = Raw::dial(&server, 4);
    assert_eq!(raw.hear().unwrap().1, 2);
    let end = cuts.len() as u64 - 1;
    raw.frames((2, end), &bytes[cuts[2]..]);
    assert_eq!(raw.hear().unwrap().0, end);
    assert_eq!(std::fs::read(path).unwrap(), bytes);
}

#[test]
fn a_client_that_sends_what_it_should_not_is_cut_off_and_nothing_of_it_stays() {
    let directory = private_directory();
    let server = serve(anywhere(), directory.path());
    let bytes = session(6, 20_000);
    let cuts = cuts(&bytes);
    let mut hurt = bytes[..cuts[1]].to_vec();
    hurt[40] ^= 1;
    let other = session(7, 10);
    let wrong: [((u64, u64), &[u8]); 6] = [
        ((1, 2), &bytes[cuts[1]..cuts[2]]),
        ((0, 2), &bytes[..cuts[1]]),
        ((0, 1), &bytes[..cuts[2]]),
        ((0, 1), &bytes[..cuts[1] - 1]),
        ((0, 1), &hurt),
        ((0, 1), &other[..40]),
    ];
    for (numbers, frames) in wrong {
        let mut raw = Raw::dial(&server, 6);
        assert_eq!(raw.hear().unwrap().1, 0);
        raw.frames(numbers, frames);
        assert_eq!(raw.hear(), None, "{numbers:?}");
    }
    let mut state = 7_u64;
    for len in 0..60 {
        let noise: Vec<u8> = (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(9);
                (state >> 57) as u8
            })
            .collect();
        let mut channel = Channel::dial(server.addr(), &party(Secret::new(SECRET))).unwrap();
        channel.limit(DEADLINE).unwrap();
        channel.send(&noise, &noise).unwrap();
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(&noise).unwrap();
    }
    let mut raw = Raw::dial(&server, 6);
    assert_eq!(raw.hear().unwrap().1, 0, "the server still serves");
}

#[test]
fn who_does_not_know_the_secret_stores_nothing() {
    let directory = private_directory();
    let server = serve(anywhere(), directory.path());
    assert!(Channel::dial(server.addr(), &party(Secret::new([6; 32]))).is_err());
    assert_eq!(server.sessions(), 0);
}

/// Everything through a client: the server is away first, then there, then away, then there again.
#[test]
fn what_is_recorded_while_the_server_is_away_arrives_when_it_is_back() {
    let directory = private_directory();
    let rings = directory.path().join("rings");
    let traces = directory.path().join("traces");
    tracer::start(Options {
        directory: rings.clone(),
        ..Options::default()
    })
    .unwrap();
    // A port that nobody else takes meanwhile: outside the range that systems hand out.
    let server = serve(anywhere(), &traces);
    let addr = server.addr();
    drop(server);

    let mut config =
        ClientConfig::here(addr, party(Secret::new(SECRET)), directory.path()).unwrap();
    config.limits = SpoolLimits {
        memory: 50_000,
        spill: 10 << 20,
    };
    let spill = config.spill.clone();
    let mut client = LogClient::start(&rings, config).unwrap();
    let mut recorded = 0;
    let mut record = |client: &mut LogClient| {
        for _ in 0..20 {
            recorded += 2000;
            std::thread::spawn(|| (0..2000).for_each(one))
                .join()
                .unwrap();
            client.collection().round().unwrap();
            client.collection().flush().unwrap();
        }
    };
    record(&mut client);
    assert!(
        std::fs::metadata(&spill).unwrap().len() > 100_000,
        "memory was not enough"
    );
    let server = serve(addr, &traces);
    record(&mut client);
    drop(server);
    record(&mut client);
    let server = serve(addr, &traces);
    let until = Instant::now() + DEADLINE;
    while server.sessions() == 0 {
        assert!(Instant::now() < until, "{:?}", client.trouble());
        client.round(None).unwrap();
    }
    let finished = client.finish(DEADLINE).unwrap();
    assert!(finished.undelivered.is_none(), "{finished:?}");
    assert!(!spill.exists());
    drop(server);

    let mut reader = Reader::open(&[&traces]).unwrap();
    assert_eq!(reader.missing(), &[] as &[String]);
    let mut read = 0;
    reader
        .each_run(&mut |_, events| read += events.len() as u64)
        .unwrap();
    assert_eq!(read, recorded);
    let attempted: u64 = reader
        .tables()
        .streams
        .iter()
        .map(|stream| stream.attempted)
        .sum();
    assert_eq!(attempted, recorded);
    assert_eq!(reader.costs().len(), 1);
}

fn one(turn: u64) {
    let started = tracer::enter().expect("recording is on");
    let done = OpFacts {
        offset: turn * turn * 512,
        asked: 512,
        result: 512,
        ..OpFacts::new(Op::Pread)
    };
    tracer::leave(started, &done);
}
