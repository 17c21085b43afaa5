//! Every numbered promise of docs/semantics.md is cited by a test or checker, and every cited one
//! exists.

use std::collections::BTreeMap;

use crate::Verdict;
use crate::repo::{File, Repo};
use crate::source::{is_word, line_of};

const PAGE: &str = "docs/semantics.md";

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let Some(page) = repo.file(PAGE) else {
        verdict.note = format!("skipped: there is no {PAGE}");
        return verdict;
    };
    let promised = promised(&page.text);
    let mut cited = BTreeMap::new();
    for file in repo.files.iter().filter(|file| may_cite(file)) {
        for (number, at) in citations(&file.text) {
            cited
                .entry(number)
                .or_insert((&file.path, line_of(&file.text, at)));
        }
    }
    for (number, line) in &promised {
        if !cited.contains_key(number) {
            verdict.find(PAGE, *line, format!("no test or checker cites S{number}"));
        }
    }
    for (number, (path, line)) in &cited {
        if !promised.contains_key(number) {
            verdict.find(path, *line, format!("S{number} is not promised in {PAGE}"));
        }
    }
    verdict.note = format!("{} promises", promised.len());
    verdict
}

/// The promises by number, each with the line of its heading.
fn promised(text: &str) -> BTreeMap<u32, usize> {
    let headings = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| line.starts_with('#'));
    headings
        .filter_map(|(line, number)| Some((citations(line).first()?.0, number)))
        .collect()
}

fn may_cite(file: &File) -> bool {
    let parts: Vec<&str> = file.path.split('/').collect();
    matches!(
        parts[..],
        ["crates", _, "src" | "tests", ..] | ["rig" | "tests", ..]
    )
}

/// Each `S` and number that stands as a word, with its place.
fn citations(text: &str) -> Vec<(u32, usize)> {
    let bytes = text.as_bytes();
    let starts = text.match_indices('S').map(|(at, _)| at);
    let words = starts
        .filter(|&at| at == 0 || !is_word(bytes[at - 1]))
        .map(|at| {
            let end = bytes[at..]
                .iter()
                .position(|&b| !is_word(b))
                .map_or(text.len(), |n| at + n);
            (&text[at + 1..end], at)
        });
    words
        .filter_map(|(digits, at)| Some((number(digits)?, at)))
        .collect()
}

fn number(digits: &str) -> Option<u32> {
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEMANTICS: &str = "# Semantics\n\n## S1: reads see writes\nUnlike S9.\n### S12. Close\n";

    fn findings(test: &str) -> Vec<String> {
        let files = [
            (PAGE, SEMANTICS),
            ("crates/a/tests/t.rs", test),
            ("xtask/src/x.rs", "S7"),
        ];
        check(&Repo::sample(&files))
            .findings
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn cited_promises_pass() {
        assert_eq!(
            findings("/// S1, (S12) but not S12x, AS3 or S_4.\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn fires_on_a_promise_that_nothing_cites() {
        assert_eq!(findings("// S1\n"), ["no test or checker cites S12"]);
    }

    #[test]
    fn fires_on_a_citation_of_nothing() {
        assert_eq!(
            findings("// S1 S12 S13\n"),
            ["S13 is not promised in docs/semantics.md"]
        );
    }

    #[test]
    fn says_so_when_there_is_no_page() {
        let verdict = check(&Repo::sample(&[("crates/a/src/lib.rs", "// S1")]));
        assert!(verdict.findings.is_empty());
        assert!(verdict.note.starts_with("skipped"));
    }
}
