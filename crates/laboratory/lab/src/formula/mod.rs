//! Formulas over the results of a scenario.
//!
//! ```text
//! transfer_time_s[policy=AllRtxAlt, primary_loss=5 %]      mean over all runs of these points
//! median(m[..])  deviation(m[..])  quantile(m[..], 0.9)    other statistics of the same runs
//! share(failovers[pmr=0] <= 1)                             percent of the runs
//! gain(new, baseline)                                      100 * (baseline - new) / baseline
//! max(alternate_loss: e)  min(..)  average(..)             over the values of an axis,
//! max(alternate_loss >= 4 %: e)                            or over some of them
//! crossing(alternate_loss: e)                              where e first changes its sign
//! m[loss_path1_percent >= 2, loss_path1_percent < 4]       only the runs that observed this
//! + - * /  ( )  numbers  abs(e)  max(a, b)  min(a, b)
//! ```
//!
//! Brackets select values of the axes with `=`, `!=`, `<`, `<=`, `>`, `>=`, or several values
//! separated by `|`. Axes that neither the brackets nor `max` and the like name are pooled: the
//! runs of all their values count equally. A metric in place of an axis, compared with a number,
//! selects the runs whose own value satisfies the comparison. Runs can thus be grouped by their
//! observations, such as the observed loss, and not only by their settings.
//!
//! Means, and values computed from them, have the interval of the jackknife; medians, quantiles and
//! `crossing` have that of the bootstrap. The ends of `max`, `min` and `abs` come from the intervals
//! of the single numbers.

#[cfg(test)]
mod coverage;
mod evaluate;
mod extremes;
mod parse;

pub use evaluate::{Missing, Runs};

use crate::metrics::{METRICS, Metrics, Names};
use crate::runner;
use crate::scenario::Axis;
use crate::stats::Estimate;
use evaluate::{Context, Sample, Selected};
use extremes::{Measure, Term};

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    expression: Expression,
}

/// The values of an axis that count.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    axis: usize,
    values: Vec<usize>,
}

/// Runs of some points.
#[derive(Clone, Debug, PartialEq)]
struct Selection {
    /// Index of the metric.
    metric: usize,
    conditions: Vec<Condition>,
    /// Observations of the runs: index of a metric, and a comparison with a number.
    observed: Vec<(usize, Comparison, f64)>,
}

impl Selection {
    /// Whether it selects a run.
    fn wants(&self, run: &Metrics) -> bool {
        self.observed.iter().all(|(metric, comparison, limit)| {
            run.at(*metric).is_some_and(|value| comparison.holds(value, *limit))
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Statistic(Statistic, Selection),
    Negative(Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
    Absolute(Box<Self>),
    /// The new one and the baseline.
    Gain(Box<Self>, Box<Self>),
    Extreme {
        largest: bool,
        of: Vec<Self>,
    },
    Over(Aggregate, Condition, Box<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Mean,
    Deviation,
    Quantile(f64),
    /// Percent of the runs for which the comparison holds.
    Share(Comparison, f64),
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Largest,
    Smallest,
    Average,
    Crossing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Operator {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
        }
    }
}

impl Comparison {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }
}

impl Formula {
    /// Parses a formula over the points of some axes; names of metrics may contain one of `names`.
    ///
    /// # Errors
    /// Returns a description of the mistake.
    pub fn parse(text: &str, axes: &[Axis], names: &Names) -> Result<Self, String> {
        parse::parse(text, axes, names).map(|expression| Self { expression })
    }

    /// Indices of the points that it reads, in order.
    pub fn points(&self, runs: &Runs<'_>) -> Vec<usize> {
        let mut needed = vec![false; runs.scenario.points.len()];
        evaluate::needed(&self.expression, runs, &mut needed);
        needed.iter().enumerate().filter(|(_, needed)| **needed).map(|(at, _)| at).collect()
    }

    /// Whether it names a value other than the first of one of these axes, and so depends on their
    /// differences. Axes that it pools or does not name are ignored.
    pub fn tells_apart(&self, axes: &[usize]) -> bool {
        let mut found = false;
        self.expression.conditions(&mut |condition| {
            found |= axes.contains(&condition.axis) && condition.values.iter().any(|at| *at > 0);
        });
        found
    }

    /// Its value and interval.
    /// # Errors
    /// Fails if there are no such runs.
    pub fn evaluate(&self, runs: &Runs<'_>, confidence: f64) -> Result<Estimate, Missing> {
        let points = self.points(runs);
        let counts = || points.iter().map(|point| runs.count(*point));
        let most = counts().max().unwrap_or(0);
        let mut n = counts().min().unwrap_or(0);
        let selected = &Selected::default();
        let context = Context { runs, selected, sample: Sample::All, raised: None };
        let mut observed = Vec::new();
        self.expression.visit(&mut |_, selection| {
            if !selection.observed.is_empty() {
                observed.push(context.observed(selection, &Vec::new()));
            }
        });
        // The precision of a group depends on its number of runs, whatever points they belong to.
        if let Some(fewest) = observed.iter().min() {
            n = *fewest;
        }
        let seed = bootstrap_seed(&runs.scenario.id);
        let measure = Measure { context, points: &points, n, most, seed, confidence };
        let whole = Term::new(&self.expression);
        match self.expression.has_extreme() && self.expression.is_distributive() {
            true => measure.extreme(&whole),
            false => measure.smooth(&whole, confidence),
        }
    }

    /// Whether it is the place of a change of sign, which can be interpolated between any values of the axis.
    pub fn is_crossing(&self) -> bool {
        matches!(self.expression, Expression::Over(Aggregate::Crossing, ..))
    }

    /// The runs whose means it uses, except those of counts, by the index of the metric and the point.
    pub fn means(&self, runs: &Runs<'_>) -> Vec<(usize, usize, Vec<f64>)> {
        let mut found: Vec<(usize, usize, Vec<f64>)> = Vec::new();
        self.expression.visit(&mut |statistic, selection| {
            let metric = METRICS.get(selection.metric);
            if statistic != Statistic::Mean || metric.is_none_or(|metric| metric.is_count) {
                return;
            }
            for (point, all) in evaluate::runs_of(selection, runs) {
                let values: Vec<f64> = all
                    .iter()
                    .filter(|run| selection.wants(run))
                    .filter_map(|run| run.at(selection.metric))
                    .collect();
                found.push((selection.metric, point, values));
            }
        });
        found
    }
}

/// Whether all runs are equal, that is, not random.
fn all_alike(runs: &[Metrics]) -> bool {
    runs.windows(2).all(|pair| pair.first() == pair.last())
}

/// The scenario's name seeds the draws of the bootstrap, so that results are reproducible.
fn bootstrap_seed(id: &str) -> u64 {
    runner::seed(id, "bootstrap", 0)
}

impl Expression {
    fn visit<'a>(&'a self, found: &mut impl FnMut(Statistic, &'a Selection)) {
        match self {
            Self::Number(_) => {}
            Self::Statistic(statistic, selection) => found(*statistic, selection),
            Self::Negative(inner) | Self::Absolute(inner) | Self::Over(_, _, inner) => {
                inner.visit(found);
            }
            Self::Binary(_, left, right) | Self::Gain(left, right) => {
                left.visit(found);
                right.visit(found);
            }
            Self::Extreme { of, .. } => of.iter().for_each(|inner| inner.visit(found)),
        }
    }

    fn conditions(&self, found: &mut impl FnMut(&Condition)) {
        match self {
            Self::Number(_) => {}
            Self::Statistic(_, selection) => selection.conditions.iter().for_each(found),
            Self::Negative(inner) | Self::Absolute(inner) => inner.conditions(found),
            Self::Over(_, condition, inner) => {
                found(condition);
                inner.conditions(found);
            }
            Self::Binary(_, left, right) | Self::Gain(left, right) => {
                left.conditions(found);
                right.conditions(found);
            }
            Self::Extreme { of, .. } => of.iter().for_each(|inner| inner.conditions(found)),
        }
    }

    /// Whether it has a part of this kind.
    fn any(&self, is: &dyn Fn(&Self) -> bool) -> bool {
        is(self)
            || match self {
                Self::Number(_) | Self::Statistic(..) => false,
                Self::Negative(inner) | Self::Absolute(inner) | Self::Over(_, _, inner) => {
                    inner.any(is)
                }
                Self::Binary(_, left, right) | Self::Gain(left, right) => {
                    left.any(is) || right.any(is)
                }
                Self::Extreme { of, .. } => of.iter().any(|inner| inner.any(is)),
            }
    }

    fn has_extreme(&self) -> bool {
        self.any(&|part| match part {
            Self::Over(aggregate, ..) => {
                matches!(aggregate, Aggregate::Largest | Aggregate::Smallest)
            }
            Self::Absolute(_) | Self::Extreme { .. } => true,
            _ => false,
        })
    }

    fn has_crossing(&self) -> bool {
        self.any(&|part| matches!(part, Self::Over(Aggregate::Crossing, ..)))
    }

    /// Whether everything around its extremes can be moved into them: no search for a change of sign, and no division
    /// by an average of them.
    fn is_distributive(&self) -> bool {
        let averages = |part: &Self| {
            part.any(&|part| match part {
                Self::Over(Aggregate::Average, _, inner) => inner.has_extreme(),
                _ => false,
            })
        };
        !self.has_crossing()
            && !self.any(&|part| match part {
                Self::Binary(Operator::Divide, _, right) | Self::Gain(_, right) => averages(right),
                _ => false,
            })
    }

    /// Whether the value hardly changes when one of many runs changes: then the jackknife is valid.
    fn is_smooth(&self) -> bool {
        match self {
            Self::Number(_) => true,
            Self::Statistic(statistic, _) => !matches!(statistic, Statistic::Quantile(_)),
            Self::Negative(inner) => inner.is_smooth(),
            Self::Binary(_, left, right) | Self::Gain(left, right) => {
                left.is_smooth() && right.is_smooth()
            }
            Self::Over(Aggregate::Average, _, inner) => inner.is_smooth(),
            Self::Over(..) | Self::Absolute(_) | Self::Extreme { .. } => false,
        }
    }
}
