//! The jobs file, as docs/formats/jobs.md has it.
//!
//! ```text
//! file mesh.h5 3GiB
//! job solve ranks 4 reads mesh.h5 part-{rank}.dat writes out-{rank}.dat
//! job merge after solve reads out-0.dat out-1.dat
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::residency::Residency;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::size::Size;

/// Ranks of one job, at most.
pub(super) const RANKS_MAX: u32 = 1 << 20;

/// Stands for a rank's number in the name of a file.
const RANK: &str = "{rank}";

/// The name of a file for one rank.
pub(super) fn of_rank(name: &str, rank: u32) -> String {
    name.replace(RANK, &rank.to_string())
}

/// The jobs to be placed.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// In the order in which they were named.
    pub(super) jobs: Vec<Job>,
    /// Sizes of files that the residency need not know.
    pub(super) sizes: BTreeMap<String, Size>,
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) name: String,
    /// Each rank takes a seat of its own.
    pub(super) ranks: u32,
    pub(super) after: Vec<String>,
    pub(super) reads: Vec<String>,
    pub(super) writes: Vec<String>,
}

impl Asked {
    /// Calls files as the residency does, and refuses sizes of files that no job names.
    pub(super) fn settle(&mut self, residency: &Residency) -> Result<(), String> {
        let short = |name: &String| residency.name_of(name).to_owned();
        for job in &mut self.jobs {
            for names in [&mut job.reads, &mut job.writes] {
                *names = names.iter().map(short).collect();
            }
        }
        let sizes = std::mem::take(&mut self.sizes);
        self.sizes = sizes
            .iter()
            .map(|(name, size)| (short(name), *size))
            .collect();
        let named: BTreeSet<String> = self.jobs.iter().flat_map(Job::files).collect();
        match self.sizes.keys().find(|name| !named.contains(*name)) {
            Some(name) => Err(format!("file `{name}` is named by no job")),
            None => Ok(()),
        }
    }
}

impl Job {
    /// The files of all its ranks.
    pub(super) fn files(&self) -> impl Iterator<Item = String> + '_ {
        let names = self.reads.iter().chain(&self.writes);
        names.flat_map(|name| {
            let ranks = if name.contains(RANK) { self.ranks } else { 1 };
            (0..ranks).map(|rank| of_rank(name, rank))
        })
    }

    pub(super) fn new(name: &str) -> Job {
        Job {
            name: name.to_owned(),
            ranks: 1,
            ..Job::default()
        }
    }

    /// Takes in words such as `after a b reads x y`.
    pub(super) fn take<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut list: Option<&str> = None;
        for word in words {
            match (list, word) {
                (_, "after" | "reads" | "writes" | "ranks") => list = Some(word),
                (Some("after"), _) => self.after.push(word.to_owned()),
                (Some("reads"), _) => self.reads.push(word.to_owned()),
                (Some("writes"), _) => self.writes.push(word.to_owned()),
                (Some(_), _) => {
                    self.ranks = ranks(word)?;
                    list = None;
                }
                (None, _) => {
                    return Err(format!(
                        "`{word}` stands where `reads`, `writes`, `after` or `ranks` should"
                    ));
                }
            }
        }
        match list {
            Some("ranks") => Err("`ranks` wants a number".to_owned()),
            Some(_) | None => Ok(()),
        }
    }
}

fn ranks(word: &str) -> Result<u32, String> {
    let ranks = word.parse().ok();
    let ranks = ranks.filter(|ranks| (1..=RANKS_MAX).contains(ranks));
    ranks.ok_or_else(|| format!("`{word}` is no number of ranks: 1 to {RANKS_MAX}"))
}

/// Reads a jobs file.
pub(super) fn read(path: &Path) -> Result<Asked, Failure> {
    let what = || format!("cannot read jobs from `{}`", path.display());
    let text = fs::read_to_string(path).or_fail(what)?;
    let mut asked = Asked::default();
    for (number, line) in (1..).zip(text.lines()) {
        parse_line(line, &mut asked)
            .map_err(|why| Failure::new(what()).cause(format!("line {number}: {why}")))?;
    }
    check_names(&asked).map_err(|why| Failure::new(what()).cause(why))?;
    Ok(asked)
}

fn parse_line(line: &str, asked: &mut Asked) -> Result<(), String> {
    let line = line.split_once('#').map_or(line, |(before, _)| before);
    let mut words = line.split_whitespace();
    match words.next() {
        None => Ok(()),
        Some("file") => {
            let (Some(name), Some(size), None) = (words.next(), words.next(), words.next()) else {
                return Err("a file has a name and a size: `file mesh.h5 3GiB`".to_owned());
            };
            let size = size.parse::<Size>();
            let size = size.map_err(|why| format!("file `{name}`: {why}"))?;
            match asked.sizes.insert(name.to_owned(), size) {
                None => Ok(()),
                Some(_) => Err(format!("file `{name}` was named before")),
            }
        }
        Some("job") => {
            let name = words
                .next()
                .ok_or("a job has a name: `job solve reads mesh.h5`")?;
            let mut job = Job::new(name);
            job.take(words)?;
            asked.jobs.push(job);
            Ok(())
        }
        Some(word) => Err(format!("`{word}` is neither `file` nor `job`")),
    }
}

/// Names are told apart, and those after which a job runs exist.
pub(super) fn check_names(asked: &Asked) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for job in &asked.jobs {
        if !names.insert(job.name.as_str()) {
            return Err(format!("there are two jobs `{}`", job.name));
        }
    }
    for job in &asked.jobs {
        if let Some(other) = job
            .after
            .iter()
            .find(|other| !names.contains(other.as_str()))
        {
            return Err(format!(
                "job `{}` runs after `{other}`, which is no job",
                job.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Asked, String> {
        let mut asked = Asked::default();
        for line in text.lines() {
            parse_line(line, &mut asked)?;
        }
        check_names(&asked).map(|()| asked)
    }

    #[test]
    fn jobs_and_files_are_read() {
        let asked =
            parse("file m 3GiB # mesh\n\njob s ranks 4 reads m p-{rank}\njob t after s writes o\n");
        let asked = asked.unwrap();
        assert_eq!(asked.sizes["m"], Size(3 << 30));
        let first = Job {
            ranks: 4,
            reads: vec!["m".to_owned(), "p-{rank}".to_owned()],
            ..Job::new("s")
        };
        let second = Job {
            after: vec!["s".to_owned()],
            writes: vec!["o".to_owned()],
            ..Job::new("t")
        };
        assert_eq!(asked.jobs, [first, second]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("file a -5", "file `a`: `-5` is not a size"),
            ("file a", "a file has a name and a size"),
            ("file a 1\nfile a 1", "file `a` was named before"),
            ("job", "a job has a name"),
            ("job a b", "`b` stands where"),
            ("job a ranks", "`ranks` wants a number"),
            ("job a ranks 0", "`0` is no number of ranks"),
            ("job a\njob a", "there are two jobs `a`"),
            ("job a after b", "job `a` runs after `b`, which is no job"),
            ("jobs a", "`jobs` is neither"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(why), "{text}: {said}");
        }
    }
}
