//! Finds means that few runs decide.
//!
//! If one run in ten takes ten times as long, the mean of a few runs says little, and Student's interval contains the
//! true mean much more rarely than it says. Such runs have a mean far from their median.

use super::TAILED;
use crate::formula::Runs;
use crate::scenario::{Claim, Scenario};
use crate::stats;

/// Fewer runs show no tail.
const FEWEST: usize = 4;
/// How many standard errors the two are apart at least.
const ERRORS: f64 = 3.0;

/// A point where mean and median are apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Tail {
    /// Index of the point.
    pub point: usize,
    /// Index of the metric.
    pub metric: usize,
    /// The mean of the runs.
    pub mean: f64,
    /// Their median.
    pub median: f64,
}

/// The point of a claim whose mean and median are farthest apart, if they are.
pub(super) fn tail(scenario: &Scenario, claim: &Claim, runs: &Runs<'_>) -> Option<Tail> {
    let read = claim.formula.points(&Runs { scenario, points: &[] });
    let means = claim.formula.means(runs).into_iter();
    let tails =
        means.filter(|(_, point, _)| read.contains(point)).filter_map(|(metric, point, values)| {
            let (mean, median) = apart(&values)?;
            Some(Tail { point, metric, mean, median })
        });
    let distance = |tail: &Tail| (tail.mean - tail.median).abs() / tail.median.abs();
    tails.max_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// Mean and median, if they are more than 5 % apart and further than the means of normal values vary around their
/// median. The spread comes from the median absolute deviation, which a few long runs do not change.
fn apart(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, median) = (stats::mean(values)?, stats::quantile(values, 0.5)?);
    let off: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    // For normal values, 1.4826 of these deviations are a standard deviation, and mean minus median varies by the root
    // of pi / 2 - 1 of the standard error.
    let spread = 1.4826 * stats::quantile(&off, 0.5)?;
    let chance = (std::f64::consts::FRAC_PI_2 - 1.0).sqrt() * spread / (values.len() as f64).sqrt();
    let distance = (mean - median).abs();
    let is_apart =
        values.len() >= FEWEST && distance > TAILED * median.abs() && distance > ERRORS * chance;
    is_apart.then_some((mean, median))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_among_short_ones_is_noticed() {
        let (mean, median) = apart(&[1.0, 1.1, 0.9, 1.05, 0.95, 10.0]).unwrap();
        assert!((mean - 2.5).abs() < 1e-9 && (median - 1.025).abs() < 1e-9);
        // An even spread, a small one, and too few runs are not.
        assert_eq!(apart(&[1.0, 2.0, 3.0, 4.0, 5.5]), None);
        assert_eq!(apart(&[10.0, 10.0, 10.0, 11.0]), None);
        assert_eq!(apart(&[1.0, 1.0, 10.0]), None);
        assert_eq!(apart(&[]), None);
    }
}
