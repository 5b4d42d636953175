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
//! + - * /  ( )  numbers  abs(e)  max(a, b)  min(a, b)
//! ```
//!
//! In brackets stand the axes' values: `=`, `!=`, `<`, `<=`, `>`, `>=`, or several values with
//! `|` between them. Axes that neither the brackets nor `max` and the like name are pooled: the
//! runs of all their values count alike.

mod evaluate;
mod parse;

pub use evaluate::{Missing, Runs};

use crate::scenario::Axis;
use crate::stats::{self, Estimate};

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    expression: Expression,
}

/// Which values of an axis count.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    axis: usize,
    values: Vec<usize>,
}

/// Runs of some points.
#[derive(Clone, Debug, PartialEq)]
struct Selection {
    metric: String,
    conditions: Vec<Condition>,
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
    /// Reads a formula over the points of some axes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, axes: &[Axis]) -> Result<Self, String> {
        parse::parse(text, axes).map(|expression| Self { expression })
    }

    /// The metrics that it reads.
    pub fn metrics(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.expression.visit(&mut |selection| found.push(selection.metric.as_str()));
        found
    }

    /// Indices of the points that it reads, in order.
    pub fn points(&self, runs: &Runs<'_>) -> Vec<usize> {
        let mut needed = vec![false; runs.scenario.points.len()];
        evaluate::needed(&self.expression, runs, &mut needed);
        needed.iter().enumerate().filter(|(_, needed)| **needed).map(|(at, _)| at).collect()
    }

    /// Its value and interval.
    ///
    /// # Errors
    /// Runs that there are none of.
    pub fn evaluate(&self, runs: &Runs<'_>, confidence: f64) -> Result<Estimate, Missing> {
        let points = self.points(runs);
        let counts = || points.iter().map(|point| runs.count(*point));
        let (n, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let mut estimate = stats::jackknife(n, most, confidence, |left_out| {
            evaluate::evaluate(&self.expression, runs, left_out)
        })?;
        // Runs that all agree leave the jackknife no spread, however few they are.
        if let Expression::Statistic(Statistic::Share(..), _) = self.expression
            && let Some(half) = &mut estimate.half
        {
            let values = points.iter().map(|point| runs.count(*point)).sum();
            *half = half.max(100.0 * stats::share_half(estimate.value / 100.0, values, confidence));
        }
        Ok(estimate)
    }
}

impl Expression {
    fn visit<'a>(&'a self, found: &mut impl FnMut(&'a Selection)) {
        match self {
            Self::Number(_) => {}
            Self::Statistic(_, selection) => found(selection),
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
}
