//! Draws patterns as text and as SVG.

use std::fmt::Write as _;

use super::{Basis, Kind, Pattern, Patterns};

/// The part of a pattern to draw, and the width.
#[derive(Clone, Copy, Debug)]
pub struct Drawing {
    /// The first packet or millisecond to draw, from 0.
    pub from: u64,
    /// Number of packets or milliseconds to draw; `None` means to the end.
    pub count: Option<u64>,
    /// Columns of the text.
    pub columns: usize,
}

impl Default for Drawing {
    fn default() -> Self {
        Self { from: 0, count: None, columns: 64 }
    }
}

/// One column: the smallest and largest of its values, and how many of them are not 0.
#[derive(Clone, Copy, Debug)]
struct Column {
    least: u64,
    most: u64,
    marked: u64,
    all: u64,
}

/// The drawing of a pattern.
struct Chart {
    columns: Vec<Column>,
    from: u64,
    to: u64,
}

const ROWS: usize = 6;
const SHADES: [char; 5] = ['.', '-', '+', '*', '#'];

fn chart(pattern: &Pattern, drawing: &Drawing) -> Chart {
    let length = pattern.length();
    let from = drawing.from.min(length);
    let to = drawing.count.map_or(length, |count| from.saturating_add(count).min(length));
    let wanted = (to - from).min(drawing.columns.max(1) as u64).max(1);
    let empty = Column { least: u64::MAX, most: 0, marked: 0, all: 0 };
    let mut columns = vec![empty; usize::try_from(wanted).unwrap_or(1)];
    let span = u128::from((to - from).max(1));
    // The first position of a column, and the column of a position.
    let column_of = |at: u64| (u128::from(at - from) * u128::from(wanted) / span) as u64;
    let begin_of =
        |column: u64| from + (u128::from(column) * span).div_ceil(u128::from(wanted)) as u64;
    let mut at = 0_u64;
    for (value, count) in pattern.values.iter() {
        let (first, last) = (at.max(from), at.saturating_add(count).min(to));
        at = at.saturating_add(count);
        let mut place = first;
        while place < last {
            let column = column_of(place);
            let end = begin_of(column + 1).min(last);
            if let Some(cell) = usize::try_from(column).ok().and_then(|c| columns.get_mut(c)) {
                cell.least = cell.least.min(value);
                cell.most = cell.most.max(value);
                cell.all += end - place;
                cell.marked += if value > 0 { end - place } else { 0 };
            }
            place = end;
        }
        if at >= to {
            break;
        }
    }
    Chart { columns, from, to }
}

impl Column {
    /// A letter for the share of values that are not 0.
    fn shade(&self) -> char {
        if self.marked == 0 {
            return SHADES[0];
        }
        if self.marked == self.all {
            return SHADES[4];
        }
        // Shade 1, 2 or 3, by the share.
        let share = self.marked as f64 / self.all.max(1) as f64;
        SHADES[if share < 0.1 {
            1
        } else if share < 0.5 {
            2
        } else {
            3
        }]
    }
}

/// Whether values are amounts rather than events.
fn has_height(kind: Kind) -> bool {
    matches!(kind, Kind::Delay | Kind::Rate | Kind::Displace | Kind::Duplicate)
}

fn unit(pattern: &Pattern) -> &'static str {
    match pattern.basis {
        Basis::Packet => "packet",
        Basis::Millisecond => "ms",
    }
}

/// A summary of a pattern in one line.
fn summary(pattern: &Pattern) -> String {
    let mut text = format!(
        "{}: {} per {}, {} {}{}",
        pattern.title(),
        pattern.kind.name(),
        unit(pattern),
        pattern.length(),
        unit(pattern),
        if pattern.basis == Basis::Packet && pattern.length() != 1 { "s" } else { "" },
    );
    if pattern.kind == Kind::Trigger {
        let _ = write!(text, ", {} triggers", pattern.triggers.len());
        return text;
    }
    let marked: u64 = pattern.values.iter().filter(|(v, _)| *v > 0).map(|(_, count)| count).sum();
    let percent = marked as f64 / pattern.values.len().max(1) as f64 * 100.0;
    let _ = write!(text, ", {marked} of them ({percent:.3} %) marked");
    let end = match pattern.end {
        super::End::Stop => "then stops",
        super::End::Hold => "then holds",
        super::End::Repeat => "then repeats",
    };
    let _ = write!(text, ", {end}");
    if !pattern.filter.is_any() {
        let _ = write!(text, "; {}", pattern.filter);
    }
    text
}

/// Draws the patterns as text. Events are a row of letters (`.` none, `-` below a tenth, `+` below
/// half, `*` more, `#` all); amounts are columns.
pub fn draw_text(patterns: &Patterns, drawing: &Drawing) -> String {
    let mut text = String::new();
    for pattern in patterns.list() {
        let _ = writeln!(text, "{}", summary(pattern));
        for trigger in &pattern.triggers {
            let at = match pattern.basis {
                Basis::Packet => format!("packet {}", trigger.at),
                Basis::Millisecond => format!("{:.3} s", trigger.at as f64 / 1e9),
            };
            let _ = writeln!(text, "  {at}: {}", trigger.action.write());
        }
        if pattern.values.is_empty() {
            continue;
        }
        let chart = chart(pattern, drawing);
        if has_height(pattern.kind) {
            heights(&mut text, pattern, &chart);
        } else {
            let row: String = chart.columns.iter().map(Column::shade).collect();
            let _ = writeln!(text, "  |{row}|");
        }
        let (first, last) = ends(pattern, &chart);
        let gap = chart.columns.len().saturating_sub(first.len() + last.len());
        let _ = writeln!(text, "   {first}{}{last}", " ".repeat(gap.max(1)));
    }
    text
}

/// The numbers below both ends; packets count from 1, milliseconds from 0.
fn ends(pattern: &Pattern, chart: &Chart) -> (String, String) {
    match pattern.basis {
        Basis::Packet => ((chart.from + 1).to_string(), chart.to.to_string()),
        Basis::Millisecond => (format!("{} ms", chart.from), format!("{} ms", chart.to)),
    }
}

fn heights(text: &mut String, pattern: &Pattern, chart: &Chart) {
    let most = chart.columns.iter().map(|column| column.most).max().unwrap_or(0).max(1);
    let label = |value: u64| pattern.kind.write(value, &pattern.bits);
    for row in (0..ROWS).rev() {
        let mut line = String::from("  |");
        for column in &chart.columns {
            let level = |value: u64| (value as f64 / most as f64 * ROWS as f64).ceil() as usize;
            line.push(if level(column.least) > row {
                '#'
            } else if level(column.most) > row {
                ':'
            } else {
                ' '
            });
        }
        line.push('|');
        if row == ROWS - 1 {
            let _ = write!(line, " {}", label(most));
        }
        let _ = writeln!(text, "{line}");
    }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 90.0;
const LEFT: f64 = 20.0;

/// Draws the patterns as an SVG picture, one below the other.
pub fn draw_svg(patterns: &Patterns, drawing: &Drawing) -> String {
    let block = HEIGHT + 62.0;
    let total = block * patterns.list().len() as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {total:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>\n",
        WIDTH + 2.0 * LEFT
    );
    for (index, pattern) in patterns.list().iter().enumerate() {
        block_svg(&mut svg, pattern, drawing, 10.0 + block * index as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

fn block_svg(svg: &mut String, pattern: &Pattern, drawing: &Drawing, top: f64) {
    let wide = Drawing { columns: 720, ..*drawing };
    let chart = chart(pattern, &wide);
    let title = escape(&summary(pattern));
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">{title}</text>", top + 14.0);
    let (base, width) = (top + 22.0 + HEIGHT, WIDTH / chart.columns.len() as f64);
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#f4f4f0\"/>",
        top + 22.0
    );
    let most = chart.columns.iter().map(|column| column.most).max().unwrap_or(0).max(1);
    for (index, column) in chart.columns.iter().enumerate().filter(|(_, column)| column.most > 0) {
        let x = LEFT + width * index as f64;
        let mut bar = |share: f64, colour: &str| {
            let height = HEIGHT * share;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{height:.2}\" \
                 fill=\"{colour}\"/>",
                base - height,
                width.max(1.0)
            );
        };
        if has_height(pattern.kind) {
            bar(column.most as f64 / most as f64, "#9bbcd8");
            bar(column.least as f64 / most as f64, "#2b6ca3");
        } else {
            bar(column.marked as f64 / column.all.max(1) as f64, "#b3402e");
        }
    }
    let span = pattern.length().max(1) as f64;
    for trigger in &pattern.triggers {
        let at = match pattern.basis {
            Basis::Packet => trigger.at as f64,
            Basis::Millisecond => trigger.at as f64 / 1e6,
        };
        let (x, what) = (LEFT + WIDTH * at / span, escape(&trigger.action.write()));
        let anchor = if at * 2.0 > span { "end" } else { "start" };
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1}V{base:.1}\" stroke=\"#b3402e\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"{anchor}\">{what}</text>",
            top + 22.0,
            base - 6.0
        );
    }
    let (first, last) = ends(pattern, &chart);
    let scale = if has_height(pattern.kind) {
        format!("up to {}", pattern.kind.write(most, &pattern.bits))
    } else if pattern.kind == Kind::Trigger {
        String::new()
    } else {
        "share of each column".into()
    };
    for (x, anchor, label) in
        [(LEFT, "start", first), (LEFT + WIDTH, "end", last), (LEFT + WIDTH / 2.0, "middle", scale)]
    {
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{label}</text>",
            base + 16.0
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
