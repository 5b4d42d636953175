//! Evaluates a formula over runs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::{Aggregate, Condition, Expression, Selection, Statistic};
use crate::metrics::Metrics;
use crate::scenario::Scenario;
use crate::stats;

/// The runs of a scenario's points.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The runs of each point, in the order of their numbers.
    pub points: &'a [Vec<Metrics>],
}

/// Why a formula has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The scenario does not have this point.
    #[error("the scenario leaves these points out")]
    Point,
    /// The points were not run, or no run measured it.
    #[error("no run has measured it")]
    Run,
    /// There is no number: a division by zero, or no change of sign.
    #[error("it has no value")]
    Value,
}

/// Which runs a value is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sample<'a> {
    /// All.
    All,
    /// All except those with this number.
    Without(usize),
    /// Those with these numbers, each as often as listed.
    Drawn(&'a [usize]),
}

impl Runs<'_> {
    /// Number of runs of a point.
    pub fn count(&self, point: usize) -> usize {
        self.points.get(point).map_or(0, Vec::len)
    }
}

/// The axes bound by enclosing functions such as `max` and `min`, with their values.
pub(super) type Bound = Vec<(usize, usize)>;

/// The points that match a selection.
fn selected<'a>(
    selection: &'a Selection,
    runs: &'a Runs<'_>,
    bound: &'a Bound,
) -> impl Iterator<Item = usize> + 'a {
    let fits = move |at: &[usize]| {
        at.iter().enumerate().all(|(axis, value)| {
            match selection.conditions.iter().find(|condition| condition.axis == axis) {
                Some(condition) => condition.values.contains(value),
                // The innermost binding counts.
                None => match bound.iter().rev().find(|(name, _)| *name == axis) {
                    Some((_, wanted)) => wanted == value,
                    None => true,
                },
            }
        })
    };
    runs.scenario
        .points
        .iter()
        .enumerate()
        .filter(move |(_, point)| fits(&point.at))
        .map(|(index, _)| index)
}

/// Cache of the points that each selection matches with given bindings of axes. They are the same
/// in all of the thousand draws of a bootstrap.
#[derive(Default)]
pub(super) struct Selected(RefCell<HashMap<Key, Rc<[usize]>>>);

/// A selection, by its address in the formula, and the values of bound axes.
type Key = (*const Selection, Bound);

impl Selected {
    fn points(&self, selection: &Selection, runs: &Runs<'_>, bound: &Bound) -> Rc<[usize]> {
        let key = (std::ptr::from_ref(selection), bound.clone());
        let mut known = self.0.borrow_mut();
        let points = known.entry(key).or_insert_with(|| selected(selection, runs, bound).collect());
        Rc::clone(points)
    }
}

/// The inputs of a formula.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) runs: &'a Runs<'a>,
    pub(super) selected: &'a Selected,
    pub(super) sample: Sample<'a>,
    /// Events that no run has seen may still happen as often as this confidence allows. The
    /// selection is raised to that frequency because its values are all 0 (or shares all 0 or 100
    /// %).
    pub(super) raised: Option<(&'a Selection, f64)>,
}

impl Context<'_> {
    /// The value of an expression where these axes are bound.
    pub(super) fn value(&self, expression: &Expression, bound: &mut Bound) -> Result<f64, Missing> {
        let mut of = |inner: &Expression| self.value(inner, bound);
        Ok(match expression {
            Expression::Number(number) => *number,
            Expression::Statistic(statistic, selection) => {
                return self.measure(*statistic, selection, bound);
            }
            Expression::Negative(inner) => -of(inner)?,
            Expression::Absolute(inner) => of(inner)?.abs(),
            Expression::Binary(operator, left, right) => {
                let (left, right) = (of(left)?, of(right)?);
                operator.of(left, right)
            }
            Expression::Gain(new, baseline) => {
                let (new, baseline) = (of(new)?, of(baseline)?);
                gain(new, baseline)
            }
            Expression::Extreme { largest, of: inner } => {
                let values = inner.iter().map(of).collect::<Result<Vec<f64>, _>>()?;
                extreme(*largest, values.into_iter())
            }
            Expression::Over(aggregate, condition, inner) => {
                return self.over(*aggregate, condition, inner, bound);
            }
        })
    }

    fn over(
        &self,
        aggregate: Aggregate,
        condition: &Condition,
        inner: &Expression,
        bound: &mut Bound,
    ) -> Result<f64, Missing> {
        let mut values = Vec::new();
        for index in &condition.values {
            bound.push((condition.axis, *index));
            let result = self.value(inner, bound);
            bound.pop();
            match result {
                Ok(value) => values.push((*index, value)),
                // A combination that the scenario skips is not part of the axis here.
                Err(Missing::Point) => {}
                Err(other) => return Err(other),
            }
        }
        if values.is_empty() {
            return Err(Missing::Point);
        }
        let numbers = values.iter().map(|(_, value)| *value);
        Ok(match aggregate {
            Aggregate::Largest => extreme(true, numbers),
            Aggregate::Smallest => extreme(false, numbers),
            Aggregate::Average => numbers.sum::<f64>() / values.len() as f64,
            Aggregate::Crossing => return crossing(self.runs, condition.axis, &values),
        })
    }

    /// The values of all points that match a selection.
    fn values(&self, selection: &Selection, bound: &Bound) -> Result<Vec<f64>, Missing> {
        let mut values = Vec::new();
        let points = self.selected.points(selection, self.runs, bound);
        for point in points.iter().copied() {
            let before = values.len();
            let runs = self.runs.points.get(point).map_or(&[][..], Vec::as_slice);
            let mut take = |run: &Metrics| {
                values.extend(run.at(selection.metric).filter(|_| selection.wants(run)));
            };
            match self.sample {
                Sample::All => runs.iter().for_each(take),
                Sample::Without(left_out) => {
                    let kept = runs.iter().enumerate().filter(|(number, _)| *number != left_out);
                    kept.for_each(|(_, run)| take(run));
                }
                Sample::Drawn(drawn) => {
                    drawn.iter().filter_map(|number| runs.get(*number)).for_each(take);
                }
            }
            // A point may have no run with the observation, but it must have runs.
            if values.len() == before && selection.observed.is_empty() {
                return Err(Missing::Run);
            }
        }
        match (points.is_empty(), values.is_empty()) {
            (true, _) => Err(Missing::Point),
            (_, true) => Err(Missing::Run),
            _ => Ok(values),
        }
    }

    fn measure(
        &self,
        statistic: Statistic,
        selection: &Selection,
        bound: &Bound,
    ) -> Result<f64, Missing> {
        let values = self.values(selection, bound)?;
        let raised = self
            .raised
            .filter(|(raised, _)| std::ptr::eq(*raised, selection))
            .map(|(_, confidence)| confidence);
        let found = match statistic {
            Statistic::Mean => match raised {
                Some(confidence) if values.iter().all(|value| *value == 0.0) => {
                    Some(stats::most_of_none(values.len(), confidence))
                }
                _ => stats::mean(&values),
            },
            Statistic::Deviation => stats::deviation(&values),
            Statistic::Quantile(share) => stats::quantile(&values, share),
            Statistic::Share(comparison, limit) => {
                let hits = values.iter().filter(|value| comparison.holds(**value, limit)).count();
                let share = hits as f64 / values.len() as f64;
                let [low, high] =
                    raised.map_or([share; 2], |c| stats::share_interval(share, values.len(), c));
                Some(
                    100.0
                        * if share == 0.0 {
                            high
                        } else if share == 1.0 {
                            low
                        } else {
                            share
                        },
                )
            }
            Statistic::Count => Some(values.len() as f64),
        };
        found.ok_or(Missing::Run)
    }

    /// The number of runs that match a selection, if it is restricted to observations.
    pub(super) fn observed(&self, selection: &Selection, bound: &Bound) -> usize {
        self.values(selection, bound).map_or(0, |values| values.len())
    }
}

/// How much less something is than a baseline, in percent.
pub(super) fn gain(new: f64, baseline: f64) -> f64 {
    100.0 * (baseline - new) / baseline
}

/// The points that a selection matches wherever it is used, with their runs.
pub(super) fn runs_of<'a>(selection: &Selection, runs: &Runs<'a>) -> Vec<(usize, &'a [Metrics])> {
    let all = |point: usize| (point, runs.points.get(point).map_or(&[][..], Vec::as_slice));
    selected(selection, runs, &Vec::new()).map(all).collect()
}

fn extreme(largest: bool, values: impl Iterator<Item = f64>) -> f64 {
    if largest {
        values.fold(f64::NEG_INFINITY, f64::max)
    } else {
        values.fold(f64::INFINITY, f64::min)
    }
}

/// Where the values first change their sign along an axis of numbers, interpolated.
fn crossing(runs: &Runs<'_>, axis: usize, values: &[(usize, f64)]) -> Result<f64, Missing> {
    let axis = runs.scenario.axes.get(axis).ok_or(Missing::Value)?;
    let number = |index: usize| axis.values.get(index).and_then(|value| value.number);
    for pair in values.windows(2) {
        let [(left, a), (right, b)] = *pair else { continue };
        if a * b <= 0.0 && a != b {
            let (left, right) =
                (number(left).ok_or(Missing::Value)?, number(right).ok_or(Missing::Value)?);
            return Ok(left + (right - left) * a / (a - b));
        }
    }
    Err(Missing::Value)
}

/// Marks the points that an expression reads.
pub(super) fn needed(expression: &Expression, runs: &Runs<'_>, found: &mut [bool]) {
    mark(expression, runs, &mut Vec::new(), found);
}

fn mark(expression: &Expression, runs: &Runs<'_>, bound: &mut Bound, found: &mut [bool]) {
    match expression {
        Expression::Number(_) => {}
        Expression::Statistic(_, selection) => {
            for point in selected(selection, runs, bound) {
                if let Some(found) = found.get_mut(point) {
                    *found = true;
                }
            }
        }
        Expression::Negative(inner) | Expression::Absolute(inner) => {
            mark(inner, runs, bound, found);
        }
        Expression::Binary(_, left, right) | Expression::Gain(left, right) => {
            mark(left, runs, bound, found);
            mark(right, runs, bound, found);
        }
        Expression::Extreme { of, .. } => {
            of.iter().for_each(|inner| mark(inner, runs, bound, found));
        }
        Expression::Over(_, condition, inner) => {
            for index in &condition.values {
                bound.push((condition.axis, *index));
                mark(inner, runs, bound, found);
                bound.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::Formula;
    use crate::metrics::Names;
    use crate::scenario::tests::{read, text};

    /// Runs whose transfer time is 10 times the loss, plus 5 for Alt, plus the run's number.
    fn runs(scenario: &Scenario, count: usize) -> Vec<Vec<Metrics>> {
        let time = |at: &[usize], run: usize| [10.0, 30.0][at[0]] + [0.0, 5.0][at[1]] + run as f64;
        let metrics = |at: &[usize], run| {
            Metrics::default().with("transfer_time_s", time(at, run)).with("failovers", run as f64)
        };
        let points = scenario.points.iter();
        points.map(|point| (0..count).map(|run| metrics(&point.at, run)).collect()).collect()
    }

    fn evaluate(formula: &str) -> Result<f64, String> {
        let scenario = read(&text(), &[]).unwrap();
        let points = runs(&scenario, 3);
        let runs = Runs { scenario: &scenario, points: &points };
        let formula = Formula::parse(formula, &scenario.axes, &Names::default())?;
        let estimate = formula.evaluate(&runs, 0.9).map_err(|missing| missing.to_string())?;
        Ok(estimate.value)
    }

    #[test]
    fn formulas_have_values() {
        let cases = [
            ("1 + 2 * 3 - 4 / (1 + 1)", 5.0),
            ("-2 * -(3)", 6.0),
            ("transfer_time_s[loss=1 %, policy=Same]", 11.0),
            ("transfer_time_s[loss=1, policy = Same]", 11.0),
            ("mean(transfer_time_s[loss=3 %, policy=Alt])", 36.0),
            ("transfer_time_s[policy=Same]", 21.0),
            ("transfer_time_s[loss=1 %|3 %, policy!=Alt]", 21.0),
            ("transfer_time_s[loss>=3 %, policy=Same]", 31.0),
            ("median(transfer_time_s[loss=1 %, policy=Same])", 11.0),
            ("quantile(transfer_time_s[loss=1 %, policy=Same], 1)", 12.0),
            ("deviation(transfer_time_s[loss=1 %, policy=Same])", 1.0),
            ("count(transfer_time_s)", 12.0),
            ("share(failovers <= 1)", 200.0 / 3.0),
            ("gain(15, 20)", 25.0),
            ("max(loss: transfer_time_s[policy=Alt])", 36.0),
            ("min(loss: transfer_time_s[policy=Alt])", 16.0),
            ("min(loss > 1 %: transfer_time_s[policy=Alt])", 36.0),
            ("average(loss: max(policy: transfer_time_s))", 26.0),
            ("crossing(loss: transfer_time_s[policy=Same] - 21)", 2.0),
            ("max(1, 7, 3) - min(1, 7) + abs(-2)", 8.0),
            ("max(loss: gain(transfer_time_s[policy=Same], transfer_time_s[policy=Alt]))", 31.25),
            // Runs selected by their observations, of all points or of some.
            ("transfer_time_s[failovers >= 1, failovers < 2, loss=1 %, policy=Same]", 11.0),
            ("median(transfer_time_s[policy=Same, failovers <= 0])", 20.0),
            ("count(transfer_time_s[failovers > 0, transfer_time_s < 12.5])", 2.0),
        ];
        for (formula, expected) in cases {
            let value = evaluate(formula).unwrap_or_else(|error| panic!("{formula}: {error}"));
            assert!((value - expected).abs() < 1e-9, "{formula} = {value}, not {expected}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        let cases = [
            ("", "a name or number is missing"),
            ("1 +", "a name or number is missing"),
            ("(1", "')' is missing"),
            ("1 2", "'2' is not understood"),
            ("twice(1)", "there is no function 'twice'"),
            ("transfer_time_s[gain=1]", "there is no axis 'gain'"),
            ("transfer_time_s[loss=2 %]", "has no value '2 %': 1 %, 3 %"),
            ("transfer_time_s[policy>Same]", "not a single number"),
            ("transfer_time_s[loss=1 %, loss=3 %]", "select no value"),
            ("quantile(transfer_time_s, 2)", "outside 0 to 1"),
            ("average(1, 2)", "'axis:' is missing"),
            ("longest_gap_s", "no run has measured it"),
            ("longest_gap", "there is no metric 'longest_gap': transfer_time_s, "),
            ("transfer_time_s[failovers >= x]", "a number is missing"),
            ("transfer_time_s[failovers > 7]", "no run has measured it"),
            ("crossing(loss: transfer_time_s)", "it has no value"),
            ("1 / 0", "it has no value"),
        ];
        for (formula, reason) in cases {
            let error = evaluate(formula).unwrap_err();
            assert!(error.contains(reason), "{formula}: {error}");
        }
        let deep = "(".repeat(5000);
        assert!(evaluate(&deep).unwrap_err().contains("nested too deeply"));
        assert!(evaluate(&"-".repeat(5000)).unwrap_err().contains("nested too deeply"));
    }

    #[test]
    fn only_the_points_it_reads_are_needed() {
        let scenario = read(&text(), &[]).unwrap();
        let runs = Runs { scenario: &scenario, points: &[] };
        let points = |formula| {
            Formula::parse(formula, &scenario.axes, &Names::default()).unwrap().points(&runs)
        };
        assert_eq!(points("transfer_time_s[policy=Alt]"), [1, 3]);
        assert_eq!(points("max(loss = 3 %: transfer_time_s[policy=Alt])"), [3]);
        assert_eq!(points("1"), [] as [usize; 0]);
    }

    #[test]
    fn what_runs_have_in_common_cancels_out() {
        let scenario = read(&text(), &[]).unwrap();
        let points = runs(&scenario, 5);
        let runs = Runs { scenario: &scenario, points: &points };
        let formula = |text| Formula::parse(text, &scenario.axes, &Names::default()).unwrap();
        // The same number is added to runs of the same number: the difference has no spread.
        let difference = formula(
            "transfer_time_s[loss=1 %, policy=Alt] - transfer_time_s[loss=1 %, policy=Same]",
        );
        let estimate = difference.evaluate(&runs, 0.9).unwrap();
        assert!((estimate.value - 5.0).abs() < 1e-9 && estimate.half().unwrap() < 1e-9);
        let alone = formula("transfer_time_s[loss=1 %, policy=Alt]").evaluate(&runs, 0.9).unwrap();
        assert!(alone.half().unwrap() > 1.0);
    }

    #[test]
    fn medians_have_intervals_of_the_bootstrap_and_extremes_those_of_their_parts() {
        let scenario = read(&text(), &[]).unwrap();
        let points = runs(&scenario, 21);
        let runs = Runs { scenario: &scenario, points: &points };
        let formula = |text| Formula::parse(text, &scenario.axes, &Names::default()).unwrap();
        let of = |text| formula(text).evaluate(&runs, 0.9).unwrap();
        // The median of 0 to 20, by order statistics: between the sixth and the sixteenth.
        let median = of("median(failovers[loss=1 %, policy=Same])");
        assert_eq!(median.value, 10.0);
        assert!((5.0..9.0).contains(&median.low()) && (11.0..15.0).contains(&median.high()));
        assert_eq!(median, of("median(failovers[loss=1 %, policy=Same])"));
        let largest = of("max(loss: transfer_time_s[policy=Alt])");
        let mean = of("transfer_time_s[policy=Alt, loss=3 %]");
        // One of two is the largest for certain: only the lower end pays for the other one.
        assert_eq!(largest.value, mean.value);
        assert!((largest.high() - mean.high()).abs() < 1e-6);
        assert!(
            largest.low() < mean.low() && largest.half().unwrap() < 1.25 * mean.half().unwrap()
        );
    }

    #[test]
    fn what_is_around_an_extreme_is_moved_into_it() {
        let scenario = read(&text(), &[]).unwrap();
        let points = runs(&scenario, 9);
        let runs = Runs { scenario: &scenario, points: &points };
        let of = |text: &str| {
            let formula = Formula::parse(text, &scenario.axes, &Names::default()).unwrap();
            formula.evaluate(&runs, 0.9).unwrap()
        };
        let (a, b) = ("transfer_time_s[policy=Alt]", "transfer_time_s[policy=Same]");
        // Formulas that mean the same.
        for (one, other) in [
            (format!("max({a}, {b}) - 2 * {b}"), format!("max({a} - 2 * {b}, {b} - 2 * {b})")),
            (format!("1 - max({a}, {b})"), format!("min(1 - {a}, 1 - {b})")),
            (format!("-max({a}, {b}) / {b}"), format!("min(-({a} / {b}), -({b} / {b}))")),
            (format!("100 / max({a}, {b})"), format!("min(100 / {a}, 100 / {b})")),
            (format!("gain(min({a}, {b}), {b})"), format!("max(gain({a}, {b}), gain({b}, {b}))")),
            (format!("gain({a}, max({a}, {b}))"), format!("max(gain({a}, {a}), gain({a}, {b}))")),
            (format!("abs({a} - 40)"), format!("max({a} - 40, 40 - {a}, 0)")),
            (
                format!("max({a}, {b}) - max({b}, 1)"),
                format!("max(min({a} - {b}, {a} - 1), min({b} - {b}, {b} - 1))"),
            ),
        ] {
            let (one_is, other_is) = (of(&one), of(&other));
            let far = |x: f64, y: f64| (x - y).abs() > 1e-9;
            assert!(
                !far(one_is.value, other_is.value)
                    && !far(one_is.low(), other_is.low())
                    && !far(one_is.high(), other_is.high()),
                "{one}: {one_is:?}, {other}: {other_is:?}"
            );
        }
        // What the pairs have in common has cancelled out.
        assert!(of(&format!("max({a}, {b}) - {b}")).half().unwrap() < 1e-9);
        // An absolute value is never negative, and crossings keep their bootstrap.
        assert!(of(&format!("abs({a} - {b} - 5)")).low() >= 0.0);
        assert!(of(&format!("crossing(loss: {b} - 25)")).interval.is_some());
        assert!(of(&format!("average(loss: max({a}, {b}))")).interval.is_some());
        assert!(of(&format!("1 / average(loss: max({a}, {b}))")).interval.is_some());
    }

    #[test]
    fn what_never_happened_in_a_few_runs_may_yet_happen() {
        let scenario = read(&text(), &[]).unwrap();
        let mut points = runs(&scenario, 10);
        for run in points.iter_mut().flatten() {
            run.set("timeouts", 0.0);
        }
        let of = |points: &[Vec<Metrics>], text: &str| {
            let runs = Runs { scenario: &scenario, points };
            Formula::parse(text, &scenario.axes, &Names::default())
                .unwrap()
                .evaluate(&runs, 0.9)
                .unwrap()
        };
        let one = "timeouts[policy=Same, loss=1 %]";
        let none = of(&points, one);
        assert_eq!((none.value, none.low()), (0.0, 0.0));
        assert!((none.high() - 0.2996).abs() < 1e-3, "{none:?}");
        // Also within a larger formula: neither side of a difference is known to be 0.
        let both = of(&points, &format!("{one} - timeouts[policy=Alt, loss=1 %]"));
        assert!((both.low() + 0.2996).abs() < 1e-3 && (both.high() - 0.2996).abs() < 1e-3);
        // A time of 0 is not a count, and runs without randomness prove their result.
        let same = vec![vec![points[0][0].clone(); 10]; points.len()];
        assert_eq!(of(&same, one).high(), 0.0);
        let share = of(&points, &format!("share({one} > 0)"));
        assert!((share.high() - 21.3).abs() < 0.1, "{share:?}");
    }

    #[test]
    fn groups_of_observed_runs_have_intervals() {
        let scenario = read(&text(), &[]).unwrap();
        let points = runs(&scenario, 12);
        let runs = Runs { scenario: &scenario, points: &points };
        let of = |text: &str| {
            let formula = Formula::parse(text, &scenario.axes, &Names::default()).unwrap();
            formula.evaluate(&runs, 0.9).unwrap()
        };
        let some = of("transfer_time_s[loss=1 %, failovers >= 8]");
        // 18 to 21 with Same, 23 to 26 with Alt.
        assert_eq!((some.value, some.n), (22.0, 8));
        assert!(some.interval.is_some());
        let one = of("transfer_time_s[loss=1 %, policy=Same, failovers >= 11]");
        assert_eq!((one.value, one.interval, one.n), (21.0, None, 1));
    }
}
