//! `hearth place`, as people meet it.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

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

    fn hearth(&self, args: &[&str]) -> Output {
        let named = std::env::var_os("HEARTH_BIN").map(PathBuf::from);
        let program = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_hearth")));
        let mut command = Command::new(program);
        command.args(args).current_dir(self.0.path());
        command.output().unwrap()
    }

    /// The output of a command that succeeds.
    fn out(&self, args: &[&str]) -> String {
        let output = self.hearth(args);
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The message of a command that cannot do its task.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.hearth(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The summary at the end of JSON lines.
    fn summary(&self, args: &[&str]) -> Value {
        let out = self.out(args);
        let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        last["summary"].clone()
    }
}

const RESIDENCY: &str = r#"{
    "nodes": [{"name": "n1"}, {"name": "n2"}, {"name": "n3"}],
    "files": [
        {"path": "p", "size": 50, "held": {"n1": 50}},
        {"path": "q", "size": 40, "held": {"n2": 40}},
        {"path": "r", "size": 45, "held": {"n1": 45}}]}"#;

const JOBS: &str = "job a reads p q writes out\njob b reads r\njob c reads out\nfile out 1KiB\n";

fn placed(jobs: &str) -> Dir {
    Dir::new(&[("now.json", RESIDENCY), ("jobs", jobs)])
}

#[test]
fn a_job_gets_the_node_that_has_its_bytes() {
    let dir = placed(JOBS);
    let table = dir.out(&["place", "--residency", "now.json", "jobs"]);
    let words: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(words[1][..3], ["a", "0", "n2"]);
    assert_eq!(words[2][..3], ["b", "0", "n1"]);
    assert_eq!(words[3][..3], ["c", "1", "n2"], "its file is written there");
    let summary = dir.summary(&["place", "--residency", "now.json", "jobs", "--as", "json"]);
    assert_eq!(
        (&summary["moved"], &summary["moved_paper"]),
        (&50.into(), &85.into())
    );
}

#[test]
fn ranks_come_in_order_and_options_are_ready_to_use() {
    let dir = placed("job s ranks 2 reads part{rank}\nfile part0 5\njob t reads r\nfile part1 5\n");
    let place = ["place", "--residency", "now.json", "jobs", "--as"];
    let with = |more: &[&str]| dir.out(&[&place[..], more].concat());
    let hosts = with(&["hostfile", "--job", "s"]);
    let mut hosts: Vec<&str> = hosts.lines().collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["n2", "n3"], "n1 has the bytes of `t`");
    assert_eq!(with(&["nodelist"]), "s\nt --nodelist=n1\n");
    assert_eq!(with(&["nodelist", "--job", "t"]), "--nodelist=n1\n");
    assert_eq!(
        with(&["nodelist", "--job", "s"]),
        "\n",
        "it has nothing anywhere"
    );
}

#[test]
fn slurm_scripts_are_jobs() {
    let script = "#!/bin/sh\n#SBATCH --job-name=align\ntool --in=r > q\n";
    let dir = Dir::new(&[("now.json", RESIDENCY), ("scripts/x.sh", script)]);
    let out = dir.out(&[
        "place",
        "--residency",
        "now.json",
        "scripts",
        "--as",
        "nodelist",
    ]);
    assert_eq!(out, "align --nodelist=n1\n");
}

#[test]
fn jobs_that_make_no_sense_are_refused_in_words() {
    for (jobs, why) in [
        ("job a\n", "no job names a file that it reads"),
        (
            "job a reads x\n",
            "job `a` reads `x`, of which no size is known",
        ),
        (
            "job a reads p after b\njob b after a\n",
            "jobs wait for each other: `a` after `b` after `a`",
        ),
        ("file x -1\n", "line 1: file `x`: `-1` is not a size"),
        ("job a reads p ranks 1000000\n", "1000000 ranks together"),
        ("file x 1\njob a reads p\n", "file `x` is named by no job"),
    ] {
        let said = placed(jobs).refused(&["place", "--residency", "now.json", "jobs"]);
        assert!(
            said.starts_with("error: ") && said.contains(why),
            "{jobs}: {said}"
        );
    }
    let few =
        r#"{"nodes": [{"name": "n", "memory": "1K"}], "files": [{"path": "p", "size": "2K"}]}"#;
    let dir = Dir::new(&[("now.json", few), ("jobs", "job a reads p\n")]);
    let said = dir.refused(&["place", "--residency", "now.json", "jobs"]);
    assert!(
        said.contains("they read 2 KiB, and all nodes together hold 1 KiB"),
        "{said}"
    );
    let said = dir.refused(&["place", "--residency", "none.json", "jobs"]);
    assert!(
        said.contains("cannot read the residency `none.json`"),
        "{said}"
    );
}
