//! The pure crates stay pure: no `std`, no unsafe, no dependency that is not argued here, and no
//! map whose order differs from run to run. Test modules are free.

use crate::Verdict;
use crate::repo::{Crate, File, Repo};
use crate::source::{find_word, line_of, without_tests};

/// Each pure crate with the dependencies it may have, of any kind.
const PURE: &[(&str, &[&str])] = &[("hearth-proto", &[]), ("hearth-plan", &[])];

/// Each root of a pure crate has these.
const ATTRIBUTES: &[&str] = &["#![no_std]", "#![forbid(unsafe_code)]"];

/// Names that never stand in their code.
const FORBIDDEN: &[&str] = &["std::", "HashMap", "HashSet"];

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let mut present = Vec::new();
    for (name, allowed) in PURE {
        let Some(krate) = repo.crates.iter().find(|krate| krate.name == *name) else {
            continue;
        };
        present.push(*name);
        check_manifest(krate, allowed, &mut verdict);
        check_roots(repo, krate, &mut verdict);
        let sources = format!("{}/src/", krate.dir);
        for file in repo
            .rust()
            .filter(|file| file.path.starts_with(&sources) && !file.is_test())
        {
            check_file(file, &mut verdict);
        }
    }
    verdict.note = present.join(", ");
    verdict
}

fn check_manifest(krate: &Crate, allowed: &[&str], verdict: &mut Verdict) {
    for dep in krate
        .deps
        .iter()
        .filter(|dep| !allowed.contains(&dep.name.as_str()))
    {
        let what = format!("`{}` is pure and may not use `{}`", krate.name, dep.name);
        verdict.find(&krate.manifest(), 1, what);
    }
}

fn check_roots(repo: &Repo, krate: &Crate, verdict: &mut Verdict) {
    for root in &krate.roots {
        let code = repo.file(&root.path).map_or("", |file| &file.code);
        for attribute in ATTRIBUTES
            .iter()
            .filter(|attribute| !code.contains(**attribute))
        {
            verdict.find(&root.path, 1, format!("no `{attribute}`"));
        }
    }
}

fn check_file(file: &File, verdict: &mut Verdict) {
    let code = without_tests(&file.code);
    for word in FORBIDDEN {
        for at in find_word(&code, word) {
            verdict.find(
                &file.path,
                line_of(&code, at),
                format!("`{word}` in a pure crate"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dep, DepKind};

    const GOOD: &str = "//! Pure.\n#![no_std]\n#![forbid(unsafe_code)]\nextern crate alloc;\n\
                        #[cfg(test)]\nmod tests {\n use std::collections::HashMap;\n}\n";

    fn findings(text: &str, deps: &[Dep]) -> Vec<String> {
        let repo = Repo::sample(&[("crates/hearth-proto/src/lib.rs", text)]);
        let verdict = check(&repo.with_crate("hearth-proto", "", deps));
        verdict
            .findings
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn a_pure_crate_passes() {
        assert_eq!(findings(GOOD, &[]), Vec::<String>::new());
    }

    #[test]
    fn fires_on_a_missing_attribute() {
        let text = GOOD.replace("#![no_std]", "// #![no_std]");
        assert_eq!(findings(&text, &[]), ["no `#![no_std]`"]);
    }

    #[test]
    fn fires_on_std_and_on_unordered_maps() {
        let text = format!("{GOOD}use std::collections::HashSet;\n");
        assert_eq!(findings(&text, &[]).len(), 2);
    }

    #[test]
    fn fires_on_a_dependency() {
        let deps = [Dep {
            name: "rand".to_owned(),
            kind: DepKind::Dev,
        }];
        assert_eq!(
            findings(GOOD, &deps),
            ["`hearth-proto` is pure and may not use `rand`"]
        );
    }
}
