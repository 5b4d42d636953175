//! The numbers of a page as downloadable files: links that contain them.

use std::fmt::Write as _;

use anabranch_chart::escape;

use super::Section;
use crate::export;
use crate::metrics;
use crate::provenance::Provenance;

/// Maximum number of rows of runs on the page, so that a browser can open it. If there are more,
/// the page refers to `lab run --csv`.
const MOST_ROWS: usize = 2000;

/// Links to the numbers of the curves, and to those of the runs if there are not too many.
pub(super) fn links(
    body: &mut String,
    section: &Section,
    made_by: &Provenance,
) -> std::fmt::Result {
    let (scenario, results) = (&section.scenario, &section.results);
    let drawn = std::iter::once(&scenario.figure.y).chain(&scenario.figure.metrics);
    let mut drawn: Vec<usize> = drawn.filter_map(|name| metrics::find(name)).collect();
    drawn.sort_unstable();
    drawn.dedup();
    let name = scenario.id.replace('/', "-");
    write!(body, "<p class=\"source\">Data: ")?;
    let curves = export::curves(scenario, results, &drawn, made_by);
    link(body, &format!("{name}.csv"), "curves", &curves)?;
    let rows: usize = results.points.iter().map(Vec::len).sum();
    if rows <= MOST_ROWS {
        let runs = export::csv(scenario, results, &drawn, made_by);
        write!(body, ", ")?;
        link(body, &format!("{name}-runs.csv"), "runs", &runs)?;
        writeln!(body, " (CSV)</p>")
    } else {
        let argument = escape(&scenario.argument());
        writeln!(body, " (CSV); runs: <code>anabranch lab run {argument} --csv runs.csv</code></p>")
    }
}

/// A link that contains a file.
pub(crate) fn link(body: &mut String, file: &str, text: &str, csv: &str) -> std::fmt::Result {
    let (file, data) = (escape(file), encoded(csv));
    write!(body, "<a download=\"{file}\" href=\"data:text/csv;charset=utf-8,{data}\">{text}</a>")
}

/// A text encoded for a URL.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b',' | b'.' | b'-' | b'_' | b'=' | b'/' => {
                out.push(char::from(byte));
            }
            _ => {
                // Writing to a string does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_no_quotes_and_no_lines() {
        assert_eq!(encoded("a (%),\"b\"\n1,2.5"), "a%20%28%25%29,%22b%22%0A1,2.5");
    }
}
