//! How a scenario's results are drawn.

use super::axis::Axis;
use super::known_metric;
use crate::metrics::Names;
use crate::tree::{Checked, Fields, problem};

/// A figure: one chart for each value of the panels' axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Index of the x axis; `None` if nothing is varied.
    pub x: Option<usize>,
    /// Index of the axis with a curve for each value.
    pub series: Option<usize>,
    /// All other axes.
    pub panels: Vec<usize>,
    /// The metric that is drawn.
    pub y: String,
    /// Metrics that tables show as well.
    pub metrics: Vec<String>,
    /// Whether the x axis and the y axis are logarithmic.
    pub log: [bool; 2],
}

/// Reads `[figure]`. By default the first axis of numbers is x, and the next one has the curves.
pub(super) fn read(root: &Fields<'_>, axes: &[Axis], names: &Names) -> Checked<Figure> {
    let fields = root.table("figure")?;
    let named = |key: &'static str| -> Checked<Option<usize>> {
        let Some(fields) = &fields else { return Ok(None) };
        let Some(name) = fields.text(key)? else { return Ok(None) };
        match axes.iter().position(|axis| axis.name == name) {
            Some(index) => Ok(Some(index)),
            None => problem(fields.line_of(key), format!("figure.{key}: '{name}' is not an axis")),
        }
    };
    let (x, series) = (named("x")?, named("series")?);
    if let (Some(x), Some(series), Some(fields)) = (x, series, &fields)
        && x == series
    {
        return problem(fields.line_of("series"), "figure.series and figure.x are the same axis");
    }
    let x = x.or_else(|| axes.iter().position(Axis::is_numeric)).or(match axes.is_empty() {
        true => None,
        false => Some(0),
    });
    let series = series.or_else(|| (0..axes.len()).find(|index| Some(*index) != x));
    let panels = (0..axes.len()).filter(|i| Some(*i) != x && Some(*i) != series).collect();
    let mut y = "transfer_time_s".to_owned();
    let mut metrics = Vec::new();
    let mut log = [false; 2];
    if let Some(fields) = fields {
        if let Some(name) = fields.text("y")? {
            y = known_metric(name, names, fields.line_of("y"))?;
        }
        for (line, name) in fields.texts("metrics")?.unwrap_or_default() {
            metrics.push(known_metric(name, names, line)?);
        }
        for (key, log) in ["x_scale", "y_scale"].into_iter().zip(&mut log) {
            *log = fields.choice(key, &[("linear", false), ("log", true)])?.unwrap_or(false);
        }
        fields.finish()?;
    }
    Ok(Figure { x, series, panels, y, metrics, log })
}
