//! Pages that are made from the command line: man pages in `man/`, and tables in `docs/settings.md`.
//!
//! `UPDATE=1 cargo test -p hearth pages` makes them anew. Without it the files are held to the command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, CommandFactory};

use crate::cli::Cli;
use crate::settings::{OF_STORES, keys};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Commands whose options have variables.
const OF_SETS: [&str; 3] = ["run", "up", "mount"];

fn man() -> PathBuf {
    Path::new(ROOT).join("man")
}

fn files(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let files = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("it has a name");
        let text = fs::read_to_string(&path).expect("a page");
        (name.to_string_lossy().into_owned(), text)
    });
    files.collect()
}

/// The pages of a command and of those below it, by the names of their files.
fn render(command: &clap::Command, pages: &mut BTreeMap<String, String>) {
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        render(below, pages);
    }
    // Otherwise the page leaves out the options that a short help does.
    let whole = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let man = clap_mangen::Man::new(whole).source("Hearth");
    let mut page = Vec::new();
    man.render(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    pages.insert(man.get_filename(), with_examples(&page));
}

/// Lines of examples stay as they are, in a section by that name.
fn with_examples(page: &str) -> String {
    let Some((page, extra)) = page.split_once(".SH EXTRA\n") else {
        return page.to_owned();
    };
    let (extra, rest) = match extra.find(".SH ") {
        Some(next) => extra.split_at(next),
        None => (extra, ""),
    };
    let extra = extra.trim_start_matches("Examples:\n");
    format!("{page}.SH EXAMPLES\n.nf\n{extra}.fi\n{rest}")
}

#[test]
fn man_pages_say_what_the_command_line_is() {
    let mut pages = BTreeMap::new();
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    render(&command, &mut pages);
    assert!(pages.contains_key("hearth-run.1") && pages.len() > 12);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(man()).unwrap();
        for name in files(&man()).keys() {
            fs::remove_file(man().join(name)).unwrap();
        }
        for (name, text) in &pages {
            fs::write(man().join(name), text).unwrap();
        }
    }
    for (name, text) in files(&man()) {
        let is_same = pages.get(&name) == Some(&text);
        assert!(is_same, "man/{name} differs; UPDATE=1 rewrites it");
    }
    assert_eq!(pages.len(), files(&man()).len(), "UPDATE=1 adds pages");
}

#[test]
fn man_pages_are_read_without_a_warning() {
    let mut names: Vec<String> = files(&man()).into_keys().collect();
    names.sort();
    for name in names {
        let mut command = Command::new("man");
        command.args(["--warnings", "-l", "--local-file"]);
        command.arg(man().join(&name)).env("MANPAGER", "cat");
        command
            .env("LC_ALL", "C.UTF-8")
            .env("MAN_KEEP_FORMATTING", "");
        let read = command.output();
        let read = read
            .ok()
            .filter(|read| read.status.success() && !read.stdout.is_empty());
        let Some(read) = read else {
            println!("skipped: man_pages_are_read_without_a_warning: no man that formats pages");
            return;
        };
        let warnings = String::from_utf8_lossy(&read.stderr);
        assert_eq!(warnings, "", "{name}");
    }
}

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
