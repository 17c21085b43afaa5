//! A process traces itself and a drain reads it, both within one process.

use crate::support::{Collected, is_alone, private_directory};
use hearth_trace::Op;
use hearth_trace::ring::{Done, Drain, Options, tracer};

#[test]
fn what_threads_record_is_handed_out_with_its_names_and_totals() {
    let name = "threads::what_threads_record_is_handed_out_with_its_names_and_totals";
    if !is_alone(name) {
        return;
    }
    let directory = private_directory();
    let options = Options {
        directory: directory.path().to_owned(),
        capacity: 16,
        rank: Some(3),
        ..Options::default()
    };
    tracer::start(options).expect("a private directory in memory takes an area");
    let mesh = tracer::file(b"/scratch/mesh");
    assert_eq!(tracer::file(b"/scratch/mesh"), mesh);
    assert_ne!(tracer::file(b"/scratch/other"), mesh);

    std::thread::spawn(move || record(mesh, 40))
        .join()
        .expect("no panic");
    let mut drain = Drain::open(directory.path()).expect("it is ours");
    assert_eq!(drain.scan().expect("it can be listed"), 1);
    let mut got = Collected::default();
    drain.pass(&mut got).expect("a collection takes everything");

    let [stream] = &got.streams[..] else {
        panic!("one thread recorded: {:?}", got.streams);
    };
    let account = stream.account.as_ref().expect("the thread is over");
    assert_eq!(
        (account.attempted, account.stored, account.dropped),
        (40, 16, 24)
    );
    assert_eq!(account.torn, 0);
    assert_eq!(account.drops.0[0].bytes, 24 * 4096);
    let seqs: Vec<u64> = stream.records.iter().map(|record| record.seq).collect();
    assert_eq!(seqs, (1..=16).collect::<Vec<u64>>());
    assert!(got.names.contains(&format!("file {mesh} /scratch/mesh")));
    assert!(got.names.contains(&"rank 3".to_owned()));
    assert!(got.ended.is_empty(), "this process runs");

    // The slot is free again, and its next thread starts from 1.
    std::thread::spawn(move || record(mesh, 2))
        .join()
        .expect("no panic");
    drain.pass(&mut got).expect("a collection takes everything");
    let next = got.streams.last().expect("there are two");
    assert_eq!((next.key.slot, next.key.generation), (0, 1));
    assert_eq!(next.records.len(), 2);
    assert_eq!(next.records[1].seq, 2);

    drain.switch(false);
    assert_eq!(tracer::enter(), None);
}

fn record(file: u32, count: u64) {
    for number in 0..count {
        let started = tracer::enter().expect("tracing is on");
        let done = Done {
            file,
            offset: number * 4096,
            asked: 4096,
            result: 4096,
            ..Done::new(Op::Pread)
        };
        tracer::leave(started, &done);
    }
}
