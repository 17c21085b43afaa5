//! A process's trace of itself is collected, written, read, and balanced.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use hearth_trace::collect::Collection;
use hearth_trace::file::{Reader, Writer};
use hearth_trace::ring::{OpFacts, Options, tracer};
use hearth_trace::{Event, Op, Source};

/// Threads that record, each more than its ring holds.
const THREADS: u64 = 3;
const ATTEMPTS: u64 = 3000;
const CAPACITY: u32 = 1024;

#[test]
fn what_threads_record_stands_in_the_trace_and_what_is_lost_is_counted() {
    let directory = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .expect("a fresh directory of our own");
    let options = Options {
        directory: directory.path().to_owned(),
        capacity: CAPACITY,
        rank: Some(3),
        ..Options::default()
    };
    tracer::start(options).expect("a private directory in memory takes an area");
    let writer = Writer::here(Vec::new()).expect("memory takes all");
    let mut collection = Collection::open(directory.path(), writer).expect("it is ours");
    collection.round().expect("memory takes all");
    assert_eq!(collection.areas(), 1);
    let file = tracer::file(b"/scratch/mesh");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| record(file))).collect();
        // A scope waits for what its threads do; a ring is given back when they have ended.
        for thread in threads {
            thread.join().expect("nothing in it panics");
        }
    });
    let bytes = collection.finish().expect("memory takes all");

    let path = directory.path().join("out.htrace");
    std::fs::write(&path, bytes).expect("a file in a fresh directory");
    let mut reader = Reader::open(&[path]).expect("it was just written");
    assert_eq!(reader.missing(), &[] as &[String]);
    let mut read = 0;
    let check = &mut |_, events: &[Event]| {
        read += events.len() as u64;
        assert!(
            events
                .iter()
                .all(|event| event.op == Op::Pread && event.file.is_some())
        );
    };
    reader.each_run(check).expect("it is there");
    let tables = reader.tables();
    let sum = |of: fn(&hearth_trace::Stream) -> u64| tables.streams.iter().map(of).sum::<u64>();
    assert_eq!(sum(|stream| stream.attempted), THREADS * ATTEMPTS);
    assert_eq!(sum(|stream| stream.stored), THREADS * u64::from(CAPACITY));
    assert_eq!(read, sum(|stream| stream.stored));
    assert_eq!(
        sum(|stream| stream.attempted),
        read + sum(|stream| stream.dropped)
    );
    let process = &tables.processes[0];
    assert_eq!((process.pid, process.rank), (std::process::id(), Some(3)));
    assert_eq!(tables.files[0].path, "/scratch/mesh");
}

fn record(file: u32) {
    for turn in 0..ATTEMPTS {
        let started = tracer::enter().expect("recording is on");
        let done = OpFacts {
            file,
            offset: turn * 4096,
            asked: 4096,
            result: 4096,
            ..OpFacts::new(Op::Pread)
        };
        tracer::leave(started, &done);
    }
}
