//! A process traces itself and a drain reads it, both within one process.

use crate::support::{Collected, is_alone, private_directory};
use hearth_trace::Op;
use hearth_trace::ring::{Drain, Name, OpFacts, Options, look, tracer};

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

#[test]
fn somebody_who_looks_sees_what_is_new_and_takes_nothing() {
    let name = "threads::somebody_who_looks_sees_what_is_new_and_takes_nothing";
    if !is_alone(name) {
        return;
    }
    let directory = private_directory();
    let options = Options {
        directory: directory.path().to_owned(),
        capacity: 16,
        ..Options::default()
    };
    tracer::start(options).expect("a private directory in memory takes an area");
    let mesh = tracer::file(b"/scratch/mesh");
    let mut drain = Drain::open(directory.path()).expect("it is ours");
    drain.scan().expect("it can be listed");
    let mut got = Collected::default();
    let seen = |after| {
        let looks = look(directory.path()).expect("it is ours");
        let mut recent = looks[0].recent(|_| after);
        let one = recent.pop().expect("this thread has recorded");
        let seqs: Vec<u64> = one.records.iter().map(|record| record.seq).collect();
        (one.account.attempted, one.account.dropped, seqs)
    };
    record(mesh, 10);
    assert_eq!(seen(0), (10, 0, (1..=10).collect()));
    assert_eq!(seen(8), (10, 0, vec![9, 10]));
    drain.pass(&mut got).expect("a collection takes everything");
    assert_eq!(seen(8), (10, 0, vec![9, 10]), "also what a drain has taken");

    // Attempts 11 to 26 are written around the ring, and 27 to 30 find it full. The oldest record is
    // the one that may be half written over.
    record(mesh, 20);
    assert_eq!(seen(10), (30, 4, (12..=26).collect()));
    // A place in the ring is no attempt's any more: 31 stands where 27 would.
    drain.pass(&mut got).expect("a collection takes everything");
    record(mesh, 64);
    let (attempted, dropped, seqs) = seen(30);
    assert_eq!(attempted, 94);
    assert!(dropped > 4, "the ring is full again");
    assert!(seqs.len() >= 15, "what is in it is seen: {seqs:?}");
    let mut names = Vec::new();
    let looks = look(directory.path()).expect("it is ours");
    looks[0].names(|name| names.push(format!("{name:?}")));
    let path = format!("{:?}", Name::File(mesh, b"/scratch/mesh"));
    assert!(names.contains(&path), "{names:?}");
    assert_eq!(looks[0].unringed().count(), 0);
}

fn record(file: u32, count: u64) {
    for number in 0..count {
        let started = tracer::enter().expect("tracing is on");
        let done = OpFacts {
            file,
            offset: number * 4096,
            asked: 4096,
            result: 4096,
            ..OpFacts::new(Op::Pread)
        };
        tracer::leave(started, &done);
    }
}
