//! `.darshan` logs, read by PyDarshan and Drishti.

use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_report::export;
use hearth_trace::{Event, Flags};
use serde_json::Value;

use crate::support::{self, BEGIN, Job, answers, is_read, is_write, job, lossy_job, python};

fn log(job: Job, dir: &Path) -> PathBuf {
    let path = dir.join("job.darshan");
    let mut file = std::fs::File::create(&path).unwrap();
    export::darshan(job, &mut file, dir).unwrap();
    path
}

fn numbers(python: &Path, log: &Path) -> Value {
    let mut lines = answers(python, "darshan_numbers.py", &[log.to_str().unwrap()]);
    lines.pop().expect("one line")
}

fn sum(records: &Value, counter: &str) -> f64 {
    let records = records.as_array().expect("records");
    let values = records.iter().map(|record| record[counter].as_f64());
    values.map(|value| value.expect("a number")).sum()
}

fn is_posix(event: &Event) -> bool {
    !event.flags.has(Flags::BUFFERED) && !event.failed()
}

fn is_unaligned(event: &Event) -> bool {
    (is_read(event) || is_write(event)) && is_posix(event) && !event.offset.is_multiple_of(1 << 20)
}

#[test]
fn pydarshan_counts_what_the_trace_counts() {
    let name = "pydarshan_counts_what_the_trace_counts";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let found = numbers(&python, &log(job(), dir.path()));
    let job = job();
    let expected = [
        ("POSIX_READS", job.count(is_read)),
        (
            "POSIX_WRITES",
            job.count(|event| is_write(event) && is_posix(event)),
        ),
        ("POSIX_BYTES_READ", job.sum(is_read, Event::bytes)),
        (
            "POSIX_BYTES_WRITTEN",
            job.sum(|event| is_write(event) && is_posix(event), Event::bytes),
        ),
        // Stripes are of 1 MiB.
        ("POSIX_FILE_NOT_ALIGNED", job.count(is_unaligned)),
        ("POSIX_OPENS", 4),
        ("POSIX_STATS", 4),
        ("POSIX_FSYNCS", 4),
        ("POSIX_SIZE_WRITE_10K_100K", 100),
        ("POSIX_SIZE_READ_10K_100K", 100),
        // Every access but the first of a thread leaves a hole behind the last.
        ("POSIX_SEQ_READS", 2 * 49),
        ("POSIX_SEQ_WRITES", 2 * 49),
        ("POSIX_CONSEC_WRITES", 0),
    ];
    for (counter, expected) in expected {
        assert_eq!(sum(&found["posix"], counter), expected as f64, "{counter}");
    }
    let read_time = job.sum(is_read, |event| event.took) as f64 / 1e9;
    assert!((sum(&found["posix"], "POSIX_F_READ_TIME") - read_time).abs() < 1e-9);
    assert_eq!(sum(&found["stdio"], "STDIO_WRITES"), 40.0);
    assert_eq!(sum(&found["stdio"], "STDIO_BYTES_WRITTEN"), 1200.0);
    assert_eq!(found["nprocs"], 3);
    assert_eq!(found["start"][0], BEGIN / 1_000_000_000);
    assert_eq!(found["run_time"], 2.0);
    assert_eq!(found["exe"], "/opt/app/solver");
    assert_eq!(found["partial"]["POSIX"], false);
    assert_eq!(found["mounts"][0][0], "/scratch/run");
    let names = found["names"].as_object().unwrap();
    assert!(
        names
            .values()
            .any(|path| path == "/scratch/run/log, \"0\".txt")
    );
}

#[test]
fn pydarshan_finds_every_access_at_its_time() {
    let name = "pydarshan_finds_every_access_at_its_time";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let found = numbers(&python, &log(job(), dir.path()));
    let mut found: Vec<(String, i64, String, i64, i64, i64)> = (found["accesses"].as_array())
        .unwrap()
        .iter()
        .map(|row| {
            let nanoseconds = |at: usize| (row[at].as_f64().unwrap() * 1e9).round() as i64;
            (
                row[0].as_str().unwrap().to_owned(),
                row[1].as_i64().unwrap(),
                row[2].as_str().unwrap().to_owned(),
                row[3].as_i64().unwrap(),
                nanoseconds(5),
                nanoseconds(6),
            )
        })
        .collect();
    let mut expected: Vec<_> = (job().runs.iter())
        .flat_map(|(stream, events)| events.iter().map(|event| (stream.0.min(2), event)))
        .filter(|(_, event)| (is_read(event) || is_write(event)) && is_posix(event))
        .map(|(rank, event)| {
            (
                if is_read(event) { "read" } else { "write" }.to_owned(),
                i64::from(rank),
                ["alpha", "alpha", "beta"][rank as usize].to_owned(),
                event.offset as i64,
                event.start - BEGIN,
                event.end() - BEGIN,
            )
        })
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_trace_with_losses_becomes_a_partial_log() {
    let name = "a_trace_with_losses_becomes_a_partial_log";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let found = numbers(&python, &log(lossy_job(), dir.path()));
    assert_eq!(found["partial"]["POSIX"], true);
    assert_eq!(found["partial"]["DXT_POSIX"], true);
    assert_eq!(found["lost"], "7");
}

#[test]
fn drishti_advises_on_the_traced_job() {
    let name = "drishti_advises_on_the_traced_job";
    let python = match support::python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let log = log(job(), dir.path());
    let output = Command::new("timeout")
        .arg("60")
        .arg(python.with_file_name("drishti"))
        .arg(&log)
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{wrong}");
    assert!(said.contains("/opt/app/solver"), "{said}");
    // 100 writes of 64 KiB and 100 reads of 16 KiB; 7 of them begin with a stripe.
    for finding in [
        "80.00% write vs. 20.00% read",
        "high number (96.50%) of misaligned",
    ] {
        assert!(said.contains(finding), "{finding}: {said}");
    }
}
