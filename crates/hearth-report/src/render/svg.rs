//! Drawings: plain SVG, every label inside of its frame.

use std::fmt::Write;

use crate::finding::PredictedGain;
use crate::report::{Curve, Heatmap, Report, SizeRow};
use crate::words;

/// Inner width of a drawing, and what its labels need at the sides.
const WIDTH: f64 = 1100.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 16.0;
const PLOT: f64 = WIDTH - LEFT - RIGHT;

pub(super) const COLOURS: [(&str, &str); 5] = [
    ("read", "var(--read)"),
    ("write", "var(--write)"),
    ("metadata", "var(--metadata)"),
    ("sync", "var(--sync)"),
    ("other", "var(--other)"),
];
const PART_COLOURS: [&str; 5] = ["#9aa5b1", "#2f6fb3", "#d9a441", "#d9822b", "#b3261e"];
/// From nothing to all of the time.
const HEAT: [&str; 8] = [
    "#fdf0e3", "#fbdcbc", "#f7c08a", "#f09d57", "#e2772f", "#c95418", "#a03a10", "#6e250c",
];

macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        write!($out, $($arg)*).expect("a string takes everything")
    };
}

/// Text that is no mark-up.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            char if char.is_control() => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

fn open(height: f64, what: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
        escape(what)
    )
}

fn label(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    put!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
        escape(text)
    );
}

/// A row's name at the left, cut at its front where it is too long.
fn row_name(out: &mut String, y: f64, text: &str, letters: usize) {
    let length = text.chars().count();
    let shown = if length > letters {
        format!(
            "…{}",
            text.chars().skip(length - letters + 1).collect::<String>()
        )
    } else {
        text.to_owned()
    };
    put!(
        out,
        r#"<text class="name" x="{:.1}" y="{y:.1}" text-anchor="end">{}</text>"#,
        LEFT - 8.0,
        escape(&shown)
    );
}

/// A step of 1, 2 or 5 times a power of ten that makes at most so many.
fn step(span: f64, steps_max: f64) -> f64 {
    let rough = (span / steps_max).max(f64::MIN_POSITIVE);
    let power = f64::powf(10.0, rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough)
}

/// Labels of time below a plot.
fn time_axis(out: &mut String, span: f64, y: f64) {
    let step = step(span, 8.0);
    let ticks = (0..=(span / step) as usize).map(|tick| tick as f64 * step);
    for at in ticks {
        let x = LEFT + PLOT * at / span;
        put!(out, r##"<path d="M{x:.1} {y:.1}v4" stroke="#aab3bd"/>"##);
        let anchor = if x > WIDTH - 50.0 { "end" } else { "middle" };
        label(out, x, y + 17.0, anchor, &words::time(at));
    }
}

/// Losses over time; the same width as the plots of time.
pub(super) fn loss(report: &Report) -> String {
    let lost = &report.loss.strip;
    let columns = lost.len().max(1) as f64;
    let mut out = format!(
        r##"<svg viewBox="0 0 {columns} 12" preserveAspectRatio="none" role="img" aria-label="lost records by time"><rect width="{columns}" height="12" fill="#e3efe7"/>"##
    );
    for (column, count) in lost.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        put!(
            out,
            r##"<rect x="{column}" width="1" height="12" fill="#b3261e"><title>{count:.0} records lost</title></rect>"##
        );
    }
    out + "</svg>"
}

/// Threads in I/O by time, by what they do.
pub(super) fn strip(report: &Report) -> String {
    let strip = &report.strip;
    let columns = strip.rate.len();
    let height = 170.0;
    let (top, floor) = (10.0, height - 28.0);
    let mut out = open(height, "threads in I/O by time");
    let sum = |column: usize| strip.busy.iter().map(|busy| busy[column]).sum::<f64>();
    let peak = (0..columns).map(sum).fold(0.0, f64::max).max(1e-9);
    let step = step(peak, 3.0);
    for tick in 0..=(peak / step) as usize {
        let y = floor - (floor - top) * tick as f64 * step / peak;
        put!(
            out,
            r##"<path d="M{LEFT} {y:.1}H{:.1}" stroke="#e6eaee"/>"##,
            WIDTH - RIGHT
        );
        label(
            &mut out,
            LEFT - 8.0,
            y + 4.0,
            "end",
            format!("{:.3}", tick as f64 * step)
                .trim_end_matches('0')
                .trim_end_matches('.'),
        );
    }
    let mut below = vec![0.0; columns];
    for (busy, (_, colour)) in strip.busy.iter().zip(COLOURS) {
        let mut path = String::new();
        for (column, busy) in busy.iter().enumerate().filter(|(_, busy)| **busy > 0.0) {
            let scale = (floor - top) / peak;
            let (low, high) = (below[column] * scale, (below[column] + busy) * scale);
            let x = LEFT + PLOT * column as f64 / columns as f64;
            let width = PLOT / columns as f64;
            put!(
                path,
                "M{x:.2} {:.2}v{:.2}h{width:.2}v{:.2}z",
                floor - low,
                low - high,
                high - low
            );
            below[column] += busy;
        }
        if !path.is_empty() {
            put!(out, r#"<path d="{path}" fill="{colour}"/>"#);
        }
    }
    time_axis(&mut out, strip.bin * columns as f64, floor);
    out + "</svg>"
}

/// Processes by time.
pub(super) fn heatmap(heatmap: &Heatmap) -> String {
    let rows = heatmap.rows.len();
    let each = (360.0 / rows.max(1) as f64).clamp(6.0, 24.0);
    let floor = 6.0 + each * rows as f64;
    let mut out = open(floor + 28.0, "share of time in I/O, by process and time");
    // Names only as dense as they can be read.
    let named = (14.0 / each).ceil().max(1.0) as usize;
    for (row, cells) in heatmap.cells.iter().enumerate() {
        let y = 6.0 + each * row as f64;
        if row.is_multiple_of(named) {
            row_name(&mut out, y + each / 2.0 + 4.0, &heatmap.rows[row], 12);
        }
        heat_row(&mut out, cells, y, each, &heatmap.rows[row]);
    }
    put!(
        out,
        r##"<rect x="{LEFT}" y="6" width="{PLOT}" height="{:.1}" fill="none" stroke="#dfe4ea"/>"##,
        floor - 6.0
    );
    let columns = heatmap.cells.first().map_or(1, Vec::len);
    time_axis(&mut out, heatmap.bin * columns as f64, floor);
    out + "</svg>"
}

fn heat_row(out: &mut String, cells: &[f64], y: f64, height: f64, name: &str) {
    let level = |share: f64| (share > 0.0).then(|| ((share * 8.0) as usize).min(7));
    let width = PLOT / cells.len().max(1) as f64;
    let mut from = 0;
    for run in cells.chunk_by(|a, b| level(*a) == level(*b)) {
        let first = from;
        from += run.len();
        let Some(level) = level(run[0]) else { continue };
        let mean = run.iter().sum::<f64>() / run.len() as f64;
        put!(
            out,
            r#"<rect x="{:.2}" y="{y:.1}" width="{:.2}" height="{:.1}" fill="{}"><title>{}: {} in I/O</title></rect>"#,
            LEFT + width * first as f64,
            width * run.len() as f64,
            height - if height > 12.0 { 1.0 } else { 0.0 },
            HEAT[level],
            escape(name),
            words::percent(mean)
        );
    }
}

pub(super) fn heat_key() -> String {
    let mut out =
        String::from(r#"<div class="key"><span>share of a process's time in I/O:</span>"#);
    for (level, colour) in HEAT.iter().enumerate() {
        let from = words::percent(level as f64 / 8.0);
        put!(
            out,
            r#"<span><i style="background:{colour}"></i>from {from}</span>"#
        );
    }
    out + "</div>"
}

/// The range of a gain, on the scale of the largest.
pub(super) fn gain(gain: PredictedGain, largest: f64) -> String {
    let at = |seconds: f64| 4.0 + 222.0 * seconds / largest.max(1e-12);
    let (low, mid, high) = (at(gain.low), at(gain.mid), at(gain.high));
    format!(
        r##"<svg width="230" height="16" viewBox="0 0 230 16" role="img" aria-label="range of the gain"><path d="M4 8H226" stroke="#e6eaee" stroke-width="2"/><path d="M{low:.1} 8H{high:.1}" stroke="#e2a27f" stroke-width="6" stroke-linecap="round"/><circle cx="{mid:.1}" cy="8" r="5" fill="var(--accent)"/></svg>"##
    )
}

/// Reads and writes by size: how many, and how long they take.
pub(super) fn sizes(rows: &[SizeRow]) -> String {
    let height = 190.0;
    let (top, floor) = (12.0, height - 26.0);
    let mut out = open(height, "time of reads and writes by size");
    let seconds = |row: &SizeRow| row.read_seconds.max(row.write_seconds);
    let peak = rows.iter().map(seconds).fold(0.0, f64::max).max(1e-12);
    let slot = PLOT / rows.len().max(1) as f64;
    let width = (slot * 0.36).min(40.0);
    for half in [0.0, 0.5, 1.0] {
        let y = floor - (floor - top) * half;
        put!(
            out,
            r##"<path d="M{LEFT} {y:.1}H{:.1}" stroke="#e6eaee"/>"##,
            WIDTH - RIGHT
        );
        label(
            &mut out,
            LEFT - 8.0,
            y + 4.0,
            "end",
            &words::time(peak * half),
        );
    }
    // A label for each size where there is room, else for every second or third.
    let every = (64.0 / slot).ceil().max(1.0) as usize;
    for (index, row) in rows.iter().enumerate() {
        let middle = LEFT + slot * (index as f64 + 0.5);
        let bars = [
            (-width, row.read_seconds, row.reads, "read"),
            (0.0, row.write_seconds, row.writes, "write"),
        ];
        for (shift, seconds, calls, what) in bars {
            let tall = (floor - top) * seconds / peak;
            put!(
                out,
                r#"<rect x="{:.1}" y="{:.1}" width="{width:.1}" height="{tall:.1}" fill="var(--{what})"><title>{} {what}s of {} and more: {}</title></rect>"#,
                middle + shift,
                floor - tall,
                words::count(calls),
                words::bytes(row.bytes as f64),
                words::time(seconds)
            );
        }
        if index.is_multiple_of(every) {
            label(
                &mut out,
                middle,
                floor + 17.0,
                "middle",
                &words::bytes(row.bytes as f64),
            );
        }
    }
    out + "</svg>"
}

/// The time of requests, by the part that spent it.
pub(super) fn waterfall(report: &Report) -> String {
    let rows = &report.waterfall;
    let mut out = open(
        rows.len() as f64 * 34.0 + 30.0,
        "where the time of requests went",
    );
    let longest = rows
        .iter()
        .map(|row| row.mean)
        .fold(0.0, f64::max)
        .max(1e-12);
    let span = longest * 1.02;
    for (index, row) in rows.iter().enumerate() {
        let y = index as f64 * 34.0 + 4.0;
        row_name(
            &mut out,
            y + 17.0,
            &format!("{}, {}", row.what, row.outcome),
            13,
        );
        let mut x = LEFT;
        for (part, colour) in row.parts.iter().zip(PART_COLOURS) {
            let width = PLOT * part.seconds / span;
            put!(
                out,
                r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="24" fill="{colour}"><title>{}: {}</title></rect>"#,
                part.name,
                words::time(part.seconds)
            );
            x += width;
        }
        let text = format!("{} of {}", words::count(row.count), words::time(row.mean));
        // Beside the bar where there is room, else inside of it.
        let room = x + 150.0 < WIDTH;
        let (at, anchor, fill) = if room {
            (x + 8.0, "start", "var(--soft)")
        } else {
            (x - 8.0, "end", "white")
        };
        put!(
            out,
            r#"<text x="{at:.1}" y="{:.1}" text-anchor="{anchor}" style="fill:{fill}">{text}</text>"#,
            y + 17.0
        );
    }
    time_axis(&mut out, span, rows.len() as f64 * 34.0 + 6.0);
    out + "</svg>"
}

pub(super) fn part_key(report: &Report) -> String {
    let mut out = String::from(r#"<div class="key">"#);
    let parts = report.waterfall.first().map_or(&[][..], |row| &row.parts);
    for (part, colour) in parts.iter().zip(PART_COLOURS) {
        put!(
            out,
            r#"<span><i style="background:{colour}"></i>{}</span>"#,
            part.name
        );
    }
    out + "</div>"
}

/// A miss-ratio curve, half as wide as the others.
pub(super) fn curve(curve: &Curve) -> String {
    let (width, height, left, floor, top) = (530.0, 190.0, 52.0, 160.0, 10.0);
    let plot = width - left - 20.0;
    let mut out = format!(
        r#"<svg viewBox="0 0 {width} {height}" role="img" aria-label="misses by size of the pool">"#
    );
    for share in [0.0, 0.5, 1.0] {
        let y = floor - (floor - top) * share;
        put!(
            out,
            r##"<path d="M{left} {y:.1}H{:.1}" stroke="#e6eaee"/>"##,
            left + plot
        );
        label(&mut out, left - 6.0, y + 4.0, "end", &words::percent(share));
    }
    let largest = curve.points.last().map_or(1.0, |point| point.0).max(1.0);
    let mut path = String::new();
    for (index, (bytes, miss)) in curve.points.iter().enumerate() {
        let x = left + plot * bytes / largest;
        let y = floor - (floor - top) * miss;
        put!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
    }
    put!(
        out,
        r#"<path d="{path}" fill="none" stroke="var(--read)" stroke-width="2.2"/>"#
    );
    let lowest = floor - (floor - top) * curve.first;
    put!(
        out,
        r##"<path d="M{left} {lowest:.1}H{:.1}" stroke="#2e7d4f" stroke-dasharray="4 4"><title>first uses: no pool saves them</title></path>"##,
        left + plot
    );
    for tick in 0..=4 {
        let share = f64::from(tick) / 4.0;
        let anchor = if tick == 4 { "end" } else { "middle" };
        label(
            &mut out,
            left + plot * share,
            floor + 18.0,
            anchor,
            &words::bytes(largest * share),
        );
    }
    out + "</svg>"
}
