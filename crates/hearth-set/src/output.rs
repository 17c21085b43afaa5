//! Data on standard output.

use std::io::{self, IsTerminal, Write};

use crate::failure::{Failure, OrFail};

/// Prints lines. That the reader has seen enough is no failure.
pub fn print(lines: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(lines.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.or_fail(|| "cannot write to standard output".to_owned()),
    }
}

/// Aligns columns, two spaces apart; the first row is the head.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

/// One line that is written over, on a terminal only.
pub fn progress(text: &str) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(err, "\r\x1b[K{text}").and_then(|()| err.flush());
    }
}

/// Takes the line away.
pub fn progress_over() {
    progress("");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["agent", "pid"], ["0", "12345"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "agent  pid\n0      12345\n");
    }
}
