//! Words that have no place in the repository: unfinished code, skipped tests, places that exist on
//! one machine only, and names of package registries (builds ask cargo and apt, never a host).
//!
//! The words are put together from parts below, so that this file does not find itself.

use crate::Verdict;
use crate::repo::Repo;
use crate::source::{find_word, line_of};

/// Looked for in Rust code, outside comments and literals.
const IN_CODE: &[&str] = &["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];

/// Absolute directories of somebody's machine; looked for in all text.
const PLACES: &[&str] = &[concat!("/", "work/"), concat!("/", "farm/")];

/// Looked for in all text.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("static.rust-lang", ".org"),
    concat!("sh.rustup", ".rs"),
    concat!("pypi", ".org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("rubygems", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("deb.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
];

/// Written by cargo, registry names included.
const LOCK: &str = "Cargo.lock";

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    for file in &repo.files {
        for word in IN_CODE {
            for at in find_word(&file.code, word) {
                verdict.find(&file.path, line_of(&file.code, at), format!("`{word}`"));
            }
        }
        if file.path.ends_with(LOCK) {
            continue;
        }
        for place in PLACES {
            for at in find_absolute(&file.text, place) {
                verdict.find(
                    &file.path,
                    line_of(&file.text, at),
                    format!("path under `{place}`"),
                );
            }
        }
        for name in REGISTRIES {
            for at in find_word(&file.text, name) {
                let what = format!("name of a package registry, `{name}`");
                verdict.find(&file.path, line_of(&file.text, at), what);
            }
        }
    }
    verdict.note = format!("{} files", repo.files.len());
    verdict
}

/// The offsets at which `place` starts a path. After a name, a variable or a closing bracket it
/// goes on with one.
fn find_absolute<'a>(text: &'a str, place: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(place)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            !(before.is_alphanumeric() || "._-~*/)}]>".contains(before))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Repo::sample(&[(path, text)])).findings.len()
    }

    #[test]
    fn fires_on_unfinished_code_and_not_on_talk_of_it() {
        for word in IN_CODE {
            assert_eq!(findings("a.rs", &format!("{word} x)]")), 1, "{word}");
            assert_eq!(
                findings("a.rs", &format!("// {word}\nlet a = \"{word}\";")),
                0,
                "{word}"
            );
        }
    }

    #[test]
    fn fires_on_absolute_places_only() {
        for place in PLACES {
            assert_eq!(findings("a.md", &format!("see {place}x")), 1);
            assert_eq!(
                findings("a.rs", &format!("// {place}x\nopen(\"{place}y\")")),
                2
            );
            assert_eq!(
                findings("a.sh", &format!("a{place} $A{place} ${{A}}{place}")),
                0
            );
        }
    }

    #[test]
    fn fires_on_registries_outside_the_lock_file() {
        for name in REGISTRIES {
            assert_eq!(
                findings("a.sh", &format!("curl https://{name}/x")),
                1,
                "{name}"
            );
            assert_eq!(findings("fuzz/Cargo.lock", name), 0, "{name}");
        }
    }
}
