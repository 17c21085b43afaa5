//! The keys of settings: names of options, and the values that these take.

use std::error::Error;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command, FromArgMatches};

use super::{Origin, Setting};
use crate::commands::run::WayIn;
use hearth_set::failure::Failure;
use hearth_set::options::SetArgs;

/// The options that files and variables can stand for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Keys {
    /// The way in of `hearth run`.
    #[command(flatten)]
    pub(crate) way_in: WayIn,
    /// The set.
    #[command(flatten)]
    pub(crate) set: SetArgs,
}

impl Keys {
    /// The options of settings whose keys and values have been checked.
    pub(super) fn of<'a>(settings: impl Iterator<Item = &'a Setting>) -> Keys {
        let words = settings.map(|setting| word(&setting.key, &setting.value));
        let matches = command().try_get_matches_from(words);
        let matches = matches.expect("each value has been checked");
        Keys::from_arg_matches(&matches).expect("nothing is required")
    }
}

/// All keys, in the order of the help.
pub(crate) fn all() -> Vec<String> {
    let command = command();
    let names = command.get_arguments().filter_map(clap::Arg::get_long);
    names.map(str::to_owned).collect()
}

/// The variable that stands for an option.
pub(crate) fn variable(key: &str) -> String {
    format!("HEARTH_{}", key.to_uppercase().replace('-', "_"))
}

/// Settings from variables. An empty variable says nothing.
pub(super) fn variables(value: impl Fn(&str) -> Option<OsString>) -> Result<Vec<Setting>, Failure> {
    let mut settings = Vec::new();
    for key in all() {
        let name = variable(&key);
        let Some(value) = value(&name).filter(|value| !value.is_empty()) else {
            continue;
        };
        let what = || format!("cannot use the variable {name}");
        let Ok(value) = value.into_string() else {
            return Err(Failure::new(what()).cause("it is no text"));
        };
        check_value(&key, &value).map_err(|cause| cause.of(what()))?;
        settings.push(Setting {
            key,
            value,
            origin: Origin::Variable(name),
        });
    }
    Ok(settings)
}

/// Why a key cannot have a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    cause: String,
    hint: Option<String>,
}

impl Wrong {
    pub(super) fn new(cause: String) -> Wrong {
        Wrong { cause, hint: None }
    }

    /// Says what would do.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Wrong {
        self.hint = Some(hint.into());
        self
    }

    /// As the failure of an action.
    pub(super) fn of(self, what: String) -> Failure {
        let failure = Failure::new(what).cause(self.cause);
        match self.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Fails if there is no such key.
pub(super) fn check_key(key: &str) -> Result<(), Wrong> {
    if all().iter().any(|known| known == key) {
        return Ok(());
    }
    let wrong = Wrong::new(format!("there is no key `{key}`"));
    let error = command().try_get_matches_from([format!("--{key}")]).err();
    let near = error.and_then(|error| strings(&error, ContextKind::SuggestedArg).pop());
    Err(match near {
        Some(near) => wrong.hint(format!(
            "the nearest key is `{}`",
            near.trim_start_matches('-')
        )),
        None => wrong.hint("hearth config lists all keys"),
    })
}

/// Fails if a key does not take a value.
pub(super) fn check_value(key: &str, value: &str) -> Result<(), Wrong> {
    let Err(error) = command().try_get_matches_from([word(key, value)]) else {
        return Ok(());
    };
    let cause = match error.source() {
        Some(source) => source.to_string(),
        None => {
            let known = strings(&error, ContextKind::ValidValue).join(", ");
            format!("it is none of {known}")
        }
    };
    let wrong = Wrong::new(format!("`{key}` cannot be `{value}`: {cause}"));
    Err(match strings(&error, ContextKind::SuggestedValue).pop() {
        Some(near) => wrong.hint(format!("the nearest value is `{near}`")),
        None => wrong,
    })
}

fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        _ => Vec::new(),
    }
}

fn word(key: &str, value: &str) -> String {
    format!("--{key}={value}")
}

fn command() -> Command {
    let command = Command::new("settings").no_binary_name(true);
    Keys::augment_args(command).disable_help_flag(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, value: &str) -> String {
        let checked = check_key(key).and_then(|()| check_value(key, value));
        checked.unwrap_err().of("no".to_owned()).to_string()
    }

    #[test]
    fn wrong_keys_and_values_are_told_with_what_is_near() {
        let text = told("polcy", "home");
        assert!(text.contains("no key `polcy`"), "{text}");
        assert!(text.ends_with("the nearest key is `policy`"), "{text}");
        let text = told("policy", "hme");
        assert!(
            text.contains("cannot be `hme`: it is none of home, home:plus"),
            "{text}"
        );
        assert!(text.ends_with("the nearest value is `home`"), "{text}");
        let text = told("pool", "4MB");
        assert!(text.contains("use KiB, MiB, GiB"), "{text}");
        assert!(told("help", "").contains("no key `help`"));
        assert!(told("close", "").contains("it is none of flushed, buffered"));
        assert!(told("policy=home --pool", "1").contains("no key"));
    }

    #[test]
    fn variables_are_named_and_empty_ones_say_nothing() {
        let with = |known: &'static str, value: &'static str| {
            variables(move |name| (name == known).then(|| value.into()))
        };
        let said = with("HEARTH_PAGE_SIZE", "64K").unwrap();
        assert_eq!(said[0].origin, Origin::Variable("HEARTH_PAGE_SIZE".into()));
        assert_eq!(with("HEARTH_PAGE_SIZE", "").unwrap(), []);
        let text = with("HEARTH_AGENTS", "many").unwrap_err().to_string();
        assert!(text.contains("the variable HEARTH_AGENTS"), "{text}");
    }

    #[test]
    fn flags_and_lists_are_settings_too() {
        for (key, value) in [("allow-other", "true"), ("gateways", "0,1"), ("bank", "2")] {
            assert_eq!(check_value(key, value), Ok(()), "{key}");
        }
        let setting = |key: &str, value: &str| Setting {
            key: key.to_owned(),
            value: value.to_owned(),
            origin: Origin::CommandLine,
        };
        let off = setting("allow-other", "false");
        assert_eq!(Keys::of([off].iter()).set.allow_other, Some(false));
    }
}
