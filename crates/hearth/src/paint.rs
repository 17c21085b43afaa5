//! Colours of words for people: on a terminal alone, and not where the environment says no (`NO_COLOR`).

use std::io::{self, IsTerminal};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use hearth_set::output;

/// First words of lines, and how they look.
const WORDS: [(&str, Style); 5] = [
    ("error:", AnsiColor::Red.on_default().bold()),
    ("warning:", AnsiColor::Yellow.on_default().bold()),
    ("hint:", AnsiColor::Green.on_default().bold()),
    ("note:", AnsiColor::Cyan.on_default().bold()),
    ("  caused by:", Style::new().bold()),
];

/// Paints what is said on standard error from now on, if it may be.
pub(crate) fn start() {
    if may_paint(&io::stderr()) {
        hearth_client::words::paint_with(painted);
    }
}

/// A table for standard output. Its head stands out on a terminal.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let text = output::table(rows);
    match text.split_once('\n') {
        Some((head, rest)) if may_paint(&io::stdout()) => {
            let style = Style::new().bold();
            format!("{style}{head}{style:#}\n{rest}")
        }
        Some(_) | None => text,
    }
}

fn may_paint<S: RawStream + IsTerminal>(stream: &S) -> bool {
    IsTerminal::is_terminal(stream) && AutoStream::choice(stream) != ColorChoice::Never
}

/// The same lines, their first words in colour.
fn painted(text: &str) -> String {
    text.split_inclusive('\n').map(painted_line).collect()
}

fn painted_line(line: &str) -> String {
    let known = WORDS.iter().find(|(word, _)| line.starts_with(word));
    match known {
        Some((word, style)) => format!("{style}{word}{style:#}{}", &line[word.len()..]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_of_lines_are_painted_and_nothing_is_lost() {
        let text = "error: cannot mount\n  caused by: it is warning: enough\nhint: hearth doctor\n";
        let painted = painted(text);
        assert_eq!(painted.matches("\u{1b}[0m").count(), 3, "{painted:?}");
        let bare = anstream::adapter::strip_str(&painted).to_string();
        assert_eq!(bare, text);
    }
}
