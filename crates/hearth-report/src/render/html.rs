//! The report as one page: its style, its script and its drawings are in it.

use std::fmt::Write;

use super::svg::{self, escape};
use crate::finding::Finding;
use crate::report::Report;
use crate::words::{bytes, count, date, percent, plural, time};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        write!($out, $($arg)*).expect("a string takes everything")
    };
}

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let program = report
        .job
        .programs
        .first()
        .map_or("nothing", String::as_str);
    put!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{}: where its I/O time went</title>\
         <style>{STYLE}</style></head><body>",
        escape(program)
    );
    bar(report, &mut out);
    out.push_str("<main>");
    head(report, &mut out);
    findings(report, &mut out);
    when(report, &mut out);
    operations(report, &mut out);
    files(report, &mut out);
    accesses(report, &mut out);
    waterfall(report, &mut out);
    processes(report, &mut out);
    metadata(report, &mut out);
    curves(report, &mut out);
    put!(
        out,
        "<footer>Critical seconds: in each phase of the job what its slowest lane spends in I/O; threads \
         whose lives do not overlap share a lane. Gains are predicted from what calls cost in this \
         trace.</footer></main><script>{SCRIPT}</script></body></html>\n"
    );
    out
}

/// The bar that keeps losses in sight.
fn bar(report: &Report, out: &mut String) {
    let loss = &report.loss;
    let class = if loss.dropped + loss.torn > 0 {
        "bad"
    } else {
        "good"
    };
    put!(
        out,
        "<div class=\"bar\"><div><span>attempted {} = stored {} + <b class=\"{class}\">lost {}</b> + torn \
         {}</span>{}<span class=\"soft\">lost records by time</span></div></div>",
        count(loss.attempted),
        count(loss.stored),
        count(loss.dropped),
        count(loss.torn),
        svg::loss(report)
    );
}

fn head(report: &Report, out: &mut String) {
    let job = &report.job;
    put!(
        out,
        "<header><h1>{}</h1><p class=\"soft\">{} · {} on {} · {} · {}</p></header>",
        escape(&job.programs.join(", ")),
        date(job.start),
        plural(job.processes, "process"),
        plural(job.hosts, "host"),
        plural(job.files, "file"),
        plural(job.events, "record")
    );
    let saved: f64 = report
        .findings
        .iter()
        .map(|finding| finding.seconds.mid)
        .fold(0.0, f64::max);
    let tiles = [
        (time(job.wall), "from start to end".to_owned()),
        (
            time(job.critical),
            format!(
                "held up by I/O, {}",
                percent(job.critical / job.wall.max(1e-9))
            ),
        ),
        (time(saved), "worth the first finding".to_owned()),
        (bytes(job.bytes_read as f64), "read".to_owned()),
        (bytes(job.bytes_written as f64), "written".to_owned()),
    ];
    out.push_str("<div class=\"tiles\">");
    for (value, name) in tiles {
        put!(
            out,
            "<div class=\"tile\"><b>{value}</b><span>{name}</span></div>"
        );
    }
    out.push_str("</div>");
    for lost in &report.loss.operations {
        put!(
            out,
            "<p class=\"bad\">Lost: {} {} of {} that took {}.</p>",
            count(lost.count),
            lost.op,
            bytes(lost.bytes as f64),
            time(lost.seconds)
        );
    }
    for remark in report.loss.clocks.iter().chain(&report.loss.remarks) {
        put!(out, "<p class=\"bad\">Warning: {}.</p>", escape(remark));
    }
}

fn findings(report: &Report, out: &mut String) {
    out.push_str("<h2>What to change</h2>");
    if report.findings.is_empty() {
        out.push_str(
            "<p class=\"soft\">Nothing that would save 5 % of the time in I/O and of the job.</p>",
        );
        return;
    }
    out.push_str(
        "<p class=\"soft\">Ranked by the wall time that a change saves: most likely, and from at least to \
         at most. Gains of different findings do not simply add up.</p>",
    );
    let largest = report
        .findings
        .iter()
        .map(|finding| finding.seconds.high)
        .fold(0.0, f64::max);
    for (index, finding) in report.findings.iter().enumerate() {
        card(index + 1, finding, largest, out);
    }
}

fn card(number: usize, finding: &Finding, largest: f64, out: &mut String) {
    let gain = finding.seconds;
    put!(
        out,
        "<div class=\"card\"><div class=\"rank\">{number}</div><div><h3>{} <span class=\"tag\">{}</span></h3><ul>",
        prose(&finding.title),
        finding.kind.name()
    );
    finding
        .evidence
        .iter()
        .for_each(|fact| put!(out, "<li>{}</li>", prose(fact)));
    put!(
        out,
        "</ul><p class=\"change\">{}</p><p class=\"soft\">Predicted from: {}.</p></div>\
         <div class=\"gain\"><b>{} saved</b><br>{}<br><span class=\"soft\">{} to {}</span></div></div>",
        prose(&finding.change),
        prose(&finding.basis),
        time(gain.mid),
        svg::gain(gain, largest),
        time(gain.low),
        time(gain.high)
    );
}

/// Text with what stands between backquotes as code.
fn prose(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        let is_code = index % 2 == 1;
        let part = escape(part);
        out.push_str(&if is_code {
            format!("<code>{part}</code>")
        } else {
            part
        });
    }
    out
}

fn when(report: &Report, out: &mut String) {
    if report.strip.rate.is_empty() {
        return;
    }
    out.push_str("<h2>When</h2><p class=\"soft\">Threads that are in I/O, by what they do.");
    if let Some(period) = &report.period {
        put!(
            out,
            " I/O comes every {} (likeness {:.2}) and lasts for {} of that.",
            time(period.seconds),
            period.confidence,
            percent(period.busy)
        );
    }
    out.push_str("</p><figure><div class=\"key\">");
    for (name, colour) in svg::COLOURS {
        put!(
            out,
            "<span><i style=\"background:{colour}\"></i>{name}</span>"
        );
    }
    put!(out, "</div>{}</figure>", svg::strip(report));
    if report.heatmap.rows.len() > 1 {
        put!(
            out,
            "<figure>{}{}</figure>",
            svg::heat_key(),
            svg::heatmap(&report.heatmap)
        );
    }
}

/// A table whose columns can be sorted; each cell is what is shown and what is sorted by.
fn table(heads: &[(&str, Align)], rows: &[Vec<(String, f64)>], out: &mut String) {
    out.push_str("<figure><table><thead><tr>");
    for (head, align) in heads {
        put!(out, "<th{}>{head}</th>", align.class());
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for ((shown, value), (_, align)) in row.iter().zip(heads) {
            let key = match align {
                Align::Number => format!(" data-v=\"{value}\""),
                Align::Word | Align::Path => String::new(),
            };
            put!(out, "<td{}{key}>{}</td>", align.class(), escape(shown));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></figure>");
}

#[derive(Clone, Copy)]
enum Align {
    Number,
    Word,
    Path,
}

impl Align {
    fn class(self) -> &'static str {
        match self {
            Align::Number => "",
            Align::Word => " class=\"word\"",
            Align::Path => " class=\"word path\"",
        }
    }
}

fn word(text: &str) -> (String, f64) {
    (text.to_owned(), 0.0)
}

fn number(value: u64) -> (String, f64) {
    (count(value), value as f64)
}

fn size(value: u64) -> (String, f64) {
    (bytes(value as f64), value as f64)
}

fn span(seconds: f64) -> (String, f64) {
    (time(seconds), seconds)
}

fn share(value: f64) -> (String, f64) {
    (percent(value), value)
}

fn operations(report: &Report, out: &mut String) {
    if report.operations.is_empty() {
        return;
    }
    out.push_str("<h2>Operations</h2><p class=\"soft\">Time is over all threads.</p>");
    let heads = [
        ("layer", Align::Word),
        ("operation", Align::Word),
        ("calls", Align::Number),
        ("failed", Align::Number),
        ("bytes", Align::Number),
        ("time", Align::Number),
        ("median", Align::Number),
        ("99 %", Align::Number),
        ("longest", Align::Number),
    ];
    let rows = report.operations.iter().map(|row| {
        vec![
            word(row.layer),
            word(row.op),
            number(row.count),
            number(row.failed),
            size(row.bytes),
            span(row.seconds),
            span(row.median),
            span(row.p99),
            span(row.longest),
        ]
    });
    table(&heads, &rows.collect::<Vec<_>>(), out);
}

fn files(report: &Report, out: &mut String) {
    if report.files.is_empty() {
        return;
    }
    out.push_str("<h2>Files</h2><p class=\"soft\">By the time for which they hold the job up");
    if report.files_more > 0 {
        put!(out, "; {} more are not listed", count(report.files_more));
    }
    out.push_str(".</p>");
    let heads = [
        ("file", Align::Path),
        ("holds up", Align::Number),
        ("time", Align::Number),
        ("threads", Align::Number),
        ("reads", Align::Number),
        ("writes", Align::Number),
        ("metadata", Align::Number),
        ("read", Align::Number),
        ("written", Align::Number),
        ("in order", Align::Number),
        ("aligned", Align::Number),
    ];
    let rows = report.files.iter().map(|row| {
        vec![
            word(&row.path),
            span(row.critical),
            span(row.seconds),
            number(row.threads),
            number(row.reads),
            number(row.writes),
            number(row.metadata),
            size(row.bytes_read),
            size(row.bytes_written),
            share(row.sequential),
            share(row.aligned),
        ]
    });
    table(&heads, &rows.collect::<Vec<_>>(), out);
}

fn accesses(report: &Report, out: &mut String) {
    if report.sizes.is_empty() {
        return;
    }
    out.push_str("<h2>Sizes and order</h2>");
    for row in &report.patterns {
        put!(
            out,
            "<p class=\"soft\">{} {}s: {} in order, {} with a stride, {} in no order; {} aligned to 4 KiB.</p>",
            count(row.calls),
            row.what,
            percent(row.sequential),
            percent(row.strided),
            percent(row.random),
            percent(row.aligned)
        );
    }
    put!(
        out,
        "<figure><div class=\"key\"><span>time by size of the call, from each power of two to the \
         next:</span><span><i style=\"background:var(--read)\"></i>read</span><span>\
         <i style=\"background:var(--write)\"></i>write</span></div>{}</figure>",
        svg::sizes(&report.sizes)
    );
}

fn waterfall(report: &Report, out: &mut String) {
    if report.waterfall.is_empty() {
        return;
    }
    put!(
        out,
        "<h2>Requests</h2><p class=\"soft\">Where the time of a request went, on average, by who served \
         it.</p><figure>{}{}</figure>",
        svg::part_key(report),
        svg::waterfall(report)
    );
}

fn processes(report: &Report, out: &mut String) {
    if report.processes.len() < 2 {
        return;
    }
    out.push_str("<h2>Processes</h2>");
    if report.processes_more > 0 {
        put!(
            out,
            "<p class=\"soft\">{} more are not listed.</p>",
            count(report.processes_more)
        );
    }
    let heads = [
        ("process", Align::Word),
        ("time in I/O", Align::Number),
        ("of the median", Align::Number),
        ("calls", Align::Number),
        ("bytes", Align::Number),
    ];
    let rows = report.processes.iter().map(|row| {
        let times = (format!("{:.2} times", row.of_median), row.of_median);
        vec![
            word(&row.name),
            span(row.seconds),
            times,
            number(row.operations),
            size(row.bytes),
        ]
    });
    table(&heads, &rows.collect::<Vec<_>>(), out);
}

fn metadata(report: &Report, out: &mut String) {
    if report.bursts.is_empty() {
        return;
    }
    out.push_str("<h2>Bursts of metadata calls</h2>");
    let heads = ["at", "calls", "lasts", "calls a second"].map(|head| (head, Align::Number));
    let rows = report.bursts.iter().map(|row| {
        vec![
            span(row.at),
            number(row.calls),
            span(row.lasts),
            number(row.rate as u64),
        ]
    });
    table(&heads, &rows.collect::<Vec<_>>(), out);
}

fn curves(report: &Report, out: &mut String) {
    if report.curves.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Pools</h2><p class=\"soft\">Uses of 256 KiB pages that miss in a pool of a size that drops \
         the least recently used. Below the broken line are first uses, which no pool saves.</p>\
         <div class=\"two\">",
    );
    for curve in &report.curves {
        put!(
            out,
            "<figure><h3><code>{}</code></h3><p class=\"soft\">{} uses of {} of pages</p>{}</figure>",
            escape(&curve.class),
            count(curve.uses as u64),
            bytes(curve.footprint),
            svg::curve(curve)
        );
    }
    out.push_str("</div>");
}
