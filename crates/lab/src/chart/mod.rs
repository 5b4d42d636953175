//! Charts as SVG: lines with intervals and points, axes with units, a legend.
//!
//! Colours are variables of the page (`--c0` to `--c7`, `--ink`, `--muted`, `--grid`), so that a
//! chart is readable in the light and in the dark.

mod scale;

use std::fmt::Write as _;

pub use scale::Scale;

const LEFT: f64 = 60.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;
/// Room beside the first and the last value, for marks that stand beside each other there.
const INSET: f64 = 10.0;
/// Height of a row of the legend.
const ROW: f64 = 20.0;
/// Distance of curves that have a dot at the same place, at the most.
const APART: f64 = 4.0;
/// What the legend calls hollow marks.
const OTHERS: &str = "hollow: the original simulator";

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

/// Width and height of a chart without its legend, in its own units. It is scaled to the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    width: f64,
    height: f64,
}

impl Size {
    /// Three beside each other on a desk and one on a phone are all about this many pixels wide, so
    /// that letters have their size there.
    pub const SMALL: Self = Self { width: 400.0, height: 270.0 };
    /// As wide as a page on a desk.
    pub const LARGE: Self = Self { width: 1000.0, height: 420.0 };

    fn right(self) -> f64 {
        self.width - RIGHT
    }

    fn bottom(self) -> f64 {
        self.height - BOTTOM
    }
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// How large it is.
    pub size: Size,
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
    /// Whether the x axis begins at zero.
    pub x_from_zero: bool,
    /// Whether the y axis begins at zero.
    pub from_zero: bool,
}

impl Chart {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        let dots = || self.curves.iter().flat_map(|curve| &curve.dots);
        let x = match &self.x_names {
            Some(names) => Scale::names(names.len(), LEFT, self.size.right()),
            None => {
                let (start, end) = (LEFT + INSET, self.size.right() - INSET);
                Scale::numbers(dots().map(|dot| dot.x), self.x_from_zero, start, end)
            }
        };
        // An interval of few runs may reach below zero, where no time and no share can be.
        let floor = match self.from_zero && dots().all(|dot| dot.y >= 0.0) {
            true => 0.0,
            false => f64::NEG_INFINITY,
        };
        let reach = dots().flat_map(|dot| {
            let half = dot.half.unwrap_or(0.0);
            [(dot.y - half).max(floor), dot.y + half]
        });
        let y = Scale::numbers(reach, self.from_zero, self.size.bottom(), TOP);
        let mut svg = String::new();
        // Writing to a string does not fail.
        let _ = self.draw(&mut svg, &x, &y);
        svg
    }

    fn draw(&self, svg: &mut String, x: &Scale, y: &Scale) -> std::fmt::Result {
        let Size { width, height } = self.size;
        let rows = legend_rows(&self.curves, width);
        let whole = height + ROW * rows.len() as f64;
        writeln!(
            svg,
            "<svg viewBox=\"0 0 {width} {whole}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        )?;
        self.axes(svg, x, y)?;
        for (curve, shift) in self.curves.iter().zip(self.shifts(x)) {
            draw_curve(svg, curve, shift, x, y)?;
        }
        for (row, entries) in rows.iter().enumerate() {
            let at = height + ROW * row as f64 + 5.0;
            for (left, entry) in entries {
                mark(svg, entry.color, entry.style, left + 6.0, at)?;
                writeln!(
                    svg,
                    "<text x=\"{}\" y=\"{}\">{}</text>",
                    left + 15.0,
                    at + 4.5,
                    escape(entry.name)
                )?;
            }
        }
        svg.push_str("</svg>");
        Ok(())
    }

    /// How far each curve is moved to the side, so that intervals at one place can be told apart.
    /// Time series stay where they are.
    fn shifts(&self, x: &Scale) -> Vec<f64> {
        let measured = |curve: &Curve| matches!(curve.style, Style::Line | Style::Marks);
        let curves = || self.curves.iter().filter(|curve| measured(curve));
        let mut places: Vec<f64> =
            curves().flat_map(|curve| &curve.dots).map(|dot| x.place(dot.x)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let nearest = places
            .iter()
            .zip(places.iter().skip(1))
            .map(|(left, right)| right - left)
            .fold(self.size.width, f64::min);
        let last = curves().count().saturating_sub(1) as f64;
        let apart = (nearest * 0.6 / last.max(1.0)).min(APART);
        let mut next = 0.0;
        let shift = |curve: &Curve| {
            if !measured(curve) {
                return 0.0;
            }
            next += 1.0;
            (next - 1.0 - last / 2.0) * apart
        };
        self.curves.iter().map(shift).collect()
    }

    fn axes(&self, svg: &mut String, x: &Scale, y: &Scale) -> std::fmt::Result {
        let (bottom, right) = (self.size.bottom(), self.size.right());
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
                bottom + 18.0,
                escape(&text)
            )?;
        }
        let middle = (LEFT + right) / 2.0;
        writeln!(
            svg,
            "<text class=\"label\" text-anchor=\"middle\" x=\"{middle}\" y=\"{}\">{}</text>",
            bottom + 38.0,
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

fn draw_curve(
    svg: &mut String,
    curve: &Curve,
    shift: f64,
    x: &Scale,
    y: &Scale,
) -> std::fmt::Result {
    let color = color(curve.color);
    let place = |dot: &Dot| (x.place(dot.x) + shift, y.place(dot.y));
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
        if let Some(half) = dot.half {
            let (top, bottom) = (y.place(dot.y + half), y.place(dot.y - half));
            // What reaches below the paper is cut off, and has no end there.
            let (bottom, end) = match bottom > y.start() {
                true => (y.start(), String::new()),
                false => (bottom, format!("M{:.1} {bottom:.1}h6", at - 3.0)),
            };
            writeln!(
                svg,
                "<path class=\"interval\" stroke=\"{color}\" d=\"M{at:.1} {top:.1}V{bottom:.1}M{:.1} {top:.1}h6{end}\"/>",
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
        mark(svg, curve.color, curve.style, at, level)?;
        writeln!(svg, "</g>")?;
    }
    Ok(())
}

/// The mark of a curve: its shape tells curves apart without colours.
fn mark(svg: &mut String, number: usize, style: Style, x: f64, y: f64) -> std::fmt::Result {
    let color = color(number);
    let (fill, r) = match style {
        Style::Marks => ("var(--paper)", 3.2),
        Style::Line | Style::Steps | Style::Points => (color.as_str(), 3.6),
    };
    let paint = format!("fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"1.5\"");
    match number % 4 {
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

/// An entry of the legend.
#[derive(Clone, Copy)]
struct Entry<'a> {
    name: &'a str,
    color: usize,
    style: Style,
}

/// Legend entries with their place, in as many rows as they need. Somebody else's numbers beside a
/// curve of ours have its colour and shape, and one entry for all of them.
fn legend_rows(curves: &[Curve], room: f64) -> Vec<Vec<(f64, Entry<'_>)>> {
    let has_line =
        |color| curves.iter().any(|other| other.style == Style::Line && other.color == color);
    let (beside, named): (Vec<&Curve>, Vec<&Curve>) =
        curves.iter().partition(|curve| curve.style == Style::Marks && has_line(curve.color));
    let mut entries: Vec<Entry<'_>> = named
        .into_iter()
        .map(|curve| Entry { name: &curve.name, color: curve.color, style: curve.style })
        .collect();
    if let Some(first) = beside.first() {
        entries.push(Entry { name: OTHERS, color: first.color, style: Style::Marks });
    }
    let mut rows: Vec<Vec<(f64, Entry<'_>)>> = Vec::new();
    let mut left = f64::INFINITY;
    for entry in entries {
        // A letter of the legend is about 7.2 units wide.
        let width = 26.0 + 7.2 * entry.name.chars().count() as f64;
        if left + width > room {
            rows.push(Vec::new());
            left = 4.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((left, entry));
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
            size: Size::SMALL,
            title: "a <chart>".into(),
            x_label: "loss (%)".into(),
            x_names: None,
            y_label: "time (s)".into(),
            curves,
            x_from_zero: false,
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
        for part in ["loss (%)", "time (s)", ">ours</text>", "hollow: ", "a &lt;chart&gt;"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert_eq!(svg.matches("class=\"interval\"").count(), 6);
        assert_eq!(svg.matches("<path fill=\"none\"").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn an_interval_does_not_pull_the_axis_below_zero() {
        let mut one = curve("ours", Style::Line);
        one.dots = vec![Dot { x: 1.0, y: 10.0, half: Some(90.0) }];
        let svg = chart(vec![one.clone()]).svg();
        assert!(svg.contains(">100</text>") && !svg.contains(">-"), "{svg}");
        // Where values are below zero, the axis is, too.
        one.dots.push(Dot { x: 2.0, y: -10.0, half: None });
        let svg = chart(vec![one]).svg();
        assert!(svg.contains(">-100</text>"), "{svg}");
    }

    #[test]
    fn curves_stand_beside_each_other() {
        let curves =
            vec![curve("a", Style::Line), curve("b", Style::Line), curve("c", Style::Steps)];
        let x = Scale::numbers([0.0, 10.0].into_iter(), false, LEFT, Size::SMALL.right());
        assert_eq!(chart(curves).shifts(&x), [-APART / 2.0, APART / 2.0, 0.0]);
        let many: Vec<_> = (0..40).map(|_| curve("a", Style::Line)).collect();
        let shifts = chart(many).shifts(&x);
        // The places are 5 apart, of 10: curves of neighbours do not meet.
        let (first, last) = (shifts[0], shifts[39]);
        assert!(last - first < x.place(5.0) - x.place(0.0), "{first} to {last}");
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
        assert!(legend_rows(&curves, Size::SMALL.width).len() >= 3);
    }
}
