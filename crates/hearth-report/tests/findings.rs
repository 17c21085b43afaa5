//! Each kind of finding: found where its fault is, worth what the fault costs, silent elsewhere.

mod support;

use hearth_report::{Finding, Report, WasteKind, analyse};
use hearth_trace::{Flags, HostId, Layer, Op};

use support::{KIB, MIB, MS, Trace, US};

fn report(trace: Trace) -> Report {
    analyse(trace.end())
}

/// The only finding, which must be of this kind and worth about so many seconds.
fn only(trace: Trace, kind: WasteKind, seconds: f64) -> Finding {
    let report = report(trace);
    let kinds: Vec<&str> = report
        .findings
        .iter()
        .map(|finding| finding.kind.name())
        .collect();
    assert_eq!(kinds, [kind.name()], "{:#?}", report.findings);
    let finding = report.findings[0].clone();
    let gain = finding.seconds;
    assert!(
        gain.mid > seconds / 1.25 && gain.mid < seconds * 1.25,
        "{gain:?}, not {seconds}"
    );
    assert!(
        gain.low <= gain.mid && gain.mid <= gain.high && gain.low > 0.0,
        "{gain:?}"
    );
    assert!(!finding.evidence.is_empty() && !finding.change.is_empty());
    finding
}

fn silent(trace: Trace) {
    let report = report(trace);
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert!(report.job.events > 0);
}

#[test]
fn tiny_writes_are_worth_their_calls() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/log.txt", "ext4");
    for record in 0..100_000 {
        trace.write(0, file, record * 100, 100, 5 * US);
    }
    trace.think(0, 200 * MS);
    let finding = only(trace, WasteKind::TinyWrites, 0.5);
    assert!(
        finding.title.contains("/scratch/log.txt"),
        "{}",
        finding.title
    );
}

#[test]
fn unaligned_accesses_are_measured_against_aligned_ones() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/data", "lustre");
    let other = trace.file("/scratch/aligned", "lustre");
    for record in 0..500 {
        trace.write(0, file, 512 + record * 64 * KIB, 64 * KIB, 900 * US);
        trace.write(0, other, record * 64 * KIB, 64 * KIB, 400 * US);
    }
    only(trace, WasteKind::Unaligned, 0.25);
}

#[test]
fn writers_of_the_same_pages_wait_for_each_other() {
    let mut trace = Trace::of_ranks(4);
    let file = trace.file("/scratch/shared", "lustre");
    for record in 0..2000 {
        for rank in 0..4 {
            // Every eighth write finds the page free.
            let took = if (record + u64::from(rank)) % 8 == 0 {
                20 * US
            } else {
                400 * US
            };
            trace.write(
                rank,
                file,
                (record * 4 + u64::from(rank)) * 1000,
                1000,
                took,
            );
        }
    }
    only(trace, WasteKind::LockStorm, 0.66);
}

#[test]
fn a_rank_that_is_slow_at_the_same_work_is_a_straggler() {
    let mut trace = Trace::of_ranks(4);
    let file = trace.file("/scratch/input", "lustre");
    for block in 0..1000 {
        for rank in 0..4 {
            let took = if rank == 2 { 3 * MS } else { MS };
            trace.read(
                rank,
                file,
                (u64::from(rank) * 1000 + block) * MIB,
                MIB,
                took,
            );
        }
    }
    let finding = only(trace, WasteKind::Straggler, 2.0);
    assert!(finding.title.contains("rank 2"), "{}", finding.title);
}

#[test]
fn a_rank_that_has_more_to_do_is_an_imbalance() {
    let mut trace = Trace::of_ranks(4);
    let file = trace.file("/scratch/input", "lustre");
    for rank in 0..4 {
        let blocks = if rank == 0 { 4000 } else { 1000 };
        for block in 0..blocks {
            trace.read(rank, file, (u64::from(rank) * 4000 + block) * MIB, MIB, MS);
        }
    }
    let finding = only(trace, WasteKind::Imbalance, 4.0 - 1.75);
    assert!(finding.title.contains("rank 0"), "{}", finding.title);
}

#[test]
fn reads_of_what_was_dropped_ask_for_a_larger_pool() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/matrix", "fuse.hearth");
    for _ in 0..5 {
        for block in 0..1000 {
            trace.read(0, file, block * 256 * KIB, 256 * KIB, MS);
        }
    }
    let finding = only(trace, WasteKind::Rereads, 3.7);
    assert!(
        finding.change.contains("--pool 275MiB") || finding.change.contains("--pool 28"),
        "{}",
        finding.change
    );
}

#[test]
fn repeated_metadata_calls_are_a_storm() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/config", "nfs4");
    for _ in 0..5000 {
        trace.op(0, Op::Stat, file, 200 * US);
    }
    only(trace, WasteKind::MetadataStorm, 1.0);
}

#[test]
fn a_whole_file_in_no_order_could_be_read_in_order() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/table", "lustre");
    let ordered = trace.file("/scratch/other", "lustre");
    for block in 0..4096u64 {
        trace.read(
            0,
            file,
            (block * block + block) / 2 % 4096 * 16 * KIB,
            16 * KIB,
            500 * US,
        );
    }
    for block in 0..200 {
        trace.read(0, ordered, block * 16 * KIB, 16 * KIB, 50 * US);
    }
    only(trace, WasteKind::Random, 4096.0 * 450e-6);
}

#[test]
fn columns_of_a_matrix_in_rows_could_be_read_in_order() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/matrix", "lustre");
    for column in 0..32u64 {
        for row in 0..64u64 {
            trace.read(0, file, (row * 32 + column) * 8 * KIB, 8 * KIB, 500 * US);
        }
    }
    only(trace, WasteKind::Random, 2048.0 * 470e-6);
}

#[test]
fn files_that_every_rank_opens_need_one_reader() {
    let mut trace = Trace::of_ranks(8);
    let files: Vec<_> = (0..50)
        .map(|n| trace.file(&format!("/lib/part{n}.so"), "nfs4"))
        .collect();
    for file in files {
        for rank in 0..8 {
            // The server takes them one after the other, each time another one first.
            let place = u64::from((rank + file.0) % 8 + 1);
            trace.op(rank, Op::Open, file, place * MS).asked = 0;
            trace.read(rank, file, 0, 8 * KIB, 20 * US);
            trace.op(rank, Op::Close, file, 10 * US);
        }
        trace.barrier();
    }
    only(trace, WasteKind::SerialOpen, 0.176);
}

#[test]
fn ranks_that_read_the_same_file_in_turns_need_one_reader() {
    let mut trace = Trace::of_ranks(4);
    let file = trace.file("/scratch/input", "lustre");
    for rank in 0..4 {
        trace.op(rank, Op::Open, file, 100 * US);
        for block in 0..32 {
            trace.read(rank, file, block * MIB, MIB, MS);
        }
        trace.op(rank, Op::Close, file, 10 * US);
        trace.barrier();
    }
    only(trace, WasteKind::SerialOpen, 3.0 * 32e-3);
}

#[test]
fn a_sync_after_each_record_waits_each_time() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/journal", "ext4");
    for record in 0..500 {
        trace.write(0, file, record * 512, 512, 3 * US);
        trace.op(0, Op::Fsync, file, 4 * MS);
    }
    only(trace, WasteKind::SyncPerRecord, 2.0);
}

#[test]
fn reading_a_block_to_change_a_part_of_it_is_saved() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/blocks", "lustre");
    for record in 0..8000u64 {
        let block = record / 8 * 4096;
        trace.read(0, file, block, 4096, 100 * US);
        trace.write(0, file, block, 4096, 100 * US);
    }
    only(trace, WasteKind::ReadModifyWrite, 8000.0 * 100e-6 * 1.875);
}

#[test]
fn sparse_small_reads_want_small_pages() {
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/index", "fuse.hearth");
    let mut place = 1;
    for request in 1..4000u64 {
        place = place * 48271 % 65_537;
        trace.inner(0, Op::StoreRead, Layer::Store, request, 256 * KIB, 500 * US);
        trace
            .read(0, file, place * 256 * KIB, 4 * KIB, 550 * US)
            .request = request;
    }
    let finding = only(trace, WasteKind::PageSize, 1.03);
    assert!(
        finding.change.contains("--page-size 4KiB"),
        "{}",
        finding.change
    );
}

#[test]
fn clean_traces_are_met_with_silence() {
    // Large sequential writes with one sync.
    let mut trace = Trace::of_ranks(4);
    for rank in 0..4 {
        let file = trace.file(&format!("/scratch/out.{rank}"), "lustre");
        trace.op(rank, Op::Open, file, 300 * US);
        for block in 0..500 {
            trace.write(rank, file, block * MIB, MIB, MS);
        }
        trace.op(rank, Op::Fsync, file, 30 * MS);
        trace.op(rank, Op::Close, file, 100 * US);
    }
    silent(trace);
    // Reads in order, once.
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/data/in", "ext4");
    for block in 0..5000 {
        trace.read(0, file, block * 100_000, 100_000, 20 * US);
    }
    silent(trace);
    // Reads again that memory serves.
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/data/in", "fuse.hearth");
    for round in 0..5 {
        for block in 0..1000 {
            let took = if round == 0 { MS } else { 60 * US };
            trace.read(0, file, block * 256 * KIB, 256 * KIB, took);
        }
    }
    silent(trace);
    // Tiny writes in a job that computes.
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/scratch/log", "ext4");
    for record in 0..1000 {
        trace.write(0, file, record * 80, 80, 2 * US);
        trace.think(0, 5 * MS);
    }
    silent(trace);
    // Scattered reads of a few records, served from memory.
    let mut trace = Trace::of_ranks(1);
    let file = trace.file("/data/db", "ext4");
    for read in 0..3000u64 {
        trace.read(0, file, read * 7919 % 65_536 * 4096, 4096, 2 * US);
    }
    silent(trace);
    // Ranks that share a file page by page.
    let mut trace = Trace::of_ranks(4);
    let file = trace.file("/scratch/shared", "lustre");
    for rank in 0..4u32 {
        for block in 0..500 {
            trace.write(rank, file, (u64::from(rank) * 500 + block) * MIB, MIB, MS);
        }
    }
    silent(trace);
}

#[test]
fn a_straggler_and_an_imbalance_share_no_second() {
    let mut trace = Trace::of_ranks(8);
    let file = trace.file("/scratch/input", "lustre");
    for rank in 0..8u32 {
        let blocks = if rank == 0 { 3000 } else { 1000 };
        let took = if rank == 0 { 2 * MS } else { MS };
        for block in 0..blocks {
            trace.read(
                rank,
                file,
                (u64::from(rank) * 4000 + block) * MIB,
                MIB,
                took,
            );
        }
    }
    let report = report(trace);
    let kinds: Vec<WasteKind> = report.findings.iter().map(|finding| finding.kind).collect();
    assert!(
        kinds.contains(&WasteKind::Straggler) && kinds.contains(&WasteKind::Imbalance),
        "{kinds:?}"
    );
    let sum: f64 = report
        .findings
        .iter()
        .map(|finding| finding.seconds.mid)
        .sum();
    assert!(
        sum < report.job.critical,
        "{sum} of {}",
        report.job.critical
    );
}

#[test]
fn what_does_not_hold_the_job_up_is_not_worth_a_finding() {
    // Rank 1 writes tiny records while rank 0 reads for much longer.
    let mut trace = Trace::of_ranks(2);
    let log = trace.file("/scratch/log", "ext4");
    let input = trace.file("/data/in", "ext4");
    for record in 0..10_000 {
        trace.write(1, log, record * 100, 100, 5 * US);
    }
    for block in 0..5000 {
        trace.read(0, input, block * MIB, MIB, 200 * US);
    }
    let report = report(trace);
    let kinds: Vec<&str> = report
        .findings
        .iter()
        .map(|finding| finding.kind.name())
        .collect();
    assert!(!kinds.contains(&"tiny-writes"), "{kinds:?}");
}

#[test]
fn flags_and_hosts_of_a_trace_are_taken_as_they_come() {
    let mut trace = Trace::of_ranks(1);
    trace.tables.hosts.clear();
    trace.rank(HostId(7), 1);
    let file = trace.file("", "");
    let event = trace.read(0, file, u64::MAX - 10, 4096, u64::MAX / 1000);
    event.flags = Flags(u16::MAX);
    event.start = i64::MIN;
    let event = trace.write(0, file, u64::MAX, 1, 1);
    (event.start, event.took, event.result) = (i64::MAX, u64::MAX, i64::MIN);
    let event = trace.op(1, Op::Open, file, 1);
    event.file = Some(hearth_trace::TracedFileId(99));
    assert_eq!(report(trace).job.events, 3);
}
