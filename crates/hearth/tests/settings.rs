//! Settings come from files, variables and options, and each says where it is from.

#[allow(dead_code, reason = "every test file uses its own part")]
#[path = "support/desk.rs"]
mod desk;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output};

use desk::{Desk, code, err, out};
use serde_json::Value;

/// A file that nobody but its owner may write, whatever the umask is.
fn write(path: impl AsRef<std::path::Path>, text: &str) {
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own file");
}

/// The user's own file.
fn say_for_me(desk: &Desk, text: &str) {
    let dir = desk.path("config/hearth");
    fs::create_dir_all(&dir).expect("a directory");
    write(dir.join("hearth.toml"), text);
}

/// The store's file.
fn say_for_store(desk: &Desk, text: &str) {
    write(format!("{}/.hearth.toml", desk.store()), text);
}

fn with(desk: &Desk, variables: &[(&str, &str)], words: &[&str]) -> Output {
    let mut command: Command = desk.command(words);
    command
        .envs(variables.iter().copied())
        .output()
        .expect("it runs")
}

/// The value of a key, and its source.
fn in_force(told: &Output, key: &str) -> (String, String) {
    assert_eq!(code(told), 0, "{}", err(told));
    let text = out(told);
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let line = lines.find(|line| line["key"] == key).expect("it is told");
    let word = |name: &str| line[name].as_str().expect("a word").to_owned();
    (word("value"), word("from"))
}

#[test]
fn a_later_place_wins_and_is_named() {
    let desk = Desk::new();
    let store = desk.store();
    let words = ["config", "--store", &store, "--json"];
    let pool = |variables: &[(&str, &str)], more: &[&str]| {
        let told = with(&desk, variables, &[&words, more].concat());
        let (value, from) = in_force(&told, "pool");
        format!("{value} {from}")
    };
    assert_eq!(pool(&[], &[]), "256 MiB default");
    say_for_me(&desk, "\npool = \"64M\"\n");
    assert_eq!(pool(&[], &[]), "64M file");
    say_for_store(&desk, "pool = \"65M\"\n");
    assert_eq!(pool(&[], &[]), "65M file");
    let variable = [("HEARTH_POOL", "66M")];
    assert_eq!(pool(&variable, &[]), "66M variable");
    assert_eq!(pool(&variable, &["--pool", "67M"]), "67M command line");
    let table = out(&desk.run(&words[..3]));
    let line = format!("65M      {store}/.hearth.toml:1\n");
    assert!(table.contains(&line), "{table}");
}

#[test]
fn a_share_is_of_the_memory_here() {
    let desk = Desk::new();
    say_for_me(&desk, "pool = \"1%\"");
    let table = out(&desk.run(&["config"]));
    let line = table
        .lines()
        .find(|line| line.starts_with("pool "))
        .expect("a line");
    assert!(line.contains("1% (") && line.contains("iB)"), "{line}");
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_is_near() {
    let desk = Desk::new();
    let store = desk.store();
    say_for_me(&desk, "# mine\npolcy = \"home\"\n");
    for words in [
        &["up", "--store", &store][..],
        &["run", "--store", &store, "--", "true"],
        &["config", "--store", &store],
    ] {
        let told = desk.run(words);
        assert_eq!(code(&told), 2, "{words:?}");
        let text = err(&told);
        assert!(text.contains("hearth/hearth.toml`, line 2\n"), "{text}");
        assert!(text.ends_with("the nearest key is `policy`\n"), "{text}");
    }
    say_for_me(&desk, "chunk = \"100K\"");
    let text = err(&desk.run(&["up", "--store", &store]));
    let cause = "caused by: chunk is 100K by ";
    assert!(
        text.contains(cause) && text.contains("hearth.toml:1"),
        "{text}"
    );
    let text = err(&with(&desk, &[("HEARTH_CLOSE", "flush")], &["config"]));
    assert!(text.contains("variable HEARTH_CLOSE"), "{text}");
}

#[test]
fn a_new_set_heeds_files_and_one_that_is_up_only_demands() {
    let desk = Desk::new();
    let store = desk.store();
    say_for_me(&desk, "pool = \"32M\"\nagents = 2\n");
    let up = with(&desk, &[("HEARTH_STORE", &store)], &["up"]);
    assert_eq!(code(&up), 0, "{}", err(&up));
    let status = out(&desk.run(&["status", "--json"]));
    assert_eq!(status.lines().count(), 2);
    assert!(status.contains("\"pool_bytes\":33554432"), "{status}");
    say_for_me(&desk, "pool = \"64M\"\n");
    let run = ["run", "--store", &store, "--", "true"];
    let joined = desk.run(&run);
    assert_eq!(code(&joined), 0, "{}", err(&joined));
    let refused = with(&desk, &[("HEARTH_POOL", "64M")], &run);
    assert_eq!(code(&refused), 2);
    let cause = "it has pool 32 MiB, not 64 MiB";
    assert!(err(&refused).contains(cause), "{}", err(&refused));
    assert_eq!(code(&desk.run(&["down"])), 0);
}

#[test]
fn a_store_of_somebody_else_says_nothing() {
    let test = "a_store_of_somebody_else_says_nothing";
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: only root can give files away");
        return;
    }
    let desk = Desk::new();
    let store = desk.store();
    say_for_store(&desk, "pool = \"64M\"\n");
    chown(format!("{store}/.hearth.toml"), Some(65534), None).expect("root may");
    let told = desk.run(&["config", "--store", &store, "--json"]);
    assert_eq!(in_force(&told, "pool").1, "default");
    let text = err(&told);
    assert!(
        text.contains("are not heeded: it is another user's"),
        "{text}"
    );
    fs::remove_file(format!("{store}/.hearth.toml")).expect("root may");
    say_for_store(&desk, "rules = \"/etc/passwd\"\n");
    let told = desk.run(&["config", "--store", &store]);
    assert_eq!(code(&told), 2);
    assert!(err(&told).contains("and not `rules`"), "{}", err(&told));
}

#[test]
fn a_command_is_not_given_what_stands_for_options_of_one_run() {
    let desk = Desk::new();
    let store = desk.store();
    let words = ["run", "--store", &store, "--", "env"];
    let told = with(
        &desk,
        &[("HEARTH_OPTION_REPORT", "1"), ("HEARTH_POOL", "32M")],
        &words,
    );
    assert_eq!(code(&told), 0, "{}", err(&told));
    assert!(err(&told).contains("read"), "a report: {}", err(&told));
    let variables = out(&told);
    assert!(!variables.contains("HEARTH_OPTION"), "{variables}");
    assert!(variables.contains("HEARTH_POOL=32M\n"), "{variables}");
}
