//! One table of one interval, for pipes and files.

use std::process::ExitCode;
use std::time::Instant;

use hearth_set::failure::Failure;
use hearth_set::output::{print, table};
use hearth_set::set::Choice;

use crate::alarms;
use crate::column::Column;
use crate::draw::source_lines;
use crate::live::{EACH, wait_until};
use crate::look::Glance;
use crate::watch::Watch;

/// Prints what the agents of a choice did within one second. Exit code 1 if something needs care.
pub fn run(choice: &Choice) -> Result<ExitCode, Failure> {
    let mut watch = Watch::default();
    let begun = Instant::now();
    watch.take(Glance::take(choice)?);
    wait_until(begun + EACH);
    watch.take(Glance::take(choice)?);
    print(&text(&watch))?;
    let care = alarms::care(&watch);
    for line in &care {
        hearth_client::say!("warning: {line}");
    }
    Ok(ExitCode::from(u8::from(!care.is_empty())))
}

/// Both tables, in the order of sets and numbers.
fn text(watch: &Watch) -> String {
    let heads = Column::ALL.map(|column| column.head().to_owned());
    let mut rows = vec![heads.to_vec()];
    rows.extend(watch.agents().map(|(key, agent)| {
        let cells = Column::ALL.map(|column| column.cell(watch, key, agent));
        cells.to_vec()
    }));
    let sources: Vec<String> = source_lines(watch);
    format!("{}\n{}\n", table(&rows), sources.join("\n"))
}
