//! The time that a transport adds to TCP, for a 64-byte request answered with a 4 KiB payload.
//!
//! Rounds over [`TcpTransport`] alternate with rounds over two bare `TcpStream`s that carry the same
//! bytes, so that both meet the same machine. Answers and next requests leave from inside
//! `on_frame`. Run it with `cargo run --release -p hearth-net --example pingpong`; the last line is
//! `p50_ratio`, the median over the rounds of transport / bare. An argument gives another length of
//! the answer in bytes.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use hearth_net::{Handler, Limits, NetConfig, PeerId, Secret, TcpTransport, Transport};

const ROUNDS: usize = 15;
const EXCHANGES: usize = 4000;
const HEADER_LEN: usize = 32;
const REQUEST_LEN: usize = 64;
const ANSWER_LEN: usize = 4096;
const SERVER: PeerId = PeerId(0);
const CLIENT: PeerId = PeerId(1);

/// Answers every request from inside `on_frame`.
struct Server {
    transport: OnceLock<Arc<TcpTransport>>,
    answer: Vec<u8>,
}

impl Handler for Server {
    fn on_up(&self, _: PeerId, _: u64) {}
    fn on_down(&self, _: PeerId, _: &str) {}
    fn on_frame(&self, from: PeerId, head: &[u8], _: Vec<u8>) {
        let transport = self.transport.wait();
        let sent = transport.send(from, head, &[IoSlice::new(&self.answer)]);
        sent.expect("the client waits for its answer");
    }
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_timer(&self) {}
}

/// Sends the next request as soon as the answer is there.
struct Client {
    transport: OnceLock<Arc<TcpTransport>>,
    state: Mutex<Exchange>,
}

struct Exchange {
    answer_len: usize,
    started: Instant,
    spans: Vec<Duration>,
    done: Sender<Option<Vec<Duration>>>,
}

impl Client {
    fn request(&self) {
        let sent = self.transport.wait().send(SERVER, &[7; REQUEST_LEN], &[]);
        sent.expect("the server is up");
    }

    fn start(&self) {
        self.state.lock().expect("nobody panics").started = Instant::now();
        self.request();
    }
}

impl Handler for Client {
    fn on_up(&self, _: PeerId, _: u64) {
        let state = self.state.lock().expect("nobody panics");
        state.done.send(None).expect("the main thread waits");
    }
    fn on_down(&self, _: PeerId, _: &str) {}
    fn on_frame(&self, _: PeerId, _: &[u8], payload: Vec<u8>) {
        let mut state = self.state.lock().expect("nobody panics");
        assert_eq!(payload.len(), state.answer_len);
        let now = Instant::now();
        let span = now - std::mem::replace(&mut state.started, now);
        state.spans.push(span);
        if state.spans.len() < EXCHANGES {
            drop(state);
            self.request();
        } else {
            let spans = std::mem::take(&mut state.spans);
            state.done.send(Some(spans)).expect("the main thread waits");
        }
    }
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_timer(&self) {}
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("loopback has free ports")
}

fn start(me: PeerId, listeners: &[TcpListener; 2], handler: Arc<dyn Handler>) -> Arc<TcpTransport> {
    let addr = |listener: &TcpListener| listener.local_addr().expect("it is bound");
    let config = NetConfig {
        me,
        incarnation: 1,
        succeeds: 0,
        members: listeners.iter().map(addr).collect(),
        secret: Secret::new([7; 32]),
        job: "pingpong".into(),
        limits: Limits::default(),
    };
    let listener = listeners[me.index()]
        .try_clone()
        .expect("descriptors are left");
    TcpTransport::start(config, listener, handler).expect("the configuration is right")
}

fn p50(mut spans: Vec<Duration>) -> f64 {
    spans.sort_unstable();
    spans[spans.len() / 2].as_secs_f64() * 1e6
}

/// One round over bare sockets, with the same bytes on the wire.
fn bare_round(stream: &mut TcpStream, answer_len: usize) -> f64 {
    let request = [7; HEADER_LEN + REQUEST_LEN];
    let mut answer = vec![0; HEADER_LEN + REQUEST_LEN + answer_len];
    let mut spans = Vec::with_capacity(EXCHANGES);
    for _ in 0..EXCHANGES {
        let started = Instant::now();
        stream.write_all(&request).expect("the server reads");
        stream.read_exact(&mut answer).expect("the server answers");
        spans.push(started.elapsed());
    }
    p50(spans)
}

fn bare_pair(answer_len: usize) -> TcpStream {
    let listener = listen();
    let addr = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        stream.set_nodelay(true).expect("a TCP socket has it");
        let mut request = [0; HEADER_LEN + REQUEST_LEN];
        let answer = vec![7; HEADER_LEN + REQUEST_LEN + answer_len];
        while stream.read_exact(&mut request).is_ok() && stream.write_all(&answer).is_ok() {}
    });
    let stream = TcpStream::connect(addr).expect("the server listens");
    stream.set_nodelay(true).expect("a TCP socket has it");
    stream
}

fn main() {
    let answer_len = std::env::args().nth(1).map_or(ANSWER_LEN, |arg| {
        arg.parse()
            .expect("the argument is the length of the answer in bytes")
    });
    let listeners = [listen(), listen()];
    let server = Arc::new(Server {
        transport: OnceLock::new(),
        answer: vec![7; answer_len],
    });
    let (done, results) = channel();
    let exchange = Exchange {
        answer_len,
        started: Instant::now(),
        spans: Vec::with_capacity(EXCHANGES),
        done,
    };
    let client = Arc::new(Client {
        transport: OnceLock::new(),
        state: Mutex::new(exchange),
    });
    let near = start(SERVER, &listeners, server.clone());
    assert!(server.transport.set(near.clone()).is_ok());
    let far = start(CLIENT, &listeners, client.clone());
    assert!(client.transport.set(far.clone()).is_ok());
    assert!(
        results.recv().expect("the client runs").is_none(),
        "on_up comes first"
    );

    let mut bare = bare_pair(answer_len);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let bare = bare_round(&mut bare, answer_len);
        client.start();
        let spans = results
            .recv()
            .expect("the client runs")
            .expect("a round is done");
        rounds.push((p50(spans) / bare, bare));
    }
    near.shutdown();
    far.shutdown();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (ratio, bare) in &rounds {
        println!(
            "bare p50 {bare:7.2} us   transport p50 {:7.2} us",
            bare * ratio
        );
    }
    println!("p50_ratio {:.3}", rounds[ROUNDS / 2].0);
}
