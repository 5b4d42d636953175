//! The sending times of messages in bursts.

use std::time::Duration;

use anabranch_impair::Rng;

use crate::setup::Drawn;

/// The sending times of `count` messages, relative to the first.
pub(super) fn times(
    count: u64,
    burst: u64,
    interval: Duration,
    drawn: Drawn,
    draws: &mut Rng,
) -> Vec<Duration> {
    let (mut times, mut at) = (Vec::new(), Duration::ZERO);
    while (times.len() as u64) < count {
        let size = match drawn {
            Drawn::Nothing | Drawn::Intervals => burst,
            Drawn::Sizes | Drawn::Both => 1 + draws.below(2 * burst - 1),
        };
        let left = count - times.len() as u64;
        times.extend((0..size.min(left)).map(|_| at));
        at = at.saturating_add(match drawn {
            Drawn::Nothing | Drawn::Sizes => interval,
            Drawn::Intervals | Drawn::Both => exponential(interval, draws),
        });
    }
    times
}

/// A random time from an exponential distribution with this mean.
fn exponential(mean: Duration, draws: &mut Rng) -> Duration {
    // Above 0 and at most 1.
    let share = (draws.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
    Duration::try_from_secs_f64(-share.ln() * mean.as_secs_f64()).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn of(drawn: Drawn) -> Vec<Duration> {
        times(9_000, 3, SECOND, drawn, &mut Rng::stream(7, 1))
    }

    #[test]
    fn equal_bursts_come_at_equal_intervals() {
        let times = of(Drawn::Nothing);
        assert_eq!(times.len(), 9_000);
        assert_eq!(&times[..5], [Duration::ZERO, Duration::ZERO, Duration::ZERO, SECOND, SECOND]);
        assert_eq!(times[8_999], 2_999 * SECOND);
    }

    #[test]
    fn what_is_drawn_has_the_mean_that_was_asked_for() {
        for drawn in [Drawn::Intervals, Drawn::Sizes, Drawn::Both] {
            let times = of(drawn);
            assert_eq!(times.len(), 9_000);
            assert!(times.is_sorted());
            let took = times[8_999].as_secs_f64();
            assert!((2_800.0..3_200.0).contains(&took), "{drawn:?}: {took} s");
            assert_eq!(times, of(drawn), "by the seed");
        }
        let sizes = of(Drawn::Sizes);
        assert!(sizes.chunk_by(|a, b| a == b).all(|burst| burst.len() <= 5));
        let steps = of(Drawn::Intervals);
        let equal = steps.chunk_by(|a, b| a == b).filter(|burst| burst.len() == 3).count();
        assert_eq!(equal, 3_000);
    }
}
