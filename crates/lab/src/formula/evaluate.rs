//! From formula and runs to a number.

use super::{Aggregate, Expression, Operator, Selection, Statistic};
use crate::metrics::{self, Metrics};
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
    /// The scenario has no such point.
    #[error("the scenario leaves these points out")]
    Point,
    /// The points were not run, or no run measured it.
    #[error("no run has measured it")]
    Run,
    /// There is no number: a division by zero, or no change of sign.
    #[error("it has no value")]
    Value,
}

impl Runs<'_> {
    /// Number of runs of a point.
    pub fn count(&self, point: usize) -> usize {
        self.points.get(point).map_or(0, Vec::len)
    }

    /// The values of a metric at a point, without those that are missing and the run left out.
    pub fn values(&self, point: usize, metric: usize, left_out: Option<usize>) -> Vec<f64> {
        let runs = self.points.get(point).into_iter().flatten().enumerate();
        runs.filter(|(number, _)| Some(*number) != left_out)
            .filter_map(|(_, run)| run.at(metric))
            .collect()
    }
}

/// The values that enclosing `max`, `min` and the like have bound axes to.
type Bound = Vec<(usize, usize)>;

/// The points that a selection means.
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

pub(super) fn evaluate(
    expression: &Expression,
    runs: &Runs<'_>,
    left_out: Option<usize>,
) -> Result<f64, Missing> {
    let value = value(expression, runs, left_out, &mut Vec::new())?;
    if value.is_finite() { Ok(value) } else { Err(Missing::Value) }
}

fn value(
    expression: &Expression,
    runs: &Runs<'_>,
    left_out: Option<usize>,
    bound: &mut Bound,
) -> Result<f64, Missing> {
    let mut of = |inner: &Expression| value(inner, runs, left_out, bound);
    Ok(match expression {
        Expression::Number(number) => *number,
        Expression::Statistic(statistic, selection) => {
            return measure(*statistic, selection, runs, left_out, bound);
        }
        Expression::Negative(inner) => -of(inner)?,
        Expression::Absolute(inner) => of(inner)?.abs(),
        Expression::Binary(operator, left, right) => {
            let (left, right) = (of(left)?, of(right)?);
            match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
                Operator::Divide => left / right,
            }
        }
        Expression::Gain(new, baseline) => {
            let (new, baseline) = (of(new)?, of(baseline)?);
            100.0 * (baseline - new) / baseline
        }
        Expression::Extreme { largest, of: inner } => {
            let values = inner.iter().map(of).collect::<Result<Vec<f64>, _>>()?;
            extreme(*largest, values.into_iter())
        }
        Expression::Over(aggregate, condition, inner) => {
            let mut values = Vec::new();
            for index in &condition.values {
                bound.push((condition.axis, *index));
                let result = value(inner, runs, left_out, bound);
                bound.pop();
                match result {
                    Ok(value) => values.push((*index, value)),
                    // A combination that the scenario skips is no part of the axis here.
                    Err(Missing::Point) => {}
                    Err(other) => return Err(other),
                }
            }
            if values.is_empty() {
                return Err(Missing::Point);
            }
            let numbers = values.iter().map(|(_, value)| *value);
            match aggregate {
                Aggregate::Largest => extreme(true, numbers),
                Aggregate::Smallest => extreme(false, numbers),
                Aggregate::Average => numbers.sum::<f64>() / values.len() as f64,
                Aggregate::Crossing => return crossing(runs, condition.axis, &values),
            }
        }
    })
}

fn extreme(largest: bool, values: impl Iterator<Item = f64>) -> f64 {
    if largest {
        values.fold(f64::NEG_INFINITY, f64::max)
    } else {
        values.fold(f64::INFINITY, f64::min)
    }
}

/// Where along an axis of numbers the values first change their sign, interpolated.
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

fn measure(
    statistic: Statistic,
    selection: &Selection,
    runs: &Runs<'_>,
    left_out: Option<usize>,
    bound: &Bound,
) -> Result<f64, Missing> {
    let metric = metrics::find(&selection.metric).ok_or(Missing::Run)?;
    let mut values = Vec::new();
    let mut points = 0;
    for point in selected(selection, runs, bound) {
        points += 1;
        let here = runs.values(point, metric, left_out);
        if here.is_empty() {
            return Err(Missing::Run);
        }
        values.extend(here);
    }
    if points == 0 {
        return Err(Missing::Point);
    }
    match statistic {
        Statistic::Mean => stats::mean(&values),
        Statistic::Deviation => stats::deviation(&values),
        Statistic::Quantile(share) => stats::quantile(&values, share),
        Statistic::Share(comparison, limit) => {
            let hits = values.iter().filter(|value| comparison.holds(**value, limit)).count();
            Some(100.0 * hits as f64 / values.len() as f64)
        }
        Statistic::Count => Some(values.len() as f64),
    }
    .ok_or(Missing::Run)
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
        let formula = Formula::parse(formula, &scenario.axes)?;
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
            ("transfer_time_s[policy>Same]", "no single number"),
            ("transfer_time_s[loss=1 %, loss=3 %]", "select no value"),
            ("quantile(transfer_time_s, 2)", "outside 0 to 1"),
            ("average(1, 2)", "'axis:' is missing"),
            ("longest_gap_s", "no run has measured it"),
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
        let points = |formula| Formula::parse(formula, &scenario.axes).unwrap().points(&runs);
        assert_eq!(points("transfer_time_s[policy=Alt]"), [1, 3]);
        assert_eq!(points("max(loss = 3 %: transfer_time_s[policy=Alt])"), [3]);
        assert_eq!(points("1"), [] as [usize; 0]);
    }

    #[test]
    fn what_runs_have_in_common_cancels_out() {
        let scenario = read(&text(), &[]).unwrap();
        let points = runs(&scenario, 5);
        let runs = Runs { scenario: &scenario, points: &points };
        let formula = |text| Formula::parse(text, &scenario.axes).unwrap();
        // The same number is added to runs of the same number: the difference has no spread.
        let difference = formula(
            "transfer_time_s[loss=1 %, policy=Alt] - transfer_time_s[loss=1 %, policy=Same]",
        );
        let estimate = difference.evaluate(&runs, 0.9).unwrap();
        assert!((estimate.value - 5.0).abs() < 1e-9 && estimate.half.unwrap() < 1e-9);
        let alone = formula("transfer_time_s[loss=1 %, policy=Alt]").evaluate(&runs, 0.9).unwrap();
        assert!(alone.half.unwrap() > 1.0);
    }
}
