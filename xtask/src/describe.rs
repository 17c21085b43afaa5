//! A crate says the same of itself in Cargo.toml and in its first line, so that either can be read
//! as the map of the workspace.

use crate::Verdict;
use crate::repo::{Crate, Repo, Root, RootKind};

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    for krate in &repo.crates {
        if krate.description.is_empty() {
            verdict.find(&krate.manifest(), 1, "no description");
        }
        for root in faces(krate) {
            let text = repo.file(&root.path).map_or("", |file| &file.text);
            let line = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("//! "));
            let said = line.unwrap_or_default().trim_end_matches('.');
            if said != krate.description.trim_end_matches('.') {
                let what = format!("first line is not the description `{}`", krate.description);
                verdict.find(&root.path, 1, what);
            }
        }
    }
    verdict.note = format!("{} crates", repo.crates.len());
    verdict
}

/// The roots that speak for a crate: its library, or its command where it has no library.
fn faces(krate: &Crate) -> impl Iterator<Item = &Root> {
    let has_library = krate
        .roots
        .iter()
        .any(|root| root.kind == RootKind::Library);
    let kind = if has_library {
        RootKind::Library
    } else {
        RootKind::Binary
    };
    krate.roots.iter().filter(move |root| root.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str, description: &str) -> usize {
        let repo = Repo::sample(&[("crates/a/src/lib.rs", text)]);
        check(&repo.with_crate("a", description, &[]))
            .findings
            .len()
    }

    #[test]
    fn fires_when_the_two_differ() {
        assert_eq!(findings("//! The pool\n", "The ring"), 1);
        assert_eq!(findings("mod ring;\n", "The ring"), 1);
        assert_eq!(findings("//! The ring\n", ""), 2);
    }

    #[test]
    fn a_full_stop_makes_no_difference() {
        assert_eq!(findings("//! The ring.\n//!\n//! More.\n", "The ring"), 0);
    }
}
