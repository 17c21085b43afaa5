//! Line comments of Rust files, as text.

use crate::source::dark_spans;

/// The mark that begins a line comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `//`
    Plain,
    /// `///`
    Item,
    /// `//!`
    Module,
}

/// One line of comment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Comment<'a> {
    /// Line in the file, from 1.
    pub(crate) line: usize,
    pub(crate) mark: Mark,
    /// Whether code stands before it on its line.
    pub(crate) follows_code: bool,
    /// The line without its mark.
    pub(crate) text: &'a str,
}

/// Every line comment of a Rust file, in order.
pub(crate) fn comments(text: &str) -> Vec<Comment<'_>> {
    let mut found = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for span in dark_spans(text) {
        line += text[counted..span.start].matches('\n').count();
        counted = span.start;
        let before = text[..span.start].rsplit('\n').next().unwrap_or_default();
        if let Some((mark, rest)) = marked(&text[span]) {
            found.push(Comment {
                line,
                mark,
                follows_code: !before.trim().is_empty(),
                text: rest,
            });
        }
    }
    found
}

fn marked(comment: &str) -> Option<(Mark, &str)> {
    let rest = comment.strip_prefix("//")?;
    if let Some(text) = rest.strip_prefix('!') {
        return Some((Mark::Module, text));
    }
    match rest.strip_prefix('/') {
        Some(text) if !text.starts_with('/') => Some((Mark::Item, text)),
        _ => Some((Mark::Plain, rest.trim_start_matches('/'))),
    }
}

/// The lines of comment that stand together: one mark, no line between, nothing before them.
pub(crate) fn runs(text: &str) -> Vec<Vec<Comment<'_>>> {
    let mut runs: Vec<Vec<Comment<'_>>> = Vec::new();
    for comment in comments(text) {
        let last = runs.last_mut().filter(|run| {
            let end = &run[run.len() - 1];
            end.mark == comment.mark && end.line + 1 == comment.line && !comment.follows_code
        });
        match last {
            Some(run) => run.push(comment),
            None => runs.push(vec![comment]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_lines_are_told() {
        let text = "//! A\n/// B\nlet a = \"// c\"; // D\n//// E\n";
        let found: Vec<_> = comments(text)
            .into_iter()
            .map(|c| (c.line, c.mark, c.follows_code, c.text))
            .collect();
        let expected = [
            (1, Mark::Module, false, " A"),
            (2, Mark::Item, false, " B"),
            (3, Mark::Plain, true, " D"),
            (4, Mark::Plain, false, " E"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_run_ends_with_its_mark_and_at_code() {
        let text = "// A\n// b\n/// C\n\n/// D\nlet e; // E\n// F\n";
        let lengths: Vec<usize> = runs(text).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 1, 1, 2]);
    }
}
