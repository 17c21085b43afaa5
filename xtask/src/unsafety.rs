//! Unsafe code: only in the files that ARCHITECTURE.md lists, each block with its reason; every
//! crate without such a file forbids it.

use crate::Verdict;
use crate::repo::{Crate, File, Repo};
use crate::source::{find_word, line_of};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- unsafe:begin -->";
const END: &str = "<!-- unsafe:end -->";

/// How many lines of one statement may stand between a SAFETY comment and its `unsafe`.
const STATEMENT_LINES_MAX: usize = 4;

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let listed = listed(repo);
    let mut blocks = 0;
    for file in repo.rust() {
        let is_listed = listed.iter().any(|(path, _)| *path == file.path);
        for at in find_word(&file.code, "unsafe") {
            let line = line_of(&file.code, at);
            if !is_listed {
                verdict.find(
                    &file.path,
                    line,
                    format!("unsafe in a file not listed in {PAGE}"),
                );
            }
            if is_block_or_impl(&file.code[at..]) {
                blocks += 1;
                check_reason(file, line, &mut verdict);
            }
        }
    }
    check_list(repo, &listed, &mut verdict);
    for krate in &repo.crates {
        check_forbids(repo, krate, &listed, &mut verdict);
    }
    verdict.note = format!("{blocks} blocks in {} listed files", listed.len());
    verdict
}

/// The listed paths with their lines; none while there is no list.
fn listed(repo: &Repo) -> Vec<(&str, usize)> {
    let text = repo.file(PAGE).map_or("", |file| &file.text);
    let lines = text.lines().zip(1..);
    lines
        .skip_while(|(line, _)| line.trim() != BEGIN)
        .take_while(|(line, _)| line.trim() != END)
        .filter_map(|(line, number)| Some((line.split('`').nth(1)?, number)))
        .collect()
}

fn is_block_or_impl(code: &str) -> bool {
    let rest = code["unsafe".len()..].trim_start();
    rest.starts_with('{') || find_word(rest, "impl").next() == Some(0)
}

fn check_reason(file: &File, line: usize, verdict: &mut Verdict) {
    let text: Vec<&str> = file.text.lines().collect();
    if !has_reason(&text[..line]) {
        verdict.find(
            &file.path,
            line,
            "unsafe without a `SAFETY:` comment just above",
        );
    }
}

/// Looks from the last line (that of the `unsafe`) upwards, through the rest of its statement and
/// then through comments and attributes.
fn has_reason(lines: &[&str]) -> bool {
    let mut statement = 0;
    for (back, line) in lines.iter().rev().enumerate() {
        let line = line.trim();
        if line.contains("SAFETY:") {
            return true;
        }
        let is_note = line.starts_with("//") || line.starts_with("#[");
        if back == 0 || is_note {
            continue;
        }
        let ends_before = line.is_empty() || line.ends_with([';', '{', '}']);
        statement += 1;
        if ends_before || statement >= STATEMENT_LINES_MAX {
            return false;
        }
    }
    false
}

fn check_list(repo: &Repo, listed: &[(&str, usize)], verdict: &mut Verdict) {
    for (path, line) in listed {
        let code = repo.file(path).map_or("", |file| &file.code);
        if find_word(code, "unsafe").next().is_none() {
            verdict.find(
                PAGE,
                *line,
                format!("`{path}` is listed and has no unsafe code"),
            );
        }
    }
}

fn check_forbids(repo: &Repo, krate: &Crate, listed: &[(&str, usize)], verdict: &mut Verdict) {
    let sources = format!("{}/src/", krate.dir);
    if listed.iter().any(|(path, _)| path.starts_with(&sources)) {
        return;
    }
    for root in &krate.roots {
        let code = repo.file(&root.path).map_or("", |file| &file.code);
        if !code.contains("#![forbid(unsafe_code)]") {
            verdict.find(&root.path, 1, "no `#![forbid(unsafe_code)]`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "text\n<!-- unsafe:begin -->\n- `crates/a/src/map.rs`: maps\n<!-- unsafe:end -->\n`no.rs`\n";
    const MAP: &str = "crates/a/src/map.rs";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repo::sample(files))
            .findings
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn a_listed_file_with_reasons_passes() {
        let text = "fn f() {\n    // SAFETY: mapped above,\n    // and never unmapped.\n    let x =\n\
                    unsafe { g() };\n}\n// SAFETY: owns it.\n#[cfg(unix)]\nunsafe impl Send for A {}\n\
                    /// # Safety\n/// Once.\nunsafe fn h() {}\n";
        assert_eq!(findings(&[(PAGE, LIST), (MAP, text)]), Vec::<String>::new());
    }

    #[test]
    fn fires_on_a_block_without_a_reason() {
        let text = "// SAFETY: of another.\nlet y = 1;\nlet x = unsafe { g() };\n";
        let what = "unsafe without a `SAFETY:` comment just above";
        assert_eq!(findings(&[(PAGE, LIST), (MAP, text)]), [what]);
    }

    #[test]
    fn fires_on_a_file_that_is_not_listed() {
        let text = "// SAFETY: as told.\nunsafe { g() }\n";
        assert_eq!(
            findings(&[(MAP, text)]),
            ["unsafe in a file not listed in ARCHITECTURE.md"]
        );
    }

    #[test]
    fn fires_on_a_stale_row() {
        let what = "`crates/a/src/map.rs` is listed and has no unsafe code";
        assert_eq!(findings(&[(PAGE, LIST), (MAP, "// unsafe\n")]), [what]);
    }

    #[test]
    fn fires_on_a_crate_that_does_not_forbid() {
        let repo = Repo::sample(&[("crates/a/src/lib.rs", "//! A.\n")]).with_crate("a", "", &[]);
        assert_eq!(
            check(&repo).findings[0].what,
            "no `#![forbid(unsafe_code)]`"
        );
    }
}
