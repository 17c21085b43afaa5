//! `hearth up --metrics`: agents tell their counts to Prometheus and programs like it, and go on whatever asks them.

#![allow(clippy::print_stdout, reason = "the summary counts what is skipped")]

#[path = "support/fixture.rs"]
mod fixture;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use fixture::{Fixture, finish, kill, sh, skip, skipped, text, until, well};
use serde_json::Value;

/// Reads a page with Prometheus' own parser and says how many samples and kinds it has.
const PARSER: &str = "\
import sys
from prometheus_client.parser import text_string_to_metric_families as families
found = list(families(sys.stdin.read()))
assert all(family.documentation and family.type != 'unknown' for family in found)
print(len(found), sum(len(family.samples) for family in found))";

/// A package of Python is fetched once, and kept for later runs.
const PACKAGE: &str = "prometheus_client==0.22.1";

/// Any port that is free.
const ANY: [&str; 2] = ["--metrics", "0"];

/// The addresses of a set's pages, in the order of its agents.
fn pages(fixture: &Fixture) -> Vec<SocketAddr> {
    let (agents, _) = fixture.status();
    let at = agents.iter().map(|agent| agent["metrics"].as_str());
    at.map(|at| at.expect("it tells metrics").parse().expect("an address"))
        .collect()
}

/// Asks, and reads to the end.
fn ask(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(fixture::LIMIT)).expect("ours");
    stream.write_all(request).expect("it reads");
    let mut answer = Vec::new();
    // A refusal before all was read may end in a reset.
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

fn page(at: SocketAddr) -> String {
    let answer = ask(at, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let kind = "Content-Type: text/plain; version=0.0.4; charset=utf-8";
    assert!(head.contains(kind), "{head}");
    let length = format!("Content-Length: {}", body.len());
    assert!(head.contains(&length), "{head}, not {length}");
    body.to_owned()
}

/// The value of a sample, by its name and labels.
fn value(page: &str, sample: &str) -> u64 {
    let mut lines = page.lines().filter_map(|line| line.strip_prefix(sample));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("no {sample} in\n{page}"));
    line.trim().parse().expect("a number")
}

fn counter(status: &Value, name: &str) -> u64 {
    let counter = &status["node"]["counters"][name];
    counter.as_u64().expect("a number")
}

#[test]
fn pages_say_what_status_says() {
    if skipped("pages_say_what_status_says", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let words = fixture.up(2, &ANY);
    let pages = pages(&fixture);
    assert_eq!(pages.len(), 2);
    for at in &pages {
        assert!(words.contains(&format!("http://{at}/metrics")), "{words}");
        assert!(at.ip().is_loopback(), "{at}");
    }
    fs::write(fixture.store().join("in"), vec![1; 1 << 20]).expect("the store takes it");
    sh(&fixture.mount(0), "cat in > /dev/null; echo word > out");
    sh(&fixture.mount(1), "cat in > /dev/null");
    // The operating system reads ahead: both must be looked at when all is quiet.
    until("page and status agree", fixture::LIMIT, || {
        let (agents, _) = fixture.status();
        let agrees = |(node, at): (usize, &SocketAddr)| {
            let (page, status) = (page(*at), &agents[node]);
            let of = |sample: &str, labels: &str| {
                value(&page, &format!("{sample}{{agent=\"{node}\"{labels}}}"))
            };
            of("hearth_read_bytes_total", ",source=\"peer\"") == counter(status, "peer_bytes")
                && of("hearth_read_bytes_total", ",source=\"store\"")
                    == counter(status, "store_bytes")
                && of("hearth_messages_sent_total", "") == counter(status, "messages_sent")
                && of("hearth_store_requests_total", ",kind=\"read\"")
                    == counter(status, "store_read_requests")
                && of("hearth_peers_up", "") == 1
        };
        pages.iter().enumerate().all(agrees)
    });
    let read: u64 = ["pool", "peer", "store"]
        .iter()
        .map(|source| format!("hearth_read_bytes_total{{agent=\"1\",source=\"{source}\"}}"))
        .map(|sample| value(&page(pages[1]), &sample))
        .sum();
    assert!(read >= 1 << 20, "{read}");
    fixture.down();
}

#[test]
fn prometheus_reads_the_page() {
    let test = "prometheus_reads_the_page";
    if skipped(test, &["python3"]) {
        return;
    }
    let fixture = Fixture::new();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prometheus_client");
    if !kept.is_dir() {
        let fresh = fixture.path("fresh");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
        if !finish(pip.arg(&fresh).arg(PACKAGE)).status.success() {
            return skip(test, "pip cannot bring prometheus_client");
        }
        sh(
            fresh.parent().expect("a directory"),
            &format!("cp -r fresh '{}'", kept.display()),
        );
    }
    fixture.up(1, &ANY);
    let file = fixture.path("page");
    fs::write(&file, page(pages(&fixture)[0])).expect("our own directory");
    let mut python = Command::new("python3");
    python.args(["-c", PARSER]).env("PYTHONPATH", &kept);
    let parsed = finish(python.stdin(fs::File::open(&file).expect("it was written")));
    well(&parsed);
    let numbers = text(&parsed.stdout);
    let mut numbers = numbers.split_whitespace().map(|word| word.parse::<u32>());
    let mut next = || numbers.next().expect("two numbers").expect("a number");
    let (families, samples) = (next(), next());
    assert!(families > 25 && samples > families, "{families}, {samples}");
    fixture.down();
}

#[test]
fn requests_of_all_kinds_are_answered() {
    if skipped("requests_of_all_kinds_are_answered", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &ANY);
    let at = pages(&fixture)[0];
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(8 << 10));
    for (request, answer) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "200"),
        ("\u{16}\u{3}\u{1}\n\n", "400"),
        (&long, "431"),
    ] {
        let told = ask(at, request.as_bytes());
        assert!(told.starts_with(&format!("HTTP/1.1 {answer}")), "{told}");
    }
    fixture.down();
}

/// A client that connects and says nothing holds a place for some seconds. Programs and commands notice nothing.
#[test]
fn silent_and_half_open_clients_keep_nobody_out_for_long() {
    if skipped("silent_and_half_open_clients_keep_nobody_out_for_long", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(1, &ANY);
    let at = pages(&fixture)[0];
    let connect = |_| TcpStream::connect(at).expect("it listens");
    let mut silent: Vec<TcpStream> = (0..32).map(connect).collect();
    for (index, stream) in silent.iter_mut().enumerate() {
        // The first take all places, and keep them.
        match index {
            0..8 => {}
            8..16 => drop(stream.write_all(b"GET /metr")),
            _ => drop(stream.shutdown(Shutdown::Write)),
        }
    }
    sh(&fixture.mount(0), "echo word > out; cat out");
    assert_eq!(fixture.status().1, 0);
    until("a place is free again", fixture::LIMIT, || {
        ask(at, b"GET /metrics HTTP/1.1\r\n\r\n").contains("hearth_agent_info")
    });
    fixture.down();
    drop(silent);
}

#[test]
fn pages_of_other_agents_live_on_when_one_is_gone() {
    if skipped("pages_of_other_agents_live_on_when_one_is_gone", &[]) {
        return;
    }
    let fixture = Fixture::new();
    fixture.up(2, &ANY);
    let pages = pages(&fixture);
    kill(&fixture.agents()[..1]);
    assert!(TcpStream::connect(pages[0]).is_err());
    until("the loss is told", fixture::LIMIT, || {
        value(&page(pages[1]), "hearth_peers_up{agent=\"1\"}") == 0
    });
    assert_eq!(value(&page(pages[1]), "hearth_alarms{agent=\"1\"}"), 1);
    let output = fixture.run(&["down"]);
    assert!(output.status.code() < Some(2), "{output:?}");
    fixture.assert_clean();
}

#[test]
fn a_taken_or_wrong_address_is_told_with_a_way_out() {
    if skipped("a_taken_or_wrong_address_is_told_with_a_way_out", &[]) {
        return;
    }
    let fixture = Fixture::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it has one").port().to_string();
    for (address, words) in [
        (port.as_str(), "cannot serve metrics at 127.0.0.1:"),
        ("nonsense", "use PORT for programs of this host"),
        ("127.0.0.1", "use PORT for programs of this host"),
    ] {
        let mut up = fixture.hearth(&["up", "--metrics", address, "--store"]);
        let output = finish(up.arg(fixture.store()));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = text(&output.stderr);
        assert!(told.contains(words), "{told}");
        fixture.assert_clean();
    }
    let many = ["up", "--agents", "2", "--metrics", "65535", "--store"];
    let output = finish(fixture.hearth(&many).arg(fixture.store()));
    let told = text(&output.stderr);
    assert!(told.contains("at ports from 65535 on"), "{told}");
    fixture.assert_clean();
}
