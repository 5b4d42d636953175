//! Standard output and standard error.

mod background;
mod printable;

use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;

use serde::Serialize;

pub(crate) use self::background::{drain, dropped, reopen, write_in_background};
pub(crate) use self::printable::{coloured_line, one_line, printable, printable_json};
use crate::failure::Failure;

/// Prints text, without characters that could control a terminal. If the reader has closed the pipe, that is not
/// a failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(printable(text).as_bytes())
}

/// Prints text for programs: unchanged, except on a terminal, where it is printed as by [`print`].
pub(crate) fn print_data(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(text) } else { print_bytes(text.as_bytes()) }
}

/// Writes bytes to standard output unchanged; otherwise as [`print`]. A server does not wait until they are
/// written.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    if let Some(queues) = background::queues() {
        queues.output.push(bytes);
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a server's first lines, which say where it listens. Fails if they cannot be written, because later
/// output would be lost, too.
pub(crate) fn print_first(text: &str) -> Result<(), Failure> {
    match background::queues() {
        Some(queues) => {
            queues.output.push_and_wait(printable(text).as_bytes()).map_err(Failure::Failed)
        }
        None => print(text),
    }
}

/// Writes lines to the log of a server: to its log file, or if there is none, to standard output.
pub(crate) fn log(text: &str) -> Result<(), Failure> {
    match background::queues() {
        Some(queues) => {
            queues.log().push(printable(text).as_bytes());
            Ok(())
        }
        None => print(text),
    }
}

/// Writes bytes to standard error. If that fails, the failure cannot be reported anywhere.
pub(crate) fn print_error(bytes: &[u8]) {
    match background::queues() {
        Some(queues) => queues.errors.push(bytes),
        None => {
            let _ = io::stderr().write_all(bytes);
        }
    }
}

/// Writes a log to standard error, each record immediately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errors {
    /// Records are JSON documents.
    pub(crate) json: bool,
}

impl Write for Errors {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let record = String::from_utf8_lossy(bytes);
        let record = record.strip_suffix('\n').unwrap_or(&record);
        // Peers and files determine parts of a record.
        let safe = if self.json { printable_json(record) } else { coloured_line(record) };
        print_error(format!("{safe}\n").as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the result of a command, after all its output has been printed.
pub(crate) fn finish(result: Result<(), Failure>) -> Result<(), Failure> {
    result.and(print(""))
}

/// The schema in JSON output: the name of the command, such as `perf-client`.
static SCHEMA: OnceLock<String> = OnceLock::new();

/// Sets the command that prints documents.
pub(crate) fn name_documents(command: &str) {
    // Only the first call counts: a process has one command.
    let _ = SCHEMA.set(command.to_owned());
}

/// Prints a JSON document on one line. An object begins with `schema`, the command that printed
/// it, and `version`, that of the program.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&json_line(value)?)
}

/// The line that [`print_json`] prints.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::failed(format!("the report cannot be written: {error}")))?;
    let schema = SCHEMA.get().map_or("anabranch", String::as_str);
    Ok(headed(&printable_json(&text), schema) + "\n")
}

/// Adds the schema to a document, or to each of several, and the program's version if a document has none.
pub(crate) fn with_schema(value: &serde_json::Value) -> serde_json::Value {
    if let Some(several) = value.as_array() {
        return several.iter().map(with_schema).collect();
    }
    let mut value = value.clone();
    if let Some(object) = value.as_object_mut() {
        let schema = SCHEMA.get().map_or("anabranch", String::as_str);
        object.insert("schema".to_owned(), schema.into());
        object.entry("version").or_insert_with(|| env!("CARGO_PKG_VERSION").into());
    }
    value
}

/// A document with its schema and version, if it is an object.
fn headed(text: &str, schema: &str) -> String {
    let Some(rest) = text.strip_prefix('{') else { return text.to_owned() };
    let comma = if rest.starts_with('}') { "" } else { "," };
    let version = env!("CARGO_PKG_VERSION");
    format!(r#"{{"schema":"{schema}","version":"{version}"{comma}{rest}"#)
}

/// Columns of the terminal on standard output; `None` if it is a file or a pipe.
pub(crate) fn width() -> Option<usize> {
    told_width().or_else(|| io::stdout().is_terminal().then(terminal_width))
}

/// Columns of the terminal on standard error. `None` for files and pipes, even if COLUMNS is set: programs
/// search for whole sentences there.
pub(crate) fn error_width() -> Option<usize> {
    io::stderr().is_terminal().then(|| told_width().unwrap_or_else(terminal_width))
}

/// Columns set by the environment.
fn told_width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    told.filter(|columns| *columns > 0)
}

fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(80, |(columns, _)| columns.0.into())
}

/// Lines of the terminal on standard output.
#[cfg(unix)]
pub(crate) fn height() -> usize {
    terminal_size::terminal_size().map_or(24, |(_, lines)| lines.0.into())
}

/// Aligns rows in columns. The first row is the heading, and columns of numbers are flush right. If the table is
/// wider than the terminal, each row becomes a paragraph.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    fitting(rows, width())
}

/// Aligns rows in columns. The first row is the heading. The last column is prose and is wrapped within its
/// column, at 80 columns if there is no terminal.
pub(crate) fn list_with_prose(rows: &[Vec<String>]) -> String {
    with_prose(rows, width().unwrap_or(80))
}

fn with_prose(rows: &[Vec<String>], width: usize) -> String {
    let text = columns(rows);
    let heading = text.lines().next().unwrap_or_default();
    let prose = rows.first().and_then(|row| row.last()).map_or(0, |name| name.chars().count());
    let hang = heading.chars().count().saturating_sub(prose);
    if hang > width / 2 + width / 4 {
        return fitting(rows, Some(width));
    }
    text.lines().map(|line| hanging(line, width, hang)).collect()
}

/// Wraps lines at the width of the terminal; if there is no terminal, returns them unchanged.
pub(crate) fn filled(text: &str) -> String {
    folded(text, width())
}

/// Wraps lines at `width`, if there is one.
pub(crate) fn folded(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) => text.lines().map(|line| broken(line, width)).collect(),
        None => text.to_owned(),
    }
}

/// Wraps prose, which need not stay aligned, at 80 columns if there is no terminal.
pub(crate) fn prose(text: &str) -> String {
    let width = width().unwrap_or(80);
    text.lines().map(|line| broken(line, width)).collect()
}

/// Wraps a line between words. Continuation lines are indented like the text after a label and two or more
/// spaces, otherwise like the line.
fn broken(line: &str, width: usize) -> String {
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let hang = line.trim_start().find("  ").map_or(indent, |at| {
        let label = indent + line.trim_start()[..at].chars().count();
        label + line.chars().skip(label).take_while(|c| *c == ' ').count()
    });
    hanging(line, width, if hang <= width / 2 { hang } else { indent })
}

/// Wraps a line between words; continuation lines begin at column `hang`.
fn hanging(line: &str, width: usize, hang: usize) -> String {
    let (mut text, mut rest) = (String::new(), line.to_owned());
    while rest.chars().count() > width {
        let spaces = rest.char_indices().enumerate().skip(hang + 1).filter(|(_, (_, c))| *c == ' ');
        let mut spaces = spaces.map(|(column, (at, _))| (column, at)).peekable();
        let first = spaces.peek().copied();
        // Use the last break that fits, otherwise the first one.
        let Some((_, at)) = spaces.take_while(|(column, _)| *column <= width).last().or(first)
        else {
            break;
        };
        text.push_str(rest[..at].trim_end());
        text.push('\n');
        rest = " ".repeat(hang) + rest[at..].trim_start();
    }
    text + &rest + "\n"
}

fn fitting(rows: &[Vec<String>], width: Option<usize>) -> String {
    let text = columns(rows);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    match width {
        Some(width) if widest > width => paragraphs(rows, width),
        _ => text,
    }
}

/// Formats each row as a paragraph: its first cell, and below it the others, each after its heading.
fn paragraphs(rows: &[Vec<String>], width: usize) -> String {
    let Some((heading, rows)) = rows.split_first() else { return String::new() };
    let mut text = String::new();
    for row in rows {
        let mut cells = row.iter();
        text.push_str(&format!("  {}\n", cells.next().map_or("", String::as_str)));
        let mut line = String::new();
        for (name, cell) in heading.iter().skip(1).zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let pair = format!("{name} {cell}");
            let separate = if line.is_empty() { "    " } else { ", " };
            let length = line.chars().count() + separate.len() + pair.chars().count();
            if length >= width && !line.is_empty() {
                line.push(',');
                text.push_str(&broken(&line, width));
                line.clear();
                line.push_str("    ");
            } else {
                line.push_str(separate);
            }
            line.push_str(&pair);
        }
        if !line.is_empty() {
            text.push_str(&broken(&line, width));
        }
    }
    text
}

fn columns(rows: &[Vec<String>]) -> String {
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

/// A number and a noun, with an 's' unless the number is 1: `1 file`, `2,000 files`.
pub(crate) fn count(number: u64, name: &str) -> String {
    format!("{} {name}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(any(unix, test))]
/// Words separated by commas, in lines of at most 80 columns that begin with `indent`.
pub(crate) fn list(indent: &str, words: &[String]) -> String {
    let mut text = String::new();
    let mut line = indent.to_owned();
    for (index, word) in words.iter().enumerate() {
        let comma = if index + 1 < words.len() { ", " } else { "" };
        if line.trim_end().chars().count() + word.chars().count() + 2 > 80 && line != indent {
            text.push_str(line.trim_end());
            text.push('\n');
            indent.clone_into(&mut line);
        }
        line.push_str(word);
        line.push_str(comma);
    }
    text.push_str(&line);
    text.push('\n');
    text
}

/// A number with thousands separators: 1,234,567.
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
        assert_eq!(fitting(&rows, None), expected);
        assert_eq!(fitting(&rows, Some(20)), expected);
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(broken("  as it is", 10), "  as it is\n");
        assert_eq!(broken("  one two three four", 11), "  one two\n  three\n  four\n");
        assert_eq!(broken("a-word-that-is-longer b", 5), "a-word-that-is-longer\nb\n");
        assert_eq!(broken("label   one two three", 16), "label   one two\n        three\n");
        assert_eq!(broken("", 5), "\n");
    }

    #[test]
    fn the_last_column_goes_on_below_itself() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["id", "runs", "title"]), row(["a", "5", "some words that are long"])];
        let expected =
            "  id  runs  title\n  a      5  some words\n            that are\n            long\n";
        assert_eq!(with_prose(&rows, 23), expected);
        assert_eq!(with_prose(&rows, 80), columns(&rows));
        // If the other columns leave no room, each row is a paragraph.
        assert_eq!(with_prose(&rows, 14), fitting(&rows, Some(14)));
    }

    #[test]
    fn prose_is_broken_without_a_terminal_too() {
        let long = "word ".repeat(30);
        assert!(prose(&long).lines().all(|line| line.chars().count() <= 80));
        assert_eq!(prose("as it is"), "as it is\n");
    }

    #[test]
    fn what_is_too_wide_becomes_paragraphs() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["path", "state", "bytes in", "rtt"]),
            row(["10.0.0.1 -> 10.0.0.2", "active", "1,000", "2 ms"]),
            row(["10.0.0.1 -> 10.1.0.2", "inactive", "5", ""]),
        ];
        let expected = "  10.0.0.1 -> 10.0.0.2\n    state active, bytes in 1,000,\n    rtt 2 ms\n  \
                        10.0.0.1 -> 10.1.0.2\n    state inactive, bytes in 5\n";
        assert_eq!(fitting(&rows, Some(34)), expected);
        assert!(fitting(&rows, Some(40)).lines().all(|line| line.chars().count() <= 40));
        assert_eq!(fitting(&rows, Some(300)), columns(&rows));
    }

    #[test]
    fn documents_say_what_they_are() {
        let version = env!("CARGO_PKG_VERSION");
        let head = format!(r#"{{"schema":"get","version":"{version}""#);
        assert_eq!(headed(r#"{"a":1}"#, "get"), format!(r#"{head},"a":1}}"#));
        assert_eq!(headed("{}", "get"), format!("{head}}}"));
        assert_eq!(headed("[1]", "get"), "[1]");
    }

    #[test]
    fn lists_are_wrapped() {
        let words = vec!["2001:db8::1234:5678".to_owned(); 9];
        let text = list("  on ", &words);
        assert!(text.lines().all(|line| line.len() <= 80 && line.starts_with("  on ")), "{text}");
        assert_eq!((text.lines().count(), text.matches(',').count()), (3, 8), "{text}");
    }

    #[test]
    fn things_are_counted_in_words() {
        assert_eq!(
            [count(0, "file"), count(1, "file"), count(1000, "byte")],
            ["0 files", "1 file", "1,000 bytes"]
        );
    }
}
