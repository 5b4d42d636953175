//! The charts of a scenario: means with intervals, boxes, and distributions of the runs.

use anabranch_chart::{Chart, Curve, Dot, Size, Style};

use super::Section;
use crate::metrics::{METRICS, Metric};
use crate::reference::Reference;
use crate::scenario::Axis;
use crate::stats::{self, Estimate};
use crate::summary;

/// A chart of one metric for each panel that has runs.
pub(super) fn means(section: &Section, metric: usize) -> Vec<(String, Chart)> {
    let scenario = &section.scenario;
    let frame = Frame::of(section);
    frame.panels(metric, false, |panel| {
        let mut curves = Vec::new();
        for (color, points) in panel.curves.iter().enumerate() {
            let name = frame.curve_name(color);
            let places = || points.iter().enumerate().filter_map(|(at, p)| p.map(|p| (at, p)));
            let dot = |at, estimate: Estimate| Dot {
                x: frame.x_of(at),
                y: estimate.value,
                half: estimate.half(),
                ..Dot::default()
            };
            let ours: Vec<Dot> = places()
                .filter_map(|(at, point)| {
                    Some(dot(at, summary::estimate(scenario, &section.results, point, metric)?))
                })
                .collect();
            let theirs: Vec<Dot> = places()
                .filter_map(|(at, point)| {
                    let known = |r: &&Reference| r.point == point && r.metric == metric;
                    Some(dot(at, section.references.iter().find(known)?.estimate))
                })
                .collect();
            if !ours.is_empty() {
                curves.push(Curve { name: name.clone(), color, style: Style::Line, dots: ours });
                if !theirs.is_empty() {
                    let name = format!("{name}, original simulator");
                    curves.push(Curve { name, color, style: Style::Marks, dots: theirs });
                }
            }
        }
        curves
    })
}

/// Boxes of one metric for each panel: the median of the runs, the middle half and nine tenths of them.
pub(super) fn boxes(section: &Section, metric: usize) -> Vec<(String, Chart)> {
    let frame = Frame::of(section);
    frame.panels(metric, false, |panel| {
        let curves = panel.curves.iter().enumerate().map(|(color, points)| {
            let dots = points.iter().enumerate().filter_map(|(at, point)| {
                let values = frame.values((*point)?, metric);
                let [least, low, median, high, most] =
                    [0.05, 0.25, 0.5, 0.75, 0.95].map(|share| stats::quantile(&values, share));
                let spread = Some([least?, low?, high?, most?]);
                Some(Dot { x: frame.x_of(at), y: median?, half: None, spread })
            });
            let dots = dots.collect();
            Curve { name: frame.curve_name(color), color, style: Style::Boxes, dots }
        });
        curves.filter(|curve: &Curve| !curve.dots.is_empty()).collect()
    })
}

/// The distribution of the runs at each place of the x axis, one chart each.
pub(super) fn distributions(section: &Section, metric: usize) -> Vec<(String, Chart)> {
    let frame = Frame::of(section);
    let places = frame.x_axis.map_or(1, |axis| axis.values.len());
    let mut charts = Vec::new();
    for at in 0..places {
        let one = frame.panels(metric, true, |panel| {
            let curves = panel.curves.iter().enumerate().filter_map(|(color, points)| {
                let values = frame.values(points.get(at).copied().flatten()?, metric);
                let first = values.iter().copied().reduce(f64::min)?;
                let steps = stats::distribution(&values);
                let steps = std::iter::once((first, 0.0)).chain(steps);
                let dots = steps.map(|(x, y)| Dot { x, y: 100.0 * y, ..Dot::default() }).collect();
                Some(Curve { name: frame.curve_name(color), color, style: Style::Steps, dots })
            });
            curves.collect()
        });
        let value = frame.x_axis.and_then(|axis| Some((axis, axis.values.get(at)?)));
        let place = value.map_or_else(String::new, |(axis, value)| axis.curve(value));
        charts.extend(one.into_iter().map(|(title, chart)| {
            let parts = [title, place.clone()].into_iter().filter(|part| !part.is_empty());
            (parts.collect::<Vec<_>>().join(", "), chart)
        }));
    }
    charts
}

/// The common parts of a scenario's charts.
struct Frame<'a> {
    section: &'a Section,
    x_axis: Option<&'a Axis>,
    series: Option<&'a Axis>,
    /// Names along the x axis, if its values are not numbers.
    x_names: Option<Vec<String>>,
}

impl<'a> Frame<'a> {
    fn of(section: &'a Section) -> Self {
        let scenario = &section.scenario;
        let x_axis = scenario.figure.x.and_then(|axis| scenario.axes.get(axis));
        let series = scenario.figure.series.and_then(|axis| scenario.axes.get(axis));
        let x_names = x_axis
            .filter(|axis| !axis.is_numeric())
            .map(|axis| axis.values.iter().map(|value| value.text.clone()).collect::<Vec<_>>());
        Self { section, x_axis, series, x_names }
    }

    fn x_of(&self, index: usize) -> f64 {
        match (self.x_axis, &self.x_names) {
            (Some(axis), None) => axis.values.get(index).and_then(|v| v.number).unwrap_or(0.0),
            _ => index as f64,
        }
    }

    fn curve_name(&self, index: usize) -> String {
        self.series
            .and_then(|axis| Some(axis.curve(axis.values.get(index)?)))
            .unwrap_or_else(|| "all".to_owned())
    }

    /// The measurements of the runs of a point.
    fn values(&self, point: usize, metric: usize) -> Vec<f64> {
        let runs = self.section.results.points.get(point).map_or(&[][..], Vec::as_slice);
        runs.iter().filter_map(|run| run.at(metric)).collect()
    }

    /// A chart for each panel that has curves. If `shares` is set, the y axis shows shares of the runs over the values
    /// of the metric.
    fn panels(
        &self,
        metric: usize,
        shares: bool,
        curves: impl Fn(&summary::Panel) -> Vec<Curve>,
    ) -> Vec<(String, Chart)> {
        let scenario = &self.section.scenario;
        let metric_label = METRICS.get(metric).map_or_else(String::new, label);
        let x_label = self.x_axis.map_or_else(String::new, |axis| match axis.unit() {
            "" => axis.label.clone(),
            unit => format!("{} ({unit})", axis.label),
        });
        let mut charts = Vec::new();
        for panel in summary::panels(scenario) {
            let curves = curves(&panel);
            if curves.is_empty() {
                continue;
            }
            let [x_log, y_log] = scenario.figure.log;
            let (x_label, y_label, x_names, log) = match shares {
                true => {
                    let y_label = "share of the runs (%)".to_owned();
                    (metric_label.clone(), y_label, None, [y_log, false])
                }
                false => {
                    let log = [x_log && self.x_names.is_none(), y_log];
                    (x_label.clone(), metric_label.clone(), self.x_names.clone(), log)
                }
            };
            let chart = Chart {
                size: Size::SMALL,
                title: format!("{} {}", scenario.id, panel.title),
                x_label,
                x_names,
                y_label,
                curves,
                x_from_zero: false,
                from_zero: true,
                log,
            };
            charts.push((panel.title, chart));
        }
        charts
    }
}

/// The axis label of a metric: its name in words, and its unit.
fn label(metric: &Metric) -> String {
    let suffix = match metric.unit {
        "s" => "_s",
        "kbit/s" => "_kbit_s",
        "%" => "_percent",
        _ => "",
    };
    let words = metric.name.strip_suffix(suffix).unwrap_or(&metric.name).replace('_', " ");
    // A chart of chunks that is called chunks needs no unit.
    if metric.unit.is_empty() || words.starts_with(metric.unit) {
        words
    } else {
        format!("{words} ({})", metric.unit)
    }
}
