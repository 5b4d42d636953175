//! Draws throughput over time.

use std::fmt::Write;

use crate::failover::{POINTS, Run};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 50.0;

/// Sent and received over path 0, sent and received over path 1: names, colours and dashes.
const SERIES: [(&str, &str, &str); 4] = [
    ("path 0, sent", "#1f6fb4", "none"),
    ("path 0, received", "#1f6fb4", "4 3"),
    ("path 1, sent", "#d1601f", "none"),
    ("path 1, received", "#d1601f", "4 3"),
];

/// What the panels share: the largest rate in MB/s and the seconds that they show.
struct Scale {
    most: f64,
    seconds: f64,
}

impl Scale {
    fn of(runs: &[Run]) -> Self {
        let values = runs.iter().flat_map(|run| run.samples.iter().flatten());
        let longest = runs.iter().map(|run| run.samples.len()).max().unwrap_or(1).max(2);
        Self { most: values.copied().fold(1.0, f64::max).ceil(), seconds: longest as f64 / POINTS }
    }

    fn x(&self, t: f64) -> f64 {
        LEFT + t / self.seconds * (WIDTH - LEFT - RIGHT)
    }
}

/// Draws one panel per run, one below the other, with the times of the cuts shaded.
pub(crate) fn draw(title: &str, runs: &[Run]) -> String {
    let scale = Scale::of(runs);
    let height = TOP + runs.len() as f64 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n\
         <text x='{LEFT}' y='20' font-size='15'>anabranch perf both ways while each path is cut and repaired: \
         {title}</text>\n"
    );
    for (number, (name, colour, dashes)) in SERIES.iter().enumerate() {
        let at = LEFT + 180.0 * number as f64;
        let (line_end, text) = (at + 30.0, at + 36.0);
        let _ = writeln!(
            svg,
            "<line x1='{at}' y1='38' x2='{line_end}' y2='38' stroke='{colour}' stroke-width='2' \
             stroke-dasharray='{dashes}'/><text x='{text}' y='42'>{name}</text>"
        );
    }
    for (number, run) in runs.iter().enumerate() {
        let top = TOP + 10.0 + number as f64 * (PANEL + GAP);
        background(&mut svg, run, &scale, top);
        curves(&mut svg, run, &scale, top + PANEL);
    }
    svg + "</svg>\n"
}

/// Draws the cuts, the axes and their labels of the panel whose upper edge is at `top`.
fn background(svg: &mut String, run: &Run, scale: &Scale, top: f64) {
    let (bottom, most) = (top + PANEL, scale.most);
    for cut in &run.cuts {
        let (from, width) = (scale.x(cut.at), scale.x(cut.repaired) - scale.x(cut.at));
        let (label, link) = (top + 13.0, cut.link);
        let _ = writeln!(
            svg,
            "<rect x='{from:.1}' y='{top}' width='{width:.1}' height='{PANEL}' fill='#eee'/>\
             <text x='{:.1}' y='{label}' fill='#666'>path {link} cut; pauses {:.2} s and {:.2} s</text>",
            from + 4.0,
            cut.directions[0].pause,
            cut.directions[1].pause
        );
    }
    let _ = writeln!(
        svg,
        "<path d='M{LEFT} {top}V{bottom}H{}' fill='none' stroke='black'/>\
         <text x='{LEFT}' y='{}'>Path.Max.Retrans {}</text>\
         <text x='{}' y='{}' text-anchor='end'>{most} MB/s</text>\
         <text x='{}' y='{bottom}' text-anchor='end'>0</text>",
        WIDTH - RIGHT,
        top - 4.0,
        run.limit,
        LEFT - 4.0,
        top + 8.0,
        LEFT - 4.0
    );
    for second in (0..=scale.seconds as usize).step_by(2) {
        let (at, below) = (scale.x(second as f64), bottom + 15.0);
        let _ =
            writeln!(svg, "<text x='{at:.1}' y='{below}' text-anchor='middle'>{second} s</text>");
    }
}

/// Draws the series of the panel whose lower edge is at `bottom`.
fn curves(svg: &mut String, run: &Run, scale: &Scale, bottom: f64) {
    let y = |rate: f64| bottom - rate.min(scale.most) / scale.most * PANEL;
    for (index, (_, colour, dashes)) in SERIES.iter().enumerate() {
        let mut points = String::new();
        for (sample, rates) in run.samples.iter().enumerate() {
            let rate = rates.get(index).copied().unwrap_or(0.0);
            let _ = write!(points, "{:.1},{:.1} ", scale.x(sample as f64 / POINTS), y(rate));
        }
        let _ = writeln!(
            svg,
            "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='1.3' \
             stroke-dasharray='{dashes}'/>",
            points.trim_end()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failover::{Cut, Detour};

    #[test]
    fn a_picture_has_a_line_a_series_and_a_shade_a_cut() {
        let detour = Detour { over: Some(0.05), pause: 0.05, back: None };
        let directions = [detour; 2];
        let cut =
            Cut { link: 0, at: 0.1, repaired: 0.2, directions, inactive: None, active: Some(0.1) };
        let samples = vec![[1.0, 2.0, 0.0, 0.0]; 4];
        let (messages, rates) = ([1, 1], [1e6, 2e6]);
        let run = Run { limit: 1, samples, cuts: vec![cut], messages, rates };
        let svg = draw("test", &[run]);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("path 0 cut").count(), 1);
        assert!(svg.contains("Path.Max.Retrans 1") && svg.ends_with("</svg>\n"));
    }
}
