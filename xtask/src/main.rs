//! `cargo run -p xtask -- tidy`: runs every check and prints what it saw.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use xtask::{CHECKS, Repo};

const USAGE: &str = "usage: cargo run -p xtask -- tidy";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words != ["tidy"] {
        return fail(USAGE);
    }
    match tidy(&mut io::stdout().lock()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => fail(&format!("error: cannot check the repository: {error}")),
    }
}

fn fail(words: &str) -> ExitCode {
    eprintln!("{words}");
    ExitCode::from(2)
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
