//! Tables in `docs/settings.md`, made from the command line.
//!
//! `UPDATE=1 cargo test -p hearth pages` makes them anew. Without it the files are held to the command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap::{Arg, CommandFactory};

use crate::cli::Cli;
use crate::settings::{OF_STORES, keys};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Commands whose options have variables.
const OF_SETS: [&str; 3] = ["run", "up", "mount"];

#[test]
fn the_page_of_settings_lists_options_variables_and_keys() {
    let path = Path::new(ROOT).join("docs/settings.md");
    let mut page = fs::read_to_string(&path).unwrap();
    let made = [
        ("keys", table_of_keys()),
        ("variables", table_of_variables()),
    ];
    for (name, table) in made {
        let (begin, end) = (
            format!("<!-- {name}:begin -->\n"),
            format!("<!-- {name}:end -->"),
        );
        let start = page.find(&begin).expect("the page has a place for it") + begin.len();
        let stop = page.find(&end).expect("the place has an end");
        if std::env::var_os("UPDATE").is_some() {
            page.replace_range(start..stop, &table);
            fs::write(&path, &page).unwrap();
        } else {
            assert!(
                page[start..stop] == table,
                "differs; UPDATE=1 rewrites it:\n{table}"
            );
        }
    }
}

/// The options that files, too, can stand for.
fn table_of_keys() -> String {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").expect("it is there");
    let mut table =
        "| key, `--option` | variable | in a store's file | meaning |\n|---|---|---|---|\n"
            .to_owned();
    for key in keys::all() {
        let is_it = |arg: &&Arg| arg.get_long() == Some(&key);
        let arg = run.get_arguments().find(is_it).expect("run has all keys");
        let of_stores = if OF_STORES.contains(&key.as_str()) {
            "yes"
        } else {
            ""
        };
        let variable = keys::variable(&key);
        table += &format!(
            "| `{key}` | `{variable}` | {of_stores} | {} |\n",
            meaning(arg)
        );
    }
    table
}

/// The options that variables alone can stand for.
fn table_of_variables() -> String {
    let cli = Cli::command();
    let mut rows = BTreeMap::new();
    for name in OF_SETS {
        let command = cli.find_subcommand(name).expect("it is there");
        for arg in command.get_arguments() {
            let (Some(variable), Some(option)) = (arg.get_env(), arg.get_long()) else {
                continue;
            };
            let key = (option.to_owned(), variable.to_string_lossy().into_owned());
            rows.entry(key)
                .or_insert_with(|| (Vec::new(), meaning(arg)))
                .0
                .push(name);
        }
    }
    let mut table = "| option | variable | of | meaning |\n|---|---|---|---|\n".to_owned();
    for ((option, variable), (of, meaning)) in rows {
        table += &format!(
            "| `--{option}` | `{variable}` | {} | {meaning} |\n",
            of.join(", ")
        );
    }
    table
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string);
    help.unwrap_or_default().replace('|', "\\|")
}
