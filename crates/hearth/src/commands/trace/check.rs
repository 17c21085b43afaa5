//! `hearth trace check`.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hearth_trace::file::{Found, Frames, Kind, SessionId};

use crate::failure::{Failure, OrFail};
use crate::output::print;

/// Options of `hearth trace check`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Trace files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Reads all of each file. Exit 0: whole, 1: something is missing, 2: cannot be read.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::SUCCESS;
    for path in &args.files {
        let missing = check(path)?;
        for line in &missing {
            print(&format!("{}: {line}\n", path.display()))?;
        }
        if missing.is_empty() {
            print(&format!("{}: whole\n", path.display()))?;
        } else {
            code = ExitCode::from(1);
        }
    }
    Ok(code)
}

/// Sentences about what is missing.
fn check(path: &Path) -> Result<Vec<String>, Failure> {
    let why = || format!("cannot read `{}`", path.display());
    let mut frames = Frames::new(File::open(path).or_fail(why)?);
    let mut missing = Vec::new();
    let mut sessions: HashMap<SessionId, (u64, bool)> = HashMap::new();
    while let Some(found) = frames.read().or_fail(why)? {
        match found {
            Found::Frame { frame, .. } => {
                let (next, ended) = sessions.entry(frame.session).or_default();
                if frame.number > *next {
                    missing.push(format!("frames {next} to {} are missing", frame.number - 1));
                }
                *next = frame.number + 1;
                *ended |= frame.kind == Some(Kind::End);
            }
            Found::Damage { at, len } => {
                missing.push(format!("{len} bytes from byte {at} on are damaged"));
            }
        }
    }
    if sessions.is_empty() {
        return Err(Failure::new(why()).cause("it is not a trace file: no frame is in it"));
    }
    let open = sessions.values().filter(|(_, ended)| !ended).count();
    if open > 0 {
        missing.push(format!("{open} of {} sessions did not end", sessions.len()));
    }
    Ok(missing)
}
