//! The tutorial does what its page shows: its commands run in one shell, and their output has the shape of the page's.
//! Numbers, times and the histograms of a report differ from run to run.

#[path = "support/addresses.rs"]
mod addresses;
#[path = "support/fixture.rs"]
mod fixture;

use std::env;

use addresses::own_address;
use fixture::{Fixture, finish, program, shell, skipped, text, well};

const PAGE: &str = include_str!("../../../docs/tutorial.md");

/// The folder and the addresses that the page has.
const FOLDER: &str = "/tmp/tutorial";
const ADDRESSES: [&str; 2] = ["127.0.0.1:7000", "127.0.0.1:7001"];

/// Between the outputs of two blocks.
const MARK: &str = "---- next ----";

/// The blocks of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    let parts = PAGE.split(begin.as_str()).skip(1);
    parts.filter_map(|part| part.split("```").next()).collect()
}

/// A word without the value in it; `None` for a unit, a row of dots and a part of a histogram.
fn shape_of_word(word: &str) -> Option<String> {
    let bare = word.trim_matches(|c: char| c.is_ascii_punctuation());
    let is_histogram = word.chars().any(|c| ('\u{2581}'..='\u{2588}').contains(&c));
    if is_histogram || bare.is_empty() && word.len() > 3 {
        return None;
    }
    match bare {
        "B" | "KiB" | "MiB" | "GiB" | "s" | "ms" | "µs" => None,
        _ if bare.starts_with("hosts-") => Some("hosts-#".to_owned()),
        _ if bare.ends_with("/hearth") => Some("hearth".to_owned()),
        _ if bare.chars().any(|c| c.is_ascii_digit()) => Some("#".to_owned()),
        _ => Some(word.to_owned()),
    }
}

/// The lines of an output without values, sorted: programs that run at once print in any order.
fn shape(output: &str) -> Vec<String> {
    let (seen, _) = parts(output);
    let line = |line: &str| {
        let mut words: Vec<String> = line.split_whitespace().filter_map(shape_of_word).collect();
        if line.starts_with('/') {
            // Programs, in the order of their paths.
            words
                .iter_mut()
                .for_each(|word| *word = word.trim_end_matches(',').to_owned());
            words.sort_unstable();
        }
        match words.as_slice() {
            [mode, .., name] if mode.starts_with("-rw") => format!("{mode} {name}"),
            words => words.join(" "),
        }
    };
    let lines = seen.lines().map(line).filter(|line| !line.is_empty());
    let mut lines: Vec<String> = lines.collect();
    lines.sort_unstable();
    lines
}

/// The findings of a report, and its advice.
fn parts(output: &str) -> (&str, &str) {
    output.split_once("WHAT TO CHANGE").unwrap_or((output, ""))
}

/// The rules that a report's advice goes by. A slow machine may bring more of them than the page has.
fn rules(output: &str) -> Vec<&str> {
    let lines = parts(output).1.lines();
    let named = lines.filter_map(|line| line.rsplit_once('['));
    named.map(|(_, rule)| rule.trim_end_matches(']')).collect()
}

#[test]
fn the_tutorial_shows_what_its_commands_print() {
    let test = "the_tutorial_shows_what_its_commands_print";
    if skipped(test, &["fusermount3", "md5sum", "dd", "od"]) {
        return;
    }
    let fixture = Fixture::new();
    let (folder, own) = (fixture.path("tutorial"), ADDRESSES.map(|_| own_address()));
    let folder = folder.display().to_string();
    let here = |text: &str| {
        let text = text.replace(FOLDER, &folder);
        let pairs = ADDRESSES.iter().zip(own);
        pairs.fold(text, |text, (shown, own)| {
            text.replace(shown, &own.to_string())
        })
    };
    let (commands, outputs) = (blocks("sh"), blocks("text"));
    assert_eq!(commands.len(), outputs.len(), "each block has an output");
    let script = commands.join(&format!("echo '{MARK}'\n"));
    let beside = program().parent().expect("it has a folder").to_owned();
    let path = format!(
        "{}:{}",
        beside.display(),
        env::var("PATH").unwrap_or_default()
    );
    let mut command = shell(&fixture.path("."), &format!("exec 2>&1\n{}", here(&script)));
    let done = finish(command.env("PATH", path));
    well(&done);
    let printed = text(&done.stdout);
    let printed: Vec<&str> = printed.split(&format!("{MARK}\n")).collect();
    assert_eq!(printed.len(), outputs.len(), "{printed:?}");
    for ((command, shown), printed) in commands.iter().zip(outputs).zip(printed) {
        assert_eq!(
            shape(&here(shown)),
            shape(printed),
            "of\n{command}\n{printed}"
        );
        for rule in rules(shown) {
            assert!(rules(printed).contains(&rule), "{rule}:\n{printed}");
        }
    }
}

#[test]
fn another_line_has_another_shape() {
    assert_eq!(shape("a 1.5 MiB of 2 B"), shape("a 7 B of 19.1 KiB"));
    assert_eq!(shape("a\nb\na\nb"), shape("a\na\nb\nb"));
    assert_ne!(shape("a 1 of 2"), shape("b 1 of 2"));
    assert_ne!(shape("a\na"), shape("a"));
    assert_eq!(
        rules("WHAT TO CHANGE\n1. x [tiny-writes]\n"),
        ["tiny-writes"]
    );
    assert!(rules("x [tiny-writes]\nWHAT TO CHANGE\nnothing").is_empty());
}
