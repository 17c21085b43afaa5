//! Which jobs run after which.

use std::collections::{BTreeMap, BTreeSet};

use crate::commands::place::jobs::Job;

/// The wave of each job: 0 if it waits for nobody. The error tells a circle.
///
/// A job runs after those that it names. It also runs after a job that was named earlier and writes a file that it
/// reads, unless that one runs after it.
pub(super) fn waves(jobs: &[Job]) -> Result<Vec<usize>, String> {
    let before = before(jobs);
    let mut waves: Vec<Option<usize>> = vec![None; jobs.len()];
    loop {
        let mut progress = false;
        for job in 0..jobs.len() {
            if waves[job].is_some() {
                continue;
            }
            let ahead: Option<Vec<usize>> = before[job].iter().map(|other| waves[*other]).collect();
            if let Some(ahead) = ahead {
                waves[job] = Some(ahead.iter().max().map_or(0, |last| last + 1));
                progress = true;
            }
        }
        if let Some(all) = waves.iter().copied().collect() {
            return Ok(all);
        }
        if !progress {
            return Err(circle(jobs, &before, &waves));
        }
    }
}

/// For each job those that it waits for.
fn before(jobs: &[Job]) -> Vec<BTreeSet<usize>> {
    let names: BTreeMap<&str, usize> = jobs.iter().map(|job| job.name.as_str()).zip(0..).collect();
    let mut writers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut all: Vec<BTreeSet<usize>> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let mut before: BTreeSet<usize> =
            job.after.iter().map(|name| names[name.as_str()]).collect();
        let read = job
            .reads
            .iter()
            .filter_map(|file| writers.get(file.as_str()));
        let earlier = read
            .flatten()
            .filter(|writer| !jobs[**writer].after.contains(&job.name));
        before.extend(earlier);
        all.push(before);
        for file in &job.writes {
            writers.entry(file).or_default().push(number);
        }
    }
    all
}

/// A circle among jobs that have no wave, in words.
fn circle(jobs: &[Job], before: &[BTreeSet<usize>], waves: &[Option<usize>]) -> String {
    let mut path = Vec::new();
    let mut at = waves
        .iter()
        .position(Option::is_none)
        .expect("a job has no wave");
    while !path.contains(&at) {
        path.push(at);
        let next = before[at].iter().find(|other| waves[**other].is_none());
        at = *next.expect("it waits for one that has no wave");
    }
    let start = path.iter().position(|job| *job == at).unwrap_or(0);
    let circle = path[start..].iter().chain([&at]);
    let names: Vec<String> = circle.map(|job| format!("`{}`", jobs[*job].name)).collect();
    format!("jobs wait for each other: {}", names.join(" after "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, words: &str) -> Job {
        let mut job = Job::new(name);
        job.take(words.split_whitespace()).unwrap();
        job
    }

    #[test]
    fn a_job_comes_after_those_that_write_what_it_reads() {
        let jobs = [
            job("a", "writes x"),
            job("b", "reads x writes y"),
            job("c", "after a"),
            job("d", "reads y"),
        ];
        assert_eq!(waves(&jobs), Ok(vec![0, 1, 1, 2]));
    }

    #[test]
    fn a_file_that_is_updated_later_makes_no_circle() {
        let jobs = [job("late", "after early writes x"), job("early", "reads x")];
        assert_eq!(waves(&jobs), Ok(vec![1, 0]));
    }

    #[test]
    fn a_circle_is_told() {
        let jobs = [
            job("a", "after c"),
            job("b", "after a"),
            job("c", "after b"),
        ];
        let words = "jobs wait for each other: `a` after `c` after `b` after `a`";
        assert_eq!(waves(&jobs), Err(words.to_owned()));
        assert!(waves(&[job("a", "after a")]).is_err());
    }
}
