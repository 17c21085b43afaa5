//! Sentences of a text in Markdown: a page, or a run of comments.

/// One sentence, with code as one word and links as their text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    /// Line of its first word.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Sentence {
    /// Counts words; signs that stand alone are none.
    pub(super) fn words(&self) -> usize {
        let words = self.text.split_whitespace();
        words
            .filter(|word| word.contains(char::is_alphanumeric))
            .count()
    }

    pub(super) fn first_word(&self) -> &str {
        let text = self.text.trim_start_matches(|c: char| !c.is_alphanumeric());
        let end = text.find(|c: char| !c.is_alphanumeric());
        &text[..end.unwrap_or(text.len())]
    }

    pub(super) fn is_question(&self) -> bool {
        self.text.trim_end_matches(is_closing).ends_with('?')
    }
}

/// Stands for a piece of code.
const CODE: &str = "Code";

/// The sentences of lines with their numbers.
pub(super) fn sentences<'a>(lines: impl Iterator<Item = (&'a str, usize)>) -> Vec<Sentence> {
    paragraphs(lines)
        .into_iter()
        .flat_map(|(text, line)| split(&plain(&text), line))
        .collect()
}

/// Prose that stands together, with the line that it begins at; each item of a list by itself.
fn paragraphs<'a>(lines: impl Iterator<Item = (&'a str, usize)>) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    let (mut is_open, mut is_fenced, mut is_remark) = (false, false, false);
    for (line, number) in lines {
        let line = line.trim().trim_start_matches("> ");
        if line.starts_with("```") && !is_remark {
            is_fenced = !is_fenced;
        }
        is_remark |= line.starts_with("<!--") && !is_fenced;
        let is_prose = !is_fenced && !is_remark && !is_other(line);
        is_remark &= !line.contains("-->");
        if !is_prose {
            is_open = false;
            continue;
        }
        let item = item(line);
        match found.last_mut().filter(|_| is_open && item.is_none()) {
            Some((text, _)) => {
                text.push('\n');
                text.push_str(line);
            }
            None => found.push((item.unwrap_or(line).to_owned(), number)),
        }
        is_open = true;
    }
    found
}

/// Whether a line is no prose: empty, a heading, a row of a table, HTML, a fence, a target of links.
fn is_other(line: &str) -> bool {
    let is_html = line.strip_prefix('<').is_some_and(|rest| {
        rest.starts_with(|c: char| c == '/' || c.is_ascii_lowercase()) && !rest.starts_with("http")
    });
    let is_target = line.starts_with('[') && line.contains("]: ");
    line.is_empty()
        || line.starts_with(['#', '|'])
        || line.starts_with("```")
        || is_html
        || is_target
}

/// The text of an item of a list.
fn item(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = digits
        .strip_prefix(". ")
        .filter(|_| digits.len() < line.len());
    let marks = ["- ", "* ", "+ "];
    let marked = marks.iter().find_map(|mark| line.strip_prefix(mark));
    numbered.or(marked).map(str::trim_start)
}

/// The text with each piece of code as one word, and without the targets of links; lines stay.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', ']']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (word, length) = match piece(from) {
            Some((inner, length)) if from.starts_with('`') => (CODE, (inner, length)),
            Some((inner, length)) => ("]", (inner, length)),
            None => (&from[..1], ("", 1)),
        };
        out.push_str(word);
        out.extend(length.0.matches('\n'));
        rest = &from[length.1..];
    }
    out + rest
}

/// The inside and length of the code, or the end of a link, that begins here.
fn piece(from: &str) -> Option<(&str, usize)> {
    let open = from.len() - from.trim_start_matches('`').len();
    if open == 0 {
        let target = from.strip_prefix("](")?;
        let end = target.find(')')?;
        return Some((&target[..end], end + 3));
    }
    let inner = &from[open..];
    let mut at = 0;
    while let Some(found) = inner[at..].find('`') {
        let start = at + found;
        let closing = inner[start..].len() - inner[start..].trim_start_matches('`').len();
        if closing == open {
            return Some((&inner[..start], 2 * open + start));
        }
        at = start + closing;
    }
    None
}

fn is_closing(c: char) -> bool {
    ")\"'*_]".contains(c)
}

/// Cuts behind each word that ends a sentence.
fn split(text: &str, first_line: usize) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut sentence: Option<Sentence> = None;
    for (line, words) in (first_line..).zip(text.split('\n')) {
        for word in words.split_whitespace() {
            if sentence.as_ref().is_some_and(is_over) && begins(word) {
                found.extend(sentence.take());
            }
            match &mut sentence {
                Some(sentence) => {
                    sentence.text.push(' ');
                    sentence.text.push_str(word);
                }
                None => {
                    let text = word.to_owned();
                    sentence = Some(Sentence { line, text });
                }
            }
        }
    }
    found.extend(sentence);
    found
}

/// Whether its last word ends it.
fn is_over(sentence: &Sentence) -> bool {
    let text = sentence.text.trim_end_matches(is_closing);
    text.ends_with(['.', '!', '?']) && !text.ends_with("e.g.") && !text.ends_with("i.e.")
}

/// Whether a word can begin a sentence.
fn begins(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '"', '\'', '*', '_', '[']);
    word.starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, String)> {
        let found = sentences(text.lines().zip(1..));
        found.into_iter().map(|s| (s.line, s.text)).collect()
    }

    fn texts(text: &str) -> Vec<String> {
        read(text).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn sentences_end_before_a_capital() {
        let text = "One is 1.5 long. Two (is\nit?) \"Three.\" Four, e.g. Five. six";
        let expected = [
            (1, "One is 1.5 long.".to_owned()),
            (1, "Two (is it?)".to_owned()),
            (2, "\"Three.\"".to_owned()),
            (2, "Four, e.g. Five. six".to_owned()),
        ];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn code_is_one_word_and_links_are_their_text() {
        let text = "A `b c` of ``d ` e`` in [the\npage](a/b.md). `F` g, [h]. I `j";
        let expected = ["A Code of Code in [the page].", "Code g, [h].", "I `j"];
        assert_eq!(texts(text), expected);
    }

    #[test]
    fn items_and_paragraphs_begin_sentences() {
        let text = "a\nb\n\n- c\n  d\n2. e\n> f\n> g";
        assert_eq!(texts(text), ["a b", "c d", "e f g"]);
    }

    #[test]
    fn other_lines_are_left_out() {
        let text =
            "# A\na\n| b | c |\n```\nd\n```\n<!-- e\n\nf -->\n<p>g</p>\n[h]: i.md\n<https://j>";
        assert_eq!(texts(text), ["a", "<https://j>"]);
    }

    #[test]
    fn signs_are_no_words() {
        let sentence = &sentences([("**Who** -> it's *a* = b.", 1)].into_iter())[0];
        assert_eq!((sentence.words(), sentence.first_word()), (4, "Who"));
        assert!(!sentence.is_question());
    }
}
