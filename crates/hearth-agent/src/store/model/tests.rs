use hearth_shm::monotonic_ns;

use super::*;
use crate::store::Posix;
use crate::store::testing::{Scratch, content, fd, file, part, pool};

const MB: u64 = 1_000_000;

fn work(config: &str, first_server: u64, offset: u64, len: u64) -> Vec<(usize, u64)> {
    Extent {
        first_server,
        offset,
        len,
    }
    .work(&config.parse().unwrap())
}

fn model(scratch: &Scratch, config: &str) -> Model<Posix> {
    let config: ModelConfig = config.parse().unwrap();
    let queue = ServerQueue::open(&scratch.path().join("queue"), config.servers).unwrap();
    Model::new(Posix, config, queue)
}

#[test]
fn the_default_is_the_testbed_that_was_measured() {
    let config = ModelConfig::default();
    assert_eq!(
        config.to_string(),
        "servers=1,service_us=580,bandwidth_mb=110,stripe_kb=64"
    );
    // A row of 1024 floats: 0.58 ms and 37 us of transfer.
    assert_eq!(work("", 5, 4096, 4096), [(0, 580_000 + 37_236)]);
}

#[test]
fn a_request_has_one_piece_for_each_server_it_touches() {
    let config = "servers=4,service_us=100,bandwidth_mb=1,stripe_kb=4";
    let (k, service) = (1024, 100_000);
    let bytes = |n: u64| service + n * 1000;
    assert_eq!(work(config, 0, 0, 4 * k), [(0, bytes(4 * k))]);
    assert_eq!(
        work(config, 0, 3 * k, 2 * k),
        [(0, bytes(k)), (1, bytes(k))]
    );
    assert_eq!(
        work(config, 2, 4 * k, 8 * k),
        [(0, bytes(4 * k)), (3, bytes(4 * k))]
    );
    let around = work(config, 0, 2 * k, 16 * k);
    let all_equal: Vec<_> = (0..4).map(|server| (server, bytes(4 * k))).collect();
    assert_eq!(
        around, all_equal,
        "the first stripe is served in two halves by one piece"
    );
    assert_eq!(
        work(config, 7, 0, 0),
        [(3, service)],
        "no bytes still ask a server"
    );
    assert_eq!(work(config, u64::MAX, u64::MAX, 1).len(), 1);
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let error = |text: &str| text.parse::<ModelConfig>().unwrap_err().to_string();
    assert_eq!(
        error("servers"),
        "model option `servers` is not `key=value`"
    );
    assert_eq!(
        error("servers=0"),
        "model option `servers=0` is not a number from 1 to 511"
    );
    assert_eq!(
        error("stripe_kb=x"),
        "model option `stripe_kb=x` is not a number from 4 to 1048576"
    );
    assert_eq!(
        error("speed=9"),
        "unknown model option `speed`: expected servers, service_us, bandwidth_mb or stripe_kb"
    );
}

#[test]
fn nothing_travels_from_beyond_the_end_of_the_file() {
    let file = file(&[1; 100]);
    let len = |offset, len| Extent::readable(fd(&file), offset, len).unwrap().len;
    assert_eq!(
        (len(0, 64), len(90, 64), len(100, 64), len(500, 64)),
        (64, 10, 0, 0)
    );
    assert_eq!(Extent::writable(fd(&file), 90, 64).unwrap().len, 64);
}

#[test]
fn a_call_takes_at_least_its_service_and_does_the_real_work() {
    let scratch = Scratch::new();
    let store = model(&scratch, "servers=2,service_us=1000,stripe_kb=4");
    let (pool, file) = (pool(2), file(b"before"));
    let began = monotonic_ns();
    assert_eq!(store.read(fd(&file), 0, &[part(0, 0, 6)], &pool), Ok(6));
    store.write(fd(&file), 6, &[part(0, 0, 6)], &pool).unwrap();
    store.write_bytes(fd(&file), 12, b"after").unwrap();
    store.truncate(fd(&file), 16).unwrap();
    store.sync(fd(&file), SyncKind::All).unwrap();
    assert_eq!(store.read_vec(fd(&file), 6, 100).unwrap(), b"beforeafte");
    assert!(
        monotonic_ns() - began >= 6 * MB,
        "six calls of a millisecond"
    );
    assert_eq!(content(&file), b"beforebeforeafte");
}

// The model of the closed loop: P clients make R requests in R times the service time, however
// many agents (each with its own mapping of the queue) they go through.
#[test]
fn clients_of_all_agents_wait_in_one_queue() {
    let (scratch, clients, requests) = (Scratch::new(), 4, 5);
    let began = monotonic_ns();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            let store = model(&scratch, "service_us=500");
            scope.spawn(move || {
                let file = file(b"x");
                for _ in 0..requests {
                    store.read_vec(fd(&file), 0, 1).unwrap();
                }
            });
        }
    });
    assert!(monotonic_ns() - began >= clients * requests * MB / 2);
}

#[test]
fn a_model_says_that_it_is_one() {
    let scratch = Scratch::new();
    assert_eq!(
        model(&scratch, "servers=4").describe(),
        "a MODEL of a file system, not a real one: 4 server(s), 580 us per request, 110 MB/s each, \
         64 KiB stripes, over posix"
    );
}
