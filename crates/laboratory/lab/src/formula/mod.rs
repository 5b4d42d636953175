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
//! Means, and values computed from them, have the interval of the jackknife. Formulas with a
//! median, a quantile, `max`, `min`, `abs` or `crossing` have that of the bootstrap.

mod evaluate;
mod parse;

pub use evaluate::{Missing, Runs};

use crate::bootstrap::{Shape, bootstrap};
use crate::metrics::{METRICS, Metrics, Names};
use crate::runner;
use crate::scenario::Axis;
use crate::stats::{self, Estimate};
use evaluate::{Context, Sample, Selected};

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
        let all = Context { runs, selected, sample: Sample::All, raised: None };
        let mut observed = Vec::new();
        self.expression.visit(&mut |_, selection| {
            if !selection.observed.is_empty() {
                observed.push(all.observed(selection));
            }
        });
        // The precision of a group depends on its number of runs, whatever points they belong to.
        if let Some(fewest) = observed.iter().min() {
            n = *fewest;
        }
        let of = |sample: Sample<'_>| {
            Context { runs, selected, sample, raised: None }.evaluate(&self.expression)
        };
        let estimate = if self.expression.is_smooth() {
            stats::jackknife(n, most, confidence, |left_out| {
                of(left_out.map_or(Sample::All, Sample::Without))
            })?
        } else {
            let seed = bootstrap_seed(&runs.scenario.id);
            bootstrap(self.expression.shape(), n, most, confidence, seed, |drawn| {
                of(drawn.map_or(Sample::All, Sample::Drawn))
            })?
        };
        let mut estimate = self.raised(runs, &points, estimate, confidence);
        if let Expression::Statistic(Statistic::Share(..), selection) = &self.expression {
            let values = all.observed(selection);
            let [low, high] = stats::share_interval(estimate.value / 100.0, values, confidence);
            estimate = estimate.reaching(100.0 * low).reaching(100.0 * high);
        }
        Ok(estimate)
    }

    /// Widens the estimate for unseen events: zeros have no spread, but a few of them prove little.
    /// Runs without randomness, which are all equal, do prove it.
    fn raised(
        &self,
        runs: &Runs<'_>,
        points: &[usize],
        mut estimate: Estimate,
        confidence: f64,
    ) -> Estimate {
        let alike = points.iter().filter_map(|point| runs.points.get(*point));
        if estimate.interval.is_none() || alike.clone().all(|runs| all_alike(runs)) {
            return estimate;
        }
        let selected = Selected::default();
        let mut selections = Vec::new();
        self.expression.visit(&mut |statistic, selection| {
            let counts = METRICS.get(selection.metric).is_some_and(|metric| metric.is_count);
            match statistic {
                Statistic::Mean if counts => selections.push(selection),
                Statistic::Share(..) => selections.push(selection),
                _ => {}
            }
        });
        for selection in selections {
            let raised = Some((selection, confidence));
            let context = Context { runs, selected: &selected, sample: Sample::All, raised };
            if let Ok(value) = context.evaluate(&self.expression) {
                estimate = estimate.reaching(value);
            }
        }
        estimate
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

    /// The kind of its bootstrap interval: that of extremes, if it contains one.
    fn shape(&self) -> Shape {
        let mut quantiles = false;
        self.visit(&mut |statistic, _| quantiles |= matches!(statistic, Statistic::Quantile(_)));
        match self.has_extreme() || !quantiles {
            true => Shape::Extreme,
            false => Shape::Quantile,
        }
    }

    fn has_extreme(&self) -> bool {
        match self {
            Self::Number(_) | Self::Statistic(..) => false,
            Self::Negative(inner) | Self::Over(Aggregate::Average, _, inner) => inner.has_extreme(),
            Self::Binary(_, left, right) | Self::Gain(left, right) => {
                left.has_extreme() || right.has_extreme()
            }
            Self::Over(..) | Self::Absolute(_) | Self::Extreme { .. } => true,
        }
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
