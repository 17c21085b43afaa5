//! Four hosts whose clocks are hours apart and drift: read together, nothing is served before it is
//! asked, and no host is farther off than its bound.
//!
//! The hosts are network namespaces. Each runs this program again as [`one_host_of_the_test`], with a
//! clock of its own making; every record holds the true time in its offset, for the check.

use std::collections::HashMap;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearth_net::Secret;
use hearth_trace::clock::sync_point;
use hearth_trace::file::{Fact, NewProcess, Reader};
use hearth_trace::ship::{ClientConfig, LogClient, Server, party};
use hearth_trace::{Event, Flags, Layer, Op, Record, Source};

const HOSTS: u8 = 4;
const ROLE: &str = "HEARTH_TEST_HOST";
const DIRECTORY: &str = "HEARTH_TEST_DIRECTORY";
const SECRET: [u8; 32] = [8; 32];
/// Ports in namespaces that nobody else has.
const LOG_PORT: u16 = 7000;
const HOST_PORT: u16 = 7001;
/// How long hosts ask each other at least, which requests leave records, and how many of a host at least.
const SPAN_NS: u64 = 500_000_000;
const ONE_IN: u64 = 20;
const RECORDS_MIN: usize = 20;
/// A child that takes longer is ended.
const LIMIT: &str = "120";

#[test]
fn clocks_that_are_hours_apart_and_drift_are_one_clock_within_the_bound() {
    let name = "clocks_that_are_hours_apart_and_drift_are_one_clock_within_the_bound";
    let directory = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .unwrap();
    let Some(net) = Net::build() else {
        println!("skipped: {name}: needs root and `ip netns`");
        return;
    };
    let traces = directory.path().join("traces");
    let mut server = net.run("switch", directory.path());
    await_word(&mut server, "ready");
    let mut hosts: Vec<Running> = (0..HOSTS)
        .map(|host| net.run(&host.to_string(), directory.path()))
        .collect();
    for word in ["ready", "done", "over"] {
        for host in &mut hosts {
            await_word(host, word);
        }
        for host in &mut hosts {
            // A host that is over does not listen.
            let _ = host.child.stdin.as_ref().unwrap().write_all(b"on\n");
        }
    }
    drop(server.child.stdin.take());
    server.child.wait().unwrap();
    check(&traces);
}

fn check(traces: &Path) {
    let mut reader = Reader::open(&[traces]).expect("the server stored traces");
    assert_eq!(reader.missing(), &[] as &[String]);
    let mut asked: HashMap<u64, Event> = HashMap::new();
    let mut served: HashMap<u64, Event> = HashMap::new();
    let mut runs = Vec::new();
    reader
        .each_run(&mut |stream, events| runs.push((stream, events.to_vec())))
        .expect("files are there");
    let tables = reader.tables();
    assert_eq!(tables.hosts.len(), usize::from(HOSTS));
    let mut off = vec![(i64::MAX, i64::MIN); tables.hosts.len()];
    for (stream, events) in runs {
        let host = tables.process_of(stream).host.0 as usize;
        for event in events {
            let away = event.start - event.offset as i64;
            off[host] = (off[host].0.min(away), off[host].1.max(away));
            let map = match event.layer {
                Layer::PeerClient => &mut asked,
                _ => &mut served,
            };
            assert!(map.insert(event.request, event).is_none());
        }
    }
    for (request, serve) in &served {
        let ask = &asked[request];
        let (out, back) = (serve.start - ask.start, ask.end() - serve.end());
        // Times are whole nanoseconds, and a duration is rounded by itself.
        assert!(
            out >= -2 && back >= -2,
            "{request:x}: {out} ns out, {back} ns back"
        );
    }
    let least = usize::from(HOSTS) * RECORDS_MIN;
    assert!(served.len() >= least, "{} requests", served.len());
    for (a, first) in tables.hosts.iter().zip(&off) {
        for (b, second) in tables.hosts.iter().zip(&off) {
            let apart = (first.1 - second.0).max(second.1 - first.0).unsigned_abs();
            let bound = a.clock_bound.expect("measured") + b.clock_bound.expect("measured");
            assert!(
                apart <= bound,
                "{} and {}: {apart} ns, bound {bound}",
                a.name,
                b.name
            );
        }
    }
}

/// The work of one namespace; nothing when the tests are run.
#[test]
fn one_host_of_the_test() {
    let (Ok(role), Ok(directory)) = (std::env::var(ROLE), std::env::var(DIRECTORY)) else {
        return;
    };
    let directory = PathBuf::from(directory);
    match role.parse() {
        Ok(host) => run_host(host, &directory),
        Err(_) => run_server(&directory),
    }
}

fn say(word: &str) {
    let line = format!("\n{word}\n");
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("the test listens");
}

fn hear() {
    let mut line = String::new();
    // The end of the input is a word too.
    let _ = std::io::stdin().read_line(&mut line);
}

fn run_server(directory: &Path) {
    let addr = SocketAddr::from((Ipv4Addr::new(10, 99, 0, 254), LOG_PORT));
    let server = Server::start(addr, &directory.join("traces"), party(Secret::new(SECRET)));
    let _server = server.expect("a namespace of its own");
    say("ready");
    hear();
}

/// The clock of a host: hours off, and up to 200 millionths fast or slow.
fn local(host: u8, truth: u64) -> u64 {
    let ppm = [200, -200, 0, 90][usize::from(host)];
    let drift = i128::from(truth) * ppm / 1_000_000;
    let skew = i128::from(host) * 7_200_000_000_000;
    (i128::from(truth) + drift + skew) as u64
}

fn truth() -> u64 {
    sync_point().raw
}

/// One side of one request.
struct Half {
    layer: Layer,
    request: u64,
    from: u64,
    to: u64,
}

fn run_host(host: u8, directory: &Path) {
    let address = |host: u8| SocketAddr::from((Ipv4Addr::new(10, 99, 0, host + 1), HOST_PORT));
    let listener = TcpListener::bind(address(host)).expect("a namespace of its own");
    let served: Arc<Mutex<Vec<Half>>> = Arc::default();
    let halves = Arc::clone(&served);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let halves = Arc::clone(&halves);
            std::thread::spawn(move || serve(stream, &halves));
        }
    });
    let rings = directory.join(format!("rings-{host}"));
    let log = SocketAddr::from((Ipv4Addr::new(10, 99, 0, 254), LOG_PORT));
    let mut config =
        ClientConfig::here(log, party(Secret::new(SECRET)), directory).expect("a machine");
    config.host = (format!("host{host}"), u128::from(host) + 1);
    config.spill = directory.join(format!("spill-{host}"));
    config.raw = Box::new(move || local(host, truth()));
    let mut client = LogClient::start(&rings, config).expect("a directory of its own");
    let began = truth();
    say("ready");
    hear();
    let asked = ask(host, address((host + 1) % HOSTS));
    say("done");
    hear();
    let served = std::mem::take(&mut *served.lock().expect("nobody panics"));
    write(&mut client, host, began, &[asked, served]);
    let finished = client.finish(Duration::from_secs(120)).expect("a server");
    assert!(finished.undelivered.is_none(), "{finished:?}");
    say("over");
}

fn ask(host: u8, peer: SocketAddr) -> Vec<Half> {
    let mut stream = TcpStream::connect(peer).expect("all are ready");
    stream.set_nodelay(true).expect("TCP");
    let mut halves = Vec::new();
    let until = truth() + SPAN_NS;
    let mut count = 0;
    while truth() < until || halves.len() < RECORDS_MIN {
        count += 1;
        let request = u64::from(host) << 48 | count;
        let from = truth();
        stream.write_all(&request.to_le_bytes()).expect("the peer");
        stream.read_exact(&mut [0; 1]).expect("the peer");
        let to = truth();
        if count % ONE_IN == 0 {
            halves.push(Half {
                layer: Layer::PeerClient,
                request,
                from,
                to,
            });
        }
    }
    halves
}

fn serve(mut stream: TcpStream, halves: &Mutex<Vec<Half>>) {
    let mut word = [0; 8];
    while stream.read_exact(&mut word).is_ok() {
        let from = truth();
        let request = u64::from_le_bytes(word);
        let to = truth();
        if stream.write_all(&[1]).is_err() {
            return;
        }
        if (request & 0xffff_ffff) % ONE_IN == 0 {
            let half = Half {
                layer: Layer::PeerServer,
                request,
                from,
                to,
            };
            halves.lock().expect("nobody panics").push(half);
        }
    }
}

fn write(client: &mut LogClient, host: u8, began: u64, threads: &[Vec<Half>]) {
    let writer = client.collection().writer();
    let process = NewProcess {
        pid: std::process::id(),
        start_time: u64::from(host),
        image: 0,
        clock: 2,
        start: local(host, began),
    };
    let process = writer.process(&process).expect("memory");
    for at in [began, truth()] {
        let ticks = local(host, at);
        let fact = Fact::Clock {
            clock: 2,
            ticks,
            raw: ticks,
            real: ticks,
            window: 1,
        };
        writer.fact(&fact).expect("memory");
    }
    for (slot, halves) in (0..).zip(threads) {
        let stream = writer.stream(process, (slot, 0), slot).expect("memory");
        let records: Vec<Record> = (1..)
            .zip(halves)
            .map(|(seq, half)| record(host, seq, half))
            .collect();
        writer.records(stream, &records).expect("memory");
    }
}

fn record(host: u8, seq: u64, half: &Half) -> Record {
    let start = local(host, half.from);
    let op = match half.layer {
        Layer::PeerClient => Op::PeerGet,
        _ => Op::ServeGet,
    };
    Record {
        start,
        took: (local(host, half.to) - start) as u32,
        op: op as u8,
        layer: half.layer as u8,
        flags: Flags::default(),
        offset: half.from,
        asked: 8,
        result: 1,
        file: 0,
        thread: 0,
        request: half.request,
        near: 0,
        peer: 0,
        depth: 0,
        seq,
    }
}

struct Running {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be over.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn await_word(running: &mut Running, word: &str) {
    let mut heard = String::new();
    loop {
        let mut line = String::new();
        let count = running.said.read_line(&mut line).expect("a pipe");
        assert!(count > 0, "it ended before it said {word}:\n{heard}");
        if line.trim() == word {
            return;
        }
        heard += &line;
    }
}

/// Namespaces on one switch; gone when dropped.
struct Net(String);

impl Net {
    fn build() -> Option<Net> {
        let net = Net(format!("hearth-clocks-{}", std::process::id()));
        net.ip("netns add NET-switch")?;
        net.ip("-n NET-switch link add br0 type bridge")?;
        net.ip("-n NET-switch addr add 10.99.0.254/24 dev br0")?;
        net.ip("-n NET-switch link set br0 up")?;
        for host in 0..HOSTS {
            let at = |line: &str| {
                let line = line.replace("HOST", &host.to_string());
                net.ip(&line.replace("NUMBER", &(host + 1).to_string()))
            };
            at("netns add NET-HOST")?;
            at("-n NET-switch link add vHOST type veth peer name eth0 netns NET-HOST")?;
            at("-n NET-switch link set vHOST master br0 up")?;
            at("-n NET-HOST addr add 10.99.0.NUMBER/24 dev eth0")?;
            at("-n NET-HOST link set eth0 up")?;
        }
        Some(net)
    }

    fn ip(&self, line: &str) -> Option<()> {
        let line = line.replace("NET", &self.0);
        let mut command = Command::new("ip");
        command.args(line.split(' ')).stderr(Stdio::null());
        command.status().ok()?.success().then_some(())
    }

    fn run(&self, role: &str, directory: &Path) -> Running {
        let this = std::env::current_exe().expect("Linux");
        let mut child = Command::new("timeout")
            .args([LIMIT, "ip", "netns", "exec"])
            .arg(format!("{}-{role}", self.0))
            .arg(this)
            .args(["--exact", "one_host_of_the_test", "--nocapture"])
            .env(ROLE, role)
            .env(DIRECTORY, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("coreutils and iproute2");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, said }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in ["0", "1", "2", "3", "switch"] {
            // Those that were not made cannot be taken away.
            let _ = self.ip(&format!("netns del NET-{name}"));
        }
    }
}
