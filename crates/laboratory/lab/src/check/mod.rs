//! Checks results against claims.
//!
//! A sequential check runs each point that an undecided claim reads until the claim is decided, at
//! most as often as the scenario specifies, or up to its budget if that is larger. The confidence
//! of 90 % is for all looks together, so each look uses a stricter one, even the last. A full check
//! runs each point as often as the scenario specifies and looks once.

mod agreement;
mod log;
mod looks;
mod null;
mod verdict;

pub use agreement::{Agreement, Comparison, Likeness, agreement, compare};
pub use log::{Change, LogError, accept, changes, unrecorded};
pub use null::{Survivor, null};
pub use verdict::{Judgement, Verdict};

use crate::formula::{Missing, Runs};
use crate::runner::{Results, RunError, Runner};
use crate::scenario::{Claim, Scenario};
use crate::stats::Estimate;
use verdict::judge;

/// Confidence of verdicts.
const CONFIDENCE: f64 = 0.9;

/// The number of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As many as necessary.
    Sequential,
    /// As many as the scenario specifies.
    Full,
    /// This many for each point.
    Fixed(usize),
}

/// Compares a scenario's claims with runs, which are executed as needed.
///
/// # Errors
/// Fails if a run cannot be executed.
pub fn check(
    runner: &Runner<'_>,
    scenario: &Scenario,
    results: &mut Results,
    mode: Mode,
) -> Result<Vec<Judgement>, RunError> {
    let looks = match mode {
        Mode::Sequential => looks::looks(&scenario.replications),
        Mode::Full => vec![scenario.replications.seeds],
        Mode::Fixed(seeds) => vec![seeds],
    };
    check_at(runner, scenario, results, &looks, CONFIDENCE)
}

/// The same, with looks after these numbers of runs, which have this confidence together.
fn check_at(
    runner: &Runner<'_>,
    scenario: &Scenario,
    results: &mut Results,
    looks: &[usize],
    together: f64,
) -> Result<Vec<Judgement>, RunError> {
    let mut judged: Vec<Option<Judgement>> = vec![None; scenario.claims.len()];
    for (index, look) in looks.iter().enumerate() {
        let last = index + 1 == looks.len();
        let mut needed = vec![false; scenario.points.len()];
        for (claim, _) in scenario.claims.iter().zip(&judged).filter(|(_, j)| j.is_none()) {
            for point in points(scenario, claim) {
                if let Some(needed) = needed.get_mut(point) {
                    *needed = true;
                }
            }
        }
        let wanted: Vec<_> = needed
            .iter()
            .enumerate()
            .filter(|(_, needed)| **needed)
            .map(|(point, _)| (point, *look))
            .collect();
        runner.ensure(scenario, results, &wanted)?;
        for (claim, slot) in scenario.claims.iter().zip(&mut judged) {
            if slot.is_none() {
                let confidence = looks::confidence(index, looks.len(), together);
                *slot = judge(claim, measure(scenario, claim, results, *look, confidence), last);
            }
        }
    }
    Ok(judged.into_iter().flatten().collect())
}

fn points(scenario: &Scenario, claim: &Claim) -> Vec<usize> {
    claim.formula.points(&Runs { scenario, points: &[] })
}

/// Evaluates a claim's formula over the first runs of its points, so that additional stored runs
/// change nothing.
fn measure(
    scenario: &Scenario,
    claim: &Claim,
    results: &Results,
    runs: usize,
    confidence: f64,
) -> Result<Estimate, Missing> {
    let mut first = vec![Vec::new(); scenario.points.len()];
    for point in points(scenario, claim) {
        if let (Some(slot), Some(all)) = (first.get_mut(point), results.points.get(point)) {
            slot.extend(all.iter().take(runs).cloned());
        }
    }
    claim.formula.evaluate(&Runs { scenario, points: &first }, confidence)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::runner::Nobody;
    use crate::runner::tests::Toy;
    use crate::scenario::tests::{read, text};

    /// The toy's means are 20.5 (Same) and 30.5 (Alt) at 1 %, and 25.5 and 35.5 at 3 %.
    fn scenario(claims: &str) -> Scenario {
        read(&format!("{}{claims}", text().replace("seeds = 10", "seeds = 40")), &[]).unwrap()
    }

    fn claim(id: &str, formula: &str, bounds: &str, more: &str) -> String {
        format!(
            "[[claim]]\nid = '{id}'\nkind = 'value'\ntext = 't'\nsource = 's'\nformula = '{formula}'\n\
             {bounds}\n{more}\n"
        )
    }

    fn checked(scenario: &Scenario, mode: Mode) -> (Vec<Judgement>, Results) {
        let stop = AtomicBool::new(false);
        let experiment = Toy { fails_at: None };
        let runner = Runner {
            experiment: &experiment,
            jobs: 2,
            stop: &stop,
            observer: &Nobody,
            store: None,
        };
        let mut results = Results::default();
        (check(&runner, scenario, &mut results, mode).unwrap(), results)
    }

    #[test]
    fn clear_claims_are_decided_early_and_by_their_own_points() {
        let alt = "transfer_time_s[policy=Alt, loss=1 %]";
        let scenario = scenario(
            &(claim("yes", alt, "at_least = 30\nat_most = 31", "")
                + &claim("no", alt, "at_most = 25", "")
                + &claim("why", alt, "at_most = 25", "reason = 'a trace shows it'")
                + &claim("theirs", alt, "at_most = 25", "document = 24\nreference = 31")
                + &claim("other-side", alt, "at_most = 25", "document = 24\nreference = 20")
                + &claim("evidence", alt, "at_most = 25", "evidence = 'by hand'")),
        );
        let (judgements, results) = checked(&scenario, Mode::Sequential);
        let verdicts: Vec<_> = judgements.iter().map(|j| j.verdict).collect();
        let (differs, refuted) = (Verdict::Differs, Verdict::Refuted);
        assert_eq!(verdicts, [Verdict::Holds, differs, differs, refuted, differs, refuted]);
        let unexplained: Vec<_> = judgements.iter().map(Judgement::is_unexplained).collect();
        assert_eq!(unexplained, [false, true, false, false, true, false]);
        let lengths: Vec<_> = results.points.iter().map(Vec::len).collect();
        assert!(lengths[1] < 40 && lengths[1] >= 4, "{lengths:?}");
        assert_eq!((lengths[0], lengths[2], lengths[3]), (0, 0, 0));
        let (full, results) = checked(&scenario, Mode::Full);
        assert_eq!(results.points[1].len(), 40);
        assert_eq!(full[0].seeds, 40);
    }

    #[test]
    fn a_narrow_claim_takes_all_runs() {
        let alt = "transfer_time_s[policy=Alt, loss=1 %]";
        let scenario = scenario(&claim("edge", alt, "at_most = 30.5", ""));
        let (judgements, results) = checked(&scenario, Mode::Sequential);
        // The mean is on the edge of the bounds. The interval extends over it after any number of
        // runs, and a number within the bounds proves nothing.
        assert_eq!(results.points[1].len(), 40);
        assert_eq!(judgements[0].verdict, Verdict::Open);
        assert!((judgements[0].measured.as_ref().unwrap().value - 30.5).abs() < 0.1);
    }
}
