//! A small seedable generator and integer probabilities: the same draws on every machine.

use crate::ConfigError;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
///
/// One word of state, one addition and two multiplications per draw; every 64-bit value occurs once
/// in a period of 2^64. Good for models and tests, not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator; `seed` determines its whole sequence.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A separate generator for purpose `stream`. Draws for one purpose do not shift those for
    /// another.
    pub fn stream(seed: u64, stream: u64) -> Self {
        // Mixing each word separately starts the streams at unrelated points of the period.
        let mixed = Self::new(seed).next_u64();
        Self::new(Self::new(mixed ^ stream).next_u64())
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound - 1`, or 0 if `bound` is 0. The bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        // The high word of a product of two 64-bit numbers fits 64 bits.
        (wide >> 64) as u64
    }

    /// True with probability `p`; always uses exactly one draw.
    pub fn chance(&mut self, p: Probability) -> bool {
        self.below(u64::from(Probability::BILLION)) < u64::from(p.0)
    }
}

/// A probability in whole parts per billion, so that a test against it is exact.
///
/// With the feature `serde` it is serialised as a fraction from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "f64", into = "f64"))]
pub struct Probability(u32);

impl Probability {
    const BILLION: u32 = 1_000_000_000;

    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(Self::BILLION);

    /// Parts per billion; more than a billion means certainty.
    pub const fn per_billion(parts: u32) -> Self {
        Self(if parts > Self::BILLION { Self::BILLION } else { parts })
    }

    /// Parts per million; more than a million means certainty.
    pub const fn per_million(parts: u32) -> Self {
        Self::per_billion(parts.saturating_mul(1000))
    }

    /// Whole percent; more than 100 means certainty.
    pub const fn percent(percent: u32) -> Self {
        Self::per_million(percent.saturating_mul(10_000))
    }

    /// A fraction from 0 to 1, rounded to parts per billion.
    ///
    /// # Errors
    /// [`ConfigError::Probability`] if it is outside 0 to 1 or not a number.
    pub fn fraction(fraction: f64) -> Result<Self, ConfigError> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(ConfigError::Probability);
        }
        // One multiplication, one addition and a truncation: IEEE 754 defines these exactly.
        Ok(Self::per_billion((fraction * f64::from(Self::BILLION) + 0.5) as u32))
    }

    /// The probability as a fraction from 0 to 1.
    pub fn as_fraction(self) -> f64 {
        f64::from(self.0) / f64::from(Self::BILLION)
    }
}

impl TryFrom<f64> for Probability {
    type Error = ConfigError;

    fn try_from(fraction: f64) -> Result<Self, ConfigError> {
        Self::fraction(fraction)
    }
}

impl From<Probability> for f64 {
    fn from(p: Probability) -> f64 {
        p.as_fraction()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_gives_the_published_sequence() {
        // Reference values of SplitMix64 for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn streams_of_a_seed_differ() {
        let first: Vec<u64> = (0..8)
            .map(|s| Rng::stream(1, s).next_u64())
            .chain((0..8).map(|s| Rng::stream(2, s).next_u64()))
            .collect();
        let mut unique = first.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), first.len());
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(3);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
        let seen: std::collections::BTreeSet<u64> = (0..200).map(|_| rng.below(5)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn certain_and_impossible_are_exact() {
        let mut rng = Rng::new(9);
        assert!((0..1000).all(|_| rng.chance(Probability::ONE)));
        assert!((0..1000).all(|_| !rng.chance(Probability::ZERO)));
    }

    #[test]
    fn probabilities_convert() {
        assert_eq!(Probability::percent(1), Probability::fraction(0.01).unwrap());
        assert_eq!(Probability::per_million(1), Probability::per_billion(1000));
        assert_eq!(Probability::percent(u32::MAX), Probability::ONE);
        assert_eq!(Probability::fraction(1.0).unwrap(), Probability::ONE);
        for bad in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Probability::fraction(bad), Err(ConfigError::Probability));
        }
        let p = Probability::per_billion(123_456_789);
        assert_eq!(Probability::fraction(p.as_fraction()).unwrap(), p);
    }
}
