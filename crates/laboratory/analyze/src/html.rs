//! A report as an HTML page with its distributions.

use std::fmt::Write as _;

use crate::analysis::Report;
use crate::distribution::Distribution;
use crate::report::{distributions, readable, text};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;

/// A self-contained page.
pub fn html(title: &str, report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<style>body {{ font-family: \
         sans-serif; max-width: 50em; margin: 2em auto }} pre {{ background: #f4f4f0; padding: 1em; \
         overflow-x: auto }}</style>\n<h1>{0}</h1>\n<pre>{1}</pre>\n",
        escape(title),
        escape(&text(report))
    );
    for (name, distribution, unit) in distributions(report) {
        if distribution.count > 0 {
            let of = if unit == "packets" { ", in packets" } else { "" };
            let _ = write!(page, "<h2>{name}{of}</h2>\n{}", bars(distribution, unit));
        }
    }
    page
}

/// A bar for each power of two.
fn bars(distribution: &Distribution, unit: &str) -> String {
    let bars = distribution.bars();
    let most = bars.iter().map(|bar| bar.2).max().unwrap_or(0).max(1);
    let width = WIDTH / bars.len().max(1) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" font-size=\"9\">\n",
        HEIGHT + 34.0
    );
    for (index, (first, last, count)) in bars.iter().enumerate() {
        let (x, height) = (width * index as f64, HEIGHT * *count as f64 / most as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"#2b6ca3\">\
             <title>{} to {}: {count}</title></rect><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{count}\
             </text>",
            HEIGHT + 12.0 - height,
            (width - 2.0).max(1.0),
            readable(*first as f64, unit),
            readable(*last as f64, unit),
            x + width / 2.0,
            HEIGHT + 24.0,
            readable(*first as f64, unit),
            x + width / 2.0,
            HEIGHT + 8.0 - height,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
