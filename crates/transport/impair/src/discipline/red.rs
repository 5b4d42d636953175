//! Random early detection.

use super::Red;
use crate::{Probability, Rng};

/// Typical packet size in bytes, for converting idle time to a number of packets.
const TYPICAL: u64 = 500;

/// What happens to an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    Queue,
    /// It is marked if it is ECN-capable and otherwise dropped.
    Mark,
    Drop,
}

/// The average queue length and the state derived from it.
///
/// Uses only additions, multiplications and divisions, whose results are the same on every machine.
#[derive(Debug)]
pub(crate) struct RedState {
    config: Red,
    rng: Rng,
    average: f64,
    /// Packets since the last drop, while the average is between the thresholds.
    count: Option<u32>,
}

impl RedState {
    pub(crate) fn new(config: Red, rng: Rng) -> Self {
        Self { config, rng, average: 0.0, count: None }
    }

    /// What to do with an arriving packet. `length` is the queue length, `idle` the time in
    /// nanoseconds for which nothing was being sent, and `rate` the rate of the link.
    pub(crate) fn judge(&mut self, length: u64, idle: u64, rate: Option<u64>) -> Treatment {
        let weight = self.config.weight.as_fraction();
        if idle > 0 {
            // Treat the idle time as if this many typical packets had found an empty queue.
            let packet = rate.map_or(1, |rate| TYPICAL * 8_000_000_000 / rate.max(1)).max(1);
            self.average *= power(1.0 - weight, idle / packet);
        } else {
            self.average += weight * (length as f64 - self.average);
        }
        let (min, max) =
            (f64::from(self.config.min_threshold), f64::from(self.config.max_threshold));
        let most = self.config.max_probability.as_fraction();
        let probability = if self.average < min {
            self.count = None;
            return Treatment::Queue;
        } else if self.average < max {
            most * (self.average - min) / (max - min)
        } else if self.config.gentle && self.average < 2.0 * max {
            most + (1.0 - most) * (self.average - max) / max
        } else {
            self.count = Some(0);
            return Treatment::Drop;
        };
        // Spread drops evenly, to avoid bursts of them.
        let count = self.count.map_or(0, |count| count.saturating_add(1));
        let spread = 1.0 - f64::from(count) * probability;
        let probability = if spread > 0.0 { (probability / spread).min(1.0) } else { 1.0 };
        // The value is always between 0 and 1, hence valid.
        let drop = Probability::fraction(probability).is_ok_and(|p| self.rng.chance(p));
        self.count = Some(if drop { 0 } else { count });
        match drop {
            false => Treatment::Queue,
            true if self.config.ecn && self.average < max => Treatment::Mark,
            true => Treatment::Drop,
        }
    }
}

/// `base` to the power of `exponent`, by squaring.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops(config: Red, length: u64, count: usize) -> usize {
        let mut red = RedState::new(config, Rng::new(1));
        // Let the average settle first.
        (0..10_000).for_each(|_| {
            red.judge(length, 0, None);
        });
        (0..count).filter(|_| red.judge(length, 0, None) != Treatment::Queue).count()
    }

    #[test]
    fn the_probability_grows_with_the_queue() {
        let config = Red::default();
        assert_eq!(drops(config, 5, 10_000), 0);
        // Halfway between the thresholds: 5 %. Spreading makes every distance up to 19 packets
        // equally likely.
        let half = drops(config, 10, 10_000);
        assert!((800..1100).contains(&half), "{half}");
        // Above the upper threshold the probability grows gently, or all packets are dropped. With
        // 40 %, two packets in three are dropped immediately, and otherwise the next one.
        let gentle = drops(config, 20, 10_000);
        assert!((7200..7800).contains(&gentle), "{gentle}");
        assert_eq!(drops(Red { gentle: false, ..config }, 16, 100), 100);
        assert_eq!(drops(config, 30, 100), 100);
    }

    #[test]
    fn a_burst_does_not_count_at_once() {
        let mut red = RedState::new(Red::default(), Rng::new(1));
        assert!((0..100).all(|length| red.judge(length.min(30), 0, None) == Treatment::Queue));
    }

    #[test]
    fn idle_time_lowers_the_average() {
        let config = Red { gentle: false, ..Red::default() };
        let mut red = RedState::new(config, Rng::new(1));
        (0..10_000).for_each(|_| {
            red.judge(40, 0, None);
        });
        assert_eq!(red.judge(40, 0, Some(1_000_000)), Treatment::Drop);
        // Two seconds at 1 Mbit/s are 500 typical packets: 40 * 0.998^500 is below 15.
        let _ = red.judge(0, 2_000_000_000, Some(1_000_000));
        assert!((14.0..15.0).contains(&red.average), "{}", red.average);
    }

    #[test]
    // RFC 3168 section 7.
    fn marks_give_way_to_drops_in_overload() {
        let config = Red { ecn: true, weight: Probability::ONE, ..Red::default() };
        let mut red = RedState::new(config, Rng::new(1));
        let mut verdicts = |length| -> Vec<_> {
            (0..1000)
                .map(|_| red.judge(length, 0, None))
                .filter(|v| *v != Treatment::Queue)
                .collect()
        };
        let between = verdicts(10);
        assert!(between.len() > 50 && between.iter().all(|verdict| *verdict == Treatment::Mark));
        let above = verdicts(20);
        assert!(above.len() > 500 && above.iter().all(|verdict| *verdict == Treatment::Drop));
    }

    #[test]
    fn powers() {
        assert!((power(0.5, 10) - 1.0 / 1024.0).abs() < 1e-12);
        assert_eq!(power(0.9, 0).to_bits(), 1.0_f64.to_bits());
    }
}
