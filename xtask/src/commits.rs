//! Subjects of the commits that the branch's upstream does not have yet: short, capital first, no full
//! stop, and an order.

use std::path::Path;
use std::process::Command;

use crate::Verdict;
use crate::repo::Repo;

const SUBJECT_CHARS_MAX: usize = 60;

/// One commit, without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The short hash.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

/// The commits of HEAD that its upstream does not have; merges are left out.
#[derive(Debug)]
pub enum Unpushed {
    /// These, the newest first.
    Known(Vec<Commit>),
    /// Git does not tell, for this reason.
    Unknown(String),
}

impl Default for Unpushed {
    fn default() -> Unpushed {
        Unpushed::Known(Vec::new())
    }
}

/// Asks git about the repository at `root`.
pub(crate) fn load(root: &Path) -> Unpushed {
    let output = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", "@{upstream}..HEAD"])
        .current_dir(root)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Unpushed::Known(parse(&String::from_utf8_lossy(&output.stdout)))
        }
        Ok(output) => Unpushed::Unknown(first_line(&String::from_utf8_lossy(&output.stderr))),
        Err(error) => Unpushed::Unknown(format!("cannot run git: {error}")),
    }
}

fn parse(log: &str) -> Vec<Commit> {
    let lines = log.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(id, subject)| Commit {
            id: id.to_owned(),
            subject: subject.to_owned(),
        })
        .collect()
}

fn first_line(words: &str) -> String {
    words.lines().next().unwrap_or_default().to_owned()
}

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    match &repo.unpushed {
        Unpushed::Known(commits) => {
            for commit in commits {
                for fault in faults(&commit.subject) {
                    let what = format!("{fault}: `{}`", commit.subject);
                    verdict.find(&format!("commit {}", commit.id), 1, what);
                }
            }
            verdict.note = format!("{} commits beyond the upstream", commits.len());
        }
        Unpushed::Unknown(why) => verdict.note = format!("skipped: {why}"),
    }
    verdict
}

fn faults(subject: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let chars = subject.chars().count();
    if chars > SUBJECT_CHARS_MAX {
        faults.push(format!(
            "subject of {chars} characters; at most {SUBJECT_CHARS_MAX}"
        ));
    }
    if !subject.starts_with(char::is_uppercase) {
        faults.push("subject begins without a capital".to_owned());
    }
    if subject.ends_with('.') {
        faults.push("subject ends with a full stop".to_owned());
    }
    let word = subject.split_whitespace().next().unwrap_or_default();
    if !may_be_order(word) {
        faults.push(format!("subject is no order: `{word}`"));
    }
    faults
}

/// Whether a first word can be an order, as far as its end tells: `Adds` passes, `Added` does not.
fn may_be_order(word: &str) -> bool {
    let word = word.to_lowercase();
    let stem = word.strip_suffix("ing").or(word.strip_suffix("ed"));
    // `Bring`, `Shed` and `Feed` have no verb before their end.
    stem.is_none_or(|stem| stem.ends_with('e') || !stem.contains(['a', 'e', 'i', 'o', 'u', 'y']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(subject: &str) -> usize {
        let commits = parse(&format!("abc1234 {subject}\n"));
        let repo = Repo {
            unpushed: Unpushed::Known(commits),
            ..Repo::default()
        };
        check(&repo).findings.len()
    }

    #[test]
    fn an_order_passes() {
        for subject in [
            "Let a writer wait",
            "Bring bytes to the store",
            "Feed the queue",
        ] {
            assert_eq!(findings(subject), 0, "{subject}");
        }
    }

    #[test]
    fn fires_on_a_subject_of_61_characters() {
        assert_eq!(findings(&"A".repeat(60)), 0);
        assert_eq!(findings(&"A".repeat(61)), 1);
    }

    #[test]
    fn fires_on_a_small_first_letter() {
        assert_eq!(findings("let a writer wait"), 1);
    }

    #[test]
    fn fires_on_a_full_stop() {
        assert_eq!(findings("Let a writer wait."), 1);
    }

    #[test]
    fn fires_on_a_first_word_that_is_no_order() {
        assert_eq!(findings("Fixed a race"), 1);
        assert_eq!(findings("Adding a check"), 1);
    }

    #[test]
    fn says_so_when_there_is_no_upstream() {
        let repo = Repo {
            unpushed: Unpushed::Unknown("fatal: no upstream".to_owned()),
            ..Repo::default()
        };
        let verdict = check(&repo);
        assert!(verdict.findings.is_empty());
        assert_eq!(verdict.note, "skipped: fatal: no upstream");
    }
}
