//! A responder of HTTP for one page. It reads one request of a bounded length, answers, and closes the connection.
//!
//! 1. At most [`CONNECTIONS_MAX`] connections are open; more are closed at once.
//! 2. None is open for longer than [`CONNECTION_SPAN`], whatever its client does.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hearth_set::failure::{Failure, OrFail};

use super::Page;

/// Connections at once. A server of metrics opens one at a time.
const CONNECTIONS_MAX: usize = 8;

/// How long one connection may take, from its first byte to its last.
const CONNECTION_SPAN: Duration = Duration::from_secs(5);

/// Longest request with its headers; Prometheus sends some 300 bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// After a failure to accept: the cause, mostly too many descriptors, may pass.
const PAUSE: Duration = Duration::from_secs(1);

/// Version 0.0.4 of the text format, which readers of OpenMetrics take too.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Listens; nobody is answered yet.
pub(in crate::agent) struct Server {
    listener: TcpListener,
}

/// An answer, but for its date, which nobody needs.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

/// The parts of a request's first line that matter.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Metrics(Wanted),
    OtherPath,
    OtherMethod,
    Malformed,
    TooLong,
}

/// How much of an answer a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    HeadersOnly,
}

impl Server {
    /// Listens at an address.
    pub(in crate::agent) fn bind(at: SocketAddr) -> Result<Server, Failure> {
        let listener = TcpListener::bind(at).or_fail(|| format!("cannot serve metrics at {at}"));
        let hint = "name another address: --metrics 127.0.0.1:9700";
        let listener = listener.map_err(|failure| failure.hint(hint))?;
        Ok(Server { listener })
    }

    /// The address, with the port that the system chose if it was told to.
    pub(in crate::agent) fn address(&self) -> Result<SocketAddr, Failure> {
        let address = self.listener.local_addr();
        address.or_fail(|| "cannot learn the port of metrics".to_owned())
    }

    /// Answers from now on to the end of the process.
    pub(in crate::agent) fn serve(self, page: Page) -> Result<(), Failure> {
        let page = Arc::new(page);
        let accepting = move || self.accept_all(&page);
        let thread = thread::Builder::new().name("metrics".to_owned());
        let started = thread.spawn(accepting).map(drop);
        started.or_fail(|| "cannot start the thread of metrics".to_owned())
    }

    fn accept_all(&self, page: &Arc<Page>) {
        let open = Arc::default();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => answer_apart(stream, Slot::take(&open), Arc::clone(page)),
                Err(error) => {
                    log::debug!("cannot take a connection for metrics: {error}");
                    thread::park_timeout(PAUSE);
                }
            }
        }
    }
}

/// One of the connections that are open at once.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Option<Slot> {
        let slot = Slot(Arc::clone(open));
        // Only counted, nothing is published through it.
        let taken = open.fetch_add(1, Ordering::Relaxed);
        (taken < CONNECTIONS_MAX).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer_apart(stream: TcpStream, slot: Option<Slot>, page: Arc<Page>) {
    let Some(slot) = slot else {
        return;
    };
    let answering = move || {
        if let Err(error) = answer(&stream, &page) {
            log::debug!("a reader of metrics went away: {error}");
        }
        drop(slot);
    };
    let thread = thread::Builder::new().name("metrics-answer".to_owned());
    if let Err(error) = thread.spawn(answering) {
        log::debug!("cannot answer a reader of metrics: {error}");
    }
}

fn answer(stream: &TcpStream, page: &Page) -> io::Result<()> {
    let end = Instant::now() + CONNECTION_SPAN;
    let request = read(stream, end)?;
    let wanted = match request {
        Request::Metrics(wanted) => wanted,
        _ => Wanted::All,
    };
    let bytes = answer_to(&request, page).bytes(wanted);
    write(stream, &bytes, end)
}

fn answer_to(request: &Request, page: &Page) -> Answer {
    let refusal = |status, body: &str| Answer {
        status,
        kind: "text/plain; charset=utf-8",
        body: format!("{body}\n"),
    };
    match request {
        Request::Metrics(_) => match page.text() {
            Some(body) => Answer {
                status: "200 OK",
                kind: TEXT_FORMAT,
                body,
            },
            None => refusal("503 Service Unavailable", "the agent ends"),
        },
        Request::OtherPath => refusal("404 Not Found", "metrics are at /metrics"),
        Request::OtherMethod => refusal("405 Method Not Allowed", "use GET or HEAD"),
        Request::Malformed => refusal("400 Bad Request", "this is no request of HTTP"),
        Request::TooLong => refusal(
            "431 Request Header Fields Too Large",
            "the request is too long",
        ),
    }
}

impl Answer {
    fn bytes(&self, wanted: Wanted) -> Vec<u8> {
        let (status, kind, length) = (self.status, self.kind, self.body.len());
        let allow = match status.starts_with("405") {
            true => "Allow: GET, HEAD\r\n",
            false => "",
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
        );
        let body = match wanted {
            Wanted::All => self.body.as_str(),
            Wanted::HeadersOnly => "",
        };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// Reads to the empty line behind the headers.
fn read(mut stream: &TcpStream, end: Instant) -> io::Result<Request> {
    let mut bytes = [0; REQUEST_BYTES_MAX];
    let mut filled = 0;
    loop {
        if is_whole(&bytes[..filled]) {
            return Ok(Request::parse(&bytes[..filled]));
        }
        if filled == bytes.len() {
            return Ok(Request::TooLong);
        }
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn write(mut stream: &TcpStream, bytes: &[u8], end: Instant) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        stream.set_write_timeout(Some(left(end)?))?;
        match stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Time that a connection has left; an error if that is none.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|end| end == b"\r\n\r\n") || bytes.windows(2).any(|end| end == b"\n\n")
}

impl Request {
    fn parse(bytes: &[u8]) -> Request {
        let line = bytes
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let Ok(line) = std::str::from_utf8(line) else {
            return Request::Malformed;
        };
        let words: Vec<&str> = line.trim_end_matches('\r').split(' ').collect();
        let [method, target, version] = words[..] else {
            return Request::Malformed;
        };
        if !version.starts_with("HTTP/1.") {
            return Request::Malformed;
        }
        let path = target.split('?').next().unwrap_or_default();
        match (method, path) {
            ("GET", "/metrics") => Request::Metrics(Wanted::All),
            ("HEAD", "/metrics") => Request::Metrics(Wanted::HeadersOnly),
            ("GET" | "HEAD", _) => Request::OtherPath,
            _ => Request::OtherMethod,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_understood_by_its_first_line() {
        let parsed = |line: &str| Request::parse(format!("{line}\r\nHost: h\r\n\r\n").as_bytes());
        assert_eq!(
            parsed("GET /metrics HTTP/1.1"),
            Request::Metrics(Wanted::All)
        );
        assert_eq!(
            parsed("GET /metrics?name=x HTTP/1.0"),
            Request::Metrics(Wanted::All)
        );
        assert_eq!(
            parsed("HEAD /metrics HTTP/1.1"),
            Request::Metrics(Wanted::HeadersOnly)
        );
        assert_eq!(parsed("GET / HTTP/1.1"), Request::OtherPath);
        assert_eq!(parsed("POST /metrics HTTP/1.1"), Request::OtherMethod);
        for line in ["", "GET /metrics", "GET  /metrics HTTP/1.1", "\u{16}\u{3}"] {
            assert_eq!(parsed(line), Request::Malformed, "{line:?}");
        }
        assert_eq!(Request::parse(b"\xff\xfe\n\n"), Request::Malformed);
    }

    #[test]
    fn an_answer_without_a_body_tells_its_length() {
        let answer = Answer {
            status: "200 OK",
            kind: TEXT_FORMAT,
            body: "hearth 1\n".to_owned(),
        };
        let bytes = answer.bytes(Wanted::HeadersOnly);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("Content-Length: 9\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n"), "{text}");
    }
}
