//! Ids of invariants: each is stated once, and each that is used is stated.
//!
//! An id is the name of its series and a number. A series is a letter (`A7`) or a word (`BANK-7`). Its
//! name tells its home:
//!
//! - `S` is a promise: a heading of docs/semantics.md.
//! - `I` is a property of the whole protocol: a row of the table in docs/kernel/README.md.
//! - Any other belongs to the first lines of one module. They state it as an item of a list or before a
//!   colon. (`A7: see` and the name of another module states nothing.)
//!
//! Findings of the simulator have ids, too: rows of a table in docs/simulator.md.

use std::collections::BTreeMap;

use crate::Verdict;
use crate::comments::{Mark, comments};
use crate::repo::{File, Repo};
use crate::source::is_word;

const PROMISES: &str = "docs/semantics.md";
const PROPERTIES: &str = "docs/kernel/README.md";
const FINDINGS: &str = "docs/simulator.md";

/// Words that look like a series and are the name of something else.
const NAMES: &[&str] = &["CRC", "UTF"];

/// The path and line of a statement.
type Place<'a> = (&'a str, usize);

/// Statements, by the id.
type Statements<'a> = BTreeMap<&'a str, Vec<Place<'a>>>;

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let mut stated = Statements::new();
    let mut uses = 0;
    for text in texts(repo) {
        for id in stated_by(text) {
            let place = (text.file.path.as_str(), text.line);
            stated.entry(id).or_default().push(place);
        }
    }
    for text in texts(repo) {
        for (id, _) in ids(text.words) {
            uses += 1;
            if !stated.contains_key(id) {
                let what = format!("`{id}` is stated nowhere");
                verdict.find(&text.file.path, text.line, what);
            }
        }
    }
    for (id, places) in &stated {
        check_once(id, places, &mut verdict);
    }
    verdict.note = format!("{} stated, {uses} uses", stated.len());
    verdict
}

/// A line of a page, or of a comment.
#[derive(Debug, Clone, Copy)]
struct Text<'a> {
    file: &'a File,
    line: usize,
    words: &'a str,
    /// Whether it is one of the lines that begin a module.
    heads_module: bool,
}

/// Every line of a page or comment of the project.
fn texts(repo: &Repo) -> impl Iterator<Item = Text<'_>> {
    let pages = repo.files.iter().filter(|file| file.path.ends_with(".md"));
    let on_pages = pages.flat_map(|file| {
        file.text.lines().zip(1..).map(move |(words, line)| Text {
            file,
            line,
            words,
            heads_module: false,
        })
    });
    let sources = repo.rust().filter(|file| file.path.starts_with("crates/"));
    let in_sources = sources.flat_map(|file| {
        let heads = is_source(file);
        comments(&file.text).into_iter().map(move |comment| Text {
            file,
            line: comment.line,
            words: comment.text,
            heads_module: heads && comment.mark == Mark::Module,
        })
    });
    on_pages.chain(in_sources)
}

fn is_source(file: &File) -> bool {
    file.path.split('/').nth(2) == Some("src") && !file.is_test()
}

/// The ids that a line states.
fn stated_by(text: Text<'_>) -> Vec<&str> {
    let line = text.words.trim();
    let path = text.file.path.as_str();
    let (first, home) = match path {
        PROMISES => (line.trim_start_matches('#').strip_prefix(' '), "S"),
        PROPERTIES => (line.strip_prefix("| "), "I"),
        FINDINGS => (line.strip_prefix("| "), "F"),
        _ if text.heads_module => return stated_by_module(line),
        _ => return Vec::new(),
    };
    let is_heading = path != PROMISES || line.starts_with('#');
    let opening = first.filter(|_| is_heading).and_then(opening_id);
    opening
        .filter(|id| series(id) == home)
        .into_iter()
        .collect()
}

fn stated_by_module(line: &str) -> Vec<&str> {
    let item = line.strip_prefix("- ").and_then(opening_id);
    let states = |&(id, at): &(&str, usize)| {
        let after = past_brackets(&line[at + id.len()..]);
        let opens = item == Some(id) && at == 2;
        let is_stated = after.starts_with(": ") || opens;
        is_stated && !after.starts_with(": see ") && !["S", "I"].contains(&series(id))
    };
    ids(line)
        .into_iter()
        .filter(states)
        .map(|(id, _)| id)
        .collect()
}

/// The id at the beginning of a text.
fn opening_id(text: &str) -> Option<&str> {
    let (id, at) = ids(text).into_iter().next()?;
    (at == 0).then_some(id)
}

/// The rest behind ` (I3)`, if that comes first.
fn past_brackets(text: &str) -> &str {
    let inside = text.strip_prefix(" (");
    inside
        .and_then(|inside| inside.split_once(')'))
        .map_or(text, |(_, after)| after)
}

/// Each id that stands as a word, with its place.
fn ids(text: &str) -> Vec<(&str, usize)> {
    let bytes = text.as_bytes();
    let joins = |byte: u8| is_word(byte) || b"-/.".contains(&byte);
    let starts = (0..bytes.len()).filter(|&at| at == 0 || !joins(bytes[at - 1]));
    let words = starts.filter_map(|at| {
        let end = at + id_len(&bytes[at..])?;
        let id = &text[at..end];
        let is_whole = bytes.get(end).is_none_or(|&b| !is_word(b) && b != b'-');
        (is_whole && !NAMES.contains(&series(id))).then_some((id, at))
    });
    words.collect()
}

/// The length of what begins like an id: a letter, or a longer word and a hyphen, and one or two digits.
fn id_len(bytes: &[u8]) -> Option<usize> {
    let capitals = bytes.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let name = match capitals {
        1 => 1,
        3.. if bytes.get(capitals) == Some(&b'-') => capitals + 1,
        _ => return None,
    };
    let digits = bytes[name..].iter().take_while(|b| b.is_ascii_digit());
    let digits = digits.count();
    (1..=2).contains(&digits).then_some(name + digits)
}

/// The letter or word of an id.
fn series(id: &str) -> &str {
    id.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')
}

fn check_once(id: &str, places: &[Place<'_>], verdict: &mut Verdict) {
    let Some(((first, at), others)) = places.split_first() else {
        return;
    };
    for &(path, line) in others {
        let what = format!("`{id}` is stated in {first}:{at} already");
        verdict.find(path, line, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "//! Home.\n//!\n//! - A1 (I3): a write waits.\n//! - A2 A read does not.\n\
                        //! - A3: see `age`. Invariant A4: bytes stay.\nfn f() {}\n";
    const TABLE: &str = "# Kernel\n\n| id | |\n|---|---|\n| I3 | no stale read |\n";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("crates/a/src/lib.rs", HOME), (PROPERTIES, TABLE)];
        all.extend(files);
        let found = check(&Repo::sample(&all)).findings;
        found.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn used_ids_that_are_stated_pass() {
        let age = (
            "crates/a/src/age.rs",
            "//! A3: ages grow.\n// As A1, A2 and A4 say (S1).\n",
        );
        let promise = (
            PROMISES,
            "### S1: a read sees (A1)\nS1 holds. An F16-x and B.2 are no ids.\n",
        );
        assert_eq!(findings(&[age, promise]), Vec::<String>::new());
    }

    #[test]
    fn fires_on_an_id_that_nothing_states() {
        let what = "`A3` is stated nowhere";
        assert_eq!(findings(&[]), [what]);
        let page = ("docs/a.md", "See B7.\n");
        assert_eq!(findings(&[page]).len(), 2);
    }

    #[test]
    fn fires_on_an_id_that_two_modules_state() {
        let again = "//! - A1: a read waits.\n//! A3: ages grow.\n";
        let what = "`A1` is stated in crates/a/src/lib.rs:3 already";
        assert_eq!(findings(&[("crates/a/src/z.rs", again)]), [what]);
        assert_eq!(findings(&[("crates/b/src/lib.rs", again)]), [what]);
    }

    #[test]
    fn a_word_names_a_series_too() {
        let age = ("crates/a/src/age.rs", "//! A3: ages grow.\n");
        let seat = (
            "crates/b/src/seat.rs",
            "//! - SEAT-1 (I3): x.\n//! - SEAT-12: see `z`.\n",
        );
        let more = ("crates/b/src/more.rs", "//! - SEAT-12: y.\n");
        let page = (
            "docs/a.md",
            "SEAT-1 to SEAT-12. UTF-8, CRC-32, AB-1, SEAT-1-x and SEAT-123 are no ids.\n",
        );
        assert_eq!(findings(&[age, seat, more, page]), Vec::<String>::new());
        let what = "`SEAT-12` is stated nowhere";
        assert_eq!(findings(&[age, seat, page]), [what, what]);
        let again = ("crates/c/src/lib.rs", "//! - SEAT-12: z.\n");
        let what = "`SEAT-12` is stated in crates/b/src/more.rs:1 already";
        assert_eq!(findings(&[age, seat, more, again]), [what]);
    }
}
