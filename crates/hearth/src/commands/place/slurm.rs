//! A directory of Slurm scripts as jobs.
//!
//! A script reads the files that a line `#HEARTH reads ...` names, and those that it mentions by a path that the
//! residency knows. It writes such a path after `>`. Other lines of `#HEARTH` are as in a jobs file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::jobs::{Asked, Job, check_names};
use super::residency::Residency;
use hearth_set::failure::{Failure, OrFail};

const EXTENSIONS: [&str; 4] = ["sh", "sbatch", "slurm", "job"];

/// Files that words may mean.
struct Known<'a> {
    residency: &'a Residency,
    paths: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn of(residency: &'a Residency) -> Known<'a> {
        Known {
            residency,
            paths: residency.paths(),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.paths.contains(self.residency.name_of(word))
    }
}

/// Reads all scripts of a directory, in the order of their names.
pub(super) fn read(dir: &Path, residency: &Residency) -> Result<Asked, Failure> {
    let what = || format!("cannot read jobs from `{}`", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).or_fail(what)? {
        let path = entry.or_fail(what)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Failure::new(what()).cause(format!(
            "no script lies there: a name ends in .{}",
            EXTENSIONS.join(", .")
        )));
    }
    paths.sort();
    let known = Known::of(residency);
    let mut asked = Asked::default();
    for path in paths {
        let text = fs::read_to_string(&path).or_fail(what)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let job = parse(&stem, &text, &known);
        let job =
            job.map_err(|why| Failure::new(what()).cause(format!("`{}`, {why}", path.display())))?;
        asked.jobs.push(job);
    }
    check_names(&asked).map_err(|why| Failure::new(what()).cause(why))?;
    Ok(asked)
}

fn parse(stem: &str, text: &str, known: &Known<'_>) -> Result<Job, String> {
    let mut job = Job::new(stem);
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(words) = line.strip_prefix("#HEARTH ") {
            let taken = job.take(words.split_whitespace());
            taken.map_err(|why| format!("line {number}: {why}"))?;
        } else if let Some(options) = line.strip_prefix("#SBATCH ") {
            if let Some(name) = job_name(options) {
                job.name = name.to_owned();
            }
        } else {
            mentions(line, known, &mut job);
        }
    }
    for list in [&mut job.reads, &mut job.writes] {
        list.sort();
        list.dedup();
    }
    Ok(job)
}

fn job_name(options: &str) -> Option<&str> {
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-J" | "--job-name" => return words.next(),
            _ => {
                let short = word.strip_prefix("-J");
                let named = word.strip_prefix("--job-name=").or(short);
                if named.is_some_and(|name| !name.is_empty()) {
                    return named;
                }
            }
        }
    }
    None
}

/// Paths of the residency in a line of a shell script, up to a comment.
fn mentions(line: &str, known: &Known<'_>, job: &mut Job) {
    let mut is_written = false;
    let spaced = line.replace('>', " > ");
    for word in spaced.split(|letter: char| letter.is_whitespace() || "=;()<|&".contains(letter)) {
        let word = word.trim_matches(['"', '\'']);
        if word.starts_with('#') {
            return;
        }
        if known.has(word) {
            let list = if is_written {
                &mut job.writes
            } else {
                &mut job.reads
            };
            list.push(word.to_owned());
        }
        is_written = word == ">" || (is_written && word.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_what_it_mentions() {
        let residency = super::super::residency::parse(
            r#"{"roots": ["/d"], "nodes": [{"name": "n1"}], "files": [
                {"path": "in.dat", "size": 5}, {"path": "ref", "size": 7},
                {"path": "/d/out", "size": 1}, {"path": "out", "size": 1}]}"#,
        );
        let residency = residency.unwrap().remove(0);
        let text = "#!/bin/sh\n#SBATCH -N 1 --job-name=align\n#HEARTH after prep reads /d/more\n\
                    tool --ref=/d/ref \"/d/in.dat\" >>/d/out # not /d/never\ncat /d/ref\n";
        let job = parse("file", text, &Known::of(&residency)).unwrap();
        let expected = Job {
            after: vec!["prep".to_owned()],
            reads: ["/d/in.dat", "/d/more", "/d/ref"]
                .map(str::to_owned)
                .to_vec(),
            writes: vec!["/d/out".to_owned()],
            ..Job::new("align")
        };
        assert_eq!(job, expected);
    }
}
