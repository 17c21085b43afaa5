//! A view as lines of text.

use std::time::Duration;

use super::view::{File, Operation, Process, Rates, View};

/// Columns of a line of text that is not cut.
const UNCUT: usize = usize::MAX;

const BOLD: (&str, &str) = ("\x1b[1m", "\x1b[0m");
const PLAIN: (&str, &str) = ("", "");

/// The lists of a view, each with so many rows.
struct Rows {
    processes: usize,
    files: usize,
    operations: usize,
}

/// One view, as it is printed.
pub(super) fn text(view: &View) -> String {
    let rows = Rows {
        processes: 50,
        files: 20,
        operations: 10,
    };
    let mut lines = totals(view);
    lines.extend(lists(view, &rows, UNCUT, PLAIN));
    lines.join("\n") + "\n"
}

/// One view, as a screen of so many columns and rows shows it.
pub(super) fn screen(view: &View, interval: Duration, size: (usize, usize)) -> Vec<String> {
    let (columns, height) = size;
    let mut lines = vec![format!(
        "hearth trace top, every {} s; q quits",
        interval.as_secs_f64()
    )];
    if view.seconds == 0.0 {
        lines.push("looking ...".to_owned());
    } else {
        lines.extend(totals(view));
        // Beside the three lists stand three lines, and two of each list.
        let free = height.saturating_sub(9).max(3);
        let operations = view.operations.len().min(free / 4).max(1);
        let processes = view.processes.len().min((free - operations) / 2).max(1);
        let rows = Rows {
            processes,
            files: free.saturating_sub(operations + processes),
            operations,
        };
        lines.extend(lists(view, &rows, columns, BOLD));
    }
    lines.truncate(height);
    let cut = |line: String| match line.starts_with('\x1b') {
        true => line,
        false => line.chars().take(columns).collect(),
    };
    lines.into_iter().map(cut).collect()
}

fn totals(view: &View) -> Vec<String> {
    let all = &view.total;
    let about = about(all);
    let threads: usize = view.processes.iter().map(|process| process.threads).sum();
    let mut lines = vec![format!(
        "{}/s operations   {about}{}/s read   {about}{}/s written   {} lost   {} processes, {threads} threads",
        number(all.operations_per_s),
        bytes(all.read_bytes_per_s),
        bytes(all.written_bytes_per_s),
        all.lost,
        view.processes.len(),
    )];
    lines.push(match all.sampled {
        true => {
            "~ from a part of the records: a ring was written around between two looks".to_owned()
        }
        false => String::new(),
    });
    lines
}

fn lists(view: &View, rows: &Rows, columns: usize, bold: (&str, &str)) -> Vec<String> {
    let processes = view.processes.iter().take(rows.processes).map(process);
    let files = view.files.iter().take(rows.files);
    let files = files.map(|it| file(it, columns, about(&view.total)));
    let operations = view.operations.iter().take(rows.operations);
    let operations = operations.map(|it| operation(it, about(&view.total)));
    let head = |text: &str| {
        let text: String = text.chars().take(columns).collect();
        format!("{}{text}{}", bold.0, bold.1)
    };
    let mut lines = vec![head(
        "    PID  RANK      OP/S      READ/S   WRITTEN/S  IN I/O      LOST  PROGRAM",
    )];
    lines.extend(processes);
    lines.push(String::new());
    lines.push(head("     OP/S      READ/S   WRITTEN/S  BUSY    FILE"));
    lines.extend(files);
    lines.push(String::new());
    lines.push(head("     OP/S     MEAN  TIME    OPERATION"));
    lines.extend(operations);
    lines
}

fn process(process: &Process) -> String {
    let rates = &process.rates;
    let about = about(rates);
    let rank = process.rank.map_or("-".to_owned(), |rank| rank.to_string());
    let share = process.io_share.map_or("?".to_owned(), percent);
    format!(
        "{:>7}  {rank:>4}  {:>8}  {:>10}  {:>10}  {:>6}  {:>8}  {}{}",
        process.pid,
        number(rates.operations_per_s),
        format!("{about}{}", bytes(rates.read_bytes_per_s)),
        format!("{about}{}", bytes(rates.written_bytes_per_s)),
        share,
        number(rates.lost as f64),
        printable(&process.program),
        if process.recording { "" } else { " (off)" },
    )
}

fn file(file: &File, columns: usize, about: &str) -> String {
    let numbers = format!(
        "{:>9}  {:>10}  {:>10}  {:>6}  ",
        format!("{about}{}", number(file.operations_per_s)),
        bytes(file.read_bytes_per_s),
        bytes(file.written_bytes_per_s),
        percent(file.busy),
    );
    let path = printable(file.path.as_deref().unwrap_or("(name lost)"));
    let room = columns.saturating_sub(numbers.chars().count());
    format!("{numbers}{}", tail(&path, room))
}

fn operation(operation: &Operation, about: &str) -> String {
    format!(
        "{:>9}  {:>7}  {:>6}  {}",
        format!("{about}{}", number(operation.operations_per_s)),
        duration(operation.mean_us),
        percent(operation.time_share),
        operation.operation,
    )
}

fn about(rates: &Rates) -> &'static str {
    if rates.sampled { "~" } else { "" }
}

/// The end of a path says more than its beginning.
fn tail(path: &str, room: usize) -> String {
    let count = path.chars().count();
    if count <= room {
        return path.to_owned();
    }
    let kept = room.saturating_sub(3);
    let end: String = path.chars().skip(count - kept).collect();
    format!("...{end}")
}

/// Without what would make a terminal do something else than show it.
fn printable(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { '?' } else { letter };
    text.chars().map(shown).collect()
}

fn number(value: f64) -> String {
    match value {
        ..1e4 => format!("{value:.0}"),
        ..1e7 => format!("{:.1}k", value / 1e3),
        ..1e10 => format!("{:.1}M", value / 1e6),
        _ => format!("{:.1}G", value / 1e9),
    }
}

fn bytes(value: f64) -> String {
    let steps = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut step) = (value, 0);
    while value >= 1024.0 && step + 1 < steps.len() {
        value /= 1024.0;
        step += 1;
    }
    let digits = usize::from(step > 0);
    format!("{value:.digits$} {}", steps[step])
}

fn duration(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.1} us"),
        ..1e6 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}
