//! How many verdicts are wrong by chance.
//!
//! A verdict at a confidence of 90 % is wrong in at most one of ten cases, and only if the true number is at the bound.
//! Most numbers are far from their bounds. What is left is the probability that a number as far on the other side of
//! the bound was measured here: Student's t of the distance, in the standard errors that the interval implies.

use super::{CONFIDENCE, Judgement, Verdict};
use crate::stats;

/// How many of some verdicts may be wrong by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chance {
    /// Verdicts other than 'open' that rest on random runs.
    pub decided: usize,
    /// How many of them are wrong if every true number is at its bound.
    pub at_most: f64,
    /// How many are wrong by the distance of the numbers from their bounds.
    pub expected: f64,
}

/// How many of these verdicts may be wrong by chance.
pub fn by_chance<'a>(judgements: impl IntoIterator<Item = &'a Judgement>) -> Chance {
    let mut chance = Chance::default();
    for risk in judgements.into_iter().filter_map(risk) {
        chance.decided += 1;
        chance.at_most += 1.0 - CONFIDENCE;
        chance.expected += risk;
    }
    chance
}

/// The probability that a verdict is wrong; `None` if it is open, or if the runs are not random.
fn risk(judgement: &Judgement) -> Option<f64> {
    let estimate = judgement.measured.as_ref().ok()?;
    let [low, high] = estimate.interval.filter(|[low, high]| low < high)?;
    let (value, degrees) = (estimate.value, estimate.n.saturating_sub(1));
    let factor = stats::t_factor(judgement.confidence, degrees);
    // The end of the interval on the bound's side is `factor` standard errors away.
    let beyond = |bound: f64| {
        let reach = if bound > value { high - value } else { value - low };
        let distance = (bound - value).abs();
        if reach > 0.0 { stats::t_tail(factor * distance / reach, degrees) } else { 0.0 }
    };
    let bounds = judgement.claim.bounds;
    let all = [bounds.least, bounds.most].into_iter().flatten();
    match judgement.verdict {
        Verdict::Open => None,
        Verdict::Holds | Verdict::Fitted => Some(all.map(beyond).sum()),
        Verdict::Differs | Verdict::Refuted => {
            let is_passed = |bound: &f64| match bounds.least {
                Some(least) if least == *bound => value < *bound,
                _ => value > *bound,
            };
            Some(all.filter(is_passed).map(beyond).sum())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::verdict::judge;
    use crate::scenario::tests::{read, text};
    use crate::stats::Estimate;

    #[test]
    fn a_number_near_its_bound_may_be_wrong_and_one_far_away_is_not() {
        let claim = "[[claim]]\nid = 'a'\nkind = 'value'\ntext = 't'\nsource = 's'\nformula = '1'\n\
                     at_least = 10\nat_most = 20\n";
        let scenario = read(&format!("{}{claim}", text()), &[]).unwrap();
        let judged = |value: f64, half: f64| {
            let estimate = Estimate::around(value, Some(half), 12);
            judge(&scenario.claims[0], Ok(estimate), 0.9, true).unwrap()
        };
        let expected = |value, half| by_chance(&[judged(value, half)]).expected;
        // An interval that ends at the bound is wrong in 5 % of the cases, on either side.
        assert!((expected(19.0, 1.0) - 0.05).abs() < 1e-3);
        assert!((expected(21.001, 1.0) - 0.05).abs() < 1e-3);
        assert!((expected(8.999, 1.0) - 0.05).abs() < 1e-3);
        assert!(expected(15.0, 0.5) < 1e-6);
        let all = [judged(19.0, 1.0), judged(15.0, 0.5), judged(15.0, 9.0), judged(15.0, 0.0)];
        let chance = by_chance(&all);
        // One is open, and one is not random.
        assert_eq!(chance.decided, 2);
        assert!((chance.at_most - 0.2).abs() < 1e-9 && (chance.expected - 0.05).abs() < 1e-3);
    }
}
