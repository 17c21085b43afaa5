//! `hearth-lab sim`, as people meet it.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "support/lab.rs"]
mod lab;

use std::fs;
use std::path::Path;
use std::process::Output;

use hearth_trace::Op;
use hearth_trace::file::{NewProcess, SessionId, Writer};
use hearth_trace::ring::OpFacts;
use lab::{lab_in, summary_of};
use serde_json::Value;
use tempfile::TempDir;

/// A directory with some files in it.
struct Dir(TempDir);

impl Dir {
    fn new(files: &[(&str, &str)]) -> Dir {
        let dir = Dir(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = dir.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn lab(&self, args: &[&str]) -> Output {
        lab_in(self.0.path(), args)
    }

    /// Output of a command that succeeds.
    fn out(&self, args: &[&str]) -> String {
        let output = self.lab(args);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Complaint of a command that cannot do what it was asked.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.lab(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The summary at the end of JSON lines.
    fn summary(&self, args: &[&str]) -> Value {
        let output = self.lab(args);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {err}");
        summary_of(&output)
    }
}

#[test]
fn a_schedule_comes_with_its_bounds() {
    let dir = Dir::new(&[]);
    let small = [
        "sim", "schedule", "--json", "--nodes", "4", "--volume", "100",
    ];
    let summary = dir.summary(&[&small[..], &["--files-per-node", "2,5"]].concat());
    let number = |value: &Value| value.as_f64().unwrap();
    for files in ["2", "5"] {
        let of = |key: &str| number(&summary[key][files]);
        let (paper, improved) = (of("random_speedup_paper"), of("random_speedup"));
        assert!(1.0 <= paper && paper <= improved, "{summary}");
        assert!(improved <= of("random_speedup_bound"), "{summary}");
    }
    let pair = ["volume", "volume_cold", "volume_fast_memory", "long"];
    for case in pair {
        let of = |key: &str| number(&summary[&format!("pair_{key}_{case}")]);
        assert!(of("speedup") <= of("bound"), "{summary}");
    }
    assert!(number(&summary["pair_speedup"]) >= 29.0, "{summary}");
    assert!(
        number(&summary["improved_over_optimum_worst"]) <= 1.02,
        "{summary}"
    );
    let paper = number(&summary["paper_over_optimum"]);
    assert!(
        number(&summary["improved_over_optimum"]) <= paper,
        "{summary}"
    );
    let again = [
        &small[..],
        &["--files-per-node", "2,5", "--sizes", "random"],
    ]
    .concat();
    let again = dir.summary(&again);
    assert_eq!(
        again["random_speedup"], summary["random_speedup"],
        "one seed"
    );
}

#[test]
fn a_trace_is_run_through_every_policy() {
    let mut csv = String::from("id,size\n");
    for read in 0..200 {
        csv.push_str(&format!("{},10\n", read % 10));
    }
    let dir = Dir::new(&[("trace.csv", &csv), ("bad.csv", "a,b\n1,2\n")]);
    let table = dir.out(&["sim", "cache", "trace.csv", "--size", "50,100%"]);
    let miss = |system: &str| {
        let line = table
            .lines()
            .find(|line| line.starts_with("50 B") && line.contains(system));
        let ratio = line.unwrap().split_whitespace().last().unwrap();
        ratio.parse::<f64>().unwrap()
    };
    assert_eq!(miss("lru"), 1.0, "a loop longer than the cache");
    assert!(miss("no policy below") <= 0.56, "{table}");
    let all = table.lines().filter(|line| line.starts_with("100 B"));
    assert!(
        all.clone().count() == 8 && all.clone().all(|line| line.ends_with("0.0500")),
        "{table}"
    );
    let said = dir.refused(&["sim", "cache", "bad.csv"]);
    assert!(said.contains("its first line names no column"), "{said}");
}
/// A trace of two hosts that each read the same ten pages twice, and write one of their own.
fn shared_reads(dir: &Path) -> Vec<String> {
    const PAGE: u64 = 256 << 10;
    let trace = |host: u32| {
        let path = dir.join(format!("host{host}.htrace"));
        let file = fs::File::create(&path).unwrap();
        let session = SessionId(u64::from(host) + 1);
        let names = (format!("host{host}"), u128::from(host));
        let mut writer = Writer::new(file, session, (&names.0, names.1)).unwrap();
        let process = NewProcess {
            pid: 1,
            start_time: 1,
            image: 0,
            clock: 2,
            start: 0,
        };
        let process = writer.process(&process).unwrap();
        let stream = writer.stream(process, (0, 0), 1).unwrap();
        writer.file(process, 1, (b"/scratch/in", "ext4")).unwrap();
        writer.file(process, 2, (b"/scratch/out", "ext4")).unwrap();
        let call = |seq: u64, op: Op, file: u32, page: u64| {
            let done = OpFacts {
                offset: page * PAGE,
                asked: PAGE,
                result: PAGE as i64,
                file,
                ..OpFacts::new(op)
            };
            let mut record = done.record(seq * 1000, seq * 1000 + 10, 0);
            record.seq = seq;
            record
        };
        let reads = (1..=20).map(|seq| call(seq, Op::Pread, 1, (seq - 1) % 10));
        let write = call(21, Op::Pwrite, 2, u64::from(host));
        let records: Vec<_> = reads.chain([write]).collect();
        writer.records(stream, &records).unwrap();
        writer.finish().unwrap();
        path.to_str().unwrap().to_owned()
    };
    (0..2).map(trace).collect()
}

#[test]
fn a_trace_is_simulated_with_another_policy_or_pool() {
    let dir = Dir::new(&[]);
    let traces = shared_reads(dir.0.path());
    let simulate = |more: &[&str]| {
        let files = traces.iter().map(String::as_str);
        let words = ["sim", "replay", "--json"].into_iter();
        let words: Vec<&str> = words.chain(files).chain(more.iter().copied()).collect();
        let told = dir.out(&words);
        let lines = told.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    };
    let each = simulate(&[]);
    let [none, home, _bank] = &each[..] else {
        panic!("{each:?}");
    };
    assert_eq!(
        (&none["policy"], &none["page_reads"]),
        (&"none".into(), &40.into())
    );
    assert_eq!(none["store_reads"], 40, "nothing is kept: {none}");
    let requests = |line: &Value, what: &str| line[what].as_u64().unwrap();
    assert!(
        (1..=10).contains(&requests(home, "store_reads")),
        "each page is read once for all, several by one request: {home}"
    );
    assert_eq!(none["store_writes"], 2);
    assert!((1..=2).contains(&requests(home, "store_writes")), "{home}");
    assert!(home["own_hit_ratio"].as_f64().unwrap() >= 0.5, "{home}");
    assert_eq!(none["own_hit_ratio"], 0.0);
    let again = simulate(&["--policy", "home", "--pool", "64MiB"]);
    assert_eq!(
        again,
        std::slice::from_ref(home),
        "the same is found every time, and the pool is large enough"
    );
}
