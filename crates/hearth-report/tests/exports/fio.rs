//! Logs for fio, replayed by fio.

use std::fs;
use std::path::Path;
use std::process::Command;

use hearth_report::export;
use hearth_trace::{Event, TracedFileId};
use serde_json::Value;

use crate::support::{has, is_read, is_write, job};

/// The file that fio can name.
fn is_named(event: &Event) -> bool {
    event.file == Some(TracedFileId(0))
}

fn replay(dir: &Path, log: &[u8]) -> Value {
    fs::write(dir.join("log"), log).unwrap();
    let file = dir.join("scratch/run/shared.dat");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
    let output = Command::new("timeout")
        .args([
            "60",
            "fio",
            "--name=replay",
            "--read_iolog=log",
            "--ioengine=psync",
        ])
        .args(["--output-format=json", "--output=out.json"])
        .current_dir(dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = fs::read_to_string(dir.join("out.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn fio_repeats_the_bytes_and_the_time_of_the_trace() {
    let name = "fio_repeats_the_bytes_and_the_time_of_the_trace";
    if !has("fio") {
        return println!("skipped: {name}: no fio");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut log = Vec::new();
    let exported = export::fio(job(), &mut log, dir.path()).unwrap();
    assert_eq!(
        exported.remarks.len(),
        2,
        "a name with blanks, and what fio has no word for"
    );
    let found = replay(dir.path(), &log);
    let found = &found["jobs"][0];
    let job = job();
    let reads = |event: &Event| is_read(event) && is_named(event);
    let writes = |event: &Event| is_write(event) && is_named(event);
    assert_eq!(found["read"]["io_bytes"], job.sum(reads, Event::bytes));
    assert_eq!(found["write"]["io_bytes"], job.sum(writes, Event::bytes));
    assert_eq!(found["read"]["total_ios"], job.count(reads));
    assert_eq!(found["write"]["total_ios"], job.count(writes));
    let named = || {
        job.events()
            .filter(|event| is_named(event) && !event.failed())
    };
    let first = named().map(|event| event.start).min().unwrap();
    let last = named().map(|event| event.start).max().unwrap();
    let traced_ms = (last - first) as u64 / 1_000_000;
    let replayed_ms = found["job_runtime"].as_u64().unwrap();
    assert!(
        replayed_ms >= traced_ms,
        "{replayed_ms} ms for {traced_ms} ms: waits are kept"
    );
}
