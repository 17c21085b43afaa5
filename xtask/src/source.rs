//! Just enough of a reading of Rust: what is code, where functions and test modules begin and end.
//!
//! [`blank`] replaces comments and literals by spaces and keeps every byte in its place, so that the
//! other functions may search plain text and braces, and line numbers stay true.

use std::ops::Range;

/// The text with every comment and literal blanked; newlines stay.
pub(crate) fn blank(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for span in dark_spans(text) {
        for byte in &mut out[span] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(out).expect("spans end between characters")
}

/// Every comment and literal, in order.
pub(crate) fn dark_spans(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut spans = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let follows_word = at > 0 && is_word(bytes[at - 1]);
        let length = dark_span(&bytes[at..], follows_word);
        if length > 0 {
            spans.push(at..at + length);
        }
        at += length.max(1);
    }
    spans
}

/// Length of the comment or literal that starts here; 0 if none does.
fn dark_span(text: &[u8], follows_word: bool) -> usize {
    match text {
        [b'/', b'/', ..] => text.iter().position(|&b| b == b'\n').unwrap_or(text.len()),
        [b'/', b'*', ..] => block_comment(text),
        [b'"', ..] => quoted(text, b'"'),
        [b'\'', ..] => character(text),
        [b'b' | b'c' | b'r', ..] if !follows_word => prefixed_literal(text),
        _ => 0,
    }
}

fn block_comment(text: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let step = match &text[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// A literal that begins with `quote` and ends with the next one that is not escaped.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// A character literal; 0 for the tick of a lifetime.
fn character(text: &[u8]) -> usize {
    match text.get(1) {
        Some(b'\\') => quoted(text, b'\''),
        Some(&first) => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            if text.get(1 + width) == Some(&b'\'') {
                width + 2
            } else {
                0
            }
        }
        None => 0,
    }
}

/// `b"…"`, `b'…'`, `c"…"`, `r"…"`, `br#"…"#` and their like; 0 for any other word.
fn prefixed_literal(text: &[u8]) -> usize {
    let letters = text
        .iter()
        .take(2)
        .take_while(|b| b"bcr".contains(b))
        .count();
    let is_raw = text[letters - 1] == b'r';
    let rest = &text[letters..];
    match rest.first() {
        Some(b'"' | b'#') if is_raw => match raw_string(rest) {
            0 => 0,
            span => letters + span,
        },
        Some(b'"') => letters + quoted(rest, b'"'),
        Some(b'\'') if text[0] == b'b' && letters == 1 => letters + quoted(rest, b'\''),
        _ => 0,
    }
}

/// From the first `#` or quote of a raw string; 0 for a raw identifier.
fn raw_string(text: &[u8]) -> usize {
    let hashes = text.iter().take_while(|&&b| b == b'#').count();
    if text.get(hashes) != Some(&b'"') {
        return 0;
    }
    let end: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    let body = &text[hashes + 1..];
    match body.windows(end.len()).position(|window| window == end) {
        Some(at) => hashes + 1 + at + end.len(),
        None => text.len(),
    }
}

/// Whether a byte can be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The offsets at which `word` stands as a whole word. An end of `word` that is no letter or digit
/// bounds itself.
pub(crate) fn find_word<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    let opens = word.as_bytes().first().is_some_and(|&b| is_word(b));
    let closes = word.as_bytes().last().is_some_and(|&b| is_word(b));
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let free_before = !opens || at == 0 || !is_word(bytes[at - 1]);
            let free_after = !closes || bytes.get(at + word.len()).is_none_or(|&b| !is_word(b));
            free_before && free_after
        })
}

/// The line of a byte, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at]
        .iter()
        .filter(|&&b| b == b'\n')
        .count()
}

/// Just past the brace that closes the one at `open`, in blanked code.
fn past_block(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// From `fn` to just past its closing brace.
    pub(crate) span: Range<usize>,
}

/// Every function with a body, in blanked code.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    find_word(code, "fn")
        .filter_map(|at| function(code, at))
        .collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let rest = code[at + 2..].trim_start();
    let name: String = rest
        .chars()
        .take_while(|&c| c == '$' || c == '_' || c.is_alphanumeric())
        .collect();
    if name.is_empty() {
        return None; // a function pointer type
    }
    let end = past_block(code, body_start(code, at)?)?;
    Some(Function {
        name,
        span: at..end,
    })
}

/// The brace that opens the body; `None` for a declaration. Braces inside the signature's
/// parentheses and brackets (const arguments) are none.
fn body_start(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The inline test modules, attribute included, in blanked code.
pub(crate) fn test_modules(code: &str) -> Vec<Range<usize>> {
    let attributes = code.match_indices("#[cfg(").map(|(at, _)| at);
    attributes.filter_map(|at| test_module(code, at)).collect()
}

fn test_module(code: &str, at: usize) -> Option<Range<usize>> {
    let mut rest = at + code[at..].find(']')? + 1;
    let condition = &code[at..rest];
    if find_word(condition, "test").next().is_none() || condition.contains("not(") {
        return None;
    }
    rest = skip_attributes(code, rest);
    let item = code[rest..]
        .trim_start_matches("pub(crate) ")
        .trim_start_matches("pub ");
    let after = item.strip_prefix("mod ")?.find(['{', ';'])?;
    let open = code.len() - item.len() + "mod ".len() + after;
    if code.as_bytes()[open] == b';' {
        return None;
    }
    Some(at..past_block(code, open)?)
}

/// Past white space and further attributes.
fn skip_attributes(code: &str, mut at: usize) -> usize {
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        match code[at..].find(']') {
            Some(end) if code[at..].starts_with("#[") => at += end + 1,
            _ => return at,
        }
    }
}

/// Blanked code with its test modules blanked too.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    for span in test_modules(code) {
        for byte in &mut out[span] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(out).expect("modules end between characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        // Dark parts of the text stand as dots in the code.
        let cases = [
            ("a // b\nc", "a ....\nc"),
            ("a /* /* b */ */ c", "a ............. c"),
            (r#"f("\"{", x)"#, "f(....., x)"),
            ("f('{', '\\'', 'd')", "f(..., ...., ...)"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#\"a \" {\"# + r#type", ".......... + r#type"),
            ("b'{' b\"{\" br\"{\" c\"{\"", ".... .... ..... ...."),
            ("bar('x')", "bar(...)"),
        ];
        for (text, code) in cases {
            assert_eq!(blank(text), code.replace('.', " "), "{text}");
        }
        assert_eq!(blank("f('é')"), "f(    )");
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(
            find_word("unsafe_code unsafe", "unsafe").collect::<Vec<_>>(),
            [12]
        );
        assert_eq!(find_word("S1 S12 XS1", "S1").collect::<Vec<_>>(), [0]);
        assert_eq!(
            find_word("my_std::a std::b", "std::").collect::<Vec<_>>(),
            [10]
        );
    }

    #[test]
    fn functions_are_found_with_their_bodies() {
        let code = "trait T { fn declared(); }\n\
                    fn one<F: Fn() -> u8>(x: [u8; { 2 }]) -> fn(u8) where F: Send {\n  { }\n}\n\
                    const fn two() {}";
        let found: Vec<_> = functions(code)
            .into_iter()
            .map(|f| {
                (
                    f.name,
                    line_of(code, f.span.start),
                    line_of(code, f.span.end - 1),
                )
            })
            .collect();
        assert_eq!(found, [("one".to_owned(), 2, 4), ("two".to_owned(), 5, 5)]);
    }

    #[test]
    fn only_inline_test_modules_are_cut() {
        let code =
            "fn a() {}\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n fn b() {}\n}\nfn c() {}";
        assert_eq!(
            without_tests(code).split_whitespace().collect::<String>(),
            "fna(){}fnc(){}"
        );
        for kept in [
            "#[cfg(test)] mod tests;",
            "#[cfg(not(test))] mod a {}",
            "#[cfg(test)] use a;",
        ] {
            assert_eq!(without_tests(kept), kept);
        }
    }
}
