//! Options of the command line, kept as they were typed.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

use super::{Origin, Setting};

/// The options of `A` that were typed.
#[derive(Clone, Debug)]
pub(crate) struct Typed<A> {
    settings: Vec<Setting>,
    options: PhantomData<A>,
}

impl<A> Typed<A> {
    /// As a layer of settings.
    pub(super) fn settings(&self) -> Vec<Setting> {
        self.settings.clone()
    }
}

impl<A: Args> Args for Typed<A> {
    fn augment_args(command: Command) -> Command {
        A::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::augment_args_for_update(command)
    }
}

impl<A: Args> FromArgMatches for Typed<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Typed<A>, Error> {
        let known = A::augment_args(Command::new("settings"));
        let settings = known.get_arguments().filter_map(|arg| typed(arg, matches));
        Ok(Typed {
            settings: settings.collect(),
            options: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Typed::from_arg_matches(matches)?;
        Ok(())
    }
}

fn typed(arg: &Arg, matches: &ArgMatches) -> Option<Setting> {
    let id = arg.get_id().as_str();
    if matches.value_source(id) != Some(ValueSource::CommandLine) {
        return None;
    }
    let values = matches.get_raw(id)?;
    // Paths that are no text are refused where they would be used.
    let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
    Some(Setting {
        key: arg.get_long()?.to_owned(),
        value: values.join(","),
        origin: Origin::CommandLine,
    })
}
