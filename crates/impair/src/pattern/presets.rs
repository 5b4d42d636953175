//! Links that many have: patterns by rule, from a seed.

use super::{Basis, End, Kind, Pattern, PatternError, Patterns, Runs, RunsBuilder};
use crate::{GilbertElliott, Probability, Rng};

/// A link that many have.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its description, in a line.
    pub about: &'static str,
    make: fn(u64, u64) -> Result<Vec<Pattern>, PatternError>,
}

/// All presets.
pub const PRESETS: [Preset; 4] = [
    Preset {
        name: "geo-satellite",
        about: "geostationary: 270 ms one way, 20 Mb/s, rain fades of a second that lose packets",
        make: geo,
    },
    Preset {
        name: "leo-satellite",
        about: "low orbit: 20 to 45 ms one way, 100 Mb/s, a handover each 15 s that loses 30 ms",
        make: leo,
    },
    Preset {
        name: "mobile",
        about: "a telephone that walks: 1 to 40 Mb/s from one 100 ms to the next, 30 ms one way",
        make: mobile,
    },
    Preset {
        name: "train",
        about: "a telephone in a train: as 'mobile', with handovers of 50 to 300 ms and tunnels",
        make: train,
    },
];

impl Preset {
    /// The preset of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Its patterns, for `milliseconds` milliseconds, after which they repeat.
    ///
    /// # Errors
    /// A time of 0, or more changes than a pattern holds.
    pub fn patterns(&self, milliseconds: u64, seed: u64) -> Result<Patterns, PatternError> {
        if milliseconds == 0 {
            return Err(PatternError::new("a preset lasts for 1 ms at least"));
        }
        Patterns::new((self.make)(milliseconds, seed)?)
    }
}

fn repeating(kind: Kind, name: &str, values: Runs) -> Pattern {
    let mut pattern = Pattern::new(kind, Basis::Millisecond).values(values).end(End::Repeat);
    pattern.name = Some(name.to_owned());
    pattern
}

fn constant(kind: Kind, name: &str, value: u64, ms: u64) -> Result<Pattern, PatternError> {
    Ok(repeating(kind, name, super::span(value, ms)?))
}

const fn ms_value(ms: u64) -> u64 {
    ms * 1_000_000 + 1
}

const fn rate_value(kbit: u64) -> u64 {
    kbit * 1000 + 1
}

fn geo(ms: u64, seed: u64) -> Result<Vec<Pattern>, PatternError> {
    // A fade every 50 s on average, of 1 s on average; it loses a fifth of the packets sent
    // meanwhile.
    let fades = GilbertElliott {
        good_to_bad: Probability::per_million(20),
        bad_to_good: Probability::per_million(1000),
        loss_good: Probability::ZERO,
        loss_bad: Probability::percent(20),
    };
    Ok(vec![
        constant(Kind::Delay, "orbit", ms_value(270), ms)?,
        constant(Kind::Rate, "carrier", rate_value(20_000), ms)?,
        repeating(Kind::Loss, "rain", super::gilbert_elliott(1, fades, ms, seed)?),
    ])
}

fn leo(ms: u64, seed: u64) -> Result<Vec<Pattern>, PatternError> {
    let mut rng = Rng::stream(seed, 1);
    let (mut delay, mut loss) = (RunsBuilder::default(), RunsBuilder::default());
    while delay.len() < ms {
        // Each satellite has its own delay, which decreases and then increases again.
        let nearest = 20 + rng.below(16);
        for part in 0..15_u64 {
            let away = part.abs_diff(7);
            delay.push(ms_value(nearest + away * 10 / 7), 1000.min(ms - delay.len()))?;
        }
        loss.push(1, 30.min(ms - loss.len()))?;
        loss.push(0, 14_970.min(ms - loss.len()))?;
    }
    Ok(vec![
        repeating(Kind::Delay, "passes", delay.finish()),
        constant(Kind::Rate, "beam", rate_value(100_000), ms)?,
        repeating(Kind::Loss, "handovers", loss.finish()),
    ])
}

/// Rates that go up and down by up to a quarter each 100 ms, within bounds.
fn walking(ms: u64, seed: u64) -> Result<Runs, PatternError> {
    let mut rng = Rng::stream(seed, 2);
    let mut builder = RunsBuilder::default();
    let mut kbit = 10_000_u64;
    while builder.len() < ms {
        let percent = 80 + rng.below(46);
        kbit = (kbit * percent / 100).clamp(1000, 40_000);
        builder.push(rate_value(kbit), 100.min(ms - builder.len()))?;
    }
    Ok(builder.finish())
}

fn mobile(ms: u64, seed: u64) -> Result<Vec<Pattern>, PatternError> {
    Ok(vec![
        repeating(Kind::Rate, "walk", walking(ms, seed)?),
        constant(Kind::Delay, "radio", ms_value(30), ms)?,
    ])
}

fn train(ms: u64, seed: u64) -> Result<Vec<Pattern>, PatternError> {
    let mut rng = Rng::stream(seed, 3);
    let mut stops = RunsBuilder::default();
    while stops.len() < ms {
        // A handover each 8 to 16 s; each tenth time it is a tunnel of 2 to 5 s.
        let between = 8000 + rng.below(8000);
        let gone = match rng.below(10) {
            0 => 2000 + rng.below(3000),
            _ => 50 + rng.below(250),
        };
        stops.push(0, between.min(ms - stops.len()))?;
        stops.push(1, gone.min(ms - stops.len()))?;
    }
    let mut patterns = mobile(ms, seed)?;
    patterns.push(repeating(Kind::Loss, "handovers", stops.finish()));
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_last_as_long_as_asked_and_follow_from_their_seed() {
        for preset in PRESETS {
            let patterns = preset.patterns(61_234, 5).unwrap();
            assert!(patterns.list().iter().all(|pattern| pattern.length() == 61_234));
            assert_eq!(preset.patterns(61_234, 5).unwrap(), patterns);
            assert_eq!(Patterns::read(patterns.to_text().as_bytes()), Ok(patterns));
            assert!(preset.patterns(0, 5).is_err());
        }
        let train = Preset::named("train").unwrap();
        assert_ne!(train.patterns(90_000, 1).unwrap(), train.patterns(90_000, 2).unwrap());
    }
}
