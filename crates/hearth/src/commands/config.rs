//! `hearth config`: the settings in force, and where each is from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use crate::paint;
use crate::settings::keys::{self, Keys};
use crate::settings::{Origin, Setting, Settings, Typed, places};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::SetSpec;
use hearth_set::output::print;

const EXAMPLES: &str = "\
Examples:
  hearth config                        settings of a set over this directory
  hearth config --store /scratch
  hearth config --policy local         the same with an option, as for `hearth run`
  hearth config --json | jq -r 'select(.from != \"default\") | .key'

A later place wins: the system's file, yours, the store's, variables, options.

Exit codes: 0 such a set can be, 2 it cannot be.";

/// Options of `hearth config`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The store [default: the current directory]
    #[arg(long, value_name = "DIR", env = "HEARTH_STORE", hide_env = true)]
    store: Option<PathBuf>,
    /// One object for each setting
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Typed<Keys>,
}

/// Hosts of a set that heeds all settings.
const HOSTS_MANY: usize = 3;

/// A setting as it is shown.
struct Row {
    key: String,
    value: String,
    origin: Option<Origin>,
}

/// Shows the settings, and fails if no set can be so.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let store = args.store.clone().unwrap_or_else(|| PathBuf::from("."));
    let store = store.canonicalize().unwrap_or(store);
    let settings = Settings::of(&store, &args.settings)?;
    let rows = rows(&settings);
    if args.json {
        for row in &rows {
            show_json(row)?;
        }
    } else {
        let head = ["setting", "value", "from"].map(str::to_owned).to_vec();
        let lines = rows.into_iter().map(|row| {
            let origin = row.origin.as_ref();
            let origin = origin.map_or_else(|| "default".to_owned(), Origin::to_string);
            vec![row.key, row.value, origin]
        });
        let lines: Vec<Vec<String>> = [head].into_iter().chain(lines).collect();
        print(&paint::table(&lines))?;
        tell_unheeded(&settings);
        tell_files(&store)?;
    }
    settings.resolve(HOSTS_MANY)?;
    Ok(ExitCode::SUCCESS)
}

/// Each key that means something for such a set, in the order of the help.
fn rows(settings: &Settings) -> Vec<Row> {
    let spec = settings.options().set.described();
    let facts = facts(&spec);
    let rows = keys::all().into_iter().filter_map(|key| {
        let fact = facts.iter().find(|(name, _)| *name == key);
        let fact = fact.map(|(_, value)| value.clone());
        match settings.said(&key) {
            Some(said) => Some(Row {
                value: value(said, fact),
                origin: Some(said.origin.clone()),
                key,
            }),
            None => Some(Row {
                value: fact?,
                origin: None,
                key,
            }),
        }
    });
    rows.collect()
}

/// A share of memory is shown with its size.
fn value(said: &Setting, fact: Option<String>) -> String {
    match fact {
        Some(fact) if said.value.ends_with('%') => format!("{} ({fact})", said.value),
        Some(_) | None => said.value.clone(),
    }
}

fn facts(spec: &SetSpec) -> Vec<(&'static str, String)> {
    let mut facts = spec.facts();
    for (key, value) in [("way-in", "preload"), ("rules", "none"), ("tier", "none")] {
        if !facts.iter().any(|(known, _)| *known == key) {
            facts.push((key, value.to_owned()));
        }
    }
    facts
}

fn show_json(row: &Row) -> Result<(), Failure> {
    let (key, value) = (&row.key, &row.value);
    let line = match &row.origin {
        None => json!({ "key": key, "value": value, "from": "default" }),
        Some(Origin::File { path, line }) => {
            json!({ "key": key, "value": value, "from": "file", "file": path, "line": line })
        }
        Some(Origin::Variable(name)) => {
            json!({ "key": key, "value": value, "from": "variable", "variable": name })
        }
        Some(Origin::CommandLine) => {
            json!({ "key": key, "value": value, "from": "command line" })
        }
    };
    let line = serde_json::to_string(&line).or_fail(|| "cannot print a setting".to_owned())?;
    print(&format!("{line}\n"))
}

/// Settings that are left aside where they mean nothing, unless they are typed.
fn tell_unheeded(settings: &Settings) {
    let concerns = [
        ("lease", "three hosts and more, without tiers and daemons"),
        ("store-at", "two hosts and more"),
    ];
    for (key, whom) in concerns {
        let said = settings.said(key);
        if said.is_some_and(|said| said.origin != Origin::CommandLine) {
            hearth_client::say!("note: {key} concerns sets on {whom}; others leave it aside");
        }
    }
}

fn tell_files(store: &Path) -> Result<(), Failure> {
    for place in places(store) {
        let state = match place.is_there() {
            true => "",
            false => " (there is none)",
        };
        hearth_client::say!("file: {}{state}", place.path.display());
    }
    Ok(())
}
