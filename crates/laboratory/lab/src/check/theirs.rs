//! The original simulator's number for a claim, with its interval.
//!
//! Whether a document is refuted depends on how certain the original simulator's number is. If the scenario's reference
//! has the values of single runs, the claim's own formula is evaluated over them. Otherwise the claim may say the
//! interval.

use super::CONFIDENCE;
use crate::formula::Runs;
use crate::metrics::{METRICS, Metrics};
use crate::reference::Reference;
use crate::scenario::{Claim, Scenario};

/// The interval of the original simulator's number; `None` if the claim has no such number, or if its interval is not
/// known.
pub(super) fn interval(
    scenario: &Scenario,
    claim: &Claim,
    references: &[Reference],
) -> Option<[f64; 2]> {
    claim.reference?;
    computed(scenario, claim, references).or(claim.reference_interval)
}

fn computed(scenario: &Scenario, claim: &Claim, references: &[Reference]) -> Option<[f64; 2]> {
    let mut runs = vec![Vec::new(); scenario.points.len()];
    for reference in references {
        if let (Some(runs), Some(metric)) =
            (runs.get_mut(reference.point), METRICS.get(reference.metric))
        {
            add(runs, &metric.name, &reference.values);
        }
    }
    // A curve can be interpolated between the points that the reference has. Other formulas need all of theirs.
    let mut known = scenario.clone();
    if claim.formula.is_crossing() {
        let mut has_runs = runs.iter().map(|runs| !runs.is_empty());
        known.points.retain(|_| has_runs.next().unwrap_or(false));
        runs.retain(|runs| !runs.is_empty());
    }
    let runs = Runs { scenario: &known, points: &runs };
    let estimate = claim.formula.evaluate(&runs, CONFIDENCE).ok()?;
    estimate.interval.filter(|_| estimate.n >= 2)
}

/// Adds a metric to the runs of a point.
fn add(runs: &mut Vec<Metrics>, metric: &str, values: &[Option<f64>]) {
    if runs.len() < values.len() {
        runs.resize_with(values.len(), Metrics::default);
    }
    for (run, value) in runs.iter_mut().zip(values) {
        if let Some(value) = value {
            run.set(metric, *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{read, text};
    use crate::stats::Estimate;

    fn reference(point: usize, values: &[f64]) -> Reference {
        let mut one = Reference::of_mean(point, 0, Estimate::around(0.0, None, values.len()));
        one.values = values.iter().copied().map(Some).collect();
        one
    }

    #[test]
    fn the_claims_formula_is_evaluated_over_their_runs() {
        let claim = |formula: &str, more: &str| {
            let claim = format!(
                "[[claim]]\nid = 'a'\nkind = 'value'\ntext = 't'\nsource = 's'\nat_least = 1\n\
                 formula = '{formula}'\n{more}\n"
            );
            read(&format!("{}{claim}", text()), &[]).unwrap()
        };
        let references = [reference(0, &[9.0, 10.0, 11.0]), reference(1, &[19.0, 21.0, 23.0])];
        let of = |scenario: &Scenario, references: &[Reference]| {
            interval(scenario, &scenario.claims[0], references)
        };
        let difference =
            "transfer_time_s[loss=1 %, policy=Alt] - transfer_time_s[loss=1 %, policy=Same]";
        let known = claim(difference, "reference = 11");
        // Pairs: 10, 11 and 12, with Student's factor of 2.92 for three of them.
        let [low, high] = of(&known, &references).unwrap();
        assert!((low - (11.0 - 2.92 / 3f64.sqrt())).abs() < 1e-2, "{low}");
        assert!((low + high - 22.0).abs() < 1e-9);
        // Without a number there is no interval, and without all runs only the one that the file has.
        assert_eq!(of(&claim(difference, ""), &references), None);
        assert_eq!(of(&known, &references[..1]), None);
        let told = claim(difference, "reference = 11\nreference_interval = [10, 12.5]");
        assert_eq!(of(&told, &[]), Some([10.0, 12.5]));
    }

    #[test]
    fn a_crossing_needs_only_the_points_around_it() {
        let more = "[[claim]]\nid = 'a'\nkind = 'edge'\ntext = 't'\nsource = 's'\nat_least = 1\nreference = 3\n\
                    formula = 'crossing(loss: transfer_time_s[policy=Same] - 15)'\n";
        let text = text().replace("[\"1 %\", \"3 %\"]", "[\"1 %\", \"3 %\", \"5 %\"]");
        let scenario = read(&format!("{text}{more}"), &[]).unwrap();
        // Same at 1 % and 5 %: 10 and 20 s.
        let references = [reference(0, &[9.9, 10.0, 10.1]), reference(4, &[19.9, 20.0, 20.1])];
        let [low, high] = interval(&scenario, &scenario.claims[0], &references).unwrap();
        assert!(low < 3.0 && 3.0 < high && high - low < 1.0, "{low} {high}");
    }
}
