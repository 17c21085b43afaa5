//! Shells complete what is typed, and words that cannot be understood are answered with ones that can.

#[allow(dead_code, reason = "every test file uses its own part")]
#[path = "support/desk.rs"]
mod desk;

use std::process::Command;

use desk::{Desk, code, err, out, program};

/// The words that bash offers for the last of a line.
fn offered(line: &[&str]) -> Vec<String> {
    let script = r#"
        eval "$("$1" completions bash)"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _hearth hearth "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).arg(program());
    let done = bash.args(line).output().expect("bash runs");
    let words = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{done:?}");
    words.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(offered(&["hearth", "sta"]), ["status"]);
    let commands = offered(&["hearth", ""]);
    assert!(commands.contains(&"run".to_owned()), "{commands:?}");
    assert!(!commands.contains(&"enter".to_owned()), "{commands:?}");
    assert_eq!(offered(&["hearth", "run", "--pol"]), ["--policy"]);
    let close = offered(&["hearth", "up", "--close", ""]);
    assert_eq!(close, ["flushed", "buffered"]);
    let traces = offered(&["hearth", "trace", "rep"]);
    assert_eq!(traces, ["report", "replay"]);
}

/// Whether a shell takes a script, or `None` if there is no such shell.
fn takes(shell: &str, script: &str) -> Option<bool> {
    let mut command = Command::new(shell);
    let done = command
        .args(["-n", "/dev/stdin"])
        .stdin(std::process::Stdio::piped());
    let mut child = done.spawn().ok()?;
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, script.as_bytes()).expect("it reads");
    drop(input);
    child.wait().ok().map(|status| status.success())
}

#[test]
fn each_shell_takes_its_script() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish"] {
        let made = desk.run(&["completions", shell]);
        assert_eq!(code(&made), 0);
        match takes(shell, &out(&made)) {
            Some(taken) => assert!(taken, "{shell}"),
            None => println!("skipped: each_shell_takes_its_script: no {shell}"),
        }
    }
    assert_eq!(code(&desk.run(&["completions", "csh"])), 2);
}

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
