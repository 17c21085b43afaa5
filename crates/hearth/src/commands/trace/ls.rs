//! `hearth trace ls`.

use std::process::ExitCode;

use hearth_trace::ring::{AreaState, Look, WhenFull, look};

use super::recording;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::output::{print, table};

/// Options of `hearth trace ls`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Lists the processes that can be traced now. Exit 1: none.
pub(crate) fn run(_: &Args) -> Result<ExitCode, Failure> {
    let head = [
        "pid",
        "program",
        "recording",
        "full ring",
        "threads",
        "operations",
        "lost",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(live()?.iter().map(row));
    if rows.len() == 1 {
        hearth_client::say!(
            "no process of this user can be traced; start one with `hearth trace run`"
        );
        return Ok(ExitCode::from(1));
    }
    print(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// The areas of this user's processes that run.
pub(super) fn live() -> Result<Vec<Look>, Failure> {
    let mut all = Vec::new();
    for directory in recording::directories() {
        all.extend(look(&directory).or_fail(|| "cannot look for traced processes".to_owned())?);
    }
    all.retain(|area| area.state() == AreaState::Live);
    Ok(all)
}

/// Name of the program of a process.
pub(super) fn program(pid: u32) -> String {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
    let name = exe
        .ok()
        .and_then(|exe| Some(exe.file_name()?.display().to_string()));
    name.unwrap_or_else(|| "?".to_owned())
}

fn row(area: &Look) -> Vec<String> {
    let pid = area.facts().name.pid;
    let counts = area.counts();
    let policy = match area.facts().policy {
        WhenFull::Drop => "drops",
        WhenFull::Wait { .. } => "waits",
        WhenFull::Overwrite => "overwrites",
    };
    vec![
        pid.to_string(),
        program(pid),
        if area.is_on() { "on" } else { "off" }.to_owned(),
        policy.to_owned(),
        counts.threads.to_string(),
        counts.attempted.to_string(),
        counts.dropped.to_string(),
    ]
}
