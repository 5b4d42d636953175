//! Loss models: which packets the wire loses.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{ConfigError, Probability, Rng};

/// A loss model. Positions count all packets offered to the link since it was created, whatever their fate; the first
/// is 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet is lost with the same probability, independently of the others.
    Uniform(Probability),
    /// Bursts: a good and a bad state, each with its own loss.
    GilbertElliott(GilbertElliott),
    /// Bursts of a certain duration, regardless of the number of packets.
    BurstsInTime(BurstsInTime),
    /// Loses exactly the packets at these positions.
    Positions(BTreeSet<u64>),
    /// A given sequence of fates.
    Pattern(Pattern),
}

impl Loss {
    /// Loses exactly the packets at `positions`; the first packet offered to the link is 1.
    pub fn positions(positions: impl IntoIterator<Item = u64>) -> Self {
        Self::Positions(positions.into_iter().collect())
    }

    /// The Gilbert model with a mean number of packets between two bursts and in a burst: nothing is lost between
    /// bursts, everything in them. Lengths below 1 count as 1.
    pub fn bursts(mean_gap: u32, mean_burst: u32) -> Self {
        let one_in = |n: u32| Probability::per_billion(1_000_000_000 / n.max(1));
        Self::GilbertElliott(GilbertElliott {
            good_to_bad: one_in(mean_gap),
            bad_to_good: one_in(mean_burst),
            loss_good: Probability::ZERO,
            loss_bad: Probability::ONE,
        })
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Positions(positions) if positions.contains(&0) => Err(ConfigError::PositionZero),
            Self::Pattern(pattern) if pattern.lost.is_empty() => Err(ConfigError::EmptyPattern),
            Self::BurstsInTime(bursts) if bursts.between.is_zero() || bursts.length.is_zero() => {
                Err(ConfigError::EmptyBurst)
            }
            Self::None
            | Self::BurstsInTime(_)
            | Self::Uniform(_)
            | Self::GilbertElliott(_)
            | Self::Positions(_)
            | Self::Pattern(_) => Ok(()),
        }
    }
}

/// Two-state Markov loss (Gilbert 1960, Elliott 1963).
///
/// Before each packet the state may change; then the packet is lost with the probability of the new state. A link
/// starts in the good state. The mean length of the bad state is `1 / bad_to_good` packets; the share of packets in it
/// is `good_to_bad / (good_to_bad + bad_to_good)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct GilbertElliott {
    /// From good to bad, for each packet.
    pub good_to_bad: Probability,
    /// From bad to good, for each packet.
    pub bad_to_good: Probability,
    /// Loss in the good state; 0 in Gilbert's model.
    pub loss_good: Probability,
    /// Loss in the bad state; 1 in the simplest case.
    pub loss_bad: Probability,
}

/// A link that fails now and then, like radio: everything is lost in a burst, and nothing between two. Times are drawn
/// for each burst and each pause from exponential distributions, so the end is unpredictable. A link starts between two
/// bursts.
///
/// In the long run packets are lost for the share `length / (length + between)` of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct BurstsInTime {
    /// Mean time from the end of a burst to the start of the next one; more than zero.
    pub between: Duration,
    /// Mean length of a burst; more than zero.
    pub length: Duration,
}

impl BurstsInTime {
    /// Bursts with this mean length that cover this share of the time; `None` for a share of 0 or 1, or if a time would
    /// be invalid.
    pub fn with_share(share: f64, length: Duration) -> Option<Self> {
        if !(share > 0.0 && share < 1.0) || length.is_zero() {
            return None;
        }
        let between = Duration::try_from_secs_f64(length.as_secs_f64() * (1.0 - share) / share);
        Some(Self { between: between.ok().filter(|between| !between.is_zero())?, length })
    }
}

/// A sequence of fates, one for each packet offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Pattern {
    /// True for a packet that is lost; the first entry is for position 1.
    pub lost: Vec<bool>,
    /// Whether to start again at the end; otherwise nothing is lost after it.
    pub repeat: bool,
}

/// The mutable state of a loss model; survives a change of configuration.
#[derive(Debug)]
pub(crate) struct LossState {
    rng: Rng,
    bad: bool,
    /// When the state changes next, for bursts in time; `None` before the first packet.
    until: Option<u64>,
}

/// If this many mean lengths have passed since the latest packet, the state is drawn again instead of simulating each
/// burst.
const FORGOTTEN: u64 = 64;

impl LossState {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, bad: false, until: None }
    }

    /// Whether the packet at `position` (from 1) and time `now` (in nanoseconds) is lost. Must be called once for each
    /// packet, in order.
    pub(crate) fn takes(&mut self, model: &Loss, position: u64, now: u64) -> bool {
        match model {
            Loss::None => false,
            Loss::Uniform(p) => self.rng.chance(*p),
            Loss::GilbertElliott(model) => {
                let (leave, stay_bad) =
                    if self.bad { (model.bad_to_good, false) } else { (model.good_to_bad, true) };
                if self.rng.chance(leave) {
                    self.bad = stay_bad;
                }
                self.rng.chance(if self.bad { model.loss_bad } else { model.loss_good })
            }
            Loss::BurstsInTime(bursts) => self.is_in_burst(bursts, now),
            Loss::Positions(positions) => positions.contains(&position),
            Loss::Pattern(pattern) => {
                let length = pattern.lost.len() as u64;
                let index = match (position.saturating_sub(1), pattern.repeat) {
                    (index, true) => index.checked_rem(length),
                    (index, false) => Some(index),
                };
                index
                    .and_then(|index| pattern.lost.get(usize::try_from(index).ok()?))
                    .is_some_and(|lost| *lost)
            }
        }
    }

    fn is_in_burst(&mut self, bursts: &BurstsInTime, now: u64) -> bool {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (between, length) = (nanos(bursts.between), nanos(bursts.length));
        let cycle = between.saturating_add(length);
        let mut until = match self.until {
            // The first packet may come long after the link was created.
            None => self.exponential(between),
            Some(until) => until,
        };
        if now.saturating_sub(until) > cycle.saturating_mul(FORGOTTEN) {
            self.bad = self.rng.below(cycle) < length;
            let mean = if self.bad { length } else { between };
            until = now.saturating_add(self.exponential(mean));
        }
        while until <= now {
            self.bad = !self.bad;
            let mean = if self.bad { length } else { between };
            until = until.saturating_add(self.exponential(mean));
        }
        self.until = Some(until);
        self.bad
    }

    /// An exponentially distributed time with this mean, at least a nanosecond.
    fn exponential(&mut self, mean: u64) -> u64 {
        // Above 0 and at most 1; both conversions are exact.
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        ((-libm::log(uniform) * mean as f64) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(model: &Loss, seed: u64, count: u64) -> Vec<bool> {
        let mut state = LossState::new(Rng::new(seed));
        (1..=count).map(|n| state.takes(model, n, 0)).collect()
    }

    fn losses(verdicts: &[bool]) -> usize {
        verdicts.iter().filter(|lost| **lost).count()
    }

    #[test]
    fn no_loss_without_a_model() {
        assert_eq!(losses(&verdicts(&Loss::None, 1, 1000)), 0);
    }

    #[test]
    fn uniform_loss_has_its_frequency() {
        // 100,000 draws at 3 %: mean 3000, standard deviation 54; the bounds allow four of these in both directions.
        let model = Loss::Uniform(Probability::percent(3));
        for seed in 0..5 {
            let lost = losses(&verdicts(&model, seed, 100_000));
            assert!((2784..=3216).contains(&lost), "seed {seed}: {lost}");
        }
        assert_eq!(losses(&verdicts(&Loss::Uniform(Probability::ONE), 1, 100)), 100);
    }

    #[test]
    fn uniform_losses_are_independent() {
        // The packet after a lost one is lost as often as any other: 10 % of about 10,000.
        let verdicts = verdicts(&Loss::Uniform(Probability::percent(10)), 4, 100_000);
        let pairs = verdicts.windows(2).filter(|w| w[0] && w[1]).count();
        assert!((880..=1120).contains(&pairs), "{pairs}");
    }

    #[test]
    fn gilbert_elliott_has_its_burst_lengths() {
        let verdicts = verdicts(&Loss::bursts(95, 5), 11, 200_000);
        let bursts: Vec<usize> =
            verdicts.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        let lost: usize = bursts.iter().sum();
        // About 2000 bursts of 5 packets, 5 % of all packets.
        let mean_hundredths = lost * 100 / bursts.len();
        assert!((460..=540).contains(&mean_hundredths), "{mean_hundredths}");
        assert!((9_000..=11_000).contains(&lost), "{lost}");
        assert!(bursts.contains(&1) && bursts.iter().any(|length| *length > 15));
    }

    #[test]
    fn gilbert_elliott_uses_the_loss_of_its_state() {
        let model = |good_to_bad, loss_good, loss_bad| {
            Loss::GilbertElliott(GilbertElliott {
                good_to_bad,
                bad_to_good: Probability::ZERO,
                loss_good,
                loss_bad,
            })
        };
        let (zero, one) = (Probability::ZERO, Probability::ONE);
        assert_eq!(losses(&verdicts(&model(zero, one, zero), 1, 50)), 50);
        assert_eq!(losses(&verdicts(&model(one, one, zero), 1, 50)), 0);
        assert_eq!(losses(&verdicts(&model(one, zero, one), 1, 50)), 50);
    }

    #[test]
    fn bursts_in_time_last_for_their_time_whatever_is_sent() {
        let ms = Duration::from_millis;
        let bursts = BurstsInTime::with_share(0.1, ms(200)).unwrap();
        assert_eq!(bursts, BurstsInTime { between: ms(1800), length: ms(200) });
        // The share of the time, and the mean length, at a packet every millisecond and at one every 100.
        for (every, packets) in [(1, 8_000_000_u64), (100, 80_000)] {
            let mut state = LossState::new(Rng::new(5));
            let verdicts: Vec<bool> = (0..packets)
                .map(|n| state.takes(&Loss::BurstsInTime(bursts), n + 1, n * every * 1_000_000))
                .collect();
            let share = losses(&verdicts) as f64 / verdicts.len() as f64;
            assert!((0.09..0.11).contains(&share), "{every} ms: {share}");
            if every == 1 {
                let lengths: Vec<usize> =
                    verdicts.chunk_by(|a, b| a == b).filter(|r| r[0]).map(<[bool]>::len).collect();
                let mean = lengths.iter().sum::<usize>() / lengths.len();
                assert!((185..=215).contains(&mean), "{mean}");
            }
        }
        // After a long pause the state is drawn again, instead of simulating a million bursts.
        let mut state = LossState::new(Rng::new(5));
        let lost = (0..2000_u64)
            .filter(|n| state.takes(&Loss::BurstsInTime(bursts), n + 1, n << 50))
            .count();
        assert!((140..=260).contains(&lost), "{lost}");
        assert_eq!(BurstsInTime::with_share(1.0, ms(1)), None);
        let none = Loss::BurstsInTime(BurstsInTime { between: ms(1), length: ms(0) });
        assert_eq!(none.validate(), Err(ConfigError::EmptyBurst));
    }

    #[test]
    fn positions_are_exact() {
        let verdicts = verdicts(&Loss::positions([1, 3, 10]), 1, 12);
        let lost: Vec<usize> = (1..=12).filter(|n| verdicts[n - 1]).collect();
        assert_eq!(lost, [1, 3, 10]);
    }

    #[test]
    fn a_pattern_ends_or_repeats() {
        let pattern = |repeat| Loss::Pattern(Pattern { lost: vec![false, true, true], repeat });
        assert_eq!(verdicts(&pattern(false), 1, 6), [false, true, true, false, false, false]);
        assert_eq!(verdicts(&pattern(true), 1, 6), [false, true, true, false, true, true]);
    }

    #[test]
    fn impossible_models_are_refused() {
        assert_eq!(Loss::positions([0, 4]).validate(), Err(ConfigError::PositionZero));
        let empty = Loss::Pattern(Pattern { lost: Vec::new(), repeat: true });
        assert_eq!(empty.validate(), Err(ConfigError::EmptyPattern));
    }
}
