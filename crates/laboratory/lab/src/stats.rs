//! Means, quantiles and intervals.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

/// A number and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// The ends of its interval; `None` if there are too few runs.
    pub interval: Option<[f64; 2]>,
    /// Runs it rests on.
    pub n: usize,
}

impl Estimate {
    /// A number with a symmetric interval.
    pub fn around(value: f64, half: Option<f64>, n: usize) -> Self {
        Self { value, interval: half.map(|half| [value - half, value + half]), n }
    }

    /// The lower end of the interval; minus infinity without one.
    pub fn low(&self) -> f64 {
        self.interval.map_or(f64::NEG_INFINITY, |[low, _]| low)
    }

    /// The upper end of the interval; infinity without one.
    pub fn high(&self) -> f64 {
        self.interval.map_or(f64::INFINITY, |[_, high]| high)
    }

    /// Half the width of the interval.
    pub fn half(&self) -> Option<f64> {
        self.interval.map(|[low, high]| (high - low) / 2.0)
    }

    /// Whether the number is in the middle of its interval, as that of a mean is.
    pub fn is_symmetric(&self) -> bool {
        self.interval.is_none_or(|[low, high]| {
            let (down, up) = (self.value - low, high - self.value);
            (up - down).abs() <= 1e-6 * (up + down).abs()
        })
    }

    /// Extends the interval to include a value.
    #[must_use]
    pub fn reaching(mut self, value: f64) -> Self {
        if let Some([low, high]) = &mut self.interval {
            *low = low.min(value);
            *high = high.max(value);
        }
        self
    }
}

/// The arithmetic mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of a sample; `None` for fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let n = values.len();
    (n >= 2).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (n - 1) as f64).sqrt()
    })
}

/// The value below which a share of the values lies, interpolated; `None` without values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let position = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let low = *sorted.get(position.floor() as usize)?;
    let high = *sorted.get(position.ceil() as usize)?;
    Some(low + (high - low) * position.fract())
}

/// The points of the empirical distribution: each value and the share of values up to it.
pub fn distribution(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    sorted.into_iter().enumerate().map(|(at, value)| (value, (at + 1) as f64 / n)).collect()
}

/// How many standard errors an interval reaches to each side (Student's t, two-sided).
pub fn t_factor(confidence: f64, degrees: usize) -> f64 {
    match StudentsT::new(0.0, 1.0, degrees.max(1) as f64) {
        Ok(t) => t.inverse_cdf(0.5 + confidence / 2.0),
        // Only for degrees that are not positive.
        Err(_) => f64::INFINITY,
    }
}

/// The probability that Student's t exceeds a value.
pub fn t_tail(value: f64, degrees: usize) -> f64 {
    match StudentsT::new(0.0, 1.0, degrees.max(1) as f64) {
        Ok(t) => t.sf(value),
        // Only for degrees that are not positive.
        Err(_) => 0.0,
    }
}

/// The largest possible mean of a count that was 0 in `n` runs (Poisson, one side of a two-sided
/// interval): zeros have no spread, but a few of them prove little.
pub fn most_of_none(n: usize, confidence: f64) -> f64 {
    -((1.0 - confidence) / 2.0).ln() / n as f64
}

/// The mean with its interval; `None` without values.
pub fn mean_estimate(values: &[f64], confidence: f64) -> Option<Estimate> {
    let n = values.len();
    let half = deviation(values)
        .map(|deviation| t_factor(confidence, n - 1) * deviation / (n as f64).sqrt());
    Some(Estimate::around(mean(values)?, half, n))
}

/// Wilson's interval of a share of `n` values. It is also valid for 0 and 100 %, where the values
/// have no spread.
pub fn share_interval(share: f64, n: usize, confidence: f64) -> [f64; 2] {
    let Ok(normal) = Normal::new(0.0, 1.0) else { return [0.0, 1.0] };
    let (n, z) = (n as f64, normal.inverse_cdf(0.5 + confidence / 2.0));
    let middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let reach = (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() * z / (1.0 + z * z / n);
    [(middle - reach).max(0.0), (middle + reach).min(1.0)]
}

/// Any statistic of runs, with its jackknife interval: the statistic is computed again without the
/// runs of one number, for each number in turn. They are left out at all points together, so that
/// common effects of runs with the same number count once. For a mean it is Student's interval.
///
/// The argument of `statistic` is the number to leave out; `n` is the smallest number of runs of a
/// point, and `runs` the largest.
pub fn jackknife<E>(
    n: usize,
    runs: usize,
    confidence: f64,
    statistic: impl Fn(Option<usize>) -> Result<f64, E>,
) -> Result<Estimate, E> {
    let value = statistic(None)?;
    if n < 2 {
        return Ok(Estimate { value, interval: None, n });
    }
    let left_out = (0..runs).map(|run| statistic(Some(run))).collect::<Result<Vec<f64>, E>>()?;
    let mean = left_out.iter().sum::<f64>() / runs as f64;
    let squares: f64 = left_out.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares * (runs - 1) as f64 / runs as f64).sqrt();
    let half = error.is_finite().then(|| t_factor(confidence, n - 1) * error);
    Ok(Estimate::around(value, half, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_none_has_an_interval() {
        // Wilson's interval of 0 of 24 at 90 % ends at z^2 / (n + z^2) with z = 1.645.
        let [low, high] = share_interval(0.0, 24, 0.9);
        assert!(low.abs() < 1e-9 && (high - 0.1013).abs() < 1e-4);
        let [low, high] = share_interval(1.0, 24, 0.9);
        assert!((low - 0.8987).abs() < 1e-4 && high > 1.0 - 1e-9);
        let [low, high] = share_interval(0.5, 10, 0.9);
        assert!((low - 0.2692).abs() < 1e-4 && (high - 0.7308).abs() < 1e-4);
    }

    #[test]
    fn a_count_that_was_zero_may_have_been_luck() {
        // The rule of three: 3/n at a confidence of 95 % on one side.
        assert!((most_of_none(10, 0.9) - 0.2996).abs() < 1e-4);
    }

    #[test]
    fn students_factors_are_those_of_the_tables() {
        for (confidence, degrees, factor) in
            [(0.90, 1, 6.3138), (0.90, 9, 1.8331), (0.95, 4, 2.7764), (0.90, 59, 1.6711)]
        {
            assert!((t_factor(confidence, degrees) - factor).abs() < 1e-3, "{degrees}");
            let tail = (1.0 - confidence) / 2.0;
            assert!((t_tail(factor, degrees) - tail).abs() < 1e-4, "{degrees}");
        }
    }

    #[test]
    fn means_have_intervals() {
        let estimate = mean_estimate(&[1.0, 2.0, 3.0, 4.0], 0.9).unwrap();
        assert_eq!((estimate.value, estimate.n), (2.5, 4));
        // Deviation 1.29099, over the root of 4, times 2.35336.
        assert!((estimate.half().unwrap() - 1.519_1).abs() < 1e-3);
        assert_eq!(mean_estimate(&[7.0], 0.9).unwrap().interval, None);
        assert_eq!(mean_estimate(&[], 0.9), None);
    }

    #[test]
    fn the_jackknife_of_a_mean_is_students_interval() {
        let values = [3.0, 1.0, 4.0, 1.0, 5.0];
        let expected = mean_estimate(&values, 0.95).unwrap();
        let jackknife = jackknife(5, 5, 0.95, |left_out| {
            let kept: Vec<f64> = values
                .iter()
                .enumerate()
                .filter(|(at, _)| Some(*at) != left_out)
                .map(|(_, value)| *value)
                .collect();
            mean(&kept).ok_or(())
        })
        .unwrap();
        assert!((jackknife.value - expected.value).abs() < 1e-12);
        assert!((jackknife.half().unwrap() - expected.half().unwrap()).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_interpolated() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 0.5), Some(2.5));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(distribution(&[2.0, 1.0]), [(1.0, 0.5), (2.0, 1.0)]);
    }
}
