//! Trace files: what is written is read, and what is hurt is said.

use std::fs;
use std::path::PathBuf;

use hearth_trace::file::{Fact, NewProcess, ReadError, Reader, SessionId, Writer};
use hearth_trace::generate::{self, Mix};
use hearth_trace::{Event, Record, Source, StreamId};
use tempfile::TempDir;

const EVENTS: u64 = 50_000;
const RANKS: u32 = 3;

/// A generated trace.
fn sample(events: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), SessionId(1), ("host", 7)).expect("memory takes all");
    generate::write(&mut writer, events, RANKS).expect("memory takes all");
    writer.finish().expect("memory takes all")
}

fn file(dir: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("trace.htrace");
    fs::write(&path, bytes).expect("a file in a fresh directory");
    path
}

fn open(bytes: &[u8]) -> Result<Reader, ReadError> {
    let dir = tempfile::tempdir().expect("a fresh directory");
    Reader::open(&[file(&dir, bytes)])
}

/// All events, by stream.
fn events(reader: &mut Reader) -> Vec<Vec<Event>> {
    let mut all = vec![Vec::new(); reader.tables().streams.len()];
    reader
        .each_run(&mut |StreamId(stream), run| all[stream as usize].extend_from_slice(run))
        .expect("the file is there");
    all
}

/// The rule of the accounts, and that the events are as many as they say.
fn balanced(reader: &mut Reader) {
    let read = events(reader);
    for (stream, read) in reader.tables().streams.iter().zip(&read) {
        assert_eq!(stream.stored, read.len() as u64);
        assert_eq!(
            stream.attempted,
            stream.stored + stream.dropped + stream.torn
        );
    }
    let dropped: u64 = reader
        .tables()
        .streams
        .iter()
        .map(|stream| stream.dropped)
        .sum();
    let gaps: u64 = reader.tables().gaps.iter().map(|gap| gap.count).sum();
    assert_eq!(gaps, dropped, "each lost record is in a gap");
}

#[test]
fn every_event_comes_back_with_its_names_and_its_time() {
    let mut reader = open(&sample(EVENTS)).unwrap();
    assert_eq!(reader.missing(), &[] as &[String]);
    assert_eq!(reader.events_expected(), EVENTS);
    let read = events(&mut reader);
    let tables = reader.tables();
    assert_eq!(tables.processes.len(), RANKS as usize);
    for (rank, read) in read.iter().enumerate() {
        let mut mix = Mix::new(rank as u32, 1 << 40);
        for event in read {
            let record = mix.record();
            assert_eq!((event.seq, event.offset), (record.seq, record.offset));
            assert_eq!(event.request, record.request);
            let ns = |ticks: u64| (ticks - (1 << 40)) as f64 / 2.5;
            let start = 1_700_000_000_000_000_000 + ns(record.start) as i64;
            assert!(
                (event.start - start).abs() <= 512,
                "{} {start}",
                event.start
            );
            assert!(event.took.abs_diff((record.took as f64 / 2.5) as u64) <= 1);
            let path = tables.path(event.file.unwrap());
            assert!(path.starts_with("/scratch/"), "{path}");
        }
        assert_eq!(tables.processes[rank].rank, Some(rank as u32));
        assert_eq!(tables.processes[rank].exe, "/usr/bin/generated");
    }
    let shared = tables
        .files
        .iter()
        .filter(|file| file.path == "/scratch/grid");
    assert_eq!(shared.count(), 1, "one path is one file");
    balanced(&mut reader);
}

#[test]
fn totals_are_those_of_the_events() {
    let mut reader = open(&sample(EVENTS)).unwrap();
    let read = events(&mut reader);
    for (process, read) in reader.tables().processes.iter().zip(&read) {
        for row in &process.totals {
            let of_op = read.iter().filter(|event| event.op == row.op);
            assert_eq!(row.count, of_op.clone().count() as u64);
            assert_eq!(row.bytes, of_op.clone().map(Event::bytes).sum::<u64>());
            let took: u64 = of_op.map(|event| event.took).sum();
            assert!(row.took.abs_diff(took) <= row.count + took / 1_000_000);
        }
        let counted: u64 = process.totals.iter().map(|row| row.count).sum();
        assert_eq!(counted, read.len() as u64);
    }
}

#[test]
fn runs_of_one_stream_come_in_order_and_of_all_by_time() {
    let mut reader = open(&sample(EVENTS)).unwrap();
    let mut last = vec![0; RANKS as usize];
    let mut latest = i64::MIN;
    reader
        .each_run(&mut |StreamId(stream), run| {
            for event in run {
                assert_eq!(event.seq, last[stream as usize] + 1);
                last[stream as usize] = event.seq;
            }
            assert!(run[0].start >= latest);
            latest = run[0].start;
        })
        .unwrap();
}

#[test]
fn a_cut_file_gives_what_is_whole_and_says_that_it_does_not_end() {
    let whole = sample(EVENTS);
    for tenth in 1..10 {
        let mut reader = open(&whole[..whole.len() * tenth / 10]).unwrap();
        assert!(
            reader
                .missing()
                .iter()
                .any(|what| what.contains("does not end"))
        );
        balanced(&mut reader);
        assert!(tenth < 5 || reader.events_expected() > EVENTS / 4);
    }
}

#[test]
fn a_hurt_file_loses_the_hurt_frames_only_and_says_so() {
    let whole = sample(EVENTS);
    for at in [whole.len() / 3, whole.len() / 2, whole.len() * 9 / 10] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let mut reader = open(&bytes).unwrap();
        let missing = reader.missing().join("\n");
        assert!(
            missing.contains("1 frames from host are missing"),
            "{missing}"
        );
        assert!(missing.contains("no part of a trace"), "{missing}");
        assert!(reader.events_expected() >= EVENTS - 4096);
        balanced(&mut reader);
    }
}

#[test]
fn a_file_of_something_else_is_refused() {
    for bytes in [&b""[..], b"hello", &[0; 100_000]] {
        assert!(matches!(open(bytes), Err(ReadError::Foreign(_))));
    }
}

#[test]
fn what_stands_twice_counts_once_and_files_may_be_joined() {
    let one = sample(EVENTS);
    let mut writer = Writer::new(Vec::new(), SessionId(2), ("other", 8)).unwrap();
    generate::write(&mut writer, 100, 1).unwrap();
    let other = writer.finish().unwrap();
    let joined = [&one[..], &other, &one].concat();
    let mut reader = open(&joined).unwrap();
    assert_eq!(reader.missing(), &[] as &[String]);
    assert_eq!(reader.events_expected(), EVENTS + 100);
    assert_eq!(reader.tables().hosts.len(), 2);
    balanced(&mut reader);
}

#[test]
fn records_that_are_not_there_are_gaps_with_times() {
    let mut writer = Writer::new(Vec::new(), SessionId(1), ("host", 7)).unwrap();
    let process = NewProcess {
        pid: 1,
        start_time: 0,
        image: 0,
        clock: 2,
        start: 0,
    };
    let process = writer.process(&process).unwrap();
    let stream = writer.stream(process, (0, 0), 1).unwrap();
    let mut mix = Mix::new(0, 1000);
    let records: Vec<Record> = (0..5000).map(|_| mix.record()).collect();
    // Numbers 11 to 15 within a block, 2001 to 3000 between two, 4001 to 5000 at the end.
    let (mut first, rest) = (records[..2000].to_vec(), &records[3000..4000]);
    first.drain(10..15);
    writer.records(stream, &first).unwrap();
    writer.records(stream, rest).unwrap();
    writer
        .fact(&Fact::Counts {
            stream: stream.0,
            attempted: 5000,
            dropped: 2004,
            torn: 1,
        })
        .unwrap();
    let mut reader = open(&writer.finish().unwrap()).unwrap();
    let gaps = &reader.tables().gaps;
    let numbers: Vec<_> = gaps.iter().map(|gap| (gap.first, gap.count)).collect();
    assert_eq!(numbers, [(11, 5), (2001, 1000), (4001, 999)]);
    let between = &gaps[1];
    assert_eq!(
        between.from,
        (records[1999].start + records[1999].ticks()) as i64
    );
    assert_eq!(between.to, records[3000].start as i64);
    assert_eq!(reader.tables().streams[0].torn, 1);
    balanced(&mut reader);
}

#[test]
fn bytes_that_nobody_wrote_never_panic() {
    let whole = sample(3000);
    let mut state = 5_u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1442);
        (state >> 33) as usize % bound
    };
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=below(20) {
            let at = below(bytes.len());
            match below(3) {
                0 => bytes[at] = below(256) as u8,
                1 => bytes.truncate(at.max(1)),
                _ => drop(bytes.drain(at..(at + below(50)).min(bytes.len()))),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        if let Ok(mut reader) = open(&bytes) {
            balanced(&mut reader);
        }
    }
}

/// A file of version 1, as `hearth trace generate --events 300 --ranks 2` wrote it once. A later version
/// of this program reads it, and finds in it what was there.
#[test]
fn a_file_of_version_1_is_read() {
    const VERSION_1: &[u8] = include_bytes!("samples/trace-1.htrace");
    let mut reader = open(VERSION_1).expect("it is a trace");
    assert_eq!(reader.missing(), &[] as &[String]);
    balanced(&mut reader);
    let all: Vec<Event> = events(&mut open(VERSION_1).expect("it is a trace")).concat();
    let bytes: u64 = all.iter().map(Event::bytes).sum();
    assert_eq!((all.len(), reader.tables().streams.len()), (300, 2));
    assert_eq!(bytes, 9_928_704);
}
