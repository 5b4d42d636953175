//! Draws a curve: its line, its marks and intervals, or its boxes.

use std::fmt::Write as _;

use super::digits::rounded;
use super::{Curve, Dot, Scale, Style, escape};

pub(super) fn draw_curve(
    svg: &mut String,
    curve: &Curve,
    shift: f64,
    x: &Scale,
    y: &Scale,
) -> std::fmt::Result {
    let color = color(curve.color);
    if curve.style == Style::Boxes {
        return curve.dots.iter().try_for_each(|dot| draw_box(svg, curve, dot, shift, x, y));
    }
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
            Style::Steps | Style::Boxes => continue,
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
            // Cut off intervals below the chart area, without an end mark.
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
        let half = dot.half.map_or(String::new(), |half| format!(" ±{}", rounded(half)));
        write!(svg, "<title>{}: {}{half}</title>", escape(&curve.name), rounded(dot.y))?;
        mark(svg, curve.color, curve.style, at, level)?;
        writeln!(svg, "</g>")?;
    }
    Ok(())
}

/// Draws the mark of a curve; its shape distinguishes curves without colours.
pub(super) fn mark(
    svg: &mut String,
    number: usize,
    style: Style,
    x: f64,
    y: f64,
) -> std::fmt::Result {
    let color = color(number);
    let (fill, r) = match style {
        Style::Marks => ("var(--paper)", 3.2),
        Style::Line | Style::Steps | Style::Points | Style::Boxes => (color.as_str(), 3.6),
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

pub(super) fn color(number: usize) -> String {
    format!("var(--c{})", number % 8)
}

/// Half of the width of a box.
const HALF: f64 = 3.5;

/// Draws the middle half of the measurements, their median, and lines to the outer twentieths.
fn draw_box(
    svg: &mut String,
    curve: &Curve,
    dot: &Dot,
    shift: f64,
    x: &Scale,
    y: &Scale,
) -> std::fmt::Result {
    let Some([least, low, high, most]) = dot.spread else { return Ok(()) };
    let color = color(curve.color);
    let (at, median) = (x.place(dot.x) + shift, y.place(dot.y));
    let [least_at, low_at, high_at, most_at] = [least, low, high, most].map(|value| y.place(value));
    let (left, right) = (at - HALF, at + HALF);
    writeln!(
        svg,
        "<g><title>{}: {}, half of the runs {} to {}, nine tenths {} to {}</title>\
         <path class=\"interval\" stroke=\"{color}\" d=\"M{at:.1} {least_at:.1}V{low_at:.1}M{at:.1} {high_at:.1}V{most_at:.1}\"/>\
         <path fill=\"var(--paper)\" stroke=\"{color}\" stroke-width=\"1.3\" d=\"M{left:.1} {low_at:.1}H{right:.1}V{high_at:.1}H{left:.1}z\"/>\
         <path fill=\"none\" stroke=\"{color}\" stroke-width=\"2\" d=\"M{left:.1} {median:.1}H{right:.1}\"/></g>",
        escape(&curve.name),
        rounded(dot.y),
        rounded(low),
        rounded(high),
        rounded(least),
        rounded(most),
    )
}
