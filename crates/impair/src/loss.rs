//! Which packets the wire loses.

use std::collections::BTreeSet;

use crate::{ConfigError, Probability, Rng};

/// A loss model. Positions count the packets offered to the link since it was made, whatever
/// became of them; the first is 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Every packet with the same probability, independent of the others.
    Uniform(Probability),
    /// Bursts: a good and a bad state, each with its own loss.
    GilbertElliott(GilbertElliott),
    /// Exactly the packets at these positions.
    Positions(BTreeSet<u64>),
    /// A given sequence of fates.
    Pattern(Pattern),
}

impl Loss {
    /// Loses exactly the packets at `positions`; the first packet offered to the link is 1.
    pub fn positions(positions: impl IntoIterator<Item = u64>) -> Self {
        Self::Positions(positions.into_iter().collect())
    }

    /// The Gilbert model with a mean number of packets between two bursts and in a burst: nothing
    /// is lost between bursts, everything in them. Lengths below 1 count as 1.
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
            Self::None
            | Self::Uniform(_)
            | Self::GilbertElliott(_)
            | Self::Positions(_)
            | Self::Pattern(_) => Ok(()),
        }
    }
}

/// Two-state Markov loss (Gilbert 1960, Elliott 1963).
///
/// Before each packet the state may change; then the packet is lost with the probability of the
/// state it meets. A link starts in the good state. The mean length of a stay in the bad state is
/// `1 / bad_to_good` packets, the share of packets that meet it
/// `good_to_bad / (good_to_bad + bad_to_good)`.
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

/// A sequence of fates, one for each packet offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Pattern {
    /// True for a packet that is lost; the first entry is for position 1.
    pub lost: Vec<bool>,
    /// Start again at the end; otherwise nothing is lost after it.
    pub repeat: bool,
}

/// The moving part of a loss model; survives a change of configuration.
#[derive(Debug)]
pub(crate) struct LossState {
    rng: Rng,
    bad: bool,
}

impl LossState {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, bad: false }
    }

    /// The verdict on the packet at `position` (from 1). To be asked once for each, in order.
    pub(crate) fn takes(&mut self, model: &Loss, position: u64) -> bool {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(model: &Loss, seed: u64, count: u64) -> Vec<bool> {
        let mut state = LossState::new(Rng::new(seed));
        (1..=count).map(|n| state.takes(model, n)).collect()
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
        // 100,000 draws at 3 %: mean 3000, standard deviation 54; four of them either side.
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
