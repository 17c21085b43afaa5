//! Words to type instead of a command line that cannot be understood.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::settings::keys;

/// A hint for an error of the command line, if one can be given.
pub(crate) fn of(error: &clap::Error, words: &[OsString]) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => dashes(error, words),
        ErrorKind::InvalidSubcommand => missing_run(error, words),
        ErrorKind::InvalidValue
        | ErrorKind::ValueValidation
        | ErrorKind::MissingRequiredArgument
        | ErrorKind::ArgumentConflict => variable(error, words, |name| std::env::var(name).ok()),
        _ => None,
    }
}

/// `hearth run ls`: the command to run stands behind two dashes.
fn dashes(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let word = context(error, ContextKind::InvalidArg)?;
    let is_run = words.get(1).is_some_and(|name| name == "run");
    if word.starts_with('-') || !is_run {
        return None;
    }
    let at = words.iter().skip(2).position(|it| *it == *word)? + 2;
    let (options, command) = words[2..].split_at(at - 2);
    Some(format!(
        "put -- before the command: hearth run{} --{}",
        shown(options),
        shown(command)
    ))
}

/// `hearth make -j8`: no command of ours, and nothing like one.
fn missing_run(error: &clap::Error, words: &[OsString]) -> Option<String> {
    if context(error, ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    let command = shown(words.get(1..)?);
    Some(format!("to run a command: hearth run --{command}"))
}

/// The variable that a value is from, if it was not typed.
fn variable(
    error: &clap::Error,
    words: &[OsString],
    value: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let options = [ContextKind::InvalidArg, ContextKind::PriorArg];
    let mut options = options.into_iter().filter_map(|kind| context(error, kind));
    options.find_map(|option| {
        let option = option.split([' ', '=']).next()?.to_owned();
        let is_typed = |word: &OsString| word.to_string_lossy().starts_with(&option);
        if words.iter().any(is_typed) {
            return None;
        }
        let name = keys::variable(option.trim_start_matches('-'));
        let value = value(&name)?;
        Some(format!("the variable {name} says `{value}`"))
    })
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(several) => several.first().cloned(),
        _ => None,
    }
}

/// Words as a shell takes them, each behind a space.
fn shown(words: &[OsString]) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=:,@%+".contains(letter);
    let words = words.iter().map(|word| {
        let word = word.to_string_lossy();
        match !word.is_empty() && word.chars().all(plain) {
            true => format!(" {word}"),
            false => format!(" '{}'", word.replace('\'', "'\\''")),
        }
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    fn hint(line: &[&str]) -> Option<String> {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        of(&Cli::typed(&words).unwrap_err(), &words)
    }

    #[test]
    fn a_command_without_its_dashes_is_told_with_them() {
        let told = hint(&["hearth", "run", "--pool", "64M", "ls", "-l", "a b"]);
        let line = "put -- before the command: hearth run --pool 64M -- ls -l 'a b'";
        assert_eq!(told.as_deref(), Some(line));
        assert_eq!(hint(&["hearth", "run", "--pol", "64M"]), None);
        assert_eq!(hint(&["hearth", "status", "all"]), None);
    }

    #[test]
    fn a_command_of_somebody_else_is_told_with_run() {
        let told = hint(&["hearth", "make", "-j8"]);
        let line = "to run a command: hearth run -- make -j8";
        assert_eq!(told.as_deref(), Some(line));
        assert_eq!(hint(&["hearth", "staus"]), None, "clap has a better one");
    }

    #[test]
    fn a_value_that_was_not_typed_is_told_with_its_variable() {
        let words = ["hearth", "up", "--store", "/", "--node", "x"].map(OsString::from);
        let error = Cli::typed(&words).unwrap_err();
        let set = |name: &str| (name == "HEARTH_NODE").then(|| "x".to_owned());
        assert_eq!(variable(&error, &words, set), None);
        let told = variable(&error, &words[..4], set);
        assert_eq!(told.as_deref(), Some("the variable HEARTH_NODE says `x`"));
    }
}
