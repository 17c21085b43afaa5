//! The output of a benchmark: one row per figure, a summary last; as a table or as JSON lines.

use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Figures of one benchmark, in the order in which they were found.
pub struct BenchReport {
    bench: &'static str,
    store: String,
    rows: Vec<Row>,
    summary: Map<String, Value>,
}

struct Row {
    system: String,
    case: String,
    metric: String,
    value: f64,
    unit: &'static str,
    says: Option<String>,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns.
    Table,
    /// One object in each line.
    Json,
}

impl BenchReport {
    /// Of a benchmark over a kind of store; empty yet.
    pub fn new(bench: &'static str, store: impl Into<String>) -> BenchReport {
        BenchReport {
            bench,
            store: store.into(),
            rows: Vec::new(),
            summary: Map::new(),
        }
    }

    /// Adds a figure.
    pub fn row(&mut self, system: &str, case: &str, metric: &str, value: f64, unit: &'static str) {
        let (system, case, metric) = (system.to_owned(), case.to_owned(), metric.to_owned());
        self.rows.push(Row {
            system,
            case,
            metric,
            value,
            unit,
            says: None,
        });
    }

    /// Says in words why the last figure is what it is.
    pub fn explain(&mut self, says: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.says = Some(says.to_owned());
        }
    }

    /// Adds a key of the summary.
    pub fn sum_up(&mut self, key: &str, value: impl Into<Value>) {
        self.summary.insert(key.to_owned(), value.into());
    }

    /// True unless the benchmark found wrong data.
    pub fn is_verified(&self) -> bool {
        self.summary.get("verified") != Some(&Value::Bool(false))
    }

    /// Prints everything to standard output.
    pub fn print(&self, format: Format) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match format {
            Format::Json => self.print_json(&mut out),
            Format::Table => self.print_table(&mut out),
        }
    }

    fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        for row in &self.rows {
            let mut line = json!({
                "bench": self.bench, "store": self.store, "system": row.system,
                "case": row.case, "metric": row.metric, "value": rounded(row.value),
                "unit": row.unit,
            });
            if let (Some(says), Some(line)) = (&row.says, line.as_object_mut()) {
                line.insert("says".to_owned(), says.as_str().into());
            }
            writeln!(out, "{line}")?;
        }
        writeln!(
            out,
            "{}",
            json!({ "bench": self.bench, "summary": self.summary })
        )
    }

    fn print_table(&self, out: &mut impl Write) -> io::Result<()> {
        let width = |f: fn(&Row) -> &str, least: usize| {
            self.rows
                .iter()
                .map(|row| f(row).chars().count())
                .max()
                .unwrap_or(0)
                .max(least)
        };
        let (system, case) = (width(|r| &r.system, 6), width(|r| &r.case, 4));
        let metric = width(|r| &r.metric, 6);
        writeln!(out, "{} on {}", self.bench, self.store)?;
        writeln!(
            out,
            "{:system$}  {:case$}  {:metric$}  {:>12}",
            "system", "case", "metric", "value"
        )?;
        for row in &self.rows {
            let Row {
                system: s,
                case: c,
                metric: m,
                unit,
                says,
                ..
            } = row;
            let value = shown(row.value);
            let says = says.as_ref().map(|says| format!("  {says}"));
            let says = says.unwrap_or_default();
            writeln!(
                out,
                "{s:system$}  {c:case$}  {m:metric$}  {value:>12} {unit}{says}"
            )?;
        }
        for (key, value) in &self.summary {
            writeln!(out, "{key} = {value}")?;
        }
        Ok(())
    }
}

/// Four significant digits are more than the machine can repeat.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn shown(value: f64) -> String {
    format!("{}", rounded(value))
}

/// The middle of some figures; 0 of none.
pub fn median(figures: &[f64]) -> f64 {
    percentile(figures, 50.0)
}

/// The figure that `percent` of them do not exceed; 0 of none.
pub fn percentile(figures: &[f64], percent: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_figures_that_were_measured() {
        let figures = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(median(&figures), 3.0);
        assert_eq!(percentile(&figures, 100.0), 5.0);
        assert_eq!(percentile(&figures, 1.0), 1.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn figures_keep_four_digits() {
        assert_eq!(rounded(1234.56), 1235.0);
        assert_eq!(rounded(0.001_234_56), 0.001_235);
        assert_eq!(rounded(123_456.0), 123_456.0);
        assert_eq!(rounded(0.0), 0.0);
    }
}
