//! The report at a terminal.

use std::fmt::Write;

use crate::finding::Finding;
use crate::report::{Operation, Report};
use crate::words::{bytes, count, date, percent, plural, time};

/// Columns of the strip.
const WIDTH: usize = 80;
/// Lines of each list.
const LIST_MAX: usize = 10;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    head(report, &mut out);
    loss(report, &mut out);
    strip(report, &mut out);
    findings(report, &mut out);
    operations(report, &mut out);
    files(report, &mut out);
    accesses(report, &mut out);
    processes(report, &mut out);
    waterfall(report, &mut out);
    rhythm(report, &mut out);
    curves(report, &mut out);
    // Names come from the trace; a terminal is not to take them for orders.
    out.replace(|char: char| char.is_control() && char != '\n', "\u{fffd}")
}

/// Adds one line; writing to a string cannot fail.
macro_rules! line {
    ($out:expr) => { $out.push('\n') };
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes everything")
    };
}

fn head(report: &Report, out: &mut String) {
    let job = &report.job;
    let programs = if job.programs.is_empty() {
        "nothing".to_owned()
    } else {
        job.programs.join(", ")
    };
    line!(out, "{programs}");
    line!(
        out,
        "{} from {}: {}, {}, {}",
        time(job.wall),
        date(job.start),
        plural(job.processes, "process"),
        plural(job.hosts, "host"),
        plural(job.files, "file"),
    );
    line!(
        out,
        "I/O holds the job up for {}, {} of its time; it read {} and wrote {}",
        time(job.critical),
        percent(job.critical / job.wall.max(1e-9)),
        bytes(job.bytes_read as f64),
        bytes(job.bytes_written as f64)
    );
}

fn loss(report: &Report, out: &mut String) {
    let loss = &report.loss;
    line!(
        out,
        "records: attempted {} = stored {} + lost {} + torn {}",
        count(loss.attempted),
        count(loss.stored),
        count(loss.dropped),
        count(loss.torn)
    );
    for lost in &loss.operations {
        line!(
            out,
            "  lost: {} {} of {} that took {}",
            count(lost.count),
            lost.op,
            bytes(lost.bytes as f64),
            time(lost.seconds)
        );
    }
    loss.clocks
        .iter()
        .chain(&loss.remarks)
        .for_each(|remark| line!(out, "  warning: {remark}"));
}

fn strip(report: &Report, out: &mut String) {
    let strip = &report.strip;
    let columns = strip.rate.len();
    if columns == 0 {
        return;
    }
    line!(
        out,
        "\nWHEN  threads in I/O; a column is {}",
        time(strip.bin * each(columns) as f64)
    );
    for (group, busy) in strip.groups.iter().zip(&strip.busy) {
        let values = gather(busy);
        let peak = values.iter().copied().fold(0.0, f64::max);
        if peak > 0.0 {
            let bars: String = values.iter().map(|value| bar(*value, peak)).collect();
            line!(
                out,
                "  {group:<9} {:<WIDTH$} at most {peak:.2}",
                bars.trim_end()
            );
        }
    }
    let lost = gather(&report.loss.strip);
    let marks: String = lost
        .iter()
        .map(|lost| if *lost > 0.0 { 'x' } else { '.' })
        .collect();
    line!(out, "  {:<9} {marks}", "lost");
}

fn each(columns: usize) -> usize {
    columns.div_ceil(WIDTH).max(1)
}

fn gather(values: &[f64]) -> Vec<f64> {
    let runs = values.chunks(each(values.len()));
    runs.map(|run| run.iter().sum::<f64>() / run.len() as f64)
        .collect()
}

/// Whatever is there at all is seen.
fn bar(value: f64, peak: f64) -> char {
    let height = (value / peak * 8.0).round() as usize;
    BARS[if value > 0.0 { height.max(1) } else { 0 }]
}

fn findings(report: &Report, out: &mut String) {
    line!(out, "\nWHAT TO CHANGE");
    if report.findings.is_empty() {
        line!(
            out,
            "  nothing that would save 5 % of the time in I/O and of the job"
        );
    }
    for (index, finding) in report.findings.iter().enumerate() {
        finding_lines(index + 1, finding, out);
    }
}

fn finding_lines(number: usize, finding: &Finding, out: &mut String) {
    let gain = finding.seconds;
    let worth = format!(
        "{} saved ({} to {})",
        time(gain.mid),
        time(gain.low),
        time(gain.high)
    );
    line!(out, "{number:>3}. {worth} [{}]", finding.kind.name());
    wrap("     ", &finding.title, out);
    finding
        .evidence
        .iter()
        .for_each(|fact| wrap("     - ", fact, out));
    wrap("     change: ", &finding.change, out);
    wrap("     how that was predicted: ", &finding.basis, out);
}

/// A paragraph of at most 100 columns, indented by its label's place.
fn wrap(label: &str, text: &str, out: &mut String) {
    let indent = label.len() - label.trim_start().len() + if label.ends_with("- ") { 2 } else { 0 };
    let indent = if label.trim().is_empty() {
        label.len()
    } else {
        indent
    };
    let mut line = label.to_owned();
    let mut is_first = true;
    for word in text.split_whitespace() {
        if !is_first && line.chars().count() + word.chars().count() + 1 > 100 {
            line!(out, "{line}");
            line = " ".repeat(indent);
            is_first = true;
        }
        if !is_first {
            line.push(' ');
        }
        line.push_str(word);
        is_first = false;
    }
    line!(out, "{line}");
}

fn operations(report: &Report, out: &mut String) {
    if report.operations.is_empty() {
        return;
    }
    line!(out, "\nOPERATIONS  time over all threads");
    let mut rows = vec![row([
        "layer",
        "operation",
        "calls",
        "failed",
        "bytes",
        "time",
        "median",
        "99 %",
        "longest",
    ])];
    rows.extend(report.operations.iter().map(operation_row));
    table(&rows, 2, out);
}

fn operation_row(operation: &Operation) -> Vec<String> {
    vec![
        operation.layer.to_owned(),
        operation.op.to_owned(),
        count(operation.count),
        count(operation.failed),
        bytes(operation.bytes as f64),
        time(operation.seconds),
        time(operation.median),
        time(operation.p99),
        time(operation.longest),
    ]
}

fn files(report: &Report, out: &mut String) {
    if report.files.is_empty() {
        return;
    }
    line!(out, "\nFILES  by the time for which they hold the job up");
    let head = row([
        "holds up", "time", "calls", "read", "written", "in order", "aligned", "file",
    ]);
    let mut rows = vec![head];
    rows.extend(report.files.iter().take(LIST_MAX).map(|file| {
        vec![
            time(file.critical),
            time(file.seconds),
            count(file.reads + file.writes + file.metadata),
            bytes(file.bytes_read as f64),
            bytes(file.bytes_written as f64),
            percent(file.sequential),
            percent(file.aligned),
            file.path.clone(),
        ]
    }));
    table(&rows, 0, out);
    more(
        report.files.len().saturating_sub(LIST_MAX) as u64 + report.files_more,
        out,
    );
}

fn accesses(report: &Report, out: &mut String) {
    if report.patterns.is_empty() {
        return;
    }
    line!(out, "\nREADS AND WRITES");
    for pattern in &report.patterns {
        line!(
            out,
            "  {:<6} {} calls: {} in order, {} with a stride, {} in no order; {} aligned to 4 KiB",
            pattern.what,
            count(pattern.calls),
            percent(pattern.sequential),
            percent(pattern.strided),
            percent(pattern.random),
            percent(pattern.aligned)
        );
    }
    let mut rows = vec![row(["size from", "reads", "time", "writes", "time"])];
    let used = report
        .sizes
        .iter()
        .filter(|size| size.reads + size.writes > 0);
    rows.extend(used.map(|size| {
        vec![
            bytes(size.bytes as f64),
            count(size.reads),
            time(size.read_seconds),
            count(size.writes),
            time(size.write_seconds),
        ]
    }));
    table(&rows, 0, out);
}

fn processes(report: &Report, out: &mut String) {
    if report.processes.len() < 2 {
        return;
    }
    line!(out, "\nPROCESSES  the most time in I/O first");
    let mut rows = vec![row(["process", "time", "of the median", "calls", "bytes"])];
    rows.extend(report.processes.iter().take(LIST_MAX).map(|process| {
        vec![
            process.name.clone(),
            time(process.seconds),
            format!("{:.2} times", process.of_median),
            count(process.operations),
            bytes(process.bytes as f64),
        ]
    }));
    table(&rows, 1, out);
    more(
        report.processes.len().saturating_sub(LIST_MAX) as u64 + report.processes_more,
        out,
    );
}

fn waterfall(report: &Report, out: &mut String) {
    if report.waterfall.is_empty() {
        return;
    }
    line!(out, "\nREQUESTS  where the time of one went, on average");
    let parts = report.waterfall[0].parts.iter().map(|part| part.name);
    let mut rows = vec![row(["served by", "request"])];
    rows[0].extend(
        ["requests", "time"]
            .into_iter()
            .chain(parts)
            .map(str::to_owned),
    );
    rows.extend(report.waterfall.iter().map(|outcome| {
        let mut cells = vec![outcome.outcome.to_owned(), outcome.what.to_owned()];
        cells.extend([count(outcome.count), time(outcome.mean)]);
        cells.extend(outcome.parts.iter().map(|part| time(part.seconds)));
        cells
    }));
    table(&rows, 2, out);
}

fn rhythm(report: &Report, out: &mut String) {
    if let Some(period) = &report.period {
        line!(
            out,
            "\nRHYTHM  I/O comes every {} (likeness {:.2}) and lasts for {} of that",
            time(period.seconds),
            period.confidence,
            percent(period.busy)
        );
    }
    if !report.bursts.is_empty() {
        line!(out, "\nBURSTS OF METADATA CALLS");
        for burst in &report.bursts {
            line!(
                out,
                "  {} in {}, at {}: {} a second",
                count(burst.calls),
                time(burst.lasts),
                time(burst.at),
                count(burst.rate as u64)
            );
        }
    }
}

fn curves(report: &Report, out: &mut String) {
    if report.curves.is_empty() {
        return;
    }
    line!(
        out,
        "\nPOOLS  share of the uses of 256 KiB pages that a pool would serve"
    );
    let mut rows = vec![row([
        "pages used",
        "10 %",
        "25 %",
        "50 %",
        "75 %",
        "100 % of them",
        "files",
    ])];
    rows.extend(report.curves.iter().map(|curve| {
        let mut cells = vec![bytes(curve.footprint)];
        cells.extend([0.1, 0.25, 0.5, 0.75, 1.0].map(|share| percent(1.0 - curve.miss_at(share))));
        cells.push(curve.class.clone());
        cells
    }));
    table(&rows, 0, out);
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn more(count_more: u64, out: &mut String) {
    if count_more > 0 {
        line!(out, "  and {} more", count(count_more));
    }
}

/// Columns two apart. The first `words` of them and the last, if it is words, begin at the left;
/// numbers end at the right.
fn table(rows: &[Vec<String>], words: usize, out: &mut String) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let ends_in_words = words == 0
        && rows.iter().skip(1).any(|row| {
            row.last()
                .is_some_and(|cell| cell.starts_with('/') || cell.starts_with('('))
        });
    for row in rows {
        let mut text = String::from(" ");
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            let is_left = column < words || (ends_in_words && column + 1 == columns);
            let padded = if is_left {
                format!(" {cell:<width$} ")
            } else {
                format!(" {cell:>width$} ")
            };
            text.push_str(&padded);
        }
        line!(out, "{}", text.trim_end());
    }
}
