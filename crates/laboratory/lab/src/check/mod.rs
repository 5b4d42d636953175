//! Checks results against claims.
//!
//! A sequential check runs each point that an undecided claim reads until the claim is decided, at
//! most as often as the scenario specifies, or up to its budget if that is larger. The confidence
//! of 90 % is for all looks together, so each look uses a stricter one, even the last. A full check
//! runs each point as often as the scenario specifies and looks once.

mod agreement;
mod chance;
mod document;
mod log;
mod looks;
mod markdown;
mod null;
mod tails;
mod theirs;
mod totals;
mod verdict;

pub use agreement::{Agreement, Comparison, Likeness, agreement, compare};
pub use chance::{Chance, by_chance};
pub use document::{Checked, bounds_changed, document, totals};
pub use log::{Change, LogError, accept, changed, changes, unrecorded};
pub use markdown::{agreement_table, tables};
pub use null::{Survivor, null};
pub use tails::Tail;
pub use totals::Totals;
pub use verdict::{Judgement, Verdict};

use crate::formula::Runs;
use crate::metrics::Metrics;
use crate::reference::Reference;
use crate::runner::{Driver, Results, RunError};
use crate::scenario::{Claim, Scenario};
use verdict::judge;

/// Confidence of verdicts.
const CONFIDENCE: f64 = 0.9;
/// If a mean and its median differ by more than this share, few runs decide the mean.
const TAILED: f64 = 0.05;

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

/// Compares a scenario's claims with runs, which are executed as needed, and with the original
/// simulator's numbers.
///
/// # Errors
/// Fails if a run cannot be executed.
pub fn check(
    driver: &dyn Driver,
    scenario: &Scenario,
    results: &mut Results,
    references: &[Reference],
    mode: Mode,
) -> Result<Vec<Judgement>, RunError> {
    let looks = match mode {
        Mode::Sequential => looks::looks(&scenario.replications),
        Mode::Full => vec![scenario.replications.seeds],
        Mode::Fixed(seeds) => vec![seeds],
    };
    let mut judgements = check_at(driver, scenario, results, &looks, CONFIDENCE)?;
    for judgement in &mut judgements {
        judgement.compare(theirs::interval(scenario, &judgement.claim, references));
    }
    Ok(judgements)
}

/// The same without the original simulator's numbers, with looks after these numbers of runs, which
/// have this confidence together.
fn check_at(
    driver: &dyn Driver,
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
        driver.ensure(scenario, results, &wanted)?;
        for (claim, slot) in scenario.claims.iter().zip(&mut judged) {
            if slot.is_none() {
                let confidence = looks::confidence(index, looks.len(), together);
                let first = first_runs(scenario, claim, results, *look);
                let runs = Runs { scenario, points: &first };
                let measured = claim.formula.evaluate(&runs, confidence);
                *slot = judge(claim, measured, confidence, last);
                if let Some(judgement) = slot {
                    judgement.tail = tails::tail(scenario, claim, &runs);
                }
            }
        }
    }
    Ok(judged.into_iter().flatten().collect())
}

fn points(scenario: &Scenario, claim: &Claim) -> Vec<usize> {
    claim.formula.points(&Runs { scenario, points: &[] })
}

/// The first runs of a claim's points, so that additional stored runs change nothing.
fn first_runs(
    scenario: &Scenario,
    claim: &Claim,
    results: &Results,
    runs: usize,
) -> Vec<Vec<Metrics>> {
    let mut first = vec![Vec::new(); scenario.points.len()];
    for point in points(scenario, claim) {
        if let (Some(slot), Some(all)) = (first.get_mut(point), results.points.get(point)) {
            slot.extend(all.iter().take(runs).cloned());
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::runner::tests::Toy;
    use crate::runner::{Nobody, Runner};
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
        (check(&runner, scenario, &mut results, &[], mode).unwrap(), results)
    }

    #[test]
    fn clear_claims_are_decided_early_and_by_their_own_points() {
        let alt = "transfer_time_s[policy=Alt, loss=1 %]";
        let theirs = "at_most = 25\ndocument = 24\nreference = 31";
        let outside = format!("{theirs}\nreference_interval = [30, 32]");
        let scenario = scenario(
            &(claim("yes", alt, "at_least = 30\nat_most = 31", "")
                + &claim("no", alt, "at_most = 25", "")
                + &claim("why", alt, "at_most = 25", "reason = 'a trace shows it'")
                + &claim("theirs", alt, &outside, "")
                + &claim("no-interval", alt, theirs, "")
                + &claim("reaches-in", alt, theirs, "reference_interval = [24, 38]")
                + &claim(
                    "other-side",
                    alt,
                    "at_least = 35",
                    "reference = 40\nreference_interval = [39, 41]",
                )
                + &claim("ours", alt, &outside, "ours = true")
                + &claim("unknown", alt, &outside, "setup_unknown = true")
                + &claim("chosen", alt, &outside, "fitted = 'chosen by its result'")
                + &claim("chosen-holds", alt, "at_least = 30", "fitted = 'chosen by its result'")),
        );
        let (judgements, results) = checked(&scenario, Mode::Sequential);
        let verdicts: Vec<_> =
            judgements.iter().map(|j| (j.claim.id.as_str(), j.verdict)).collect();
        let (differs, refuted) = (Verdict::Differs, Verdict::Refuted);
        let expected = [
            ("yes", Verdict::Holds),
            ("no", differs),
            ("why", differs),
            ("theirs", refuted),
            ("no-interval", differs),
            ("reaches-in", differs),
            ("other-side", differs),
            ("ours", differs),
            ("unknown", differs),
            ("chosen", differs),
            ("chosen-holds", Verdict::Fitted),
        ];
        assert_eq!(verdicts, expected);
        let unexplained: Vec<_> = judgements.iter().map(Judgement::is_unexplained).collect();
        assert_eq!(unexplained[..4], [false, true, false, false]);
        assert_eq!(judgements[10].reason(), Some("chosen by its result"));
        let lengths: Vec<_> = results.points.iter().map(Vec::len).collect();
        assert!(lengths[1] < 40 && lengths[1] >= 4, "{lengths:?}");
        assert_eq!((lengths[0], lengths[2], lengths[3]), (0, 0, 0));
        let (full, results) = checked(&scenario, Mode::Full);
        assert_eq!(results.points[1].len(), 40);
        assert_eq!((full[0].seeds, full[0].confidence), (40, 0.9));
        // An early look is stricter than one look alone.
        assert!(judgements[0].confidence > 0.95);
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
