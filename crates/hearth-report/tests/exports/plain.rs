//! Exports that need no tool to be read.

use hearth_report::export::{self, TimeRange, Window};
use hearth_trace::Source;

use crate::support::{job, lossy_job};

#[test]
fn csv_has_a_line_for_every_event() {
    let mut out = Vec::new();
    let exported = export::csv(lossy_job(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len() as u64, 1 + lossy_job().events_expected());
    assert_eq!(exported.lost, 7);
    assert_eq!(
        lines[4],
        "1790000000040000000,104000,alpha,0,100,100,pwrite,program,/scratch/run/shared.dat,\
         0,65536,65536,0,4,0,0,4,"
    );
    assert!(lines[2].ends_with(",-2,0,2,0,0,2,error"), "{}", lines[2]);
    let log = lines.iter().find(|line| line.contains("log")).unwrap();
    assert!(log.contains(r#","/scratch/run/log, ""0"".txt","#), "{log}");
}

#[test]
fn a_window_keeps_what_begins_in_it() {
    let span = TimeRange {
        from: 100_000_000,
        to: 200_000_000,
    };
    let mut window = Window::new(job(), span);
    let mut starts = Vec::new();
    window
        .each_run(&mut |_, events| starts.extend(events.iter().map(|event| event.start)))
        .unwrap();
    // Ten per thread.
    assert_eq!(starts.len(), 40);
}
