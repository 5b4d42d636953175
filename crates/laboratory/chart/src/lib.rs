//! Charts as SVG: lines with intervals and points, axes with units, a legend.
//!
//! Colours are variables of the page (`--c0` to `--c7`, `--ink`, `--muted`, `--grid`), so that charts are readable in
//! light and dark mode.
#![forbid(unsafe_code)]

mod curve;
mod digits;
mod page;
mod scale;

use std::borrow::Cow;
use std::fmt::Write as _;

use curve::{draw_curve, mark};
pub use digits::digits;
pub use page::{page, picture};
pub use scale::Scale;

/// Room next to the y axis for its label, and for each character of its longest tick label.
const LABEL: f64 = 28.0;
const LETTER: f64 = 7.4;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;
/// Room beside the first and the last value for neighbouring marks.
const INSET: f64 = 10.0;
/// Height of a legend row.
const ROW: f64 = 20.0;
/// Maximum distance between curves that have a dot at the same place.
const APART: f64 = 4.0;
/// Maximum number of marks of a curve; if there are more, only every second, third and so on is drawn.
const MAX_DOTS: usize = 6000;
/// The legend entry of hollow marks.
const OTHERS: &str = "hollow: the original simulator";

/// A point of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dot {
    /// Position on the x axis.
    pub x: f64,
    /// Position on the y axis.
    pub y: f64,
    /// Half of the height of its interval.
    pub half: Option<f64>,
    /// For boxes: the 5, 25, 75 and 95 % quantiles; `y` is the median.
    pub spread: Option<[f64; 4]>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line with a mark at each dot.
    Line,
    /// Hollow marks without a line: reference numbers.
    Marks,
    /// A thin line with steps from dot to dot: a time series.
    Steps,
    /// Small dots: events.
    Points,
    /// A box for each dot: a distribution of values.
    Boxes,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Number of its colour; related curves have the same.
    pub color: usize,
    /// How it is drawn.
    pub style: Style,
    /// Its points from left to right.
    pub dots: Vec<Dot>,
}

impl Curve {
    /// A time series drawn in steps. If there are too many values, only every second, third and so on is drawn.
    pub fn over_time(
        name: impl Into<String>,
        color: usize,
        values: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let dots = thinned(values.into_iter().map(|(x, y)| Dot::at(x, y)).collect());
        Self { name: name.into(), color, style: Style::Steps, dots }
    }
}

impl Dot {
    /// A point without an interval.
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}

/// All dots, or every second, third and so on if there are more than a chart has room for.
pub fn thinned(dots: Vec<Dot>) -> Vec<Dot> {
    let every = dots.len().div_ceil(MAX_DOTS).max(1);
    dots.into_iter().step_by(every).collect()
}

/// Width and height of a chart without its legend, in units of its own. The chart is scaled to the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    width: f64,
    height: f64,
}

impl Size {
    /// Three charts side by side on a desktop and one on a phone are about this wide in pixels, so text appears in its
    /// nominal size there.
    pub const SMALL: Self = Self { width: 400.0, height: 270.0 };
    /// As wide as a desktop page.
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
    /// Its size.
    pub size: Size,
    /// Its title, for screen readers.
    pub title: String,
    /// Label of the x axis, with unit.
    pub x_label: String,
    /// Names of the x values if they are not numbers; dots are then at 0, 1, 2 and so on.
    pub x_names: Option<Vec<String>>,
    /// Label of the y axis, with unit.
    pub y_label: String,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Whether the x axis starts at zero.
    pub x_from_zero: bool,
    /// Whether the y axis starts at zero.
    pub from_zero: bool,
    /// Whether the x axis and the y axis are logarithmic; such axes only show positive values.
    pub log: [bool; 2],
}

impl Chart {
    /// A large chart over time. Both axes start at zero, so that charts below each other can be compared.
    pub fn over_time(title: &str, y_label: &str, curves: Vec<Curve>) -> Self {
        Self {
            size: Size::LARGE,
            title: title.to_owned(),
            x_label: "time (s)".to_owned(),
            x_names: None,
            y_label: y_label.to_owned(),
            curves,
            x_from_zero: true,
            from_zero: true,
            log: [false; 2],
        }
    }

    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        let shown = self.shown();
        let dots = || shown.curves.iter().flat_map(|curve| &curve.dots);
        // An interval from few runs may extend below zero, where times and shares cannot be.
        let floor = match self.log[1] || (self.from_zero && dots().all(|dot| dot.y >= 0.0)) {
            true => 0.0,
            false => f64::NEG_INFINITY,
        };
        let reach = dots().flat_map(|dot| {
            let half = dot.half.unwrap_or(0.0);
            let spread = dot.spread.unwrap_or([dot.y; 4]);
            [(dot.y - half).max(floor), dot.y + half, spread[0], spread[3]]
        });
        let y = match self.log[1] {
            true => Scale::powers(reach, self.size.bottom(), TOP),
            false => Scale::numbers(reach, self.from_zero, self.size.bottom(), TOP),
        };
        let letters = y.ticks().iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let left = LABEL + LETTER * letters as f64;
        let x = match &self.x_names {
            Some(names) => Scale::names(names.len(), left, self.size.right()),
            None => {
                let (start, end) = (left + INSET, self.size.right() - INSET);
                let values = dots().map(|dot| dot.x);
                match self.log[0] {
                    true => Scale::powers(values, start, end),
                    false => Scale::numbers(values, self.x_from_zero, start, end),
                }
            }
        };
        let mut svg = String::new();
        // Writing to a string does not fail.
        let _ = shown.draw(&mut svg, &x, &y, left);
        svg
    }

    /// The chart without values that logarithmic axes cannot show.
    fn shown(&self) -> Cow<'_, Self> {
        if self.log == [false; 2] {
            return Cow::Borrowed(self);
        }
        let [x, y] = [self.log[0] && self.x_names.is_none(), self.log[1]];
        let mut shown = self.clone();
        for curve in &mut shown.curves {
            curve.dots.retain(|dot| (!x || dot.x > 0.0) && (!y || dot.y > 0.0));
            for dot in &mut curve.dots {
                // A box that extends to zero starts at its first quantile that can be shown.
                let median = dot.y;
                if let Some(spread) = dot.spread.as_mut().filter(|_| y) {
                    spread
                        .iter_mut()
                        .filter(|value| **value <= 0.0)
                        .for_each(|value| *value = median);
                }
            }
        }
        Cow::Owned(shown)
    }

    fn draw(&self, svg: &mut String, x: &Scale, y: &Scale, left: f64) -> std::fmt::Result {
        let Size { width, height } = self.size;
        let rows = legend_rows(&self.curves, width);
        let whole = height + ROW * rows.len() as f64;
        writeln!(
            svg,
            "<svg viewBox=\"0 0 {width} {whole}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        )?;
        self.axes(svg, x, y, left)?;
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

    /// The horizontal offset of each curve, so that intervals at the same value do not overlap. Time series are not
    /// shifted.
    fn shifts(&self, x: &Scale) -> Vec<f64> {
        let measured =
            |curve: &Curve| matches!(curve.style, Style::Line | Style::Marks | Style::Boxes);
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
        // Boxes are wider than intervals.
        let widest = match curves().any(|curve| curve.style == Style::Boxes) {
            true => 2.4 * APART,
            false => APART,
        };
        let apart = (nearest * 0.6 / last.max(1.0)).min(widest);
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

    fn axes(&self, svg: &mut String, x: &Scale, y: &Scale, left: f64) -> std::fmt::Result {
        let (bottom, right) = (self.size.bottom(), self.size.right());
        for (value, text) in y.ticks() {
            let at = y.place(value);
            writeln!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
            )?;
            writeln!(
                svg,
                "<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{text}</text>",
                left - 6.0,
                at + 4.0
            )?;
        }
        writeln!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>"
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
        let middle = (left + right) / 2.0;
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

/// A legend entry.
#[derive(Clone, Copy)]
struct Entry<'a> {
    name: &'a str,
    color: usize,
    style: Style,
}

/// Legend entries with their positions, in as many rows as necessary. Reference numbers for one of our curves have its
/// colour and shape, and share a single entry.
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
        // A character of the legend is about 7.2 units wide.
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

/// Text escaped for HTML and SVG.
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
            log: [false; 2],
        }
    }

    fn curve(name: &str, style: Style) -> Curve {
        let dots = [0.0, 5.0, 10.0]
            .map(|x| Dot { x, y: 40.0 + x, half: Some(2.0), spread: None })
            .to_vec();
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
    fn a_chart_over_time_begins_at_zero() {
        let late = Curve::over_time("ours", 0, [(70.0, 60.0), (100.0, 90.0)]);
        let svg = Chart::over_time("a title", "chunks", vec![late]).svg();
        // One for each axis.
        assert_eq!(svg.matches(">0</text>").count(), 2, "{svg}");
        for part in ["viewBox=\"0 0 1000 ", "aria-label=\"a title\"", "time (s)", "chunks"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn an_interval_does_not_pull_the_axis_below_zero() {
        let mut one = curve("ours", Style::Line);
        one.dots = vec![Dot { x: 1.0, y: 10.0, half: Some(90.0), spread: None }];
        let svg = chart(vec![one.clone()]).svg();
        assert!(svg.contains(">100</text>") && !svg.contains(">-"), "{svg}");
        // The axis extends below zero if values are below zero.
        one.dots.push(Dot { x: 2.0, y: -10.0, ..Dot::default() });
        let svg = chart(vec![one]).svg();
        assert!(svg.contains(">-100</text>"), "{svg}");
    }

    #[test]
    fn curves_stand_beside_each_other() {
        let curves =
            vec![curve("a", Style::Line), curve("b", Style::Line), curve("c", Style::Steps)];
        let x = Scale::numbers([0.0, 10.0].into_iter(), false, 60.0, Size::SMALL.right());
        assert_eq!(chart(curves).shifts(&x), [-APART / 2.0, APART / 2.0, 0.0]);
        let many: Vec<_> = (0..40).map(|_| curve("a", Style::Line)).collect();
        let shifts = chart(many).shifts(&x);
        // The places are 5 apart on a range of 10: curves of neighbouring places do not meet.
        let (first, last) = (shifts[0], shifts[39]);
        assert!(last - first < x.place(5.0) - x.place(0.0), "{first} to {last}");
    }

    #[test]
    fn ticks_have_room_beside_the_label() {
        let texts = |values: f64| {
            let mut long = curve("a", Style::Line);
            long.dots.iter_mut().for_each(|dot| dot.y *= values);
            let svg = chart(vec![long]).svg();
            let tick = svg.split("text-anchor=\"end\" x=\"").nth(1).unwrap();
            tick.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        // The label's letters are 13 high and end at 17; a tick of five digits is 37 wide.
        assert!(texts(1000.0) - 5.0 * LETTER > 17.0, "{}", texts(1000.0));
        assert!(texts(1.0) < texts(1000.0));
    }

    #[test]
    fn axes_may_be_logarithmic_and_dots_boxes() {
        let mut chart = chart(vec![curve("ours", Style::Line)]);
        chart.curves[0].dots = [0.0, 0.1, 1.0, 100.0]
            .map(|x| Dot { x, y: 10.0 * x, half: Some(2.0 * x), spread: None })
            .to_vec();
        chart.log = [true, true];
        let svg = chart.svg();
        // Zero is not shown.
        assert_eq!(svg.matches("<rect").count(), 3 + 1, "{svg}");
        for tick in [">0.1</text>", ">1</text>", ">100</text>", ">1000</text>"] {
            assert!(svg.contains(tick), "{tick} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        chart.curves[0].style = Style::Boxes;
        chart.curves[0].dots[1].spread = Some([0.0, 0.5, 2.0, 3.0]);
        let svg = chart.svg();
        assert!(svg.contains("half of the runs 0.5000 to 2.00, nine tenths 1.00 to 3.00"), "{svg}");
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
                dots: vec![Dot { x: 1.0, y: 0.0, ..Dot::default() }],
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
