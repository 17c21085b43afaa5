//! `cargo run -p xtask -- tidy`: runs every check and prints what it saw.
//!
//! `cargo run -p xtask -- crates`: draws the crates anew in ARCHITECTURE.md.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use xtask::{CHECKS, Repo, Verdict, check_prose, redrawn};

const USAGE: &str = "usage: cargo run -p xtask -- tidy|crates
       cargo run -p xtask -- prose PATH...";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    let done = match words.split_first() {
        Some((word, [])) if word == "tidy" => tidy(&mut out),
        Some((word, [])) if word == "crates" => draw_crates(),
        Some((word, paths)) if word == "prose" && !paths.is_empty() => prose(&mut out, paths),
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
        count += print(out, check.name, &(check.run)(&repo))?;
    }
    writeln!(out, "tidy: {} checks, {count} findings", CHECKS.len())?;
    Ok(count)
}

/// Checks the sentences of some files or directories, as seen from the root of the repository.
fn prose(out: &mut impl Write, paths: &[String]) -> io::Result<usize> {
    print(out, "prose", &check_prose(&Repo::here()?, paths))
}

/// Returns how often the check fired.
fn print(out: &mut impl Write, name: &str, verdict: &Verdict) -> io::Result<usize> {
    let word = if verdict.findings.is_empty() {
        "ok"
    } else {
        "FIRES"
    };
    writeln!(out, "{word:<6}{name:<10}{}", verdict.note)?;
    for finding in &verdict.findings {
        writeln!(out, "      {finding}")?;
    }
    Ok(verdict.findings.len())
}
