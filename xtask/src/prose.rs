//! Sentences of pages and comments: short, and none that opens with a clause as its subject.
//!
//! Read are all pages (`*.md`) and the line comments of all Rust files, without code, tables,
//! headings and HTML. An item of a list begins a sentence; a piece of code counts as one word.

mod sentences;

use crate::Verdict;
use crate::comments::runs;
use crate::repo::{File, Repo};
use sentences::{Sentence, sentences};

/// Words of one sentence.
const WORDS_MAX: usize = 40;
/// Words of a sentence in a file, on average.
const MEAN_MAX: usize = 15;
/// Words of a sentence that nine of ten in a file do not pass.
const P90_MAX: usize = 26;
/// A file with fewer sentences has no average.
const SENTENCES_MIN: usize = 20;
/// Words that make a clause of the subject. A question may open with them.
const OPENERS: &[&str] = &["what", "who", "whoever", "whom", "whose", "where"];
/// Characters of a sentence that a finding shows.
const SHOWN: usize = 70;

pub(crate) fn check(repo: &Repo) -> Verdict {
    check_under(repo, &[".".to_owned()])
}

/// Checks the files whose path is one of `paths`, or below one.
pub fn check_under(repo: &Repo, paths: &[String]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut lengths = Vec::new();
    let wanted = |file: &&File| paths.iter().any(|path| is_under(&file.path, path));
    for file in repo.files.iter().filter(wanted) {
        let mut of_file = check_file(file, &mut verdict);
        lengths.append(&mut of_file);
    }
    for path in paths {
        if !repo.files.iter().any(|file| is_under(&file.path, path)) {
            verdict.find(path, 1, "no file of the repository is here");
        }
    }
    lengths.sort_unstable();
    verdict.note = match spread(&lengths) {
        Some((sum, p90)) => {
            let mean = sum as f64 / lengths.len() as f64;
            format!("{} sentences: mean {mean:.1}, p90 {p90}", lengths.len())
        }
        None => "no sentences".to_owned(),
    };
    verdict
}

fn is_under(file: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let path = path.strip_prefix('.').unwrap_or(path);
    let path = path.trim_start_matches('/');
    let rest = file.strip_prefix(path);
    path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the lengths of the file's sentences.
fn check_file(file: &File, verdict: &mut Verdict) -> Vec<usize> {
    let found = read(file);
    for sentence in &found {
        if let Some(fault) = fault(sentence) {
            let shown: String = sentence.text.chars().take(SHOWN).collect();
            verdict.find(&file.path, sentence.line, format!("{fault}: {shown}"));
        }
    }
    let mut lengths: Vec<usize> = found.iter().map(Sentence::words).collect();
    lengths.sort_unstable();
    if lengths.len() >= SENTENCES_MIN {
        check_spread(file, &lengths, verdict);
    }
    lengths
}

fn check_spread(file: &File, lengths: &[usize], verdict: &mut Verdict) {
    let Some((sum, p90)) = spread(lengths) else {
        return;
    };
    if sum > MEAN_MAX * lengths.len() {
        let mean = sum as f64 / lengths.len() as f64;
        let what = format!("sentences of {mean:.2} words on average; at most {MEAN_MAX}");
        verdict.find(&file.path, 1, what);
    }
    if p90 > P90_MAX {
        let what = format!("one sentence in ten has {p90} words; at most {P90_MAX}");
        verdict.find(&file.path, 1, what);
    }
}

/// The sum, and the length that nine of ten do not pass, of sorted lengths.
fn spread(lengths: &[usize]) -> Option<(usize, usize)> {
    let p90 = *lengths.get(lengths.len() * 9 / 10)?;
    Some((lengths.iter().sum(), p90))
}

fn read(file: &File) -> Vec<Sentence> {
    if file.path.ends_with(".md") {
        return sentences(file.text.lines().zip(1..));
    }
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let runs = runs(&file.text);
    runs.iter()
        .flat_map(|run| sentences(run.iter().map(|comment| (comment.text, comment.line))))
        .collect()
}

fn fault(sentence: &Sentence) -> Option<String> {
    let words = sentence.words();
    if words > WORDS_MAX {
        return Some(format!("{words} words; at most {WORDS_MAX}"));
    }
    let opener = sentence.first_word();
    let opens = OPENERS.contains(&opener.to_lowercase().as_str());
    (opens && !sentence.is_question()).then(|| format!("opens with `{opener}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let found = check(&Repo::sample(&[(path, text)])).findings;
        found.into_iter().map(|f| f.to_string()).collect()
    }

    /// A sentence of so many words.
    fn words(count: usize) -> String {
        format!("Words{}.\n", " words".repeat(count - 1))
    }

    #[test]
    fn fires_on_a_sentence_of_41_words() {
        assert_eq!(findings("a.md", &words(40)), Vec::<String>::new());
        assert_eq!(findings("a.md", &words(41)).len(), 1);
    }

    #[test]
    fn fires_on_a_clause_as_subject_and_not_on_a_question() {
        assert_eq!(findings("a.md", "Short. What is left goes.\n").len(), 1);
        assert_eq!(findings("a.md", "- where it is\n").len(), 1);
        assert_eq!(findings("a.md", "**Who asks** waits.\n").len(), 1);
        let fine = "What is left? It says what is left. Whatever comes.\n\n- What now?\n";
        assert_eq!(findings("a.md", fine), Vec::<String>::new());
    }

    #[test]
    fn fires_on_comments_and_not_on_code() {
        let text = "//! What it is.\n/// Whose it\n/// is.\nfn f() {\n    g(\"// Who is.\"); // Where.\n}\n";
        let lines = findings("crates/a/src/a.rs", text);
        let starts: Vec<&str> = lines.iter().map(|line| &line[..19]).collect();
        let at = |line: u32| format!("crates/a/src/a.rs:{line}");
        assert_eq!(starts, [at(1), at(2), at(5)]);
        assert_eq!(findings("a.sh", "# What it is.\n"), Vec::<String>::new());
    }

    #[test]
    fn fires_on_a_mean_above_15_words() {
        let fine = words(15).repeat(20);
        assert_eq!(findings("a.md", &fine), Vec::<String>::new());
        let long = format!("{fine}{}", words(16));
        assert_eq!(findings("a.md", &long).len(), 1);
        assert_eq!(
            findings("a.md", &words(20).repeat(19)),
            Vec::<String>::new()
        );
    }

    #[test]
    fn fires_when_one_sentence_in_ten_has_27_words() {
        let short = words(8).repeat(18);
        let two_of = |count| format!("{short}{}", words(count).repeat(2));
        assert_eq!(findings("a.md", &two_of(26)), Vec::<String>::new());
        assert_eq!(findings("a.md", &two_of(27)).len(), 1);
    }

    #[test]
    fn fires_on_a_path_that_is_not_there() {
        let repo = Repo::sample(&[("a/b.md", "Plain.\n")]);
        assert_eq!(check_under(&repo, &["a/c.md".to_owned()]).findings.len(), 1);
    }

    #[test]
    fn only_the_named_paths_are_read() {
        let files = [("a/b.md", "Who is.\n"), ("ab/c.md", "Who is.\n")];
        let count = |path: &str| {
            let repo = Repo::sample(&files);
            check_under(&repo, &[path.to_owned()]).findings.len()
        };
        assert_eq!(
            [count("./a/"), count("a/b.md"), count("a"), count(".")],
            [1, 1, 1, 2]
        );
    }
}
