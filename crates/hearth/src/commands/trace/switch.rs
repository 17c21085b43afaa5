//! `hearth trace on` and `hearth trace off`.

use std::process::ExitCode;

use super::ls::live;
use hearth_client::words::counted;
use hearth_set::failure::Failure;

/// Options of `hearth trace on` and `off`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// These processes alone [default: all that `hearth trace ls` lists]
    #[arg(value_name = "PID")]
    pids: Vec<u32>,
}

/// Has processes record.
pub(crate) fn on(args: &Args) -> Result<ExitCode, Failure> {
    switch(args, true)
}

/// Has processes stop recording.
pub(crate) fn off(args: &Args) -> Result<ExitCode, Failure> {
    switch(args, false)
}

fn switch(args: &Args, on: bool) -> Result<ExitCode, Failure> {
    let areas = live()?;
    let pid = |area: &hearth_trace::ring::Look| area.facts().name.pid;
    if let Some(absent) = args
        .pids
        .iter()
        .find(|it| !areas.iter().any(|area| pid(area) == **it))
    {
        let what = format!("process {absent} cannot be traced");
        return Err(Failure::no(what).hint("hearth trace ls"));
    }
    let is_meant = |area: &&_| args.pids.is_empty() || args.pids.contains(&pid(area));
    let meant: Vec<_> = areas.iter().filter(is_meant).collect();
    for area in &meant {
        area.switch(on);
    }
    hearth_client::say!(
        "{} of {}: {}",
        meant.len(),
        counted(areas.len(), "process"),
        if on { "on" } else { "off" }
    );
    Ok(ExitCode::from(u8::from(meant.is_empty())))
}
