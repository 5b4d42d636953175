//! Holds results against claims.
//!
//! Sequentially: every point that an undecided claim reads gets more runs until the claim is
//! decided, at the most the scenario's own number. The confidence of 90 % is for all looks
//! together, so each look has a stricter one. In full: every point has the scenario's own number
//! of runs, and there is one look.

mod log;
mod verdict;

pub use log::{Change, LogError, accept, changes, unrecorded};
pub use verdict::{Judgement, Verdict};

use crate::formula::{Missing, Runs};
use crate::reference::Reference;
use crate::runner::{Results, RunError, Runner};
use crate::scenario::{Claim, Scenario};
use crate::stats::{self, Estimate};
use verdict::judge;

/// Confidence of verdicts.
const CONFIDENCE: f64 = 0.9;
/// The first look is after so many runs, or a tenth of the scenario's.
const FIRST_LOOK: usize = 4;

/// How many runs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As many as it takes.
    Sequential,
    /// The scenario's own number.
    Full,
    /// So many for each point.
    Fixed(usize),
}

/// Holds a scenario's claims against runs, which are carried out as needed.
///
/// # Errors
/// Runs that cannot be carried out.
pub fn check(
    runner: &Runner<'_>,
    scenario: &Scenario,
    results: &mut Results,
    mode: Mode,
) -> Result<Vec<Judgement>, RunError> {
    let looks = match mode {
        Mode::Sequential => looks(scenario.replications.seeds),
        Mode::Full => vec![scenario.replications.seeds],
        Mode::Fixed(seeds) => vec![seeds],
    };
    let confidence = 1.0 - (1.0 - CONFIDENCE) / looks.len() as f64;
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
                let confidence = if last { CONFIDENCE } else { confidence };
                *slot = judge(claim, measure(scenario, claim, results, *look, confidence), last);
            }
        }
    }
    Ok(judged.into_iter().flatten().collect())
}

/// After how many runs claims are looked at.
fn looks(seeds: usize) -> Vec<usize> {
    let mut looks = Vec::new();
    let mut next = seeds.div_ceil(10).max(FIRST_LOOK);
    while next < seeds {
        looks.push(next);
        next = next.saturating_mul(2);
    }
    looks.push(seeds);
    looks
}

fn points(scenario: &Scenario, claim: &Claim) -> Vec<usize> {
    claim.formula.points(&Runs { scenario, points: &[] })
}

/// A claim's formula over the first runs of its points, so that what else is there changes
/// nothing.
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

/// How our results and another simulator's agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// Numbers that both have.
    pub compared: usize,
    /// Those whose 90 % intervals overlap.
    pub overlapping: usize,
    /// The largest deviation of a mean, in percent of the reference, and where.
    pub largest: Option<(f64, Reference)>,
}

/// Runs the points for which there are reference numbers, and compares.
///
/// # Errors
/// Runs that cannot be carried out.
pub fn compare(
    runner: &Runner<'_>,
    scenario: &Scenario,
    results: &mut Results,
    references: &[Reference],
    seeds: Option<usize>,
) -> Result<Agreement, RunError> {
    let mut points: Vec<usize> = references.iter().map(|reference| reference.point).collect();
    points.sort_unstable();
    points.dedup();
    let seeds = seeds.unwrap_or(scenario.replications.seeds);
    let wanted: Vec<_> = points.into_iter().map(|point| (point, seeds)).collect();
    runner.ensure(scenario, results, &wanted)?;
    Ok(agreement(results, references))
}

/// Compares what there is.
pub fn agreement(results: &Results, references: &[Reference]) -> Agreement {
    let mut agreement = Agreement { compared: 0, overlapping: 0, largest: None };
    for reference in references {
        let runs = results.points.get(reference.point).into_iter().flatten();
        let values: Vec<f64> = runs.filter_map(|run| run.at(reference.metric)).collect();
        let Some(ours) = stats::mean_estimate(&values, CONFIDENCE) else { continue };
        agreement.compared += 1;
        let theirs = &reference.estimate;
        let reach = ours.half.unwrap_or(0.0) + theirs.half.unwrap_or(0.0);
        if (ours.value - theirs.value).abs() <= reach {
            agreement.overlapping += 1;
        }
        let deviation = 100.0 * (ours.value - theirs.value) / theirs.value;
        if agreement.largest.as_ref().is_none_or(|(largest, _)| deviation.abs() > largest.abs()) {
            agreement.largest = Some((deviation, reference.clone()));
        }
    }
    agreement
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
            "[[claim]]\nid = '{id}'\ntext = 't'\nsource = 's'\nformula = '{formula}'\n{bounds}\n{more}\n"
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
                + &claim("why", alt, "at_most = 25", "reason = 'a trace shows it'")),
        );
        let (judgements, results) = checked(&scenario, Mode::Sequential);
        let verdicts: Vec<_> = judgements.iter().map(|j| j.verdict).collect();
        assert_eq!(verdicts, [Verdict::Holds, Verdict::Differs, Verdict::Differs]);
        let unexplained: Vec<_> = judgements.iter().map(Judgement::is_unexplained).collect();
        assert_eq!(unexplained, [false, true, false]);
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
        // The mean is on the edge: the interval reaches over it after any number of runs.
        assert_eq!(results.points[1].len(), 40);
        assert_ne!(judgements[0].verdict, Verdict::Differs);
    }

    #[test]
    fn looks_grow_up_to_the_scenarios_own_number() {
        assert_eq!(looks(60), [6, 12, 24, 48, 60]);
        assert_eq!(looks(4), [4]);
        assert_eq!(looks(1), [1]);
    }

    #[test]
    fn references_are_compared() {
        let scenario = scenario("");
        let reference = |point, value| Reference {
            point,
            metric: 0,
            estimate: Estimate { value, half: Some(0.5), n: 60 },
            incomplete: 0,
        };
        let references = [reference(0, 20.4), reference(1, 61.0)];
        let stop = AtomicBool::new(false);
        let experiment = Toy { fails_at: None };
        let runner = Runner {
            experiment: &experiment,
            jobs: 1,
            stop: &stop,
            observer: &Nobody,
            store: None,
        };
        let mut results = Results::default();
        let agreement = compare(&runner, &scenario, &mut results, &references, Some(20)).unwrap();
        assert_eq!((agreement.compared, agreement.overlapping), (2, 1));
        let (deviation, at) = agreement.largest.unwrap();
        assert!((deviation + 50.0).abs() < 2.0 && at.point == 1, "{deviation}");
    }
}
