//! Ids of invariants: each is stated once, and each that is used is stated.
//!
//! An id is a letter and a number. Its letter tells its home:
//!
//! - `S` is a promise: a heading of docs/semantics.md.
//! - `I` is a property of the whole protocol: a row of the table in docs/kernel/README.md.
//! - Any other belongs to a crate. The first lines of one module state it, as an item of a list or
//!   before a colon. (`A7: see` and the name of another module states nothing.)
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

/// Letters that several modules of one crate have given out, each from 1. The table only gets shorter.
const SHARED: &[(&str, &str)] = &[("crates/hearth-proto", "DGKMR")];

/// The path and line of a statement.
type Place<'a> = (&'a str, usize);

/// Statements, by the space that an id is unique in, and the id.
type Statements<'a> = BTreeMap<(&'a str, &'a str), Vec<Place<'a>>>;

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let mut stated = Statements::new();
    let mut uses = 0;
    for text in texts(repo) {
        for id in stated_by(text) {
            let place = (text.file.path.as_str(), text.line);
            stated
                .entry((space(text.file), id))
                .or_default()
                .push(place);
        }
    }
    for text in texts(repo) {
        for (id, _) in ids(text.words) {
            uses += 1;
            if !stated.keys().any(|(_, known)| *known == id) {
                let what = format!("`{id}` is stated nowhere");
                verdict.find(&text.file.path, text.line, what);
            }
        }
    }
    for (&(space, id), places) in &stated {
        check_once(space, id, places, &mut verdict);
    }
    check_shared(&stated, &mut verdict);
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

/// The directory of the crate that the file is in; empty for a page.
fn space(file: &File) -> &str {
    let end = file.path.match_indices('/').nth(1).map_or(0, |(at, _)| at);
    if file.path.ends_with(".rs") {
        &file.path[..end]
    } else {
        ""
    }
}

/// The ids that a line states.
fn stated_by(text: Text<'_>) -> Vec<&str> {
    let line = text.words.trim();
    let path = text.file.path.as_str();
    let (first, letter) = match path {
        PROMISES => (line.trim_start_matches('#').strip_prefix(' '), 'S'),
        PROPERTIES => (line.strip_prefix("| "), 'I'),
        FINDINGS => (line.strip_prefix("| "), 'F'),
        _ if text.heads_module => return stated_by_module(line),
        _ => return Vec::new(),
    };
    let is_heading = path != PROMISES || line.starts_with('#');
    let opening = first.filter(|_| is_heading).and_then(opening_id);
    opening
        .filter(|id| id.starts_with(letter))
        .into_iter()
        .collect()
}

fn stated_by_module(line: &str) -> Vec<&str> {
    let item = line.strip_prefix("- ").and_then(opening_id);
    let states = |&(id, at): &(&str, usize)| {
        let after = past_brackets(&line[at + id.len()..]);
        let opens = item == Some(id) && at == 2;
        let is_stated = after.starts_with(": ") || opens;
        is_stated && !after.starts_with(": see ") && !id.starts_with(['S', 'I'])
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

/// Each capital letter with one or two digits that stands as a word, with its place.
fn ids(text: &str) -> Vec<(&str, usize)> {
    let bytes = text.as_bytes();
    let joins = |byte: u8| is_word(byte) || b"-/.".contains(&byte);
    let starts = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_uppercase());
    let words = starts.filter_map(|at| {
        let digits = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit());
        let end = at + 1 + digits.count();
        let is_free = at == 0 || !joins(bytes[at - 1]);
        let is_whole = bytes.get(end).is_none_or(|&b| !is_word(b) && b != b'-');
        ((at + 2..=at + 3).contains(&end) && is_free && is_whole).then(|| (&text[at..end], at))
    });
    words.collect()
}

fn check_once(space: &str, id: &str, places: &[Place<'_>], verdict: &mut Verdict) {
    let is_shared = shared(space).contains(&id[..1]);
    for (index, &(path, line)) in places.iter().enumerate().skip(1) {
        let mut before = places[..index].iter();
        let again = before.find(|(other, _)| !is_shared || *other == path);
        if let Some((first, at)) = again {
            let what = format!("`{id}` is stated in {first}:{at} already");
            verdict.find(path, line, what);
        }
    }
}

fn shared(space: &str) -> &'static str {
    let row = SHARED.iter().find(|(dir, _)| *dir == space);
    row.map_or("", |(_, letters)| letters)
}

/// Each letter that is excused has ids that several modules state.
fn check_shared(stated: &Statements<'_>, verdict: &mut Verdict) {
    for (dir, letters) in SHARED {
        let of_crate = || stated.iter().filter(|((space, _), _)| space == dir);
        for letter in letters.chars().filter(|_| of_crate().next().is_some()) {
            let is_used =
                of_crate().any(|((_, id), places)| id.starts_with(letter) && places.len() > 1);
            if !is_used {
                let what = format!("`{letter}` is excused in ids.rs and needs it no more");
                verdict.find(dir, 1, what);
            }
        }
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
    fn fires_on_an_id_that_two_modules_of_a_crate_state() {
        let again = "//! - A1: a read waits.\n//! A3: ages grow.\n";
        let what = "`A1` is stated in crates/a/src/lib.rs:3 already";
        assert_eq!(findings(&[("crates/a/src/z.rs", again)]), [what]);
        assert_eq!(
            findings(&[("crates/b/src/lib.rs", again)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_shared_letter_is_stated_once_in_a_file() {
        let repo = |text: &str| {
            let other = "//! - D1: x.\n//! - G1: x.\n//! - K1: x.\n//! - M1: x.\n//! - R1: x.\n";
            let dir = "crates/hearth-proto/src";
            let (one, two) = (format!("{dir}/a.rs"), format!("{dir}/b.rs"));
            check(&Repo::sample(&[(&one, other), (&two, text)])).findings
        };
        let same = "//! - D1: y.\n//! - G1: y.\n//! - K1: y.\n//! - M1: y.\n//! - R1: y.\n";
        assert_eq!(repo(same), []);
        assert_eq!(repo(&format!("{same}//! - R1: z.\n")).len(), 1);
        let excused = repo(&same[..same.len() - "//! - R1: y.\n".len()]);
        assert_eq!(
            excused[0].what,
            "`R` is excused in ids.rs and needs it no more"
        );
    }
}
