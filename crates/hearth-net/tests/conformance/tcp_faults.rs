//! N6: whatever comes from outside ends its own connection, with a reason, and disturbs nobody.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use hearth_net::{Link, NetConfig, PROTOCOL_VERSION, PeerId, Secret, TcpTransport, Transport};

use super::rig::{Node, Rig, Seen, TcpRig, eventually, tcp_node};

const HEADER_LEN: usize = 32;
const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const REFUSE: u8 = 4;
const DATA: u8 = 5;
/// No build's but the next one's.
const OTHER_VERSION: u8 = PROTOCOL_VERSION + 1;

/// Members 0 and 1, connected; member 2 is played by the test.
struct Bench {
    rig: TcpRig,
    a: Node<TcpTransport>,
    b: Node<TcpTransport>,
}

impl Bench {
    fn new(change: impl Fn(&mut NetConfig)) -> Bench {
        let rig = TcpRig::new(3);
        let start = |me| {
            let mut config = rig.config(me, 1);
            change(&mut config);
            tcp_node(&rig, config)
        };
        let (a, b) = (start(0), start(1));
        assert_eq!(a.next(), Seen::Up(1, 1));
        assert_eq!(b.next(), Seen::Up(0, 1));
        Bench { rig, a, b }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.rig.config(0, 1).members[0]).expect("member 0 listens")
    }

    /// Sends bytes to member 0 and returns what it answers and the reason it shows.
    fn provoke(&self, bytes: &[u8], after: Option<Shutdown>) -> (Vec<u8>, String) {
        let known = self.a.transport.refusals().len();
        let mut stream = self.connect();
        // It may hang up before it has read everything.
        let _ = stream.write_all(bytes);
        if let Some(how) = after {
            let _ = stream.shutdown(how);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let refusals = self.a.transport.refusals();
        assert_eq!(refusals.len(), known + 1, "one connection, one refusal");
        (answer, refusals[known].why.clone())
    }

    fn assert_undisturbed(&self) {
        self.b.send(0, b"all is well", &[]).expect("it is up");
        assert_eq!(self.a.next_frame().1, b"all is well");
    }
}

fn speaks_another_version() -> String {
    format!("speaks version {OTHER_VERSION}")
}

fn header(kind: u8, head_len: usize, payload_len: usize) -> Vec<u8> {
    let mut out = b"hrth".to_vec();
    out.extend_from_slice(&[PROTOCOL_VERSION, kind, 0, 0]);
    out.extend_from_slice(&(head_len as u32).to_le_bytes());
    out.extend_from_slice(&(payload_len as u32).to_le_bytes());
    out.resize(HEADER_LEN, 0);
    out
}

fn hello(to: u32, from: u32, job: &str) -> Vec<u8> {
    let mut head = [to.to_le_bytes(), from.to_le_bytes()].concat();
    head.resize(64, 9);
    head.extend_from_slice(job.as_bytes());
    [header(HELLO, head.len(), 0), head].concat()
}

fn reason<T: Transport>(transport: &T, peer: u32) -> String {
    let state = transport
        .peers()
        .into_iter()
        .find(|state| state.id == PeerId(peer));
    match state.expect("it is a member").link {
        Link::Down { why } => why,
        Link::Up { .. } => String::new(),
    }
}

#[test]
fn foreign_bytes_are_refused_by_name() {
    let bench = Bench::new(|_| {});
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"x", &[0xFF; 100_000]] {
        let (answer, why) = bench.provoke(bytes, None);
        assert!(answer.is_empty());
        assert!(why.contains("not a hearth frame"), "{why}");
    }
    bench.assert_undisturbed();
}

#[test]
fn random_bytes_never_disturb_anybody() {
    let bench = Bench::new(|_| {});
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..25 {
        let mut bytes = if round % 2 == 0 {
            Vec::new()
        } else {
            hello(0, 2, "conformance")
        };
        for _ in 0..100 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        let (_, why) = bench.provoke(&bytes, Some(Shutdown::Write));
        assert!(!why.is_empty());
    }
    bench.assert_undisturbed();
}

#[test]
fn another_version_gets_a_readable_refusal() {
    let bench = Bench::new(|_| {});
    let mut bytes = hello(0, 2, "conformance");
    bytes[4] = OTHER_VERSION;
    let (answer, why) = bench.provoke(&bytes, None);
    let text = String::from_utf8_lossy(&answer[HEADER_LEN..]);
    assert_eq!(answer[5], REFUSE);
    assert_eq!(
        text,
        format!("peer speaks version {OTHER_VERSION}, this agent {PROTOCOL_VERSION}")
    );
    assert_eq!(why, text);
    bench.assert_undisturbed();
}

#[test]
fn the_dialer_shows_that_the_acceptor_speaks_another_version() {
    let rig = TcpRig::new(2);
    let fake = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let mut config = rig.config(1, 1);
    config.members[0] = fake.local_addr().expect("it is bound");
    let b = tcp_node(&rig, config);
    let (mut stream, _) = fake.accept().expect("member 1 dials");
    let mut answer = header(CHALLENGE, 0, 0);
    answer[4] = OTHER_VERSION;
    stream.write_all(&answer).expect("member 1 listens");
    eventually("the reason is shown", || {
        reason(&*b.transport, 0).contains(&speaks_another_version())
    });
}

#[test]
fn wrong_words_in_a_hello_are_named() {
    let bench = Bench::new(|_| {});
    let cases = [
        (hello(0, 2, "elsewhere"), "belongs to job `elsewhere`"),
        (hello(1, 2, "conformance"), "the member lists differ"),
        (hello(0, 0, "conformance"), "only a higher member"),
        (hello(0, 3, "conformance"), "only a higher member"),
        (header(HELLO, 0, 0), "malformed"),
        (header(CHALLENGE, 0, 0), "out of its place"),
        (header(DATA, 0, 0), "out of its place"),
        (header(HELLO, 513, 0), "longer than 512"),
        (header(HELLO, 0, 1), "longer than 0"),
        (header(DATA, u32::MAX as usize, 0), "longer than 65536"),
        (header(DATA, 0, (16 << 20) + 1), "longer than 16777216"),
        (header(77, 0, 0), "unknown kind"),
    ];
    for (bytes, expected) in cases {
        let (_, why) = bench.provoke(&bytes, None);
        assert!(why.contains(expected), "{why}, expected {expected}");
    }
    bench.assert_undisturbed();
}

#[test]
fn a_truncated_hello_is_named() {
    let bench = Bench::new(|_| {});
    let bytes = hello(0, 2, "conformance");
    for len in [1, HEADER_LEN - 1, HEADER_LEN, bytes.len() - 1] {
        let (_, why) = bench.provoke(&bytes[..len], Some(Shutdown::Write));
        assert!(why.contains("ended inside a frame"), "{len} bytes: {why}");
    }
    bench.assert_undisturbed();
}

#[test]
fn a_hello_byte_by_byte_is_understood() {
    let bench = Bench::new(|_| {});
    let mut stream = bench.connect();
    stream.set_nodelay(true).expect("a TCP socket has it");
    for byte in hello(0, 2, "conformance") {
        stream.write_all(&[byte]).expect("member 0 reads");
    }
    let mut answer = [0; HEADER_LEN];
    stream.read_exact(&mut answer).expect("member 0 answers");
    assert_eq!(answer[5], CHALLENGE);
}

#[test]
fn a_peer_with_another_secret_is_refused_on_both_sides() {
    let bench = Bench::new(|_| {});
    let mut config = bench.rig.config(2, 1);
    config.secret = Secret::new([8; 32]);
    let c = tcp_node(&bench.rig, config);
    for peer in [0, 1] {
        let near = if peer == 0 { &bench.a } else { &bench.b };
        eventually("both show it", || {
            reason(&*c.transport, peer).contains("does not know the secret")
                && reason(&*near.transport, 2).contains("does not know the secret")
        });
    }
    bench.assert_undisturbed();
}

#[test]
fn a_recorded_proof_is_worth_nothing() {
    let bench = Bench::new(|_| {});
    let mut stream = bench.connect();
    stream
        .write_all(&hello(0, 2, "conformance"))
        .expect("member 0 reads");
    let mut challenge = [0; HEADER_LEN + 80];
    stream.read_exact(&mut challenge).expect("member 0 answers");
    // The acceptor's own proof, sent back as ours.
    let proof = [header(3, 32, 0), challenge[HEADER_LEN + 48..].to_vec()].concat();
    stream.write_all(&proof).expect("member 0 reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(reason(&*bench.a.transport, 2).contains("does not know the secret"));
    bench.assert_undisturbed();
}

#[test]
fn a_stranger_that_says_nothing_is_hung_up_on() {
    let short = Duration::from_millis(50);
    let bench = Bench::new(|config| config.limits.handshake_span_max = short);
    for bytes in [Vec::new(), hello(0, 2, "conformance")[..40].to_vec()] {
        let (_, why) = bench.provoke(&bytes, None);
        assert!(why.contains("handshake not done after 50ms"), "{why}");
    }
    bench.assert_undisturbed();
}

#[test]
fn strangers_beyond_the_bound_wait_to_be_accepted() {
    let bench = Bench::new(|config| {
        config.limits.strangers_max = 2;
        config.limits.handshake_span_max = Duration::from_secs(3600);
    });
    let (first, _second) = (bench.connect(), bench.connect());
    let mut third = bench.connect();
    third.write_all(b"garbage").expect("the system takes it");
    first.shutdown(Shutdown::Both).expect("it is connected");
    eventually("both are refused", || {
        bench.a.transport.refusals().len() == 2
    });
    let whys: Vec<_> = bench
        .a
        .transport
        .refusals()
        .into_iter()
        .map(|r| r.why)
        .collect();
    assert!(whys[0].contains("closed the connection"), "{whys:?}");
    assert!(whys[1].contains("not a hearth frame"), "{whys:?}");
    bench.assert_undisturbed();
}

/// Stands between members 1 and 0 and changes one frame that 1 sends.
fn tamper(to: SocketAddr, change: impl Fn(&mut Vec<u8>) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let addr = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut near = listener.accept()?.0;
        let mut far = TcpStream::connect(to)?;
        let (mut back_from, mut back_to) = (far.try_clone()?, near.try_clone()?);
        std::thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        loop {
            let mut frame = read_frame(&mut near)?;
            if frame[5] == DATA && frame[HEADER_LEN..].starts_with(b"victim") {
                change(&mut frame);
                far.write_all(&frame)?;
                return far.shutdown(Shutdown::Write);
            }
            far.write_all(&frame)?;
        }
    });
    addr
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER_LEN];
    stream.read_exact(&mut frame)?;
    let len =
        |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("four bytes")) as usize;
    let rest = len(8) + len(12);
    frame.resize(HEADER_LEN + rest, 0);
    stream.read_exact(&mut frame[HEADER_LEN..])?;
    Ok(frame)
}

fn assert_tampering_is_named(expected: &str, change: impl Fn(&mut Vec<u8>) + Send + 'static) {
    let rig = TcpRig::new(2);
    let a = tcp_node(&rig, rig.config(0, 1));
    let mut config = rig.config(1, 1);
    config.members[0] = tamper(config.members[0], change);
    let b = tcp_node(&rig, config);
    assert_eq!(a.next(), Seen::Up(1, 1));
    assert_eq!(b.next(), Seen::Up(0, 1));
    b.send(0, b"before", b"payload").expect("it is up");
    b.send(0, b"victim", &[1; 50_000]).expect("it is up");
    assert_eq!(a.next_frame().1, b"before");
    let (peer, why) = a.next_down();
    assert_eq!(peer, 1);
    assert!(why.contains(expected), "{why}, expected {expected}");
}

#[test]
fn a_changed_frame_of_a_member_ends_its_connection() {
    assert_tampering_is_named("does not carry its mac", |frame| frame[HEADER_LEN + 1] ^= 1);
    assert_tampering_is_named("does not carry its mac", |frame| frame[HEADER_LEN - 1] ^= 1);
    assert_tampering_is_named("does not carry its mac", |frame| frame[12] ^= 1);
    assert_tampering_is_named("longer than 16777216", |frame| frame[15] = 0xFF);
    assert_tampering_is_named("longer than 65536", |frame| frame[10] = 0xFF);
    assert_tampering_is_named("out of its place", |frame| {
        *frame = hello(0, 1, "conformance")
    });
    assert_tampering_is_named(&speaks_another_version(), |frame| frame[4] = OTHER_VERSION);
    assert_tampering_is_named("reserved", |frame| frame[6] = 2);
}

#[test]
fn a_truncated_frame_of_a_member_ends_its_connection() {
    for len in [
        1,
        HEADER_LEN,
        HEADER_LEN + 3,
        HEADER_LEN + 6,
        HEADER_LEN + 40_000,
    ] {
        assert_tampering_is_named("ended inside a frame", move |frame| frame.truncate(len));
    }
}
