//! What goes to standard output.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints a text. A reader that has gone away is not a failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a JSON document on one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(value)
        .map_err(|error| Failure::failed(format!("the report cannot be written: {error}")))?;
    text.push('\n');
    print(&text)
}

/// Rows in columns, the first row being the heading; columns of numbers are flush right.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let widths: Vec<_> = (0..columns)
        .map(|c| rows.iter().map(|row| cell(row, c).chars().count()).max().unwrap_or(0))
        .collect();
    let number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let right: Vec<_> = (0..columns)
        .map(|c| {
            rows.iter().skip(1).all(|row| number(&cell(row, c)) && !cell(row, c).contains('>'))
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (width, right)) in widths.iter().zip(&right).enumerate() {
            let content = cell(row, column);
            line.push_str("  ");
            line.push_str(&if *right {
                format!("{content:>width$}")
            } else {
                format!("{content:<width$}")
            });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with its thousands set apart: 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["path", "n", "x"]), row(["1 -> 2", "5", "a"]), row(["3", "1,000", ""])];
        let expected = "  path        n  x\n  1 -> 2      5  a\n  3       1,000\n";
        assert_eq!(table(&rows), expected);
    }
}
