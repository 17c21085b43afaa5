//! Functions of at most 70 lines, files of at most 800 lines that are not tests, and first pages that are read in
//! ten minutes.

use crate::Verdict;
use crate::repo::{File, Repo};
use crate::source::{functions, line_of, test_modules};

/// From the line of `fn` to that of the closing brace; tests count too.
const FUNCTION_LINES_MAX: usize = 70;
/// Without inline test modules; test files are free.
const FILE_LINES_MAX: usize = 800;
/// Words of the pages that everybody reads, without their blocks of code.
const PAGE_WORDS_MAX: &[(&str, usize)] = &[("README.md", 1000), ("ARCHITECTURE.md", 2200)];
/// Files that people write.
const EXTENSIONS: &[&str] = &[".rs", ".c", ".h", ".f90", ".sh", ".py"];

pub(crate) fn check(repo: &Repo) -> Verdict {
    let mut verdict = Verdict::default();
    let mut function_lines = Vec::new();
    let mut file_lines = Vec::new();
    for file in repo.files.iter().filter(|file| is_written(&file.path)) {
        check_functions(file, &mut function_lines, &mut verdict);
        if file.is_test() {
            continue;
        }
        let lines = lines_without_tests(file);
        file_lines.push(lines);
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines without tests; at most {FILE_LINES_MAX}");
            verdict.find(&file.path, 1, what);
        }
    }
    for &(path, most) in PAGE_WORDS_MAX {
        let pages = repo.files.iter().filter(|file| file.path == path);
        for words in pages.map(|page| words_of(&page.text)) {
            if words > most {
                verdict.find(path, 1, format!("{words} words; at most {most}"));
            }
        }
    }
    verdict.note = format!(
        "functions {}; files {}",
        spread(&mut function_lines),
        spread(&mut file_lines)
    );
    verdict
}

/// Words outside of fenced blocks.
fn words_of(page: &str) -> usize {
    let mut in_block = false;
    let mut words = 0;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            words += line.split_whitespace().count();
        }
    }
    words
}

fn is_written(path: &str) -> bool {
    EXTENSIONS.iter().any(|extension| path.ends_with(extension))
}

/// Measures every function; only those that are not tests go into `lines`.
fn check_functions(file: &File, lines: &mut Vec<usize>, verdict: &mut Verdict) {
    let tests = test_modules(&file.code);
    for function in functions(&file.code) {
        let first = line_of(&file.code, function.span.start);
        let length = line_of(&file.code, function.span.end) + 1 - first;
        if length > FUNCTION_LINES_MAX {
            let what = format!(
                "`{}` has {length} lines; at most {FUNCTION_LINES_MAX}",
                function.name
            );
            verdict.find(&file.path, first, what);
        }
        if !file.is_test() && !tests.iter().any(|span| span.contains(&function.span.start)) {
            lines.push(length);
        }
    }
}

fn lines_without_tests(file: &File) -> usize {
    let tests: usize = test_modules(&file.code)
        .into_iter()
        .map(|span| file.text[span].lines().count())
        .sum();
    file.text.lines().count() - tests
}

fn spread(lengths: &mut [usize]) -> String {
    lengths.sort_unstable();
    let Some(longest) = lengths.last() else {
        return "none".to_owned();
    };
    let median = lengths[lengths.len() / 2];
    let p90 = lengths[lengths.len() * 9 / 10];
    format!(
        "{}: median {median}, p90 {p90}, longest {longest}",
        lengths.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn fires_on_a_function_of_71_lines() {
        let repo = Repo::sample(&[("a.rs", &function_of(70)), ("b.rs", &function_of(71))]);
        let findings = check(&repo).findings;
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "b.rs");
    }

    #[test]
    fn fires_on_a_file_of_801_lines_and_does_not_count_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "use a;\n".repeat(500));
        let short = format!("{}{tests}", "use a;\n".repeat(800));
        let long = format!("{}{tests}", "use a;\n".repeat(801));
        let repo = Repo::sample(&[("a.rs", &short), ("b.rs", &long), ("tests/c.rs", &long)]);
        let findings = check(&repo).findings;
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "b.rs");
    }

    #[test]
    fn fires_on_a_first_page_of_1001_words_outside_of_blocks() {
        let page = |words: usize| format!("{}\n```\none more\n```\n", "word ".repeat(words));
        let of = |words: usize| check(&Repo::sample(&[("README.md", &page(words))])).findings;
        assert!(of(1000).is_empty());
        assert_eq!(of(1001).len(), 1);
    }

    #[test]
    fn spread_tells_middle_and_tail() {
        let mut lengths: Vec<usize> = (1..=10).collect();
        assert_eq!(spread(&mut lengths), "10: median 6, p90 10, longest 10");
    }
}
