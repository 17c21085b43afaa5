//! Names of exported types: each has one meaning in the workspace.
//!
//! A type that a library declares with plain `pub` has a name that no other library declares. So a
//! reader knows the type without a look at the imports. Modules of one library may repeat a name,
//! as its path then tells which is meant.
//!
//! Re-exports declare nothing. Nor does an alias of a workspace type that keeps the type's name. The
//! lint `unreachable_pub` sees to it that plain `pub` means exported. Tests are free.

use std::collections::BTreeMap;

use crate::Verdict;
use crate::repo::{Crate, File, Repo, RootKind};
use crate::source::{find_word, is_word, line_of, without_tests};

/// Words that begin the declaration of a type or a trait.
const KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type"];

/// The crate, path and line of a declaration.
type Place<'a> = (&'a str, &'a str, usize);

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let mut places: BTreeMap<String, Vec<Place<'_>>> = BTreeMap::new();
    for krate in repo.crates.iter().filter(|krate| is_library(krate)) {
        let sources = format!("{}/src/", krate.dir);
        let inside = |file: &&File| file.path.starts_with(&sources) && !file.is_test();
        for file in repo.rust().filter(inside) {
            for (name, line) in declared(repo, file) {
                let place = (krate.name.as_str(), file.path.as_str(), line);
                places.entry(name).or_default().push(place);
            }
        }
    }
    for (name, places) in &places {
        check_name(name, places, &mut verdict);
    }
    verdict.note = format!("{} exported names", places.len());
    verdict
}

fn is_library(krate: &Crate) -> bool {
    let mut roots = krate.roots.iter();
    roots.any(|root| root.kind == RootKind::Library)
}

/// Every name that a file declares with plain `pub`, with its line.
fn declared(repo: &Repo, file: &File) -> Vec<(String, usize)> {
    let code = without_tests(&file.code);
    let found = find_word(&code, "pub").filter_map(|at| {
        let name = declaration(repo, &code[at + "pub".len()..])?;
        Some((name.to_owned(), line_of(&code, at)))
    });
    found.collect()
}

/// The name of the type or trait that is declared behind `pub`.
fn declaration<'a>(repo: &Repo, code: &'a str) -> Option<&'a str> {
    let (first, rest) = word(code)?;
    let (keyword, rest) = match first {
        "unsafe" => word(rest)?,
        _ => (first, rest),
    };
    let (name, rest) = word(rest)?;
    let is_alias = keyword == "type" && is_same(repo, name, rest);
    (KEYWORDS.contains(&keyword) && !is_alias).then_some(name)
}

/// The word that follows white space, and the rest.
fn word(code: &str) -> Option<(&str, &str)> {
    let code = code.trim_start();
    let len = code.bytes().take_while(|&byte| is_word(byte)).count();
    (len > 0).then(|| code.split_at(len))
}

/// Whether the alias `name` stands for a workspace type of that name. `rest` follows the name.
fn is_same(repo: &Repo, name: &str, rest: &str) -> bool {
    let meaning = rest.split_once(';').map_or("", |(alias, _)| alias);
    let Some((_, path)) = meaning.split_once('=') else {
        return false;
    };
    let path = path.split('<').next().unwrap_or_default();
    let mut parts = path.trim().trim_start_matches("::").split("::");
    let home = parts.next().unwrap_or_default().replace('_', "-");
    repo.crates.iter().any(|krate| krate.name == home) && parts.last() == Some(name)
}

/// Fires at each declaration outside of the crate that comes first.
fn check_name(name: &str, places: &[Place<'_>], verdict: &mut Verdict) {
    let Some((home, first, at)) = places.first() else {
        return;
    };
    for (krate, path, line) in places {
        if krate != home {
            let what =
                format!("`{name}` means something else in {first}:{at}; name one by what it is");
            verdict.find(path, *line, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    const SPAN: &str = "/// Time.\npub struct Span(pub u64);\n";

    /// The findings where crate `a` has [`SPAN`] and crate `b` has this text.
    fn fired(text: &str) -> Vec<String> {
        at("crates/b/src/lib.rs", text)
    }

    fn at(path: &str, text: &str) -> Vec<String> {
        let files = [("crates/a/src/time.rs", SPAN), (path, text)];
        let repo = Repo::sample(&files).with_crate("a", "", &[]);
        let found = check(&repo.with_crate("b", "", &[])).findings;
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fires_on_every_kind_of_declaration() {
        let what = "`Span` means something else in crates/a/src/time.rs:2; name one by what it is";
        for text in [
            "pub struct Span;",
            "pub enum Span<T> { A(T) }",
            "pub union Span { a: u8 }",
            "pub trait Span: Sized {}",
            "pub unsafe trait Span {}",
            "pub type Span = std::time::Duration;",
        ] {
            assert_eq!(fired(text), [format!("crates/b/src/lib.rs:1: {what}")]);
        }
        let deep = "mod window {\n    pub mod part {\n        pub struct Span;\n    }\n}\n";
        assert_eq!(fired(deep), [format!("crates/b/src/lib.rs:3: {what}")]);
        let path = "crates/b/src/export/window.rs";
        assert_eq!(at(path, SPAN), [format!("{path}:2: {what}")]);
    }

    #[test]
    fn fires_on_aliases_of_something_else() {
        for text in [
            "pub type Span = a::Time;",
            "pub type Span = Duration;",
            "pub type Span = rustix::Span;",
            "pub type Span<T> = Option<a::Span>;",
        ] {
            assert_eq!(fired(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn names_that_are_not_declared_and_exported_pass() {
        for text in [
            "pub use a::Span;",
            "pub type Span = a::Span;",
            "pub type Span<T> = ::a::time::Span<T>;",
            "pub(crate) struct Span;",
            "struct Span;",
            "pub struct Spans;",
            "// pub struct Span;",
            "pub fn span(span: &Span) {}",
            "pub struct Length { pub union: Span }",
            "#[cfg(test)]\nmod tests {\n    pub struct Span;\n}",
        ] {
            assert_eq!(fired(text), Vec::<String>::new(), "{text}");
        }
        let tests = "crates/b/src/window/tests.rs";
        assert_eq!(at(tests, SPAN), Vec::<String>::new());
        assert_eq!(at("crates/b/tests/it.rs", SPAN), Vec::<String>::new());
    }

    #[test]
    fn a_crate_may_repeat_its_own_names() {
        assert_eq!(at("crates/a/src/size.rs", SPAN), Vec::<String>::new());
    }

    #[test]
    fn commands_export_nothing() {
        let files = [("crates/a/src/a.rs", SPAN), ("crates/b/src/b.rs", SPAN)];
        let mut repo = Repo::sample(&files).with_crate("a", "", &[]);
        repo = repo.with_crate("b", "", &[]);
        assert_eq!(check(&repo).findings.len(), 1);
        assert_eq!(check(&repo).note, "1 exported names");
        repo.crates[1].roots = vec![Root {
            kind: RootKind::Binary,
            path: "crates/b/src/main.rs".to_owned(),
        }];
        assert_eq!(check(&repo).findings.len(), 0);
    }
}
