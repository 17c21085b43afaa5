//! Parquet, read by DuckDB and pandas.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use hearth_report::export::{self, Side};
use hearth_trace::{Op, Tally};
use serde_json::{Value, json};

use crate::support::{BEGIN, Job, answers, answers_in, job, lossy_job, python};

fn ask(python: &Path, job: Job) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut arguments = vec![path("events.parquet")];
    for side in Side::ALL {
        let name = path(&format!("{}.parquet", side.name()));
        side.write(&job.tables, File::create(&name).unwrap())
            .unwrap();
        arguments.push(name);
    }
    export::parquet(job, File::create(&arguments[0]).unwrap()).unwrap();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    answers(python, "parquet_numbers.py", &arguments)
}

#[test]
fn duckdb_adds_up_what_the_trace_adds_up() {
    let name = "duckdb_adds_up_what_the_trace_adds_up";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let found = &ask(&python, job())[0];
    let job = job();
    let mut by_op: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for event in job.events() {
        let sums = by_op.entry(event.op.name()).or_default();
        *sums = (sums.0 + 1, sums.1 + event.bytes(), sums.2 + event.took);
    }
    let by_op: Vec<_> = (by_op.into_iter())
        .map(|(op, (count, bytes, took))| json!([op, count, bytes, took]))
        .collect();
    assert_eq!(found["by_op"], json!(by_op));
    let each = job.runs[0].1.len();
    assert_eq!(
        found["by_place"],
        json!([
            ["alpha", 0, 100, 100, each],
            ["alpha", 1, 101, 101, each],
            ["beta", 2, 102, 102, each],
            ["beta", 2, 102, 103, each],
        ])
    );
    let first = job.events().map(|event| event.start).min();
    let last = job.events().map(|event| event.start).max();
    assert_eq!(found["epoch"], json!([first, last]));
    assert_eq!(found["failed"], 4);
    assert_eq!(found["buffered"], 4 * 12);
    assert_eq!(found["join"], job.events().count());
}

#[test]
fn pandas_reads_every_field_of_every_event() {
    let name = "pandas_reads_every_field_of_every_event";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let found = &ask(&python, job())[1];
    let job = job();
    let expected: Vec<_> = (job.events())
        .map(|event| {
            json!([
                event.start,
                event.took,
                event.op.name(),
                job.tables.path(event.file.unwrap()),
                event.offset,
                event.asked,
                event.result,
                event.request,
                event.seq,
            ])
        })
        .collect();
    assert_eq!(found["rows"], json!(expected));
}

#[test]
fn tables_beside_the_events_say_what_is_missing() {
    let name = "tables_beside_the_events_say_what_is_missing";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let mut job = lossy_job();
    job.tables.lost.push(Tally {
        op: Op::Pwrite,
        count: 7,
        bytes: 7 << 16,
        took: 1000,
    });
    let found = &ask(&python, job)[0];
    assert_eq!(found["lost"], 7);
    assert_eq!(found["gaps"], json!([[1, 40, 7, BEGIN + 300_000_000]]));
    assert_eq!(found["totals"], json!([["pwrite", true, 7, 7 << 16]]));
    assert_eq!(found["facts"][1], json!(["hearth.dropped", "7"]));
}

#[test]
fn the_questions_of_the_page_have_answers() {
    let name = "the_questions_of_the_page_have_answers";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let create = |name: &str| File::create(dir.path().join(name)).unwrap();
    let job = lossy_job();
    for side in Side::ALL {
        let name = format!("job.{}.parquet", side.name());
        side.write(&job.tables, create(&name)).unwrap();
    }
    export::parquet(job.clone(), create("job.parquet")).unwrap();
    let page = "../../docs/formats/trace-exports.md";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let page = page.canonicalize().unwrap();
    let found = answers_in(
        dir.path(),
        &python,
        "page_queries.py",
        &[page.to_str().unwrap()],
    );
    assert_eq!(found.len(), 7);
    assert_eq!(found[0].as_array().unwrap().len(), 7, "as many operations");
    assert_eq!(found[1][0][0], "/scratch/run/shared.dat");
    let in_order = found[4].as_array().unwrap();
    assert!(in_order.contains(&json!(["/scratch/run/shared.dat", 0.0])));
    assert_eq!(found[6][0][5], 7, "records of rank 1 are missing");
}
