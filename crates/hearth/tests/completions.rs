//! Words that cannot be understood are answered with ones that can.

#[allow(dead_code, reason = "every test file uses its own part")]
#[path = "support/desk.rs"]
mod desk;

use std::process::Command;

use desk::{Desk, code, err, out, program};

#[test]
fn words_that_are_not_understood_are_answered_with_ones_that_are() {
    let desk = Desk::new();
    let nothing: [&str; 0] = [];
    for (words, hint) in [
        (&nothing[..], "hint: hearth run -- CMD runs a command"),
        (
            &["run", "ls", "-l"],
            "hint: put -- before the command: hearth run -- ls -l\n",
        ),
        (
            &["make", "-j8"],
            "hint: to run a command: hearth run -- make -j8\n",
        ),
        (&["staus"], "a similar subcommand exists: 'status'"),
    ] {
        let told = desk.run(words);
        assert_eq!((code(&told), out(&told)), (2, String::new()), "{words:?}");
        assert!(err(&told).contains(hint), "{words:?}: {}", err(&told));
        assert!(err(&told).lines().count() < 8, "{}", err(&told));
    }
    let help = desk.run(&["help", "run"]);
    assert_eq!(code(&help), 0);
    assert_eq!(out(&help), out(&desk.run(&["run", "--help"])));
}

/// The words of a command on a terminal.
fn on_a_terminal(desk: &Desk, words: &str, variables: &[(&str, &str)]) -> Option<String> {
    let line = format!("{} {words}", program().display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]);
    script
        .env("XDG_CONFIG_HOME", desk.path("config"))
        .env("TERM", "xterm");
    script
        .env("HEARTH_DIR", desk.control())
        .env_remove("NO_COLOR");
    let said = script.envs(variables.iter().copied()).output().ok()?;
    Some(out(&said))
}

#[test]
fn words_are_painted_on_a_terminal_alone() {
    let desk = Desk::new();
    let Some(painted) = on_a_terminal(&desk, "status", &[]) else {
        println!("skipped: words_are_painted_on_a_terminal_alone: no script");
        return;
    };
    assert!(painted.contains("\u{1b}[31merror:\u{1b}[0m"), "{painted:?}");
    let plain = on_a_terminal(&desk, "status", &[("NO_COLOR", "1")]).expect("it ran");
    assert!(
        plain.contains("error: ") && !plain.contains('\u{1b}'),
        "{plain:?}"
    );
    let piped = err(&desk.run(&["status"]));
    assert!(!piped.contains('\u{1b}'), "{piped:?}");
    let table = on_a_terminal(&desk, "config", &[]).expect("it ran");
    assert!(table.starts_with("\u{1b}[1msetting"), "{table:?}");
}
