//! After how many runs a sequential check looks, and how strict each look is.
//!
//! Several looks are wrong more often than one, so all looks share the error of the verdicts (Bonferroni). The last
//! look decides most of the close cases, so it has half of the error. The earlier ones share the other half equally.

use crate::scenario::Replications;

/// The first look comes after this many runs, or a tenth of the scenario's if that is more.
const FIRST: usize = 4;

/// The numbers of runs after which claims are evaluated.
pub(super) fn looks(plan: &Replications) -> Vec<usize> {
    let mut looks = Vec::new();
    let mut next = plan.seeds.div_ceil(10).max(FIRST);
    for most in [plan.seeds, plan.budget] {
        while next < most {
            looks.push(next);
            next = next.saturating_mul(2);
        }
        if looks.last().is_none_or(|last| *last < most) {
            looks.push(most);
        }
        next = next.max(most.saturating_mul(2));
    }
    looks
}

/// The confidence of one of several looks, if they have this confidence together. Looks count from 0.
pub(super) fn confidence(look: usize, looks: usize, together: f64) -> f64 {
    let error = 1.0 - together;
    1.0 - match looks.saturating_sub(1) {
        0 => error,
        last if look >= last => error / 2.0,
        earlier => error / 2.0 / earlier as f64,
    }
}

#[cfg(test)]
mod tests {
    use anabranch_impair::Rng;

    use super::*;
    use crate::stats::mean_estimate;

    #[test]
    fn looks_grow_up_to_the_scenarios_own_number() {
        let looks = |seeds, budget| {
            let (min_seeds, precision, confidence) = (2, None, 0.9);
            looks(&Replications { seeds, budget, min_seeds, precision, confidence })
        };
        assert_eq!(looks(60, 60), [6, 12, 24, 48, 60]);
        assert_eq!(looks(60, 240), [6, 12, 24, 48, 60, 120, 240]);
        assert_eq!(looks(60, 100), [6, 12, 24, 48, 60, 100]);
        assert_eq!(looks(4, 4), [4]);
        assert_eq!(looks(1, 1), [1]);
    }

    #[test]
    fn all_looks_together_have_the_error_of_one() {
        for looks in 1..9 {
            let errors = (0..looks).map(|look| 1.0 - confidence(look, looks, 0.9));
            assert!((errors.sum::<f64>() - 0.1).abs() < 1e-9, "{looks}");
        }
        assert!((confidence(4, 5, 0.9) - 0.95).abs() < 1e-9);
    }

    /// A true number at the very bound of a claim: each verdict is wrong as often as the runs lean to its side.
    #[test]
    fn several_looks_decide_no_more_often_by_chance_than_one() {
        let mut rng = Rng::new(20_261_125);
        let looks = [6, 12, 24, 48, 60];
        let rounds = 2000;
        let decided = (0..rounds).filter(|_| {
            // The sum of twelve uniform numbers is nearly normal.
            let uniform = |rng: &mut Rng| rng.below(1 << 30) as f64 / f64::from(1 << 30);
            let mut normal = || (0..12).map(|_| uniform(&mut rng)).sum::<f64>() - 6.0;
            let values: Vec<f64> = (0..60).map(|_| normal()).collect();
            looks.iter().enumerate().any(|(look, runs)| {
                let confidence = confidence(look, looks.len(), 0.9);
                let estimate = mean_estimate(&values[..*runs], confidence).unwrap();
                estimate.low() > 0.0 || estimate.high() < 0.0
            })
        });
        let percent = 100.0 * decided.count() as f64 / f64::from(rounds);
        assert!((4.0..=10.5).contains(&percent), "{percent} %");
    }
}
