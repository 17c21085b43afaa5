//! The transports against each other: latency and bandwidth over loopback, over a link of limited
//! rate, and over one that loses one datagram in a hundred.
//!
//! The links are modelled: a relay in this process passes on bytes or datagrams at the link's rate.
//! TCP has no row with loss, since a relay of streams cannot lose one of its packets. Transports that need one host
//! have rows for loopback alone. MPI is measured by two ranks of a real job ([`ranks`]), for each library that is
//! there.

mod link;
pub(crate) mod ranks;

use hearth_agent::net::Carrier;
use hearth_agent::net::{Endpoint, Handler, Limits, NetConfig, PeerId, Secret, Transport};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::{BenchReport, median, rounded};
use link::Link;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const REQUEST_LEN: usize = 64;
const ANSWER_LEN: usize = 4 << 10;
const FRAME_LEN: usize = 256 << 10;
/// Frames of one measurement of bandwidth.
const FRAMES: usize = 96;
const ROUND_TRIPS: usize = 300;
/// Only a broken transport takes so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes a second of the links of limited rate.
const RATE: f64 = 40e6;

const LINKS: [(&str, Link); 3] = [
    ("loopback", Link::OPEN),
    ("40 MB/s", Link::of(RATE, 0)),
    ("40 MB/s, 1 % lost", Link::of(RATE, 100)),
];

/// Figures of one transport on one link, from one turn.
struct Found {
    latency_us: f64,
    bytes_per_s: f64,
}

pub(crate) fn run(turns: usize) -> Result<BenchReport, Failure> {
    let mut report = BenchReport::new("transports", "none");
    for (name, link) in LINKS {
        let carriers = Carrier::ALL
            .into_iter()
            .filter(|carrier| crosses(*carrier, link));
        let mut found: Vec<(Carrier, Vec<Found>)> =
            carriers.map(|carrier| (carrier, Vec::new())).collect();
        for _ in 0..turns {
            for (carrier, figures) in &mut found {
                let one = measure(*carrier, link);
                figures.push(one.or_fail(|| format!("cannot measure {carrier} over {name}"))?);
            }
        }
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(carrier, figures)| (carrier.name().to_owned(), figures))
            .collect();
        if link.rate().is_none() {
            found.extend(ranks::measure_all(turns)?);
        }
        tell(&mut report, name, link, &found);
    }
    report.sum_up("verified", true);
    Ok(report)
}

fn crosses(carrier: Carrier, link: Link) -> bool {
    match carrier {
        Carrier::Tcp => !link.loses(),
        Carrier::Unix | Carrier::Shm => link.rate().is_none(),
        Carrier::Datagrams(_) => true,
    }
}

fn tell(report: &mut BenchReport, name: &str, link: Link, found: &[(String, Vec<Found>)]) {
    let middle = |figures: &[Found], of: fn(&Found) -> f64| {
        median(&figures.iter().map(of).collect::<Vec<_>>())
    };
    let latency = |figures: &[Found]| middle(figures, |found| found.latency_us);
    let bandwidth = |figures: &[Found]| middle(figures, |found| found.bytes_per_s);
    let of = |wanted: Carrier| found.iter().find(|(system, _)| system == wanted.name());
    let tcp = of(Carrier::Tcp);
    if let Some(((_, unix), (_, shm))) = of(Carrier::Unix).zip(of(Carrier::Shm)) {
        let ratio = rounded(latency(shm) / latency(unix));
        report.sum_up("shm_latency_over_unix", ratio);
        let ratio = rounded(bandwidth(shm) / bandwidth(unix));
        report.sum_up("shm_bandwidth_over_unix", ratio);
    }
    for (system, figures) in found {
        let bandwidth = bandwidth(figures);
        report.row(system, name, "round trip p50", latency(figures), "us");
        report.row(system, name, "bandwidth", bandwidth / 1e6, "MB/s");
        if let Some(rate) = link.rate() {
            let loss = if link.loses() { "_with_loss" } else { "" };
            report.sum_up(
                &format!("{system}_of_link{loss}"),
                rounded(bandwidth / rate),
            );
        } else if let Some((_, base)) = tcp {
            let ratio = latency(figures) / latency(base);
            report.sum_up(&format!("{system}_latency_over_tcp"), rounded(ratio));
        }
    }
}

fn measure(carrier: Carrier, link: Link) -> io::Result<Found> {
    Pair::start(carrier, link)?.measure()
}

fn start_server(endpoint: Endpoint, members: Vec<SocketAddr>) -> io::Result<Served> {
    let (said, gone) = channel();
    let server = Arc::new(Server {
        transport: OnceLock::new(),
        wrong: Mutex::default(),
        gone: Mutex::new(said),
    });
    let handler = Arc::clone(&server) as Arc<dyn Handler>;
    let transport = endpoint.start(config(0, members), handler);
    let transport = transport.map_err(io::Error::other)?;
    server.transport.get_or_init(|| Arc::clone(&transport));
    Ok(Served { transport, gone })
}

/// A server that runs.
struct Served {
    transport: Arc<dyn Transport>,
    /// Says when the client has gone.
    gone: Receiver<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.transport.shutdown();
    }
}

impl Pair {
    fn measure(&self) -> io::Result<Found> {
        let pair = self;
        let trips = pair.round_trips(ROUND_TRIPS)?;
        let trips: Vec<f64> = trips.iter().map(|trip| trip.as_secs_f64() * 1e6).collect();
        let start = Instant::now();
        for number in 0..FRAMES as u64 {
            pair.ask(number, Kind::Keep, FRAME_LEN)?;
        }
        let last = FRAMES as u64;
        pair.ask(last, Kind::Answer, REQUEST_LEN)?;
        pair.heard(last, ANSWER_LEN)?;
        Ok(Found {
            latency_us: median(&trips),
            bytes_per_s: (FRAMES * FRAME_LEN) as f64 / start.elapsed().as_secs_f64(),
        })
    }
}

/// The server's treatment of a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Keep,
    Answer,
}

/// A client, member 1, of a server, member 0, with a link between them.
struct Pair {
    client: Arc<dyn Transport>,
    heard: Receiver<Heard>,
    /// If it is in this process.
    _server: Option<Served>,
}

enum Heard {
    Up,
    Answer(u64, usize, bool),
}

/// How long so many round trips take, one after another, of a question to a server in one network and its answer to a
/// client in another, over TCP. Networks are files that threads enter them by.
pub(super) fn round_trips(
    (server, client): ((&Path, IpAddr), (&Path, IpAddr)),
    count: usize,
) -> io::Result<Vec<Duration>> {
    let enter = |network: &Path| -> io::Result<()> {
        let file = std::fs::File::open(network)?;
        Ok(move_into_link_name_space(
            file.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    };
    let bind =
        |addr| Endpoint::bind(Carrier::Tcp, SocketAddr::new(addr, 0)).map_err(io::Error::other);
    // All that a transport starts is in the network of the thread that starts it.
    let work = || {
        enter(server.0)?;
        let far = bind(server.1)?;
        enter(client.0)?;
        let near = bind(client.1)?;
        let members = vec![far.local_addr()?, near.local_addr()?];
        enter(server.0)?;
        let served = start_server(far, members.clone())?;
        enter(client.0)?;
        Pair::of(near, members, Some(served))?.round_trips(count)
    };
    std::thread::scope(|scope| {
        scope
            .spawn(work)
            .join()
            .expect("a measurement does not panic")
    })
}

impl Pair {
    /// Asks so often, each time after the last answer.
    fn round_trips(&self, count: usize) -> io::Result<Vec<Duration>> {
        let trip = |number| {
            let start = Instant::now();
            self.ask(number, Kind::Answer, REQUEST_LEN)?;
            self.heard(number, ANSWER_LEN)?;
            Ok(start.elapsed())
        };
        (0..count as u64).map(trip).collect()
    }

    fn start(carrier: Carrier, link: Link) -> io::Result<Pair> {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let bind = || Endpoint::bind(carrier, loopback).map_err(io::Error::other);
        let (near, far) = (bind()?, bind()?);
        let (there, here) = (far.local_addr()?, near.local_addr()?);
        let relayed = link.lay(carrier, there)?;
        let server = start_server(far, vec![there, here])?;
        Pair::of(near, vec![relayed, here], Some(server))
    }

    /// A client whose server is wherever the first member is.
    fn of(
        endpoint: Endpoint,
        members: Vec<SocketAddr>,
        server: Option<Served>,
    ) -> io::Result<Pair> {
        let (said, heard) = channel();
        let client = Arc::new(Client(Mutex::new(said)));
        let started = endpoint.start(config(1, members), client);
        let pair = Pair {
            client: started.map_err(io::Error::other)?,
            heard,
            _server: server,
        };
        match pair.next()? {
            Heard::Up => Ok(pair),
            Heard::Answer(..) => Err(io::Error::other("an answer before a question")),
        }
    }

    /// Sends frame `number` to the server.
    fn ask(&self, number: u64, kind: Kind, len: usize) -> io::Result<()> {
        let mut head = number.to_le_bytes().to_vec();
        head.push(u8::from(kind == Kind::Answer));
        let payload = vec![number as u8; len];
        self.client
            .send(PeerId(0), &head, &[IoSlice::new(&payload)])
            .map_err(io::Error::other)
    }

    /// Waits for answer `number`, which says that all frames before it were right.
    fn heard(&self, number: u64, len: usize) -> io::Result<()> {
        match self.next()? {
            Heard::Answer(n, got, true) if (n, got) == (number, len) => Ok(()),
            Heard::Answer(..) => Err(io::Error::other("wrong bytes arrived")),
            Heard::Up => Err(io::Error::other("the connection broke")),
        }
    }

    fn next(&self) -> io::Result<Heard> {
        let heard = self.heard.recv_timeout(PATIENCE);
        heard.map_err(|_| io::Error::other("nothing came for a minute"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.client.shutdown();
    }
}

fn config(me: u32, members: Vec<SocketAddr>) -> NetConfig {
    NetConfig {
        me: PeerId(me),
        incarnation: 1,
        succeeds: 0,
        members,
        secret: Secret::new([1; 32]),
        job: "bench".into(),
        limits: Limits::default(),
    }
}

/// Checks every frame, and answers those that ask for it from inside of the call.
struct Server {
    transport: OnceLock<Arc<dyn Transport>>,
    wrong: Mutex<bool>,
    gone: Mutex<Sender<()>>,
}

impl Handler for Server {
    fn on_up(&self, _: PeerId, _: u64) {}

    fn on_down(&self, _: PeerId, _: &str) {
        // Nobody waits for a client of this very process.
        let _ = self.gone.lock().expect("nobody panics with it").send(());
    }

    fn on_frame(&self, from: PeerId, head: &[u8], payload: Vec<u8>) {
        let mut wrong = self.wrong.lock().expect("nobody panics with it");
        *wrong |= payload.iter().any(|byte| *byte != head[0]);
        if head[8] == 0 {
            return;
        }
        let answer = vec![u8::from(!*wrong); ANSWER_LEN];
        let sent = self
            .transport
            .wait()
            .send(from, &head[..8], &[IoSlice::new(&answer)]);
        if let Err(error) = sent {
            log::warn!("an answer of the benchmark was not sent: {error}");
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn on_timer(&self) {}
}

/// Hands answers to who waits for them.
struct Client(Mutex<Sender<Heard>>);

impl Client {
    fn tell(&self, heard: Heard) {
        // After an error nobody listens.
        let _ = self.0.lock().expect("nobody panics with it").send(heard);
    }
}

impl Handler for Client {
    fn on_up(&self, _: PeerId, _: u64) {
        self.tell(Heard::Up);
    }

    fn on_down(&self, _: PeerId, _: &str) {}

    fn on_frame(&self, _: PeerId, head: &[u8], payload: Vec<u8>) {
        let number = u64::from_le_bytes(head[..8].try_into().expect("the server's head"));
        let right = payload.iter().all(|byte| *byte == 1);
        self.tell(Heard::Answer(number, payload.len(), right));
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn on_timer(&self) {}
}
