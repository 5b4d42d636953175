//! Charts as SVG: lines with intervals and points, axes with units, a legend.
//!
//! Colours are variables of the page (`--c0` to `--c7`, `--ink`, `--muted`, `--grid`), so that a
//! chart is readable in the light and in the dark.

mod scale;

use std::fmt::Write as _;

pub use scale::Scale;

/// Width of a chart in its own units; it is scaled to the page.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Where on the x axis.
    pub x: f64,
    /// Where on the y axis.
    pub y: f64,
    /// Half height of its interval.
    pub half: Option<f64>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line with a mark at each dot.
    Line,
    /// Hollow marks without a line: numbers of somebody else.
    Marks,
    /// A thin line that jumps from dot to dot: a time series.
    Steps,
    /// Small dots: events.
    Points,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// Number of its colour; curves that belong together have the same.
    pub color: usize,
    /// How it is drawn.
    pub style: Style,
    /// Its points from left to right.
    pub dots: Vec<Dot>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows, for those who cannot see it.
    pub title: String,
    /// Label of the x axis, with unit.
    pub x_label: String,
    /// Names of the x values when they are no numbers; dots are at 0, 1, 2 then.
    pub x_names: Option<Vec<String>>,
    /// Label of the y axis, with unit.
    pub y_label: String,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Whether the y axis begins at zero.
    pub from_zero: bool,
}

impl Chart {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        let dots = || self.curves.iter().flat_map(|curve| &curve.dots);
        let x = match &self.x_names {
            Some(names) => Scale::names(names.len(), LEFT, WIDTH - RIGHT),
            None => Scale::numbers(dots().map(|dot| dot.x), false, LEFT, WIDTH - RIGHT),
        };
        let reach = dots().flat_map(|dot| {
            let half = dot.half.unwrap_or(0.0);
            [dot.y - half, dot.y + half]
        });
        let y = Scale::numbers(reach, self.from_zero, HEIGHT - BOTTOM, TOP);
        let mut svg = String::new();
        // Writing to a string does not fail.
        let _ = self.draw(&mut svg, &x, &y);
        svg
    }

    fn draw(&self, svg: &mut String, x: &Scale, y: &Scale) -> std::fmt::Result {
        let rows = legend_rows(&self.curves);
        let height = HEIGHT + 18.0 * rows.len() as f64;
        writeln!(
            svg,
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        )?;
        self.axes(svg, x, y)?;
        for curve in &self.curves {
            draw_curve(svg, curve, x, y)?;
        }
        for (row, entries) in rows.iter().enumerate() {
            let at = HEIGHT + 18.0 * row as f64 + 4.0;
            for (left, curve) in entries {
                mark(svg, curve, left + 6.0, at)?;
                writeln!(
                    svg,
                    "<text x=\"{}\" y=\"{}\">{}</text>",
                    left + 16.0,
                    at + 4.0,
                    escape(&curve.name)
                )?;
            }
        }
        svg.push_str("</svg>");
        Ok(())
    }

    fn axes(&self, svg: &mut String, x: &Scale, y: &Scale) -> std::fmt::Result {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (value, text) in y.ticks() {
            let at = y.place(value);
            writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
            )?;
            writeln!(
                svg,
                "<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            )?;
        }
        writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>"
        )?;
        let ticks: Vec<(f64, String)> = match &self.x_names {
            Some(names) => {
                names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect()
            }
            None => x.ticks(),
        };
        for (value, text) in ticks {
            let at = x.place(value);
            writeln!(
                svg,
                "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\"/>",
                bottom + 4.0
            )?;
            writeln!(
                svg,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{}\">{}</text>",
                bottom + 17.0,
                escape(&text)
            )?;
        }
        let middle = (LEFT + right) / 2.0;
        writeln!(
            svg,
            "<text class=\"label\" text-anchor=\"middle\" x=\"{middle}\" y=\"{}\">{}</text>",
            bottom + 36.0,
            escape(&self.x_label)
        )?;
        let middle = (TOP + bottom) / 2.0;
        writeln!(
            svg,
            "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(13 {middle}) rotate(-90)\">{}</text>",
            escape(&self.y_label)
        )
    }
}

fn draw_curve(svg: &mut String, curve: &Curve, x: &Scale, y: &Scale) -> std::fmt::Result {
    let color = color(curve.color);
    let place = |dot: &Dot| (x.place(dot.x), y.place(dot.y));
    if matches!(curve.style, Style::Line | Style::Steps) {
        let mut path = String::new();
        let mut last = None;
        for dot in &curve.dots {
            let (at, level) = place(dot);
            match (last, curve.style) {
                (None, _) => write!(path, "M{at:.1} {level:.1}")?,
                (Some(_), Style::Steps) => write!(path, "H{at:.1}V{level:.1}")?,
                (Some(_), _) => write!(path, "L{at:.1} {level:.1}")?,
            }
            last = Some(());
        }
        let width = if curve.style == Style::Line { 2.0 } else { 1.3 };
        writeln!(
            svg,
            "<path fill=\"none\" stroke=\"{color}\" stroke-width=\"{width}\" d=\"{path}\"/>"
        )?;
    }
    for dot in &curve.dots {
        let (at, level) = place(dot);
        match curve.style {
            Style::Steps => continue,
            Style::Points => {
                writeln!(
                    svg,
                    "<circle cx=\"{at:.1}\" cy=\"{level:.1}\" r=\"1.4\" fill=\"{color}\"/>"
                )?;
                continue;
            }
            Style::Line | Style::Marks => {}
        }
        // Ours and theirs stand beside each other, so that both intervals can be seen.
        let at = if curve.style == Style::Marks { at + 4.0 } else { at };
        if let Some(half) = dot.half {
            let (top, bottom) = (y.place(dot.y + half), y.place(dot.y - half));
            writeln!(
                svg,
                "<path class=\"interval\" stroke=\"{color}\" d=\"M{at:.1} {top:.1}V{bottom:.1}M{:.1} {top:.1}h6M{:.1} {bottom:.1}h6\"/>",
                at - 3.0,
                at - 3.0
            )?;
        }
        write!(svg, "<g>")?;
        let half =
            dot.half.map_or(String::new(), |half| format!(" ±{}", crate::summary::rounded(half)));
        write!(
            svg,
            "<title>{}: {}{half}</title>",
            escape(&curve.name),
            crate::summary::rounded(dot.y)
        )?;
        mark(svg, curve, at, level)?;
        writeln!(svg, "</g>")?;
    }
    Ok(())
}

/// The mark of a curve: its shape tells curves apart without colours.
fn mark(svg: &mut String, curve: &Curve, x: f64, y: f64) -> std::fmt::Result {
    let color = color(curve.color);
    let (fill, r) = match curve.style {
        Style::Marks => ("var(--paper)", 3.2),
        Style::Line | Style::Steps | Style::Points => (color.as_str(), 3.6),
    };
    let paint = format!("fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"1.5\"");
    match curve.color % 4 {
        0 => writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" {paint}/>"),
        1 => writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" {paint}/>",
            x - r,
            y - r,
            2.0 * r,
            2.0 * r
        ),
        2 => writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1}l{r} {}h-{}z\" {paint}/>",
            y - r,
            1.9 * r,
            2.0 * r
        ),
        _ => {
            writeln!(svg, "<path d=\"M{x:.1} {:.1}l{r} {r}l-{r} {r}l-{r} -{r}z\" {paint}/>", y - r)
        }
    }
}

fn color(number: usize) -> String {
    format!("var(--c{})", number % 8)
}

/// Legend entries with their place, in as many rows as they need.
fn legend_rows(curves: &[Curve]) -> Vec<Vec<(f64, &Curve)>> {
    let mut rows: Vec<Vec<(f64, &Curve)>> = Vec::new();
    let mut left = f64::INFINITY;
    for curve in curves {
        // A letter of the legend is about 6.4 units wide.
        let width = 26.0 + 6.4 * curve.name.chars().count() as f64;
        if left + width > WIDTH {
            rows.push(Vec::new());
            left = 8.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((left, curve));
        }
        left += width;
    }
    rows
}

/// Text as it may stand in HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(curves: Vec<Curve>) -> Chart {
        Chart {
            title: "a <chart>".into(),
            x_label: "loss (%)".into(),
            x_names: None,
            y_label: "time (s)".into(),
            curves,
            from_zero: true,
        }
    }

    fn curve(name: &str, style: Style) -> Curve {
        let dots = [0.0, 5.0, 10.0].map(|x| Dot { x, y: 40.0 + x, half: Some(2.0) }).to_vec();
        Curve { name: name.into(), color: 1, style, dots }
    }

    #[test]
    fn a_chart_has_axes_curves_intervals_and_a_legend() {
        let svg = chart(vec![curve("ours", Style::Line), curve("theirs", Style::Marks)]).svg();
        for part in ["loss (%)", "time (s)", ">ours</text>", ">theirs</text>", "a &lt;chart&gt;"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert_eq!(svg.matches("class=\"interval\"").count(), 6);
        assert_eq!(svg.matches("<path fill=\"none\"").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn nothing_and_one_point_can_be_drawn() {
        for curves in [
            vec![],
            vec![Curve {
                name: "one".into(),
                color: 0,
                style: Style::Line,
                dots: vec![Dot { x: 1.0, y: 0.0, half: None }],
            }],
        ] {
            let svg = chart(curves).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn long_legends_have_several_rows() {
        let curves: Vec<_> = (0..8).map(|_| curve("a rather long name", Style::Line)).collect();
        assert!(legend_rows(&curves).len() >= 3);
    }
}
