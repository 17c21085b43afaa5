//! Results of `fio` on a cached file under `hearth run`, over its results on a copy on tmpfs.
//!
//! One shell inside of `hearth run` starts the one kind and this process the other, in turns.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::preload::{Load, run_over};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::report::{BenchReport, percentile, rounded};

/// How `fio` reads, and in what pieces.
const CASES: [(&str, &str, &str); 2] =
    [("randread", "randread", "4k"), ("seqread", "read", "128k")];

/// Adds keys for one job and for two, if there is a `fio`.
pub(super) fn measure(report: &mut BenchReport, dir: &Path, load: Load) -> Result<(), Failure> {
    if Command::new("fio").arg("--version").output().is_err() {
        report.sum_up("fio", "not installed");
        return Ok(());
    }
    let what = || "cannot run `fio` over the cache".to_owned();
    let mut shell = Shell::start(dir, load).or_fail(what)?;
    let (cached, beside) = (dir.join("store/file"), dir.join("tmpfs/file"));
    // In a quick run one job goes once over the file, or makes as many calls at random places.
    let (span, turns, most) = match load.turns > 3 {
        true => (Some("1"), 3, 2),
        false => (None, 1, 1),
    };
    let whole = |path: &Path| words(path, load.bytes, ("read", "1m"), 1, None);
    shell.fio(&whole(&cached)).or_fail(what)?;
    for (name, rw, block) in CASES {
        for jobs in 1..=most {
            let mut ratios = Vec::new();
            for _ in 0..turns {
                let of = |path: &Path| words(path, load.bytes, (rw, block), jobs, span);
                let ours = shell.fio(&of(&cached)).or_fail(what)?;
                let theirs = shell.bare(&of(&beside)).or_fail(what)?;
                ratios.push(ours / theirs);
            }
            let key = format!("fio_{name}_{jobs}_over_tmpfs");
            report.sum_up(&key, rounded(percentile(&ratios, 50.0)));
            ratios.sort_by(f64::total_cmp);
            let spread: Vec<f64> = [ratios[0], ratios[turns - 1]].map(rounded).to_vec();
            report.sum_up(&format!("{key}_spread"), spread);
        }
    }
    shell.end().or_fail(what)
}

fn words(
    path: &Path,
    bytes: usize,
    (rw, block): (&str, &str),
    jobs: usize,
    span: Option<&str>,
) -> Vec<String> {
    let mut words = vec![
        "--name=reads".to_owned(),
        "--ioengine=psync".to_owned(),
        format!("--filename={}", path.display()),
        format!("--size={bytes}"),
        format!("--rw={rw}"),
        format!("--bs={block}"),
        format!("--numjobs={jobs}"),
        "--invalidate=0".to_owned(),
        "--gtod_reduce=1".to_owned(),
        "--norandommap".to_owned(),
        "--group_reporting".to_owned(),
        "--output-format=json".to_owned(),
    ];
    words.extend(span.map(|span| format!("--time_based --runtime={span}s")));
    words
}

/// A shell inside of `hearth run`.
struct Shell {
    child: Child,
    said: BufReader<ChildStdout>,
    out: PathBuf,
}

impl Shell {
    fn start(dir: &Path, load: Load) -> io::Result<Shell> {
        let mut command = run_over(dir, load)?;
        command.args(["sh", "-s"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let said = child.stdout.take().map(BufReader::new);
        Ok(Shell {
            said: said.ok_or(io::ErrorKind::BrokenPipe)?,
            child,
            out: dir.join("fio.json"),
        })
    }

    /// Bytes in a second, inside.
    fn fio(&mut self, words: &[String]) -> io::Result<f64> {
        let line = self.line(words);
        let stdin = self.child.stdin.as_mut();
        writeln!(stdin.ok_or(io::ErrorKind::BrokenPipe)?, "{line}; echo done")?;
        let mut answer = String::new();
        self.said.read_line(&mut answer)?;
        self.bandwidth()
    }

    /// The same without `hearth run`.
    fn bare(&self, words: &[String]) -> io::Result<f64> {
        Command::new("sh")
            .args(["-c", &self.line(words)])
            .status()?;
        self.bandwidth()
    }

    fn line(&self, words: &[String]) -> String {
        let (words, out) = (words.join(" "), self.out.display());
        format!("fio {words} --output={out} </dev/null >/dev/null 2>&1")
    }

    fn bandwidth(&self) -> io::Result<f64> {
        let text = fs::read(&self.out)?;
        fs::remove_file(&self.out)?;
        // It may warn before.
        let start = text.iter().position(|byte| *byte == b'{').unwrap_or(0);
        let found: Value = serde_json::from_slice(&text[start..])?;
        let job = &found["jobs"][0];
        match (job["error"].as_i64(), job["read"]["bw_bytes"].as_f64()) {
            (Some(0), Some(bytes)) if bytes > 0.0 => Ok(bytes),
            _ => Err(io::Error::other("it says nothing of what it read")),
        }
    }

    fn end(mut self) -> io::Result<()> {
        drop(self.child.stdin.take());
        self.child.wait().map(drop)
    }
}
