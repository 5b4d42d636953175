//! Intervals of statistics other than means: medians, quantiles, and places where a curve changes its sign.
//!
//! The jackknife is wrong for these statistics: leaving out one run hardly moves a median. The bootstrap (Efron, 1979)
//! instead draws run numbers with replacement, as many as there are runs, and computes the statistic of each draw. The
//! interval of quantiles is the bias-corrected percentile interval (Efron and Tibshirani, "An Introduction to the
//! Bootstrap", 1993, chapter 14, without acceleration). The interval of a place is the basic one, reflected at the
//! value. The tails are widened by Student's t for few runs
//! (Hesterberg, "What teachers should know about the bootstrap", 2014). A few runs can only be drawn in a few ways, so
//! with fewer than [`FEW`] runs an interval is at least as wide as t times the standard error of the draws.

use anabranch_impair::Rng;
use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::stats::{Estimate, quantile, t_factor};

/// Number of draws.
const DRAWS: usize = 1000;
/// With fewer runs there are too few different draws to use their percentiles alone.
pub const FEW: usize = 10;

/// The kind of a statistic, which determines its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A median or another quantile: percentiles of the draws.
    Quantile,
    /// A place on an axis: the basic interval.
    Basic,
}

/// A statistic of runs with its interval. The argument of `statistic` contains the numbers of the
/// runs that were drawn; `None` means all. There are `runs` runs, at least `n` for each point. The
/// same seed draws the same runs.
///
/// # Errors
/// Fails if the statistic fails for all runs together. A draw without a value (a division by zero,
/// for instance) is left out; there is no interval if more than half of them have no value.
pub fn bootstrap<E>(
    shape: Shape,
    n: usize,
    runs: usize,
    confidence: f64,
    seed: u64,
    statistic: impl Fn(Option<&[usize]>) -> Result<f64, E>,
) -> Result<Estimate, E> {
    let value = statistic(None)?;
    let none = Estimate { value, interval: None, n };
    let Ok(normal) = Normal::new(0.0, 1.0) else { return Ok(none) };
    if n < 2 {
        return Ok(none);
    }
    let mut rng = Rng::new(seed);
    let mut drawn = vec![0; runs];
    let mut values = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        drawn.fill_with(|| rng.below(runs as u64) as usize);
        values.extend(statistic(Some(&drawn)).ok().filter(|value: &f64| value.is_finite()));
    }
    if values.len() < DRAWS / 2 {
        return Ok(none);
    }
    let count = values.len() as f64;
    let below = values.iter().filter(|drawn| **drawn < value).count() as f64;
    let equal = values.iter().filter(|drawn| **drawn == value).count() as f64;
    // A value beyond all draws would have no finite correction.
    let share = ((below + equal / 2.0) / count).clamp(0.5 / count, 1.0 - 0.5 / count);
    let bias = normal.inverse_cdf(share);
    let few = (n as f64 / (n - 1) as f64).sqrt();
    let reach = t_factor(confidence, n - 1);
    let of = |tail: f64| quantile(&values, normal.cdf(tail)).unwrap_or(value);
    let (mut low, mut high) = match shape {
        Shape::Quantile => (of(2.0 * bias - few * reach), of(2.0 * bias + few * reach)),
        Shape::Basic => (2.0 * value - of(few * reach), 2.0 * value - of(-few * reach)),
    };
    if n < FEW {
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = few * reach * (squares / count).sqrt();
        low = low.min(value - half);
        high = high.max(value + half);
    }
    Ok(Estimate { value, interval: Some([low, high]), n })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{mean, mean_estimate};

    fn of(values: &[f64], drawn: Option<&[usize]>) -> Vec<f64> {
        match drawn {
            Some(drawn) => drawn.iter().map(|at| values[*at]).collect(),
            None => values.to_vec(),
        }
    }

    /// Draws of a distribution with a long tail (log-normal by the sum of uniform numbers).
    fn tailed(rng: &mut Rng, count: usize) -> Vec<f64> {
        let normal = |rng: &mut Rng| {
            (0..12).map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30)).sum::<f64>() - 6.0
        };
        (0..count).map(|_| normal(rng).exp()).collect()
    }

    #[test]
    fn for_a_mean_it_is_about_students_interval() {
        let values: Vec<f64> = (0..30).map(|i| f64::from(i * i % 17)).collect();
        let student = mean_estimate(&values, 0.9).unwrap();
        let ours =
            bootstrap(Shape::Quantile, 30, 30, 0.9, 1, |drawn| mean(&of(&values, drawn)).ok_or(()))
                .unwrap();
        assert_eq!(ours.value, student.value);
        let (half, expected) = (ours.half().unwrap(), student.half().unwrap());
        assert!((half / expected - 1.0).abs() < 0.1, "{half} {expected}");
        let again =
            bootstrap(Shape::Quantile, 30, 30, 0.9, 1, |drawn| mean(&of(&values, drawn)).ok_or(()))
                .unwrap();
        assert_eq!(ours, again);
    }

    /// The meaning of a 90 % interval: of 400 samples with a true median of 1, about 360 contain
    /// it.
    #[test]
    fn intervals_of_medians_hold_the_median_as_often_as_they_say() {
        let mut rng = Rng::new(5);
        for n in [5, 12, 40] {
            let held = (0..400).filter(|round| {
                let values = tailed(&mut rng, n);
                let median = |drawn: Option<&[usize]>| quantile(&of(&values, drawn), 0.5).ok_or(());
                let estimate = bootstrap(Shape::Quantile, n, n, 0.9, *round, median).unwrap();
                estimate.low() <= 1.0 && 1.0 <= estimate.high()
            });
            let held = held.count();
            assert!((340..=396).contains(&held), "{n} runs: {held} of 400");
        }
    }

    #[test]
    fn one_run_has_no_interval_and_draws_without_a_value_are_left_out() {
        let single = bootstrap(Shape::Basic, 1, 1, 0.9, 0, |_| Ok::<f64, ()>(3.0)).unwrap();
        assert_eq!((single.value, single.interval), (3.0, None));
        let rarely = bootstrap(Shape::Quantile, 4, 4, 0.9, 0, |drawn| match drawn {
            None => Ok(1.0),
            Some(_) => Err(()),
        });
        assert_eq!(rarely.unwrap().interval, None);
        assert!(bootstrap(Shape::Quantile, 4, 4, 0.9, 0, |_| Err::<f64, ()>(())).is_err());
    }
}
