//! Generates values by rules.

use super::{Kind, PatternError, Runs, RunsBuilder};
use crate::loss::LossState;
use crate::{GilbertElliott, Loss, Probability, Rng};

/// Returns `value` at these positions, from 1, and 0 between them. The list may be in any order.
///
/// # Errors
/// Fails for a position of 0 or an empty list.
pub fn positions(
    value: u64,
    list: impl IntoIterator<Item = (u64, u64)>,
) -> Result<Runs, PatternError> {
    let mut ranges: Vec<(u64, u64)> = list.into_iter().collect();
    ranges.sort_unstable();
    let mut builder = RunsBuilder::default();
    for (first, last) in ranges {
        if first == 0 || last < first {
            let reason = format!("'{first}-{last}' is not a range of positions, from 1");
            return Err(PatternError::new(reason));
        }
        // Overlapping ranges count once.
        let first = first.max(builder.len() + 1);
        if last >= first {
            builder.push(0, first - 1 - builder.len())?;
            builder.push(value, last - first + 1)?;
        }
    }
    if builder.is_empty() {
        return Err(PatternError::new("there is no position in the list"));
    }
    Ok(builder.finish())
}

/// `count` values: `value` at every `nth` position, starting with the `nth`, and 0 elsewhere.
///
/// # Errors
/// Fails if `nth` is 0.
pub fn every(value: u64, nth: u64, count: u64) -> Result<Runs, PatternError> {
    if nth == 0 {
        return Err(PatternError::new("'every' counts from 1"));
    }
    let mut builder = RunsBuilder::default();
    for _ in 0..count / nth {
        builder.push(0, nth - 1)?;
        builder.push(value, 1)?;
    }
    builder.push(0, count % nth)?;
    Ok(builder.finish())
}

/// The same value `count` times.
///
/// # Errors
/// Fails if the count is too large.
pub fn span(value: u64, count: u64) -> Result<Runs, PatternError> {
    let mut builder = RunsBuilder::default();
    builder.push(value, count)?;
    Ok(builder.finish())
}

/// `count` values: each is `value` with this probability, and 0 otherwise.
///
/// # Errors
/// Fails if a pattern cannot hold the number of changes.
pub fn bernoulli(value: u64, p: Probability, count: u64, seed: u64) -> Result<Runs, PatternError> {
    model(value, &Loss::Uniform(p), count, seed)
}

/// Returns `value` for each packet that the two-state model loses, and 0 otherwise.
///
/// # Errors
/// Fails if a pattern cannot hold the number of changes.
pub fn gilbert_elliott(
    value: u64,
    model_of: GilbertElliott,
    count: u64,
    seed: u64,
) -> Result<Runs, PatternError> {
    model(value, &Loss::GilbertElliott(model_of), count, seed)
}

/// Returns the losses of a link with this model and seed, as a pattern for the same packets.
fn model(value: u64, loss: &Loss, count: u64, seed: u64) -> Result<Runs, PatternError> {
    let mut state = LossState::new(Rng::stream(seed, 0));
    let mut builder = RunsBuilder::default();
    for position in 1..=count {
        let hit = state.takes(loss, position, 0);
        builder.push(if hit { value } else { 0 }, 1)?;
    }
    Ok(builder.finish())
}

impl Kind {
    /// Parses a value of this kind.
    ///
    /// # Errors
    /// Fails if the value is invalid for the kind.
    pub fn value(self, word: &str, bits: &mut Vec<Vec<i64>>) -> Result<u64, PatternError> {
        self.read(word, bits).map_err(PatternError::new)
    }

    /// A value as text.
    pub fn text(self, value: u64, bits: &[Vec<i64>]) -> String {
        self.write(value, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Link, LinkConfig, SendOutcome};

    #[test]
    fn positions_may_overlap_and_stand_in_any_order() {
        let runs = positions(1, [(17, 19), (3, 3), (18, 20)]).unwrap();
        assert_eq!(runs.iter().collect::<Vec<_>>(), [(0, 2), (1, 1), (0, 13), (1, 4)]);
        assert!(positions(1, [(0, 3)]).is_err() && positions(1, [(4, 3)]).is_err());
        assert!(positions(1, []).is_err());
    }

    #[test]
    fn every_nth_counts_from_one() {
        let runs = every(1, 4, 10).unwrap();
        let expected = [(0, 3), (1, 1), (0, 3), (1, 1), (0, 2)];
        assert_eq!(runs.iter().collect::<Vec<_>>(), expected);
        assert!(every(1, 0, 10).is_err());
    }

    #[test]
    fn a_generated_loss_is_that_of_the_model_with_its_seed() {
        let p = Probability::percent(10);
        let runs = bernoulli(1, p, 500, 77).unwrap();
        let mut link: Link<Vec<u8>> =
            Link::new(LinkConfig::new().loss(Loss::Uniform(p)), 77).unwrap();
        let lost: Vec<u64> = (0..500)
            .map(|now| u64::from(link.send(now, vec![0]) != SendOutcome::Accepted))
            .collect();
        let values: Vec<u64> =
            runs.iter().flat_map(|(v, count)| std::iter::repeat_n(v, count as usize)).collect();
        assert_eq!(values, lost);
    }
}
