//! `cargo run -p xtask -- tidy`: runs every check and prints what it saw.
//!
//! `cargo run -p xtask -- crates`: draws the crates anew in ARCHITECTURE.md.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use xtask::{CHECKS, Repo, redrawn};

const USAGE: &str = "usage: cargo run -p xtask -- tidy|crates";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(&mut io::stdout().lock()),
        ["crates"] => draw_crates(),
        _ => return fail(USAGE),
    };
    match done {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => fail(&format!("error: cannot check the repository: {error}")),
    }
}

fn fail(words: &str) -> ExitCode {
    eprintln!("{words}");
    ExitCode::from(2)
}

/// Draws the crates anew in their page.
fn draw_crates() -> io::Result<usize> {
    let repo = Repo::here()?;
    let page =
        redrawn(&repo).ok_or_else(|| io::Error::other("ARCHITECTURE.md has no place for them"))?;
    fs::write(Repo::root().join("ARCHITECTURE.md"), page).map(|()| 0)
}

/// Returns how often the checks fired.
fn tidy(out: &mut impl Write) -> io::Result<usize> {
    let repo = Repo::here()?;
    let mut count = 0;
    for check in CHECKS {
        let verdict = (check.run)(&repo);
        let word = if verdict.findings.is_empty() {
            "ok"
        } else {
            "FIRES"
        };
        writeln!(out, "{word:<6}{:<10}{}", check.name, verdict.note)?;
        for finding in &verdict.findings {
            writeln!(out, "      {finding}")?;
        }
        count += verdict.findings.len();
    }
    writeln!(out, "tidy: {} checks, {count} findings", CHECKS.len())?;
    Ok(count)
}
