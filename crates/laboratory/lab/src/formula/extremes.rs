//! Intervals of formulas with `max`, `min` or `abs`.
//!
//! The largest of several estimates is too high, and by how much depends on how close the true numbers are, so that no
//! interval around it is right. Each end is computed from the intervals of the single numbers instead. Whichever number
//! is truly the largest, its own upper end covers it, so the upper end of the largest is the largest of the upper ends
//! (the intersection-union test, Berger 1982). Any of the numbers may be too high by chance, so for the lower end they
//! share the error (Bonferroni): each of m numbers may be wrong in one m-th of the cases. So far out, the tails of ratios
//! of skewed numbers are twice as heavy as those of Student's t, so each has half of that. For the smallest it is the
//! other way round, and `abs(x)` is the largest of `x`, `-x` and 0.
//!
//! Operations around an extreme are moved into it, so that what paired runs have in common cancels out:
//! `max(a, b) - c` is `max(a - c, b - c)`. The direction of a product or a quotient comes from the sign of its other
//! side. An average of extremes has the averages of their ends: normal quantiles are subadditive.

use std::rc::Rc;

use super::evaluate::{Bound, Context, Missing, Sample, gain};
use super::{Aggregate, Expression, Operator, Selection, Statistic};
use crate::bootstrap::{Shape, bootstrap};
use crate::formula::Runs;
use crate::metrics::METRICS;
use crate::stats::{self, Estimate};

/// How much heavier the far tails of ratios are than those of Student's t, by the simulation in `coverage`.
const RESERVE: f64 = 2.0;
/// An absolute value is not less.
static ZERO: Expression = Expression::Number(0.0);

/// An operation with two sides.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Binary(Operator),
    Gain,
}

impl Operation {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Binary(operator) => operator.of(left, right),
            Self::Gain => gain(left, right),
        }
    }
}

/// An operation around a term, from which the term is taken out.
#[derive(Clone, Debug)]
enum Outer<'a> {
    Negative,
    /// The term is on the left.
    Left(Operation, Rc<Term<'a>>),
    /// The term is on the right.
    Right(Operation, Rc<Term<'a>>),
}

impl<'a> Outer<'a> {
    fn other(&self) -> Option<&Term<'a>> {
        match self {
            Self::Negative => None,
            Self::Left(_, other) | Self::Right(_, other) => Some(other),
        }
    }

    /// Whether the operation's value rises with the term, if the other side has this value.
    fn rises(&self, other: f64) -> bool {
        use Operator::{Add, Divide, Multiply, Subtract};
        match self {
            Self::Negative | Self::Right(Operation::Binary(Subtract), _) => false,
            Self::Left(Operation::Binary(Add | Subtract), _)
            | Self::Right(Operation::Binary(Add), _) => true,
            Self::Left(Operation::Binary(Multiply | Divide), _)
            | Self::Right(Operation::Binary(Multiply) | Operation::Gain, _) => other >= 0.0,
            Self::Left(Operation::Gain, _) | Self::Right(Operation::Binary(Divide), _) => {
                other < 0.0
            }
        }
    }
}

/// A part of a formula, with the values of the axes that are bound there and the operations around it, the outermost
/// first.
#[derive(Clone, Debug)]
pub(super) struct Term<'a> {
    inner: &'a Expression,
    bound: Bound,
    outer: Vec<Outer<'a>>,
}

impl<'a> Term<'a> {
    pub(super) fn new(inner: &'a Expression) -> Self {
        Self { inner, bound: Vec::new(), outer: Vec::new() }
    }

    /// A part of it.
    fn part(&self, inner: &'a Expression) -> Self {
        Self { inner, ..self.clone() }
    }

    fn inside(mut self, outer: Outer<'a>) -> Self {
        self.outer.push(outer);
        self
    }

    fn at(mut self, axis: usize, value: usize) -> Self {
        self.bound.push((axis, value));
        self
    }

    /// Another part at the same place, without the operations around this one.
    fn beside(&self, inner: &'a Expression) -> Rc<Self> {
        Rc::new(Self { inner, bound: self.bound.clone(), outer: Vec::new() })
    }

    fn others(&self) -> impl Iterator<Item = &Self> {
        self.outer.iter().filter_map(Outer::other)
    }

    fn is_constant(&self) -> bool {
        matches!(self.inner, Expression::Number(_)) && self.others().all(Self::is_constant)
    }

    fn is_smooth(&self) -> bool {
        self.inner.is_smooth() && self.others().all(Self::is_smooth)
    }

    fn has_extreme(&self) -> bool {
        self.inner.has_extreme() || self.others().any(Self::has_extreme)
    }

    fn visit(&self, found: &mut impl FnMut(Statistic, &'a Selection)) {
        self.inner.visit(found);
        self.visit_others(found);
    }

    fn visit_others(&self, found: &mut dyn FnMut(Statistic, &'a Selection)) {
        for other in self.others() {
            other.inner.visit(&mut |statistic, selection| found(statistic, selection));
            other.visit_others(found);
        }
    }

    fn value(&self, context: &Context<'_>) -> Result<f64, Missing> {
        let inner = context.value(self.inner, &mut self.bound.clone())?;
        self.outer.iter().rev().try_fold(inner, |value, outer| {
            Ok(match outer {
                Outer::Negative => -value,
                Outer::Left(operation, other) => operation.of(value, other.value(context)?),
                Outer::Right(operation, other) => operation.of(other.value(context)?, value),
            })
        })
    }

    /// The same term, taken from an operation around it whose other side has an extreme: then that side is inside.
    fn turned(mut self) -> Option<Self> {
        let has_extreme = |outer: &Outer<'a>| outer.other().is_some_and(Self::has_extreme);
        let at = self.outer.iter().rposition(has_extreme)?;
        let inside = self.outer.split_off(at + 1);
        let operation = self.outer.pop()?;
        let this = Rc::new(Self { inner: self.inner, bound: self.bound, outer: inside });
        let (other, around) = match operation {
            Outer::Negative => return None,
            Outer::Left(operation, other) => (other, Outer::Right(operation, this)),
            Outer::Right(operation, other) => (other, Outer::Left(operation, this)),
        };
        let mut outer = self.outer;
        outer.push(around);
        outer.extend(other.outer.iter().cloned());
        Some(Self { inner: other.inner, bound: other.bound.clone(), outer })
    }
}

/// What intervals are computed from.
pub(super) struct Measure<'a> {
    pub(super) context: Context<'a>,
    /// The points that the formula reads.
    pub(super) points: &'a [usize],
    /// The smallest and the largest number of runs of a point.
    pub(super) n: usize,
    pub(super) most: usize,
    /// Seed of the bootstrap's draws.
    pub(super) seed: u64,
    pub(super) confidence: f64,
}

impl<'a> Measure<'a> {
    fn value(&self, term: &Term<'_>, sample: Sample<'_>) -> Result<f64, Missing> {
        let context = Context { sample, ..self.context };
        let value = term.value(&context)?;
        if value.is_finite() { Ok(value) } else { Err(Missing::Value) }
    }

    /// The interval of an extreme. Both its ends are wrong in at most `1 - confidence` of all cases.
    pub(super) fn extreme(&self, term: &Term<'a>) -> Result<Estimate, Missing> {
        let value = self.value(term, Sample::All)?;
        let (low, high) = (self.end(term, false, 1.0)?, self.end(term, true, 1.0)?);
        let known = self.n >= 2 && low.is_finite() && high.is_finite();
        Ok(Estimate { value, interval: known.then_some([low, high]), n: self.n })
    }

    /// An end of a term's interval, if this number of terms share its error.
    fn end(&self, term: &Term<'a>, upper: bool, shares: f64) -> Result<f64, Missing> {
        use Expression as E;
        if !term.inner.has_extreme() {
            if let Some(turned) = term.clone().turned() {
                return self.end(&turned, upper, shares);
            }
            let shares = if shares > 1.0 { shares * RESERVE } else { shares };
            let estimate = self.smooth(term, 1.0 - (1.0 - self.confidence) / shares)?;
            return Ok(if upper { estimate.high() } else { estimate.low() });
        }
        match term.inner {
            E::Negative(inner) => {
                self.end(&term.part(inner).inside(Outer::Negative), upper, shares)
            }
            E::Binary(operator, left, right) => {
                self.operation(term, Operation::Binary(*operator), [left, right], upper, shares)
            }
            E::Gain(new, baseline) => {
                self.operation(term, Operation::Gain, [new, baseline], upper, shares)
            }
            E::Absolute(inner) => {
                let part = term.part(inner);
                let mut parts = vec![part.clone(), part.inside(Outer::Negative)];
                let zero = term.part(&ZERO);
                parts.extend(Some(zero).filter(Term::is_constant));
                self.chosen(term, true, parts, upper, shares)
            }
            E::Extreme { largest, of } => {
                let parts = of.iter().map(|inner| term.part(inner)).collect();
                self.chosen(term, *largest, parts, upper, shares)
            }
            E::Over(aggregate, condition, inner) => {
                let parts: Vec<_> = condition
                    .values
                    .iter()
                    .map(|value| term.part(inner).at(condition.axis, *value))
                    .collect();
                match aggregate {
                    Aggregate::Largest => self.chosen(term, true, parts, upper, shares),
                    Aggregate::Smallest => self.chosen(term, false, parts, upper, shares),
                    Aggregate::Average => {
                        stats::mean(&self.ends(&self.existing(parts)?, upper, shares)?)
                            .ok_or(Missing::Point)
                    }
                    Aggregate::Crossing => Err(Missing::Value),
                }
            }
            E::Number(_) | E::Statistic(..) => Err(Missing::Value),
        }
    }

    /// Goes into the side of an operation that has an extreme.
    fn operation(
        &self,
        term: &Term<'a>,
        operation: Operation,
        [left, right]: [&'a Expression; 2],
        upper: bool,
        shares: f64,
    ) -> Result<f64, Missing> {
        let part = match left.has_extreme() {
            true => term.part(left).inside(Outer::Left(operation, term.beside(right))),
            false => term.part(right).inside(Outer::Right(operation, term.beside(left))),
        };
        self.end(&part, upper, shares)
    }

    /// The end of the largest or the smallest of several terms.
    fn chosen(
        &self,
        whole: &Term<'a>,
        largest: bool,
        parts: Vec<Term<'a>>,
        upper: bool,
        shares: f64,
    ) -> Result<f64, Missing> {
        let parts = self.existing(parts)?;
        // Within '1 - max(a, b)' the largest makes the smallest.
        let mut largest = largest;
        for outer in &whole.outer {
            let other = outer.other().map_or(Ok(0.0), |other| self.value(other, Sample::All))?;
            largest ^= !outer.rises(other);
        }
        let shared = parts.iter().filter(|part| !part.is_constant()).count().max(1) as f64;
        let shares = if largest == upper { shares } else { shares * shared };
        let ends = self.ends(&parts, upper, shares)?.into_iter();
        Ok(match largest {
            true => ends.fold(f64::NEG_INFINITY, f64::max),
            false => ends.fold(f64::INFINITY, f64::min),
        })
    }

    /// Without combinations that the scenario skips, or that have no value.
    fn existing(&self, parts: Vec<Term<'a>>) -> Result<Vec<Term<'a>>, Missing> {
        let mut existing = Vec::new();
        for part in parts {
            match self.value(&part, Sample::All) {
                Ok(_) => existing.push(part),
                Err(Missing::Point | Missing::Value) => {}
                Err(other) => return Err(other),
            }
        }
        if existing.is_empty() { Err(Missing::Point) } else { Ok(existing) }
    }

    fn ends(&self, parts: &[Term<'a>], upper: bool, shares: f64) -> Result<Vec<f64>, Missing> {
        parts.iter().map(|part| self.end(part, upper, shares)).collect()
    }

    /// The number of a term without an extreme: the jackknife's interval if it hardly changes when one of many runs
    /// changes, otherwise the bootstrap's.
    pub(super) fn smooth(&self, term: &Term<'_>, confidence: f64) -> Result<Estimate, Missing> {
        let estimate = if term.is_smooth() {
            stats::jackknife(self.n, self.most, confidence, |left_out| {
                self.value(term, left_out.map_or(Sample::All, Sample::Without))
            })?
        } else {
            let shape = match term.inner.has_crossing() || term.inner.has_extreme() {
                true => Shape::Basic,
                false => Shape::Quantile,
            };
            bootstrap(shape, self.n, self.most, confidence, self.seed, |drawn| {
                self.value(term, drawn.map_or(Sample::All, Sample::Drawn))
            })?
        };
        let mut estimate = self.raised(term, estimate, confidence);
        if let (Expression::Statistic(Statistic::Share(..), selection), true) =
            (term.inner, term.outer.is_empty())
        {
            let values = self.context.observed(selection, &term.bound);
            let [low, high] = stats::share_interval(estimate.value / 100.0, values, confidence);
            estimate = estimate.reaching(100.0 * low).reaching(100.0 * high);
        }
        Ok(estimate)
    }

    /// Widens the estimate for unseen events: zeros have no spread, but a few of them prove little. Runs without
    /// randomness, which are all equal, do prove it.
    fn raised(&self, term: &Term<'_>, mut estimate: Estimate, confidence: f64) -> Estimate {
        let Runs { points, .. } = self.context.runs;
        let mut all = self.points.iter().filter_map(|point| points.get(*point));
        if estimate.interval.is_none() || all.all(|runs| super::all_alike(runs)) {
            return estimate;
        }
        let mut selections = Vec::new();
        term.visit(&mut |statistic, selection| {
            let counts = METRICS.get(selection.metric).is_some_and(|metric| metric.is_count);
            match statistic {
                Statistic::Mean if counts => selections.push(selection),
                Statistic::Share(..) => selections.push(selection),
                _ => {}
            }
        });
        for selection in selections {
            let context = Context { raised: Some((selection, confidence)), ..self.context };
            if let Some(value) = term.value(&context).ok().filter(|value| value.is_finite()) {
                estimate = estimate.reaching(value);
            }
        }
        estimate
    }
}
